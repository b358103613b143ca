/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SCHED_RR2's added pull (III): a CPU takes over threads that wait elsewhere and whose co-threads
 * it has.
 */
#ifndef FLSCHED_GATHER_BPF_H
#define FLSCHED_GATHER_BPF_H

#include "levels.bpf.h"
#include "load.bpf.h"
#include "teams.bpf.h"

#define SCAN 16 /* tasks of another CPU's queue that are checked for co-threads */

/*
 * Moves a thread of @team and of @level, one of the first @looks in the run queue of @from, to that
 * of @cpu.
 */
__noinline bool gather_from(s32 from, s32 cpu, u64 team, u32 level, u32 looks)
{
	struct task_struct *p;
	bool gathered = false;
	u32 tried = 0;

	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, run_queue(from), 0) {
		if (gathered || tried++ >= looks)
			break;
		if (level_of(p) != level || team_of(p) != team || !may_move_to(p, cpu))
			continue;
		gathered = scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, run_queue(cpu), 0);
		if (gathered)
			count_thread(p, cpu);
	}
	bpf_rcu_read_unlock();
	return gathered;
}

/*
 * Threads of @level that have co-threads here and none there; or, so that two halves of a team come
 * together, no more there than here. How many came.
 */
__noinline u32 gather(s32 cpu, u32 level, u64 team)
{
	u32 own = group_of(cpu), groups = walk_from(cpu, reach, 0).tries, distance, gathered = 0;
	struct team_group *here = team ? team_in(team, own) : NULL;

	if (!here || !*threads_on(here, cpu))
		return 0;
	bpf_for (distance, 0, groups) {
		u32 group = near_group(own, distance);
		struct team_group *there = team_in(team, group);
		u64 cpus;
		u32 tries;

		if (!there)
			continue;
		cpus = there->cpus & cpus_of(&waiting_at(level)->cpus, group);
		bpf_for (tries, 0, PULL_TRIES) {
			u32 bit;
			s32 from;

			if (!cpus || !takes_more(run_queue(cpu)))
				break;
			bit = first_bit_from(cpus, cpu_index(cpu));
			cpus &= ~(1ULL << bit);
			from = cpu_at(group, bit);
			if (from == cpu || *threads_on(there, from) > *threads_on(here, cpu) ||
			    !gives_more(run_queue(from)) ||
			    !gather_from(from, cpu, team, level, SCAN))
				continue;
			gathered++;
			note_waiting(cpu, level);
			add_waiting(cpu, level);
		}
	}
	return gathered;
}

#endif /* FLSCHED_GATHER_BPF_H */
