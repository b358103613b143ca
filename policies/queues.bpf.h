/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues of which each CPU has one, and how a CPU without work finds a task in another CPU's queue.
 *
 * A set (cpus.bpf.h) holds the CPUs whose queues perhaps have a task that may leave. A CPU without
 * work checks a few of those queues, nearest first, and never all CPUs.
 */
#ifndef FLSCHED_QUEUES_BPF_H
#define FLSCHED_QUEUES_BPF_H

#include "idle.bpf.h"

#define PULL_TRIES 4 /* queues that a CPU without work searches, in each group */
#define NEAR_TRIES 2 /* of which so many are the nearest */

/* Dispatch queues: that of CPU 0 is the first, those of the others follow. */
struct queues {
	struct cpu_set cpus; /* which perhaps have a task that may leave */
	u64 first;
};

static struct queues run_queues;

/* The policy's: takes a task for @cpu from the queue of @from. */
static bool take_from(struct queues *queues, s32 from, s32 cpu);

/* Where the search of @group goes on, at each tick elsewhere. */
static u32 far_bit(u32 group)
{
	return bpf_jiffies64() * (PULL_TRIES - NEAR_TRIES) % group_size(group);
}

/*
 * Takes a task for @cpu from a queue of @group, the nearest first, then others, so that none is
 * hidden for long behind queues whose tasks may not run on this CPU. A queue that is empty leaves
 * the set until a task is added or its CPU has a tick, so that other CPUs do not search it in vain;
 * a task that is just being added is missed until then, too. One whose tasks may not run on this
 * CPU stays: other CPUs may take them. Queues with fewer than @least tasks are left alone.
 */
__noinline bool pull_from(struct queues *queues __arg_nonnull, u32 group, s32 cpu, u32 least)
{
	u64 word = cpus_of(&queues->cpus, group);
	u32 tries;

	if (group == group_of(cpu))
		word &= ~bit_of(cpu);
	bpf_for (tries, 0, PULL_TRIES) {
		u32 bit;
		s32 from;

		if (!word)
			break;
		bit = first_bit_from(word, tries < NEAR_TRIES ? cpu_index(cpu) : far_bit(group));
		word &= ~(1ULL << bit);
		from = cpu_at(group, bit);
		if (least > 1 && nr_queued(queues->first + from) < least)
			continue;
		if (take_from(queues, from, cpu))
			return true;
		if (!nr_queued(queues->first + from))
			remove_cpu(&queues->cpus, from);
	}
	return false;
}

/*
 * Takes a task for @cpu from a queue with @least tasks or more: from its own group, from those
 * near, else from others.
 */
__noinline bool pull_near(struct queues *queues __arg_nonnull, s32 cpu, u32 least)
{
	struct walk walk;
	u32 step;

	if (is_empty(&queues->cpus))
		return false;
	walk = walk_from(cpu, reach, FAR_GROUPS);
	bpf_for (step, 0, walk.tries) {
		u32 group = walk_to(&queues->cpus, &walk, step);

		if (group == NO_MORE)
			break;
		if (group == NO_GROUP)
			continue;
		if (pull_from(queues, group, cpu, least))
			return true;
	}
	return false;
}

/*
 * A CPU that becomes idle checks a few queues only, and not those where another CPU has just found
 * nothing. So an idle CPU that is woken for a task finds here which queue has it. This is written
 * by the CPU that has claimed it, and by itself: an offer is made before the CPU is woken, which
 * orders the two.
 */
struct offered {
	u64 queue __attribute__((aligned(64)));
	bool is_open;
};

static struct offered offered[MAX_CPUS];

/*
 * Wakes @idle, if that is a CPU, which was claimed, for a task in @cpu's queue. True if it is.
 * @kick: how, SCX_KICK_IDLE, or SCX_KICK_PREEMPT if it runs a task that is to make room.
 */
static inline bool offer_to(s32 idle, struct queues *queues, s32 cpu, u64 kick)
{
	struct offered *its = &offered[idle & (MAX_CPUS - 1)];

	if (idle < 0)
		return false;
	WRITE_ONCE(its->queue, queues->first + cpu);
	WRITE_ONCE(its->is_open, true);
	scx_bpf_kick_cpu(idle, kick);
	return true;
}

/*
 * One of the CPUs in @set searches all of @cpu's queue, if that has more tasks than the first ones,
 * @looked_at, which may not run there. True if one does.
 */
static bool offer_rest(struct queues *queues, struct cpu_set *set, s32 cpu, u64 looked_at, u64 kick)
{
	return !is_empty(set) && nr_queued(queues->first + cpu) > looked_at &&
	       offer_to(claim_any(set, cpu), queues, cpu, kick);
}

/* Takes a task that was offered to @cpu while it was idle. */
static inline bool take_offered(s32 cpu)
{
	struct offered *mine = &offered[cpu & (MAX_CPUS - 1)];

	if (!READ_ONCE(mine->is_open))
		return false;
	WRITE_ONCE(mine->is_open, false);
	return scx_bpf_dsq_move_to_local(READ_ONCE(mine->queue), 0);
}

/*
 * Takes the first task of @dsq, a queue of the CPU's own; without @has it is empty. The flag is
 * cleared first: a task that comes meanwhile sets it again.
 */
static inline bool take(u64 dsq, u32 *has)
{
	if (!READ_ONCE(*has))
		return false;
	WRITE_ONCE(*has, false);
	if (!scx_bpf_dsq_move_to_local(dsq, 0))
		return false;
	WRITE_ONCE(*has, true);
	return true;
}

/*
 * Return true if such a queue, in which so many tasks have just been counted, has any. The CPU may
 * have cleared the flag just when another one, which does not hold its lock, gave it a task.
 */
static inline bool check(u64 queued, u32 *has)
{
	if (queued)
		WRITE_ONCE(*has, true);
	return READ_ONCE(*has);
}

/* The key of the first task of @dsq; @none if the queue is empty. */
static inline u64 first_key(u64 dsq, u64 none)
{
	struct task_struct *first;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(dsq);
	if (first)
		none = first->scx.dsq_vtime;
	bpf_rcu_read_unlock();
	return none;
}

/* Sets a flag; a memory barrier, too, as the old value is used. */
static inline void set_and_order(u32 *flag)
{
	u32 old = __sync_fetch_and_or(flag, 1);

	barrier_var(old);
}

#endif /* FLSCHED_QUEUES_BPF_H */
