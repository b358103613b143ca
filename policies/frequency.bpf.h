/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How fast CPUs can run, for policies that ask how fast one runs now.
 *
 * The loader fills the tables in from cpufreq. Where that says nothing, or where there is nothing
 * to choose from, as all CPUs have one clock or a governor pins it, max_mhz is 0, and the loader
 * warns.
 */
#ifndef FLSCHED_FREQUENCY_BPF_H
#define FLSCHED_FREQUENCY_BPF_H

#include "topology.bpf.h"

FACT_TABLE(u16, min_mhz, MAX_CPUS);
FACT_TABLE(u16, max_mhz, MAX_CPUS);

/* CPUs with the same number run at the same frequency: threads of a core, cores of one clock. */
FACT_TABLE(u16, clock_domains, MAX_CPUS);

static __always_inline u32 clock_domain_of(s32 cpu)
{
	return clock_domains[cpu & (MAX_CPUS - 1)] & (MAX_CPUS - 1);
}

/* Can anybody tell how fast @cpu runs, and does it matter? */
static __always_inline bool is_clocked(s32 cpu)
{
	return max_mhz[cpu & (MAX_CPUS - 1)];
}

static __always_inline u32 min_mhz_of(s32 cpu)
{
	return min_mhz[cpu & (MAX_CPUS - 1)];
}

/*
 * What the kernel measured at @cpu's last tick, in MHz; 0: unknown. The kernel's reading is
 * relative to the CPU's own greatest frequency, so that a small core of a hybrid machine is not
 * taken for a slow one.
 */
static __always_inline u32 measured_mhz(s32 cpu)
{
	return (u64)scx_bpf_cpuperf_cur(cpu) * max_mhz[cpu & (MAX_CPUS - 1)] / SCX_CPUPERF_ONE;
}

#endif /* FLSCHED_FREQUENCY_BPF_H */
