/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FLSCHED as published: Jo, Kang, Min and Kim, "FLSCHED: A Lockless and Lightweight Approach to OS
 * Scheduler for Xeon Phi", APSys 2017. Section numbers are the paper's. What its text leaves open
 * follows the authors' code, a changed real-time class; names of functions are of its rt.c.
 *
 * It is a control for comparisons, not for use. With up to 16 tasks per CPU that block now and then
 * it is not ejected. It promises nothing else: it bounds no wait and knows no priorities.
 *
 * Where the original has a fault, or sched_ext works otherwise, this differs:
 * - A CPU to which a task is pushed is woken. There it may go on idling beside the task.
 * - A CPU chosen for a task counts as busy at once. There two tasks may choose the same.
 * - A push that fails is not tried again. There it can loop.
 * - A task that computes gives way after LONGEST_NS. There it blocks its queue for ever.
 * - A higher class may take the CPU; see flsched_paper_enqueue(). There only the stopper is higher.
 */
#include "cpus.bpf.h"

POLICY_BOILERPLATE(flsched_paper)

KNOB(slice_us, 100000, 1000, 10000000, "time slice, counted at the tick, in microseconds");
CONTROL("up to 16 tasks a CPU that block now and then");

/* clang-format off */
STATS(
	STAT(chosen, "woken or new task went to an idle CPU")
	STAT(pushed, "waiting task was pushed to an idle CPU")
	STAT(queued_tail, "task went to the tail of a queue")
	STAT(queued_head, "woken task that would preempt went to the head of a queue")
	STAT(slice_ended, "slice ended: the task's place is the tail, and it goes on")
	STAT(stalled, "slice ended, and the task gave way to one that had waited for 10 s"))
/* clang-format on */

static struct cpu_set idle_cpus;

/* The task of each CPU whose slice has ended since it began to run. Written only by that CPU. */
static struct {
	s32 pid __attribute__((aligned(64)));
} at_tail[MAX_CPUS];

/*
 * An idle CPU for @p in @group, one of @among: this one, if it idles and an interrupt wakes @p,
 * else the first. @claims: the CPU counts as busy from now on.
 */
__noinline s32 idle_in(struct task_struct *p __arg_trusted, u32 group, u64 among, bool claims)
{
	u64 word = cpus_of(&idle_cpus, group) & among;
	s32 waker = bpf_get_smp_processor_id();
	u32 from = group_of(waker) == group && (word & bit_of(waker)) ? cpu_index(waker) : 0;
	u32 tries;

	word = word ? allowed_in(group, word, p) : 0;
	bpf_for (tries, 0, GROUP_CPUS) {
		u32 bit;
		s32 cpu;

		if (!word)
			break;
		bit = first_bit_from(word, from);
		cpu = cpu_at(group, bit);
		if (!claims || remove_cpu(&idle_cpus, cpu))
			return cpu;
		word &= ~(1ULL << bit);
		from = 0;
	}
	return NO_CPU;
}

/* The same from @last, the CPU of @p, outward: itself, its core, its cache (find_lowest_rq()). */
__noinline s32 idle_for(struct task_struct *p __arg_trusted, s32 last, bool claims)
{
	struct walk walk = walk_from(last, MAX_NEAR, nr_groups);
	u32 step, own = group_of(last);
	s32 cpu;

	if (is_empty(&idle_cpus))
		return NO_CPU;
	cpu = idle_in(p, own, bit_of(last), claims);
	if (cpu < 0)
		cpu = idle_in(p, own, core_bits(last), claims);
	bpf_for (step, 0, walk.tries) {
		u32 group = cpu < 0 ? walk_to(&idle_cpus, &walk, step) : NO_MORE;

		if (group == NO_MORE)
			break;
		if (group != NO_GROUP)
			cpu = idle_in(p, group, ~0ULL, claims);
	}
	return cpu;
}

/* 3.2: a CPU is chosen only for a task that wakes up or is new. Without one it stays. */
s32 BPF_STRUCT_OPS(flsched_paper_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = idle_for(p, prev_cpu, true);

	if (cpu < 0)
		return prev_cpu;
	COUNT(chosen);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, US_TO_NS(slice_us), 0);
	return cpu;
}

/*
 * Return true if @p can run only on @cpu, and the task that runs there elsewhere, too
 * (check_preempt_equal_prio()).
 */
static bool would_preempt(const struct task_struct *p, s32 cpu)
{
	struct task_struct *running;
	bool would;
	s32 pid;

	if (!is_pinned(p) || is_empty(&idle_cpus))
		return false;
	bpf_rcu_read_lock();
	running = __COMPAT_scx_bpf_cpu_curr(cpu);
	pid = running ? running->pid : 0;
	bpf_rcu_read_unlock();
	/* Before 6.18 the kernel does not vouch for the task that it says runs. */
	running = bpf_task_from_pid(pid);
	if (!running)
		return false;
	would = !is_pinned(running) && idle_for(running, cpu, false) >= 0;
	bpf_task_release(running);
	return would;
}

/*
 * 3.3, preemption: none. A woken task that would preempt goes to the head and waits for the next
 * switch. All others go to the tail, a task that yields among them, or to a CPU that idles now.
 */
void BPF_STRUCT_OPS(flsched_paper_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p), idle = NO_CPU;
	u64 queue = run_queue(cpu);

	if (enq_flags & SCX_ENQ_REENQ) {
		/* A higher class takes the CPU. The task that ran, or was next, keeps its place. */
		if (p->scx.slice && at_tail[cpu & (MAX_CPUS - 1)].pid != p->pid)
			enq_flags |= SCX_ENQ_HEAD;
	} else if (!is_pinned(p)) {
		idle = idle_for(p, cpu, true);
	} else if ((enq_flags & SCX_ENQ_WAKEUP) && would_preempt(p, cpu)) {
		enq_flags |= SCX_ENQ_HEAD;
	}
	if (idle >= 0) {
		COUNT(pushed);
		queue = SCX_DSQ_LOCAL_ON | idle;
	} else if (enq_flags & SCX_ENQ_HEAD) {
		COUNT(queued_head);
	} else {
		COUNT(queued_tail);
	}
	scx_bpf_dsq_insert(p, queue, US_TO_NS(slice_us), enq_flags);
}

/* 3.2, balance: waiting tasks are pushed until no CPU is idle (push_rt_tasks()). Nothing pulls. */
static void push_waiting(s32 cpu)
{
	struct task_struct *p;

	if (is_empty(&idle_cpus))
		return;
	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, run_queue(cpu), 0) {
		s32 idle;

		if (is_pinned(p))
			continue;
		idle = idle_for(p, cpu, true);
		if (idle < 0)
			break;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | idle, 0))
			COUNT(pushed);
		else
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE); /* it adds itself again */
	}
	bpf_rcu_read_unlock();
}

/* A switch: the head of the queue is next, and those that still wait are pushed. */
void BPF_STRUCT_OPS(flsched_paper_dispatch, s32 cpu, struct task_struct *prev)
{
	at_tail[cpu & (MAX_CPUS - 1)].pid = NO_TASK;
	if (scx_bpf_dsq_move_to_local(run_queue(cpu), 0))
		push_waiting(cpu);
	else if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		scx_bpf_task_set_slice(prev, US_TO_NS(slice_us));
	else
		add_cpu(&idle_cpus, cpu);
}

void BPF_STRUCT_OPS(flsched_paper_update_idle, s32 cpu, bool idle)
{
	if (idle)
		add_cpu(&idle_cpus, cpu);
	else
		remove_cpu(&idle_cpus, cpu);
}

/*
 * 3.4: the tick counts the slice, and nothing else is accounted for. 3.3, reschedule: at its end
 * the task moves to the tail, and no switch is asked for.
 */
void BPF_STRUCT_OPS(flsched_paper_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);

	remove_cpu(&idle_cpus, cpu); /* all count as idle at first */
	if (p->scx.slice)
		return;
	if (first_waited_ns(run_queue(cpu)) >= LONGEST_NS) {
		COUNT(stalled);
		return;
	}
	COUNT(slice_ended);
	at_tail[cpu & (MAX_CPUS - 1)].pid = p->pid;
	scx_bpf_task_set_slice(p, US_TO_NS(slice_us));
}

void BPF_STRUCT_OPS(flsched_paper_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	give_way();
}

s32 BPF_STRUCT_OPS_SLEEPABLE(flsched_paper_init)
{
	s32 cpu, err = 0;

	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids()) {
		err = create_queue(run_queue(cpu), cpu);
		if (err)
			break;
		if (is_online(cpu))
			add_cpu(&idle_cpus, cpu);
	}
	return err;
}

/* clang-format off */
SCX_OPS_DEFINE(flsched_paper_ops,
	       .select_cpu	= (void *)flsched_paper_select_cpu,
	       .enqueue		= (void *)flsched_paper_enqueue,
	       .dispatch	= (void *)flsched_paper_dispatch,
	       .update_idle	= (void *)flsched_paper_update_idle,
	       .tick		= (void *)flsched_paper_tick,
	       .cpu_release	= (void *)flsched_paper_cpu_release,
	       .init		= (void *)flsched_paper_init,
	       .exit		= (void *)flsched_paper_exit,
	       .flags		= POLICY_FLAGS,
	       .name		= "flsched_paper");
