/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a task that waits in a CPU's queue gets to an idle CPU anywhere: the CPU where it waits
 * claims one for it.
 */
#ifndef FLSCHED_OFFERS_BPF_H
#define FLSCHED_OFFERS_BPF_H

#include "queues.bpf.h"

#define OFFERS 32 /* tasks of a queue that are offered at once */

/* Tasks of a queue are equal: the first one that may run on @cpu is taken. */
static bool take_from(struct queues *queues, s32 from, s32 cpu)
{
	return scx_bpf_dsq_move_to_local(queues->first + from, 0);
}

/*
 * @p waits in @cpu's queue, and other CPUs may take it. If a CPU is idle, it is woken to take @p.
 * A CPU that becomes idle adds itself to the idle CPUs and then checks the queues; this function
 * adds @cpu to the queues to check and then checks the idle CPUs. So one of the two finds the
 * other, unless it checks the queue before the kernel has added @p: that is when the policy's
 * enqueue has returned. Then @p waits for the next tick of @cpu, at most. True if a CPU was woken.
 */
static bool offer(struct queues *queues, struct task_struct *p, s32 cpu, u32 extent)
{
	add_cpu(&queues->cpus, cpu);
	return offer_to(claim_idle(p, cpu, extent), queues, cpu, SCX_KICK_IDLE);
}

/*
 * Offers the first tasks of @cpu's queue to CPUs in @set, wherever these are; if @whole, to cores
 * that are idle as a whole before others. How many were woken.
 */
__noinline u32 offer_first(struct queues *queues __arg_nonnull, struct cpu_set *set __arg_nonnull,
			   s32 cpu, bool whole, u64 kick)
{
	struct task_struct *p;
	u32 tried = 0, woken = 0;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, queues->first + cpu, 0) {
		if (tried++ >= OFFERS)
			break;
		if (is_pinned(p))
			continue;
		add_cpu(&queues->cpus, cpu);
		/* There is none. A set bit only means "perhaps". */
		if (is_empty(set))
			break;
		woken += offer_to(whole ? claim_idle_core(p, cpu)
					: claim_near(set, cpu, reach, ANYWHERE, p),
				  queues, cpu, kick);
	}
	bpf_rcu_read_unlock();
	return woken;
}

static u32 offer_waiting(struct queues *queues, struct cpu_set *set, s32 cpu, bool whole, u64 kick)
{
	u32 woken = offer_first(queues, set, cpu, whole, kick);

	return woken ?: offer_rest(queues, set, cpu, OFFERS, kick);
}

#endif /* FLSCHED_OFFERS_BPF_H */
