/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FLSCHED: the feather-light scheduler for many-core machines.
 *
 * Derived from Jo, Kang, Min and Kim, "FLSCHED: A Lockless and Lightweight Approach to OS Scheduler
 * for Xeon Phi", APSys 2017; flsched_paper.bpf.c has their algorithm as it is.
 *
 * The idea is theirs: a machine with many CPUs loses throughput to locks and to context switches,
 * so do without both. Each CPU has queues of its own, and tasks take turns. A woken task
 * interrupts none but the background; it waits for the next switch that happens anyway. Only the
 * time slice is accounted for, in the tick. The policy has no lock of its own; a queue's lock is
 * the kernel's.
 *
 * The order in which the tasks of a CPU run is ours. Each is eligible from some moment on, and the
 * one that has been so for longest is next. That moment is
 * - for a task with work: when it became runnable;
 * - for one that would preempt others elsewhere: sooner, by the longest wait of those others;
 * - for one that yields, and so waits for another task: a tick later.
 * Tasks that are not eligible yet run when there is no other work, here or nearby; those of the
 * background (nice 1 to 19, SCHED_IDLE) when there are none of these either (background.bpf.h).
 *
 * A turn is not ended before another task has to run, so that none waits for too long (is_due()).
 * CPUs without work look for some elsewhere (find_work()). A task that gets a message waits in its
 * sender's queue (waits_with_waker()).
 *
 * What is given up, on purpose: fairness, responsiveness, cgroup weights and limits.
 */
#include "balance.bpf.h"
#include "messages.bpf.h"
#include "order.bpf.h"
#include "yield_to.bpf.h"

POLICY_BOILERPLATE(flsched)

/* The paper's slice. It ends a turn only where another task waits, so it is long. */
KNOB(slice_us, 100000, 1000, 10000000,
     "longest turn of a task while others wait for its CPU, in microseconds");

/* clang-format off */
STATS(
	STAT(idle_own, "woken or new task found its last CPU idle")
	STAT(idle_near, "woken or new task went to another CPU that was idle")
	STAT(queued_tail, "task with work was queued")
	STAT(queued_head, "woken task that would preempt elsewhere was queued before others")
	STAT(turn_ended, "turn ended at the tick because another task had waited long enough")
	STAT(pulled, "CPU without work took a task from another CPU's queue")
	STAT(balanced, "CPU whose task goes on took a task from a queue longer than its own")
	STAT(pushed, "idle CPU was woken for a task that waited: when it was queued, or at the tick")
	STAT(yielded, "task called sched_yield() while other tasks waited")
	STAT(yielded_to, "task gave its CPU to another one, by yield_to()")
	STAT(background, "task of nice 1 to 19 or SCHED_IDLE was put behind all others"))
/* clang-format on */

static u64 turn_ns(void)
{
	return US_TO_NS(slice_us);
}

/* A task's place in its queue follows from its wait, so that nothing needs to be noted. */
static void note_turn_over(s32 cpu, s32 pid)
{
}

/*
 * A CPU is chosen only for a task that wakes up or is new: its last one if that is idle, else the
 * nearest idle one by cache and node, else one in the background; else it waits in its last one's
 * queue, or its waker's.
 */
s32 BPF_STRUCT_OPS(flsched_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = NO_CPU, waker = bpf_get_smp_processor_id();

	if (bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) && remove_cpu(&idle_cpus, prev_cpu)) {
		COUNT(idle_own);
		insert_on_idle(p, prev_cpu, turn_ns());
		return prev_cpu;
	}
	/* A new task stays for long: a whole core comes first, wherever it is. */
	if (wake_flags & SCX_WAKE_FORK)
		cpu = claim_idle(p, prev_cpu, WHOLE_CORES);
	if (cpu < 0)
		cpu = claim_idle(p, prev_cpu, NEARBY);
	if (cpu < 0) {
		cpu = claim_background(p, prev_cpu);
		if (cpu >= 0)
			return cpu;
		return waits_with_waker(p, waker, prev_cpu, wake_flags) ? waker : prev_cpu;
	}
	COUNT(idle_near);
	insert_on_idle(p, cpu, turn_ns());
	return cpu;
}

/* No preemption: a task waits for its turn, and the running task goes on. */
void BPF_STRUCT_OPS(flsched_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	bool yields = !(enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ)) && has_yielded(p, cpu);
	bool is_before = (enq_flags & SCX_ENQ_WAKEUP) && would_preempt(p);
	struct queues *queues = &later_queues;

	if (yields)
		end_yield(cpu);
	if (is_background(p)) {
		COUNT(background);
		queues = &background_queues;
		insert_background(p, cpu, enq_flags);
	} else if (yields) {
		COUNT(yielded);
		insert_later(p, cpu, turn_ns(), key_after_yield(p), enq_flags);
	} else {
		COUNT_MANY(queued_head, is_before);
		COUNT_MANY(queued_tail, !is_before);
		queues = &run_queues;
		state->has_queued = true;
		scx_bpf_dsq_insert_vtime(p, run_queue(cpu), turn_ns(),
					 is_before ? key_before_others(p) : p->scx.runnable_at,
					 enq_flags);
		interrupt_background(cpu);
	}
	if (may_leave(p, enq_flags) && offer(queues, p, cpu, NEARBY))
		COUNT(pushed);
}

/*
 * Takes the task on @cpu that has been eligible for longest. Now and then the background has a
 * turn, whatever else waits.
 */
static bool take_next(s32 cpu, struct cpu_state *state)
{
	if (is_background_due(cpu) && take_background(cpu)) {
		limit_turn(cpu, SIDE_TURN);
		return true;
	}
	if ((is_later_next(cpu) && take_later(cpu)) || take(run_queue(cpu), &state->has_queued)) {
		limit_turn(cpu, TURN);
		return true;
	}
	remove_cpu(&run_queues.cpus, cpu);
	return false;
}

static bool pull(s32 cpu, struct queues *queues)
{
	if (!pull_near(queues, cpu, 1))
		return false;
	COUNT(pulled);
	return true;
}

/*
 * Where a CPU without work looks for some: what was offered to it, tasks with work nearby, then
 * those that are not eligible yet. If the CPU's own task yields, one that waits elsewhere is worth
 * no more: the CPU takes one only as pull_waiter() says.
 */
static bool find_work(s32 cpu, bool yields)
{
	if (take_offered(cpu) || pull(cpu, &run_queues))
		return true;
	if (yields && pull_waiter(cpu)) {
		COUNT(pulled);
		return true;
	}
	return take_later(cpu) || (!yields && pull(cpu, &later_queues));
}

/* @p has another turn. */
static void go_on(struct task_struct *p, s32 cpu)
{
	set_background(cpu, is_background(p));
	end_yield(cpu);
	scx_bpf_task_set_slice(p, is_background(p) ? tick_ns : turn_ns());
}

bool BPF_STRUCT_OPS(flsched_yield, struct task_struct *from, struct task_struct *to)
{
	return yield(from, to);
}

/* The CPU needs its next task: the task that ran goes to its queue, unless it goes on. */
void BPF_STRUCT_OPS(flsched_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state *state = cpu_state(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool in_background = goes_on && is_background(prev);
	bool yields = goes_on && !in_background && has_yielded(prev, cpu);
	bool works = goes_on && !in_background && !yields;
	struct queues *own = works ? &run_queues : &background_queues;

	set_background(cpu, false);
	if (take_target(cpu, 3)) {
		COUNT(yielded_to);
		return;
	}
	if (take_urgent(cpu)) {
		COUNT(pulled);
		return;
	}
	/* Tasks that compute leave no CPU idle. So they are balanced where their turns end. */
	if (goes_on && !yields && (works || !state->has_queued) && pull_longer(own, cpu, 0)) {
		COUNT(balanced);
		return;
	}
	if (take_next(cpu, state))
		return;
	if (!works && find_work(cpu, yields))
		return;
	if (!works && !yields && find_background(cpu, goes_on))
		return;
	if (goes_on) {
		go_on(prev, cpu);
		return;
	}
	/* offer() says why a CPU checks the queues once more. */
	add_cpu(&idle_cpus, cpu);
	check_later(cpu);
	check_background(cpu);
	if (take(run_queue(cpu), &state->has_queued) || find_work(cpu, false) ||
	    find_background(cpu, false))
		remove_cpu(&idle_cpus, cpu);
}

/* An idle CPU that was claimed or kicked in vain does not cease to idle: dispatch adds it, too. */
void BPF_STRUCT_OPS(flsched_update_idle, s32 cpu, bool idle)
{
	if (idle)
		add_cpu(&idle_cpus, cpu);
	else
		remove_cpu(&idle_cpus, cpu);
}

/* Return true if the turn of @p ends, so that a waiting task runs. */
static bool ends_turn(const struct task_struct *p, s32 cpu, struct cpu_state *state)
{
	/* No other CPU finds the tasks in the local queue, so they wait for a tick at most. */
	if (nr_queued(SCX_DSQ_LOCAL_ON | cpu) || is_later_due(cpu) || is_background_due(cpu))
		return true;
	if (is_background(p) && (state->has_queued || cpus_of(&run_queues.cpus, group_of(cpu))))
		return true;
	return state->has_queued && is_due(p, cpu, turn_ns() - p->scx.slice);
}

/*
 * The kernel counts the slice down at the tick. As long as no other task waits, no turn ends before
 * its slice. When the slice is used up, the kernel calls dispatch, which lets the task go on. That
 * call is needed: the kernel may have put a task into its global queue, because the CPU it was
 * pushed to had gone offline meanwhile.
 */
void BPF_STRUCT_OPS(flsched_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);

	/* A CPU that said it would idle, and got a task at that moment, never began to. */
	remove_cpu(&idle_cpus, cpu);
	set_background(cpu, is_background(p));
	if (find_held(cpu) || ends_turn(p, cpu, state)) {
		COUNT(turn_ended);
		scx_bpf_task_set_slice(p, 0);
	} else if (!is_background(p) && !nr_queued(run_queue(cpu)) &&
		   is_comparison_due(cpu, longest_wait_ticks())) {
		scx_bpf_task_set_slice(p, 0);
	}
	COUNT_MANY(pushed, offer_all(cpu));
	set_turns(cpu, nr_queued(run_queue(cpu)) + later_state(cpu)->nr_queued,
		  background(cpu)->nr_queued, state->has_queued || !is_background(p));
}

/* A task of a higher class takes the CPU: the tasks in its local queue are enqueued again. */
void BPF_STRUCT_OPS(flsched_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	give_way();
}

static s32 init_cpu(s32 cpu)
{
	loan_of(cpu)->lender = NO_CPU;
	return create_queue(run_queue(cpu), cpu) ?: create_queue(later_queue(cpu), cpu)
						 ?: create_queue(background_queue(cpu), cpu)
						 ?: create_turn_timer(cpu);
}

/*
 * No CPU counts as idle at first. Each says so itself: when a policy is attached, the kernel has it
 * choose its next task. One that a higher class holds does not.
 */
s32 BPF_STRUCT_OPS_SLEEPABLE(flsched_init)
{
	s32 cpu, err;

	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids()) {
		err = init_cpu(cpu);
		if (err)
			return err;
	}
	return 0;
}

/* clang-format off */
SCX_OPS_DEFINE(flsched_ops,
	       .select_cpu	= (void *)flsched_select_cpu,
	       .enqueue		= (void *)flsched_enqueue,
	       .dispatch	= (void *)flsched_dispatch,
	       .yield		= (void *)flsched_yield,
	       .update_idle	= (void *)flsched_update_idle,
	       .tick		= (void *)flsched_tick,
	       .cpu_release	= (void *)flsched_cpu_release,
	       .init		= (void *)flsched_init,
	       .exit		= (void *)flsched_exit,
	       .flags		= POLICY_FLAGS | SCX_OPS_ENQ_EXITING,
	       .name		= "flsched");
