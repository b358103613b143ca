/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's functions that a policy may call. KFUNC() declares a pointer in a section of its
 * own; the simulator fills in every pointer that it finds there, and refuses a policy with one that
 * it does not know.
 */
#ifndef SIM_KFUNCS_H
#define SIM_KFUNCS_H

#define KFUNC(type, name, ...) \
	type (*name)(__VA_ARGS__) __attribute__((section(".sim.kfuncs"), used))

/* Dispatch queues. */
KFUNC(s32, scx_bpf_create_dsq, u64 dsq_id, s32 node);
KFUNC(void, scx_bpf_destroy_dsq, u64 dsq_id);
KFUNC(s32, scx_bpf_dsq_nr_queued, u64 dsq_id);
KFUNC(struct task_struct *, scx_bpf_dsq_peek, u64 dsq_id);
KFUNC(bool, scx_bpf_dsq_insert, struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);
KFUNC(bool, scx_bpf_dsq_insert_vtime, struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
      u64 enq_flags);
KFUNC(bool, sim_dsq_move_to_local, u64 dsq_id, u64 enq_flags);
KFUNC(u32, scx_bpf_dispatch_nr_slots, void);
KFUNC(void, scx_bpf_dispatch_cancel, void);
KFUNC(u32, sim_reenqueue_local, void);

#define scx_bpf_dsq_move_to_local(dsq_id, enq_flags) sim_dsq_move_to_local(dsq_id, enq_flags)
#define scx_bpf_reenqueue_local()		     ((void)sim_reenqueue_local())
#define __COMPAT_scx_bpf_dsq_peek(dsq_id)	     scx_bpf_dsq_peek(dsq_id)
#define __COMPAT_is_enq_cpu_selected(enq_flags)	     ((enq_flags) & SCX_ENQ_CPU_SELECTED)

/* Walking a dispatch queue. */
struct bpf_iter_scx_dsq {
	u64 dsq_id;
	u64 flags;
	u64 seq;
	struct task_struct *last;
	struct task_struct *ahead;
	u64 slice;
	u64 vtime;
	u32 set; /* 1: slice, 2: vtime */
};

KFUNC(void, sim_iter_scx_dsq_new, struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags);
KFUNC(struct task_struct *, bpf_iter_scx_dsq_next, struct bpf_iter_scx_dsq *it);
KFUNC(bool, sim_dsq_move, struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
      u64 enq_flags, bool by_vtime);

#define BPF_FOR_EACH_ITER (&___it)
#define bpf_for_each(type, item, args...)                                                          \
	for (struct bpf_iter_##type ___it, *___of = (sim_iter_##type##_new(&___it, args), &___it); \
	     ((item) = bpf_iter_##type##_next(___of));)
#define scx_bpf_dsq_move(it, p, dsq_id, enq_flags) sim_dsq_move(it, p, dsq_id, enq_flags, false)
#define scx_bpf_dsq_move_vtime(it, p, dsq_id, enq_flags) \
	sim_dsq_move(it, p, dsq_id, enq_flags, true)
#define scx_bpf_dsq_move_set_slice(it, value) ((it)->slice = (value), (it)->set |= 1)
#define scx_bpf_dsq_move_set_vtime(it, value) ((it)->vtime = (value), (it)->set |= 2)

/* CPUs. */
KFUNC(u32, scx_bpf_nr_cpu_ids, void);
KFUNC(u32, scx_bpf_nr_node_ids, void);
KFUNC(s32, scx_bpf_cpu_node, s32 cpu);
#define __COMPAT_scx_bpf_cpu_node(cpu) scx_bpf_cpu_node(cpu)
KFUNC(void, scx_bpf_kick_cpu, s32 cpu, u64 flags);
KFUNC(s32, scx_bpf_select_cpu_dfl, struct task_struct *p, s32 prev_cpu, u64 wake_flags,
      bool *is_idle);
KFUNC(s32, scx_bpf_select_cpu_and, struct task_struct *p, s32 prev_cpu, u64 wake_flags,
      const struct cpumask *allowed, u64 flags);
KFUNC(bool, scx_bpf_test_and_clear_cpu_idle, s32 cpu);
KFUNC(s32, scx_bpf_pick_idle_cpu, const cpumask_t *allowed, u64 flags);
KFUNC(s32, scx_bpf_pick_any_cpu, const cpumask_t *allowed, u64 flags);
KFUNC(const struct cpumask *, scx_bpf_get_idle_cpumask, void);
KFUNC(const struct cpumask *, scx_bpf_get_idle_smtmask, void);
KFUNC(const struct cpumask *, scx_bpf_get_online_cpumask, void);
KFUNC(const struct cpumask *, scx_bpf_get_possible_cpumask, void);
KFUNC(u32, scx_bpf_cpuperf_cap, s32 cpu);
KFUNC(u32, scx_bpf_cpuperf_cur, s32 cpu);
KFUNC(void, scx_bpf_cpuperf_set, s32 cpu, u32 perf);

/* These only count references, and a mask is not freed while the simulation runs. */
#define scx_bpf_put_idle_cpumask(mask) ((void)(mask))
#define scx_bpf_put_cpumask(mask)      ((void)(mask))

/* Tasks. */
KFUNC(bool, scx_bpf_task_running, const struct task_struct *p);
KFUNC(s32, scx_bpf_task_cpu, const struct task_struct *p);
KFUNC(struct task_struct *, scx_bpf_cpu_curr, s32 cpu);
KFUNC(struct task_struct *, bpf_task_from_pid, s32 pid);
KFUNC(struct task_struct *, bpf_get_current_task_btf, void);

/* A task outlives every reference to it here. */
#define bpf_task_acquire(p)	       (p)
#define bpf_task_release(p)	       ((void)(p))
#define __COMPAT_scx_bpf_cpu_curr(cpu) scx_bpf_cpu_curr(cpu)

static inline bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	p->scx.slice = slice;
	return true;
}

static inline bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	p->scx.dsq_vtime = vtime;
	return true;
}

static inline bool is_migration_disabled(const struct task_struct *p)
{
	return p->migration_disabled;
}

/* Time, and where the policy is running. */
KFUNC(u64, scx_bpf_now, void);
KFUNC(u64, bpf_ktime_get_ns, void);
KFUNC(u64, bpf_jiffies64, void);
KFUNC(u32, bpf_get_smp_processor_id, void);
KFUNC(u32, bpf_get_prandom_u32, void);

/* A callback is never interrupted by another, so that every reader sees one state. */
static inline void bpf_rcu_read_lock(void)
{
}

static inline void bpf_rcu_read_unlock(void)
{
}

/* What it says. */
KFUNC(void, sim_error, const char *text);
KFUNC(void, sim_print, const char *text);

#define sim_say(to, format, args...)                                          \
	({                                                                    \
		char ___text[512];                                            \
		__builtin_snprintf(___text, sizeof(___text), format, ##args); \
		to(___text);                                                  \
	})
#define scx_bpf_error(format, args...) sim_say(sim_error, format, ##args)
#define bpf_printk(format, args...)    sim_say(sim_print, format, ##args)

/*
 * Atomic operations. The simulator charges those on a policy's own variables: the cache line comes
 * from the CPU that wrote to it last. Map entries are not charged.
 */
KFUNC(void, sim_write_line, u64 line);

/* By the linker. */
extern char __bss_start[] __hidden;
extern char _end[] __hidden;

static inline void sim_write_word(const volatile void *word)
{
	if ((const char *)word >= __bss_start && (const char *)word < _end)
		sim_write_line((u64)word / 64 - (u64)__bss_start / 64);
}

#define SIM_ATOMIC(operation, word, value)                  \
	({                                                  \
		typeof(word) __word = (word);               \
		sim_write_word(__word);                     \
		operation(__word, value, __ATOMIC_SEQ_CST); \
	})
#define __sync_fetch_and_or(word, value)      SIM_ATOMIC(__atomic_fetch_or, word, value)
#define __sync_fetch_and_and(word, value)     SIM_ATOMIC(__atomic_fetch_and, word, value)
#define __sync_fetch_and_add(word, value)     SIM_ATOMIC(__atomic_fetch_add, word, value)
#define __sync_fetch_and_sub(word, value)     SIM_ATOMIC(__atomic_fetch_sub, word, value)
#define __sync_lock_test_and_set(word, value) SIM_ATOMIC(__atomic_exchange_n, word, value)

#endif
