/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FLSCHED: the feather-light scheduler for many-core machines.
 *
 * After Jo, Kang, Min and Kim, "FLSCHED: A Lockless and Lightweight Approach to OS Scheduler for
 * Xeon Phi", APSys 2017. Section numbers below are the paper's.
 *
 * The idea: on a machine with many CPUs throughput is lost to locks and to context switches, so do
 * without both. One run queue a CPU, served round robin. A woken task never interrupts anybody; it
 * waits for the next switch that happens anyway (3.3). The only thing accounted for is the time
 * slice, and that in the tick (3.4). Nothing here takes a lock (3.2): a queue's own lock is the
 * kernel's, per CPU, and taken by another CPU only when that one has nothing to do.
 *
 * What is given up, on purpose: fairness, responsiveness, priorities, cgroup weights and limits.
 *
 * What differs from the original, because a queue behind a CPU hog must not wait for ever: the
 * delay is bounded. Up to CROWD tasks a CPU wait no longer than max_delay_us, more of them in
 * proportion longer, and none at all is sent to the end of the queue before that bound is in
 * danger; see is_due().
 */
#include "queues.bpf.h"

POLICY_BOILERPLATE();

/* The paper's slice. It ends a turn only where somebody waits, so it is long. */
KNOB(slice_us, 100000, 1000, 10000000,
     "longest turn of a task while others wait for its CPU, in microseconds");

KNOB(max_delay_us, 100000, 1000, 10000000,
     "longest wait of a runnable task among up to 16 on its CPU, in microseconds");

/*
 * An idle CPU for a woken task, and work for a CPU that has none, are looked for in the CPU's own
 * group (CPUs that share a cache, 64 at most) and in the nearest others. Both are hot paths, hence
 * the bound. A fork is rare and its child will be here for long: it looks further.
 */
KNOB(reach, 4, 0, MAX_NEAR, "how many groups of CPUs beside its own a CPU looks at, nearest first");

/*
 * Kernel threads and negative-nice tasks would preempt under other schedulers; here they go to the
 * head of the queue (3.3). A stream of them must not keep the rest from running.
 */
KNOB(head_burst, 4, 0, 64, "how many tasks in a row may enter at the head of a queue");

/*
 * Who calls sched_yield() in a loop waits for somebody. Running it again at once is work for
 * nothing; not running it until the release costs at most a part of the wait itself: a CPU on which
 * everybody waits first goes round for spin_us, then rests for half the time waited so far.
 */
KNOB(spin_us, 10, 0, 100000,
     "how long tasks that only yield take turns before their CPU rests, in microseconds");
KNOB(rest_us, 500, 0, 10000,
     "longest rest of a CPU on which everybody only yields, in microseconds; 0 never rests");
/* A rest helps whoever shares the core, or the host. Else it only makes a release be seen late. */
CHOICE(rest_where, 0, "shared anywhere",
       "which CPUs rest: those that slow others down (a thread of their core that works, or, as "
       "measured at the start, any CPU), or all");

/* clang-format off */
STATS(
	STAT(idle_own, "woken or new task found its own CPU idle")
	STAT(idle_near, "woken or new task went to an idle CPU nearby")
	STAT(queued_tail, "task went to the tail of a queue")
	STAT(queued_head, "task that others would let preempt went to the head of a queue")
	STAT(turn_ended, "turn ended at the tick because somebody had waited long enough")
	STAT(pulled, "CPU with nothing to do took a task from a queue nearby")
	STAT(pushed, "task went, or was offered, to an idle CPU at the end of its turn or at the tick")
	STAT(yielded, "task called sched_yield()")
	STAT(rested, "CPU on which everybody only yields went to rest")
	STAT(background, "turn given to a task of nice 1 to 19 or SCHED_IDLE while others wait"))
/* clang-format on */

FACT(tick_ns);
FACT(cpus_interfere); /* one CPU does less while another one works, even of another core */

enum rest_where { REST_SHARED, REST_ANYWHERE };

#define PROGRESS_NS  10000 /* who runs this long before it yields has worked, not only looked */
#define CROWD	     16	   /* tasks on a CPU for which max_delay_us is kept */
#define HEAD_DELAYS  10	   /* who entered at the head waits for a tenth of max_delay_us at most */
#define ROUND	     8	   /* of those that yielded, let out at once */
#define ALONE	     4	   /* looks of one after a rest, for one look of a round */
#define SIGNS	     2	   /* that say that one cannot look for all */
#define SIGNS_HOLD   16	   /* for how many rests */
#define TOLD	     4	   /* CPUs that rest and hear of progress on another */
#define EVENING_NS   50000 /* between two looks whether more wait elsewhere */
#define FORK_REACH   64	   /* groups that a fork looks at */
#define DEFAULT_PRIO 120   /* static_prio of nice 0 */
#define POLICY_IDLE  5	   /* SCHED_IDLE */
#define NOBODY	     (-1)

/*
 * What a CPU knows of itself; only that CPU writes it, or who enqueues there and so holds its
 * run-queue lock, and is_to_look who ends its rest. The three has_ flags mean "perhaps": a queue
 * without its flag is empty.
 */
struct cpu_state {
	bool has_queued;
	bool has_waiting;
	bool has_background;
	bool is_released;    /* who yielded here and ran again had work to do */
	bool is_from_room;   /* the running task came from the waiting room */
	bool is_queue_first; /* the run queue's first has waited for too long */
	bool is_resting;     /* or was, until a task came */
	bool is_to_look;     /* its rest is over: some look whether they were released */
	bool is_looking;     /* they do, and none of them has found work */
	bool looked_in_vain; /* the first of them */
	bool has_worked;     /* somebody, since those that rest elsewhere were last told */
	bool yielder_worked; /* before it yielded */
	s32 yielder;	     /* the running task if it has just yielded, or NOBODY */
	u32 nr_rests;	     /* since everybody here only yields */
	u32 nr_signs;	     /* in a row that one cannot look for all */
	u32 nr_rounds;	     /* for how many rests that still holds */
	u32 head_ticks;	     /* for how many ticks somebody has waited at the head */
	u32 heads_in_a_row;  /* tasks entered at the head since the tail was last served */
	u64 turn_began_at;   /* when the running task began to run */
	u64 waiting_since;   /* since when everybody here only yields; 0: somebody works */
	u64 released_at;     /* when is_released was last set */
	u64 evened_at;	     /* when the CPU last looked whether more wait elsewhere */
	u64 room_at;	     /* when the waiting room was last served */
	u64 background_at;   /* when the background was last served */
} __attribute__((aligned(64)));

static struct cpu_state cpu_states[MAX_CPUS];

/* What a group's CPUs know of each other: a bit a CPU, written only when it changes. */
struct group_state {
	u64 idle __attribute__((aligned(64)));	  /* has nothing to run */
	u64 waiting __attribute__((aligned(64))); /* perhaps has tasks in its waiting room */
	u64 resting __attribute__((aligned(64))); /* rests, and would like to be told of progress */
};

static struct group_state group_states[MAX_GROUPS];

struct rest_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct rest_timer);
} rest_timers SEC(".maps");

static struct cpu_state *cpu_state(s32 cpu)
{
	return &cpu_states[cpu & (MAX_CPUS - 1)];
}

static struct group_state *group_state(u32 group)
{
	return &group_states[group & (MAX_GROUPS - 1)];
}

/*
 * A CPU's other two queues: the waiting room of those that yielded there, and the background, for
 * tasks that are to run when nobody else wants to.
 */
static u64 waiting_room(s32 cpu)
{
	return MAX_CPUS + cpu;
}

static u64 background(s32 cpu)
{
	return 2 * MAX_CPUS + cpu;
}

static u64 turn_ns(void)
{
	return US_TO_NS(slice_us);
}

/* Would other schedulers let @p interrupt a running task? */
static bool would_preempt(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) || p->static_prio < DEFAULT_PRIO;
}

/* Is @p to run when nobody else wants to? */
static bool is_background(const struct task_struct *p)
{
	return p->static_prio > DEFAULT_PRIO || p->policy == POLICY_IDLE;
}

/*
 * Takes an idle CPU of @group on which @p may run: of cores that are idle as a whole if there are
 * any, and the nearest to bit @from. Whoever clears the bit has it. If @p only @waits, none on
 * which others do so already.
 */
static s32 claim_idle_in(u32 group, const struct task_struct *p, u32 from, bool waits)
{
	u64 *idle = &group_state(group)->idle;
	u64 word = *idle & ~(waits ? group_state(group)->waiting : 0);
	u64 candidates = whole_cores(group, word);
	u32 tries;

	if (!word)
		return NOBODY;
	bpf_for (tries, 0, GROUP_CPUS) {
		u32 bit;
		s32 cpu;

		if (!candidates)
			candidates = word;
		if (!candidates)
			break;
		bit = first_bit_from(candidates, from);
		cpu = cpu_at(group, bit);
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && clear_bits(idle, 1ULL << bit))
			return cpu;
		candidates &= ~(1ULL << bit);
		word &= ~(1ULL << bit);
	}
	return NOBODY;
}

/* The same, from @cpu's group outward through the topology (3.2). */
static s32 claim_idle_near(const struct task_struct *p, s32 cpu, bool waits)
{
	u32 own = group_of(cpu);
	u32 from = from_bit(cpu);
	s32 found = claim_idle_in(own, p, from, waits);
	u32 near = group_facts(own)->nr_near;
	u32 distance;

	if (found >= 0 || !near)
		return found;
	bpf_for (distance, 1, reach + 1) {
		if (distance > near)
			break;
		found = claim_idle_in(near_group(own, distance), p, from, waits);
		if (found >= 0)
			return found;
	}
	return NOBODY;
}

/* The same, among all groups: for a child, which costs more than the search. */
static s32 claim_idle_anywhere(const struct task_struct *p, s32 cpu)
{
	u32 own = group_of(cpu);
	u32 step;

	if (nr_groups <= 1)
		return NOBODY;
	bpf_for (step, 1, FORK_REACH) {
		s32 found;

		if (step >= nr_groups)
			break;
		found = claim_idle_in((own + step) % nr_groups, p, 0, false);
		if (found >= 0)
			return found;
	}
	return NOBODY;
}

/*
 * Only where a task wakes up or is born is its CPU chosen: its last one if that is idle, else the
 * nearest idle one by cache and node, else its last one's queue (3.3).
 */
s32 BPF_STRUCT_OPS(flsched_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu;

	if (bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) &&
	    clear_bits(&group_state(group_of(prev_cpu))->idle, bit_of(prev_cpu))) {
		COUNT(idle_own);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), 0);
		return prev_cpu;
	}
	cpu = claim_idle_near(p, prev_cpu, false);
	if (cpu < 0 && (wake_flags & SCX_WAKE_FORK))
		cpu = claim_idle_anywhere(p, prev_cpu);
	if (cpu < 0)
		return prev_cpu;
	COUNT(idle_near);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), 0);
	return cpu;
}

/*
 * A CPU that becomes idle says so and then looks for work; who queues a task says so and then looks
 * for an idle CPU. So one of the two sees the other. The idle CPU takes the task itself: it is not
 * interrupted, and finds the task that is next (push, 3.2).
 */
static void offer(const struct task_struct *p, s32 cpu)
{
	s32 idle;

	if (!group_state(group_of(cpu))->idle)
		return;
	idle = claim_idle_near(p, cpu, false);
	if (idle < 0)
		return;
	COUNT(pushed);
	scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* The turn of @p on @cpu is over: on an idle CPU nearby it need not wait (push, 3.2). */
static bool push_to_idle(struct task_struct *p, s32 cpu, u64 enq_flags, bool waits)
{
	s32 idle = is_pinned(p) ? NOBODY : claim_idle_near(p, cpu, waits);

	if (idle < 0)
		return false;
	COUNT(pushed);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, turn_ns(), enq_flags);
	return true;
}

/*
 * No preemption: who would preempt goes to the head, all others to the tail, and the running task
 * goes on (3.3). The local queue is served before the run queue, so its tail is the head of both.
 */
void BPF_STRUCT_OPS(flsched_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	struct group_state *group = group_state(group_of(cpu));

	if (state->yielder == p->pid) {
		state->yielder = NOBODY;
		if ((state->yielder_worked || !cpus_interfere) &&
		    push_to_idle(p, cpu, enq_flags, true))
			return;
		state->has_waiting = true;
		set_bits(&group->waiting, bit_of(cpu));
		scx_bpf_dsq_insert(p, waiting_room(cpu), turn_ns(), enq_flags);
		return;
	}
	/* The only task of its CPU goes on: nothing would take it out of the run queue. */
	if (enq_flags & SCX_ENQ_LAST) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), enq_flags);
		return;
	}
	if (is_background(p)) {
		state->has_background = true;
		scx_bpf_dsq_insert(p, background(cpu), tick_ns, enq_flags);
		return;
	}
	if ((enq_flags & SCX_ENQ_WAKEUP) && would_preempt(p) &&
	    state->heads_in_a_row < head_burst) {
		state->heads_in_a_row++;
		COUNT(queued_head);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), enq_flags);
		return;
	}
	if (!(enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ)) &&
	    push_to_idle(p, cpu, enq_flags, false))
		return;
	COUNT(queued_tail);
	state->has_queued = true;
	scx_bpf_dsq_insert(p, run_queue(cpu), turn_ns(), enq_flags);
	if (may_leave(p, enq_flags)) {
		set_bits(queued_in(group_of(cpu)), bit_of(cpu));
		offer(p, cpu);
	}
}

/*
 * The first task of one of the CPU's own queues. The flag is lowered before looking: who comes
 * meanwhile raises it again.
 */
static bool take(u64 dsq, bool *has)
{
	if (!*has)
		return false;
	*has = false;
	if (!scx_bpf_dsq_move_to_local(dsq, 0))
		return false;
	*has = true;
	return true;
}

static bool take_queued(s32 cpu, struct cpu_state *state)
{
	if (!state->has_queued)
		return false;
	if (!take(run_queue(cpu), &state->has_queued)) {
		if (!state->has_queued)
			clear_bits(queued_in(group_of(cpu)), bit_of(cpu));
		return false;
	}
	state->heads_in_a_row = 0;
	state->waiting_since = 0;
	state->is_queue_first = false;
	return true;
}

/*
 * Up to @most of those that yielded: in a round of tasks that only look and yield again, asking for
 * each of them would cost more than their looking does.
 */
static bool take_waiting(s32 cpu, struct cpu_state *state, u64 now, u32 most)
{
	bool taken = false;
	u32 step;

	bpf_for (step, 0, most) {
		if (!take(waiting_room(cpu), &state->has_waiting))
			break;
		taken = true;
	}
	if (!state->has_waiting)
		clear_bits(&group_state(group_of(cpu))->waiting, bit_of(cpu));
	if (!taken)
		return false;
	state->room_at = now;
	state->is_from_room = true;
	return true;
}

static bool take_background(s32 cpu, struct cpu_state *state, u64 now)
{
	if (!take(background(cpu), &state->has_background))
		return false;
	COUNT(background);
	state->background_at = now;
	return true;
}

/* Those that yielded are looked at once a tick; if they do have work, all of them, for a tick. */
static bool is_room_due(const struct cpu_state *state, u64 now)
{
	if (!state->has_waiting || state->is_queue_first)
		return false;
	return now - state->room_at >= tick_ns ||
	       (state->is_released && now - state->released_at < tick_ns);
}

static bool is_background_due(const struct cpu_state *state, u64 now)
{
	return state->has_background && now - state->background_at >= US_TO_NS(max_delay_us);
}

/*
 * @cpu has nothing to do. The paper moves tasks by push only; a CPU that looks for work when it
 * has none is the same event seen from the other side, and costs the busy CPUs nothing.
 */
static bool pull(s32 cpu)
{
	return pull_near(cpu, reach);
}

/* Sixteen threads that wait here and one there make a barrier wait for the sixteen. */
static bool is_evening_due(struct cpu_state *state, u64 now)
{
	if (now - state->evened_at < EVENING_NS)
		return false;
	state->evened_at = now;
	return true;
}

/*
 * Takes a task from a waiting room of the group that holds two more than this CPU's; if nobody
 * waits here, from any.
 */
static bool pull_waiting(s32 cpu, bool yielded)
{
	u64 own_waiters = nr_queued(waiting_room(cpu)) + yielded;
	u64 most = own_waiters ? own_waiters + 1 : 0;
	u32 group = group_of(cpu);
	u32 from = from_bit(cpu);
	u64 word = group_state(group)->waiting & ~bit_of(cpu);
	u32 tries;

	bpf_for (tries, 0, PULL_TRIES) {
		u64 room;
		u32 bit;

		if (!word)
			break;
		bit = first_bit_from(word, from);
		room = waiting_room(cpu_at(group, bit));
		if (nr_queued(room) > most && scx_bpf_dsq_move_to_local(room, 0))
			return true;
		word &= ~(1ULL << bit);
	}
	return false;
}

/* For @cpu, on which nobody is: where it costs nobody anything, a task that only waits. */
static bool pull_for_free(s32 cpu)
{
	return !cpus_interfere && pull_waiting(cpu, false);
}

static void wake(s32 cpu)
{
	cpu_state(cpu)->is_to_look = true;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

static int end_of_rest(void *map, u32 *cpu, struct rest_timer *rest)
{
	wake(*cpu);
	return 0;
}

/* Does anybody run faster while @cpu rests? */
static bool is_shared(s32 cpu)
{
	u64 siblings = core_bits(cpu) & ~bit_of(cpu);

	return cpus_interfere || (siblings & ~group_state(group_of(cpu))->idle);
}

/*
 * Everybody on @cpu has only yielded for a while: it rests, until the timer, progress elsewhere, or
 * a task that is woken or pushed here ends it. Then some of them look; see nr_to_let_out().
 */
static bool rest(s32 cpu, struct cpu_state *state, u64 now)
{
	struct rest_timer *timer;
	u64 waited, length;
	u32 key = cpu;

	if (!rest_us || (rest_where == REST_SHARED && !is_shared(cpu)))
		return false;
	if (!state->waiting_since) {
		state->waiting_since = now;
		state->nr_rests = 0;
	}
	waited = now - state->waiting_since;
	if (waited < US_TO_NS(spin_us) || state->is_to_look)
		return false;
	timer = bpf_map_lookup_elem(&rest_timers, &key);
	if (!timer)
		return false;
	length = waited / 2 < US_TO_NS(rest_us) ? waited / 2 : US_TO_NS(rest_us);
	if (bpf_timer_start(&timer->timer, length, BPF_F_TIMER_CPU_PIN))
		return false;
	COUNT(rested);
	state->nr_rests++;
	state->is_looking = false;
	state->is_resting = true;
	set_bits(&group_state(group_of(cpu))->resting, bit_of(cpu));
	return true;
}

static void stop_resting(s32 cpu, struct cpu_state *state)
{
	if (!state->is_resting)
		return;
	state->is_resting = false;
	clear_bits(&group_state(group_of(cpu))->resting, bit_of(cpu));
}

/*
 * How many of those that wait are let out: after a rest those that look, else a round. Where all
 * are released at once, one looks for all. At a tree of flags each waits for a sign of its own, and
 * by looking passes it on, so that a round has to look. Which of the two it is a round shows now
 * and then.
 */
static u32 nr_to_let_out(struct cpu_state *state)
{
	if (!state->is_to_look)
		return ROUND;
	state->is_looking = true;
	state->looked_in_vain = false;
	if (state->nr_rounds) {
		state->nr_rounds--;
		return ROUND;
	}
	return state->nr_rests % (ALONE + 1) ? 1 : ROUND;
}

/* One of those that look has yielded again, and @worked before, or was not released yet. */
static void learn_from_look(struct cpu_state *state, bool worked)
{
	if (!worked) {
		state->looked_in_vain = true;
		return;
	}
	state->is_looking = false;
	if (!state->looked_in_vain) {
		state->nr_signs = 0;
		return;
	}
	if (++state->nr_signs >= SIGNS || state->nr_rounds)
		state->nr_rounds = SIGNS_HOLD;
}

/*
 * All on @cpu wait, and somebody has worked before: perhaps he was the one for whom others wait, so
 * some of the CPUs that rest are to look. Those that find work will tell others.
 */
static void tell_resting(s32 cpu, struct cpu_state *state)
{
	u32 group = group_of(cpu);
	u64 *resting = &group_state(group)->resting;
	u32 from = from_bit(cpu);
	u32 tries;

	if (!state->has_worked)
		return;
	state->has_worked = false;
	bpf_for (tries, 0, TOLD) {
		u64 word = *resting & ~bit_of(cpu);
		u32 bit;

		if (!word)
			break;
		bit = first_bit_from(word, from);
		if (clear_bits(resting, 1ULL << bit))
			wake(cpu_at(group, bit));
	}
}

/* The CPU needs its next task: who worked last goes to the end, the head of its queue is next. */
void BPF_STRUCT_OPS(flsched_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state *state = cpu_state(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool yielded = goes_on && state->yielder == prev->pid;
	bool rests = false;
	u64 now = scx_bpf_now();

	state->is_from_room = false;
	stop_resting(cpu, state);

	if (is_room_due(state, now) && take_waiting(cpu, state, now, 1))
		return;
	if (is_background_due(state, now) && take_background(cpu, state, now))
		return;
	if (take_queued(cpu, state))
		return;
	/* Nobody waits: the task that ran goes on. */
	if (goes_on && !yielded && !is_background(prev)) {
		scx_bpf_task_set_slice(prev, turn_ns());
		return;
	}
	if (pull(cpu)) {
		COUNT(pulled);
		state->waiting_since = 0;
		return;
	}
	/* Whoever waits for somebody alone on its CPU is in nobody's way. */
	if (prev && yielded && !state->has_waiting && !state->has_background) {
		state->yielder = NOBODY;
		scx_bpf_task_set_slice(prev, turn_ns());
		return;
	}
	if (yielded || state->has_waiting) {
		if (is_evening_due(state, now) && pull_waiting(cpu, yielded)) {
			COUNT(pulled);
			return;
		}
		tell_resting(cpu, state);
		rests = rest(cpu, state, now);
		if (!rests && take_waiting(cpu, state, now, nr_to_let_out(state))) {
			state->is_to_look = false;
			return;
		}
	} else if (pull_for_free(cpu)) {
		COUNT(pulled);
		return;
	}
	if (take_background(cpu, state, now))
		return;
	if (prev && goes_on && !yielded)
		scx_bpf_task_set_slice(prev, tick_ns);
	/* Alone after all, only the flags did not say so: nobody would wake the CPU for it. */
	if (prev && yielded && !rests) {
		state->yielder = NOBODY;
		scx_bpf_task_set_slice(prev, turn_ns());
	}
	if (goes_on)
		return;
	/* Idle; see offer() for why to look once more. */
	set_bits(&group_state(group_of(cpu))->idle, bit_of(cpu));
	if (pull(cpu) || pull_for_free(cpu)) {
		COUNT(pulled);
		clear_bits(&group_state(group_of(cpu))->idle, bit_of(cpu));
	}
}

/* A turn begins. Whoever yields soon has only looked whether to go on; see flsched_yield(). */
void BPF_STRUCT_OPS(flsched_running, struct task_struct *p)
{
	cpu_state(scx_bpf_task_cpu(p))->turn_began_at = scx_bpf_now();
}

/*
 * A CPU that begins or ceases to idle. An idle CPU that was claimed or kicked in vain does not
 * cease to, which is why dispatch says so, too.
 */
void BPF_STRUCT_OPS(flsched_update_idle, s32 cpu, bool idle)
{
	u64 *word = &group_state(group_of(cpu))->idle;

	if (idle)
		set_bits(word, bit_of(cpu));
	else
		clear_bits(word, bit_of(cpu));
}

/* How long the first task of a queue has been runnable, at the tick's resolution. */
static u64 first_waited_ns(u64 dsq)
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
 * Must the running task of @cpu go to the end, for the sake of the others?
 *
 * If turns end at every tick from now on, the last of N waiting tasks runs N ticks from now, and it
 * has waited no longer than the first has. So while the first's wait and N ticks together are less
 * than the bound, nobody's wait can exceed it, and there is no reason to switch: tasks that soon
 * block by themselves, as most do, are never interrupted.
 */
static bool is_due(s32 cpu, struct cpu_state *state)
{
	u64 waiting = nr_queued(SCX_DSQ_LOCAL_ON | cpu) + nr_queued(run_queue(cpu)) +
		      nr_queued(waiting_room(cpu));
	u64 bound = US_TO_NS(max_delay_us);
	u64 soonest = waiting * tick_ns;
	u64 queue_waited = first_waited_ns(run_queue(cpu));

	if (waiting >= CROWD)
		bound = bound * (waiting + 1) / CROWD;
	if (queue_waited + soonest < bound)
		return false;
	state->is_queue_first = queue_waited >= first_waited_ns(waiting_room(cpu));
	return true;
}

/* Who entered at the head waits for the next switch, but not for long. */
static bool is_head_due(s32 cpu, struct cpu_state *state)
{
	if (!nr_queued(SCX_DSQ_LOCAL_ON | cpu)) {
		state->head_ticks = 0;
		return false;
	}
	return ++state->head_ticks * tick_ns >= US_TO_NS(max_delay_us) / HEAD_DELAYS;
}

/* Does a task that is not of the background wait in reach, while the background runs here? */
static bool is_anybody_queued_near(s32 cpu)
{
	return *queued_in(group_of(cpu)) & ~bit_of(cpu);
}

/* Somebody waits on @cpu: is there a CPU nearby that has nothing to do by now? */
static void push(s32 cpu)
{
	struct task_struct *first;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(run_queue(cpu));
	if (first) {
		if (!is_pinned(first))
			set_bits(queued_in(group_of(cpu)), bit_of(cpu));
		offer(first, cpu);
	}
	bpf_rcu_read_unlock();
}

/*
 * The tick counts the slice down and does nothing else (3.4) as long as nobody waits. A slice that
 * is used up then only makes the kernel ask again, and dispatch lets the task go on: that it asks
 * at all keeps alive a task that the kernel had to put into its global queue, because the CPU it
 * was pushed to had gone offline meanwhile.
 */
void BPF_STRUCT_OPS(flsched_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	bool ends = is_head_due(cpu, state);

	if (is_background(p))
		ends |= state->has_queued || state->has_waiting || is_anybody_queued_near(cpu);
	if (state->has_waiting)
		ends |= nr_queued(waiting_room(cpu)) > 0;
	if (state->has_queued)
		ends |= is_due(cpu, state);
	ends |= is_background_due(state, scx_bpf_now());
	if (ends) {
		COUNT(turn_ended);
		scx_bpf_task_set_slice(p, 0);
	}
	if (state->has_queued)
		push(cpu);
}

/*
 * To the waiting room, and a normal switch. Who worked before it yielded has made progress; if it
 * had waited before, those who wait with it have probably been released, too.
 */
bool BPF_STRUCT_OPS(flsched_yield, struct task_struct *from, struct task_struct *to)
{
	struct cpu_state *state = cpu_state(bpf_get_smp_processor_id());
	u64 now = scx_bpf_now();

	COUNT(yielded);
	state->yielder = from->pid;
	state->yielder_worked = now - state->turn_began_at > PROGRESS_NS;
	if (state->is_looking && state->is_from_room)
		learn_from_look(state, state->yielder_worked);
	if (!state->yielder_worked) {
		state->is_released = false;
	} else {
		state->waiting_since = 0;
		state->has_worked = true;
		if (state->is_from_room && !state->is_released) {
			state->is_released = true;
			state->released_at = now;
		}
	}
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* A higher class takes the CPU: who waits at its head is to go where others look for work. */
void BPF_STRUCT_OPS(flsched_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	give_way(args);
}

static s32 init_cpu(s32 cpu)
{
	struct rest_timer *rest;
	u32 key = cpu;
	s32 err;

	rest = bpf_map_lookup_elem(&rest_timers, &key);
	if (!rest)
		return -E2BIG;
	cpu_state(cpu)->yielder = NOBODY;
	bpf_timer_init(&rest->timer, &rest_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&rest->timer, end_of_rest);

	err = scx_bpf_create_dsq(run_queue(cpu), NUMA_NO_NODE);
	err = err ?: scx_bpf_create_dsq(waiting_room(cpu), NUMA_NO_NODE);
	return err ?: scx_bpf_create_dsq(background(cpu), NUMA_NO_NODE);
}

/* All CPUs count as idle at first; those that are not say so as soon as they are. */
static void init_group(u32 group)
{
	group_state(group)->idle = bits_of_group(group);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(flsched_init)
{
	s32 cpu, err;
	u32 group;

	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids()) {
		err = init_cpu(cpu);
		if (err) {
			scx_bpf_error("no queues for CPU %d: error %d", cpu, err);
			return err;
		}
	}
	bpf_for (group, 0, nr_groups)
		init_group(group);
	return 0;
}

void BPF_STRUCT_OPS(flsched_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(flsched_ops,
	       .select_cpu	= (void *)flsched_select_cpu,
	       .enqueue		= (void *)flsched_enqueue,
	       .dispatch	= (void *)flsched_dispatch,
	       .running		= (void *)flsched_running,
	       .update_idle	= (void *)flsched_update_idle,
	       .tick		= (void *)flsched_tick,
	       .yield		= (void *)flsched_yield,
	       .cpu_release	= (void *)flsched_cpu_release,
	       .init		= (void *)flsched_init,
	       .exit		= (void *)flsched_exit,
	       .flags		= SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED,
	       .name		= "flsched");
