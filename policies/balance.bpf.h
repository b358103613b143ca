/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the lengths of queues become even while all CPUs have work. A task that computes, or yields
 * to others, and never sleeps keeps its CPU from becoming idle and from taking a task for that
 * reason.
 */
#ifndef FLSCHED_BALANCE_BPF_H
#define FLSCHED_BALANCE_BPF_H

#include "queues.bpf.h"

/* In jiffies: when each CPU last compared its queue with those of others; and if it took a task. */
static struct {
	u64 at __attribute__((aligned(64)));
	u64 alone_at; /* and no task waited */
	bool has_taken;
} compared[MAX_CPUS];

/*
 * Return true if @cpu, where no task waits, has not compared its queue for so many ticks. It does
 * so when a turn ends, but a task that wakes up now and then starts its turn again, for ever.
 */
static inline bool is_comparison_due(s32 cpu, u64 ticks)
{
	return bpf_jiffies64() - compared[cpu & (MAX_CPUS - 1)].alone_at >= ticks;
}

/*
 * Takes a task for @cpu, which has work, from a CPU nearby whose queue is longer by two or more and
 * has at least @least tasks. At every call if no task waits on @cpu, else once a tick, and not
 * twice in a row: the task runs now, and those here would wait for as long as other queues are
 * longer.
 */
static bool pull_longer(struct queues *queues, s32 cpu, u32 least)
{
	u32 waiting = nr_queued(queues->first + cpu), here = cpu & (MAX_CPUS - 1);
	bool had_taken = compared[here].has_taken;
	u64 now = bpf_jiffies64();

	compared[here].has_taken = false;
	if (waiting && (had_taken || compared[here].at == now))
		return false;
	compared[here].at = now;
	if (!waiting)
		compared[here].alone_at = now;
	compared[here].has_taken =
		pull_near(queues, cpu, waiting + 2 > least ? waiting + 2 : least);
	return compared[here].has_taken;
}

#endif /* FLSCHED_BALANCE_BPF_H */
