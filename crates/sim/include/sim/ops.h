/* SPDX-License-Identifier: GPL-2.0-only */
/* A policy's callbacks: the table by which the simulated kernel knows them. */
#ifndef SIM_OPS_H
#define SIM_OPS_H

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *mask);
	void (*update_idle)(s32 cpu, bool idle);
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u32 timeout_ms;
	u64 flags;
	char name[128];
};

#define BPF_STRUCT_OPS(name, args...)		name(args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) name(args)
#define SCX_OPS_DEFINE(name, ops...)		struct sched_ext_ops name = {ops}

/* The simulator knows by itself how a run ended. */
#define UEI_DEFINE(name)       struct scx_exit_info name
#define UEI_RECORD(name, info) ((name) = *(info))

/* Sizes and places that src/env/abi.rs must agree with. */
__attribute__((used)) const u32 sim_layout[] = {
	sizeof(struct task_struct),
	offsetof(struct task_struct, scx),
	offsetof(struct task_struct, cpus_ptr),
	offsetof(struct task_struct, cpus_mask),
	sizeof(struct sched_ext_ops),
	sizeof(struct sim_map),
	sizeof(struct bpf_iter_scx_dsq),
};

#endif
