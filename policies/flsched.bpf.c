/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FLSCHED: the feather-light scheduler for many-core machines.
 *
 * After Jo, Kang, Min and Kim, "FLSCHED: A Lockless and Lightweight Approach to OS Scheduler for
 * Xeon Phi", APSys 2017. Section numbers below are the paper's.
 *
 * The idea: a machine with many CPUs loses throughput to locks and to context switches, so do
 * without both. Each CPU has one run queue, served round robin. A woken task never interrupts
 * another; it waits for the next switch that happens anyway (3.3). Only the time slice is accounted
 * for, in the tick (3.4). The policy has no lock of its own (3.2); a queue's lock is the kernel's,
 * one a CPU.
 *
 * What is given up, on purpose: fairness, responsiveness, priorities, cgroup weights and limits.
 *
 * What differs from the paper; variant=paper does without all of it:
 * - A task that waits behind a computing one gets its turn in time, but no sooner; see is_due().
 * - A task that yields comes a tick later than those with work; see flsched_enqueue().
 * - A task that gets a message waits in its sender's queue; see waits_with_waker().
 * - A CPU without work takes a task from another CPU's queue, and one whose task goes on takes one
 *   from a queue longer than its own. The paper only pushes.
 * - Tasks of nice 1 to 19 and of SCHED_IDLE run when no other task wants to.
 */
#include "balance.bpf.h"
#include "later.bpf.h"

POLICY_BOILERPLATE(flsched)

/* The paper's slice. It ends a turn only where another task waits, so it is long. */
KNOB(slice_us, 100000, 1000, 10000000,
     "longest turn of a task while others wait for its CPU, in microseconds");

KNOB(max_delay_us, 100000, 1000, 10000000,
     "longest wait of a runnable task among up to 16 on its CPU, in microseconds");

KNOB(reach, 4, 0, MAX_NEAR, "groups of CPUs that a CPU searches beside its own, nearest first");

CHOICE(variant, 0, "bounded paper",
       "the algorithm: with bounded delays (bounded), or as published (paper)");

/* clang-format off */
STATS(
	STAT(idle_own, "woken or new task found its last CPU idle")
	STAT(idle_near, "woken or new task went to another CPU that was idle")
	STAT(queued_tail, "task went to the tail of a queue")
	STAT(queued_head, "task that would preempt elsewhere went to the head of a queue")
	STAT(turn_ended, "turn ended at the tick because another task had waited long enough")
	STAT(pulled, "CPU without work took a task from another CPU's queue")
	STAT(balanced, "CPU whose task goes on took a task from a queue longer than its own")
	STAT(pushed, "task went, or was offered, to an idle CPU at the end of its turn or at the tick")
	STAT(yielded, "task called sched_yield() while other tasks waited")
	STAT(background, "task of nice 1 to 19 or SCHED_IDLE was put behind all others"))
/* clang-format on */

enum variant { BOUNDED, PAPER };

#define CROWD	     16		    /* tasks on a CPU for which max_delay_us is kept */
#define LONGEST_NS   20000000000ULL /* of a larger crowd; the kernel's watchdog allows 30 s */
#define HEAD_BURST   4		    /* tasks in a row that may enter at the head */
#define DEFAULT_PRIO 120	    /* static_prio of nice 0 */

/*
 * The state of a CPU. It is written only by that CPU, and by one that enqueues there and so holds
 * its run-queue lock. A queue without its has_ flag is empty.
 */
struct cpu_state {
	u32 has_queued;
	s32 ended;    /* the task whose turn was ended: it has not yielded */
	u32 nr_heads; /* tasks entered at the head since the run queue was last served */
} __attribute__((aligned(64)));

static struct cpu_state cpu_states[MAX_CPUS];

static struct cpu_state *cpu_state(s32 cpu)
{
	return &cpu_states[cpu & (MAX_CPUS - 1)];
}

static u64 turn_ns(void)
{
	return US_TO_NS(slice_us);
}

/* Would @p preempt a running task under other schedulers? */
static bool would_preempt(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) || p->static_prio < DEFAULT_PRIO;
}

/* Is @p to run when no other task wants to? */
static bool is_background(const struct task_struct *p)
{
	return variant != PAPER && (p->static_prio > DEFAULT_PRIO || p->policy == POLICY_IDLE);
}

/* Did @p end its turn itself? sched_yield() leaves nothing of the slice. */
static bool has_yielded(const struct task_struct *p, const struct cpu_state *state)
{
	return variant != PAPER && !p->scx.slice && state->ended != p->pid;
}

/*
 * A sender of messages says that it will sleep soon. If the receiver waits behind it, messages
 * collect until then, and no other CPU's lock is taken; on its own CPU it would run for each one.
 * The CPUs must share a cache, and the waker's queue is at most a crowd longer.
 */
static bool waits_with_waker(const struct task_struct *p, s32 waker, s32 prev_cpu, u64 wake_flags)
{
	return variant != PAPER && (wake_flags & SCX_WAKE_SYNC) &&
	       group_of(waker) == group_of(prev_cpu) && bpf_cpumask_test_cpu(waker, p->cpus_ptr) &&
	       nr_queued(run_queue(waker)) <= nr_queued(run_queue(prev_cpu)) + CROWD;
}

/*
 * A CPU is chosen only for a task that wakes up or is new: its last one if that is idle, else the
 * nearest idle one by cache and node, else its last one's queue (3.3), or its waker's.
 */
s32 BPF_STRUCT_OPS(flsched_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = NO_CPU, waker = bpf_get_smp_processor_id();

	if (bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) && remove_cpu(&idle_cpus, prev_cpu)) {
		COUNT(idle_own);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), 0);
		return prev_cpu;
	}
	/* A new task stays for long: a whole core comes first, wherever it is. */
	if (wake_flags & SCX_WAKE_FORK)
		cpu = claim_idle(p, prev_cpu, reach, WHOLE_CORES);
	if (cpu < 0)
		cpu = claim_idle(p, prev_cpu, reach, NEARBY);
	if (cpu < 0)
		return waits_with_waker(p, waker, prev_cpu, wake_flags) ? waker : prev_cpu;
	COUNT(idle_near);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), 0);
	return cpu;
}

/* @p is to run when @cpu has no other work, and is due @ticks from now. */
static void enqueue_later(struct task_struct *p, s32 cpu, u64 slice_ns, u64 ticks, u64 enq_flags)
{
	insert_later(p, cpu, slice_ns, ticks, enq_flags);
	if (may_leave(p, enq_flags) && offer(&later_queues, p, cpu, reach, NEARBY))
		COUNT(pushed);
}

/*
 * No preemption: a task that would preempt goes to the head, all others go to the tail, and the
 * running task goes on (3.3). The local queue is served before the run queue, so its tail is the
 * head of both.
 */
void BPF_STRUCT_OPS(flsched_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	bool is_turn_over = !(enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ));
	bool yields = is_turn_over && has_yielded(p, state);

	if (is_turn_over)
		state->ended = NO_TASK;
	/* The only task of its CPU goes on: nothing would take it out of the run queue. */
	if (enq_flags & SCX_ENQ_LAST) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), enq_flags);
		return;
	}
	if (is_background(p)) {
		COUNT(background);
		enqueue_later(p, cpu, tick_ns, US_TO_NS(max_delay_us) / tick_ns, enq_flags);
		return;
	}
	/*
	 * A task that yields in a loop waits for another one. Running it again before that one
	 * is done is work for nothing.
	 */
	if (yields) {
		COUNT(yielded);
		enqueue_later(p, cpu, turn_ns(), 1, enq_flags);
		return;
	}
	if ((enq_flags & SCX_ENQ_WAKEUP) && would_preempt(p) && state->nr_heads < HEAD_BURST) {
		state->nr_heads++;
		COUNT(queued_head);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), enq_flags);
		return;
	}
	COUNT(queued_tail);
	state->has_queued = true;
	scx_bpf_dsq_insert(p, run_queue(cpu), turn_ns(), enq_flags);
	if (may_leave(p, enq_flags) && offer(&run_queues, p, cpu, reach, NEARBY))
		COUNT(pushed);
}

static bool take_queued(s32 cpu, struct cpu_state *state)
{
	if (take(run_queue(cpu), &state->has_queued)) {
		state->nr_heads = 0;
		return true;
	}
	remove_cpu(&run_queues.cpus, cpu);
	return false;
}

/*
 * Takes a task from another CPU's queue. It is the paper's push from the other side, and costs the
 * busy CPUs nothing.
 */
static bool pull(s32 cpu, struct queues *queues)
{
	if (variant == PAPER || !pull_near(queues, cpu, reach, 1))
		return false;
	COUNT(pulled);
	return true;
}

/* @cpu has nothing to run; offer() says why it checks the queues once more. */
static void become_idle(s32 cpu)
{
	add_cpu(&idle_cpus, cpu);
	if (pull(cpu, &run_queues) || pull(cpu, &later_queues) ||
	    (check_later(cpu) && take_later(cpu)))
		remove_cpu(&idle_cpus, cpu);
}

/* @p has another turn. */
static void go_on(struct task_struct *p, struct cpu_state *state, u64 slice_ns)
{
	state->ended = NO_TASK;
	scx_bpf_task_set_slice(p, slice_ns);
}

/* The CPU needs its next task: the task that ran goes to the end, the head of the queue is next. */
void BPF_STRUCT_OPS(flsched_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state *state = cpu_state(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool yields = goes_on && has_yielded(prev, state);

	if (is_later_due(cpu) && take_later(cpu))
		return;
	/* Tasks that compute leave no CPU idle. So they are balanced where their turns end. */
	if (variant != PAPER && goes_on && !yields && pull_longer(&run_queues, cpu, reach, 0)) {
		COUNT(balanced);
		return;
	}
	if (take_queued(cpu, state) || take_offered(cpu))
		return;
	/* Nothing waits here: the task that ran goes on. */
	if (goes_on && !yields && !is_background(prev)) {
		go_on(prev, state, turn_ns());
		return;
	}
	if (pull(cpu, &run_queues))
		return;
	if (yields && pull_waiter(cpu, reach)) {
		COUNT(pulled);
		return;
	}
	if (take_later(cpu))
		return;
	if (goes_on)
		go_on(prev, state, is_background(prev) ? tick_ns : turn_ns());
	else if (!pull(cpu, &later_queues))
		become_idle(cpu);
}

/* An idle CPU that was claimed or kicked in vain does not cease to idle; see become_idle(). */
void BPF_STRUCT_OPS(flsched_update_idle, s32 cpu, bool idle)
{
	if (idle)
		add_cpu(&idle_cpus, cpu);
	else
		remove_cpu(&idle_cpus, cpu);
}

/*
 * Must the running task of @cpu go to the end, so that no other task waits for too long?
 *
 * If turns end at every tick from now on, the last of N waiting tasks runs N ticks from now, and it
 * has waited no longer than the first. So while the wait of the first and N ticks together are less
 * than the bound, no wait can exceed it, and there is no reason to switch: tasks that soon block by
 * themselves, as most do, are never interrupted.
 */
static bool is_due(s32 cpu)
{
	u64 waiting = nr_queued(run_queue(cpu)) + nr_queued(later_queue(cpu));
	u64 bound = US_TO_NS(max_delay_us);

	if (waiting >= CROWD)
		bound = bound * (waiting + 1) / CROWD;
	if (bound > LONGEST_NS)
		bound = LONGEST_NS;
	return first_waited_ns(run_queue(cpu)) + waiting * tick_ns >= bound;
}

/* Does the turn of @p end, so that a waiting task runs? */
static bool ends_turn(const struct task_struct *p, s32 cpu, struct cpu_state *state)
{
	/* No other CPU finds the tasks in the local queue, so they wait for a tick at most. */
	if (nr_queued(SCX_DSQ_LOCAL_ON | cpu) || is_later_due(cpu))
		return true;
	if (is_background(p) && (state->has_queued || *cpus_in(&run_queues.cpus, group_of(cpu))))
		return true;
	return state->has_queued && is_due(cpu);
}

/*
 * The tick counts the slice down and does nothing else (3.4) as long as no other task waits. When
 * the slice is used up, the kernel calls dispatch, which lets the task go on. That call is needed:
 * the kernel may have put a task into its global queue, because the CPU it was pushed to had gone
 * offline meanwhile.
 */
void BPF_STRUCT_OPS(flsched_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);

	remove_cpu(&idle_cpus, cpu);
	if (variant != PAPER && ends_turn(p, cpu, state)) {
		COUNT(turn_ended);
		scx_bpf_task_set_slice(p, 0);
	}
	if (!p->scx.slice)
		state->ended = p->pid;
	if (state->has_queued)
		COUNT_MANY(pushed, offer_waiting(&run_queues, cpu, reach, false));
	if (check_later(cpu))
		COUNT_MANY(pushed, offer_waiting(&later_queues, cpu, reach, false));
}

/* A task of a higher class takes the CPU: the tasks in its local queue are enqueued again. */
void BPF_STRUCT_OPS(flsched_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	give_way(args);
}

/* All CPUs count as idle at first; one that is not leaves the set at its next tick. */
static s32 init_cpu(s32 cpu)
{
	cpu_state(cpu)->ended = NO_TASK;
	later_state(cpu)->lender = NO_CPU;
	if (is_online(cpu))
		add_cpu(&idle_cpus, cpu);
	return create_queue(run_queue(cpu), cpu) ?: create_queue(later_queue(cpu), cpu);
}

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
	       .update_idle	= (void *)flsched_update_idle,
	       .tick		= (void *)flsched_tick,
	       .cpu_release	= (void *)flsched_cpu_release,
	       .init		= (void *)flsched_init,
	       .exit		= (void *)flsched_exit,
	       .flags		= POLICY_FLAGS | SCX_OPS_ENQ_LAST,
	       .name		= "flsched");
