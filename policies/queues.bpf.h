/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One run queue a CPU, and how a CPU that has nothing to do finds a task in another one's.
 *
 * Which CPUs of a group perhaps have tasks to give is one word on a cache line of its own, written
 * only when a bit changes. A CPU without work looks into a few of those queues, nearest first; it
 * never looks at all CPUs.
 */
#ifndef FLSCHED_QUEUES_BPF_H
#define FLSCHED_QUEUES_BPF_H

#include "topology.bpf.h"

#define PULL_TRIES 4 /* queues that a CPU without work looks into, in each group */

/* A bit for each CPU of a group: perhaps it has tasks in its run queue to give. */
struct queued_word {
	u64 bits __attribute__((aligned(64)));
};

static struct queued_word queued_words[MAX_GROUPS];

static u64 *queued_in(u32 group)
{
	return &queued_words[group & (MAX_GROUPS - 1)].bits;
}

/*
 * @cpu's queue is empty, perhaps because others have taken all it had: on a machine with many CPUs
 * such bits would soon use up everybody's tries. Whoever is about to queue a task there, and has
 * not yet done so, is missed here; the tick sees to that.
 */
static void forget(s32 cpu)
{
	u64 *queued = queued_in(group_of(cpu));

	if (nr_queued(run_queue(cpu)))
		return;
	clear_bits(queued, bit_of(cpu));
	if (nr_queued(run_queue(cpu)))
		set_bits(queued, bit_of(cpu));
}

/* A task from a queue of @group, the nearest to bit @from first. */
static bool pull_from(u32 group, u64 but, u32 from)
{
	u64 word = *queued_in(group) & ~but;
	u32 tries;

	if (!word)
		return false;
	bpf_for (tries, 0, PULL_TRIES) {
		u32 bit;

		if (!word)
			break;
		bit = first_bit_from(word, from);
		if (scx_bpf_dsq_move_to_local(run_queue(cpu_at(group, bit)), 0))
			return true;
		word &= ~(1ULL << bit);
		forget(cpu_at(group, bit));
	}
	return false;
}

/* A task for @cpu from its own group, else from the @reach nearest others. */
static bool pull_near(s32 cpu, u32 reach)
{
	u32 own = group_of(cpu);
	u32 from = from_bit(cpu);
	u32 near = group_facts(own)->nr_near;
	u32 distance;

	if (pull_from(own, bit_of(cpu), from))
		return true;
	if (!near)
		return false;
	bpf_for (distance, 1, reach + 1) {
		if (distance > near)
			break;
		if (pull_from(near_group(own, distance), 0, from))
			return true;
	}
	return false;
}

#endif /* FLSCHED_QUEUES_BPF_H */
