/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the lengths of queues become even while all CPUs have work. A task that computes, or yields
 * to others, and never sleeps keeps its CPU from becoming idle and from taking a task for that
 * reason.
 */
#ifndef FLSCHED_BALANCE_BPF_H
#define FLSCHED_BALANCE_BPF_H

#include "queues.bpf.h"

/* In jiffies: when each CPU last compared its queue with those of others. */
static struct {
	u64 at __attribute__((aligned(64)));
} compared[MAX_CPUS];

/*
 * Takes a task for @cpu, which has work, from a CPU nearby whose queue is longer by two or more and
 * has at least @least tasks. At every call if no task waits on @cpu, else once a tick.
 */
static bool pull_longer(struct queues *queues, s32 cpu, u32 least)
{
	u64 *compared_at = &compared[cpu & (MAX_CPUS - 1)].at;
	u32 waiting = nr_queued(queues->first + cpu);
	u64 now = bpf_jiffies64();

	if (waiting && *compared_at == now)
		return false;
	*compared_at = now;
	return pull_near(queues, cpu, waiting + 2 > least ? waiting + 2 : least);
}

#endif /* FLSCHED_BALANCE_BPF_H */
