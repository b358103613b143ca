/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures how long a lock is waited for. The kernel's contention tracepoints fire only where there
 * is a wait, so this costs next to nothing where there is none.
 */
/* vmlinux.h and libbpf disagree about the iterators; libbpf has them right. */
#define BPF_NO_KFUNC_PROTOTYPES
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "lost.h"

char _license[] SEC("license") = "GPL";

#define SPINS	  (1U << 0) /* LCB_F_SPIN */
#define MUTEX	  (1U << 5) /* LCB_F_MUTEX: spins first, then sleeps: one wait */
#define DEPTH	  4	    /* task, softirq, interrupt, NMI */
#define MAX_TASKS 16384
#define MAX_SITES 4096
#define FRAMES	  16
#define EEXIST	  17

struct wait {
	u64 lock;
	u64 began_at;
	u64 stack;
};

/* Waits by spinning nest on a CPU, each interrupting the one before. */
struct spinning {
	u64 depth;
	struct wait waits[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct spinning);
} spinning SEC(".maps");

/* Waits asleep: one a task. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TASKS);
	__type(key, u32);
	__type(value, struct wait);
} sleeping SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, MAX_SITES);
	__uint(key_size, sizeof(u32));
	__uint(value_size, FRAMES * sizeof(u64));
} stacks SEC(".maps");

struct site {
	u64 stack;
	u64 spins;
};

struct waited {
	u64 count;
	u64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_SITES);
	__type(key, struct site);
	__type(value, struct waited);
} sites SEC(".maps");

static __always_inline void count(const struct wait *wait, bool spins)
{
	struct site site = {.stack = wait->stack, .spins = spins};
	u64 ns = bpf_ktime_get_ns() - wait->began_at;
	struct waited *waited = bpf_map_lookup_elem(&sites, &site);
	struct waited first = {.count = 1, .ns = ns};

	if (!waited) {
		if (!bpf_map_update_elem(&sites, &site, &first, BPF_NOEXIST))
			return;
		/* Another CPU was faster, or there is no room. */
		waited = bpf_map_lookup_elem(&sites, &site);
		if (!waited)
			return lose();
	}
	waited->count++;
	waited->ns += ns;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(begin, void *lock, unsigned int flags)
{
	struct wait wait = {.lock = (u64)lock};
	u32 task = (u32)bpf_get_current_pid_tgid();
	u32 zero = 0;
	long failed;

	wait.stack = bpf_get_stackid(ctx, &stacks, BPF_F_FAST_STACK_CMP);
	wait.began_at = bpf_ktime_get_ns();
	if ((flags & SPINS) && !(flags & MUTEX)) {
		struct spinning *cpu = bpf_map_lookup_elem(&spinning, &zero);

		if (cpu && cpu->depth < DEPTH) {
			cpu->waits[cpu->depth & (DEPTH - 1)] = wait;
			cpu->depth++;
		} else {
			lose();
		}
		return 0;
	}
	/* A wait for a mutex may begin twice. */
	failed = bpf_map_update_elem(&sleeping, &task, &wait, BPF_NOEXIST);
	if (failed && failed != -EEXIST)
		lose();
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(end, void *lock, int error)
{
	u32 task = (u32)bpf_get_current_pid_tgid();
	struct spinning *cpu;
	struct wait *wait;
	u32 zero = 0;

	cpu = bpf_map_lookup_elem(&spinning, &zero);
	if (cpu && cpu->depth) {
		wait = &cpu->waits[(cpu->depth - 1) & (DEPTH - 1)];
		if (wait->lock == (u64)lock) {
			cpu->depth--;
			count(wait, true);
			return 0;
		}
	}
	wait = bpf_map_lookup_elem(&sleeping, &task);
	if (wait && wait->lock == (u64)lock) {
		count(wait, false);
		bpf_map_delete_elem(&sleeping, &task);
	}
	return 0;
}
