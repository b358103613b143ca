/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many runnable threads a machine has, for policies that act only while there are many.
 *
 * Each CPU counts the tasks that wait there, in its ticks and when it becomes idle, and adds the
 * difference to one sum. So all CPUs share one word that is written a few times a millisecond at
 * most, and never when a task is queued or taken.
 */
#ifndef FLSCHED_LOAD_BPF_H
#define FLSCHED_LOAD_BPF_H

#include "topology.bpf.h"

/* SCHED_RR2's own condition for a heavily loaded system. */
KNOB(load_threads, 2, 0, 1000,
     "grouping acts from this average number of runnable threads a CPU on; 0: always");

struct cpu_load {
	u64 waiting __attribute__((aligned(64)));
};

static struct cpu_load cpu_loads[MAX_CPUS];
static u64 nr_waiting __attribute__((aligned(64)));
static u64 nr_cpus;

/* @now tasks wait on @cpu. Only that CPU calls it. */
static void set_load(s32 cpu, u64 now)
{
	u64 *waiting = &cpu_loads[cpu & (MAX_CPUS - 1)].waiting;

	if (now != *waiting)
		__sync_fetch_and_add(&nr_waiting, now - *waiting);
	*waiting = now;
}

/* The runnable threads of the machine, as if no CPU were idle. */
static u64 nr_threads(void)
{
	return nr_waiting + nr_cpus;
}

static bool is_loaded(void)
{
	return nr_threads() >= load_threads * nr_cpus;
}

/*
 * How many tasks may wait on a CPU: 3/2 of its share of all threads. A larger team spreads over
 * several CPUs.
 */
static u32 most_waiting(void)
{
	return nr_threads() * 3 / (nr_cpus * 2);
}

static bool takes_more(u64 queue)
{
	return nr_queued(queue) < most_waiting();
}

static void init_load(void)
{
	u32 group;

	bpf_for (group, 0, nr_groups)
		nr_cpus += group_facts(group)->nr_cpus;
}

#endif /* FLSCHED_LOAD_BPF_H */
