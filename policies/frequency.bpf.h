/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How fast CPUs can run, and how fast each ran when it was last measured.
 *
 * The loader fills in the tables from cpufreq. If that reports nothing, or if there is no choice,
 * because all CPUs have one clock or a governor pins it, max_mhz is 0, and the loader warns.
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

/* A virtual machine's frequency is constant; tests supply frequencies of their own. */
CHOICE(frequency_source, 0, "kernel test",
       "where frequencies come from: the kernel, or, for tests only, a map that the test fills");

enum frequency_source { FROM_KERNEL, FROM_TEST };

struct test_reading {
	u32 mhz;
	u32 age_us;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct test_reading);
} test_readings SEC(".maps");

/* What was last measured of the CPUs of one clock; written by their ticks. */
struct reading {
	u64 at __attribute__((aligned(64)));
	u32 mhz;
};

static struct reading readings[MAX_CPUS];

/* Return true if it is known how fast @cpu runs, and matters. */
static __always_inline bool is_clocked(s32 cpu)
{
	return frequency_source == FROM_TEST || max_mhz[cpu & (MAX_CPUS - 1)];
}

static __always_inline u32 min_mhz_of(s32 cpu)
{
	return min_mhz[cpu & (MAX_CPUS - 1)];
}

/*
 * Records what the kernel measured at @cpu's last tick. The kernel's reading is relative to the
 * CPU's own greatest frequency, so that a small core of a hybrid machine does not count as slow.
 */
static void record_frequency(s32 cpu)
{
	struct reading *reading = &readings[clock_domain_of(cpu)];

	if (!max_mhz[cpu & (MAX_CPUS - 1)])
		return;
	reading->mhz =
		(u64)scx_bpf_cpuperf_cur(cpu) * max_mhz[cpu & (MAX_CPUS - 1)] / SCX_CPUPERF_ONE;
	reading->at = scx_bpf_now();
}

/* What was recorded of @cpu, in MHz; 0 if that is older than @max_age_ns. */
static u32 recent_mhz(s32 cpu, u64 max_age_ns)
{
	const struct reading *reading = &readings[clock_domain_of(cpu)];
	struct test_reading *test;
	u32 key = cpu;

	/* Another CPU's clock may be a little ahead. */
	if (frequency_source == FROM_KERNEL)
		return time_after(scx_bpf_now(), reading->at + max_age_ns) ? 0 : reading->mhz;
	test = bpf_map_lookup_elem(&test_readings, &key);
	return test && US_TO_NS(test->age_us) <= max_age_ns ? test->mhz : 0;
}

#endif /* FLSCHED_FREQUENCY_BPF_H */
