/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How often is each function of the scheduler called, and how long does it take? The times include
 * what a function calls, and what this probe adds; the latter is measured by calibrate() and
 * subtracted by user space, which is why nested probes are counted too.
 *
 * The functions run with interrupts off and return on the CPU where they were called, so a stack a
 * CPU is enough.
 */
/* vmlinux.h and libbpf disagree about the iterators; libbpf has them right. */
#define BPF_NO_KFUNC_PROTOTYPES
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

#define MAX_FUNCTIONS 128
#define DEPTH	      16 /* a power of two */
#define ROUNDS	      10000

struct cost {
	u64 calls;
	u64 ns;
	u64 nested; /* probed calls made from inside, at any depth */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_FUNCTIONS);
	__type(key, u32);
	__type(value, struct cost);
} costs SEC(".maps");

struct call {
	u64 function;
	u64 probed;
	u64 began_at;
};

struct stack {
	u64 depth;
	u64 probed; /* calls seen so far */
	struct call calls[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack);
} call_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} calibration SEC(".maps");

SEC("kprobe.multi")
int enter(struct pt_regs *ctx)
{
	u64 function = bpf_get_attach_cookie(ctx);
	u32 zero = 0;
	struct stack *stack = bpf_map_lookup_elem(&call_stacks, &zero);
	struct call *call;

	if (!stack || stack->depth >= DEPTH)
		return 0;
	call = &stack->calls[stack->depth & (DEPTH - 1)];
	stack->depth++;
	call->function = function;
	call->probed = stack->probed;
	call->began_at = bpf_ktime_get_ns();
	return 0;
}

SEC("kretprobe.multi")
int leave(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns();
	u64 function = bpf_get_attach_cookie(ctx);
	u32 zero = 0, slot = function;
	struct stack *stack = bpf_map_lookup_elem(&call_stacks, &zero);
	struct cost *cost = bpf_map_lookup_elem(&costs, &slot);
	struct call *call;

	if (!stack || !cost || !stack->depth)
		return 0;
	call = &stack->calls[(stack->depth - 1) & (DEPTH - 1)];
	if (call->function != function)
		return 0;
	stack->depth--;
	cost->calls++;
	cost->ns += now - call->began_at;
	cost->nested += stack->probed - call->probed;
	stack->probed++;
	return 0;
}

/* A kernel function that does next to nothing, called often: with the probe on it and without. */
SEC("syscall")
int calibrate(void *ctx)
{
	struct bpf_iter_num it;
	u64 began_at = bpf_ktime_get_ns(), *ns;
	u32 zero = 0, i;

	bpf_for(i, 0, ROUNDS) {
		bpf_iter_num_new(&it, 0, 0);
		bpf_iter_num_destroy(&it);
	}
	ns = bpf_map_lookup_elem(&calibration, &zero);
	if (ns)
		*ns = bpf_ktime_get_ns() - began_at;
	return 0;
}
