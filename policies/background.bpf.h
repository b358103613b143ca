/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FLSCHED's background: each CPU's third queue, of tasks that are to run only when no other task
 * wants to. A CPU that runs one, as it has nothing else to do, is as good as idle for all others: a
 * task that wakes up takes it.
 *
 * So that none of them waits for ever, the background of a CPU as a whole has a turn each longest
 * wait, whatever else waits there; more often only where it has hundreds of tasks, each of which
 * must have a turn before the kernel ejects the policy.
 */
#ifndef FLSCHED_BACKGROUND_BPF_H
#define FLSCHED_BACKGROUND_BPF_H

#include "delay.bpf.h"
#include "held.bpf.h"
#include "offers.bpf.h"
#include "turns.bpf.h"

#define DEFAULT_PRIO 120 /* static_prio of nice 0 */
#define LEAST_WAIT_TICKS \
	12 /* between turns of the background: it has less than a tenth of the CPU */

/*
 * The state of a CPU's background. It is written only by that CPU, and by one that enqueues there
 * and so holds its run-queue lock; @has_tasks also by one that offers a task.
 */
struct background {
	u32 has_tasks; /* if not, the queue is empty */
	u64 due_at;    /* the tick at which a task has a turn before others */
	u32 nr_turns;  /* that it has had since then */
	u32 nr_queued; /* tasks in the queue at the last tick */
} __attribute__((aligned(64)));

static struct background backgrounds[MAX_CPUS];

static struct queues background_queues = {.first = 2 * MAX_CPUS};

/* The CPUs that run the background. One leaves the set when it is claimed, or gets other work. */
static struct cpu_set background_cpus;

static struct background *background(s32 cpu)
{
	return &backgrounds[cpu & (MAX_CPUS - 1)];
}

static u64 background_queue(s32 cpu)
{
	return third_queue(cpu);
}

/* Return true if @p is of the background. A task that exits is not: others wait for its end. */
static bool is_background(const struct task_struct *p)
{
	return (p->static_prio > DEFAULT_PRIO || p->policy == SCHED_IDLE) &&
	       !(p->flags & PF_EXITING);
}

/*
 * Sets when the background of @cpu, with @tasks tasks, is due again. Few of them wait for the
 * longest wait, many have as many turns within LONGEST_NS as there are tasks: the rates of the two
 * are added. With more tasks than ticks it is due for several turns at once.
 */
static void postpone_background(s32 cpu, u64 tasks)
{
	u64 longest = LONGEST_NS / tick_ns, wait = longest_wait_ticks();

	if (wait < LEAST_WAIT_TICKS)
		wait = LEAST_WAIT_TICKS;
	background(cpu)->due_at =
		bpf_jiffies64() + (wait * longest / (longest + wait * tasks) ?: 1);
	background(cpu)->nr_turns = 0;
}

static void insert_background(struct task_struct *p, s32 cpu, u64 enq_flags)
{
	if (!READ_ONCE(background(cpu)->has_tasks))
		postpone_background(cpu, 0);
	WRITE_ONCE(background(cpu)->has_tasks, true);
	scx_bpf_dsq_insert_vtime(p, background_queue(cpu), tick_ns, p->scx.runnable_at, enq_flags);
}

static bool is_background_due(s32 cpu)
{
	return READ_ONCE(background(cpu)->has_tasks) &&
	       !time_before(bpf_jiffies64(), background(cpu)->due_at);
}

static bool take_background(s32 cpu)
{
	u64 tasks = nr_queued(background_queue(cpu));

	if (!take(background_queue(cpu), &background(cpu)->has_tasks))
		return false;
	if (++background(cpu)->nr_turns * (LONGEST_NS / tick_ns) >= tasks)
		postpone_background(cpu, tasks);
	return true;
}

/* As check_later() does. */
static bool check_background(s32 cpu)
{
	background(cpu)->nr_queued = nr_queued(background_queue(cpu));
	return check(background(cpu)->nr_queued, &background(cpu)->has_tasks);
}

/*
 * @is_in: @cpu runs a task of the background because it has nothing else to do. Then the background
 * is not due before the next tick: a crowd in it would always be due, and work that is found
 * elsewhere would never run.
 */
static void set_background(s32 cpu, bool is_in)
{
	if (is_in && is_background_due(cpu))
		background(cpu)->due_at = bpf_jiffies64() + 1;
	if (is_in)
		add_cpu(&background_cpus, cpu);
	else
		remove_cpu(&background_cpus, cpu);
}

/* @p runs on @cpu, which was idle, at once. Work that comes there may take it from the background.
 */
static void insert_on_idle(struct task_struct *p, s32 cpu, u64 slice_ns)
{
	if (is_background(p))
		add_cpu(&background_cpus, cpu);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
}

/* The policy's: takes a task for @cpu from such a queue of another CPU, and counts it. */
static bool pull(s32 cpu, struct queues *queues);

/* There is no work anywhere. @goes_on: the task that ran is of the background, too. */
static bool find_background(s32 cpu, bool goes_on)
{
	if (!take_background(cpu) && (goes_on || !pull(cpu, &background_queues)))
		return false;
	limit_turn(cpu, SIDE_TURN);
	set_background(cpu, true);
	return true;
}

/* Claims the nearest CPU in the background for @p, which goes to its run queue; or NO_CPU. */
static s32 claim_background(struct task_struct *p, s32 prev_cpu)
{
	s32 cpu = is_background(p) ? NO_CPU
				   : claim_near(&background_cpus, prev_cpu, reach, NEARBY, p);

	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return cpu;
}

/* A task with work waits on @cpu. It takes the CPU, if that is in the background. */
static void interrupt_background(s32 cpu)
{
	if (remove_cpu(&background_cpus, cpu))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The background queue of @cpu if a task has waited there for far too long; held.bpf.h. */
static u64 urgent_background(s32 cpu)
{
	return first_waited_ns(background_queue(cpu)) < LONGEST_NS ? NO_QUEUE
								   : background_queue(cpu);
}

/* Takes a task that waits on a CPU that is held. Those of the background keep their pace. */
static bool take_urgent(s32 cpu)
{
	u64 held = noted_held(cpu);

	if (held == NO_QUEUE)
		return false;
	if (held < third_queue(0))
		return scx_bpf_dsq_move_to_local(held, 0);
	if (adopt(cpu, held, background_queue(cpu)))
		set_and_order(&background(cpu)->has_tasks);
	return false;
}

#endif /* FLSCHED_BACKGROUND_BPF_H */
