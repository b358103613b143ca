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
 * whose level drops. Queues of equals are not balanced.
 *
 * The idea (III): when there are far more threads than CPUs, threads of one process (co-threads)
 * that run on the same CPU find each other's data in its cache. So where several CPUs are suitable,
 * a thread goes where its co-threads are, or near. A CPU takes over waiting threads of equal level
 * whose co-threads it has.
 *
 * What differs from the paper (docs/explanation/rr2.md): grouping acts only while the machine is
 * loaded; no CPU gathers much more than its share of all threads; a CPU whose task goes on takes
 * one from a longer queue, as far as teams stay together; and a task that waits below one that
 * never blocks gets a trickle of CPU time, because the kernel would eject the scheduler.
 */
#define DEFAULT_MAX_DELAY_US 1600000 /* turns of 16 tasks */

#include "balance.bpf.h"
#include "delay.bpf.h"
#include "gather.bpf.h"
#include "held.bpf.h"
#include "trickle.bpf.h"
#include "yields.bpf.h"

POLICY_BOILERPLATE(rr2)

KNOB(slice_us, 100000, 1000, 10000000, "turn of a task among others of its level, in microseconds");

/* clang-format off */
STATS(
	STAT(pushed_1, "task went to an available CPU that has co-threads (step 1)")
	STAT(pushed_2, "task went to the CPU where it ran last (step 2)")
	STAT(pushed_3, "task went to the available CPU nearest to its co-threads (step 3)")
	STAT(pushed_4, "task went to the available CPU nearest to where it ran last (steps 4 and 5)")
	STAT(joined, "no CPU was available: the task waits where it has co-threads (step 1)")
	STAT(preempted, "running task was preempted by a more important one")
	STAT(pulled, "CPU took a task that is more important than its own from another CPU")
	STAT(balanced, "CPU whose task went on took one of equal level from a longer queue")
	STAT(gathered, "CPU took over a waiting task of equal level whose co-threads it has")
	STAT(trickled, "task below more important ones that never block got a turn")
	STAT(yielded_to, "task gave its CPU to another one, by yield_to()"))
/* clang-format on */

#define PUSHES 8 /* tasks that wait on a CPU for which a tick searches another one */

/* The state of a CPU, written under its run-queue lock. */
struct cpu_state {
	s32 current;	  /* the task that runs, or ran last */
	u64 turn_ends_at; /* 0: that task goes to the end of its level */
	bool may_gather;  /* a tick has passed since the CPU searched for co-threads elsewhere */
} __attribute__((aligned(64)));

static struct cpu_state cpu_states[MAX_CPUS];

static struct cpu_state *cpu_state(s32 cpu)
{
	return &cpu_states[cpu & (MAX_CPUS - 1)];
}

/* What a CPU is searched for. */
struct search {
	s32 last;    /* where the task ran last */
	u32 counted; /* 1: it is counted on its last CPU as a thread of its team */
	u32 is_new;  /* a new task stays for long: a core that is idle as a whole comes first */
	u32 at;	     /* level of the CPUs that are tried */
	struct cothreads near;
};

/* The paper's steps (III) among the CPUs of one level. */
__noinline s32 rr2_claim(struct search *search __arg_nonnull, struct task_struct *p __arg_trusted)
{
	struct cpu_set *set = available_at(search->at);
	s32 last = search->last, beside = search->near.beside;
	u64 cothreads = search->near.cpus;
	s32 cpu = claim_in(set, group_of(beside), cothreads, cpu_index(last), p);

	if (cpu >= 0) {
		COUNT(pushed_1);
		return cpu;
	}
	cpu = claim_in(set, group_of(last), bit_of(last), 0, p);
	if (cpu >= 0) {
		COUNT(pushed_2);
		return cpu;
	}
	if (cothreads)
		cpu = claim_in(set, group_of(beside), core_bits(beside), 0, p);
	if (cothreads && cpu < 0)
		cpu = claim_near(set, beside, reach, NEARBY, p);
	if (cpu >= 0) {
		COUNT(pushed_3);
		return cpu;
	}
	if (search->is_new && search->at == IDLE)
		cpu = claim_near(set, last, reach, WHOLE_CORES, p);
	if (cpu < 0)
		cpu = claim_near(set, last, reach, NEARBY, p);
	if (cpu >= 0)
		COUNT(pushed_4);
	return cpu;
}

/*
 * The searching algorithm (II.B): claims a CPU that runs something less important than @p, and of
 * those one that runs what is least important.
 */
__noinline s32 rr2_search(struct search *search __arg_nonnull, struct task_struct *p __arg_trusted)
{
	u64 levels = READ_ONCE(available_levels) & levels_below(level_of(p));
	u64 team = is_loaded() ? team_of(p) : 0;
	u32 tries;

	if (team)
		find_cothreads(team, search->last, search->counted, &search->near);
	bpf_for (tries, 0, LEVELS + 1) {
		s32 cpu;

		if (!levels)
			break;
		search->at = last_level(levels);
		cpu = rr2_claim(search, p);
		if (cpu >= 0)
			return cpu;
		clear_if_empty(&available_levels, search->at, available_at(search->at));
		levels &= ~level_bit(search->at);
	}
	return NO_CPU;
}

/*
 * A task wakes up or is made (II.B). An idle CPU gets it at once; for a CPU that runs another task
 * enqueue handles it. If no CPU is available the task waits where its co-threads are: that is the
 * paper's first step, which pushes a thread to a queue.
 */
s32 BPF_STRUCT_OPS(rr2_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct search search = {.last = prev_cpu, .is_new = wake_flags & SCX_WAKE_FORK};
	s32 cpu = rr2_search(&search, p), beside = search.near.beside;

	if (cpu >= 0 && search.at == IDLE)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, US_TO_NS(slice_us), 0);
	if (cpu < 0 && search.near.cpus && bpf_cpumask_test_cpu(beside, p->cpus_ptr) &&
	    READ_ONCE(levels_on(beside)->runs) < IDLE && takes_more(run_queue(beside))) {
		COUNT(joined);
		cpu = beside;
	}
	return cpu < 0 ? prev_cpu : cpu;
}

/* Push (II.B): @p waits on @cpu. If another CPU is to run it, that CPU takes it. */
static void push(struct task_struct *p, s32 cpu, u32 level)
{
	struct search search = {.last = cpu, .counted = 1};

	add_waiting(cpu, level);
	if (READ_ONCE(available_levels) & levels_below(level))
		offer_to(rr2_search(&search, p), &run_queues, cpu, kick_at(search.at));
}

/*
 * A task has to wait. In its level those come first that became runnable first. Two kinds come
 * before others: tasks preempted by more important ones, with the rest of their turn, as in
 * SCHED_RR; and kernel threads that wake up, because other tasks wait for them. Not where their
 * level waits for a trickle: one that often wakes up would have all turns; nor before tasks that
 * have waited for a slice. One that yields comes after those that become runnable within a tick: a
 * few that yield would take most of the CPU from tasks that have work for a moment, and sleep.
 */
void BPF_STRUCT_OPS(rr2_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	bool has_woken = enq_flags & SCX_ENQ_WAKEUP;
	u64 slice_ns = US_TO_NS(slice_us), now = scx_bpf_now();
	u32 level = level_of(p), running = levels_on(cpu)->runs;
	u64 key = level_key(level, p->scx.runnable_at);
	bool yields = !has_woken && has_yielded(p, cpu);
	bool gives_way =
		!has_woken && !yields && state->current == p->pid && now < state->turn_ends_at;
	bool serves = has_woken && (p->flags & PF_KTHREAD);
	bool preempts = level < running && running < IDLE && !is_trickle(cpu);

	if (gives_way)
		slice_ns = state->turn_ends_at - now;
	if (yields)
		key += 1 + lag_after_yield(cpu, nr_queued(run_queue(cpu))) / tick_ns;
	else if (gives_way)
		key -= LONGEST_NS / tick_ns;
	else if (serves && level <= running && !is_trickle(cpu))
		key -= US_TO_NS(slice_us) / tick_ns;
	note_waiting(cpu, level);
	if (is_loaded())
		count_thread(p, cpu);
	if (may_leave(p, enq_flags)) {
		if (preempts)
			add_waiting(cpu, level);
		else
			push(p, cpu, level);
	}
	scx_bpf_dsq_insert_vtime(p, run_queue(cpu), slice_ns, key, enq_flags);
	if (preempts) {
		COUNT(preempted);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * Takes a task of @level for @cpu, whose task goes on. A task that yields waits for others, which
 * run soonest if all queues are equally long. Otherwise teams stay together: a task is taken only
 * if none waits on @cpu, or from a queue longer by two than gathering makes it: one that wakes up
 * there for a moment disturbs no team.
 */
static bool balance(s32 cpu, const struct task_struct *prev, u32 level)
{
	bool evenly =
		has_yielded(prev, cpu) || !grouping || !is_loaded() || !nr_queued(run_queue(cpu));

	return pull_longer(waiting_at(level), cpu, evenly ? 0 : most_tasks() + 1);
}

static void note_turn_over(s32 cpu, s32 pid)
{
	cpu_state(cpu)->turn_ends_at = 0;
}

static u64 urgent_queue(s32 cpu)
{
	return nr_queued(run_queue(cpu)) ? run_queue(cpu) : NO_QUEUE;
}

/*
 * Takes a task that waits in vain on a CPU which a higher class holds. Those that are less
 * important than the one that goes on wait here from now on.
 */
static bool take_held(s32 cpu, u32 own)
{
	u64 held = noted_held(cpu);

	if (held == NO_QUEUE)
		return false;
	if (first_level_in(held) <= own)
		return scx_bpf_dsq_move_to_local(held, 0);
	if (adopt(cpu, held, run_queue(cpu)))
		levels_on(cpu)->first = NO_LEVEL;
	return false;
}

/* A turn begins, as long as the task's slice. */
static void begin_turn(const struct task_struct *p, s32 cpu, struct cpu_state *state)
{
	state->current = p->pid;
	end_yield(cpu);
	state->turn_ends_at = scx_bpf_now() + p->scx.slice;
	set_level(cpu, level_of(p), !is_trickle(cpu));
}

/* A task that yields goes to the end of its level. */
bool BPF_STRUCT_OPS(rr2_yield, struct task_struct *from, struct task_struct *to)
{
	return yield(from, to);
}

/*
 * The CPU needs its next task: the most important one; among equals, the one that came first. If
 * its level drops the CPU pulls (II.B).
 */
void BPF_STRUCT_OPS(rr2_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state *state = cpu_state(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	u32 own = goes_on ? level_of(prev) : IDLE, first, best, came;

	if (is_trickle(cpu))
		state->turn_ends_at = 0;
	if (take_starving(cpu)) {
		COUNT(trickled);
		return;
	}
	if (take_target(cpu, 1)) {
		COUNT(yielded_to);
		return;
	}
	if (take_held(cpu, own)) {
		COUNT(balanced);
		return;
	}
	if (prev && state->may_gather && is_loaded()) {
		state->may_gather = false;
		came = gather(cpu, level_of(prev), team_of(prev));
		COUNT_MANY(gathered, came);
	}
	first = first_waiting(cpu);
	best = own < first ? own : first;
	if (take_offered_above(cpu, best) || pull_above(cpu, best)) {
		COUNT(pulled);
		return;
	}
	if (goes_on && first >= own && balance(cpu, prev, own)) {
		COUNT(balanced);
		state->turn_ends_at = 0;
		return;
	}
	if (first < IDLE && first <= own && scx_bpf_dsq_move_to_local(run_queue(cpu), 0)) {
		limit_turn(cpu, TURN);
		note_taken(cpu);
		if (first == own)
			state->turn_ends_at = 0;
		return;
	}
	if (goes_on) {
		scx_bpf_task_set_slice(prev, US_TO_NS(slice_us));
		begin_turn(prev, cpu, state);
		return;
	}
	/*
	 * The CPU declares itself idle, then searches for work; push() declares that a task waits,
	 * then searches for an idle CPU. So one finds the other, at the next tick at the latest.
	 */
	set_level(cpu, IDLE, true);
	if (nr_queued(run_queue(cpu)) && scx_bpf_dsq_move_to_local(run_queue(cpu), 0))
		return;
	if (!take_offered_above(cpu, IDLE))
		pull_above(cpu, IDLE);
}

/* A more important task may have been queued after this one had been chosen. */
void BPF_STRUCT_OPS(rr2_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);

	begin_turn(p, cpu, cpu_state(cpu));
	if (levels_on(cpu)->first < levels_on(cpu)->runs && !is_trickle(cpu))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if (is_loaded())
		count_thread(p, cpu);
}

/* A sleeping thread is no co-thread. */
void BPF_STRUCT_OPS(rr2_quiescent, struct task_struct *p, u64 deq_flags)
{
	uncount_thread(p);
}

/* A CPU begins or ceases to idle. */
void BPF_STRUCT_OPS(rr2_update_idle, s32 cpu, bool idle)
{
	set_level(cpu, idle ? IDLE : NO_LEVEL, true);
	if (idle)
		set_load(cpu, 0);
}

/* Looks for other CPUs that are to run one of the first tasks that wait on @cpu. */
__noinline int rr2_push_waiting(s32 cpu)
{
	struct task_struct *p;
	u32 tried = 0;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, run_queue(cpu), 0) {
		if (tried++ >= PUSHES)
			break;
		if (!is_pinned(p))
			push(p, cpu, level_of(p));
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Those behind the first ones may be all that may run elsewhere. @first: the very first's level. */
static void offer_others(s32 cpu, u32 first)
{
	u64 levels = READ_ONCE(available_levels) & levels_below(first);
	u32 last = levels ? last_level(levels) : NO_LEVEL;

	if (levels)
		offer_rest(&run_queues, available_at(last), cpu, PUSHES, kick_at(last));
}

/*
 * The tick ends a turn where strict priority requires it and no event has ended it, as after a
 * change of a nice value; and where other tasks would wait for too long.
 */
void BPF_STRUCT_OPS(rr2_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u64 nr_here = nr_queued(run_queue(cpu));
	u32 level = level_of(p), first;

	set_level(cpu, level, !is_trickle(cpu));
	cpu_state(cpu)->may_gather = true;
	/* An idle CPU has got two tasks at once. No other CPU finds the second one. */
	if (find_held(cpu) || is_trickle(cpu) || nr_queued(SCX_DSQ_LOCAL_ON | cpu))
		scx_bpf_task_set_slice(p, 0);
	if (is_trickle(cpu))
		return;
	set_load(cpu, nr_here);
	set_turns(cpu, nr_here, trickle_crowd(cpu, nr_here), true);
	if (!nr_here)
		return;
	/* Events on two CPUs at once can miss each other. */
	rr2_push_waiting(cpu);
	first = first_level_in(run_queue(cpu));
	offer_others(cpu, first);
	if (finds_starving(cpu, level, nr_here) || first < level ||
	    exceeds_bound(nr_here, first_waited_ns(run_queue(cpu)),
			  US_TO_NS(slice_us) - p->scx.slice))
		scx_bpf_task_set_slice(p, 0);
}

/* A task of a higher class takes the CPU. Other CPUs may take those that wait here. */
void BPF_STRUCT_OPS(rr2_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	set_level(cpu, NO_LEVEL, true);
	give_way();
}

/*
 * A CPU counts as idle when it says so: when a policy is attached the kernel has each CPU choose
 * its next task. One that a higher class holds is not.
 */
s32 BPF_STRUCT_OPS_SLEEPABLE(rr2_init)
{
	s32 cpu, err = 0;

	init_load();
	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids()) {
		err = err ?: create_queue(run_queue(cpu), cpu) ?: create_turn_timer(cpu);
		*levels_on(cpu) = (struct cpu_levels){.runs = NO_LEVEL, .first = IDLE};
	}
	return err;
}

/* clang-format off */
SCX_OPS_DEFINE(rr2_ops,
	       .select_cpu	= (void *)rr2_select_cpu,
	       .enqueue		= (void *)rr2_enqueue,
	       .dispatch	= (void *)rr2_dispatch,
	       .yield		= (void *)rr2_yield,
	       .running		= (void *)rr2_running,
	       .quiescent	= (void *)rr2_quiescent,
	       .update_idle	= (void *)rr2_update_idle,
	       .tick		= (void *)rr2_tick,
	       .cpu_release	= (void *)rr2_cpu_release,
	       .init		= (void *)rr2_init,
	       .exit		= (void *)rr2_exit,
	       .flags		= POLICY_FLAGS | SCX_OPS_ENQ_EXITING,
	       .name		= "rr2");
/* clang-format on */
