/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that yield wait for another task, but have their turns like all. A crowd of them would take
 * most of a CPU without doing anything. So of the tasks that yield on a CPU only some become due
 * within a tick: the rest of it is for tasks with work, if there are any.
 */
#ifndef FLSCHED_YIELDS_BPF_H
#define FLSCHED_YIELDS_BPF_H

#include "yield_to.bpf.h"

#define YIELDS_A_TICK 8 /* so many tasks that yield become due within a tick */

/* Written only by that CPU. */
static struct {
	u64 next_ns __attribute__((aligned(64))); /* when the next task that yields is due */
} yields[MAX_CPUS];

/*
 * How much later a task that yields on @cpu, where so many tasks wait, is due than others. Where no
 * task has work none waits until then. A few go round with the others: at a barrier, whose waiters
 * yield, any other order costs turns.
 */
static u64 lag_after_yield(s32 cpu, u64 waiting)
{
	u64 now = scx_bpf_now(), step = tick_ns / YIELDS_A_TICK;
	u64 due = yields[cpu & (MAX_CPUS - 1)].next_ns;

	if (waiting < YIELDS_A_TICK)
		return 0;
	if (time_before(due, now))
		due = now;
	if (time_after(due, now + waiting * step))
		due = now + waiting * step;
	yields[cpu & (MAX_CPUS - 1)].next_ns = due + step;
	return due - now;
}

#endif /* FLSCHED_YIELDS_BPF_H */
