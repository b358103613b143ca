/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that wait on a CPU which a real-time or deadline task holds. A CPU without work finds them
 * as any others. Where all CPUs have work, none looks, and the CPU itself has no tick of the
 * policy's. So every CPU looks at one other CPU at each tick, at all of them in turn.
 */
#ifndef FLSCHED_HELD_BPF_H
#define FLSCHED_HELD_BPF_H

#include "topology.bpf.h"

#define HELD_TICKS 2 /* a CPU without a tick of the policy's for longer is held, or idle */
#define ADOPTED	   8 /* tasks that are looked at, or come, at a time from a CPU that is held */
#define NO_QUEUE   (~0ULL)

/* The policy's: the queue of @cpu with a task that must not wait any longer, or NO_QUEUE. */
static u64 urgent_queue(s32 cpu);

/* What each CPU has seen, written by itself only; others read when it had its last tick. */
static struct {
	u64 ticked_at __attribute__((aligned(64))); /* its last tick under a task of the policy's */
	u64 held;				    /* a queue where a task waits in vain */
	bool is_noted; /* if there is one; @held is 0 at first, which is a queue */
} looks[MAX_CPUS];

/* Return true if one of the first tasks in @queue may run on @cpu. */
__noinline bool has_task_for(u64 queue, s32 cpu)
{
	struct task_struct *p;
	bool found = false;
	u32 tried = 0;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, queue, 0) {
		found = may_move_to(p, cpu);
		if (found || ++tried >= ADOPTED)
			break;
	}
	bpf_rcu_read_unlock();
	return found;
}

/* At a tick of @cpu: return true if it is to take a task from the CPU that it looks at. */
static bool find_held(s32 cpu)
{
	u64 now = bpf_jiffies64(), held = NO_QUEUE;
	s32 other = (cpu + now) % scx_bpf_nr_cpu_ids();

	if (other != cpu && now - READ_ONCE(looks[other & (MAX_CPUS - 1)].ticked_at) > HELD_TICKS)
		held = urgent_queue(other);
	if (held != NO_QUEUE && !has_task_for(held, cpu))
		held = NO_QUEUE;
	WRITE_ONCE(looks[cpu & (MAX_CPUS - 1)].ticked_at, now);
	looks[cpu & (MAX_CPUS - 1)].held = held;
	looks[cpu & (MAX_CPUS - 1)].is_noted = held != NO_QUEUE;
	return held != NO_QUEUE;
}

/* The queue from which @cpu is to take a task, once; or NO_QUEUE. */
static u64 noted_held(s32 cpu)
{
	if (!looks[cpu & (MAX_CPUS - 1)].is_noted)
		return NO_QUEUE;
	looks[cpu & (MAX_CPUS - 1)].is_noted = false;
	return looks[cpu & (MAX_CPUS - 1)].held;
}

/*
 * Moves the first tasks in the queue @held to @own, a queue of @cpu. Return true if there were any.
 */
__noinline bool adopt(s32 cpu, u64 held, u64 own)
{
	struct task_struct *p;
	bool adopted = false;
	u32 tried = 0;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, held, 0) {
		if (tried++ >= ADOPTED)
			break;
		if (may_move_to(p, cpu) && scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, own, 0))
			adopted = true;
	}
	bpf_rcu_read_unlock();
	return adopted;
}

#endif /* FLSCHED_HELD_BPF_H */
