/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts switches away from tasks of certain names, and their migrations, and keeps their wake-up
 * latencies. Kernel threads and other tasks that run between two of them do not count, as the
 * simulator has none: only the idle task and their parent count.
 *
 * A line of the kernel's own trace takes a thousand instructions; this 150 to 250.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

#define MAX_CPUS 64
#define NAMES	 2
#define LENGTH	 16

/* The names; a first byte of 0: none. */
const volatile char names[NAMES][LENGTH];
/* Children of this process do not count, though they have such a name; 0: all do. */
const volatile int parent = 0;

/* More wake-ups than that are an error of the caller's. */
#define MOST_WAKE_UPS (1 << 18)
/* Linux numbers threads from 1 to 32768 on machines of up to 32 CPUs. */
#define PIDS (1 << 15)

u64 switches;
u64 migrations;
/* From wake-up to running, in ns; entries beyond MOST_WAKE_UPS are counted but not kept. */
u64 wake_ups;
u32 latencies[MOST_WAKE_UPS];
/* When a task was woken that has not run since; 0: it has. */
u64 woken[PIDS];
/* The task that was interrupted but is still runnable; 0: none. */
int interrupted[MAX_CPUS];

static __always_inline bool is_named(const struct task_struct *p, const volatile char *name)
{
	if (!name[0])
		return false;
#pragma unroll
	for (int i = 0; i < LENGTH; i++) {
		if (p->comm[i] != name[i])
			return false;
		if (!name[i])
			return true;
	}
	return true;
}

static __always_inline bool is_child(const struct task_struct *p)
{
	/* The threads of one have its parent. */
	return parent && p->pid == p->tgid && p->real_parent->tgid == parent;
}

static __always_inline bool is_counted(const struct task_struct *p)
{
	return (is_named(p, names[0]) || is_named(p, names[1])) && !is_child(p);
}

static __always_inline u64 *woken_at(const struct task_struct *p)
{
	return &woken[(u32)p->pid % PIDS];
}

static __always_inline void note_running(const struct task_struct *p)
{
	u64 *since = woken_at(p);
	u64 index;

	if (!*since)
		return;
	index = __sync_fetch_and_add(&wake_ups, 1);
	if (index < MOST_WAKE_UPS)
		latencies[index] = bpf_ktime_get_ns() - *since;
	*since = 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	if (is_counted(p))
		*woken_at(p) = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	if (is_counted(p))
		*woken_at(p) = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u32 cpu = bpf_get_smp_processor_id();
	int *left;

	if (cpu >= MAX_CPUS)
		return 0;
	left = &interrupted[cpu];
	note_running(next);
	if (is_counted(prev)) {
		if (preempt || !prev_state) {
			*left = prev->pid;
			/* Woken before it slept. */
			*woken_at(prev) = 0;
		} else {
			__sync_fetch_and_add(&switches, 1);
		}
	}
	if (*left && (next->pid == 0 || is_child(next) || is_counted(next))) {
		if (*left != next->pid)
			__sync_fetch_and_add(&switches, 1);
		*left = 0;
	}
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, int to)
{
	if (is_counted(p))
		__sync_fetch_and_add(&migrations, 1);
	return 0;
}
