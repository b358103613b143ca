/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FLSCHED: the feather-light scheduler for many-core machines.
 *
 * After Jo, Kang, Min and Kim, "FLSCHED: A Lockless and Lightweight Approach to OS Scheduler for
 * Xeon Phi", APSys 2017. Section numbers below are the paper's.
 *
 * The idea: on a machine with many CPUs throughput is lost to locks and to context switches, so do
 * without both. One run queue a CPU, served round robin. A woken task never interrupts anybody; it
 * waits for the next switch that happens anyway (3.3). The only thing accounted for is the time
 * slice, and that in the tick (3.4). Nothing here takes a lock (3.2): a queue's own lock is the
 * kernel's, per CPU, and taken by another CPU only when that one has nothing to do.
 *
 * What is given up, on purpose: fairness, responsiveness, priorities, cgroup weights and limits.
 *
 * What differs from the original, because a queue behind a CPU hog must not wait for ever: the
 * delay is bounded. Up to CROWD tasks a CPU wait no longer than max_delay_us, more of them in
 * proportion longer, and none at all is sent to the end of the queue before that bound is in
 * danger; see is_due().
 */
#include "common.bpf.h"

POLICY_BOILERPLATE();

/* The paper's slice. It ends a turn only where somebody waits, so it is long. */
KNOB(slice_us, 100000, 1000, 10000000,
     "longest turn of a task while others wait for its CPU, in microseconds");

KNOB(max_delay_us, 100000, 1000, 10000000,
     "longest wait of a runnable task among up to 16 on its CPU, in microseconds");

/*
 * The paper moves tasks by push only. An idle CPU that finds work within reach is the same event
 * seen from the other side, and it costs the busy CPU nothing. The reach is bounded because the
 * way to idle is a hot path too.
 */
KNOB(pull_reach, 8, 0, 64, "how many of the nearest CPUs a CPU looks at for work before it idles");

/*
 * Kernel threads and negative-nice tasks would preempt under other schedulers; here they go to the
 * head of the queue (3.3). A stream of them must not keep the rest from running.
 */
KNOB(head_burst, 4, 0, 64, "how many tasks in a row may enter at the head of a queue");

/*
 * Who calls sched_yield() in a loop waits for somebody. Running it again at once is work for
 * nothing; not running it until the release costs at most a part of the wait itself: a CPU on which
 * everybody waits first goes round for spin_us, then rests for half the time waited so far.
 */
KNOB(spin_us, 50, 0, 100000,
     "how long tasks that only yield take turns before their CPU rests, in microseconds");
KNOB(rest_us, 250, 0, 10000,
     "longest rest of a CPU on which everybody only yields, in microseconds; 0 never rests");

/* clang-format off */
STATS(
	STAT(idle_own, "woken or new task found its own CPU idle")
	STAT(idle_near, "woken or new task went to an idle CPU nearby")
	STAT(queued_tail, "task went to the tail of a queue")
	STAT(queued_head, "task that others would let preempt went to the head of a queue")
	STAT(turn_ended, "turn ended at the tick because somebody had waited long enough")
	STAT(pulled, "CPU with nothing to do took a task from a queue nearby")
	STAT(pushed, "busy CPU gave a task to an idle CPU, or asked one to take it")
	STAT(yielded, "task called sched_yield()")
	STAT(rested, "CPU on which everybody only yields went to rest"))
/* clang-format on */

FACT(tick_ns);

#define PROGRESS_NS  10000 /* who runs this long before it yields has worked, not only looked */
#define CROWD	     16	   /* tasks on a CPU for which max_delay_us is kept */
#define DEFAULT_PRIO 120   /* static_prio of nice 0 */
#define MAX_CPUS     4096
#define NOBODY	     (-1)

/* What a CPU knows of itself. Written by that CPU, except pull_from and rested. */
struct cpu_state {
	u64 heads_in_a_row;  /* tasks entered at the head since the tail was last served */
	u64 turn_began_at;   /* when the CPU last decided who runs */
	u64 waiting_since;   /* since when everybody here only yields; 0: somebody works */
	u64 waiting_room_at; /* when the waiting room was last served */
	s32 pull_from;	     /* a CPU that asked this one to take work, or NOBODY */
	s32 yielder;	     /* the running task if it has just yielded, or NOBODY */
	bool rested;	     /* a rest has ended: look whether somebody was released */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_state);
} cpu_states SEC(".maps");

struct rest_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct rest_timer);
} rest_timers SEC(".maps");

static u32 nr_cpus;

static struct cpu_state *cpu_state(s32 cpu)
{
	u32 zero = 0;

	return bpf_map_lookup_percpu_elem(&cpu_states, &zero, cpu);
}

/* A CPU's run queue, and the waiting room of those that yielded there. */
static u64 run_queue(s32 cpu)
{
	return cpu;
}

static u64 waiting_room(s32 cpu)
{
	return MAX_CPUS + cpu;
}

static u64 nr_queued(u64 dsq)
{
	s32 queued = scx_bpf_dsq_nr_queued(dsq);

	return queued > 0 ? queued : 0;
}

static u64 nr_waiting(s32 cpu)
{
	return nr_queued(SCX_DSQ_LOCAL_ON | cpu) + nr_queued(run_queue(cpu)) +
	       nr_queued(waiting_room(cpu));
}

static u64 turn_ns(void)
{
	return US_TO_NS(slice_us);
}

/* How long the first task of a queue has been runnable, at the tick's resolution. */
static u64 first_waited_ns(u64 dsq)
{
	struct task_struct *first;
	u64 ticks = 0;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(dsq);
	if (first)
		ticks = bpf_jiffies64() - first->scx.runnable_at;
	bpf_rcu_read_unlock();
	return ticks * tick_ns;
}

/*
 * Must the running task of @cpu go to the end, for the sake of the @waiting others?
 *
 * If turns end at every tick from now on, the last of N waiting tasks runs N ticks from now, and it
 * has waited no longer than the first has. So while the first's wait and N ticks together are less
 * than the bound, nobody's wait can exceed it, and there is no reason to switch: tasks that soon
 * block by themselves, as most do, are never interrupted.
 */
static bool is_due(s32 cpu, u64 waiting)
{
	u64 bound = US_TO_NS(max_delay_us);
	u64 soonest = waiting * tick_ns;

	if (waiting >= CROWD)
		bound = bound * (waiting + 1) / CROWD;
	return first_waited_ns(run_queue(cpu)) + soonest >= bound ||
	       first_waited_ns(waiting_room(cpu)) + soonest >= bound;
}

/* Would other schedulers let @p interrupt a running task? */
static bool would_preempt(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) || p->static_prio < DEFAULT_PRIO;
}

/*
 * Only where a task wakes up or is born is its CPU chosen: its last one if that is idle, else the
 * nearest idle one by cache and node, which the kernel knows, else its last one's queue (3.3).
 */
s32 BPF_STRUCT_OPS(flsched_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle = false;
	s32 cpu;

	if (scx_bpf_test_and_clear_cpu_idle(prev_cpu)) {
		COUNT(idle_own);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), 0);
		return prev_cpu;
	}

	/* Without the hint of a synchronous wake-up, which would put it behind its waker. */
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags & ~SCX_WAKE_SYNC, &idle);
	if (idle) {
		COUNT(idle_near);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), 0);
		return cpu;
	}
	return prev_cpu;
}

/*
 * No preemption: who would preempt goes to the head, all others to the tail, and the running task
 * goes on (3.3). The local queue is served before the run queue, so its tail is the head of both.
 */
void BPF_STRUCT_OPS(flsched_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	u64 turn = turn_ns();

	if (!state)
		return;
	if (state->yielder == p->pid) {
		state->yielder = NOBODY;
		scx_bpf_dsq_insert(p, waiting_room(cpu), turn, enq_flags);
		return;
	}
	if ((enq_flags & SCX_ENQ_WAKEUP) && would_preempt(p) &&
	    state->heads_in_a_row < head_burst) {
		state->heads_in_a_row++;
		COUNT(queued_head);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn, enq_flags);
		return;
	}
	/* The only task of its CPU goes on: nothing would take it out of the run queue. */
	if (enq_flags & SCX_ENQ_LAST) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn, enq_flags);
		return;
	}
	/* Its turn is over: somewhere else it need not wait for the next (push, 3.2). */
	if (!(enq_flags & SCX_ENQ_WAKEUP)) {
		s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (idle >= 0) {
			COUNT(pushed);
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, turn_ns(), enq_flags);
			return;
		}
	}
	COUNT(queued_tail);
	scx_bpf_dsq_insert(p, run_queue(cpu), turn, enq_flags);
}

/*
 * Somebody waits on @cpu: is there a CPU with nothing to do that may run the first in the queue
 * (push, 3.2)? The target takes the task itself, so that nobody is interrupted.
 */
static void push(s32 cpu)
{
	struct task_struct *first;
	struct cpu_state *target;
	s32 idle = NOBODY;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(run_queue(cpu));
	if (first)
		idle = scx_bpf_pick_idle_cpu(first->cpus_ptr, 0);
	bpf_rcu_read_unlock();
	if (idle < 0)
		return;
	target = cpu_state(idle);
	if (target)
		target->pull_from = cpu;
	COUNT(pushed);
	scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/*
 * @cpu has nothing to do: take a task from whoever asked, else from the nearest queue, else, to
 * even out the waiting, from a waiting room nearby that holds at least two more than its own.
 */
static bool pull(s32 cpu, struct cpu_state *state, u64 own_waiters)
{
	s32 asked = state->pull_from;
	s32 crowded = NOBODY;
	u32 i;

	if (asked >= 0) {
		state->pull_from = NOBODY;
		if (scx_bpf_dsq_move_to_local(run_queue(asked), 0))
			return true;
	}
	bpf_for (i, 1, pull_reach + 1) {
		s32 near = (cpu + i) % nr_cpus;

		if (i >= nr_cpus)
			break;
		if (nr_queued(run_queue(near)) && scx_bpf_dsq_move_to_local(run_queue(near), 0))
			return true;
		if (crowded == NOBODY && nr_queued(waiting_room(near)) > own_waiters + 1)
			crowded = near;
	}
	return crowded >= 0 && scx_bpf_dsq_move_to_local(waiting_room(crowded), 0);
}

static int end_of_rest(void *map, u32 *cpu, struct rest_timer *rest)
{
	struct cpu_state *state = cpu_state(*cpu);

	if (state)
		state->rested = true;
	scx_bpf_kick_cpu(*cpu, SCX_KICK_IDLE);
	return 0;
}

/* Everybody on @cpu has only yielded for a while: is it time to rest? The timer ends it. */
static bool rest(s32 cpu, struct cpu_state *state, u64 now)
{
	struct rest_timer *timer;
	u64 waited, length;
	u32 key = cpu;

	if (!state->waiting_since)
		state->waiting_since = now;
	waited = now - state->waiting_since;
	if (state->rested) {
		state->rested = false;
		return false;
	}
	if (!rest_us || waited < US_TO_NS(spin_us))
		return false;
	timer = bpf_map_lookup_elem(&rest_timers, &key);
	if (!timer)
		return false;
	length = waited / 2 < US_TO_NS(rest_us) ? waited / 2 : US_TO_NS(rest_us);
	if (bpf_timer_start(&timer->timer, length, BPF_F_TIMER_CPU_PIN))
		return false;
	COUNT(rested);
	return true;
}

/*
 * The CPU needs its next task: the head of its queue. Those that yielded come after all others,
 * here and nearby, but at least once a tick.
 */
void BPF_STRUCT_OPS(flsched_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state *state = cpu_state(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	u64 now = scx_bpf_now();
	bool yielded;
	u64 waiters;

	if (!state)
		return;
	yielded = goes_on && state->yielder == prev->pid;
	state->turn_began_at = now;

	if (now - state->waiting_room_at > tick_ns) {
		state->waiting_room_at = now;
		if (scx_bpf_dsq_move_to_local(waiting_room(cpu), 0))
			return;
	}
	if (scx_bpf_dsq_move_to_local(run_queue(cpu), 0)) {
		state->heads_in_a_row = 0;
		state->waiting_since = 0;
		return;
	}
	/* Nobody waits: the task that ran goes on. */
	if (goes_on && !yielded) {
		scx_bpf_task_set_slice(prev, turn_ns());
		return;
	}
	waiters = nr_queued(waiting_room(cpu)) + yielded;
	if (pull(cpu, state, waiters)) {
		COUNT(pulled);
		state->waiting_since = 0;
		return;
	}
	if (!waiters || rest(cpu, state, now))
		return;
	state->waiting_room_at = now;
	if (!scx_bpf_dsq_move_to_local(waiting_room(cpu), 0) && yielded) {
		state->yielder = NOBODY;
		scx_bpf_task_set_slice(prev, turn_ns());
	}
}

/*
 * The tick counts the slice down and does nothing else (3.4) as long as nobody waits. A slice that
 * is used up then only makes the kernel ask again, and dispatch lets the task go on: that it asks
 * at all keeps alive a task that the kernel had to put into its global queue, because the CPU it
 * was pushed to had gone offline meanwhile.
 */
void BPF_STRUCT_OPS(flsched_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u64 waiting = nr_waiting(cpu);

	if (!waiting)
		return;
	if (!p->scx.slice || nr_queued(SCX_DSQ_LOCAL_ON | cpu) || is_due(cpu, waiting)) {
		COUNT(turn_ended);
		scx_bpf_task_set_slice(p, 0);
	}
	push(cpu);
}

/* To the waiting room, and a normal switch. Who worked before it yielded has made progress. */
bool BPF_STRUCT_OPS(flsched_yield, struct task_struct *from, struct task_struct *to)
{
	struct cpu_state *state = cpu_state(bpf_get_smp_processor_id());

	if (!state)
		return false;
	COUNT(yielded);
	state->yielder = from->pid;
	if (scx_bpf_now() - state->turn_began_at > PROGRESS_NS)
		state->waiting_since = 0;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

static s32 init_cpu(s32 cpu)
{
	struct cpu_state *state = cpu_state(cpu);
	struct rest_timer *rest;
	u32 key = cpu;
	s32 err;

	rest = bpf_map_lookup_elem(&rest_timers, &key);
	if (!state || !rest)
		return -E2BIG;
	state->pull_from = NOBODY;
	state->yielder = NOBODY;
	bpf_timer_init(&rest->timer, &rest_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&rest->timer, end_of_rest);

	err = scx_bpf_create_dsq(run_queue(cpu), NUMA_NO_NODE);
	return err ?: scx_bpf_create_dsq(waiting_room(cpu), NUMA_NO_NODE);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(flsched_init)
{
	s32 cpu, err;

	nr_cpus = scx_bpf_nr_cpu_ids();
	bpf_for (cpu, 0, nr_cpus) {
		err = init_cpu(cpu);
		if (err) {
			scx_bpf_error("no queues for CPU %d: error %d", cpu, err);
			return err;
		}
	}
	return 0;
}

void BPF_STRUCT_OPS(flsched_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(flsched_ops,
	       .select_cpu	= (void *)flsched_select_cpu,
	       .enqueue		= (void *)flsched_enqueue,
	       .dispatch	= (void *)flsched_dispatch,
	       .tick		= (void *)flsched_tick,
	       .yield		= (void *)flsched_yield,
	       .init		= (void *)flsched_init,
	       .exit		= (void *)flsched_exit,
	       .flags		= SCX_OPS_ENQ_LAST,
	       .name		= "flsched");
