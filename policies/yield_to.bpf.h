/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sched_yield(): a task waits for others. The kernel sets its slice to 0, but also those of other
 * tasks, so who has yielded is noted.
 *
 * yield_to(): a task gives its CPU to another one. KVM calls it for a virtual CPU that spins on a
 * lock, because the virtual CPU that holds the lock may wait for a CPU. The callback cannot move a
 * task; the CPU takes it when it chooses its next task, which is at once.
 */
#ifndef FLSCHED_YIELD_TO_BPF_H
#define FLSCHED_YIELD_TO_BPF_H

#include "topology.bpf.h"

/* What each CPU notes of a yield, written only by that CPU. Each is 0 if there is no such task. */
static struct {
	s32 yielder __attribute__((aligned(64))); /* the task that yields */
	s32 target;				  /* the task that the CPU is to run next */
} yielding[MAX_CPUS];

/* @from yields, to @to if that is a task. The kernel switches at once if this is true. */
static bool yield(struct task_struct *from, struct task_struct *to)
{
	s32 cpu = scx_bpf_task_cpu(from);

	yielding[cpu & (MAX_CPUS - 1)].yielder = from->pid;
	if (to)
		yielding[cpu & (MAX_CPUS - 1)].target = to->pid;
	scx_bpf_task_set_slice(from, 0);
	return true;
}

/* Return true if @p, which leaves @cpu, has yielded. */
static bool has_yielded(const struct task_struct *p, s32 cpu)
{
	return yielding[cpu & (MAX_CPUS - 1)].yielder == p->pid;
}

/* A turn begins on @cpu, or the task that yielded is queued. */
static void end_yield(s32 cpu)
{
	yielding[cpu & (MAX_CPUS - 1)].yielder = 0;
}

/*
 * Takes @p from @queue, if it waits there and may run on @cpu. A task that is migration-disabled
 * may where it is. Any iterator there will do.
 */
static bool take_from_queue(struct task_struct *p, u64 queue, s32 cpu)
{
	struct task_struct *first;
	bool taken = false;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, first, queue, 0) {
		if (scx_bpf_task_cpu(p) == cpu || may_move_to(p, cpu))
			taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	bpf_rcu_read_unlock();
	return taken;
}

/* Takes a task for @cpu from the one where it waits of the @nr_queues that each CPU has. */
__noinline bool take_task(s32 cpu, s32 pid, u32 nr_queues)
{
	struct task_struct *target = bpf_task_from_pid(pid);
	s32 waits_on;
	bool taken;

	if (!target)
		return false;
	waits_on = scx_bpf_task_cpu(target);
	taken = take_from_queue(target, run_queue(waits_on), cpu) ||
		(nr_queues > 1 && take_from_queue(target, second_queue(waits_on), cpu)) ||
		(nr_queues > 2 && take_from_queue(target, third_queue(waits_on), cpu));
	bpf_task_release(target);
	return taken;
}

/* Takes the task to which the task that ran on @cpu has yielded, if there is one. */
static inline bool take_target(s32 cpu, u32 nr_queues)
{
	s32 pid = yielding[cpu & (MAX_CPUS - 1)].target;

	if (!pid)
		return false;
	yielding[cpu & (MAX_CPUS - 1)].target = 0;
	return take_task(cpu, pid, nr_queues);
}

#endif /* FLSCHED_YIELD_TO_BPF_H */
