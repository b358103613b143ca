/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * At which priority levels the CPUs of a machine are, for policies with strict priorities.
 *
 * A map holds for each level one bit a CPU, in a word for each group of topology.bpf.h; above that,
 * for each level one bit a group; and above that, one bit a level. So "who runs something less
 * important than this?" and "who has something more important waiting?" are answered by one load
 * where the answer is nobody, which is the usual case on a busy machine.
 *
 * No lock guards it. A bit of a CPU is written when that CPU's level changes; those above mean
 * "perhaps", are set when the first bit below appears, and are taken back by who looks and finds
 * nothing: so a CPU that changes its level again and again writes its own group's word only.
 *
 * Level 0 is the most important one, as nice -20 is.
 */
#ifndef FLSCHED_LEVELS_BPF_H
#define FLSCHED_LEVELS_BPF_H

#include "topology.bpf.h"

#define LEVELS	    40
#define IDLE	    LEVELS	 /* level of a CPU that has nothing to run */
#define TAKEN	    (LEVELS + 1) /* of one that is not to be disturbed, and is never looked for */
#define LEVEL_SLOTS 64
#define GROUP_WORDS (MAX_GROUPS / 64)

struct group_levels {
	u64 cpus[LEVEL_SLOTS];
};

struct level_map {
	u64 levels __attribute__((aligned(64)));
	u64 groups[LEVEL_SLOTS][GROUP_WORDS] __attribute__((aligned(64)));
	struct group_levels of_group[MAX_GROUPS] __attribute__((aligned(64)));
};

static __always_inline u64 level_bit(u32 level)
{
	return 1ULL << (level & (LEVEL_SLOTS - 1));
}

/* All levels more important than @level. */
static __always_inline u64 levels_above(u32 level)
{
	return level_bit(level) - 1;
}

/* All levels less important than @level at which a CPU may be found, idle included. */
static __always_inline u64 levels_below(u32 level)
{
	return ~levels_above(level + 1) & levels_above(IDLE + 1);
}

/* The most important level of @levels, which are not none. */
static __always_inline u32 first_level(u64 levels)
{
	u32 level = __builtin_ctzll(levels);

	/* The compiler knows that it is below 64 and drops later checks; the verifier does not. */
	barrier_var(level);
	return level;
}

/* The least important one. */
static __always_inline u32 last_level(u64 levels)
{
	u32 level = 63 - __builtin_clzll(levels);

	barrier_var(level);
	return level;
}

static __always_inline u64 *level_cpus(struct level_map *map, u32 level, u32 group)
{
	return &map->of_group[group & (MAX_GROUPS - 1)].cpus[level & (LEVEL_SLOTS - 1)];
}

static __always_inline u64 *level_groups(struct level_map *map, u32 level, u32 group)
{
	return &map->groups[level & (LEVEL_SLOTS - 1)][(group / 64) & (GROUP_WORDS - 1)];
}

static __always_inline u64 group_bit(u32 group)
{
	return 1ULL << (group & 63);
}

/* Some CPU of @group is at @level: from below upward, see level_tidy(). */
static __always_inline void level_announce(struct level_map *map, u32 level, u32 group)
{
	set_bits(level_groups(map, level, group), group_bit(group));
	set_bits(&map->levels, level_bit(level));
}

static __always_inline void level_set(struct level_map *map, u32 level, s32 cpu)
{
	u64 *cpus = level_cpus(map, level, group_of(cpu));

	if (*cpus & bit_of(cpu))
		return;
	__sync_fetch_and_or(cpus, bit_of(cpu));
	level_announce(map, level, group_of(cpu));
}

static __always_inline void level_clear(struct level_map *map, u32 level, s32 cpu)
{
	clear_bits(level_cpus(map, level, group_of(cpu)), bit_of(cpu));
}

static __always_inline bool level_is_empty(struct level_map *map, u32 level)
{
	u64 any = 0;
	u32 word;

#pragma clang loop unroll(disable)
	for (word = 0; word < GROUP_WORDS; word++)
		any |= map->groups[level & (LEVEL_SLOTS - 1)][word];
	return !any;
}

/*
 * @group was found to have no CPU at @level. Take back what says so, and then look once more: who
 * came meanwhile has either seen that it was taken back, or is seen now.
 */
static __noinline void level_tidy(struct level_map *map, u32 level, u32 group)
{
	if (!clear_bits(level_groups(map, level, group), group_bit(group)))
		return;
	if (*level_cpus(map, level, group))
		level_announce(map, level, group);
	if (!level_is_empty(map, level))
		return;
	clear_bits(&map->levels, level_bit(level));
	if (!level_is_empty(map, level))
		set_bits(&map->levels, level_bit(level));
}

#endif /* FLSCHED_LEVELS_BPF_H */
