/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FLSCHED's later queues: each CPU's second queue, of tasks that are not eligible yet. They run
 * when there is no other work. Most of them wait by yielding, for what another task has to do
 * first.
 */
#ifndef FLSCHED_LATER_BPF_H
#define FLSCHED_LATER_BPF_H

#include "offers.bpf.h"

/*
 * The state of a CPU's later queue. It is written only by that CPU, and by one that enqueues there
 * and so holds its run-queue lock; @has_tasks also by one that gives the CPU a task.
 */
struct later_state {
	u32 has_tasks; /* if not, the queue is empty */
	u32 nr_queued; /* tasks in the queue at the last tick */
	u64 first_key; /* nothing in the queue is eligible before this tick */
} __attribute__((aligned(64)));

static struct later_state later_states[MAX_CPUS];

static struct queues later_queues = {.first = MAX_CPUS};

static struct later_state *later_state(s32 cpu)
{
	return &later_states[cpu & (MAX_CPUS - 1)];
}

static u64 later_queue(s32 cpu)
{
	return second_queue(cpu);
}

/* @p is eligible from the tick @key on, and runs sooner only if @cpu has no other work. */
static void insert_later(struct task_struct *p, s32 cpu, u64 slice_ns, u64 key, u64 enq_flags)
{
	struct later_state *state = later_state(cpu);

	if (!READ_ONCE(state->has_tasks) || time_before(key, state->first_key))
		state->first_key = key;
	WRITE_ONCE(state->has_tasks, true);
	scx_bpf_dsq_insert_vtime(p, later_queue(cpu), slice_ns, key, enq_flags);
}

static bool take_later(s32 cpu)
{
	return take(later_queue(cpu), &later_state(cpu)->has_tasks);
}

/*
 * Return true if a task of @cpu's later queue is eligible. The queue is checked only if one can be,
 * because the check takes the queue's lock on kernels before 6.19.
 */
static bool is_later_due(s32 cpu)
{
	struct later_state *state = later_state(cpu);
	u64 now = bpf_jiffies64();

	if (!READ_ONCE(state->has_tasks) || time_before(now, state->first_key))
		return false;
	state->first_key = first_key(later_queue(cpu), now + 1);
	return !time_before(now, state->first_key);
}

/* Return true if @cpu's later queue has tasks: at a tick, and when the CPU becomes idle. */
static bool check_later(s32 cpu)
{
	struct later_state *state = later_state(cpu);

	state->nr_queued = nr_queued(later_queue(cpu));
	return check(state->nr_queued, &state->has_tasks);
}

#endif /* FLSCHED_LATER_BPF_H */
