/* SPDX-License-Identifier: GPL-2.0-only */
/* Keeps the interface of the kernel, but not what users expect: the knob `fault` says how. */
#include "one_queue.bpf.h"

POLICY_BOILERPLATE(rude)

CHOICE(fault, 0, "none endless apart newest",
       "equal turns from one queue; turns without end; a queue for each "
       "CPU, and no help between them; the newest first");

enum fault {
	FAULT_NONE,
	FAULT_ENDLESS,
	FAULT_APART,
	FAULT_NEWEST,
};

#define SLICE_NS 3000000ULL

s32 BPF_STRUCT_OPS(rude_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu;

	if (fault == FAULT_APART)
		return prev_cpu;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL,
				   fault == FAULT_ENDLESS ? SCX_SLICE_INF : SLICE_NS, 0);
	return cpu;
}

void BPF_STRUCT_OPS(rude_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 slice = fault == FAULT_ENDLESS ? SCX_SLICE_INF : SLICE_NS;

	if (fault == FAULT_NEWEST)
		enq_flags |= SCX_ENQ_HEAD;
	scx_bpf_dsq_insert(p, queue_of(scx_bpf_task_cpu(p), fault == FAULT_APART), slice,
			   enq_flags);
}

void BPF_STRUCT_OPS(rude_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(queue_of(cpu, fault == FAULT_APART), 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(rude_init)
{
	return create_queues();
}

/* clang-format off */
SCX_OPS_DEFINE(rude_ops,
	       .select_cpu	= (void *)rude_select_cpu,
	       .enqueue		= (void *)rude_enqueue,
	       .dispatch	= (void *)rude_dispatch,
	       .init		= (void *)rude_init,
	       .exit		= (void *)rude_exit,
	       .name		= "rude");
