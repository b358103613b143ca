/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns shorter than a tick. On a CPU with thousands of tasks the last one would wait for too long
 * if every turn lasted a tick, so there a timer ends turns. It is not set on any other CPU.
 */
#ifndef FLSCHED_TURNS_BPF_H
#define FLSCHED_TURNS_BPF_H

#include "topology.bpf.h"

#define SHORTEST_TURN_NS 100000 /* with it 100,000 tasks have a turn within LONGEST_NS */

struct turn_timer {
	struct bpf_timer timer;
} __attribute__((aligned(64)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct turn_timer);
} turn_timers SEC(".maps");

/* Of the tasks of a run queue, and of those with a small part of the CPU: the background, rr2's
 * trickle. */
enum turn { TURN, SIDE_TURN, TURNS };

#define SIDE_PART 20 /* tasks of the second kind have one part in so many */

/* How long turns on a CPU may last; 0: until the tick. */
static struct {
	u64 ns[TURNS] __attribute__((aligned(64)));
	bool is_limited; /* the turn that began last */
} turns[MAX_CPUS];

static u64 short_turn_ns(u64 waiting)
{
	u64 turn_ns;

	if (waiting * tick_ns <= LONGEST_NS)
		return 0;
	turn_ns = LONGEST_NS / waiting;
	return turn_ns > SHORTEST_TURN_NS ? turn_ns : SHORTEST_TURN_NS;
}

/*
 * At a tick of @cpu, where so many tasks of each kind wait. @has_work: those of the second kind are
 * not alone. It is global, so that the verifier continues after it in one state.
 */
__noinline int set_turns(s32 cpu, u64 waiting, u64 aside, bool has_work)
{
	turns[cpu & (MAX_CPUS - 1)].ns[TURN] = short_turn_ns(waiting);
	turns[cpu & (MAX_CPUS - 1)].ns[SIDE_TURN] =
		short_turn_ns(has_work ? SIDE_PART * aside : aside);
	return 0;
}

/*
 * A turn begins on @cpu. One that ends before its time leaves the timer set, which must not end the
 * next one: if the same task came next each time, it would never get a full turn. It can still end
 * the turn of a task that comes from elsewhere: a CPU with thousands of tasks seldom looks there.
 */
static void limit_turn(s32 cpu, enum turn turn)
{
	u64 turn_ns = turns[cpu & (MAX_CPUS - 1)].ns[turn];
	struct turn_timer *timer;

	turns[cpu & (MAX_CPUS - 1)].is_limited = turn_ns;
	if (!turn_ns)
		return;
	timer = bpf_map_lookup_elem(&turn_timers, &cpu);
	if (timer)
		bpf_timer_start(&timer->timer, turn_ns, BPF_F_TIMER_CPU_PIN);
}

/* The policy's: notes that the running task, @pid, has had its turn, and has not yielded. */
static void note_turn_over(s32 cpu, s32 pid);

static int end_turn(void *map, u32 *cpu, struct turn_timer *timer)
{
	if (!turns[*cpu & (MAX_CPUS - 1)].is_limited)
		return 0;
	note_turn_over(*cpu, bpf_get_current_task_btf()->pid);
	scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

static s32 create_turn_timer(s32 cpu)
{
	struct turn_timer *timer = bpf_map_lookup_elem(&turn_timers, &cpu);

	if (!timer)
		return -E2BIG;
	bpf_timer_init(&timer->timer, &turn_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, end_turn);
	return 0;
}

#endif /* FLSCHED_TURNS_BPF_H */
