/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every policy shares: its environment, and the macros by which it describes itself to the
 * loader.
 *
 * <scx/common.bpf.h> is found on the include path and provides a policy's environment: the kernel's
 * kfuncs when it is compiled for BPF. No policy depends on which environment it is in.
 *
 * A policy describes itself in its own source. KNOB(), CHOICE(), STAT() and CONTROL() leave their
 * documentation in the object's type information. From there the loader makes the command-line
 * options, checks the ranges and names the statistics: a knob is documented where it is defined,
 * and nowhere else.
 */
#ifndef FLSCHED_COMMON_BPF_H
#define FLSCHED_COMMON_BPF_H

#include <scx/common.bpf.h>

#define TAG_TEXT(x) #x
#define TAG(text)   __attribute__((btf_decl_tag(text)))

/*
 * KNOB(name, default, min, max, doc): an integer that the user may set before the policy is
 * loaded. The name ends in its unit. A bool is a knob from 0 to 1.
 */
#define KNOB(name, dfl, min, max, doc) \
	const volatile u64 name TAG("knob " TAG_TEXT(min) " " TAG_TEXT(max) " " doc) = dfl

/*
 * CHOICE(name, default, "first second third", doc): a knob whose values have names; the default is
 * the number of one, from 0. The name needs no unit.
 */
#define CHOICE(name, dfl, values, doc) const volatile u64 name TAG("choice " values ": " doc) = dfl

/*
 * PID_LIST(name, most, choice, chosen, doc): a set of processes that the user names, a map whose
 * keys are pids. It matters when that choice has that value; to name processes chooses the value.
 */
#define PID_LIST(name, most, choice, chosen, doc) \
	struct {                                  \
		__uint(type, BPF_MAP_TYPE_HASH);  \
		__uint(max_entries, most);        \
		__type(key, u32);                 \
		__type(value, u8);                \
	} name SEC(".maps") TAG("pids " TAG_TEXT(most) " " #choice " " #chosen " " doc)

/*
 * CONTROL(what): the policy is a control for comparisons, not for use. It is held to
 * its interface, and to not being ejected under @what.
 */
#define CONTROL(what) const volatile u64 is_control TAG("control " what) = 1

/*
 * FACT(name): a number about the machine that the loader fills in before the policy is loaded.
 * tick_ns: length of the scheduler's tick. FACT_TABLE(): the same for a table; topology.bpf.h.
 */
#define FACT(name)			const volatile u64 name
#define FACT_TABLE(type, name, entries) const volatile type name[entries]

FACT(tick_ns);

/*
 * STATS(STAT(name, doc) …): the events a policy counts, in a per-CPU map, so that counting never
 * moves a cache line. COUNT(name) adds one on the CPU where it runs.
 */
#define STAT(name, doc) u64 name TAG("stat " doc);
#define STATS(fields)                                                    \
	struct policy_stats {                                            \
		fields                                                   \
	};                                                               \
	struct {                                                         \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                 \
		__uint(max_entries, 1);                                  \
		__type(key, u32);                                        \
		__type(value, struct policy_stats);                      \
	} policy_stats SEC(".maps");                                     \
	static __always_inline struct policy_stats *this_cpu_stats(void) \
	{                                                                \
		u32 zero = 0;                                            \
		return bpf_map_lookup_elem(&policy_stats, &zero);        \
	}

#define COUNT_MANY(name, many)                                   \
	({                                                       \
		struct policy_stats *__stats = this_cpu_stats(); \
		if (__stats)                                     \
			__stats->name += (many);                 \
	})
#define COUNT(name) COUNT_MANY(name, 1)

/*
 * No task may wait longer for its CPU. The kernel's watchdog ejects a policy for 30 s, and warns
 * after 21 s of a task that was preempted while others wait for it to leave an RCU reader's
 * section.
 */
#define LONGEST_NS 10000000000ULL

#define US_TO_NS(us) ((us) * 1000ULL)
#define NO_CPU	     (-1)
#define NO_TASK	     (-1)
#define SCHED_IDLE   5 /* a scheduling policy of the kernel */

/* Each CPU's run queue, as a dispatch queue of the policy's own. */
static __always_inline u64 run_queue(s32 cpu)
{
	return cpu;
}

/* Creates a queue of @cpu's, in the memory of its node. */
static __always_inline s32 create_queue(u64 queue, s32 cpu)
{
	s32 err = scx_bpf_create_dsq(queue, __COMPAT_scx_bpf_cpu_node(cpu));

	if (err)
		scx_bpf_error("no queue for CPU %d: error %d", cpu, err);
	return err;
}

static __always_inline u64 nr_queued(u64 dsq)
{
	s32 queued = scx_bpf_dsq_nr_queued(dsq);

	return queued > 0 ? queued : 0;
}

/* How long the first task of @dsq has been runnable, at the tick's resolution. */
static __always_inline u64 first_waited_ns(u64 dsq)
{
	struct task_struct *first;
	u64 ticks = 0;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(dsq);
	if (first)
		ticks = bpf_jiffies64() - first->scx.runnable_at;
	bpf_rcu_read_unlock();
	return ticks * tick_ns;
}

/*
 * What CPUs tell each other without a lock, they tell by words of bits. Whoever adds something sets
 * its bit, then reads the bits of those who wait for it; whoever waits sets a bit, then reads the
 * other one. One of the two must see the other. So each change of a word is one atomic operation
 * that returns the old value, which in the kernel's memory model is a full barrier
 * (Documentation/atomic_t.txt); without the old value it is none, and LLVM emits one without order
 * on arm64. A bit means "perhaps": what it stands for is checked where it is, under its lock. Other
 * shared variables have one writer, are advice, and are read and written as a whole (READ_ONCE(),
 * WRITE_ONCE()), in no order.
 *
 * A word that has its bits already is left alone, without a barrier. Then whoever waits sees the
 * bit, or a third CPU clears it meanwhile because it has found nothing; such a task waits for the
 * next tick of its CPU, which sets the bit again.
 */

/*
 * Keeps the old value of an atomic operation in use, and so its order. On x86 all of them are full
 * barriers, and the ones without the old value are shorter.
 */
#ifdef __TARGET_ARCH_x86
#define order_by(old) (void)(old)
#else
#define order_by(old) barrier_var(old)
#endif

/* A word of bits that several CPUs set and clear: written only if that changes it. */
static __always_inline void set_bits(u64 *word, u64 bits)
{
	u64 old = READ_ONCE(*word);

	if ((old & bits) != bits)
		old = __sync_fetch_and_or(word, bits);
	barrier_var(old);
}

/* True if it was this call that cleared one. */
static __always_inline bool clear_bits(u64 *word, u64 bits)
{
	u64 old;

	if (!(READ_ONCE(*word) & bits))
		return false;
	old = __sync_fetch_and_and(word, ~bits);
	order_by(old);
	return old & bits;
}

/* Return true if @p can run on no other CPU than where it is. */
static __always_inline bool is_pinned(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1 || is_migration_disabled(p);
}

/* Return true if @p, which waits, may run on @cpu, another CPU than where it waits. */
static __always_inline bool may_move_to(const struct task_struct *p, s32 cpu)
{
	return !is_migration_disabled(p) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/*
 * Return true if another CPU may take @p, which is being enqueued. A task that a higher class has
 * preempted is still the current task of its CPU, and in a BPF program the current task counts as
 * migration-disabled: then the kernel checks when the task is moved.
 */
static __always_inline bool may_leave(const struct task_struct *p, u64 enq_flags)
{
	return (enq_flags & SCX_ENQ_REENQ) ? p->nr_cpus_allowed > 1 : !is_pinned(p);
}

/*
 * A task of a higher class takes the CPU. The tasks in its local queue, including the one that ran,
 * would wait for it, because no other CPU takes a task from there. So they are enqueued again. Also
 * for the kernel's stopper, though it is done in microseconds: if a real-time task comes next, this
 * is not called again.
 */
static __always_inline void give_way(void)
{
	scx_bpf_reenqueue_local();
}

/*
 * What every policy asks of the kernel. Its enqueue operation is called for tasks that must not
 * migrate, too. And a woken task whose CPU idles, or is beyond the waker's cache, is enqueued by
 * its CPU (ttwu_queue_wakelist()): the waker takes no lock of that CPU, and goes on sooner.
 */
#define POLICY_FLAGS (SCX_OPS_ENQ_MIGRATION_DISABLED | SCX_OPS_ALLOW_QUEUED_WAKEUP)

/* A policy's license, and how it reports to the loader why it ended: the same in each. */
#define POLICY_BOILERPLATE(policy)                                   \
	char _license[] SEC("license") = "GPL";                      \
	UEI_DEFINE(uei);                                             \
	void BPF_STRUCT_OPS(policy##_exit, struct scx_exit_info *ei) \
	{                                                            \
		UEI_RECORD(uei, ei);                                 \
	}

#endif /* FLSCHED_COMMON_BPF_H */
