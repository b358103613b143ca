/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPUs are near each other, for policies that search for one.
 *
 * CPUs that share a last-level cache form a group; a larger cache makes several groups. A group has
 * at most 64 CPUs, so that a property of all of them (which are idle, which have work to offer) is
 * one word, and a search for a CPU costs the same on a machine with 4 CPUs and on one with 1,024.
 *
 * Within a group, bits are laid out by threads: the first thread of each core, then the second one
 * of each, and so on. Shifting by the number of cores goes from a thread to its sibling.
 *
 * The loader fills in the tables from the topology that the kernel reports. If that is not
 * consistent it warns, and treats all CPUs as equally near.
 */
#ifndef FLSCHED_TOPOLOGY_BPF_H
#define FLSCHED_TOPOLOGY_BPF_H

#include "common.bpf.h"

#define MAX_CPUS   4096
#define MAX_GROUPS 1024
#define GROUP_CPUS 64
#define MAX_NEAR   14
#define MAX_RUNS   8
#define RINGS	   4
#define SUMMARY	   64 /* bits of a word for all groups; with more groups, neighbours share one */

/* Where a CPU is; the group of an offline CPU does not exist. */
struct place {
	u16 group;
	u16 bit;
};

/* Successive bits whose CPUs are @step apart (1 or 2), all in one word of the kernel's CPU masks.
 */
struct run {
	u16 cpu;
	u8 bit;
	u8 nr;
	u8 step;
	u8 padding;
};

/*
 * A group: near[] lists other groups, nearest first; rings[] all groups by their distance, the last
 * ring those that are farther, as bits of a word for all groups; missing has the bits that stand
 * for no CPU. Without runs the CPUs have irregular numbers.
 */
struct group {
	u64 missing;
	u64 rings[RINGS];
	u16 cores;
	u16 threads;
	u16 nr_cpus;
	u16 nr_near;
	u16 near[MAX_NEAR];
	u16 cpus[GROUP_CPUS];
	u16 nr_runs;
	struct run runs[MAX_RUNS];
};

FACT_TABLE(struct place, places, MAX_CPUS);
FACT_TABLE(struct group, groups, MAX_GROUPS);
FACT(nr_groups);
FACT(summary_shift); /* so many groups share a bit, as a power of two */

/* A policy's second and third queue of each CPU, after the run queues of all. */
static __always_inline u64 second_queue(s32 cpu)
{
	return MAX_CPUS + cpu;
}

static __always_inline u64 third_queue(s32 cpu)
{
	return 2 * MAX_CPUS + cpu;
}

static __always_inline u32 group_of(s32 cpu)
{
	return places[cpu & (MAX_CPUS - 1)].group;
}

static __always_inline bool is_online(s32 cpu)
{
	return group_of(cpu) < nr_groups;
}

static __always_inline u64 bit_of(s32 cpu)
{
	return 1ULL << (places[cpu & (MAX_CPUS - 1)].bit & (GROUP_CPUS - 1));
}

/* The number of @cpu's bit in its group's word. */
static __always_inline u32 cpu_index(s32 cpu)
{
	return places[cpu & (MAX_CPUS - 1)].bit & (GROUP_CPUS - 1);
}

static __always_inline const volatile struct group *group_facts(u32 group)
{
	/* The compiler may know its range, and drops the check that the verifier needs. */
	barrier_var(group);
	return &groups[group & (MAX_GROUPS - 1)];
}

/* The group that is @distance-th nearest to @group; 0 is itself. */
static __always_inline u32 near_group(u32 group, u32 distance)
{
	u32 index = distance - 1;

	return distance && index < MAX_NEAR ? group_facts(group)->near[index] : group;
}

static __always_inline s32 cpu_at(u32 group, u32 bit)
{
	return group_facts(group)->cpus[bit & (GROUP_CPUS - 1)];
}

static __always_inline u64 bits_up_to(u32 bits)
{
	return bits >= GROUP_CPUS ? ~0ULL : (1ULL << (bits & (GROUP_CPUS - 1))) - 1;
}

/* The number of bits that may stand for a CPU. */
static __always_inline u32 group_size(u32 group)
{
	return group_facts(group)->cores * group_facts(group)->threads ?: 1;
}

/* The bits that stand for a CPU, online or not. */
static __always_inline u64 bits_of_group(u32 group)
{
	return bits_up_to(group_size(group)) & ~group_facts(group)->missing;
}

/* The first bit of @word at or after @from, else the first of all; @word has one. */
static __always_inline u32 first_bit_from(u64 word, u32 from)
{
	u64 later = word >> from << from;
	u32 bit = __builtin_ctzll(later ? later : word);

	/* The compiler knows that it is below 64 and drops later checks; the verifier does not. */
	barrier_var(bit);
	return bit;
}

/* The bits of all threads of @cpu's core, itself included. */
static __always_inline u64 core_bits(s32 cpu)
{
	const volatile struct group *facts = group_facts(group_of(cpu));
	u32 cores = facts->cores, threads = facts->threads;
	u64 bits = bit_of(cpu);
	u32 bit, thread;

	if (threads < 2 || !cores)
		return bits;
	bit = cpu_index(cpu) % cores;
	for (thread = 0; thread < 8 && thread < threads; thread++)
		bits |= 1ULL << ((bit + thread * cores) & (GROUP_CPUS - 1));
	return bits & ~facts->missing;
}

/*
 * The first threads of those cores of which every thread is in @word. It is global, so that the
 * verifier continues after it in one state and not in one for each number of threads.
 */
__noinline u64 whole_cores(u32 group, u64 word)
{
	const volatile struct group *facts = group_facts(group);
	u32 cores = facts->cores, threads = facts->threads;
	u64 all = word | facts->missing;
	u64 whole = word;
	u32 thread;

	if (threads < 2)
		return word;
	for (thread = 1; thread < 8 && thread < threads; thread++)
		whole &= all >> ((thread * cores) & (GROUP_CPUS - 1));
	return whole & ((1ULL << (cores & (GROUP_CPUS - 1))) - 1);
}

#endif /* FLSCHED_TOPOLOGY_BPF_H */
