/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Strict priorities: 40 levels, from nice. Level 0 is the most important one, as nice -20 is.
 *
 * Each CPU has a queue for each level. For each level there are two sets of CPUs (cpus.bpf.h):
 * those that run a task of that level and are available for a more important one, and those with a
 * waiting task of that level that may leave. Two words have a bit for each level whose set perhaps
 * is not empty. So the checks whether a CPU runs a less important task, and whether a more
 * important task waits, cost one load if the answer is no, the usual case on a busy machine.
 */
#ifndef FLSCHED_LEVELS_BPF_H
#define FLSCHED_LEVELS_BPF_H

#include "queues.bpf.h"

#define LEVELS	     40
#define IDLE	     LEVELS	  /* level of a CPU that has nothing to run */
#define NO_LEVEL     (LEVELS + 1) /* of a CPU that is available for no task */
#define HIGHEST_PRIO 100	  /* static_prio of nice -20 */

static struct cpu_set available[NO_LEVEL + 1];
static struct queues waiting[LEVELS];
static u64 available_levels __attribute__((aligned(64)));
static u64 waiting_levels __attribute__((aligned(64)));

/* From nice; SCHED_IDLE is the last. */
static u32 level_of(const struct task_struct *p)
{
	u32 level = p->static_prio - HIGHEST_PRIO;

	return level >= LEVELS || p->policy == POLICY_IDLE ? LEVELS - 1 : level;
}

static u64 level_bit(u32 level)
{
	return 1ULL << (level & 63);
}

/* All levels more important than @level. */
static u64 levels_above(u32 level)
{
	return level_bit(level) - 1;
}

/* All levels less important than @level, IDLE included. */
static u64 levels_below(u32 level)
{
	return ~levels_above(level + 1) & levels_above(IDLE + 1);
}

/* The most important level of @levels, which are not none. */
static u32 first_level(u64 levels)
{
	return first_bit_from(levels, 0);
}

/* The least important one. */
static u32 last_level(u64 levels)
{
	return 63 - __builtin_clzll(levels);
}

static struct cpu_set *available_at(u32 level)
{
	/* The compiler may know its range, and drops the check that the verifier needs. */
	barrier_var(level);
	return &available[level < NO_LEVEL ? level : NO_LEVEL];
}

static struct queues *waiting_at(u32 level)
{
	barrier_var(level);
	return &waiting[level < LEVELS ? level : LEVELS - 1];
}

static u64 level_queue(u32 level, s32 cpu)
{
	return level * MAX_CPUS + cpu;
}

/* @cpu is available for tasks more important than @level. */
static void add_available(s32 cpu, u32 level)
{
	add_cpu(available_at(level), cpu);
	set_bits(&available_levels, level_bit(level));
}

/* A task of @level waits on @cpu that other CPUs may take. */
static void add_waiting(s32 cpu, u32 level)
{
	add_cpu(&waiting_at(level)->cpus, cpu);
	set_bits(&waiting_levels, level_bit(level));
}

/* Clears the bit of a level whose set is empty. A CPU that is added meanwhile is not lost. */
static void clear_if_empty(u64 *levels, u32 level, const struct cpu_set *set)
{
	if (!set->groups && clear_bits(levels, level_bit(level)) && set->groups)
		set_bits(levels, level_bit(level));
}

/* Takes a task for @cpu that waits elsewhere and is more important than @level. */
__noinline bool pull_above(s32 cpu, u32 level)
{
	u64 levels = waiting_levels & levels_above(level);
	u32 tries;

	bpf_for (tries, 0, LEVELS) {
		u32 first;

		if (!levels)
			break;
		first = first_level(levels);
		if (pull_near(waiting_at(first), cpu, 1))
			return true;
		clear_if_empty(&waiting_levels, first, &waiting_at(first)->cpus);
		levels &= levels - 1;
	}
	return false;
}

/* Takes the first task of @level that waits on @cpu, where tasks of @levels wait. */
static bool take_level(s32 cpu, u64 *levels, u32 level)
{
	bool taken;

	/* Cleared first: a task that comes meanwhile sets the bit again. */
	*levels &= ~level_bit(level);
	taken = scx_bpf_dsq_move_to_local(level_queue(level, cpu), 0);
	/* A task that cannot be moved now may still wait. */
	if (taken || nr_queued(level_queue(level, cpu)))
		*levels |= level_bit(level);
	return taken;
}

/* The level whose first task has waited longest on @cpu, and for @least_ns; or NO_LEVEL. */
__noinline u32 oldest_level(s32 cpu, u64 levels, u64 least_ns)
{
	u32 oldest = NO_LEVEL, tries;

	bpf_for (tries, 0, LEVELS) {
		u32 level;
		u64 waited;

		if (!levels)
			break;
		level = first_level(levels);
		levels &= levels - 1;
		waited = first_waited_ns(level_queue(level, cpu));
		if (waited < least_ns)
			continue;
		least_ns = waited + 1;
		oldest = level;
	}
	return oldest;
}

/* Makes the queues of all CPUs. */
static s32 init_levels(void)
{
	u32 level;
	s32 cpu;

	bpf_for (level, 0, LEVELS) {
		waiting_at(level)->first = level_queue(level, 0);
		bpf_for (cpu, 0, scx_bpf_nr_cpu_ids()) {
			s32 err = create_queue(level_queue(level, cpu), cpu);

			if (err)
				return err;
		}
	}
	return 0;
}

#endif /* FLSCHED_LEVELS_BPF_H */
