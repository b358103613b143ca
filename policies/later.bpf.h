/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FLSCHED's later queues: each CPU's second queue, of tasks that are not eligible yet. They run
 * when there is no other work. Most of them wait by yielding, for what another task has to do
 * first.
 *
 * A CPU on which all tasks wait does nothing useful, while behind a task that computes may wait one
 * that could go on by now. It borrows such a task. If that one computes, the other CPU gets a task
 * for it, if the first one there may run on it; if it yields in vain, it goes back. So CPUs keep as
 * many tasks as they had, and tasks that wait for each other on one CPU stay there.
 */
#ifndef FLSCHED_LATER_BPF_H
#define FLSCHED_LATER_BPF_H

#include "offers.bpf.h"

#define VAIN_NS 25000 /* a task that yields sooner has only found that it must still wait */

/*
 * The state of a CPU's later queue. It is written only by that CPU, and by one that enqueues there
 * and so holds its run-queue lock; @has_tasks also by one that gives the CPU a task.
 */
struct later_state {
	u32 has_tasks;	/* if not, the queue is empty */
	u32 nr_vain;	/* turns in a row that ended sooner than VAIN_NS, by a yield */
	s32 lender;	/* the CPU from which a task was borrowed */
	bool goes_back; /* that task has yielded in vain */
	u32 nr_queued;	/* tasks in the queue at the last tick */
	u64 first_key;	/* nothing in the queue is eligible before this tick */
	u64 first_at;	/* within this tick @nr_first tasks have gone before tasks with work */
	u32 nr_first;
	u64 yielded_at; /* when a task yielded here last and there was no other work */
	u32 next_group; /* pull_waiter() has come to the group that is this near */
	u64 next_cpus;	/* and not yet to these CPUs of it */
} __attribute__((aligned(64)));

static struct later_state later_states[MAX_CPUS];

static struct queues later_queues = {.first = MAX_CPUS};

static struct later_state *later_state(s32 cpu)
{
	return &later_states[cpu & (MAX_CPUS - 1)];
}

static u64 later_queue(s32 cpu)
{
	return second_queue(cpu);
}

/* @p is eligible from the tick @key on, and runs sooner only if @cpu has no other work. */
static void insert_later(struct task_struct *p, s32 cpu, u64 slice_ns, u64 key, u64 enq_flags)
{
	struct later_state *state = later_state(cpu);

	if (!READ_ONCE(state->has_tasks) || time_before(key, state->first_key))
		state->first_key = key;
	WRITE_ONCE(state->has_tasks, true);
	scx_bpf_dsq_insert_vtime(p, later_queue(cpu), slice_ns, key, enq_flags);
}

static bool take_later(s32 cpu)
{
	return take(later_queue(cpu), &later_state(cpu)->has_tasks);
}

/*
 * Return true if a task of @cpu's later queue is eligible. The queue is checked only if one can be,
 * because the check takes the queue's lock on kernels before 6.19.
 */
static bool is_later_due(s32 cpu)
{
	struct later_state *state = later_state(cpu);
	u64 now = bpf_jiffies64();

	if (!READ_ONCE(state->has_tasks) || time_before(now, state->first_key))
		return false;
	state->first_key = first_key(later_queue(cpu), now + 1);
	return !time_before(now, state->first_key);
}

/* Return true if @cpu's later queue has tasks: at a tick, and when the CPU becomes idle. */
static bool check_later(s32 cpu)
{
	struct later_state *state = later_state(cpu);

	state->nr_queued = nr_queued(later_queue(cpu));
	return check(state->nr_queued, &state->has_tasks);
}

/*
 * The first task of @cpu's later queue, or with SCX_DSQ_ITER_REV the last, is to wait on @other.
 * After the barrier @other finds the task when it becomes idle, or is found idle here; see offer().
 * @first_key of @other stays: the task may go first there a tick later than it could.
 */
static void give_waiter(s32 cpu, s32 other, u64 iter_flags)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, later_queue(cpu), iter_flags) {
		if (!is_pinned(p) && bpf_cpumask_test_cpu(other, p->cpus_ptr) &&
		    scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, later_queue(other), 0)) {
			set_and_order(&later_state(other)->has_tasks);
			offer(&later_queues, p, other, NEARBY);
		}
		break;
	}
	bpf_rcu_read_unlock();
}

/*
 * A task that was borrowed has had its turn. If it computed, its CPU gets the task that has waited
 * longest here. If not, it goes back when it is in the queue, as the last one: at the next call.
 */
static void settle_loan(s32 cpu, struct later_state *state)
{
	if (state->nr_vain && !state->goes_back) {
		state->goes_back = true;
		return;
	}
	give_waiter(cpu, state->lender, state->goes_back ? SCX_DSQ_ITER_REV : 0);
	state->lender = NO_CPU;
	state->goes_back = false;
}

/*
 * A task on @cpu has yielded, and there is no other work. If all tasks here have done so in vain,
 * takes one from a CPU nearby: one more from a CPU that has two more of them, because with sixteen
 * threads on one CPU and one on another a barrier waits for the sixteen; or one that is borrowed
 * from a CPU where another task computes. Each check continues where the last one stopped, so that
 * all CPUs nearby are checked in time.
 */
static bool pull_waiter(s32 cpu)
{
	struct later_state *state = later_state(cpu);
	u64 now = scx_bpf_now(), waiting = nr_queued(later_queue(cpu));
	u32 tries;

	state->nr_vain = time_before(now, state->yielded_at + VAIN_NS) ? state->nr_vain + 1 : 0;
	WRITE_ONCE(state->yielded_at, now);
	if (state->lender != NO_CPU) {
		settle_loan(cpu, state);
		return false;
	}
	if (state->nr_vain <= waiting)
		return false;
	state->nr_vain = 0;
	bpf_for (tries, 0, PULL_TRIES) {
		u32 group = near_group(group_of(cpu), state->next_group);
		u64 word = cpus_of(&later_queues.cpus, group) & state->next_cpus;
		bool has_more;
		u32 bit;
		s32 other;

		if (!word) {
			state->next_cpus = ~0ULL;
			state->next_group =
				(state->next_group + 1) % walk_from(cpu, reach, 0).tries;
			continue;
		}
		bit = first_bit_from(word, 0);
		state->next_cpus = ~0ULL << bit << 1;
		other = cpu_at(group, bit);
		has_more = nr_queued(later_queue(other)) > waiting + 1;
		if (!has_more &&
		    time_before(now, READ_ONCE(later_state(other)->yielded_at) + VAIN_NS))
			continue;
		if (!scx_bpf_dsq_move_to_local(later_queue(other), 0))
			continue;
		if (!has_more)
			state->lender = other;
		return true;
	}
	return false;
}

#endif /* FLSCHED_LATER_BPF_H */
