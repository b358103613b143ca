/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPUs have threads of which team, for policies that keep such threads together.
 *
 * A team is the threads of a process, of a cgroup, or of a list of processes, as the user chooses.
 * Its threads that run or wait are counted by CPU; those that sleep are not, because a sleeping
 * thread uses no cache and may wake up anywhere.
 *
 * The counts of one team in one group of CPUs are an entry of a hash table, found by both numbers.
 * The table keeps those used last. With more than it can hold counts are lost, and threads are
 * placed as if they had fewer co-threads: the counts are advice, never a promise.
 *
 * For each thread the place where it is counted is stored, so that it is counted once, however it
 * leaves. A table in the policy's own memory holds these places, not the kernel's task storage:
 * storage is allocated at a fork, and since 6.14 it is freed in a way that can deadlock with a CPU
 * that goes offline (bpf_map_free() disables migration and then waits for tasks-trace RCU).
 */
#ifndef FLSCHED_TEAMS_BPF_H
#define FLSCHED_TEAMS_BPF_H

#include "idle.bpf.h"

#define TEAM_GROUPS 16384
#define LIST_TEAM   1ULL /* of those on the user's list */

enum group_by { BY_PROCESS, BY_CGROUP, BY_PIDS };

CHOICE(grouping, 1, "off on", "keep the threads of a team on the same CPU, or near");

CHOICE(group_by, 0, "process cgroup pids", "whose threads are kept together");

PID_LIST(pids, 1024, group_by, 2, "processes whose threads are one team, with group_by pids");

struct team_key {
	u64 team;
	u64 group;
};

/* The threads of a team in a group: how many on each CPU, and a bit for each CPU with any. */
struct team_group {
	u64 cpus;
	u32 threads[GROUP_CPUS];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TEAM_GROUPS);
	__type(key, struct team_key);
	__type(value, struct team_group);
} team_groups SEC(".maps");

static const struct team_group no_threads;

/*
 * Where threads are counted, by the lower bits of their pid: the team and CPU + 1, in one word that
 * is exchanged as a whole; 0: nowhere. What a word says has been added once, and whoever replaces
 * the word removes it. Threads whose pids share a slot replace each other: of those only the one
 * that ran or waited last is counted.
 */
#define SLOT_BITS  16
#define SLOTS	   (1 << SLOT_BITS)
#define PLACE_BITS 16 /* more than MAX_CPUS needs */
#define PLACE_MASK ((1 << PLACE_BITS) - 1)

static u64 counted_threads[SLOTS];

/* Threads of a team often have successive pids; a cache line of eight words is not to be theirs. */
static u64 *counted(const struct task_struct *p)
{
	u32 pid = p->pid & (SLOTS - 1);

	return &counted_threads[(pid << 3 | pid >> (SLOT_BITS - 3)) & (SLOTS - 1)];
}

/*
 * The team of @p; 0: none. The only thread of a process has no co-threads.
 *
 * Not inlined: for each pointer that is followed here, the verifier of kernels before 7.0 searches
 * the kernel's type information from end to end, on every path that it checks. Inlined, attaching
 * took three times as long.
 */
__noinline u64 team_of(struct task_struct *p __arg_trusted)
{
	u32 pid = p->tgid;

	if (!grouping || (p->flags & PF_KTHREAD))
		return 0;
	if (group_by == BY_CGROUP)
		return p->cgroups->dfl_cgrp->kn->id & (~0ULL >> PLACE_BITS);
	if (group_by == BY_PIDS)
		return bpf_map_lookup_elem(&pids, &pid) ? LIST_TEAM : 0;
	return p->signal->nr_threads > 1 ? pid : 0;
}

static struct team_group *team_in(u64 team, u32 group)
{
	struct team_key key = {.team = team, .group = group};

	return bpf_map_lookup_elem(&team_groups, &key);
}

static u32 *threads_on(struct team_group *group, s32 cpu)
{
	return &group->threads[cpu_index(cpu)];
}

static void add_thread(u64 team, s32 cpu)
{
	struct team_key key = {.team = team, .group = group_of(cpu)};
	struct team_group *group = bpf_map_lookup_elem(&team_groups, &key);
	u32 before;

	if (!group) {
		bpf_map_update_elem(&team_groups, &key, &no_threads, BPF_NOEXIST);
		group = bpf_map_lookup_elem(&team_groups, &key);
		if (!group)
			return;
	}
	before = __sync_fetch_and_add(threads_on(group, cpu), 1);
	order_by(before);
	set_bits(&group->cpus, bit_of(cpu));
}

/*
 * The bit is cleared before the count is read again, and add_thread() counts before it reads the
 * bit, both with a barrier between the two: an added thread sets the bit or is seen.
 */
static void remove_thread(u64 team, s32 cpu)
{
	struct team_group *group = team_in(team, group_of(cpu));
	u32 *threads;

	if (!group)
		return;
	threads = threads_on(group, cpu);
	if (!*threads)
		return; /* the table had lost this entry */
	if (__sync_fetch_and_sub(threads, 1) > 1)
		return;
	clear_bits(&group->cpus, bit_of(cpu));
	if (*threads)
		set_bits(&group->cpus, bit_of(cpu));
}

static void replace_counted(u64 *counted, u64 place)
{
	u64 before = __sync_lock_test_and_set(counted, place);

	if (before)
		remove_thread(before >> PLACE_BITS, (before & PLACE_MASK) - 1);
}

/* @p runs or waits on @cpu now. */
static void count_thread(struct task_struct *p, s32 cpu)
{
	u64 team = team_of(p), place = team << PLACE_BITS | (u64)(cpu + 1);

	if (!team || *counted(p) == place)
		return;
	add_thread(team, cpu);
	replace_counted(counted(p), place);
}

/* @p sleeps. */
static void uncount_thread(struct task_struct *p)
{
	if (*counted(p))
		replace_counted(counted(p), 0);
}

/* The nearest co-threads of a thread: all CPUs of a group that have some, and the first of them. */
struct cothreads {
	u64 cpus; /* 0: there are none, or some on the thread's own CPU */
	s32 beside;
};

/* Searches outward from @cpu, where @counted threads of @team do not matter. */
__noinline int find_cothreads(u64 team, s32 cpu, u32 counted, struct cothreads *found __arg_nonnull)
{
	u32 own = group_of(cpu), groups = walk_from(cpu, reach, 0).tries, distance;

	bpf_for (distance, 0, groups) {
		u32 near = near_group(own, distance);
		struct team_group *group = team_in(team, near);

		if (!group)
			continue;
		if (!distance && *threads_on(group, cpu) > counted)
			break;
		found->cpus = distance ? group->cpus : group->cpus & ~bit_of(cpu);
		if (!found->cpus)
			continue;
		found->beside = cpu_at(near, first_bit_from(found->cpus, cpu_index(cpu)));
		break;
	}
	return 0;
}

#endif /* FLSCHED_TEAMS_BPF_H */
