/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loans between FLSCHED's later queues. A CPU on which all tasks yield in vain does nothing useful,
 * while behind a task that computes elsewhere may wait one that could go on by now. The CPU borrows
 * such a task, and the task's first turn there decides. If it computes, it stays, and the lender
 * gets the task that has waited longest here, if that one may run there. If it yields in vain, it
 * goes back. So CPUs keep as many tasks as they had, and tasks that wait for each other on one CPU
 * stay there.
 */
#ifndef FLSCHED_LOANS_BPF_H
#define FLSCHED_LOANS_BPF_H

#include "later.bpf.h"

#define VAIN_NS 25000 /* a task that yields sooner has only found that it must still wait */

/* What a CPU on which only tasks that yield are left has borrowed, and where it looks for more. */
struct loan {
	s32 lender;	/* the CPU from which a task was borrowed, or NO_CPU */
	bool goes_back; /* that task has yielded in vain, and is on its way to the queue */
	u32 nr_vain;	/* yields in a row that came sooner than VAIN_NS after the one before */
	u32 nr_waiting; /* tasks that waited here when they were counted last */
	u64 yielded_at; /* when a task yielded here last and there was no other work */
	u32 next_group; /* pull_waiter() has come to the group that is this near */
	u64 next_cpus;	/* and not yet to these CPUs of it */
} __attribute__((aligned(64)));

static struct loan loans[MAX_CPUS];

static struct loan *loan_of(s32 cpu)
{
	return &loans[cpu & (MAX_CPUS - 1)];
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
		if (may_move_to(p, other) &&
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
static void settle_loan(s32 cpu, struct loan *loan)
{
	if (loan->nr_vain && !loan->goes_back) {
		loan->goes_back = true;
		return;
	}
	give_waiter(cpu, loan->lender, loan->goes_back ? SCX_DSQ_ITER_REV : 0);
	loan->lender = NO_CPU;
	loan->goes_back = false;
}

/* The next CPU nearby with tasks that wait, or NO_CPU: the next call looks in the next group. */
static s32 next_near(s32 cpu, struct loan *loan)
{
	u32 group = near_group(group_of(cpu), loan->next_group);
	u64 word = cpus_of(&later_queues.cpus, group) & loan->next_cpus;
	u32 bit;

	if (!word) {
		loan->next_cpus = ~0ULL;
		loan->next_group = (loan->next_group + 1) % walk_from(cpu, reach, 0).tries;
		return NO_CPU;
	}
	bit = first_bit_from(word, 0);
	loan->next_cpus = ~0ULL << bit << 1;
	return cpu_at(group, bit);
}

/*
 * Takes a task for @cpu, where so many wait: for good from a CPU that has two more, because with
 * sixteen threads on one CPU and one on another a barrier waits for the sixteen; on loan from one
 * where another task computes. Each call continues where the last one stopped, so all CPUs nearby
 * have their turn.
 */
static bool borrow(s32 cpu, struct loan *loan, u64 now, u64 waiting)
{
	u32 tries;

	bpf_for (tries, 0, PULL_TRIES) {
		s32 other = next_near(cpu, loan);
		bool computes, has_more;

		if (other < 0)
			continue;
		/* A CPU on which tasks yield in vain has counted them itself. */
		computes = !time_before(now, READ_ONCE(loan_of(other)->yielded_at) + VAIN_NS);
		if (!computes && READ_ONCE(loan_of(other)->nr_waiting) <= waiting + 1)
			continue;
		has_more = nr_queued(later_queue(other)) > waiting + 1;
		if (!computes && !has_more)
			continue;
		if (!scx_bpf_dsq_move_to_local(later_queue(other), 0))
			continue;
		if (!has_more)
			loan->lender = other;
		return true;
	}
	return false;
}

/*
 * A task on @cpu has yielded, and there is no other work. If all tasks here have done so in vain,
 * takes one from a CPU nearby.
 */
static bool pull_waiter(s32 cpu)
{
	struct loan *loan = loan_of(cpu);
	u64 now = scx_bpf_now();

	if (time_before(now, loan->yielded_at + VAIN_NS))
		loan->nr_vain++;
	else
		loan->nr_vain = loan->nr_waiting = 0; /* some may have left to work */
	WRITE_ONCE(loan->yielded_at, now);
	if (loan->lender != NO_CPU) {
		settle_loan(cpu, loan);
		return false;
	}
	/* Counting costs: it is not done before nearly all that were here have had a turn. */
	if (!loan->nr_vain || loan->nr_vain < loan->nr_waiting)
		return false;
	WRITE_ONCE(loan->nr_waiting, nr_queued(later_queue(cpu)));
	if (loan->nr_vain <= loan->nr_waiting)
		return false;
	loan->nr_vain = 0;
	return borrow(cpu, loan, now, loan->nr_waiting);
}

#endif /* FLSCHED_LOANS_BPF_H */
