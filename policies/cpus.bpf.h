/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets of CPUs that all CPUs read and change, such as the idle ones.
 *
 * A set has a word for each group of topology.bpf.h, one bit a CPU, on a cache line of its own. One
 * more word, for the whole machine, says which groups to search. Words are written only where that
 * changes them. So it costs one load to find that a set is empty, and a CPU that is far away is
 * found without a walk over all groups.
 *
 * No lock guards a set. A bit of the machine's word means "perhaps": it is set after a CPU was
 * added, and cleared by a CPU that has searched there and found nothing.
 */
#ifndef FLSCHED_CPUS_BPF_H
#define FLSCHED_CPUS_BPF_H

#include "topology.bpf.h"

#define NO_GROUP   MAX_GROUPS
#define NO_MORE	   (MAX_GROUPS + 1)
#define SUMMARY	   64 /* bits of the machine's word; with more groups several share one */
#define FAR_GROUPS 4  /* groups beyond the near ones that a search nearby checks */

struct cpu_word {
	u64 bits __attribute__((aligned(64)));
};

struct cpu_set {
	u64 groups __attribute__((aligned(64)));
	struct cpu_word cpus[MAX_GROUPS];
};

static __always_inline u64 *cpus_in(struct cpu_set *set, u32 group)
{
	return &set->cpus[group & (MAX_GROUPS - 1)].bits;
}

static __always_inline void add_cpu(struct cpu_set *set, s32 cpu)
{
	u32 group = group_of(cpu);

	set_bits(cpus_in(set, group), bit_of(cpu));
	set_bits(&set->groups, 1ULL << (group % SUMMARY));
}

/* True if it was this call that removed it. */
static __always_inline bool remove_cpu(struct cpu_set *set, s32 cpu)
{
	return clear_bits(cpus_in(set, group_of(cpu)), bit_of(cpu));
}

/*
 * The first group that has CPUs in @set, of the group @from and those after it that share its bit
 * of the machine's word. It is global, like other functions with loops here, so that the verifier
 * checks it once and not at each call.
 */
__noinline u32 first_group(struct cpu_set *set __arg_nonnull, u32 from)
{
	u32 step;

	bpf_for (step, 0, MAX_GROUPS / SUMMARY) {
		u32 group = from + step * SUMMARY;

		if (group >= nr_groups)
			break;
		if (*cpus_in(set, group))
			return group;
	}
	return NO_GROUP;
}

/* The same. If there is none, the bit is cleared; a CPU that is added meanwhile is not lost. */
static u32 first_group_or_clear(struct cpu_set *set, u32 bit)
{
	u32 group = first_group(set, bit);

	if (group != NO_GROUP || !clear_bits(&set->groups, 1ULL << (bit % SUMMARY)))
		return group;
	group = first_group(set, bit);
	if (group != NO_GROUP)
		set_bits(&set->groups, 1ULL << (bit % SUMMARY));
	return group;
}

/* A walk over the groups in which @set has CPUs: those near a group, nearest first, then others. */
struct walk {
	u32 own;   /* the group where it begins */
	u32 near;  /* how many others are near */
	u32 tries; /* groups that it visits at most */
	u64 far;   /* bits of the machine's word not searched yet */
	u32 next;  /* where to go on among the groups that share a bit */
};

static __always_inline struct walk walk_from(s32 cpu, u32 reach, u32 far_groups)
{
	struct walk walk = {.own = group_of(cpu), .far = ~0ULL, .next = NO_GROUP};
	u32 near = group_facts(walk.own)->nr_near;

	walk.near = reach < near ? reach : near;
	walk.tries = walk.near + 1 + far_groups;
	return walk;
}

/* The group at @step, 0 being the own one; NO_GROUP if a step finds none; or NO_MORE. */
static u32 walk_to(struct cpu_set *set, struct walk *walk, u32 step)
{
	u32 bit, group = NO_GROUP;
	u64 far;

	if (step <= walk->near) {
		u32 group = near_group(walk->own, step);

		if (nr_groups <= SUMMARY)
			walk->far &= ~(1ULL << (group % SUMMARY));
		if (!*cpus_in(set, group))
			first_group_or_clear(set, group % SUMMARY);
		return group;
	}
	if (walk->next < nr_groups)
		group = first_group(set, walk->next);
	if (group == NO_GROUP) {
		far = walk->far & set->groups;
		if (!far)
			return NO_MORE;
		bit = first_bit_from(far, walk->own % SUMMARY);
		walk->far &= ~(1ULL << bit);
		group = first_group_or_clear(set, bit);
	}
	walk->next = group + SUMMARY;
	return group;
}

/* The lock is for timers and others that may be called where RCU is not held. */
static bool may_run_on(const struct task_struct *p, s32 cpu)
{
	bool may;

	bpf_rcu_read_lock();
	may = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	bpf_rcu_read_unlock();
	return may;
}

/*
 * Claims one of the CPUs @among in @group that are in @set, for @p: the one that clears the bit has
 * claimed it. The nearest to bit @from, on a core of which all threads are free if there is one.
 */
__noinline s32 claim_in(struct cpu_set *set __arg_nonnull, u32 group, u64 among, u32 from,
			struct task_struct *p __arg_trusted)
{
	u64 *bits = cpus_in(set, group);
	u64 word = *bits & among;
	u64 first = whole_cores(group, word);
	u32 tries;

	bpf_for (tries, 0, GROUP_CPUS) {
		u32 bit;
		s32 cpu;

		if (!first)
			first = word;
		if (!first)
			break;
		bit = first_bit_from(first, from & (GROUP_CPUS - 1));
		cpu = cpu_at(group, bit);
		if (may_run_on(p, cpu) && clear_bits(bits, 1ULL << bit))
			return cpu;
		first &= ~(1ULL << bit);
		word &= ~(1ULL << bit);
	}
	return NO_CPU;
}

/* A search: in a few groups; in all of them; in all of them, for a core that is free as a whole. */
enum extent { NEARBY, ANYWHERE, WHOLE_CORES };

/* Claims the CPU of @set that is nearest to @cpu for @p; @reach: how many groups are near. */
__noinline s32 claim_near(struct cpu_set *set __arg_nonnull, s32 cpu, u32 reach, u32 extent,
			  struct task_struct *p __arg_trusted)
{
	struct walk walk;
	u32 step;

	if (!set->groups)
		return NO_CPU;
	walk = walk_from(cpu, reach, extent == NEARBY ? FAR_GROUPS : nr_groups);
	bpf_for (step, 0, walk.tries) {
		u32 group = walk_to(set, &walk, step);
		u64 among = ~0ULL;
		s32 found;

		if (group == NO_MORE)
			break;
		if (group == NO_GROUP)
			continue;
		if (extent == WHOLE_CORES)
			among = whole_cores(group, *cpus_in(set, group));
		found = claim_in(set, group, among, from_bit(cpu), p);
		if (found >= 0)
			return found;
	}
	return NO_CPU;
}

#endif /* FLSCHED_CPUS_BPF_H */
