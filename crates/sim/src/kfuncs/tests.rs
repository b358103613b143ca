//! The functions as a callback of a policy calls them, without a run.
use super::*;
use crate::core::{CpuMask, Footprint, Scheduling, TaskId, TaskSpec};
use crate::engine::Event;
use crate::env::abi::{DsqIter, E2BIG, EBUSY, ENOENT, KICK_IDLE, KICK_PREEMPT};
use flsched_machine::Machine;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// `SCX_DSQ_LOCAL`.
const LOCAL: u64 = DSQ_BUILTIN | 2;
const HASH: u32 = 1;

/// A machine of four CPUs with three tasks, none of which runs.
struct Stage {
    ext: Ext,
    core: Core,
}

impl Stage {
    fn new() -> Self {
        let machine = Machine::find("ryzen-3400g").unwrap().with_cpus(4).unwrap().even();
        let mut core = Core::new(Arc::new(machine), 1);
        let mut ext = Ext::new(&mut core, &"flsched".parse().unwrap(), 1, find).unwrap();
        ext.has_builtin_idle = true;
        let spec = TaskSpec {
            name: "task".into(),
            parent: None,
            is_thread: false,
            nice: 0,
            scheduling: Scheduling::Normal,
            allowed: None,
            footprint: Footprint::default(),
        };
        for cpu in 0..3 {
            core.add_task(&spec, cpu);
        }
        Self { ext, core }
    }

    /// As in a callback of a policy.
    fn call<R>(&mut self, body: impl FnOnce() -> R) -> R {
        self.ext.call(&mut self.core, "enqueue", body)
    }

    /// What the policy has done wrong.
    fn violation(&mut self) -> String {
        let violation = self.core.violation.take().expect("a violation");
        assert_eq!(violation.callback, "enqueue");
        violation.what
    }

    fn put(&mut self, queue: u64, task: TaskId) {
        let index = self.ext.dsqs.find(queue).unwrap();
        self.ext.dsqs.push(index, task, false, None).unwrap();
    }
}

#[test]
fn a_queue_has_an_id_of_its_own() {
    let mut stage = Stage::new();
    // SAFETY: numbers only.
    let created = stage.call(|| unsafe { [create_dsq(7, -1), create_dsq(7, -1), create_dsq(LOCAL, -1)] });
    assert_eq!(created, [0, -EEXIST, -EINVAL]);
    // SAFETY: numbers only.
    let queued = stage.call(|| unsafe { [7, 8, LOCAL].map(|id| dsq_nr_queued(id)) });
    assert_eq!(queued, [0, -ENOENT, 0]);
    stage.put(7, 2);
    // SAFETY: numbers only.
    assert_eq!(stage.call(|| unsafe { (dsq_nr_queued(7), (*dsq_peek(7)).pid) }), (1, 3));
    // SAFETY: numbers only.
    stage.call(|| unsafe { destroy_dsq(7) });
    assert_eq!(stage.violation(), "queue 0x7 is destroyed with tasks in it");
}

#[test]
fn only_queues_of_the_policys_own_are_looked_into() {
    let mut stage = Stage::new();
    for (id, what) in [(8, "peek at queue 0x8, which does not exist"), (LOCAL, "peek at built-in queue")] {
        // SAFETY: numbers only.
        assert!(stage.call(|| unsafe { dsq_peek(id) }).is_null());
        assert!(stage.violation().starts_with(what));
    }
}

#[test]
fn a_walk_sees_the_tasks_that_were_there_when_it_began() {
    for (flags, expected) in [(0, [1, 2]), (1 << 16, [2, 1])] {
        let mut stage = Stage::new();
        // SAFETY: numbers only.
        stage.call(|| unsafe { create_dsq(7, -1) });
        (0..2).for_each(|task| stage.put(7, task));
        let mut iter = MaybeUninit::<DsqIter>::uninit();
        let pointer = iter.as_mut_ptr();
        // SAFETY: room for the iterator, which new() fills.
        stage.call(|| unsafe { iter::new(pointer, 7, flags) });
        stage.put(7, 2);
        // SAFETY: new() has filled it, and tasks exist as long as the stage.
        let next =
            |stage: &mut Stage| stage.call(|| unsafe { iter::next(pointer).as_ref().map(|it| it.pid) });
        let seen = [next(&mut stage), next(&mut stage), next(&mut stage)];
        assert_eq!(seen, [Some(expected[0]), Some(expected[1]), None]);
    }
}

#[test]
fn an_idle_cpu_is_claimed_once() {
    let mut stage = Stage::new();
    let mut allowed = CpuMask::empty();
    allowed.set(2, true);
    let mask = &raw const allowed;
    // SAFETY: the mask outlives the calls.
    let picked = stage.call(|| unsafe { [cpus::pick_idle_cpu(mask, 0), cpus::pick_idle_cpu(mask, 0)] });
    assert_eq!(picked, [2, -EBUSY]);
    // SAFETY: the mask outlives the calls.
    assert_eq!(stage.call(|| unsafe { cpus::pick_any_cpu(mask, 0) }), 2, "idle or not");
    // SAFETY: numbers only.
    let tested = stage.call(|| unsafe { [1, 1, 2].map(|cpu| cpus::test_and_clear_cpu_idle(cpu)) });
    assert_eq!(tested, [true, false, false]);
    stage.ext.has_builtin_idle = false;
    // SAFETY: the mask outlives the calls.
    assert_eq!(stage.call(|| unsafe { cpus::pick_idle_cpu(mask, 0) }), -EBUSY);
    assert_eq!(stage.violation(), "built-in idle tracking is disabled");
}

#[test]
fn a_kick_waits_for_the_end_of_the_callback() {
    let mut stage = Stage::new();
    stage.core.cpus[3].curr = Some(0);
    // SAFETY: numbers only.
    stage.call(|| unsafe {
        cpus::kick_cpu(1, KICK_IDLE);
        cpus::kick_cpu(3, KICK_IDLE);
        cpus::kick_cpu(3, KICK_PREEMPT);
    });
    assert_eq!(stage.ext.kicks, [(1, KICK_IDLE), (3, KICK_PREEMPT)], "CPU 3 does not idle");
    for (cpu, flags, what) in
        [(4, 0, "CPU 4 does not exist"), (1, KICK_IDLE | KICK_PREEMPT, "SCX_KICK_IDLE goes with neither")]
    {
        // SAFETY: numbers only.
        stage.call(|| unsafe { cpus::kick_cpu(cpu, flags) });
        assert!(stage.violation().starts_with(what));
    }
}

#[test]
fn a_cpumask_is_released_once() {
    let mut stage = Stage::new();
    // SAFETY: the mask is the one that was created.
    stage.call(|| unsafe {
        let mask = cpus::cpumask_create();
        cpus::cpumask_release(mask);
        cpus::cpumask_release(mask);
    });
    assert_eq!(stage.violation(), "a cpumask is released that was never created");
}

#[test]
fn a_hash_tells_what_is_there() {
    let mut stage = Stage::new();
    // SAFETY: only its address is used.
    let map = stage.call(|| unsafe { maps::open(null_mut(), HASH, 1, 4, 8) });
    let (one, two, value) = (1u32.to_ne_bytes(), 2u32.to_ne_bytes(), 42u64.to_ne_bytes());
    let update = |stage: &mut Stage, key: &[u8; 4], flags| {
        // SAFETY: key and value have the sizes of the map.
        stage.call(|| unsafe { maps::hash_update(map, key.as_ptr(), value.as_ptr(), flags) })
    };
    let updates =
        [(&one, 2), (&one, 1), (&one, 1), (&two, 0)].map(|(key, flags)| update(&mut stage, key, flags));
    assert_eq!(updates, [-ENOENT, 0, -EEXIST, -E2BIG]);
    // SAFETY: as above; the value lives until the next callback.
    let found = stage.call(|| unsafe { maps::hash_lookup(map, one.as_ptr()).cast::<u64>().read() });
    assert_eq!(found, 42);
    // SAFETY: as above.
    let deleted = stage.call(|| unsafe { [0, 1].map(|_| maps::hash_delete(map, one.as_ptr())) });
    assert_eq!(deleted, [0, -ENOENT]);
    // SAFETY: as above.
    assert!(stage.call(|| unsafe { maps::hash_lookup(map, one.as_ptr()) }).is_null());
}

unsafe extern "C" fn handler(_: *mut c_void, _: *mut u8, _: *mut u8) -> i32 {
    0
}

#[test]
fn a_timer_fires_when_it_has_all_it_needs() {
    let mut stage = Stage::new();
    const ARRAY: u32 = 2;
    // SAFETY: only its address is used.
    let map = stage.call(|| unsafe { maps::open(null_mut(), ARRAY, 1, 4, 16) });
    // SAFETY: an array's values are zeroed, and have room for a timer.
    let timer = unsafe { (*map).values }.cast::<u64>();
    // SAFETY: the timer is in the map.
    let outcomes = stage.call(|| unsafe {
        [
            timers::start(timer, 10, 0),
            timers::init(timer, map, 0),
            timers::init(timer, map, 1),
            timers::init(timer, map, 1),
            timers::start(timer, 10, 0),
            timers::set_callback(timer, handler),
            timers::start(timer, 10, 0),
            timers::cancel(timer),
            timers::cancel(timer),
        ]
    });
    let [invalid, busy] = [EINVAL, EBUSY].map(|it| -i64::from(it));
    assert_eq!(outcomes, [invalid, invalid, 0, busy, invalid, 0, 0, 1, 0]);
    assert!(matches!(stage.core.queue.pop(), Some((10, Event::Timer { class: 1, timer: 0, .. }))));
}

#[test]
fn tasks_are_found_by_number_and_by_cpu() {
    let mut stage = Stage::new();
    stage.core.cpus[1].curr = Some(1);
    // SAFETY: tasks exist as long as the stage.
    let pids = stage.call(|| unsafe {
        [task_from_pid(3), task_from_pid(4), task_from_pid(0), cpu_curr(1), cpu_curr(0), current_task()]
            .map(|task| task.as_ref().map(|it| it.pid))
    });
    assert_eq!(pids, [Some(3), None, None, Some(2), None, Some(0)], "the idle task's is 0");
    let pointers = [0, 1].map(|task| stage.core.tasks[task].as_ptr());
    // SAFETY: as above.
    let running = stage.call(|| unsafe { pointers.map(|task| (task_running(task), task_cpu(task))) });
    assert_eq!(running, [(false, 0), (true, 1)]);
}

#[test]
fn time_is_never_0() {
    let mut stage = Stage::new();
    // SAFETY: they return numbers.
    let times = stage.call(|| unsafe { [now(), ktime(), jiffies()] });
    assert!(times.iter().all(|&time| time > 0), "{times:?}");
}

#[test]
fn a_function_that_is_not_modelled_is_not_found() {
    assert!(find("scx_bpf_kick_cpu").is_some() && find("scx_bpf_kick_cid").is_none());
}
