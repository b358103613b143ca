/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many runnable threads a machine has, for policies that act only while there are many.
 *
 * Each CPU counts the tasks that wait there, in its ticks and when it becomes idle, and adds the
 * difference to one sum. What every enqueue asks is another word, which changes seldom.
 */
#ifndef FLSCHED_LOAD_BPF_H
#define FLSCHED_LOAD_BPF_H

#include "topology.bpf.h"

/* SCHED_RR2's own condition for a heavily loaded system. */
KNOB(load_threads, 2, 0, 1000,
     "group threads from this average number of runnable threads per CPU on; 0: always");

struct cpu_load {
	u64 waiting __attribute__((aligned(64)));
};

static struct cpu_load cpu_loads[MAX_CPUS];
static u64 nr_waiting __attribute__((aligned(64)));

/* What follows from the sum, written only if it changes. */
static struct {
	u64 is_loaded __attribute__((aligned(64)));
	u64 most_tasks;
} load;

static u64 nr_cpus;

/* Grouping acts. */
static bool is_loaded(void)
{
	return READ_ONCE(load.is_loaded);
}

/* A CPU gathers so many tasks, 3/2 of its share of all. A larger team spreads over several. */
static u32 most_tasks(void)
{
	return READ_ONCE(load.most_tasks);
}

/* There are so many runnable threads, as if no CPU were idle. */
static void publish_load(u64 threads)
{
	u64 loaded = threads >= load_threads * nr_cpus;
	u64 most = threads * 3 / (nr_cpus * 2);

	if (loaded != is_loaded())
		WRITE_ONCE(load.is_loaded, loaded);
	if (most != most_tasks())
		WRITE_ONCE(load.most_tasks, most);
}

/* @now tasks wait on @cpu. Only that CPU calls it. */
static void set_load(s32 cpu, u64 now)
{
	u64 *waiting = &cpu_loads[cpu & (MAX_CPUS - 1)].waiting;
	u64 change = now - *waiting;

	if (!change)
		return;
	*waiting = now;
	publish_load(__sync_fetch_and_add(&nr_waiting, change) + change + nr_cpus);
}

/* One task of the CPU runs, those in @queue wait. */
static bool takes_more(u64 queue)
{
	return nr_queued(queue) + 1 < most_tasks();
}

/* Half of a CPU's share stays there; also its last task that waits: balance would replace it. */
static bool gives_more(u64 queue)
{
	u64 waiting = nr_queued(queue);

	return waiting > 1 && waiting > most_tasks() / 3;
}

static void init_load(void)
{
	u32 group;

	bpf_for (group, 0, nr_groups)
		nr_cpus += group_facts(group)->nr_cpus;
	publish_load(nr_cpus);
}

#endif /* FLSCHED_LOAD_BPF_H */
