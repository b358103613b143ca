/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's types as far as they are modelled. src/env/abi.rs has the same ones; sim_layout in
 * ops.h lets the simulator check that the two agree.
 */
#ifndef SIM_TYPES_H
#define SIM_TYPES_H

typedef unsigned char u8, __u8;
typedef unsigned short u16, __u16;
typedef unsigned int u32, __u32;
typedef unsigned long u64, __u64;
typedef signed char s8, __s8;
typedef short s16, __s16;
typedef int s32, __s32, pid_t;
typedef long s64, __s64;
typedef unsigned long size_t;
typedef _Bool bool;
#define true	 1
#define false	 0
#define NULL	 ((void *)0)
#define offsetof __builtin_offsetof

#define EPERM	   1
#define ENOENT	   2
#define E2BIG	   7
#define EAGAIN	   11
#define ENOMEM	   12
#define EBUSY	   16
#define EEXIST	   17
#define ENODEV	   19
#define EINVAL	   22
#define ENOSPC	   28
#define EOPNOTSUPP 95

#define NUMA_NO_NODE	(-1)
#define CLOCK_MONOTONIC 1

/* Bits of task_struct's flags. */
#define PF_IDLE		  0x00000002
#define PF_EXITING	  0x00000004
#define PF_WQ_WORKER	  0x00000020
#define PF_KTHREAD	  0x00200000
#define PF_NO_SETAFFINITY 0x04000000

#define SIM_MAX_CPUS 4096

typedef struct cpumask {
	u64 bits[SIM_MAX_CPUS / 64];
} cpumask_t;

/* What a process has mapped, in pages: of the kernel's kinds only MM_SHMEMPAGES is counted. */
enum {
	MM_FILEPAGES,
	MM_ANONPAGES,
	MM_SWAPENTS,
	MM_SHMEMPAGES,
	NR_MM_COUNTERS,
};

struct percpu_counter {
	s64 count;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
};

/* No program has a file. */
struct mm_struct {
	struct percpu_counter rss_stat[NR_MM_COUNTERS];
	struct file *exe_file;
};

/* All tasks are in the root cgroup. */
struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

/* What the threads of a process share. */
struct signal_struct {
	s32 nr_threads;
};

struct sched_entity {
	u64 sum_exec_runtime;
	u64 exec_start;
};

struct sched_ext_entity {
	u64 slice;
	u64 dsq_vtime;
	u64 ddsp_dsq_id;
	u64 ddsp_enq_flags;
	u64 runnable_at; /* in jiffies */
	u32 flags;
	u32 weight;
	s32 sticky_cpu;
	s32 holding_cpu;
	s32 selected_cpu;
	bool disallow;
};

struct task_struct {
	pid_t pid;
	pid_t tgid;
	u32 flags;
	u32 policy;
	s32 prio;
	s32 static_prio;
	s32 normal_prio;
	s32 nr_cpus_allowed;
	s32 on_cpu;
	s32 on_rq;
	s32 wake_cpu;
	s32 recent_used_cpu;
	u16 migration_disabled;
	u64 start_time;
	u64 start_boottime;
	u64 nvcsw;
	u64 nivcsw;
	struct sched_entity se;
	struct sched_ext_entity scx;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	const struct css_set *cgroups;
	const cpumask_t *cpus_ptr;
	char comm[16];
	struct signal_struct own_signal; /* the leader's is everybody's */
	struct mm_struct own_mm;	 /* and so is this */
	cpumask_t cpus_mask;
};

#define SCX_SLICE_DFL (20 * 1000000UL)
#define SCX_SLICE_INF (~0UL)

enum scx_dsq_id_flags : u64 {
	SCX_DSQ_FLAG_BUILTIN = 1UL << 63,
	SCX_DSQ_FLAG_LOCAL_ON = 1UL << 62,
	SCX_DSQ_INVALID = SCX_DSQ_FLAG_BUILTIN | 0,
	SCX_DSQ_GLOBAL = SCX_DSQ_FLAG_BUILTIN | 1,
	SCX_DSQ_LOCAL = SCX_DSQ_FLAG_BUILTIN | 2,
	SCX_DSQ_LOCAL_ON = SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON,
	SCX_DSQ_LOCAL_CPU_MASK = 0xffffffffUL,
};

enum scx_enq_flags : u64 {
	SCX_ENQ_WAKEUP = 1UL << 0,
	SCX_ENQ_HEAD = 1UL << 4,
	SCX_ENQ_CPU_SELECTED = 1UL << 10,
	SCX_ENQ_PREEMPT = 1UL << 32,
	SCX_ENQ_REENQ = 1UL << 40,
	SCX_ENQ_LAST = 1UL << 41,
};

enum scx_deq_flags : u64 {
	SCX_DEQ_SLEEP = 1UL << 0,
	SCX_DEQ_CORE_SCHED_EXEC = 1UL << 32,
};

enum scx_wake_flags : u64 {
	SCX_WAKE_FORK = 1UL << 2,
	SCX_WAKE_TTWU = 1UL << 3,
	SCX_WAKE_SYNC = 1UL << 4,
};

enum scx_kick_flags : u64 {
	SCX_KICK_IDLE = 1UL << 0,
	SCX_KICK_PREEMPT = 1UL << 1,
	SCX_KICK_WAIT = 1UL << 2,
};

enum scx_pick_idle_cpu_flags : u64 {
	SCX_PICK_IDLE_CORE = 1UL << 0,
	SCX_PICK_IDLE_IN_NODE = 1UL << 1,
};

enum scx_ent_flags : u32 {
	SCX_TASK_QUEUED = 1U << 0,
	SCX_TASK_RESET_RUNNABLE_AT = 1U << 2,
	SCX_TASK_DEQD_FOR_SLEEP = 1U << 3,
};

enum scx_dsq_iter_flags : u64 {
	SCX_DSQ_ITER_REV = 1UL << 16,
};

enum scx_public_consts : u64 {
	SCX_CPUPERF_ONE = 1024,
};

enum scx_ops_flags : u64 {
	SCX_OPS_KEEP_BUILTIN_IDLE = 1UL << 0,
	SCX_OPS_ENQ_LAST = 1UL << 1,
	SCX_OPS_ENQ_EXITING = 1UL << 2,
	SCX_OPS_SWITCH_PARTIAL = 1UL << 3,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 1UL << 4,
	SCX_OPS_ALLOW_QUEUED_WAKEUP = 1UL << 5,
	SCX_OPS_BUILTIN_IDLE_PER_NODE = 1UL << 6,
};

struct scx_cpu_acquire_args {
};

enum scx_cpu_preempt_reason { SCX_CPU_PREEMPT_RT, SCX_CPU_PREEMPT_DL, SCX_CPU_PREEMPT_STOP };

struct scx_cpu_release_args {
	enum scx_cpu_preempt_reason reason;
	struct task_struct *task;
};

struct scx_init_task_args {
	bool fork;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_exit_info {
	s32 kind;
	s64 exit_code;
	const char *reason;
	const char *msg;
};

#endif
