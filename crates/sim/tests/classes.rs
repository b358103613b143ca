//! The kernel's own schedulers, each by what it promises.
use flsched_machine::Machine;
use flsched_recording::timeline::Slice;
use flsched_sim::core::{CpuMask, Scheduling};
use flsched_sim::output::Outcome;
use flsched_sim::rest::Detail;
use flsched_sim::workload::{Child, Program, Step, View, Workload, World, load};
use flsched_sim::{Error, Setup, Simulation};
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const SECOND: u64 = 1000 * MS;

fn simulation(machine: &str, cpus: usize, scheduler: &str) -> Result<Simulation, Error> {
    Simulation::new(Setup {
        machine: Arc::new(Machine::find(machine)?.with_cpus(cpus)?),
        scheduler: Scheduler::read(scheduler, Target::Sim)?,
        workload: load(&Model::read("hogs")?)?,
        seed: 1,
        limit: 1000 * SECOND,
    })
}

/// The machine, with the kernel of another age.
fn on_kernel(machine: &str, kernel: &str) -> Machine {
    let setting = format!("kernel={kernel}").parse().unwrap();
    Machine::find_with(machine, &[setting]).unwrap()
}

/// What tasks report: numbers by name.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<BTreeMap<String, Vec<u64>>>>);

impl Notes {
    fn add(&self, name: &str, value: u64) {
        self.0.lock().unwrap().entry(name.to_owned()).or_default().push(value);
    }

    fn all(&self, name: &str) -> Vec<u64> {
        self.0.lock().unwrap().get(name).cloned().unwrap_or_default()
    }

    fn last(&self, name: &str) -> u64 {
        self.all(name).last().copied().unwrap_or_else(|| panic!("{name} has reported nothing"))
    }

    fn median(&self, name: &str) -> u64 {
        let mut all = self.all(name);
        all.sort_unstable();
        all[all.len() / 2]
    }
}

/// A task made of a closure.
struct Does<F>(F);

impl<F: FnMut(&mut View<'_>) -> Step> Program for Does<F> {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        (self.0)(view)
    }
}

fn task(name: &str, next: impl FnMut(&mut View<'_>) -> Step + 'static) -> Child {
    Child::process(name, Does(next))
}

/// Computes in pieces until `end`, and says how many they were, and when it was done.
fn hog(name: &'static str, notes: &Notes, piece: u64, end: u64) -> Child {
    let notes = notes.clone();
    let mut done = 0;
    task(name, move |view| {
        if view.now < end {
            done += 1;
            return Step::Run(piece);
        }
        notes.add(name, done);
        Step::Exit
    })
}

/// Computes for so long, and says when it was done.
fn worker(name: &'static str, notes: &Notes, work: u64) -> Child {
    let notes = notes.clone();
    let mut left = Some(work);
    task(name, move |view| match left.take() {
        Some(work) => Step::Run(work),
        None => {
            notes.add(name, view.now);
            Step::Exit
        }
    })
}

/// Sleeps and works in turn until `end`, and says how late it came each time.
fn sleeper(name: &'static str, notes: &Notes, sleep: u64, work: u64, end: u64) -> Child {
    let notes = notes.clone();
    let mut wakes_at = None;
    task(name, move |view| {
        if let Some(at) = wakes_at.take() {
            notes.add(name, view.now.saturating_sub(at));
            return Step::Run(work);
        }
        if view.now >= end {
            return Step::Exit;
        }
        wakes_at = Some(view.now + sleep);
        Step::Sleep(sleep)
    })
}

/// Forks all of these, one after the other, and waits.
fn run(simulation: Simulation, children: Vec<Child>) -> Outcome {
    let mut children = children.into_iter();
    let mut waits = false;
    let main = Does(move |_: &mut View<'_>| match children.next() {
        Some(child) => Step::fork(child),
        None if std::mem::replace(&mut waits, true) => Step::Exit,
        None => Step::WaitChildren { at_most: 0 },
    });
    simulation.run_program(Box::new(main)).unwrap()
}

#[test]
fn nice_values_are_worth_their_weights() {
    for scheduler in ["eevdf", "batch", "cfs"] {
        for (nice, ratio) in [(0, 1.0), (5, 1024.0 / 335.0), (-5, 1024.0 / 3121.0), (19, 1024.0 / 15.0)] {
            let notes = Notes::default();
            let children = vec![
                hog("even", &notes, 100 * US, 60 * SECOND),
                Child { nice, ..hog("nice", &notes, 100 * US, 60 * SECOND) },
            ];
            run(simulation("ryzen-3400g:even", 1, scheduler).unwrap(), children);
            let found = notes.last("even") as f64 / notes.last("nice") as f64;
            assert!(
                (found / ratio - 1.0).abs() < 0.05,
                "{scheduler}, nice {nice}: {found} instead of {ratio}"
            );
        }
    }
}

#[test]
fn a_sleeper_interrupts_a_hog_but_not_in_batch() {
    for (scheduler, promptly) in [("eevdf", true), ("cfs", true), ("batch", false)] {
        let notes = Notes::default();
        let children = vec![
            hog("hog", &notes, MS, 5 * SECOND),
            // Out of step with the tick.
            sleeper("sleeper", &notes, 20_330 * US, 100 * US, 5 * SECOND),
        ];
        run(simulation("ryzen-3400g:even", 1, scheduler).unwrap(), children);
        assert!(notes.all("sleeper").len() > 200);
        let late = notes.median("sleeper");
        assert_eq!(late < 50 * US, promptly, "{scheduler}: {late} ns late");
        // The next tick ends the turn at the latest; there are 250 a second.
        assert!(late < 5 * MS, "{scheduler}: {late} ns late");
    }
}

#[test]
fn a_shorter_slice_switches_more_often() {
    let switches = |scheduler: &str| {
        let notes = Notes::default();
        let hogs = (0..4).map(|_| hog("hog", &notes, 100 * US, SECOND)).collect();
        run(simulation("knc-31s1p", 1, scheduler).unwrap(), hogs).context_switches
    };
    let (short, long) = (switches("eevdf:slice_us=3000"), switches("eevdf:slice_us=100000"));
    // The tick is every 10 ms: that is the shortest turn there is.
    assert!((90..140).contains(&short), "{short}");
    assert!((8..30).contains(&long), "{long}");
}

#[test]
fn priorities_are_strict() {
    for scheduler in ["fifo", "rr", "eevdf", "flsched"] {
        let notes = Notes::default();
        let children = vec![
            Child { scheduling: Some(Scheduling::Fifo(10)), ..worker("low", &notes, 300 * MS) },
            Child { scheduling: Some(Scheduling::RoundRobin(20)), ..worker("high", &notes, 300 * MS) },
            Child { scheduling: Some(Scheduling::Fifo(20)), ..worker("also high", &notes, 300 * MS) },
            Child {
                scheduling: Some(Scheduling::Fifo(90)),
                ..sleeper("urgent", &notes, 5 * MS, 10 * US, 800 * MS)
            },
            Child { scheduling: Some(Scheduling::Normal), ..worker("normal", &notes, MS) },
        ];
        // All are there before the first one works.
        let mut children = children.into_iter();
        let mut waits = false;
        let forker = Does(move |_: &mut View<'_>| match children.next() {
            Some(child) => Step::fork(child),
            None if std::mem::replace(&mut waits, true) => Step::Exit,
            None => Step::WaitChildren { at_most: 0 },
        });
        let forker = Child { scheduling: Some(Scheduling::Fifo(99)), ..Child::process("forker", forker) };
        run(simulation("ryzen-3400g:even", 1, scheduler).unwrap(), vec![forker]);
        // Of two tasks of equal priority, RR's is rotated when its slice ends; FIFO's then runs to
        // its end.
        let done = ["also high", "high", "low", "normal"].map(|name| notes.last(name));
        assert!(done.is_sorted(), "{scheduler}: {done:?}");
        let latest = *notes.all("urgent").iter().max().unwrap();
        assert!(latest < 20 * US, "{scheduler}: urgent work came {latest} ns late");
    }
}

#[test]
fn equals_take_turns_under_rr_and_not_under_fifo() {
    let done = |scheduler: &str| {
        let notes = Notes::default();
        let children = vec![worker("first", &notes, SECOND), worker("second", &notes, SECOND)];
        run(simulation("ryzen-3400g:even", 1, scheduler).unwrap(), children);
        notes.last("second") - notes.last("first")
    };
    assert!(done("fifo") > 990 * MS);
    for (scheduler, slice_ms) in [("rr", 100), ("rr:slice_ms=20", 20)] {
        let apart = done(scheduler);
        assert!(apart < (slice_ms + 5) * MS, "{scheduler}: {apart} ns");
    }
}

/// Tasks that all begin on CPU 0 and then may run anywhere.
fn crowd(notes: &Notes, count: usize, cpus: usize, work: u64) -> Vec<Child> {
    let one = || {
        let notes = notes.clone();
        let mut step = 0;
        task("crowd", move |view| {
            step += 1;
            let affinity = |cpus| Step::SetAffinity(Box::new(CpuMask::first(cpus)));
            match step {
                1 => affinity(1),
                2 => Step::Sleep(50 * MS),
                3 => affinity(cpus),
                4 => Step::Run(work),
                _ => {
                    notes.add("crowd", view.now);
                    Step::Exit
                }
            }
        })
    };
    (0..count).map(|_| one()).collect()
}

#[test]
fn a_crowd_spreads_over_all_cpus() {
    for scheduler in ["eevdf", "batch", "cfs"] {
        for (cpus, count) in [(4, 8), (8, 8), (8, 32)] {
            let notes = Notes::default();
            let work = 400 * MS;
            run(simulation("ryzen-3400g:even", cpus, scheduler).unwrap(), crowd(&notes, count, cpus, work));
            let all = notes.all("crowd");
            assert_eq!(all.len(), count);
            let least = count as u64 / cpus as u64 * work;
            let took = all.iter().max().unwrap() - 50 * MS;
            assert!(took < least * 5 / 4, "{scheduler}, {count} on {cpus}: {took} ns, at least {least}");
        }
    }
}

#[test]
fn a_cpu_that_has_done_its_real_time_work_gets_more() {
    for scheduler in ["fifo", "fifo:push_ipi=0", "rr"] {
        // In one of the two orders the third task waits behind the long one.
        for (first, second) in [(300, 10), (10, 300)] {
            let notes = Notes::default();
            let works = [first, second, 300];
            let children = works.map(|ms| worker("worker", &notes, ms * MS)).into();
            run(simulation("ryzen-3400g:even", 2, scheduler).unwrap(), children);
            let took = *notes.all("worker").iter().max().unwrap();
            assert!(took < 320 * MS, "{scheduler}, {first}, {second}: {took} ns");
        }
    }
}

#[test]
fn how_real_time_tasks_are_pulled_depends_on_the_kernel() {
    let locks = |kernel: &str, scheduler: &str| {
        let machine = on_kernel("knc-31s1p", kernel);
        let outcome = Simulation::new(Setup {
            machine: Arc::new(machine.with_cpus(8).unwrap()),
            scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
            workload: load(&Model::read("hackbench:process-pipe:4:20").unwrap()).unwrap(),
            seed: 1,
            limit: 100 * SECOND,
        })
        .unwrap()
        .run()
        .unwrap();
        [outcome.locks["rto"].taken, outcome.locks["rq"].taken, outcome.context_switches]
    };
    for scheduler in ["fifo", "rr"] {
        assert!(locks("4.1", scheduler)[0] > 0, "{scheduler}");
        assert_eq!(locks("4.0", scheduler)[0], 0, "{scheduler}");
    }
    assert_eq!(locks("2.6.38", "rr"), locks("2.6.38", "rr:push_ipi=0"), "the user's word counts");
    assert!(locks("2.6.38", "rr:push_ipi=1")[0] > 0);
}

/// The CPU on which each task of the workload runs first.
fn first_cpus(machine: Machine, scheduler: &str, workload: &str, seed: u64) -> BTreeMap<usize, usize> {
    let (result, recording) = Simulation::new(Setup {
        machine: Arc::new(machine),
        scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
        workload: load(&Model::read(workload).unwrap()).unwrap(),
        seed,
        limit: SECOND,
    })
    .unwrap()
    .run_recorded();
    assert!(result.is_ok());
    let mut first = BTreeMap::new();
    let is_the_kernels = |slice: &&Slice| recording.tasks[slice.task].0 == "rcu_preempt";
    for slice in recording.slices.iter().filter(|slice| !is_the_kernels(slice)) {
        first.entry(slice.task).or_insert(slice.cpu);
    }
    first
}

#[test]
fn forks_of_real_time_tasks_go_round_the_cpus_since_5_11() {
    let cpus_of_first_runs = |kernel: &str| {
        let machine = on_kernel("parallel-clock", kernel).with_cpus(16).unwrap();
        let first = first_cpus(machine, "rr", "hackbench:process-pipe:1:1", 1);
        first.into_values().collect::<BTreeSet<usize>>().len()
    };
    assert_eq!(cpus_of_first_runs("5.11"), 16);
    assert_eq!(cpus_of_first_runs("5.10"), 2, "the first task's and one for all others, which sleep soon");
}

/// Of idle CPUs that get new tasks, the one that did least of late is next.
#[test]
fn new_tasks_that_sleep_soon_are_spread_over_idle_cpus() {
    let machine = Machine::find("parallel-clock").unwrap().with_cpus(4).unwrap();
    for seed in 0..5 {
        let first = first_cpus(machine.clone(), "eevdf", "hackbench:process-pipe:4:1", seed);
        let mut tasks: Vec<usize> =
            (0..4).map(|cpu| first.values().filter(|&&it| it == cpu).count()).collect();
        tasks.sort_unstable();
        // On one CPU there is the task that forks the 160.
        assert!(tasks[0] < 5 && tasks[1] > 20 && tasks[3] < 120, "seed {seed}: {tasks:?}");
    }
}

#[test]
fn a_cpu_with_two_gives_one_to_an_idle_core() {
    // Three tasks, two cores of two threads: no task shares a core while another core idles for
    // long.
    for scheduler in ["eevdf", "cfs"] {
        let notes = Notes::default();
        let outcome = run(simulation("ryzen-3400g:even", 4, scheduler).unwrap(), crowd(&notes, 2, 4, SECOND));
        assert!(outcome.migrations >= 1, "{scheduler}");
        let took = notes.all("crowd").iter().max().unwrap() - 50 * MS;
        assert!(took < 1100 * MS, "{scheduler}: {took} ns");
    }
}

#[test]
fn a_real_time_task_takes_the_cpu_from_a_policy() {
    let notes = Notes::default();
    let mut children: Vec<Child> = (0..8).map(|_| worker("hog", &notes, 300 * MS)).collect();
    children.push(Child {
        scheduling: Some(Scheduling::Fifo(50)),
        ..sleeper("urgent", &notes, 3 * MS, 500 * US, 500 * MS)
    });
    let outcome = run(simulation("ryzen-3400g:even", 4, "flsched").unwrap(), children);
    assert_eq!(notes.all("hog").len(), 8);
    let urgent = notes.all("urgent");
    assert!(urgent.len() > 100);
    let latest = *urgent.iter().max().unwrap();
    assert!(latest < 20 * US, "urgent work came {latest} ns late");
    assert!(outcome.whole_s < 0.9, "{}", outcome.whole_s);
}

/// `cpu_release` has the policy queue those again that would wait for the real-time task.
#[test]
fn a_policys_task_goes_elsewhere_when_it_loses_its_cpu() {
    let notes = Notes::default();
    let mut step = 0;
    let usurper = task("usurper", move |_| {
        step += 1;
        let mut second = CpuMask::empty();
        second.set(1, true);
        match step {
            1 => Step::SetAffinity(Box::new(second)),
            2 => Step::Run(200 * MS),
            _ => Step::Exit,
        }
    });
    let usurper = Child { scheduling: Some(Scheduling::Fifo(1)), ..usurper };
    run(
        simulation("ryzen-3400g:even", 2, "flsched").unwrap(),
        vec![worker("hog", &notes, 300 * MS), usurper],
    );
    let took = notes.last("hog");
    assert!(took < 320 * MS, "{took} ns");
}

#[test]
fn hackbench_switches_most_under_eevdf_and_least_under_fifo() {
    let switches = |scheduler: &str, cpus: usize, size: &str, seed: u64| {
        Simulation::new(Setup {
            machine: Arc::new(Machine::find("ryzen-3400g:even").unwrap().with_cpus(cpus).unwrap()),
            scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
            workload: load(&Model::read(&format!("hackbench:process-pipe:{size}")).unwrap()).unwrap(),
            seed,
            limit: 100 * SECOND,
        })
        .unwrap()
        .run()
        .unwrap()
        .context_switches
    };
    // Long enough for many slices of each task, with full buffers and many waiters: under EEVDF seeds differ by a factor of
    // eight;
    let all = |cpus: usize| {
        ["eevdf", "batch", "fifo"]
            .map(|scheduler| (1..=5).map(|seed| switches(scheduler, cpus, "4:400", seed)).sum::<u64>())
    };
    let [eevdf, batch, fifo] = all(1);
    assert!(eevdf > batch && batch > fifo, "one CPU: {eevdf}, {batch}, {fifo}");
    let [eevdf, batch, _] = all(8);
    assert!(eevdf > 2 * batch, "eight CPUs: {eevdf}, {batch}");
    // and so short that buffers are never full, where only woken tasks preempt.
    for seed in 1..=5 {
        let few = |scheduler| switches(scheduler, 1, "5:10", seed);
        let (eevdf, batch, fifo) = (few("eevdf"), few("batch"), few("fifo"));
        assert!(10 * eevdf > 16 * batch && 10 * batch > 17 * fifo, "seed {seed}: {eevdf}, {batch}, {fifo}");
    }
}

#[test]
fn every_scheduler_runs_hackbench_to_its_end_and_again_the_same_way() {
    for scheduler in ["fifo", "fifo:push_ipi=0", "rr", "eevdf", "batch", "cfs", "cfs:skip_yielder=1"] {
        let once = || {
            Simulation::new(Setup {
                machine: Arc::new(Machine::find("knc-31s1p").unwrap().with_cpus(24).unwrap()),
                scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
                workload: load(&Model::read("hackbench:thread-socket:6:20").unwrap()).unwrap(),
                seed: 1,
                limit: 100 * SECOND,
            })
            .unwrap()
            .run()
            .unwrap()
        };
        let outcome = once();
        assert_eq!(outcome.tasks, 241, "{scheduler}");
        assert_eq!(outcome, once(), "{scheduler}");
    }
}

/// There is some for 18, and what has been taken is there for the next ones, too.
#[test]
fn every_third_fork_takes_longer_as_memory_for_tasks_comes_in_threes() {
    let notes = Notes::default();
    let (mut forked_at, mut forks, recorder) = (None, 0, notes.clone());
    let main = Does(move |view: &mut View<'_>| {
        if let Some(at) = forked_at.take() {
            recorder.add("fork", view.now - at);
        }
        if forks == 27 && view.now < SECOND {
            return Step::WaitChildren { at_most: 0 };
        }
        if forks == 54 {
            return Step::Exit;
        }
        forks += 1;
        forked_at = Some(view.now);
        let mut sleeps = true;
        Step::fork(task("child", move |_| match std::mem::take(&mut sleeps) {
            true => Step::Sleep(SECOND),
            false => Step::Exit,
        }))
    });
    simulation("parallel-clock", 1, "fifo").unwrap().run_program(Box::new(main)).unwrap();
    let least = notes.all("fork").into_iter().min().unwrap();
    let took_longer: Vec<bool> = notes.all("fork").iter().map(|&took| took > least + 9 * US).collect();
    let expected: Vec<bool> = (1..=54).map(|fork| [18, 21, 24, 27].contains(&fork)).collect();
    assert_eq!(took_longer, expected);
}

/// A task wakes eight that last ran on CPUs of their own, and notes how long that takes.
#[derive(Debug)]
struct WakesEight(Arc<Mutex<u64>>);

impl fmt::Display for WakesEight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("wakes eight")
    }
}

impl Workload for WakesEight {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let (condition, took) = (world.add_condition(), Arc::clone(&self.0));
        let (mut step, mut began_at) = (0, 0);
        Box::new(Does(move |view: &mut View<'_>| {
            step += 1;
            match step {
                1..=8 => {
                    let mut steps =
                        vec![Step::Exit, Step::Run(US), Step::WaitFor(condition, None), Step::Run(MS)];
                    Step::fork(task("woken", move |_| steps.pop().unwrap()))
                }
                9 => Step::Sleep(20 * MS),
                10 => {
                    began_at = view.now;
                    Step::Broadcast(condition)
                }
                11 => {
                    *took.lock().unwrap() = view.now - began_at;
                    Step::WaitChildren { at_most: 0 }
                }
                _ => Step::Exit,
            }
        }))
    }
}

#[test]
fn idle_cpus_enqueue_the_tasks_that_are_woken_for_them_since_6_0() {
    let waking = |kernel: &str, scheduler: &str| {
        let took = Arc::new(Mutex::new(0));
        Simulation::new(Setup {
            machine: Arc::new(on_kernel("parallel-clock", kernel).with_cpus(16).unwrap()),
            scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
            workload: Arc::new(WakesEight(Arc::clone(&took))),
            seed: 1,
            limit: SECOND,
        })
        .unwrap()
        .run()
        .unwrap();
        let took = *took.lock().unwrap();
        took / 8
    };
    for scheduler in ["eevdf", "rr", "flsched", "smove", "rr2"] {
        let (by_waker, by_idle_cpu) = (waking("5.19", scheduler), waking("6.0", scheduler));
        assert!(by_waker > by_idle_cpu + US, "{scheduler}: {by_waker} and {by_idle_cpu} ns for each");
    }
}

#[test]
fn waiting_takes_longer_for_a_younger_child() {
    const CHILDREN: usize = 100;
    let returns = |first_to_end: usize| {
        let notes = Notes::default();
        let recorder = notes.clone();
        let mut forks = 0;
        let main = Does(move |view: &mut View<'_>| {
            forks += 1;
            if forks <= CHILDREN {
                let ends_at = if forks == first_to_end { 100 * MS } else { SECOND };
                let mut sleeps = true;
                return Step::fork(task("child", move |view| match std::mem::take(&mut sleeps) {
                    true => Step::Sleep(ends_at - view.now),
                    false => Step::Exit,
                }));
            }
            recorder.add("now", view.now);
            match forks - CHILDREN {
                1 => Step::WaitChildren { at_most: CHILDREN - 1 },
                _ => Step::Exit,
            }
        });
        simulation("parallel-clock", 1, "fifo").unwrap().run_program(Box::new(main)).unwrap();
        notes.all("now")[1]
    };
    // For each of those before it.
    let each = (returns(CHILDREN) - returns(1)) / 99;
    assert_eq!(each, 65, "child_ns");
}

#[test]
fn synchronize_rcu_returns_at_the_second_tick() {
    let notes = Notes::default();
    let recorder = notes.clone();
    let mut steps = vec![
        Step::Exit,
        Step::Rest(Detail::SynchronizeRcu),
        Step::Run(5 * MS),
        Step::Rest(Detail::SynchronizeRcu),
    ];
    let main = Does(move |view: &mut View<'_>| {
        recorder.add("now", view.now / MS);
        steps.pop().unwrap()
    });
    // Of 4 ms each.
    simulation("parallel-clock", 1, "fifo").unwrap().run_program(Box::new(main)).unwrap();
    assert_eq!(notes.all("now"), [0, 8, 13, 20]);
}
