/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task waits that gets a message.
 */
#ifndef FLSCHED_MESSAGES_BPF_H
#define FLSCHED_MESSAGES_BPF_H

#include "order.bpf.h"

/*
 * A sender of messages says that it will sleep soon. If the receiver waits behind it, messages
 * collect until then, and no other CPU's lock is taken. On its own CPU the receiver would run once
 * per message.
 * The CPUs must share a cache, and the waker's queue is at most a crowd longer.
 */
static bool waits_with_waker(const struct task_struct *p, s32 waker, s32 prev_cpu, u64 wake_flags)
{
	return (wake_flags & SCX_WAKE_SYNC) && group_of(waker) == group_of(prev_cpu) &&
	       bpf_cpumask_test_cpu(waker, p->cpus_ptr) &&
	       nr_queued(run_queue(waker)) <= nr_queued(run_queue(prev_cpu)) + CROWD;
}

#endif /* FLSCHED_MESSAGES_BPF_H */
