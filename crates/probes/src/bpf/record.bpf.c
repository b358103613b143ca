/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each CPU switches to, which task wakes or creates which, and what the tasks are.
 *
 * The log is made of chunks. A CPU fills one after the other, and takes each from all that are
 * left: so CPUs meet once in 682 events, and a busy CPU gets more than an idle one. Nothing
 * is read before the end, so that no reader runs beside the load. When no chunk is left, the time
 * is kept, and all later events are only counted.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "syscalls.h"

char _license[] SEC("license") = "GPL";

#define MAX_CPUS     1024 /* a power of two */
#define CHUNK_EVENTS 682  /* a chunk is 16 KiB */
#define MASK_WORDS   (MAX_CPUS / 64)
#define TASK_DEAD    0x80
#define PF_EXITING   0x00000004
#define PF_KTHREAD   0x00200000
#define SIGCHLD	     17
#define IN_INTERRUPT                                                                 \
	0x00ff0100 /* of the preemption count: in an NMI, a hard or a soft interrupt \
		    */

/* In the upper bits of an event's second number; as in log.rs. */
#define KIND_SHIFT 28
enum {
	BLOCKED,
	READING,
	PREEMPTED,
	YIELDED,
	EXITED,
	WOKEN,
	WOKEN_BY_MESSAGE,
	WOKEN_BY_INTERRUPT,
	WOKEN_BY_END,
	FORKED,
	VFORKED,
	IN_FUTEX
};

struct event {
	u64 at;
	u32 task;	   /* that left, was woken or created */
	u32 other;	   /* that came; with the kind */
	u32 reads, writes; /* calls that the task which left has finished since it came */
};

struct chunk {
	u32 cpu, used;
	u64 unused;
	struct event events[CHUNK_EVENTS];
};

struct cpu_log {
	u32 chunk; /* from 1; 0: none yet */
	u32 unused;
	u64 migrations, lost;
	u64 full_at; /* when the first event was lost; 0: never */
	/* Of the task that runs here: what it had called when it came, and has called since. */
	u32 task, reads_before, writes_before;
	u32 received, sent;
	u32 line[3]; /* a cache line of its own */
};

/* A task, when it comes, when it ends, and at both ends of the recording. */
struct identity {
	u64 at;
	u32 task, process;
	s32 priority; /* 100 to 139: nice -20 to 19 */
	u32 policy, real_time_priority;
	u32 is_kernel_thread;
	u32 nr_cpus; /* on which it may run */
	u32 unused;
	char name[16];
	u64 cpus[MASK_WORDS];
};

const volatile u32 chunks = 1;
const volatile u32 identities = 1;

struct cpu_log cpus[MAX_CPUS];
u32 next_chunk;
u32 next_identity;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct chunk);
} event_log SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct identity);
} identity_log SEC(".maps");

/* Linux 6.2 to 6.14 keep the preemption count in a structure. */
struct pcpu_hot___before_6_15 {
	int preempt_count;
} __attribute__((preserve_access_index));

/* On aarch64 each task has it, in the lower half. */
struct thread_info___with_count {
	u64 preempt_count;
} __attribute__((preserve_access_index));

extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot___before_6_15 pcpu_hot __ksym __weak;

static __always_inline bool in_interrupt(void)
{
	u32 count = 0;

	if (bpf_core_field_exists(((struct thread_info___with_count *)0)->preempt_count)) {
		struct task_struct *task = bpf_get_current_task_btf();
		const struct thread_info___with_count *info = (const void *)&task->thread_info;

		count = (u32)BPF_CORE_READ(info, preempt_count);
	} else if (&__preempt_count) {
		count = *(const int *)bpf_this_cpu_ptr(&__preempt_count);
	} else if (&pcpu_hot) {
		count = ((const struct pcpu_hot___before_6_15 *)bpf_this_cpu_ptr(&pcpu_hot))
				->preempt_count;
	}
	return count & IN_INTERRUPT;
}

static __always_inline void lose(struct cpu_log *cpu, u64 at)
{
	cpu->lost++;
	if (!cpu->full_at)
		cpu->full_at = at;
}

static __always_inline void add(u64 at, u32 task, u32 other, u32 kind, u32 reads, u32 writes)
{
	u32 id = bpf_get_smp_processor_id() & (MAX_CPUS - 1), slot;
	struct cpu_log *cpu = &cpus[id];
	struct chunk *chunk = NULL;
	struct event *event;
	u32 used = CHUNK_EVENTS;

	if (cpu->full_at)
		return lose(cpu, at);
	if (cpu->chunk) {
		slot = cpu->chunk - 1;
		chunk = bpf_map_lookup_elem(&event_log, &slot);
		if (!chunk)
			return;
		used = chunk->used;
	}
	if (used >= CHUNK_EVENTS) {
		/* Looked at first, so that the count does not grow for ever. */
		if (next_chunk >= chunks)
			return lose(cpu, at);
		slot = __sync_fetch_and_add(&next_chunk, 1);
		chunk = slot < chunks ? bpf_map_lookup_elem(&event_log, &slot) : NULL;
		if (!chunk)
			return lose(cpu, at);
		cpu->chunk = slot + 1;
		chunk->cpu = id;
		used = 0;
	}
	event = &chunk->events[used];
	event->at = at;
	event->task = task;
	event->other = other | kind << KIND_SHIFT;
	event->reads = reads;
	event->writes = writes;
	chunk->used = used + 1;
}

static __always_inline void describe(struct identity *identity, struct task_struct *p)
{
	const struct cpumask *mask = p->cpus_ptr;
	u32 size = bpf_core_type_size(struct cpumask);

	identity->at = bpf_ktime_get_ns();
	identity->task = p->pid;
	identity->process = p->tgid;
	identity->priority = p->static_prio;
	identity->policy = p->policy;
	identity->real_time_priority = p->rt_priority;
	identity->is_kernel_thread = !!(p->flags & PF_KTHREAD);
	identity->nr_cpus = p->nr_cpus_allowed;
	__builtin_memcpy(identity->name, p->comm, sizeof(identity->name));
	if (size > sizeof(identity->cpus))
		size = sizeof(identity->cpus);
	bpf_probe_read_kernel(identity->cpus, size, mask);
}

static __always_inline void identify(struct task_struct *p)
{
	struct identity *identity;
	u32 slot;

	if (next_identity >= identities)
		return lose(&cpus[bpf_get_smp_processor_id() & (MAX_CPUS - 1)], bpf_ktime_get_ns());
	slot = __sync_fetch_and_add(&next_identity, 1);
	identity = bpf_map_lookup_elem(&identity_log, &slot);
	if (identity)
		describe(identity, p);
}

/* The system call that a task of user space is in; -1: none. */
static __always_inline long system_call(struct task_struct *p)
{
	return p->flags & PF_KTHREAD ? -1 : system_call_of(p);
}

/* Whether a call waits for what others write or send. */
static __always_inline bool is_reading(long call)
{
	switch (call) {
	case NR_READ:
	case NR_POLL:
	case NR_READV:
	case NR_SELECT:
	case NR_RECVFROM:
	case NR_RECVMSG:
	case NR_EPOLL_WAIT:
	case NR_PSELECT6:
	case NR_PPOLL:
	case NR_EPOLL_PWAIT:
	case NR_EPOLL_PWAIT2:
		return true;
	}
	return false;
}

/* Whether a call waits for a lock, a condition or a barrier of user space. */
static __always_inline bool is_futex(long call)
{
	return call == NR_FUTEX || call == NR_FUTEX_WAITV || call == NR_FUTEX_WAIT;
}

/* Whether a call moves data: a wake-up in it is that of a pipe or socket, with WF_SYNC. */
static __always_inline bool is_message(long call)
{
	switch (call) {
	case NR_READ:
	case NR_WRITE:
	case NR_READV:
	case NR_WRITEV:
	case NR_SENDTO:
	case NR_RECVFROM:
	case NR_SENDMSG:
	case NR_RECVMSG:
		return true;
	}
	return false;
}

/*
 * Whether a task that ends wakes its waiting parent with WF_SYNC, as do_notify_parent() does. A
 * parent that handles SIGCHLD is woken by the signal first, without WF_SYNC.
 */
static __always_inline bool is_end_of_child(struct task_struct *child, struct task_struct *parent)
{
	const struct sighand_struct *sighand = parent->sighand;

	return child->flags & PF_EXITING && child->real_parent->tgid == parent->tgid && sighand &&
	       (u64)sighand->action[SIGCHLD - 1].sa.sa_handler <= 1; /* SIG_DFL, SIG_IGN */
}

/* Why a task leaves its CPU. */
static __always_inline u32 reason(struct task_struct *prev, bool preempt, u32 prev_state)
{
	long call;

	if (preempt)
		return PREEMPTED;
	if (prev_state & TASK_DEAD)
		return EXITED;
	call = system_call(prev);
	if (!prev_state)
		return call == NR_SCHED_YIELD ? YIELDED : PREEMPTED;
	if (is_reading(call))
		return READING;
	return is_futex(call) ? IN_FUTEX : BLOCKED;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct cpu_log *cpu = &cpus[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
	u32 reads = cpu->received, writes = cpu->sent;

	/* The kernel counts them with CONFIG_TASK_XACCT, which distributions set. */
	if (bpf_core_field_exists(prev->ioac.syscr)) {
		reads += (u32)prev->ioac.syscr - cpu->reads_before;
		writes += (u32)prev->ioac.syscw - cpu->writes_before;
		cpu->reads_before = next->ioac.syscr;
		cpu->writes_before = next->ioac.syscw;
	}
	/* The first task on this CPU came before the recording began. */
	if (cpu->task != prev->pid)
		reads = writes = 0;
	cpu->task = next->pid;
	cpu->received = cpu->sent = 0;
	add(bpf_ktime_get_ns(), prev->pid, next->pid, reason(prev, preempt, prev_state), reads,
	    writes);
	return 0;
}

/* Calls of sockets' own functions, which the kernel does not count. */

static __always_inline bool has_moved_data(void *ctx)
{
	u64 moved = 0;

	return !bpf_get_func_ret(ctx, &moved) && (int)moved > 0;
}

static __always_inline int count_received(void *ctx)
{
	if (has_moved_data(ctx))
		cpus[bpf_get_smp_processor_id() & (MAX_CPUS - 1)].received++;
	return 0;
}

static __always_inline int count_sent(void *ctx)
{
	if (has_moved_data(ctx))
		cpus[bpf_get_smp_processor_id() & (MAX_CPUS - 1)].sent++;
	return 0;
}

SEC("fexit/__sys_recvfrom")
int on_recvfrom(void *ctx)
{
	return count_received(ctx);
}

SEC("fexit/__sys_recvmsg")
int on_recvmsg(void *ctx)
{
	return count_received(ctx);
}

SEC("fexit/__sys_sendto")
int on_sendto(void *ctx)
{
	return count_sent(ctx);
}

SEC("fexit/__sys_sendmsg")
int on_sendmsg(void *ctx)
{
	return count_sent(ctx);
}

/* In the context of the waker, unlike sched_wakeup. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	u32 kind = WOKEN;

	if (in_interrupt())
		kind = WOKEN_BY_INTERRUPT;
	else if (is_message(system_call(waker)))
		kind = WOKEN_BY_MESSAGE;
	else if (is_end_of_child(waker, p))
		kind = WOKEN_BY_END;
	add(bpf_ktime_get_ns(), p->pid, 0, kind, 0, 0);
	return 0;
}

/* By its parent. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	add(bpf_ktime_get_ns(), p->pid, 0, p->vfork_done ? VFORKED : FORKED, 0, 0);
	identify(p);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p)
{
	identify(p);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, int to)
{
	struct cpu_log *cpu = &cpus[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];

	if (!cpu->full_at)
		cpu->migrations++;
	return 0;
}

/* All tasks that there are; read by user space. */
SEC("iter/task")
int on_task(struct bpf_iter__task *ctx)
{
	static struct identity identity;
	struct task_struct *p = ctx->task;

	if (!p)
		return 0;
	describe(&identity, p);
	bpf_seq_write(ctx->meta->seq, &identity, sizeof(identity));
	return 0;
}
