/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For `flsched top`: how long tasks wait between a wake-up and their first run, how long CPUs idle,
 * and which tasks are runnable.
 *
 * Only switches are traced. When a task began to wait, the kernel itself notes in its sched_info,
 * for every class, on the clock of the run queue. That clock has just been updated when a switch is
 * traced, so the programs read no clock, except at each CPU's first switch.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

#define OCTAVES 40 /* up to 2^40 ns */
#define PARTS	8  /* buckets of each octave */
#define BUCKETS (OCTAVES * PARTS)
#define COMM	16

/* This process. The clocks are compared when it gets a CPU, which is once before each look. */
const volatile s32 own_pid = 0;

struct cpu_record {
	u64 switches;
	u64 idle_ns;	/* until it idled last */
	u64 idle_since; /* 0: it does not idle, or has not switched yet */
	u64 wake_ups[BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_record);
} cpu_records SEC(".maps");

/* Tasks that lost their CPU while they were runnable: their next wait does not follow a wake-up. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} interrupted SEC(".maps");

/* When this program was attached, on CLOCK_MONOTONIC. */
u64 began;

/* The clock of run queues, less CLOCK_MONOTONIC. */
s64 clock_offset;

extern const struct rq runqueues __ksym;

static __always_inline u32 bucket_of(u64 ns)
{
	u32 octave = 0;

	if (ns < PARTS)
		return ns;
	/* The position of the highest bit. */
#pragma unroll
	for (u32 step = 32; step; step /= 2) {
		if (ns >> octave >> step)
			octave += step;
	}
	if (octave >= OCTAVES)
		return BUCKETS - 1;
	/* Three bits below the highest one. */
	return (octave - 2) * PARTS + ((ns >> (octave - 3)) & (PARTS - 1));
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	const struct rq *rq = bpf_this_cpu_ptr(&runqueues);
	u64 now = rq->clock, since = 0;
	u32 zero = 0, bucket;
	struct cpu_record *cpu = bpf_map_lookup_elem(&cpu_records, &zero);
	u64 *was_interrupted;

	if (!cpu)
		return 0;
	cpu->switches++;
	if (!prev->pid) {
		if (cpu->idle_since)
			cpu->idle_ns += now - cpu->idle_since;
		else if (cpu->switches == 1)
			/* It has not switched before, so it has idled all the time. */
			cpu->idle_ns += bpf_ktime_get_ns() - began;
		cpu->idle_since = 0;
	} else if (preempt || !prev_state) {
		was_interrupted =
			bpf_task_storage_get(&interrupted, prev, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (was_interrupted)
			*was_interrupted = 1;
	}
	if (!next->pid) {
		cpu->idle_since = now;
		return 0;
	}
	if (next->pid == own_pid)
		clock_offset = now - bpf_ktime_get_ns();
	was_interrupted = bpf_task_storage_get(&interrupted, next, 0, 0);
	if (was_interrupted && *was_interrupted) {
		*was_interrupted = 0;
		return 0;
	}
	if (bpf_core_field_exists(next->sched_info.last_queued))
		since = next->sched_info.last_queued;
	if (!since || since > now)
		return 0;
	bucket = bucket_of(now - since);
	if (bucket < BUCKETS)
		cpu->wake_ups[bucket]++;
	return 0;
}

/* A runnable task, as the iterator writes it. */
struct runnable {
	u64 wait_ns; /* 0: it runs */
	u64 runtime_ns;
	u32 pid;
	u32 tgid;
	u32 cpu;
	u32 policy;
	s32 prio;
	u32 nr_cpus_allowed;
	u32 runs;
	char comm[COMM];
	u32 padding;
};

SEC("iter/task")
int on_task(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct runnable task = {};
	const struct rq *rq;
	u64 now = bpf_ktime_get_ns() + clock_offset, since = 0;

	/* One that EEVDF keeps in its queue although it sleeps has another state. */
	if (!p || !p->pid || p->__state)
		return 0;
	task.pid = p->pid;
	task.tgid = p->tgid;
	task.cpu = p->thread_info.cpu;
	task.policy = p->policy;
	task.prio = p->static_prio;
	task.nr_cpus_allowed = p->nr_cpus_allowed;
	rq = bpf_per_cpu_ptr(&runqueues, task.cpu);
	task.runs = rq && rq->curr == p;
	task.runtime_ns = p->se.sum_exec_runtime;
	BPF_CORE_READ_STR_INTO(&task.comm, p, comm);
	if (bpf_core_field_exists(p->sched_info.last_queued))
		since = p->sched_info.last_queued;
	if (!task.runs && since && since < now)
		task.wait_ns = now - since;
	bpf_seq_write(ctx->meta->seq, &task, sizeof(task));
	return 0;
}
