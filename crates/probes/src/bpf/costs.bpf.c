/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How often is each function of the scheduler called, and how long does it take? The times include
 * what a function calls, but not what this probe adds: that is measured by calibrate() first, and
 * subtracted from each call for itself and for the probed calls inside.
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

#define MAX_FUNCTIONS 32
#define DEPTH	      16 /* a power of two */
#define ROUNDS	      10000
#define BUCKETS	      256 /* 8 for each power of two, and the first 8 numbers */

/* Set by user space once they are known. */
const volatile u64 inside_ns = 0; /* what the probe adds to the time of a call */
const volatile u64 whole_ns = 0;  /* what it adds to the time of the calling function */

struct cost {
	u64 calls;
	u64 ns;
	u64 histogram[BUCKETS];
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

static __always_inline int begin(u32 function)
{
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

static __always_inline u32 bucket_of(u64 ns)
{
	u64 left = ns;
	u32 power = 0, bucket;

	if (left >> 32) {
		left >>= 32;
		power += 32;
	}
	if (left >> 16) {
		left >>= 16;
		power += 16;
	}
	if (left >> 8) {
		left >>= 8;
		power += 8;
	}
	if (left >> 4) {
		left >>= 4;
		power += 4;
	}
	if (left >> 2) {
		left >>= 2;
		power += 2;
	}
	if (left >> 1)
		power++;
	if (power < 3)
		return ns;
	bucket = (power - 2) * 8 + ((ns >> (power - 3)) & 7);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static __always_inline int finish(u32 function)
{
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0;
	struct stack *stack = bpf_map_lookup_elem(&call_stacks, &zero);
	struct cost *cost = bpf_map_lookup_elem(&costs, &function);
	struct call *call;
	u64 ns, added;

	if (!stack || !cost || !stack->depth)
		return 0;
	call = &stack->calls[(stack->depth - 1) & (DEPTH - 1)];
	if (call->function != function)
		return 0;
	stack->depth--;
	cost->calls++;
	ns = now - call->began_at;
	added = inside_ns + whole_ns * (stack->probed - call->probed);
	ns = ns > added ? ns - added : 0;
	cost->ns += ns;
	cost->histogram[bucket_of(ns) & (BUCKETS - 1)]++;
	stack->probed++;
	return 0;
}

/* A tracing program has one target, named by user space before it is loaded. */
#define WATCH(n)                  \
	SEC("fentry")             \
	int BPF_PROG(enter_##n)   \
	{                         \
		return begin(n);  \
	}                         \
	SEC("fexit")              \
	int BPF_PROG(leave_##n)   \
	{                         \
		return finish(n); \
	}

/* clang-format off */
WATCH(0)  WATCH(1)  WATCH(2)  WATCH(3)  WATCH(4)  WATCH(5)  WATCH(6)  WATCH(7)
WATCH(8)  WATCH(9)  WATCH(10) WATCH(11) WATCH(12) WATCH(13) WATCH(14) WATCH(15)
WATCH(16) WATCH(17) WATCH(18) WATCH(19) WATCH(20) WATCH(21) WATCH(22) WATCH(23)
WATCH(24) WATCH(25) WATCH(26) WATCH(27) WATCH(28) WATCH(29) WATCH(30) WATCH(31)
	/* clang-format on */

	/*
	 * A kernel function that does next to nothing, called often: with the probe on it and
	 * without. Not one of those that newer kernels inline into BPF programs.
	 */
	extern bool bpf_dynptr_is_null(const struct bpf_dynptr *ptr) __ksym;

SEC("syscall")
int calibrate(void *ctx)
{
	u64 *ns, began_at;
	struct bpf_dynptr nothing;
	u32 zero = 0, i;

	ns = bpf_map_lookup_elem(&calibration, &zero);
	if (!ns)
		return 0;
	bpf_dynptr_from_mem(ns, sizeof(*ns), 0, &nothing);
	began_at = bpf_ktime_get_ns();
	bpf_for (i, 0, ROUNDS)
		bpf_dynptr_is_null(&nothing);
	*ns = bpf_ktime_get_ns() - began_at;
	return 0;
}
