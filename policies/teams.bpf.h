/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPUs have threads of which team, for policies that keep such threads together.
 *
 * A team is what the user says it is: the threads of a process, of a cgroup, or of a list of
 * processes. Its threads that run or wait are counted by CPU; those that sleep are not, because a
 * sleeping thread uses no cache and may wake up anywhere.
 *
 * The counts of one team in one group of CPUs are an entry of a hash table, found by both numbers;
 * an entry exists only where a team has been, and the table forgets who has not been asked for
 * longest. There are as many as SQUADS. Should a machine have more at a time, counts are lost and
 * threads are placed as if they had fewer co-threads: the counts are advice, never a promise.
 *
 * A thread remembers where it is counted, so that it is counted once, whatever way it leaves.
 */
#ifndef FLSCHED_TEAMS_BPF_H
#define FLSCHED_TEAMS_BPF_H

#include "topology.bpf.h"

#define SQUADS	  16384
#define LIST_TEAM 1ULL /* of those on the user's list */

enum group_by { BY_PROCESS, BY_CGROUP, BY_PIDS };

CHOICE(group_by, 0, "process cgroup pids", "whose threads are kept together");

PID_LIST(pids, 1024, group_by, 2, "processes whose threads are one team, with group_by pids");

struct squad_key {
	u64 team;
	u64 group;
};

/* The threads of a team in a group: how many on each CPU, and a bit for each CPU with any. */
struct squad {
	u64 cpus;
	u32 threads[GROUP_CPUS];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SQUADS);
	__type(key, struct squad_key);
	__type(value, struct squad);
} squads SEC(".maps");

static const struct squad empty_squad;

/* Where a thread is counted. */
struct seat {
	u64 team;
	u32 place; /* CPU + 1; 0: nowhere */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct seat);
} seats SEC(".maps");

/* How many threads are counted on a CPU: where none is, nobody need be asked. */
struct cpu_count {
	u32 threads;
} __attribute__((aligned(64)));

static struct cpu_count cpu_counts[MAX_CPUS];

static __always_inline u32 *counted_on(s32 cpu)
{
	return &cpu_counts[cpu & (MAX_CPUS - 1)].threads;
}

/* The team of @p; 0: none. Who is alone in its process has no co-threads to look for. */
static u64 team_of(const struct task_struct *p)
{
	u32 pid = p->tgid;

	if (p->flags & PF_KTHREAD)
		return 0;
	if (group_by == BY_CGROUP)
		return p->cgroups->dfl_cgrp->kn->id;
	if (group_by == BY_PIDS)
		return bpf_map_lookup_elem(&pids, &pid) ? LIST_TEAM : 0;
	return p->signal->nr_threads > 1 ? pid : 0;
}

static struct squad *squad_in(u64 team, u32 group)
{
	struct squad_key key = {.team = team, .group = group};

	return bpf_map_lookup_elem(&squads, &key);
}

static u32 *threads_at(struct squad *squad, u32 bit)
{
	return &squad->threads[bit & (GROUP_CPUS - 1)];
}

static void join_squad(u64 team, s32 cpu)
{
	struct squad_key key = {.team = team, .group = group_of(cpu)};
	struct squad *squad = bpf_map_lookup_elem(&squads, &key);

	if (!squad) {
		bpf_map_update_elem(&squads, &key, &empty_squad, BPF_NOEXIST);
		squad = bpf_map_lookup_elem(&squads, &key);
		if (!squad)
			return;
	}
	__sync_fetch_and_add(threads_at(squad, from_bit(cpu)), 1);
	set_bits(&squad->cpus, bit_of(cpu));
	__sync_fetch_and_add(counted_on(cpu), 1);
}

/* The bit is taken back before looking again: who joins meanwhile sets it, or is seen. */
static void leave_squad(u64 team, s32 cpu)
{
	struct squad *squad = squad_in(team, group_of(cpu));
	u32 *threads;

	__sync_fetch_and_sub(counted_on(cpu), 1);
	if (!squad)
		return;
	threads = threads_at(squad, from_bit(cpu));
	if (!*threads)
		return; /* the table had forgotten this entry */
	if (__sync_fetch_and_sub(threads, 1) > 1)
		return;
	clear_bits(&squad->cpus, bit_of(cpu));
	if (*threads)
		set_bits(&squad->cpus, bit_of(cpu));
}

/* @p is new to the scheduler: from here on there is a seat for it, and nothing is allocated later.
 */
static s32 seat_thread(struct task_struct *p)
{
	return bpf_task_storage_get(&seats, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

/* @p runs or waits on @cpu now. */
static void count_thread(struct task_struct *p, s32 cpu)
{
	u64 team = team_of(p);
	struct seat *seat;
	u32 before;

	if (!team)
		return;
	seat = bpf_task_storage_get(&seats, p, NULL, 0);
	if (!seat || (seat->place == cpu + 1 && seat->team == team))
		return;
	before = __sync_lock_test_and_set(&seat->place, 0);
	if (before)
		leave_squad(seat->team, before - 1);
	seat->team = team;
	join_squad(team, cpu);
	before = __sync_lock_test_and_set(&seat->place, cpu + 1);
	if (before)
		leave_squad(team, before - 1);
}

/* @p sleeps, or is looking for another place. */
static void uncount_thread(struct task_struct *p)
{
	struct seat *seat = bpf_task_storage_get(&seats, p, NULL, 0);
	u32 before = seat ? __sync_lock_test_and_set(&seat->place, 0) : 0;

	if (before)
		leave_squad(seat->team, before - 1);
}

/*
 * Another CPU is about to take waiting @p from @from to @to, which does not hold its lock: if it
 * has been counted somewhere else meanwhile, that stays.
 */
static void recount_thread(struct task_struct *p, s32 from, s32 to)
{
	struct seat *seat = bpf_task_storage_get(&seats, p, NULL, 0);

	if (!seat)
		return;
	join_squad(seat->team, to);
	if (__sync_val_compare_and_swap(&seat->place, from + 1, to + 1) == from + 1)
		leave_squad(seat->team, from);
	else
		leave_squad(seat->team, to);
}

#endif /* FLSCHED_TEAMS_BPF_H */
