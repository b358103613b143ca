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

/* In jiffies: when each CPU had its last tick under a task of the policy's. */
static struct {
	u64 at __attribute__((aligned(64)));
} ticked[MAX_CPUS];

/* @cpu has a tick. The CPU that it looks at, if that is held or idle; or NO_CPU. */
static s32 find_held(s32 cpu)
{
	u64 now = bpf_jiffies64();
	s32 other = (cpu + now) % scx_bpf_nr_cpu_ids();

	ticked[cpu & (MAX_CPUS - 1)].at = now;
	if (other == cpu || now - ticked[other & (MAX_CPUS - 1)].at <= HELD_TICKS)
		return NO_CPU;
	return other;
}

#endif /* FLSCHED_HELD_BPF_H */
