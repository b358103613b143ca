/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each CPU does, from moment to moment, and which tasks wait for one.
 *
 * A CPU is in one mode at a time, kept as a stack: an interrupt in a wake-up in the kernel. The
 * time in each mode is summed until the next switch of tasks, and goes into that switch's record.
 * So the number of records grows with switches and wake-ups alone. All else is made of them
 * afterwards.
 *
 * Each program counts its own time as PROBE, but for the way into it and out of it.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "syscalls.h"

char _license[] SEC("license") = "GPL";

#define MAX_CPUS   1024 /* a power of two */
#define PF_KTHREAD 0x00200000
#define LCB_F_SPIN (1U << 0)

/* As in record.rs. TASK, of user space, is 0: an empty stack. KERNEL is a thread of the kernel's.
 */
enum { TASK, KERNEL, SWITCH, WAKE, LOCK, IRQ, PROBE, IDLE, MODES };

/* Flags in the upper bits of a record's process number. */
#define WAITS	(1U << 31) /* the task that left could go on */
#define YIELDED (1U << 30) /* and left by sched_yield */

struct switched {
	u64 at;
	u32 prev, next;
	u32 ns[MODES];
	u32 in_user, in_kernel; /* samples */
};

struct woken {
	u64 at;
	u32 task, cpu;
};

struct doing {
	u64 since;
	u64 stack; /* four bits a mode, the innermost lowest */
	u64 ns[MODES];
	u64 switches, wakes, yields;
	u64 full_at; /* when the first record found no room; 0: never */
	u32 in_user, in_kernel;
	u64 unused; /* a cache line of its own */
};

/* Its width differs from kernel to kernel; it can be adapted if it has no sign. */
struct task_struct___on_cpu {
	unsigned int on_cpu;
} __attribute__((preserve_access_index));

/* Capacity of each CPU's logs, in records. */
const volatile u32 switch_capacity = 1;
const volatile u32 wake_capacity = 1;
/* CPUs that have logs: not those with higher numbers that come online later. */
const volatile u32 slots = 1;

struct doing cpus[MAX_CPUS];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct switched);
} switch_log SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct woken);
} wake_log SEC(".maps");

static __always_inline struct doing *here(void)
{
	return &cpus[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/* Closes the time since the last event; what follows is the probe's own. */
static __always_inline struct doing *begin(u64 *now)
{
	struct doing *cpu = here();

	*now = bpf_ktime_get_ns();
	/* An interrupt may come between the two lines before this one. */
	if (cpu->since && *now > cpu->since)
		cpu->ns[cpu->stack & (MODES - 1)] += *now - cpu->since;
	return cpu;
}

static __always_inline int end(struct doing *cpu, u64 now)
{
	u64 then = bpf_ktime_get_ns();

	cpu->ns[PROBE] += then - now;
	cpu->since = then;
	return 0;
}

static __always_inline int push(u32 mode)
{
	u64 now;
	struct doing *cpu = begin(&now);

	cpu->stack = cpu->stack << 4 | mode;
	return end(cpu, now);
}

/* An event that was missed, as when the probe interrupts itself, must not empty the stack. */
static __always_inline int pop(u32 mode)
{
	u64 now;
	struct doing *cpu = begin(&now);

	if ((cpu->stack & 15) == mode)
		cpu->stack >>= 4;
	return end(cpu, now);
}

static __always_inline bool is_user(struct task_struct *p)
{
	return p->pid && !(p->flags & PF_KTHREAD);
}

/* Whether a task of user space is in this system call. */
static __always_inline bool calls_yield(struct task_struct *p)
{
	return system_call_of(p) == NR_SCHED_YIELD;
}

/*
 * In user space or in the kernel? Watching each system call would make it half as long again, so
 * this is sampled. The stack has this interrupt on it. No code but the kernel's has an address that
 * is negative.
 */
SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct doing *cpu = here();
	u64 stack = cpu->stack;

	if ((stack & 15) == IRQ)
		stack >>= 4;
	if ((stack & 15) != TASK)
		return 0;
	if ((long)PT_REGS_IP(&ctx->regs) < 0)
		cpu->in_kernel++;
	else
		cpu->in_user++;
	return 0;
}

SEC("fentry/do_sched_yield")
int BPF_PROG(on_yield)
{
	here()->yields++;
	return 0;
}

/* The CPU is in @mode from one event to the other. */
#define BETWEEN(name, mode, first, last) \
	SEC(first)                       \
	int BPF_PROG(on_##name)          \
	{                                \
		return push(mode);       \
	}                                \
	SEC(last)                        \
	int BPF_PROG(on_##name##_end)    \
	{                                \
		return pop(mode);        \
	}

BETWEEN(schedule, SWITCH, "tp_btf/sched_entry_tp", "tp_btf/sched_exit_tp")

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u64 now, base = TASK;
	struct doing *cpu = begin(&now);
	u32 id = bpf_get_smp_processor_id();
	u32 slot = id * switch_capacity + cpu->switches;
	struct switched *record = NULL;

	if (id < slots && cpu->switches < switch_capacity)
		record = bpf_map_lookup_elem(&switch_log, &slot);
	if (record) {
		record->at = now;
		record->prev = prev->pid;
		if ((preempt || !prev_state) && is_user(prev)) {
			record->prev |= WAITS;
			if (!preempt && calls_yield(prev))
				record->prev |= YIELDED;
		}
		record->next = next->pid;
#pragma unroll
		for (int mode = 0; mode < MODES; mode++)
			record->ns[mode] = cpu->ns[mode];
		record->in_user = cpu->in_user;
		record->in_kernel = cpu->in_kernel;
		cpu->switches++;
	} else if (!cpu->full_at) {
		cpu->full_at = now;
	}
#pragma unroll
	for (int mode = 0; mode < MODES; mode++)
		cpu->ns[mode] = 0;
	cpu->in_user = cpu->in_kernel = 0;
	if (!next->pid)
		base = IDLE;
	else if (next->flags & PF_KTHREAD)
		base = KERNEL;
	/* A new task does not return from the scheduler: it has not called it. */
	cpu->stack = next->nvcsw + next->nivcsw || !next->pid ? base << 4 | SWITCH : base;
	return end(cpu, now);
}

static __always_inline int woken(struct task_struct *p)
{
	u64 now;
	struct doing *cpu = begin(&now);
	u32 id = bpf_get_smp_processor_id();
	u32 slot = id * wake_capacity + cpu->wakes;
	struct woken *record = NULL;

	/* A task that is about to sleep but has not left its CPU continues there. */
	if (((struct task_struct___on_cpu *)p)->on_cpu || !is_user(p))
		return end(cpu, now);
	if (id < slots && cpu->wakes < wake_capacity)
		record = bpf_map_lookup_elem(&wake_log, &slot);
	if (record) {
		record->at = now;
		record->task = p->pid;
		record->cpu = p->thread_info.cpu;
		cpu->wakes++;
	} else if (!cpu->full_at) {
		cpu->full_at = now;
	}
	return end(cpu, now);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	return woken(p);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	return woken(p);
}

BETWEEN(waking, WAKE, "fentry/try_to_wake_up", "fexit/try_to_wake_up")

/* The trace points leave out the second in a lock's queue, and this function the other kinds of
 * locks. Its name differs from kernel to kernel; the loader finds it. */
BETWEEN(spin, LOCK, "fentry", "fexit")

/* A sleeping wait, after one that span, takes no CPU time. */
SEC("tp_btf/contention_begin")
int BPF_PROG(on_contention, void *lock, unsigned int flags)
{
	return flags & LCB_F_SPIN ? push(LOCK) : pop(LOCK);
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_contention_end, void *lock, int error)
{
	return pop(LOCK);
}

/* The loader leaves out those that the kernel does not have. */
#define INTERRUPT(name) BETWEEN(name, IRQ, "tp_btf/" #name "_entry", "tp_btf/" #name "_exit")

INTERRUPT(irq_handler)
INTERRUPT(softirq)
INTERRUPT(local_timer)
INTERRUPT(reschedule)
INTERRUPT(call_function)
INTERRUPT(call_function_single)
INTERRUPT(irq_work)
/* arm64's, for all of the last four. */
INTERRUPT(ipi)
