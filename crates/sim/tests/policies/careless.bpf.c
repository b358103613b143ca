/* SPDX-License-Identifier: GPL-2.0-only */
/* One queue, and no CPU that idles beside it. The knob `fault` brings back what fuzzing once found
 * in policies of this project, as small as it can be.
 */
#include "one_queue.bpf.h"

POLICY_BOILERPLATE(careless)

CHOICE(fault, 0, "none forgets claims strands chases apart",
       "nothing; idle CPUs are told of tasks only that are woken; one idle CPU is claimed, offline "
       "or not; nobody comes for a CPU's last task once it has been queued; tasks "
       "that exit interrupt each other; a CPU takes its own tasks only");

enum fault {
	FAULT_NONE,
	FAULT_FORGETS,
	FAULT_CLAIMS,
	FAULT_STRANDS,
	FAULT_CHASES,
	FAULT_APART,
};

#define SLICE_NS 20000000ULL
#define EXITING	 4 /* PF_EXITING */

static void tell_idle_cpus(const struct task_struct *p, u64 enq_flags)
{
	s32 cpu = fault == FAULT_CLAIMS ? scx_bpf_pick_idle_cpu(p->cpus_ptr, 0) : 0;

	if (fault == FAULT_CLAIMS && cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	if (fault == FAULT_CLAIMS || (fault == FAULT_FORGETS && !(enq_flags & SCX_ENQ_WAKEUP)))
		return;
	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids())
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* So each task goes through the queue. */
s32 BPF_STRUCT_OPS(careless_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(careless_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	scx_bpf_dsq_insert(p, queue_of(cpu, fault == FAULT_APART), SLICE_NS, enq_flags);
	if (!(enq_flags & SCX_ENQ_LAST))
		tell_idle_cpus(p, enq_flags);
	else if (fault != FAULT_STRANDS)
		scx_bpf_kick_cpu(cpu, 0);
}

void BPF_STRUCT_OPS(careless_running, struct task_struct *p)
{
	if (fault == FAULT_CHASES && (p->flags & EXITING) && scx_bpf_dsq_nr_queued(QUEUE) > 0)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

void BPF_STRUCT_OPS(careless_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(queue_of(cpu, fault == FAULT_APART), 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(careless_init)
{
	return create_queues();
}

/* clang-format off */
SCX_OPS_DEFINE(careless_ops,
	       .select_cpu	= (void *)careless_select_cpu,
	       .enqueue		= (void *)careless_enqueue,
	       .dispatch	= (void *)careless_dispatch,
	       .running		= (void *)careless_running,
	       .init		= (void *)careless_init,
	       .exit		= (void *)careless_exit,
	       .flags		= SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING,
	       .name		= "careless");
