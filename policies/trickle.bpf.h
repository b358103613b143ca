/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A trickle of CPU time for tasks that wait below one which never blocks: now and then the one that
 * has waited longest, whatever its level, has a turn of one tick. With many of them such turns come
 * more often, and are shorter (turns.bpf.h), so that each has one in time.
 */
#ifndef FLSCHED_TRICKLE_BPF_H
#define FLSCHED_TRICKLE_BPF_H

#include "levels.bpf.h"
#include "turns.bpf.h"
#include "yield_to.bpf.h"

/* The kernel's real-time throttling leaves 5 % to the rest; so does a tick of 4 ms in 100 ms. */
KNOB(trickle_us, 100000, 0, 10000000,
     "a task below others gets a turn of one tick this often, in microseconds; 0: after 10 s");

/* Written only by that CPU. */
struct trickle {
	u64 searched_at __attribute__((aligned(64))); /* when a task was searched last */
	u64 crowd;  /* most that have waited at once, since none had for long */
	s32 next;   /* the task that was found, or 0 */
	bool is_on; /* the task that runs has such a turn */
};

static struct trickle trickles[MAX_CPUS];

static struct trickle *trickle_on(s32 cpu)
{
	return &trickles[cpu & (MAX_CPUS - 1)];
}

/* The task that runs on @cpu is below others, and has a short turn, which nothing interrupts. */
static bool is_trickle(s32 cpu)
{
	return trickle_on(cpu)->is_on;
}

/*
 * The task below @level that has waited longest on @cpu, and for @least_ns, or 0; any that has
 * waited for LONGEST_NS will do. All tasks that wait there are looked at, unless one has waited
 * for so long: where thousands do, it is one of the first.
 */
__noinline s32 find_starving(s32 cpu, u32 level, u64 least_ns)
{
	u64 now = bpf_jiffies64(), least = least_ns / tick_ns;
	struct task_struct *p;
	s32 starving = 0;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, run_queue(cpu), 0) {
		u64 waited = now - p->scx.runnable_at;

		if (level_of(p) <= level || waited < least)
			continue;
		starving = p->pid;
		if (waited * tick_ns >= LONGEST_NS)
			break;
		least = waited + 1;
	}
	bpf_rcu_read_unlock();
	return starving;
}

/*
 * For so many tasks turns are paced on @cpu, where @waiting wait now. As those of a crowd leave one
 * by one, the last ones have waited as long as the first: they must not have turns ever less often.
 */
static u64 trickle_crowd(s32 cpu, u64 waiting)
{
	struct trickle *trickle = trickle_on(cpu);

	if (!waiting || trickle->crowd < waiting)
		trickle->crowd = waiting;
	return trickle->crowd;
}

/*
 * Return true if one of the @waiting tasks on @cpu, which runs one of @level, must have such a
 * turn. They are looked at once a trickle; of many, so often that each has a turn in time.
 */
static bool finds_starving(s32 cpu, u32 level, u64 waiting)
{
	u64 now = scx_bpf_now(), every_ns = US_TO_NS(trickle_us) ?: LONGEST_NS / 10;
	u64 pace_ns = LONGEST_NS * 3 / 4 / trickle_crowd(cpu, waiting);
	struct trickle *trickle = trickle_on(cpu);

	if (every_ns > pace_ns)
		every_ns = pace_ns;
	/* At the nearest tick: at the next one, the pace could be half of that. */
	if (now - trickle->searched_at + tick_ns / 2 < every_ns)
		return false;
	trickle->searched_at = now;
	trickle->next = find_starving(cpu, level, trickle_us ? every_ns : LONGEST_NS);
	if (!trickle->next)
		trickle->crowd = 0;
	return trickle->next;
}

/*
 * Takes this task from @cpu's queue, if it still waits there, for a turn of a tick. It is searched
 * in the queue, as the kernel no longer finds a task by its number when that exits.
 */
__noinline bool take_for_a_tick(s32 cpu, s32 pid)
{
	struct task_struct *p;
	bool taken = false;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, run_queue(cpu), 0) {
		if (p->pid != pid)
			continue;
		if ((bpf_jiffies64() - p->scx.runnable_at) * tick_ns < LONGEST_NS / 4)
			trickle_on(cpu)->crowd = 0;
		taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		if (taken)
			scx_bpf_task_set_slice(p, tick_ns);
		break;
	}
	bpf_rcu_read_unlock();
	return taken;
}

/* @cpu chooses its next task: the one that was found, if any. Any other turn is no trickle. */
static bool take_starving(s32 cpu)
{
	struct trickle *trickle = trickle_on(cpu);

	trickle->is_on = trickle->next && take_for_a_tick(cpu, trickle->next);
	trickle->next = 0;
	if (trickle->is_on)
		limit_turn(cpu, SIDE_TURN);
	return trickle->is_on;
}

#endif /* FLSCHED_TRICKLE_BPF_H */
