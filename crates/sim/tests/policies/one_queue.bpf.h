/* SPDX-License-Identifier: GPL-2.0-only */
/* The queues of these policies: one for all CPUs, or one per CPU where CPUs are kept apart. */
#include "../../../../policies/common.bpf.h"

#define QUEUE 4096 /* the first of all; those of CPUs have their numbers */

static u64 queue_of(s32 cpu, bool apart)
{
	return apart ? (u64)cpu : QUEUE;
}

static s32 create_queues(void)
{
	u32 cpu;

	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids()) {
		s32 error = scx_bpf_create_dsq(cpu, NUMA_NO_NODE);

		if (error)
			return error;
	}
	return scx_bpf_create_dsq(QUEUE, NUMA_NO_NODE);
}
