/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Smove: a woken task waits for a fast CPU for a moment before it goes to a slow one.
 *
 * After Gouicem, Carver, Lozi, Sopena, Lepers, Zwaenepoel, Palix, Lawall and Muller, "Fewer Cores,
 * More Hertz: Leveraging High-Frequency Cores in the OS Scheduler for Improved Application
 * Performance", USENIX ATC 2020, and the patch that its authors sent to the kernel's mailing list
 * in October 2020 ("the patch" below).
 *
 * The problem: a CPU needs tens of milliseconds to become fast. A task that forks or wakes another
 * one and then waits for it has it placed on an idle CPU, which is slow because it was idle. Its
 * own CPU, which is fast, becomes idle: frequency inversion.
 *
 * The idea: if the CPU that was chosen runs at a low frequency, the task stays on the CPU of its
 * waker or parent, and a short timer is set. If that CPU becomes free before the timer expires, the
 * task runs there, on a fast CPU; if not, it goes to an idle one. The simpler variant, S_local,
 * stays there until the load is balanced.
 *
 * The base scheduler: the nearest idle CPU, else one in the background, else the last
 * one's run queue; round robin; no preemption by woken tasks but of the background (nice 1 to 19,
 * SCHED_IDLE; background.bpf.h); a CPU without work, or with a queue that is shorter by two, takes
 * a task from another one's queue. cgroup weights and limits are ignored.
 */
#include "background.bpf.h"
#include "balance.bpf.h"
#include "frequency.bpf.h"
#include "yields.bpf.h"

POLICY_BOILERPLATE(smove)

CHOICE(strategy, 0, "smove local off",
       "what happens if the idle CPU chosen for a task is slow: it first waits for delay_us where "
       "it was woken (smove), stays there until the load is balanced, whatever the frequency "
       "(local), or goes to that CPU (off)");

/* About as long as a compiler's driver takes from its fork to its wait (the patch). */
KNOB(delay_us, 50, 1, 10000,
     "how long a task waits for the CPU where it was woken, in microseconds");

/* The paper: the minimum on a Xeon E7-8870 v4, slightly more on a Ryzen 5 3400G. */
KNOB(threshold_mhz, 0, 0, 65535,
     "a CPU that runs at this frequency or below is slow, in MHz; 0 is an eighth more than the "
     "CPU's own minimum");

/*
 * An idle CPU has no tick, so its frequency is not measured. Under schedutil what a CPU has done
 * counts for less than a tenth after 100 ms of idling, and hardware gives up its clock sooner.
 */
KNOB(stale_ms, 100, 1, 60000,
     "a CPU whose frequency was measured longer ago than this counts as slow, in milliseconds");

/* Turns end at ticks. With ticks of 4 ms one takes 1 to 5 ms, about as long as under EEVDF. */
KNOB(slice_us, 1000, 100, 1000000,
     "shortest turn of a task while others wait for its CPU, in microseconds; it ends at the next "
     "tick");

/* clang-format off */
STATS(
	STAT(warm, "woken or new task went to another idle CPU that is fast, or of unknown speed")
	STAT(avoided, "chosen CPU was slow: the task stayed where it was woken")
	STAT(forbidden, "chosen CPU was slow, but the task may not run where it was woken")
	STAT(armed, "timer was set for tasks that stayed, or that a higher class preempted")
	STAT(cancelled, "task that stayed ran there within its delay")
	STAT(expired, "task that stayed still waited when its delay was over: it may go")
	STAT(local, "task stayed where it was woken, by strategy local")
	STAT(pulled, "CPU without work took a task that waited on another CPU")
	STAT(balanced, "CPU with work took a task from a queue longer than its own")
	STAT(yielded_to, "task gave its CPU to another one, by yield_to()"))
/* clang-format on */

enum strategy { STRATEGY_SMOVE, STRATEGY_LOCAL, STRATEGY_OFF };

/* Each CPU has a timer for the tasks that stay there. */
struct delay_timer {
	struct bpf_timer timer;
	bool is_set;
} __attribute__((aligned(64)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct delay_timer);
} delay_timers SEC(".maps");

/*
 * The tasks that stay on @cpu for a moment. The queue is itself the list of pending moves: it is
 * ordered by when their delays are over. A task that runs or is killed has left it by that alone.
 */
static u64 stay_queue(s32 cpu)
{
	return second_queue(cpu);
}

static u64 turn_ns(void)
{
	return US_TO_NS(slice_us);
}

/*
 * Return true if @cpu, which is idle, is so slow that a task is better off waiting on @here. It is
 * not if both run at one frequency, being threads of a core or cores of one clock; nor if that is
 * not known.
 */
static bool is_slow(s32 cpu, s32 here)
{
	u32 slow_mhz = threshold_mhz ?: min_mhz_of(cpu) * 9 / 8;

	return is_clocked(cpu) && clock_domain_of(cpu) != clock_domain_of(here) &&
	       recent_mhz(cpu, stale_ms * 1000000) <= slow_mhz;
}

/*
 * Sets @cpu's timer, unless it is set already: then it expires before @due. It is never cancelled:
 * an expiry in vain costs as much, and serves tasks that came to stay meanwhile. So it expires once
 * a delay at most, however many tasks are woken. False if it cannot be set.
 */
static bool set_timer(s32 cpu, u64 due)
{
	struct delay_timer *timer = bpf_map_lookup_elem(&delay_timers, &cpu);
	u64 now = scx_bpf_now();

	if (!timer)
		return false;
	if (!timer->is_set) {
		timer->is_set = !bpf_timer_start(
			&timer->timer, time_after(due, now) ? due - now : 0, BPF_F_TIMER_CPU_PIN);
		COUNT_MANY(armed, timer->is_set);
	}
	return timer->is_set;
}

/*
 * Keeps @p on @cpu for a moment; false if no timer can be set for it. A task that a higher class
 * has preempted comes before all that stay: the CPU was its own.
 */
static bool stay(struct task_struct *p, s32 cpu, u64 enq_flags)
{
	u64 now = scx_bpf_now();
	u64 over = now + US_TO_NS(delay_us);

	if (!set_timer(cpu, over))
		return false;
	scx_bpf_dsq_insert_vtime(p, stay_queue(cpu), turn_ns(),
				 (enq_flags & SCX_ENQ_REENQ) ? now : over, enq_flags);
	return true;
}

/*
 * The task goes to the idle CPU that was chosen, unless that CPU is slow. At an exec the kernel
 * calls no operation: the task stays where it is, as it would here.
 */
s32 BPF_STRUCT_OPS(smove_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 here = bpf_get_smp_processor_id();
	bool may_stay = bpf_cpumask_test_cpu(here, p->cpus_ptr);
	s32 cpu;

	if (strategy == STRATEGY_LOCAL && may_stay) {
		COUNT(local);
		return here;
	}
	if (bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) && remove_cpu(&idle_cpus, prev_cpu))
		cpu = prev_cpu;
	else
		cpu = claim_idle_core(p, prev_cpu);
	if (cpu < 0) {
		cpu = claim_background(p, prev_cpu);
		return cpu < 0 ? prev_cpu : cpu;
	}
	if (strategy == STRATEGY_SMOVE && cpu != prev_cpu && is_slow(cpu, here)) {
		if (may_stay && stay(p, here, 0)) {
			COUNT(avoided);
			add_cpu(&idle_cpus, cpu);
			return here;
		}
		COUNT(forbidden);
	} else if (cpu != prev_cpu && cpu != here) {
		COUNT(warm);
	}
	insert_on_idle(p, cpu, turn_ns());
	return cpu;
}

/*
 * When @p is due: it became runnable then, at the tick's resolution, or it yields. So whatever has
 * a waiting task enqueued again does not send it back.
 */
static u64 due_at(const struct task_struct *p, s32 cpu, u64 enq_flags)
{
	if (!(enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ)) && has_yielded(p, cpu)) {
		end_yield(cpu);
		return scx_bpf_now() + lag_after_yield(cpu, nr_queued(run_queue(cpu)));
	}
	return scx_bpf_now() - (bpf_jiffies64() - p->scx.runnable_at) * tick_ns;
}

/*
 * Adds @p to its CPU's run queue, in the order in which tasks are due, or to the background. A task
 * that a higher class has preempted stays for a moment first: most tasks of that class are done in
 * microseconds.
 */
void BPF_STRUCT_OPS(smove_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct queues *queues = &run_queues;

	if ((enq_flags & SCX_ENQ_REENQ) && stay(p, cpu, enq_flags))
		return;
	if (is_background(p)) {
		queues = &background_queues;
		insert_background(p, cpu, enq_flags);
	} else {
		scx_bpf_dsq_insert_vtime(p, run_queue(cpu), turn_ns(), due_at(p, cpu, enq_flags),
					 enq_flags);
		interrupt_background(cpu);
	}
	if (!may_leave(p, enq_flags))
		return;
	if ((enq_flags & SCX_ENQ_WAKEUP) && strategy == STRATEGY_LOCAL)
		add_cpu(&queues->cpus, cpu);
	else
		offer(queues, p, cpu, ANYWHERE);
}

/* Return true if the first task of @cpu's run queue is due. */
static bool has_due(s32 cpu)
{
	u64 now = scx_bpf_now();

	return nr_queued(run_queue(cpu)) && !time_after(first_key(run_queue(cpu), now + 1), now);
}

/* Takes a task that stays, unless one in the run queue is due. Its move is cancelled. */
static bool take_stayed(s32 cpu)
{
	if (!nr_queued(stay_queue(cpu)) || has_due(cpu))
		return false;
	if (!scx_bpf_dsq_move_to_local(stay_queue(cpu), 0))
		return false;
	COUNT(cancelled);
	return true;
}

static bool take_queued(s32 cpu)
{
	if (scx_bpf_dsq_move_to_local(run_queue(cpu), 0)) {
		limit_turn(cpu, TURN);
		return true;
	}
	remove_cpu(&run_queues.cpus, cpu);
	return false;
}

/* A task must not wait for work to end that goes on elsewhere; held.bpf.h. */
static u64 urgent_queue(s32 cpu)
{
	return nr_queued(run_queue(cpu)) ? run_queue(cpu) : urgent_background(cpu);
}

/* The order follows from when tasks are due, so that nothing needs to be noted. */
static void note_turn_over(s32 cpu, s32 pid)
{
}

/* Takes a task from another CPU: one that was offered, else one that waits nearby. */
static bool pull(s32 cpu, struct queues *queues)
{
	if (!take_offered(cpu) && !pull_near(queues, cpu, 1))
		return false;
	COUNT(pulled);
	return true;
}

bool BPF_STRUCT_OPS(smove_yield, struct task_struct *from, struct task_struct *to)
{
	return yield(from, to);
}

/*
 * The CPU needs its next task: the background now and then, one that stays here for a moment, the
 * next in the queue, or whatever waits elsewhere.
 */
void BPF_STRUCT_OPS(smove_dispatch, s32 cpu, struct task_struct *prev)
{
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool works = goes_on && !is_background(prev);
	struct queues *like = works ? &run_queues : &background_queues;

	set_background(cpu, false);
	if (take_target(cpu, 3)) {
		COUNT(yielded_to);
		return;
	}
	if (is_background_due(cpu) && take_background(cpu)) {
		limit_turn(cpu, SIDE_TURN);
		return;
	}
	if (take_stayed(cpu))
		return;
	if (take_urgent(cpu) ||
	    (goes_on && (works || !nr_queued(run_queue(cpu))) && pull_longer(like, cpu, 0))) {
		COUNT(balanced);
		return;
	}
	if ((!works || has_yielded(prev, cpu) || has_due(cpu)) && take_queued(cpu))
		return;
	if (!works && (pull(cpu, &run_queues) || find_background(cpu, goes_on)))
		return;
	if (goes_on) {
		end_yield(cpu);
		set_background(cpu, !works);
		scx_bpf_task_set_slice(prev, works ? turn_ns() : tick_ns);
		return;
	}
	/* A task that was queued meanwhile found the CPU idle, or is found here; see offer(). */
	add_cpu(&idle_cpus, cpu);
	check_background(cpu);
	if (take_queued(cpu) || pull(cpu, &run_queues) || find_background(cpu, false))
		remove_cpu(&idle_cpus, cpu);
}

/* A CPU that was claimed in vain does not cease to idle: dispatch adds it, too. */
void BPF_STRUCT_OPS(smove_update_idle, s32 cpu, bool idle)
{
	if (idle)
		add_cpu(&idle_cpus, cpu);
	else
		remove_cpu(&idle_cpus, cpu);
}

/* Return true if the turn of @p ends, so that a waiting task runs. */
static bool ends_turn(const struct task_struct *p, s32 cpu, u64 waiting)
{
	/* No other CPU finds the tasks in the local queue: an idle CPU has got two at once. */
	if (nr_queued(SCX_DSQ_LOCAL_ON | cpu) || is_background_due(cpu))
		return true;
	if (is_background(p) && (waiting || cpus_of(&run_queues.cpus, group_of(cpu))))
		return true;
	return waiting &&
	       exceeds_bound(waiting, first_waited_ns(run_queue(cpu)), turn_ns() - p->scx.slice);
}

/* At a tick of @cpu the tasks that wait there are offered to idle CPUs, and to the background. */
static void offer_all(s32 cpu, u64 waiting)
{
	if (waiting && !offer_waiting(&run_queues, &idle_cpus, cpu, true, SCX_KICK_IDLE))
		offer_waiting(&run_queues, &background_cpus, cpu, false, SCX_KICK_PREEMPT);
	if (check_background(cpu))
		offer_waiting(&background_queues, &idle_cpus, cpu, true, SCX_KICK_IDLE);
}

/* Every tick measures the CPU's frequency (the patch), and offers tasks to idle CPUs. */
void BPF_STRUCT_OPS(smove_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u64 waiting = nr_queued(run_queue(cpu));

	remove_cpu(&idle_cpus, cpu);
	set_background(cpu, is_background(p));
	if (find_held(cpu) || ends_turn(p, cpu, waiting))
		scx_bpf_task_set_slice(p, 0);
	if (strategy == STRATEGY_SMOVE)
		record_frequency(cpu);
	offer_all(cpu, waiting);
	set_turns(cpu, waiting, background(cpu)->nr_queued, waiting || !is_background(p));
}

/*
 * A task of a higher class takes the CPU. No tick offers the tasks that wait there any more; the
 * timer does so if that task is not done by then.
 */
void BPF_STRUCT_OPS(smove_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	give_way();
	set_timer(cpu, scx_bpf_now() + US_TO_NS(delay_us));
}

/* The queue of @cpu where @p waits when its delay is over. */
static u64 waits_in(const struct task_struct *p, s32 cpu)
{
	if (!is_background(p))
		return run_queue(cpu);
	set_and_order(&background(cpu)->has_tasks);
	return background_queue(cpu);
}

/*
 * The timer of @cpu. A task whose delay is over waits in the run queue from now on, and goes to an
 * idle CPU if there is one. A timer expires in a softirq. An interrupt during it may wake a task,
 * which finds no timer set and sets it. Kernels before 6.18 require the RCU lock.
 */
static int end_delays(void *map, u32 *cpu, struct delay_timer *timer)
{
	u64 now = scx_bpf_now();
	struct task_struct *p;
	s32 here = *cpu;
	u64 next = 0;

	timer->is_set = false;
	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, stay_queue(here), 0) {
		if (time_after(p->scx.dsq_vtime, now)) {
			next = p->scx.dsq_vtime;
			break;
		}
		if (is_background(p))
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, p->scx.runnable_at);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, waits_in(p, here), 0))
			COUNT(expired);
	}
	bpf_rcu_read_unlock();
	offer_all(here, nr_queued(run_queue(here)));
	if (next)
		set_timer(here, next);
	return 0;
}

/*
 * A CPU counts as idle when it says so: when a policy is attached the kernel has each CPU choose
 * its next task. One that a higher class holds is not.
 */
static s32 init_cpu(s32 cpu)
{
	struct delay_timer *timer = bpf_map_lookup_elem(&delay_timers, &cpu);

	if (!timer)
		return -E2BIG;
	bpf_timer_init(&timer->timer, &delay_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, end_delays);
	return create_queue(run_queue(cpu), cpu) ?: create_queue(stay_queue(cpu), cpu)
						 ?: create_queue(background_queue(cpu), cpu)
						 ?: create_turn_timer(cpu);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(smove_init)
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
SCX_OPS_DEFINE(smove_ops,
	       .select_cpu	= (void *)smove_select_cpu,
	       .enqueue		= (void *)smove_enqueue,
	       .dispatch	= (void *)smove_dispatch,
	       .yield		= (void *)smove_yield,
	       .update_idle	= (void *)smove_update_idle,
	       .tick		= (void *)smove_tick,
	       .cpu_release	= (void *)smove_cpu_release,
	       .init		= (void *)smove_init,
	       .exit		= (void *)smove_exit,
	       .flags		= POLICY_FLAGS | SCX_OPS_ENQ_EXITING,
	       .name		= "smove");
