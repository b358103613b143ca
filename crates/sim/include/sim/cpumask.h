/* SPDX-License-Identifier: GPL-2.0-only */
/* Sets of CPUs. Words beyond the machine's CPUs are always 0, so that loops may stop at them. */
#ifndef SIM_CPUMASK_H
#define SIM_CPUMASK_H

struct bpf_cpumask {
	cpumask_t cpumask;
};

#define cast_mask(mask) ((const struct cpumask *)(mask))

KFUNC(struct bpf_cpumask *, bpf_cpumask_create, void);
KFUNC(void, bpf_cpumask_release, struct bpf_cpumask *mask);

#define sim_words()	    ((scx_bpf_nr_cpu_ids() + 63) / 64)
#define sim_bit(cpu)	    (1UL << ((cpu) % 64))
#define sim_word(mask, cpu) ((mask)->bits[(cpu) / 64])

#define bpf_kptr_xchg(pointer, value)                   \
	({                                              \
		typeof(*(pointer)) ___old = *(pointer); \
		*(pointer) = (value);                   \
		___old;                                 \
	})

static inline bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpu < SIM_MAX_CPUS && (sim_word(mask, cpu) & sim_bit(cpu));
}

static inline void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	if (cpu < scx_bpf_nr_cpu_ids())
		sim_word(&mask->cpumask, cpu) |= sim_bit(cpu);
}

static inline void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	if (cpu < scx_bpf_nr_cpu_ids())
		sim_word(&mask->cpumask, cpu) &= ~sim_bit(cpu);
}

static inline bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	bool was = bpf_cpumask_test_cpu(cpu, &mask->cpumask);

	bpf_cpumask_set_cpu(cpu, mask);
	return was;
}

static inline bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	bool was = bpf_cpumask_test_cpu(cpu, &mask->cpumask);

	bpf_cpumask_clear_cpu(cpu, mask);
	return was;
}

static inline void bpf_cpumask_clear(struct bpf_cpumask *mask)
{
	__builtin_memset(mask, 0, sizeof(*mask));
}

static inline void bpf_cpumask_copy(struct bpf_cpumask *to, const struct cpumask *from)
{
	to->cpumask = *from;
}

static inline void bpf_cpumask_setall(struct bpf_cpumask *mask)
{
	bpf_cpumask_copy(mask, scx_bpf_get_possible_cpumask());
}

static inline bool bpf_cpumask_and(struct bpf_cpumask *to, const struct cpumask *a,
				   const struct cpumask *b)
{
	u64 any = 0;

	for (u32 word = 0; word < sim_words(); word++)
		any |= to->cpumask.bits[word] = a->bits[word] & b->bits[word];
	return any;
}

static inline void bpf_cpumask_or(struct bpf_cpumask *to, const struct cpumask *a,
				  const struct cpumask *b)
{
	for (u32 word = 0; word < sim_words(); word++)
		to->cpumask.bits[word] = a->bits[word] | b->bits[word];
}

static inline void bpf_cpumask_xor(struct bpf_cpumask *to, const struct cpumask *a,
				   const struct cpumask *b)
{
	for (u32 word = 0; word < sim_words(); word++)
		to->cpumask.bits[word] = a->bits[word] ^ b->bits[word];
}

static inline bool bpf_cpumask_empty(const struct cpumask *mask)
{
	for (u32 word = 0; word < sim_words(); word++)
		if (mask->bits[word])
			return false;
	return true;
}

static inline bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 word = 0; word < sim_words(); word++)
		if (a->bits[word] & b->bits[word])
			return true;
	return false;
}

static inline bool bpf_cpumask_subset(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 word = 0; word < sim_words(); word++)
		if (a->bits[word] & ~b->bits[word])
			return false;
	return true;
}

static inline bool bpf_cpumask_equal(const struct cpumask *a, const struct cpumask *b)
{
	return bpf_cpumask_subset(a, b) && bpf_cpumask_subset(b, a);
}

static inline bool bpf_cpumask_full(const struct cpumask *mask)
{
	return bpf_cpumask_equal(mask, scx_bpf_get_possible_cpumask());
}

static inline u32 bpf_cpumask_weight(const struct cpumask *mask)
{
	u32 weight = 0;

	for (u32 word = 0; word < sim_words(); word++)
		weight += __builtin_popcountll(mask->bits[word]);
	return weight;
}

/* The number of CPUs if there is none, as in the kernel. */
static inline u32 bpf_cpumask_first(const struct cpumask *mask)
{
	for (u32 word = 0; word < sim_words(); word++)
		if (mask->bits[word])
			return word * 64 + __builtin_ctzll(mask->bits[word]);
	return scx_bpf_nr_cpu_ids();
}

static inline u32 bpf_cpumask_first_and(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 word = 0; word < sim_words(); word++)
		if (a->bits[word] & b->bits[word])
			return word * 64 + __builtin_ctzll(a->bits[word] & b->bits[word]);
	return scx_bpf_nr_cpu_ids();
}

#endif
