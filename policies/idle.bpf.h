/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The idle CPUs, and how a task gets one.
 *
 * An idle CPU is searched for from a task's last CPU outward: in its own group (a shared cache), in
 * the groups near it, then in others that are known to have one (FLSCHED's paper, 3.2).
 *
 * The kernel's own idle masks (scx_bpf_pick_idle_cpu()) are not used. A CPU is in them only when it
 * has begun to idle, after dispatch; offer() relies on one that is found idle before it checks the
 * queues for the last time. And a mask has the CPUs of a node by number: it is shared by all of
 * them, and not searched from the nearest CPU.
 */
#ifndef FLSCHED_IDLE_BPF_H
#define FLSCHED_IDLE_BPF_H

#include "cpus.bpf.h"

KNOB(reach, 4, 0, MAX_NEAR, "groups of CPUs that are searched beside a CPU's own, nearest first");

static struct cpu_set idle_cpus;

/* Claims the nearest idle CPU for @p. */
static inline s32 claim_idle(struct task_struct *p, s32 cpu, u32 extent)
{
	return claim_near(&idle_cpus, cpu, reach, extent, p);
}

/*
 * Claims an idle CPU for @p on a core that is idle as a whole, if there is one anywhere, else any:
 * the first of the group and not the nearest, so that the same few cores are used and stay fast.
 */
static inline s32 claim_idle_core(struct task_struct *p, s32 cpu)
{
	s32 first = cpu_at(group_of(cpu), 0);
	s32 found = claim_idle(p, first, WHOLE_CORES);

	return found >= 0 ? found : claim_idle(p, first, ANYWHERE);
}

#endif /* FLSCHED_IDLE_BPF_H */
