/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Smove: let a woken task wait a moment for a fast CPU before it goes to a slow one.
 *
 * After Gouicem, Carver, Lozi, Sopena, Lepers, Zwaenepoel, Palix, Lawall and Muller, "Fewer Cores,
 * More Hertz: Leveraging High-Frequency Cores in the OS Scheduler for Improved Application
 * Performance", USENIX ATC 2020, and the patch that its authors sent to the kernel's mailing list
 * in October 2020 ("the patch" below).
 *
 * The problem: a CPU needs tens of milliseconds to become fast. Who forks or wakes somebody up and
 * then waits for him has him placed on an idle CPU, which is slow because it was idle, and leaves
 * its own, which is fast, idle behind: frequency inversion.
 *
 * The idea: if the CPU that was chosen runs at a low frequency, the task stays on the CPU of who
 * woke it or is its parent, and a short timer is set. If that CPU is free before, the task runs
 * there, on a fast CPU; if not, it goes to the one that was chosen. The simpler sibling of it,
 * S_local, is to stay there until the load is balanced.
 *
 * The scheduler below the idea: the kernel's own choice among idle CPUs; a queue for each CPU,
 * ordered by weighted virtual time; no preemption by who wakes up; a CPU without work takes some
 * from a queue nearby. cgroup weights and limits are ignored.
 */
#include "frequency.bpf.h"
#include "queues.bpf.h"

POLICY_BOILERPLATE();

CHOICE(strategy, 0, "smove local off",
       "what a task does for which a slow idle CPU was chosen: wait a moment where it was woken "
       "(smove), stay there until the load is balanced, whatever the frequency (local), or go "
       "(off)");

/* About as long as a compiler's driver takes from its fork to its wait (the patch). */
KNOB(delay_us, 50, 1, 10000,
     "how long a task waits where it was woken for that CPU to be free, in microseconds");

/* The paper: the minimum on a Xeon E7-8870 v4, slightly more on a Ryzen 5 3400G. */
KNOB(threshold_mhz, 0, 0, 65535,
     "a CPU that runs at this frequency or below is slow, in MHz; 0 is an eighth more than the "
     "CPU's own minimum");

/*
 * An idle CPU has no tick, so nobody measures its frequency. Under schedutil what a CPU has done
 * counts for less than a tenth after 100 ms of idling, and hardware gives up its clock sooner.
 */
KNOB(stale_ms, 100, 1, 60000,
     "a CPU whose frequency was measured longer ago than this counts as slow, in milliseconds");

KNOB(early_wake, 1, 0, 1,
     "whether the chosen CPU is woken up at once, so that it leaves its deep sleep while the task "
     "waits, 1, or only if the task goes there, 0");

/* Turns end at ticks. With ticks of 4 ms one takes 1 to 5 ms, about as long as under EEVDF. */
KNOB(slice_us, 1000, 100, 1000000,
     "shortest turn of a task while others wait for its CPU, in microseconds; it ends at the next "
     "tick");

KNOB(reach, 4, 0, MAX_NEAR,
     "how many groups of CPUs beside its own a CPU without work looks at, nearest first");

/* A virtual machine's frequency is constant; tests have to make their own. */
CHOICE(frequency_source, 0, "kernel test",
       "where frequencies come from: the kernel, or, for tests only, what the test has put into a "
       "map");

/* clang-format off */
STATS(
	STAT(own, "woken task found its own CPU, or its waker's, free for it")
	STAT(warm, "woken or new task went to an idle CPU that is fast, or of unknown speed")
	STAT(avoided, "chosen CPU was slow: the task stayed where it was woken")
	STAT(forbidden, "chosen CPU was slow, but the task may not run where it was woken")
	STAT(armed, "timer was set for tasks that stayed")
	STAT(cancelled, "task that stayed ran there within its delay")
	STAT(expired, "task that stayed still waited when its delay was over")
	STAT(migrated, "task went to the chosen CPU, or to another idle one, after its delay")
	STAT(local, "task stayed where it was woken, by strategy local")
	STAT(queued, "task was queued on a CPU, its turn being over or no CPU being idle")
	STAT(pulled, "CPU with nothing to do took a task from a queue nearby")
	STAT(offered, "idle CPU was woken up because somebody waits elsewhere"))
/* clang-format on */

enum strategy { STRATEGY_SMOVE, STRATEGY_LOCAL, STRATEGY_OFF };
enum frequency_source { FROM_KERNEL, FROM_TEST };

#define CREDIT_NS 3000000  /* so far is who wakes up ahead of its CPU's clock, at most */
#define LAG_NS	  48000000 /* and so far anybody, ahead or behind */
#define NICE_0	  100
#define NOBODY	  (-1)

/* What a CPU knows of itself; it alone writes it, or who enqueues there and so holds its lock. */
struct cpu_state {
	u64 clock;	/* its virtual time, in ns */
	u64 turn_began; /* when the running task began to run */
	u64 due;	/* when the first move of those that stay here is; 0: no timer is set */
	s32 stays;  /* the task for which select_cpu has just decided that it stays, or NOBODY */
	s32 chosen; /* the CPU that it would have gone to */
	bool has_stayed; /* perhaps some wait to be moved */
	bool from_stay;	 /* dispatch has taken one of them */
	bool from_afar;	 /* dispatch has taken another CPU's */
	bool is_taken;	 /* by a higher class: nobody takes tasks from here until the timer goes off
			  */
} __attribute__((aligned(64)));

static struct cpu_state cpu_states[MAX_CPUS];

/* What was last measured of the CPUs of one clock; written by their ticks. */
struct reading {
	u64 at __attribute__((aligned(64)));
	u32 mhz;
};

static struct reading readings[MAX_CPUS];

struct move_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct move_timer);
} move_timers SEC(".maps");

struct test_reading {
	u32 mhz;
	u32 age_us;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct test_reading);
} test_readings SEC(".maps");

static struct cpu_state *cpu_state(s32 cpu)
{
	return &cpu_states[cpu & (MAX_CPUS - 1)];
}

static struct reading *reading_of(s32 cpu)
{
	return &readings[clock_domain_of(cpu)];
}

/*
 * Those that stay on @cpu for a moment. The queue is itself the list of pending moves: it is
 * ordered by when they are due, who runs or is killed leaves it by that alone, and nothing is ever
 * allocated. A task has no use for its virtual time meanwhile, as it will be given its new CPU's;
 * so that field says when it is to go, and in the low bits, 4 us worth of them, where to.
 */
static u64 stay_queue(s32 cpu)
{
	return MAX_CPUS + cpu;
}

static u64 move_key(u64 due, s32 target)
{
	return (due & ~(u64)(MAX_CPUS - 1)) | target;
}

static u64 due_of(u64 key)
{
	return key & ~(u64)(MAX_CPUS - 1);
}

static s32 target_of(u64 key)
{
	return key & (MAX_CPUS - 1);
}

static u64 turn_ns(void)
{
	return US_TO_NS(slice_us);
}

/* Where @p, which comes from another CPU, begins on @cpu: as if it had always been there. */
static void set_clock(struct task_struct *p, s32 cpu)
{
	scx_bpf_task_set_dsq_vtime(p, cpu_state(cpu)->clock);
}

static u32 slow_mhz(s32 cpu)
{
	return threshold_mhz ?: min_mhz_of(cpu) * 9 / 8;
}

/* Who is slow, by what the test says. */
static bool is_slow_in_test(s32 cpu)
{
	u32 key = cpu;
	struct test_reading *reading = bpf_map_lookup_elem(&test_readings, &key);

	return reading &&
	       (reading->mhz <= slow_mhz(cpu) || US_TO_NS(reading->age_us) > stale_ms * 1000000);
}

/*
 * Is @cpu, which is idle, so slow that a task is better off waiting on @here? Not if both run at
 * one frequency, being threads of a core or cores of one clock; nor if nobody can know.
 */
static bool is_slow(s32 cpu, s32 here)
{
	const struct reading *reading = reading_of(cpu);

	if (clock_domain_of(cpu) == clock_domain_of(here))
		return false;
	if (frequency_source == FROM_TEST)
		return is_slow_in_test(cpu);
	if (!is_clocked(cpu))
		return false;
	return scx_bpf_now() - reading->at > stale_ms * 1000000 || reading->mhz <= slow_mhz(cpu);
}

/*
 * Where the kernel's choice is an idle CPU, the task goes there at once, unless that one is slow.
 * An exec does not ask sched_ext: the task stays where it is, as it would here.
 */
s32 BPF_STRUCT_OPS(smove_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 here = bpf_get_smp_processor_id();
	bool may_stay = bpf_cpumask_test_cpu(here, p->cpus_ptr);
	bool is_idle = false;
	s32 cpu;

	if (strategy == STRATEGY_LOCAL && may_stay) {
		COUNT(local);
		if (here != prev_cpu)
			set_clock(p, here);
		return here;
	}
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (!is_idle)
		return cpu;
	if (cpu == prev_cpu || cpu == here) {
		COUNT(own);
	} else if (strategy == STRATEGY_SMOVE && is_slow(cpu, here)) {
		if (may_stay) {
			struct cpu_state *state = cpu_state(here);

			COUNT(avoided);
			state->stays = p->pid;
			state->chosen = cpu;
			if (early_wake)
				scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			return here;
		}
		COUNT(forbidden);
	} else {
		COUNT(warm);
	}
	if (cpu != prev_cpu)
		set_clock(p, cpu);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, turn_ns(), 0);
	return cpu;
}

/*
 * Sets @cpu's timer, unless one is set that will go off before. Nobody ever unsets it: to let it go
 * off in vain costs as much, and as long as more come to stay it does for them, too. So it goes off
 * once a delay at most, however many are woken up. False if that cannot be.
 */
static bool set_timer(s32 cpu, struct cpu_state *state, u64 due)
{
	struct move_timer *timer;
	u64 now = scx_bpf_now();
	u32 key = cpu;

	if (state->due)
		return true;
	timer = bpf_map_lookup_elem(&move_timers, &key);
	if (!timer)
		return false;
	state->due = due;
	if (bpf_timer_start(&timer->timer, due > now ? due - now : 0, BPF_F_TIMER_CPU_PIN)) {
		state->due = 0;
		return false;
	}
	COUNT(armed);
	return true;
}

/* @p was woken, or made, on @cpu, and waits there for a moment, if a timer can be set for it. */
static bool stay(struct task_struct *p, s32 cpu, struct cpu_state *state, u64 enq_flags)
{
	u64 due = due_of(scx_bpf_now() + US_TO_NS(delay_us) + MAX_CPUS - 1);

	state->stays = NOBODY;
	if (!set_timer(cpu, state, due))
		return false;
	state->has_stayed = true;
	scx_bpf_dsq_insert_vtime(p, stay_queue(cpu), turn_ns(), move_key(due, state->chosen),
				 enq_flags);
	return true;
}

/* Somebody waits on @cpu: an idle CPU, if there is one for him, is to look for work. */
static void offer(const struct task_struct *p)
{
	s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (idle < 0)
		return;
	COUNT(offered);
	scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* The first in @cpu's queue. */
static void offer_first(s32 cpu)
{
	struct task_struct *first;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(run_queue(cpu));
	if (first)
		offer(first);
	bpf_rcu_read_unlock();
}

/* Into the queue of @p's CPU, by virtual time: who slept is only so far ahead of the others. */
void BPF_STRUCT_OPS(smove_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);
	u64 vtime = p->scx.dsq_vtime;
	u64 earliest = state->clock - ((enq_flags & SCX_ENQ_WAKEUP) ? CREDIT_NS : LAG_NS);
	u64 latest = state->clock + LAG_NS;

	if (state->stays == p->pid && stay(p, cpu, state, enq_flags))
		return;
	COUNT(queued);
	/*
	 * Pushed aside by a task of a higher class: he goes on here if that is done soon, before
	 * all that stay; if not, the timer calls an idle CPU.
	 */
	if (enq_flags & SCX_ENQ_REENQ) {
		state->is_taken = set_timer(cpu, state, scx_bpf_now() + US_TO_NS(delay_us));
		latest = state->clock - 1;
	}
	if (time_before(vtime, earliest))
		vtime = earliest;
	else if (time_after(vtime, latest))
		vtime = latest;
	scx_bpf_dsq_insert_vtime(p, run_queue(cpu), turn_ns(), vtime, enq_flags);
	if (may_leave(p, enq_flags) && !state->is_taken)
		set_bits(queued_in(group_of(cpu)), bit_of(cpu));
}

/*
 * What @p has run since it was last asked. The CPU's own clock follows the tasks that run, and at
 * the rate of a fair share: were it to wait for the next turn of those that are queued, a stream of
 * new tasks could hold them up.
 */
static void account(struct task_struct *p, s32 cpu, struct cpu_state *state)
{
	u64 now = scx_bpf_now();
	/* The kernel's two clocks, one kept from the last interrupt, may differ by a little. */
	u64 ran = time_before(now, state->turn_began) ? 0 : now - state->turn_began;
	u64 charge = p->scx.weight == NICE_0 ? ran : ran * NICE_0 / p->scx.weight;

	state->turn_began += ran;
	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + charge);
	state->clock += (charge < ran ? charge : ran) / (1 + nr_queued(run_queue(cpu)));
}

/* Has the first in @cpu's run queue waited for too long? Then those that stay come later. */
static bool is_queue_first(s32 cpu, const struct cpu_state *state)
{
	struct task_struct *first;
	bool is_first;

	if (!nr_queued(run_queue(cpu)))
		return false;
	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(run_queue(cpu));
	is_first = first && time_before(first->scx.dsq_vtime, state->clock);
	bpf_rcu_read_unlock();
	return is_first;
}

/* One of those that stay. The flag is lowered before looking: who comes then raises it again. */
static bool take_stayed(s32 cpu, struct cpu_state *state)
{
	state->has_stayed = false;
	if (!scx_bpf_dsq_move_to_local(stay_queue(cpu), 0))
		return false;
	state->has_stayed = true;
	state->from_stay = true;
	return true;
}

/* The next in @cpu's own queue. If it is empty that is told, and who came meanwhile is seen. */
static bool take_queued(s32 cpu)
{
	if (scx_bpf_dsq_move_to_local(run_queue(cpu), 0))
		return true;
	if (!(*queued_in(group_of(cpu)) & bit_of(cpu)))
		return false;
	forget(cpu);
	return scx_bpf_dsq_move_to_local(run_queue(cpu), 0);
}

/* Is @prev, whose turn is over and who would go on, before all that wait in the queue? */
static bool is_still_first(s32 cpu, const struct task_struct *prev)
{
	struct task_struct *first;
	bool is_first;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(run_queue(cpu));
	is_first = first && time_before(prev->scx.dsq_vtime, first->scx.dsq_vtime);
	bpf_rcu_read_unlock();
	return is_first;
}

/* The CPU needs its next task: who stays here for a moment, else the next in the queue. */
void BPF_STRUCT_OPS(smove_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state *state = cpu_state(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);

	/* Not only when it stops: who comes later must find the clock right. */
	if (goes_on)
		account(prev, cpu, state);
	if (state->has_stayed && !is_queue_first(cpu, state) && take_stayed(cpu, state))
		return;
	if ((!goes_on || !is_still_first(cpu, prev)) && take_queued(cpu))
		return;
	if (goes_on) {
		scx_bpf_task_set_slice(prev, turn_ns());
		return;
	}
	if (pull_near(cpu, reach)) {
		COUNT(pulled);
		state->from_afar = true;
	}
}

/* A turn begins. Who was about to be moved runs here: the move is off (the patch: "cancel"). */
void BPF_STRUCT_OPS(smove_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *state = cpu_state(cpu);

	state->turn_began = scx_bpf_now();
	if (state->from_stay || state->from_afar) {
		s32 target = target_of(p->scx.dsq_vtime);

		if (state->from_stay) {
			COUNT(cancelled);
			/* The kernel takes the chosen CPU for busy until it idles anew. */
			if (!early_wake && target < scx_bpf_nr_cpu_ids())
				scx_bpf_kick_cpu(target, SCX_KICK_IDLE);
		}
		state->from_stay = false;
		state->from_afar = false;
		set_clock(p, cpu);
	}
	if (time_before(state->clock, p->scx.dsq_vtime))
		state->clock = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(smove_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);

	account(p, cpu, cpu_state(cpu));
}

/* Who yields goes behind those that wait. */
bool BPF_STRUCT_OPS(smove_yield, struct task_struct *from, struct task_struct *to)
{
	u64 clock = cpu_state(scx_bpf_task_cpu(from))->clock;

	scx_bpf_task_set_dsq_vtime(from, clock + CREDIT_NS);
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* Every tick measures the CPU's frequency (the patch), and offers work to CPUs that have none. */
void BPF_STRUCT_OPS(smove_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct reading *reading = reading_of(cpu);

	if (strategy == STRATEGY_SMOVE && is_clocked(cpu)) {
		reading->mhz = measured_mhz(cpu);
		reading->at = scx_bpf_now();
	}
	if (*queued_in(group_of(cpu)) & bit_of(cpu))
		offer_first(cpu);
}

/* A task that is new here, as all are at first. */
void BPF_STRUCT_OPS(smove_enable, struct task_struct *p)
{
	set_clock(p, scx_bpf_task_cpu(p));
}

/* A task of a higher class takes the CPU: who waits at its head is to go elsewhere. */
void BPF_STRUCT_OPS(smove_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	give_way(args);
}

/* Where a task goes whose delay is over: to the chosen CPU, or if that is taken to another. */
static s32 destination(const struct task_struct *p, s32 here)
{
	s32 target = target_of(p->scx.dsq_vtime);
	s32 other;

	if (!bpf_cpumask_test_cpu(target, p->cpus_ptr) || is_migration_disabled(p))
		return here;
	if (!early_wake || scx_bpf_test_and_clear_cpu_idle(target))
		return target;
	other = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	return other < 0 ? target : other;
}

/*
 * The timer of @cpu: whose delay is over and who still waits goes to the CPU that was chosen for
 * him. Timers go off in a softirq, which somebody may interrupt who stays, too: he finds no timer
 * set and sets it, and to set it for an earlier one is right.
 */
static int move_those_due(void *map, u32 *cpu, struct move_timer *timer)
{
	s32 here = *cpu;
	struct cpu_state *state = cpu_state(here);
	u64 now = scx_bpf_now();
	struct task_struct *p;
	u64 next = 0;

	state->due = 0;
	bpf_rcu_read_lock();
	bpf_for_each (scx_dsq, p, stay_queue(here), 0) {
		s32 target;

		if (time_after(due_of(p->scx.dsq_vtime), now)) {
			next = due_of(p->scx.dsq_vtime);
			break;
		}
		COUNT(expired);
		target = destination(p, here);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, cpu_state(target)->clock);
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, turn_ns());
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, run_queue(target), 0))
			continue;
		set_bits(queued_in(group_of(target)), bit_of(target));
		if (target != here) {
			COUNT(migrated);
			scx_bpf_kick_cpu(target, SCX_KICK_IDLE);
		}
	}
	bpf_rcu_read_unlock();
	if (state->is_taken && nr_queued(run_queue(here))) {
		set_bits(queued_in(group_of(here)), bit_of(here));
		offer_first(here);
	}
	state->is_taken = false;
	if (next)
		set_timer(here, state, next);
	return 0;
}

static s32 init_cpu(s32 cpu)
{
	struct move_timer *timer;
	u32 key = cpu;
	s32 err;

	timer = bpf_map_lookup_elem(&move_timers, &key);
	if (!timer)
		return -E2BIG;
	cpu_state(cpu)->stays = NOBODY;
	bpf_timer_init(&timer->timer, &move_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, move_those_due);

	err = scx_bpf_create_dsq(run_queue(cpu), NUMA_NO_NODE);
	return err ?: scx_bpf_create_dsq(stay_queue(cpu), NUMA_NO_NODE);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(smove_init)
{
	s32 cpu, err;

	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids()) {
		err = init_cpu(cpu);
		if (err) {
			scx_bpf_error("no queues for CPU %d: error %d", cpu, err);
			return err;
		}
	}
	return 0;
}

void BPF_STRUCT_OPS(smove_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(smove_ops,
	       .select_cpu	= (void *)smove_select_cpu,
	       .enqueue		= (void *)smove_enqueue,
	       .dispatch	= (void *)smove_dispatch,
	       .running		= (void *)smove_running,
	       .stopping	= (void *)smove_stopping,
	       .yield		= (void *)smove_yield,
	       .tick		= (void *)smove_tick,
	       .enable		= (void *)smove_enable,
	       .cpu_release	= (void *)smove_cpu_release,
	       .init		= (void *)smove_init,
	       .exit		= (void *)smove_exit,
	       .flags		= SCX_OPS_ENQ_MIGRATION_DISABLED,
	       .name		= "smove");
