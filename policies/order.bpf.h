/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The order in which FLSCHED's tasks run: each has a key, the tick from which it is eligible, and
 * the one that has been so for longest is next. A task with work is eligible when it becomes
 * runnable. That follows from when it did: whatever has it enqueued again does not send it back.
 */
#ifndef FLSCHED_ORDER_BPF_H
#define FLSCHED_ORDER_BPF_H

#include "background.bpf.h"
#include "loans.bpf.h"

#define YIELDERS    8 /* at most so many yielding tasks run before tasks with work in a tick */
#define LOOKED_AT   5 /* first tasks of a queue that are checked for a partner */
#define TMPFS_MAGIC 0x01021994
#define COMPUTES    2 /* a task computes if it has run for so many ticks */

/*
 * The state of a CPU. It is written only by that CPU, and by one that enqueues there and so holds
 * its run-queue lock. Without @has_queued the run queue is empty.
 */
struct cpu_state {
	u32 has_queued;
	u32 short_turns; /* the next so many turns last one tick each */
	u32 nr_first;	 /* yielding tasks that have run before tasks with work, */
	u64 first_at;	 /* within this tick */
} __attribute__((aligned(64)));

static struct cpu_state cpu_states[MAX_CPUS];

static struct cpu_state *cpu_state(s32 cpu)
{
	return &cpu_states[cpu & (MAX_CPUS - 1)];
}

/* Return true if @p would preempt a running task under other schedulers. */
static bool would_preempt(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) || p->static_prio < DEFAULT_PRIO;
}

/*
 * Ahead of all that have waited for less than the longest wait, so a stream of such tasks starves
 * none for longer.
 */
static u64 key_before_others(const struct task_struct *p)
{
	return p->scx.runnable_at - longest_wait_ticks();
}

/* A task that yields waits for another one. All those that are runnable now come first. */
static u64 key_after_yield(const struct task_struct *p)
{
	return p->scx.runnable_at + 1;
}

/*
 * Return true if the first task of @cpu's later queue is next. With a crowd of tasks that yield,
 * only some go first within a tick: tasks with work have the rest of it, here or on a CPU nearby.
 */
static bool is_later_next(s32 cpu)
{
	struct cpu_state *state = cpu_state(cpu);
	u64 now = bpf_jiffies64(), key;

	if (!is_later_due(cpu))
		return false;
	key = later_state(cpu)->first_key;
	if (state->has_queued && time_before(first_key(run_queue(cpu), key), key))
		return false;
	if (state->first_at != now) {
		state->first_at = now;
		state->nr_first = 0;
	}
	return state->nr_first++ < YIELDERS;
}

/* Return true if @file is in a file system in memory, whose pages the kernel counts as shared. */
static bool is_in_memory(const struct file *file)
{
	return file && file->f_inode->i_sb->s_magic == TMPFS_MAGIC;
}

/*
 * Return true if the process of @p has mapped memory that others may have mapped, too. The kernel's
 * count lacks what each CPU has not added yet, up to two pages for each CPU of the machine. Of a
 * program that is itself in such memory that is unknown.
 */
static bool shares_memory(const struct task_struct *p)
{
	const struct mm_struct *mm = p->mm;

	return mm && mm->rss_stat[MM_SHMEMPAGES].count > 0 && !is_in_memory(mm->exe_file);
}

/*
 * Return true if @a and @b may wait for each other without calling the kernel: threads of a
 * process, or processes that another one has started and that share memory, as those of an MPI job.
 */
static bool are_partners(const struct task_struct *a, const struct task_struct *b)
{
	return a->tgid == b->tgid ||
	       (a->real_parent == b->real_parent && shares_memory(a) && shares_memory(b));
}

/* Return true if one of the first tasks that wait on @cpu may wait for @p, or @p for it. */
static bool is_partner_next(const struct task_struct *p, s32 cpu)
{
	struct task_struct *waiting;
	bool is_partner = false;
	u32 tried = 0;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, waiting, run_queue(cpu), 0) {
		is_partner = are_partners(p, waiting);
		if (is_partner || ++tried >= LOOKED_AT)
			break;
	}
	bpf_rcu_read_unlock();
	return is_partner;
}

/*
 * Return true if the running task @p of @cpu, which has had @used_ns of its turn, must end it.
 *
 * If it has computed for ticks, and one of the next tasks is a partner, one of the two may spin
 * until the other has done something. Such a task does not tell that it waits. So from then on
 * turns last for a tick, those of all tasks on the CPU, for as long as partners meet.
 */
static bool is_due(const struct task_struct *p, s32 cpu, u64 used_ns)
{
	u64 waiting = nr_queued(run_queue(cpu)) + nr_queued(later_queue(cpu));
	u64 now = bpf_jiffies64();
	u64 waited_ns = (now - first_key(run_queue(cpu), now)) * tick_ns;
	u32 *short_turns = &cpu_state(cpu)->short_turns;
	bool is_short = *short_turns && 2 * used_ns >= tick_ns;

	if (is_short)
		--*short_turns;
	else if (!exceeds_bound(waiting, waited_ns, used_ns))
		return false;
	if ((is_short || used_ns >= COMPUTES * tick_ns) && is_partner_next(p, cpu))
		*short_turns = waiting + 1;
	return true;
}

/* Offers the first tasks of @cpu's queue to idle CPUs. */
static u32 offer_queued(struct queues *queues, s32 cpu)
{
	return offer_waiting(queues, &idle_cpus, cpu, false, SCX_KICK_IDLE);
}

/*
 * At a tick of @cpu the tasks that wait there are offered to idle CPUs, or else to those in the
 * background. How many were woken.
 */
static u32 offer_all(s32 cpu)
{
	u32 woken = 0;

	if (cpu_state(cpu)->has_queued)
		woken += offer_queued(&run_queues, cpu)
				 ?: offer_waiting(&run_queues, &background_cpus, cpu, false,
						  SCX_KICK_PREEMPT);
	if (check_later(cpu))
		woken += offer_queued(&later_queues, cpu);
	if (check_background(cpu))
		woken += offer_queued(&background_queues, cpu);
	return woken;
}

/* A task must not wait for work to end that goes on elsewhere; held.bpf.h. */
static u64 urgent_queue(s32 cpu)
{
	u64 now = bpf_jiffies64();

	if (nr_queued(run_queue(cpu)))
		return run_queue(cpu);
	if (!time_before(now, first_key(later_queue(cpu), now + 1)))
		return later_queue(cpu);
	return urgent_background(cpu);
}

#endif /* FLSCHED_ORDER_BPF_H */
