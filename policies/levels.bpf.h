/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Strict priorities: 40 levels, from nice. Level 0 is the most important one, as nice -20 is.
 *
 * A CPU's run queue is ordered by level, and within a level by when tasks became runnable. For each
 * level there are two sets of CPUs (cpus.bpf.h): those that run a task of that level and are
 * available for a more important one, and those with a waiting task of that level that may leave.
 * Two words have a bit for each level whose set perhaps is not empty. So the checks whether a CPU
 * runs a less important task, and whether a more important task waits, cost one load if the answer
 * is no, the usual case on a busy machine.
 */
#ifndef FLSCHED_LEVELS_BPF_H
#define FLSCHED_LEVELS_BPF_H

#include "queues.bpf.h"

#define LEVELS	     40
#define IDLE	     LEVELS	  /* level of a CPU that has nothing to run */
#define NO_LEVEL     (LEVELS + 1) /* of a CPU that is available for no task */
#define HIGHEST_PRIO 100	  /* static_prio of nice -20 */
#define LEVEL_SHIFT  48		  /* a level's part of a key; ticks have the rest */
#define LOOKS	     8 /* tasks of another CPU's queue that are checked for their level */

static struct cpu_set available[NO_LEVEL + 1];
static struct queues waiting[LEVELS];
static u64 available_levels __attribute__((aligned(64)));
static u64 waiting_levels __attribute__((aligned(64)));

/* The levels of a CPU, written under its run-queue lock. */
struct cpu_levels {
	u32 runs;  /* of the task that runs, IDLE, or NO_LEVEL */
	u32 first; /* most important one that waits, or IDLE; NO_LEVEL: not known */
} __attribute__((aligned(64)));

static struct cpu_levels cpu_levels[MAX_CPUS];

static struct cpu_levels *levels_on(s32 cpu)
{
	return &cpu_levels[cpu & (MAX_CPUS - 1)];
}

/* From nice; SCHED_IDLE is the last. Others wait for an exiting task to finish. */
static u32 level_of(const struct task_struct *p)
{
	u32 level = p->static_prio - HIGHEST_PRIO;

	if (level >= LEVELS || p->policy == SCHED_IDLE)
		level = LEVELS - 1;
	if (level > LEVELS / 2 && (p->flags & PF_EXITING))
		level = LEVELS / 2;
	return level;
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

/* Where a task of @level that is runnable since the tick @since is in its queue. */
static u64 level_key(u32 level, u64 since)
{
	return ((u64)level << LEVEL_SHIFT) + since;
}

/* The level of the first task in @queue, or IDLE. Global: the verifier goes on in one state. */
__noinline u32 first_level_in(u64 queue)
{
	struct task_struct *first;
	u32 level = IDLE;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(queue);
	if (first)
		level = level_of(first);
	bpf_rcu_read_unlock();
	return level;
}

/* A task of @level comes to @cpu's queue. */
static void note_waiting(s32 cpu, u32 level)
{
	struct cpu_levels *levels = levels_on(cpu);

	if (levels->first != NO_LEVEL && level < levels->first)
		levels->first = level;
}

/* The only task that waits on @cpu leaves the queue, or the first one of several. */
static void note_taken(s32 cpu)
{
	struct cpu_levels *levels = levels_on(cpu);

	if (levels->first != NO_LEVEL)
		levels->first = IDLE;
}

/*
 * The level of the first task that waits on @cpu. It is known if the queue was empty since a task
 * was chosen; else the queue is checked, which takes its lock on kernels before 6.19.
 */
static u32 first_waiting(s32 cpu)
{
	struct cpu_levels *levels = levels_on(cpu);
	u64 waiting = nr_queued(run_queue(cpu));
	u32 first = levels->first;

	if (!waiting)
		first = IDLE;
	else if (first == NO_LEVEL)
		first = first_level_in(run_queue(cpu));
	levels->first = waiting > 1 ? NO_LEVEL : first;
	return first;
}

/* How a CPU that runs a task of @level, or none, is told to choose another one. */
static u64 kick_at(u32 level)
{
	return level == IDLE ? SCX_KICK_IDLE : SCX_KICK_PREEMPT;
}

/* @cpu is available for tasks more important than @level. */
static void add_available(s32 cpu, u32 level)
{
	add_cpu(available_at(level), cpu);
	set_bits(&available_levels, level_bit(level));
}

/* @cpu runs a task of @level, or none. @may_preempt: that task makes room for others. */
static void set_level(s32 cpu, u32 level, bool may_preempt)
{
	struct cpu_levels *levels = levels_on(cpu);

	if (level != levels->runs)
		remove_cpu(available_at(levels->runs), cpu);
	WRITE_ONCE(levels->runs, level);
	if (level <= IDLE && may_preempt)
		add_available(cpu, level);
}

/* A task of @level waits on @cpu that other CPUs may take. */
static void add_waiting(s32 cpu, u32 level)
{
	add_cpu(&waiting_at(level)->cpus, cpu);
	set_bits(&waiting_levels, level_bit(level));
}

/* Clears the bit of a level whose set is empty. A CPU that is added meanwhile is not lost. */
static void clear_if_empty(u64 *levels, u32 level, struct cpu_set *set)
{
	if (is_empty(set) && clear_bits(levels, level_bit(level)) && !is_empty(set))
		set_bits(levels, level_bit(level));
}

/* Takes a task for @cpu that waits elsewhere and is more important than @level. */
__noinline bool pull_above(s32 cpu, u32 level)
{
	u64 levels = READ_ONCE(waiting_levels) & levels_above(level);
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

/* What a search of another CPU's queue found: no task of the level, none that may leave, or one. */
enum found { NONE_THERE, NONE_FREE, TAKEN };

/*
 * Takes a task of @level for @cpu, one of the first @looks in the queue of @from. Global, as its
 * callers have loops of their own; and with a bound that is no constant, which the verifier would
 * count up to.
 */
__noinline u32 take_of_level(s32 from, s32 cpu, u32 level, u32 looks)
{
	u32 found = NONE_THERE, tried = 0;
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, run_queue(from), 0) {
		if (found == TAKEN || tried++ >= looks)
			break;
		if (level_of(p) != level)
			continue;
		found = NONE_FREE;
		if (may_move_to(p, cpu) && scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			found = TAKEN;
	}
	bpf_rcu_read_unlock();
	return found;
}

/*
 * Takes a task for @cpu from the queue of @from, of the level of that set; it is one of the first
 * there if it is more important than what the CPU has. If there is none the queue leaves the set.
 */
static bool take_from(struct queues *queues, s32 from, s32 cpu)
{
	u32 found = take_of_level(from, cpu, queues - waiting, LOOKS);

	if (found == NONE_THERE)
		remove_cpu(&queues->cpus, from);
	if (found == TAKEN)
		return true;
	/* A CPU that idles takes any. Those that may run there may be behind many that may not. */
	return levels_on(cpu)->runs == IDLE && scx_bpf_dsq_move_to_local(run_queue(from), 0);
}

/*
 * Takes a task more important than @level from the queue that was offered to @cpu. All of that
 * queue is searched.
 */
__noinline bool take_offered_above(s32 cpu, u32 level)
{
	struct offered *mine = &offered[cpu & (MAX_CPUS - 1)];
	struct task_struct *p;
	bool taken = false;

	if (!READ_ONCE(mine->is_open))
		return false;
	WRITE_ONCE(mine->is_open, false);
	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, READ_ONCE(mine->queue), 0) {
		if (taken || level_of(p) >= level)
			break;
		if (may_move_to(p, cpu))
			taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
	}
	bpf_rcu_read_unlock();
	return taken;
}

#endif /* FLSCHED_LEVELS_BPF_H */
