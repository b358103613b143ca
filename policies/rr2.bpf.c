/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SCHED_RR2: strict priorities, round robin, and the threads of a process together.
 *
 * After Milić and Jelenković, "Improving thread scheduling by thread grouping in heavily loaded
 * many-core processor systems", MIPRO 2012. Section numbers below are the paper's.
 *
 * The base (II) is Linux's SCHED_RR for all normal tasks: 40 levels, from nice; on N CPUs the N
 * most important runnable tasks run; among equals, round robin. Tasks are pushed to a CPU that runs
 * something less important when they wake up, are made, or lose their CPU, and pulled by a CPU
 * whose level drops. Nobody balances load among equals.
 *
 * The idea (III): when there are far more threads than CPUs, threads of one process (co-threads)
 * that run on the same CPU find each other's data in its cache. So where several CPUs would do, a
 * thread goes where its co-threads are, or near; and a CPU takes over waiting threads of equal
 * level whose co-threads it has.
 *
 * What differs from the paper: see docs/rr2.md. In short: grouping acts only while the machine is
 * loaded; no CPU gathers much more than its share of all threads; and who waits below a task that
 * does not end gets a trickle of CPU time, because the kernel would throw the scheduler out.
 *
 * Tasks of the kernel's own SCHED_FIFO and SCHED_RR stay there, above all tasks here.
 */
#include "levels.bpf.h"
#include "teams.bpf.h"

POLICY_BOILERPLATE();

KNOB(slice_us, 100000, 1000, 10000000, "turn of a task among others of its level, in microseconds");

CHOICE(grouping, 1, "off on", "keep threads of a team on the same CPU, or near");

/* The paper's own condition for a heavily loaded system. */
KNOB(load_threads, 2, 0, 1000,
     "runnable threads a CPU, on average, from which on grouping acts; 0: always");

/*
 * The kernel's real-time throttling leaves 5 % to the rest; so does a tick of 4 ms in 100 ms.
 * Unless it is turned off, up to 3,500 tasks that wait on a CPU get a turn within 15 s: the kernel
 * throws out a scheduler that leaves one waiting for 30 s, or for 21 s if the task was interrupted
 * while it read something that RCU protects.
 */
KNOB(trickle_us, 100000, 0, 10000000,
     "a task below others gets a turn of one tick this often, in microseconds; 0: never");

/* Where nobody is less important in reach, all groups are looked at; so strictness does not depend
 * on it. */
KNOB(reach, 4, 0, MAX_NEAR, "how many groups of CPUs beside its own are searched nearest first");

/* clang-format off */
STATS(
	STAT(pushed_1, "task went to an available CPU that has co-threads of it (step 1)")
	STAT(pushed_2, "task went to the CPU where it ran last (step 2)")
	STAT(pushed_3, "task went to the available CPU nearest to co-threads of it (step 3)")
	STAT(pushed_4, "task went to the available CPU nearest to where it ran last (step 4)")
	STAT(pushed_5, "task went to any available CPU (step 5)")
	STAT(joined, "task that has to wait anyway does so where co-threads of it are (step 1)")
	STAT(queued, "task waits on the CPU where it ran last, or may not leave it")
	STAT(preempted, "running task had to give way to a more important one")
	STAT(pulled, "CPU took a task from another that is more important than its own")
	STAT(gathered, "CPU took over a waiting task of equal level whose co-threads it has")
	STAT(turn_over, "turn ended and the next of the same level ran")
	STAT(trickled, "turn given to a task below more important ones that do not end"))
/* clang-format on */

FACT(tick_ns);

#define HIGHEST_PRIO	 100 /* static_prio of nice -20 */
#define POLICY_IDLE	 5   /* SCHED_IDLE */
#define NEVER		 (~0ULL)
#define NOBODY		 (-1)
#define SCAN		 64		/* tasks of another CPU's queue that are looked at */
#define OWN_SCAN	 4096		/* of its own, when looking for who has waited longest */
#define QUEUES		 4		/* queues that are looked into, in each group */
#define WATCH_NS	 15000000000ULL /* within it each has had a turn */
#define COUNT_NS	 10000000	/* between two counts of a group's runnable threads */
#define ROOM_NUMERATOR	 3		/* a CPU gathers up to 3/2 of its share of all threads */
#define ROOM_DENOMINATOR 2

/*
 * A waiting task's key, by which a CPU's queue is ordered: its level, its rank, and when it came.
 * Tasks that are due at once among equals: kernel threads, which others wait for, and tasks that
 * had to give way, with the rest of their turn, as in SCHED_RR.
 */
#define LEVEL_SHIFT   56
#define RANK_SHIFT    54
#define ARRIVAL_SHIFT 10 /* of nanoseconds: about microseconds, so that they last */

enum rank { RANK_KERNEL, RANK_UNFINISHED, RANK_LAST };

/* What a CPU is about. All but level is written under its run-queue lock. */
struct cpu_state {
	u32 level;    /* what it runs or is about to run; whoever changes it has claimed the CPU */
	u32 current;  /* what it runs */
	s32 runner;   /* who runs */
	u32 next_bit; /* where it goes on looking for a CPU among equals */
	bool is_trickle;   /* who runs is below others that wait here */
	u64 levels;	   /* levels that perhaps wait in its queue */
	u64 turn_began_at; /* of the runner */
	u64 turn_ns;	   /* what it had left then */
	u64 trickled_at;   /* when the lower levels last had a turn, or had nobody waiting */
	u64 gathered_at;   /* when the CPU last looked for co-threads elsewhere */
	u64 oldest;	   /* the earliest arrival among those looked at */
	u64 scanned; /* how many have been looked at; here the verifier need not count along */
} __attribute__((aligned(64)));

static struct cpu_state cpu_states[MAX_CPUS];

/* Levels of what CPUs run, and of what waits in their queues and may leave. */
static struct level_map running;
static struct level_map waiting;

/* Runnable threads: of a group, counted at somebody's tick, and of all. */
struct group_load {
	u64 counted_at;
	u64 runnable;
	u64 counting;
} __attribute__((aligned(64)));

static struct group_load group_loads[MAX_GROUPS];
static u64 nr_runnable __attribute__((aligned(64)));
static u64 nr_cpus;

static struct cpu_state *cpu_state(s32 cpu)
{
	return &cpu_states[cpu & (MAX_CPUS - 1)];
}

static u64 turn_ns(void)
{
	return US_TO_NS(slice_us);
}

/* From nice; SCHED_IDLE is the last. */
static u32 level_of(const struct task_struct *p)
{
	u32 level = p->static_prio - HIGHEST_PRIO;

	return level >= LEVELS || p->policy == POLICY_IDLE ? LEVELS - 1 : level;
}

static u32 level_of_key(u64 key)
{
	return key >> LEVEL_SHIFT;
}

static u64 arrival(u64 now)
{
	return (now >> ARRIVAL_SHIFT) & ((1ULL << RANK_SHIFT) - 1);
}

static bool may_run_on(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* A level of a CPU has changed, by whoever: say so, and mind that it may have changed back. */
static void tell_level(s32 cpu, u32 before, u32 now)
{
	level_set(&running, now, cpu);
	level_clear(&running, before, cpu);
	if (cpu_state(cpu)->level == before)
		level_set(&running, before, cpu);
}

static void set_level(s32 cpu, u32 level)
{
	u32 before;

	if (cpu_state(cpu)->level == level)
		return;
	before = __sync_lock_test_and_set(&cpu_state(cpu)->level, level);
	if (before != level)
		tell_level(cpu, before, level);
}

/* True for one of those who try at a time. A bit that was out of date is corrected. */
static bool claim(s32 cpu, u32 before, u32 level)
{
	if (__sync_val_compare_and_swap(&cpu_state(cpu)->level, before, level) == before) {
		tell_level(cpu, before, level);
		return true;
	}
	level_clear(&running, before, cpu);
	if (cpu_state(cpu)->level == before)
		level_set(&running, before, cpu);
	return false;
}

/*
 * A function that the verifier checks once by itself, not anew wherever it is called: those with
 * loops that are called in loops. It has to be global, hence the prefix.
 */
#define ONCE __noinline

/* What a CPU is looked for. */
struct search {
	u64 team;   /* of the task; 0: its co-threads do not matter */
	s32 last;   /* where it ran last */
	s32 beside; /* the nearest CPU with co-threads, or NOBODY */
	u32 level;  /* of the task */
	u32 at;	    /* of the CPUs that are looked at: those available */
};

/*
 * Claims one of @candidates in @group: of idle ones, those on cores that are idle as a whole; else
 * the nearest to CPU @near by core; and among equally near ones each in its turn, as the kernel
 * does it, so that tasks made one after the other do not all go to the same CPU.
 */
ONCE s32 rr2_claim_of(struct task_struct *p __arg_trusted, struct search *search __arg_nonnull,
		      u32 group, u64 candidates, s32 near)
{
	struct cpu_state *here = cpu_state(bpf_get_smp_processor_id());
	u64 first = search->at == IDLE ? whole_cores(group, candidates) : 0;
	u32 tries;

	if (group_of(near) == group && !first)
		first = candidates & core_bits(near);
	bpf_for (tries, 0, GROUP_CPUS) {
		u32 bit;
		s32 cpu;

		if (!first)
			first = candidates;
		if (!first)
			break;
		bit = first_bit_from(first, here->next_bit & (GROUP_CPUS - 1));
		cpu = cpu_at(group, bit);
		if (may_run_on(p, cpu) && claim(cpu, search->at, search->level)) {
			here->next_bit = bit + 1;
			return cpu;
		}
		first &= ~(1ULL << bit);
		candidates &= ~(1ULL << bit);
	}
	return NOBODY;
}

/* The nearest to @near by cache and node. */
static s32 claim_near(struct task_struct *p, struct search *search, s32 near)
{
	u32 own = group_of(near);
	u32 distance;

	bpf_for (distance, 0, reach + 1) {
		u32 group = near_group(own, distance);
		u64 cpus = *level_cpus(&running, search->at, group);
		s32 cpu;

		if (distance > group_facts(own)->nr_near)
			break;
		if (!cpus)
			continue;
		cpu = rr2_claim_of(p, search, group, cpus, near);
		if (cpu >= 0)
			return cpu;
	}
	return NOBODY;
}

static s32 claim_any(struct task_struct *p, struct search *search)
{
	u32 at = search->at;
	u32 word, tries;

	bpf_for (word, 0, (nr_groups + 63) / 64) {
		u64 groups = *level_groups(&running, at, word * 64);

		bpf_for (tries, 0, 64) {
			u32 group;
			s32 cpu;

			if (!groups)
				break;
			group = word * 64 + first_level(groups);
			groups &= groups - 1;
			cpu = rr2_claim_of(p, search, group, *level_cpus(&running, at, group), 0);
			if (cpu >= 0)
				return cpu;
			if (!*level_cpus(&running, at, group))
				level_tidy(&running, at, group);
		}
	}
	return NOBODY;
}

/* Is grouping to act? */
static bool is_loaded(void)
{
	return grouping && nr_runnable >= load_threads * nr_cpus;
}

/* An available CPU that has co-threads, if where the thread ran last has none (III, step 1). */
static s32 claim_with_cothreads(struct task_struct *p, struct search *search)
{
	u32 own = group_of(search->last);
	u32 distance;

	bpf_for (distance, 0, reach + 1) {
		u32 group = near_group(own, distance);
		struct squad *squad;
		u64 cpus;
		s32 cpu;

		if (distance > group_facts(own)->nr_near)
			break;
		squad = squad_in(search->team, group);
		cpus = squad ? squad->cpus : 0;
		if (!cpus)
			continue;
		if (search->beside < 0)
			search->beside =
				cpu_at(group, first_bit_from(cpus, from_bit(search->last)));
		if (!distance && (cpus & bit_of(search->last)))
			return NOBODY;
		cpus &= *level_cpus(&running, search->at, group);
		cpu = rr2_claim_of(p, search, group, cpus, search->last);
		if (cpu >= 0)
			return cpu;
	}
	return NOBODY;
}

static s32 claim_last(struct task_struct *p, struct search *search)
{
	s32 last = search->last;

	if (!(*level_cpus(&running, search->at, group_of(last)) & bit_of(last)))
		return NOBODY;
	return may_run_on(p, last) && claim(last, search->at, search->level) ? last : NOBODY;
}

/*
 * The searching algorithm (II.B) with the paper's changes (III), among available CPUs: those at the
 * lowest level there is.
 */
ONCE s32 rr2_claim_at(struct task_struct *p __arg_trusted, struct search *search __arg_nonnull)
{
	s32 cpu = NOBODY;

	search->beside = NOBODY;
	if (search->team)
		cpu = claim_with_cothreads(p, search);
	if (cpu >= 0) {
		COUNT(pushed_1);
		return cpu;
	}
	cpu = claim_last(p, search);
	if (cpu >= 0) {
		COUNT(pushed_2);
		return cpu;
	}
	if (search->beside >= 0)
		cpu = claim_near(p, search, search->beside);
	if (cpu >= 0) {
		COUNT(pushed_3);
		return cpu;
	}
	cpu = claim_near(p, search, search->last);
	if (cpu >= 0) {
		COUNT(pushed_4);
		return cpu;
	}
	cpu = claim_any(p, search);
	if (cpu >= 0)
		COUNT(pushed_5);
	return cpu;
}

/*
 * Claims a CPU that would run @p at once: one that runs something less important, and of those one
 * that runs what is least important.
 */
static s32 claim_available(struct task_struct *p, struct search *search)
{
	u64 levels = running.levels & levels_below(search->level);
	u32 tries;

	bpf_for (tries, 0, LEVELS + 1) {
		s32 cpu;

		if (!levels)
			break;
		search->at = last_level(levels);
		cpu = rr2_claim_at(p, search);
		if (cpu >= 0)
			return cpu;
		levels &= ~level_bit(search->at);
	}
	return NOBODY;
}

/*
 * May one more thread be brought to @cpu? Teams that are larger than a CPU's share of all threads
 * spread over as many CPUs as their threads are worth, near each other, instead of piling up.
 */
static bool has_room(s32 cpu)
{
	return (nr_queued(run_queue(cpu)) + 1) * nr_cpus * ROOM_DENOMINATOR <=
	       nr_runnable * ROOM_NUMERATOR;
}

/*
 * Nobody is available, so @p will wait, and may as well do so where co-threads of it are: the
 * paper's first step, which pushes a thread to a queue. Strict priority is not touched: it would
 * not run anywhere else either.
 */
static s32 beside_waiting(const struct task_struct *p, u64 team, s32 last)
{
	u32 own = group_of(last);
	u32 distance;

	bpf_for (distance, 0, reach + 1) {
		u32 group = near_group(own, distance);
		struct squad *squad;
		u32 tries;
		u64 cpus;

		if (distance > group_facts(own)->nr_near)
			break;
		squad = squad_in(team, group);
		if (!squad)
			continue;
		cpus = squad->cpus;
		if (!distance && (cpus & bit_of(last)))
			return NOBODY;
		bpf_for (tries, 0, QUEUES) {
			u32 bit;
			s32 cpu;

			if (!cpus)
				break;
			bit = first_bit_from(cpus, from_bit(last));
			cpu = cpu_at(group, bit);
			/* Not its level: a trickle's turn is soon over. */
			if (may_run_on(p, cpu) && cpu_state(cpu)->current < IDLE && has_room(cpu))
				return cpu;
			cpus &= ~(1ULL << bit);
		}
	}
	return NOBODY;
}

/*
 * A task wakes up or is made (II.B). An idle CPU gets it at once; on a CPU that runs something else
 * enqueue sees to it.
 */
s32 BPF_STRUCT_OPS(rr2_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct search search = {
		.team = is_loaded() ? team_of(p) : 0,
		.last = prev_cpu,
		.level = level_of(p),
	};
	s32 cpu = claim_available(p, &search);

	if (cpu >= 0) {
		if (search.at == IDLE)
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), 0);
		return cpu;
	}
	if (search.team) {
		cpu = beside_waiting(p, search.team, prev_cpu);
		if (cpu >= 0) {
			COUNT(joined);
			return cpu;
		}
	}
	COUNT(queued);
	return prev_cpu;
}

/* @p waits on @cpu, which is not to run it now: is there one that would? */
static void push(struct task_struct *p, s32 cpu, u32 level)
{
	struct search search = {.last = cpu, .level = level};
	s32 target;

	if (!(running.levels & levels_below(level)))
		return;
	if (is_loaded())
		search.team = team_of(p);
	target = claim_available(p, &search);
	/* It comes and takes the task itself. */
	if (target >= 0)
		scx_bpf_kick_cpu(target, search.at == IDLE ? SCX_KICK_IDLE : SCX_KICK_PREEMPT);
}

/* What the task that ran on its CPU until now has left of its turn. */
static u64 rest_of_turn(const struct cpu_state *state, u64 now)
{
	u64 had = now - state->turn_began_at;

	return had < state->turn_ns ? state->turn_ns - had : 0;
}

void BPF_STRUCT_OPS(rr2_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	bool has_woken = enq_flags & SCX_ENQ_WAKEUP;
	u32 level = level_of(p);
	u64 rank = RANK_LAST, slice = turn_ns(), now = scx_bpf_now();

	if (has_woken && (p->flags & PF_KTHREAD)) {
		rank = RANK_KERNEL;
	} else if (!has_woken && state->runner == p->pid && rest_of_turn(state, now)) {
		rank = RANK_UNFINISHED;
		slice = rest_of_turn(state, now);
	}
	state->levels |= level_bit(level);
	if (may_leave(p, enq_flags)) {
		level_set(&waiting, level, cpu);
		if (!__COMPAT_is_enq_cpu_selected(enq_flags)) {
			/* It is no co-thread of itself. */
			if (is_loaded() && (running.levels & levels_below(level)))
				uncount_thread(p);
			push(p, cpu, level);
		}
	}
	if (is_loaded())
		count_thread(p, cpu);
	scx_bpf_dsq_insert_vtime(p, run_queue(cpu), slice,
				 ((u64)level << LEVEL_SHIFT) | (rank << RANK_SHIFT) | arrival(now),
				 enq_flags);
	if (level < state->current && state->current < IDLE) {
		COUNT(preempted);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * Level of the first that waits on @cpu; IDLE: nobody does. Nobody comes meanwhile, as @cpu's lock
 * is held, but others may take tasks away: if that happened while one was looked at, it may be any.
 */
static u32 first_waiting(s32 cpu)
{
	struct task_struct *first;
	u32 level = IDLE;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(run_queue(cpu));
	if (first)
		level = level_of_key(first->scx.dsq_vtime);
	if (first != __COMPAT_scx_bpf_dsq_peek(run_queue(cpu)))
		level = 0;
	bpf_rcu_read_unlock();
	return level;
}

/* The tick: whatever raced, nobody who waits here is forgotten for long. */
static void remember_waiting(s32 cpu, struct cpu_state *state)
{
	u32 level = first_waiting(cpu);

	if (level == IDLE || (state->levels & level_bit(level)))
		return;
	state->levels |= level_bit(level);
	level_set(&waiting, level, cpu);
}

/* What the CPU knows of its queue was found to be out of date. Returns the first's level. */
ONCE u32 rr2_correct_levels(s32 cpu)
{
	struct cpu_state *state = cpu_state(cpu);
	u32 tries, level = first_waiting(cpu);
	u64 gone = state->levels & levels_above(level);

	state->levels &= ~gone;
	bpf_for (tries, 0, LEVELS) {
		if (!gone)
			break;
		level_clear(&waiting, first_level(gone), cpu);
		gone &= gone - 1;
	}
	return level;
}

/* The first task of @level or above in @from's queue that may run on @cpu. */
static bool pull_from(s32 from, s32 cpu, u32 level)
{
	struct cpu_state *state = cpu_state(cpu);
	struct task_struct *p;
	bool pulled = false;

	state->scanned = 0;
	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, run_queue(from), 0) {
		if (level_of_key(p->scx.dsq_vtime) > level || ++state->scanned > SCAN)
			break;
		if (!may_run_on(p, cpu) || is_migration_disabled(p))
			continue;
		pulled = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | cpu, 0);
		if (pulled)
			break;
	}
	bpf_rcu_read_unlock();
	return pulled;
}

/* One of @group's queues in which somebody of @level waits. */
ONCE int rr2_pull_in(u32 group, s32 cpu, u32 level)
{
	u64 cpus = *level_cpus(&waiting, level, group);
	u32 tries;

	if (group == group_of(cpu))
		cpus &= ~bit_of(cpu);
	bpf_for (tries, 0, GROUP_CPUS) {
		u32 bit;

		if (!cpus)
			break;
		bit = first_bit_from(cpus, group == group_of(cpu) ? from_bit(cpu) : 0);
		if (pull_from(cpu_at(group, bit), cpu, level))
			return true;
		cpus &= ~(1ULL << bit);
	}
	return false;
}

/* From the other groups, in the order of their numbers. */
static bool pull_far(s32 cpu, u32 level)
{
	u32 word, tries;

	bpf_for (word, 0, (nr_groups + 63) / 64) {
		u64 groups = *level_groups(&waiting, level, word * 64);

		bpf_for (tries, 0, 64) {
			u32 group;

			if (!groups)
				break;
			group = word * 64 + first_level(groups);
			groups &= groups - 1;
			if (!*level_cpus(&waiting, level, group))
				level_tidy(&waiting, level, group);
			else if (nr_groups > reach + 1 && rr2_pull_in(group, cpu, level))
				return true;
		}
	}
	return false;
}

/* From anywhere in the machine, nearest first. */
ONCE int rr2_pull_level(s32 cpu, u32 level)
{
	u32 own = group_of(cpu);
	u32 distance;

	bpf_for (distance, 0, reach + 1) {
		if (distance > group_facts(own)->nr_near)
			break;
		if (rr2_pull_in(near_group(own, distance), cpu, level))
			return true;
	}
	return pull_far(cpu, level);
}

/* The CPU's level drops to @level: does anything more important wait elsewhere (II.B)? */
static bool pull(s32 cpu, u32 level)
{
	u64 levels = waiting.levels & levels_above(level);
	u32 tries;

	bpf_for (tries, 0, LEVELS) {
		if (!levels)
			break;
		if (rr2_pull_level(cpu, first_level(levels))) {
			COUNT(pulled);
			return true;
		}
		levels &= levels - 1;
	}
	return false;
}

/* A thread of @team waiting at @level in @from's queue comes to @cpu's, and keeps its place in
 * time. */
ONCE int rr2_gather_from(s32 from, s32 cpu, u32 level, u64 team)
{
	struct cpu_state *state = cpu_state(cpu);
	struct task_struct *p;
	bool gathered = false;

	state->scanned = 0;
	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, run_queue(from), 0) {
		u32 of = level_of_key(p->scx.dsq_vtime);

		if (of > level || ++state->scanned > SCAN)
			break;
		if (of < level || team_of(p) != team)
			continue;
		if (!may_run_on(p, cpu) || is_migration_disabled(p))
			continue;
		recount_thread(p, from, cpu);
		gathered = scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, run_queue(cpu), 0);
		if (!gathered)
			recount_thread(p, cpu, from);
		break;
	}
	bpf_rcu_read_unlock();
	return gathered;
}

/*
 * The added pull (III): threads of equal level that have co-threads here and none there; or, so
 * that two halves of a team come together, fewer there than here. Who left the CPU calls its own.
 * They do not go before those who wait here.
 */
static __noinline void gather(s32 cpu, struct cpu_state *state, const struct task_struct *prev,
			      u64 now)
{
	u32 own = group_of(cpu), level = level_of(prev);
	u64 team = team_of(prev);
	struct squad *home, *squad;
	u32 distance;

	if (!team || now - state->gathered_at < tick_ns)
		return;
	state->gathered_at = now;
	home = squad_in(team, own);
	if (!home || !*threads_at(home, from_bit(cpu)) || !has_room(cpu))
		return;
	bpf_for (distance, 0, reach + 1) {
		u32 group = near_group(own, distance);
		u64 cpus;
		u32 tries;

		if (distance > group_facts(own)->nr_near)
			break;
		squad = distance ? squad_in(team, group) : home;
		if (!squad)
			continue;
		cpus = squad->cpus & *level_cpus(&waiting, level, group);
		if (!distance)
			cpus &= ~bit_of(cpu);
		bpf_for (tries, 0, QUEUES) {
			u32 bit;

			if (!cpus)
				break;
			bit = first_bit_from(cpus, from_bit(cpu));
			cpus &= ~(1ULL << bit);
			if (*threads_at(squad, bit) > *threads_at(home, from_bit(cpu)))
				continue;
			if (!rr2_gather_from(cpu_at(group, bit), cpu, level, team))
				continue;
			COUNT(gathered);
			state->levels |= level_bit(level);
			level_set(&waiting, level, cpu);
			if (!has_room(cpu))
				return;
		}
	}
}

/* Has nobody below @level had a turn on @cpu for long? */
static bool is_trickle_due(s32 cpu, struct cpu_state *state, u32 level, u64 now)
{
	u64 since = now - state->trickled_at;
	u64 most;

	if (!trickle_us || !(state->levels & levels_below(level)))
		return false;
	if (since >= US_TO_NS(trickle_us))
		return true;
	most = nr_queued(run_queue(cpu));
	return most && since >= WATCH_NS / most;
}

/* The arrival of a waiting task below @level; none of the others came later than never. */
static u64 arrival_below(const struct task_struct *p, u32 level)
{
	u64 key = p->scx.dsq_vtime;

	return level_of_key(key) > level ? key & ((1ULL << RANK_SHIFT) - 1) : NEVER;
}

/* A turn of a tick for the task below @level that has waited longest. */
ONCE int rr2_take_starving(s32 cpu, u32 level, u64 now)
{
	struct cpu_state *state = cpu_state(cpu);
	struct task_struct *p;
	bool taken = false;

	state->trickled_at = now;
	state->oldest = NEVER;
	state->scanned = 0;
	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, run_queue(cpu), 0) {
		u64 came = arrival_below(p, level);

		if (++state->scanned > OWN_SCAN)
			break;
		if (came < state->oldest)
			state->oldest = came;
	}
	bpf_for_each (scx_dsq, p, run_queue(cpu), 0) {
		if (state->oldest == NEVER || !state->scanned--)
			break;
		if (arrival_below(p, level) != state->oldest)
			continue;
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, tick_ns);
		taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | cpu, 0);
		break;
	}
	bpf_rcu_read_unlock();
	return taken;
}

/* The task that ran goes on. */
static void go_on(s32 cpu, struct cpu_state *state, struct task_struct *prev, u64 now)
{
	u64 rest = rest_of_turn(state, now);

	if (!rest) {
		rest = turn_ns();
		state->turn_began_at = now;
		state->turn_ns = rest;
	}
	scx_bpf_task_set_slice(prev, rest);
	state->is_trickle = false;
	set_level(cpu, level_of(prev));
}

/* The CPU needs its next task: the most important there is; among equals, who came first. */
void BPF_STRUCT_OPS(rr2_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state *state = cpu_state(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	u32 own = goes_on ? level_of(prev) : IDLE;
	u32 first = state->levels ? first_level(state->levels) : IDLE;
	u32 best = own < first ? own : first;
	u64 now = scx_bpf_now();

	if (!(state->levels & levels_below(best)))
		state->trickled_at = now;
	if (is_trickle_due(cpu, state, best, now) && rr2_take_starving(cpu, best, now)) {
		COUNT(trickled);
		state->is_trickle = true;
		return;
	}
	state->is_trickle = false;
	if (prev && is_loaded())
		gather(cpu, state, prev, now);
	if ((waiting.levels & levels_above(best)) && pull(cpu, best))
		return;
	if (goes_on) {
		if (first < own)
			first = rr2_correct_levels(cpu);
		if (own < first || (own == first && rest_of_turn(state, now))) {
			go_on(cpu, state, prev, now);
			return;
		}
	}
	if (state->levels && scx_bpf_dsq_move_to_local(run_queue(cpu), 0)) {
		if (goes_on && own == first)
			COUNT(turn_over);
		return;
	}
	rr2_correct_levels(cpu);
	if (goes_on) {
		go_on(cpu, state, prev, now);
		return;
	}
	/*
	 * A CPU that becomes idle says so and then looks for work; who queues a task says so and
	 * then looks for an idle CPU. So one of the two sees the other, at the next tick at the
	 * latest.
	 */
	state->current = IDLE;
	set_level(cpu, IDLE);
	if (waiting.levels & levels_above(IDLE))
		pull(cpu, IDLE);
}

/* Does anybody wait here who is more important than what runs? */
static bool is_outranked(const struct cpu_state *state, u32 level)
{
	return !state->is_trickle && (state->levels & levels_above(level));
}

/*
 * A turn begins. Somebody more important may have come to the queue after this task had been
 * chosen; and a trickle's turn is nobody's to interrupt, it is short.
 */
void BPF_STRUCT_OPS(rr2_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	u32 level = level_of(p);

	state->current = level;
	state->runner = p->pid;
	state->turn_began_at = scx_bpf_now();
	state->turn_ns = p->scx.slice;
	set_level(cpu, state->is_trickle ? TAKEN : level);
	if (is_outranked(state, level))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if (is_loaded())
		count_thread(p, cpu);
}

/* A sleeping thread is nobody's co-thread. */
void BPF_STRUCT_OPS(rr2_quiescent, struct task_struct *p, u64 deq_flags)
{
	if (grouping && *counted_on(scx_bpf_task_cpu(p)))
		uncount_thread(p);
}

/* A CPU that stops being idle for somebody else's task is not available. */
void BPF_STRUCT_OPS(rr2_update_idle, s32 cpu, bool idle)
{
	if (idle) {
		cpu_state(cpu)->current = IDLE;
		set_level(cpu, IDLE);
	} else if (cpu_state(cpu)->level == IDLE) {
		claim(cpu, IDLE, TAKEN);
	}
}

/* Once in a while somebody counts the runnable threads of a group. */
ONCE int rr2_count_runnable(s32 cpu, u64 now)
{
	u32 group = group_of(cpu), bit;
	struct group_load *load = &group_loads[group & (MAX_GROUPS - 1)];
	u64 before = load->counted_at;
	u64 missing = group_facts(group)->missing;
	u32 bits = group_facts(group)->cores * group_facts(group)->threads;

	if (now - before < COUNT_NS ||
	    __sync_val_compare_and_swap(&load->counted_at, before, now) != before)
		return 0;
	load->counting = 0;
	bpf_for (bit, 0, GROUP_CPUS) {
		s32 other = cpu_at(group, bit);

		if (bit >= bits)
			break;
		if (missing & (1ULL << bit))
			continue;
		load->counting += nr_queued(run_queue(other)) + (cpu_state(other)->current < IDLE);
	}
	__sync_fetch_and_add(&nr_runnable, load->counting - load->runnable);
	load->runnable = load->counting;
	return 0;
}

/* Somebody waits on @cpu while another is idle: it comes and takes the task. */
static void offer(s32 cpu)
{
	u32 own = group_of(cpu);
	struct task_struct *first;
	u32 distance;
	u64 idle;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(run_queue(cpu));
	if (first && !is_pinned(first)) {
		bpf_for (distance, 0, reach + 1) {
			u32 group = near_group(own, distance);
			s32 target;

			idle = *level_cpus(&running, IDLE, group);
			if (distance > group_facts(own)->nr_near)
				break;
			if (!idle)
				continue;
			target = cpu_at(group, first_bit_from(idle, from_bit(cpu)));
			if (may_run_on(first, target)) {
				scx_bpf_kick_cpu(target, SCX_KICK_IDLE);
				break;
			}
		}
	}
	bpf_rcu_read_unlock();
}

/*
 * The tick ends a turn where strict priority asks for it and no event did: a task whose nice value
 * or affinity has changed, a real-time task that holds a CPU, two who looked at the same moment.
 */
void BPF_STRUCT_OPS(rr2_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	u32 level = level_of(p);
	u64 now = scx_bpf_now();
	bool ends;

	remember_waiting(cpu, state);
	ends = waiting.levels & levels_above(level);
	if (grouping)
		rr2_count_runnable(cpu, now);
	if (state->is_trickle)
		return;
	if (state->levels) {
		ends |= is_outranked(state, level) || is_trickle_due(cpu, state, level, now);
		if (running.levels & level_bit(IDLE))
			offer(cpu);
	}
	if (ends)
		scx_bpf_task_set_slice(p, 0);
}

/* To the end of its level. */
bool BPF_STRUCT_OPS(rr2_yield, struct task_struct *from, struct task_struct *to)
{
	cpu_state(bpf_get_smp_processor_id())->turn_ns = 0;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/*
 * A real-time task takes the CPU for as long as it likes: who was about to run here is enqueued
 * once more, and those that wait here are anybody's to pull.
 */
void BPF_STRUCT_OPS(rr2_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	cpu_state(cpu)->current = TAKEN;
	set_level(cpu, TAKEN);
	give_way(args);
}

s32 BPF_STRUCT_OPS(rr2_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return grouping ? seat_thread(p) : 0;
}

static void init_group(u32 group)
{
	*level_cpus(&running, IDLE, group) = bits_of_group(group);
	level_announce(&running, IDLE, group);
	nr_cpus += group_facts(group)->nr_cpus;
}

/* All CPUs count as idle at first; those that are not say so as soon as they are. */
s32 BPF_STRUCT_OPS_SLEEPABLE(rr2_init)
{
	s32 cpu, err;
	u32 group;

	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids()) {
		cpu_state(cpu)->level = IDLE;
		cpu_state(cpu)->current = IDLE;
		err = scx_bpf_create_dsq(run_queue(cpu), NUMA_NO_NODE);
		if (err) {
			scx_bpf_error("no queue for CPU %d: error %d", cpu, err);
			return err;
		}
	}
	bpf_for (group, 0, nr_groups)
		init_group(group);
	return 0;
}

void BPF_STRUCT_OPS(rr2_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(rr2_ops,
	       .select_cpu	= (void *)rr2_select_cpu,
	       .enqueue		= (void *)rr2_enqueue,
	       .dispatch	= (void *)rr2_dispatch,
	       .running		= (void *)rr2_running,
	       .quiescent	= (void *)rr2_quiescent,
	       .update_idle	= (void *)rr2_update_idle,
	       .tick		= (void *)rr2_tick,
	       .yield		= (void *)rr2_yield,
	       .cpu_release	= (void *)rr2_cpu_release,
	       .init_task	= (void *)rr2_init_task,
	       .init		= (void *)rr2_init,
	       .exit		= (void *)rr2_exit,
	       .flags		= SCX_OPS_ENQ_MIGRATION_DISABLED,
	       .name		= "rr2");
/* clang-format on */
