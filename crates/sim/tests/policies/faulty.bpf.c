/* SPDX-License-Identifier: GPL-2.0-only */
/* A policy with one global queue. The knob `fault` selects an error that it makes. */
#include "../../../../policies/common.bpf.h"

POLICY_BOILERPLATE(faulty)

/* What it does: see FAULTS in ../../src/ext/tests.rs. */
const volatile u64 fault = 0;

/* clang-format off */
STATS(STAT(enqueued, "tasks that were enqueued"))
/* clang-format on */

enum fault {
	NONE,
	TWICE,
	OTHER,
	LATE,
	NO_QUEUE,
	BAD_CPU,
	ERROR,
	STALL,
	FORBIDDEN_CPU,
	VTIME_TO_BUILTIN,
	MIXED,
	BAD_SELECT,
	OVERFLOW,
	BAD_KICK,
	REENQUEUE,
	DESTROY,
	INIT,
	CURRENT,
};

#define QUEUE	    7
#define OTHER_QUEUE 8

static u64 count;
static struct task_struct *previous;

struct interrupt {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct interrupt);
} interrupts SEC(".maps");

s32 BPF_STRUCT_OPS(faulty_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	if (fault == BAD_SELECT && count > 2)
		return scx_bpf_nr_cpu_ids();
	return prev_cpu;
}

static s32 forbidden_cpu(const struct task_struct *p)
{
	u32 cpu;

	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids())
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return cpu;
	return -1;
}

/* False: nothing was done, and the task goes the usual way. */
static bool fail(struct task_struct *p, u64 enq_flags)
{
	switch (fault) {
	case TWICE:
		scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
		return false;
	case OTHER:
		if (previous && previous != p)
			scx_bpf_dsq_insert(previous, QUEUE, SCX_SLICE_DFL, enq_flags);
		previous = p;
		return false;
	case NO_QUEUE:
		scx_bpf_dsq_insert(p, 99, SCX_SLICE_DFL, enq_flags);
		return true;
	case BAD_CPU:
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | scx_bpf_nr_cpu_ids(), SCX_SLICE_DFL,
				   enq_flags);
		return true;
	case ERROR:
		scx_bpf_error("task %d is the %lu-th", p->pid, count);
		return false;
	case STALL:
		return count > 2;
	case FORBIDDEN_CPU:
		if (forbidden_cpu(p) < 0)
			return false;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | forbidden_cpu(p), SCX_SLICE_DFL,
				   enq_flags);
		return true;
	case VTIME_TO_BUILTIN:
		scx_bpf_dsq_insert_vtime(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, count, enq_flags);
		return true;
	case MIXED:
		scx_bpf_dsq_insert_vtime(p, QUEUE, SCX_SLICE_DFL, count, enq_flags);
		return count % 2;
	case BAD_KICK:
		scx_bpf_kick_cpu(-1, 0);
		return false;
	case REENQUEUE:
		scx_bpf_reenqueue_local();
		return false;
	case DESTROY:
		if (scx_bpf_dsq_nr_queued(QUEUE) > 0)
			scx_bpf_destroy_dsq(QUEUE);
		return false;
	default:
		return false;
	}
}

void BPF_STRUCT_OPS(faulty_enqueue, struct task_struct *p, u64 enq_flags)
{
	COUNT(enqueued);
	if (++count > 2 && fail(p, enq_flags))
		return;
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(faulty_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 tries;

	if (fault == OVERFLOW && prev)
		bpf_for (tries, 0, 100)
			scx_bpf_dsq_insert(prev, QUEUE, SCX_SLICE_DFL, 0);
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

void BPF_STRUCT_OPS(faulty_running, struct task_struct *p)
{
	if (fault == LATE)
		scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, 0);
}

static int say_current(void *map, u32 *key, struct interrupt *interrupt)
{
	scx_bpf_error("the current task is %d", bpf_get_current_task_btf()->pid);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(faulty_init)
{
	u32 key = 0;
	struct interrupt *interrupt = bpf_map_lookup_elem(&interrupts, &key);

	if (fault == INIT)
		return -ENOMEM;
	if (fault == CURRENT && interrupt) {
		bpf_timer_init(&interrupt->timer, &interrupts, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&interrupt->timer, say_current);
		bpf_timer_start(&interrupt->timer, 50000000, 0);
	}
	return scx_bpf_create_dsq(QUEUE, NUMA_NO_NODE);
}

/* clang-format off */
SCX_OPS_DEFINE(faulty_ops,
	       .select_cpu	= (void *)faulty_select_cpu,
	       .enqueue		= (void *)faulty_enqueue,
	       .dispatch	= (void *)faulty_dispatch,
	       .running		= (void *)faulty_running,
	       .init		= (void *)faulty_init,
	       .exit		= (void *)faulty_exit,
	       .timeout_ms	= 5000,
	       .name		= "faulty");
