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
#define FAR_GROUPS 4 /* groups beyond the near ones that a search nearby checks */

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

static __always_inline u64 cpus_of(struct cpu_set *set, u32 group)
{
	return READ_ONCE(*cpus_in(set, group));
}

static __always_inline bool is_empty(struct cpu_set *set)
{
	return !READ_ONCE(set->groups);
}

static __always_inline u64 summary_bit(u32 group)
{
	return 1ULL << (group >> summary_shift & (SUMMARY - 1));
}

static __always_inline void add_cpu(struct cpu_set *set, s32 cpu)
{
	u32 group = group_of(cpu);

	set_bits(cpus_in(set, group), bit_of(cpu));
	set_bits(&set->groups, summary_bit(group));
}

/* True if it was this call that removed it. */
static __always_inline bool remove_cpu(struct cpu_set *set, s32 cpu)
{
	return clear_bits(cpus_in(set, group_of(cpu)), bit_of(cpu));
}

/*
 * The first group with CPUs in @set, from @from to the last that shares its bit of the machine's
 * word. It is a global BPF function, like others with loops here, so that the verifier checks it
 * once and not at each call.
 */
__noinline u32 first_group(struct cpu_set *set __arg_nonnull, u32 from)
{
	u32 group, end = ((from >> summary_shift) + 1) << summary_shift;

	bpf_for (group, from, end < nr_groups ? end : nr_groups) {
		if (cpus_of(set, group))
			return group;
	}
	return NO_GROUP;
}

/*
 * The same of all groups that share @group's bit. If there is none, the bit is cleared; a CPU that
 * is added meanwhile is not lost.
 */
static u32 first_group_or_clear(struct cpu_set *set, u32 group)
{
	u64 bit = summary_bit(group);
	u32 from = group >> summary_shift << summary_shift;
	u32 first = first_group(set, from);

	if (first != NO_GROUP || !clear_bits(&set->groups, bit))
		return first;
	first = first_group(set, from);
	if (first != NO_GROUP)
		set_bits(&set->groups, bit);
	return first;
}

/* A walk over the groups in which @set has CPUs: those near a group, nearest first, then others. */
struct walk {
	u32 own;   /* the group where it begins */
	u32 near;  /* how many others are near */
	u32 tries; /* groups that it visits at most */
	u32 ring;  /* the ring of equal distance that it has come to */
	u64 far;   /* bits of the machine's word not searched yet */
	u32 next;  /* where to go on among the groups that share a bit, or NO_GROUP */
};

/* A CPU that is offline is near none: a walk from there begins anywhere. */
static __always_inline struct walk walk_from(s32 cpu, u32 reach, u32 far_groups)
{
	struct walk walk = {.own = group_of(cpu), .far = ~0ULL, .next = NO_GROUP};
	u32 near;

	if (walk.own >= nr_groups)
		walk.own = 0;
	near = group_facts(walk.own)->nr_near;
	walk.near = reach < near ? reach : near;
	walk.tries = walk.near + 1 + far_groups;
	return walk;
}

/* The nearest bits of the machine's word that the walk has not come to; 0: there are none. */
static u64 next_ring(struct cpu_set *set, struct walk *walk)
{
	u64 left = walk->far & READ_ONCE(set->groups), far;
	u32 ring = walk->ring;

	for (; ring < RINGS; ring++) {
		barrier_var(ring);
		far = left & group_facts(walk->own)->rings[ring & (RINGS - 1)];
		if (far)
			break;
	}
	walk->ring = ring;
	return ring < RINGS ? far : 0;
}

/* The group at @step, 0 being the own one; NO_GROUP if a step finds none; or NO_MORE. */
static u32 walk_to(struct cpu_set *set, struct walk *walk, u32 step)
{
	u32 group = NO_GROUP;
	u64 far;

	if (step <= walk->near) {
		group = near_group(walk->own, step);
		if (!summary_shift)
			walk->far &= ~summary_bit(group);
		if (!cpus_of(set, group))
			first_group_or_clear(set, group);
		return group;
	}
	if (walk->next < nr_groups && summary_bit(walk->next) == summary_bit(walk->next - 1))
		group = first_group(set, walk->next);
	if (group == NO_GROUP) {
		u32 bit;

		far = next_ring(set, walk);
		if (!far)
			return NO_MORE;
		bit = first_bit_from(far, walk->own >> summary_shift & (SUMMARY - 1));
		walk->far &= ~(1ULL << bit);
		group = first_group_or_clear(set, bit << summary_shift);
	}
	walk->next = group + 1;
	return group;
}

/* Return true if @p may run on @cpu. The lock is for timers, which run where RCU is not held. */
static __always_inline bool may_run_on(const struct task_struct *p, s32 cpu)
{
	bool may;

	bpf_rcu_read_lock();
	may = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	bpf_rcu_read_unlock();
	return may;
}

/* A word of a CPU mask, by its address, which the verifier lets vary; the mask has a fixed size. */
static u64 mask_word(const struct cpumask *mask, u32 index)
{
	const struct cpumask *from = bpf_rdonly_cast((const char *)mask + index * sizeof(u64),
						     bpf_core_type_id_kernel(struct cpumask));

	return from->bits[0];
}

/* Every second bit of @word, the lowest first. */
static u64 even_bits(u64 word)
{
	word &= 0x5555555555555555;
	word = (word | word >> 1) & 0x3333333333333333;
	word = (word | word >> 2) & 0x0f0f0f0f0f0f0f0f;
	word = (word | word >> 4) & 0x00ff00ff00ff00ff;
	word = (word | word >> 8) & 0x0000ffff0000ffff;
	return (word | word >> 16) & 0x00000000ffffffff;
}

/*
 * Those CPUs of @among in @group on which @p may run. A task without restrictions, as most are,
 * costs two loads, and any other one a word for each run: however many CPUs it may not use, none of
 * them is tested.
 */
__noinline u64 allowed_in(u32 group, u64 among, struct task_struct *p __arg_trusted)
{
	const volatile struct group *facts = group_facts(group);
	u64 allowed = 0;
	u32 index;

	if (p->nr_cpus_allowed >= scx_bpf_nr_cpu_ids() && !is_migration_disabled(p))
		return among;
	bpf_for (index, 0, MAX_RUNS) {
		const volatile struct run *run = &facts->runs[index & (MAX_RUNS - 1)];
		u64 word;

		if (index >= facts->nr_runs)
			break;
		word = mask_word(p->cpus_ptr, run->cpu / 64) >> (run->cpu % 64);
		if (run->step == 2)
			word = even_bits(word);
		allowed |= (word & bits_up_to(run->nr)) << (run->bit & (GROUP_CPUS - 1));
	}
	if (facts->nr_runs)
		return among & allowed;
	bpf_for (index, 0, GROUP_CPUS) {
		u64 bit = 1ULL << (index & (GROUP_CPUS - 1));

		if ((among & bit) && may_run_on(p, cpu_at(group, index)))
			allowed |= bit;
	}
	return allowed;
}

/*
 * Claims one of the CPUs @among in @group that are in @set, for @p: the one that clears the bit has
 * claimed it. The nearest to bit @from, on a core of which all threads are free if there is one.
 */
__noinline s32 claim_in(struct cpu_set *set __arg_nonnull, u32 group, u64 among, u32 from,
			struct task_struct *p __arg_trusted)
{
	u64 *bits = cpus_in(set, group);
	u64 word = READ_ONCE(*bits) & among;
	u64 first;
	u32 tries;

	if (!word)
		return NO_CPU;
	first = whole_cores(group, word);
	word = allowed_in(group, word, p);
	first &= word;
	bpf_for (tries, 0, GROUP_CPUS) {
		u32 bit;

		if (!first)
			first = word;
		if (!first)
			break;
		bit = first_bit_from(first, from & (GROUP_CPUS - 1));
		if (clear_bits(bits, 1ULL << bit))
			return cpu_at(group, bit);
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

	if (is_empty(set))
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
			among = whole_cores(group, cpus_of(set, group));
		found = claim_in(set, group, among, cpu_index(cpu), p);
		if (found >= 0)
			return found;
	}
	return NO_CPU;
}

/* Claims a CPU in @set: at each tick in another group, and there another one. */
static inline s32 claim_any(struct cpu_set *set, s32 cpu)
{
	u64 now = bpf_jiffies64();
	u32 group = (group_of(cpu) + now) % nr_groups;
	u64 word = cpus_of(set, group);
	s32 found;

	if (!word)
		return NO_CPU;
	found = cpu_at(group, first_bit_from(word, (cpu_index(cpu) + now) % group_size(group)));
	return remove_cpu(set, found) ? found : NO_CPU;
}

#endif /* FLSCHED_CPUS_BPF_H */
