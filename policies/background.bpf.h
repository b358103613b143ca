/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The background: tasks that are to run only when no other task wants to. A CPU that runs one, as
 * it has nothing else to do, is as good as idle for all others: a task that wakes up takes it.
 */
#ifndef FLSCHED_BACKGROUND_BPF_H
#define FLSCHED_BACKGROUND_BPF_H

#include "later.bpf.h"

#define DEFAULT_PRIO 120 /* static_prio of nice 0 */

/* The CPUs that run the background. One leaves the set when it is claimed, or gets other work. */
static struct cpu_set background_cpus;

/* Whether each CPU has put itself there. It is written by that CPU only. */
static struct {
	bool is_in __attribute__((aligned(64)));
} in_background[MAX_CPUS];

static bool is_background(const struct task_struct *p)
{
	return p->static_prio > DEFAULT_PRIO || p->policy == SCHED_IDLE;
}

/* @cpu begins, or goes on, with a task that is of the background, or is not. */
static void set_background(s32 cpu, bool is_in)
{
	bool was_in = in_background[cpu & (MAX_CPUS - 1)].is_in;

	in_background[cpu & (MAX_CPUS - 1)].is_in = is_in;
	if (is_in)
		add_cpu(&background_cpus, cpu);
	else if (was_in)
		remove_cpu(&background_cpus, cpu);
}

/*
 * Return true if the task that @cpu has just taken from its later queue is certainly of the
 * background: one that yields would be eligible by the next tick.
 */
static bool is_next_background(s32 cpu)
{
	return time_before(bpf_jiffies64() + 1, later_state(cpu)->first_key);
}

/* A task of the background, on @cpu, is to leave it for one in the CPU's run queue. */
static void interrupt_background(s32 cpu)
{
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Claims the nearest CPU in the background for @p, which goes to its run queue; or NO_CPU. */
static s32 claim_background(struct task_struct *p, s32 prev_cpu)
{
	s32 cpu = is_background(p) ? NO_CPU
				   : claim_near(&background_cpus, prev_cpu, reach, NEARBY, p);

	if (cpu >= 0)
		interrupt_background(cpu);
	return cpu;
}

/* A task with work waits in the run queue of @cpu. */
static void queued_behind(s32 cpu)
{
	if (in_background[cpu & (MAX_CPUS - 1)].is_in && remove_cpu(&background_cpus, cpu))
		interrupt_background(cpu);
}

#endif /* FLSCHED_BACKGROUND_BPF_H */
