/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that wait on a CPU which a real-time or deadline task holds. A CPU without work finds them
 * as any others. Where all CPUs have work none does, and the CPU itself has no tick of the
 * policy's. So every CPU looks at one other CPU at each tick, at all of them in turn.
 */
#ifndef FLSCHED_HELD_BPF_H
#define FLSCHED_HELD_BPF_H

#include "topology.bpf.h"

#define HELD_TICKS 2 /* a CPU without a tick of the policy's for longer is held, or idle */

/* What each CPU has seen, written by itself only; others read when it had its last tick. */
static struct {
	u64 ticked_at __attribute__((aligned(64))); /* its last tick under a task of the policy's */
	s32 held;				    /* a CPU where a task waits in vain */
	bool is_noted;				    /* if there is one */
} looks[MAX_CPUS];

/* @cpu has a tick. Is it to take a task from the CPU that it looks at? */
static bool find_held(s32 cpu)
{
	u64 now = bpf_jiffies64();
	s32 other = (cpu + now) % scx_bpf_nr_cpu_ids();
	bool is_held = other != cpu &&
		       now - READ_ONCE(looks[other & (MAX_CPUS - 1)].ticked_at) > HELD_TICKS;

	WRITE_ONCE(looks[cpu & (MAX_CPUS - 1)].ticked_at, now);
	looks[cpu & (MAX_CPUS - 1)].held = other;
	looks[cpu & (MAX_CPUS - 1)].is_noted = is_held && nr_queued(run_queue(other));
	return looks[cpu & (MAX_CPUS - 1)].is_noted;
}

/* The CPU from which @cpu is to take a task, once; or NO_CPU. */
static s32 noted_held(s32 cpu)
{
	if (!looks[cpu & (MAX_CPUS - 1)].is_noted)
		return NO_CPU;
	looks[cpu & (MAX_CPUS - 1)].is_noted = false;
	return looks[cpu & (MAX_CPUS - 1)].held;
}

/* Takes a task from there. */
static inline bool take_held(s32 cpu)
{
	s32 held = noted_held(cpu);

	return held >= 0 && scx_bpf_dsq_move_to_local(run_queue(held), 0);
}

#endif /* FLSCHED_HELD_BPF_H */
