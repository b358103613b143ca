//! Workloads, whole: what they take and what they leave behind.
use flsched_machine::Machine;
use flsched_recording::timeline::{Colouring, render_timeline, write_trace};
use flsched_sim::output::Outcome;
use flsched_sim::workload::load;
use flsched_sim::{Error, Setup, Simulation};
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

fn setup(scheduler: &str, workload: &str) -> Setup {
    Setup {
        machine: Arc::new(Machine::find("ryzen-3400g:even").unwrap()),
        scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
        workload: load(&Model::read(workload).unwrap()).unwrap(),
        seed: 1,
        limit: 1000 * SECOND,
    }
}

fn run(scheduler: &str, workload: &str) -> Result<Outcome, Error> {
    Simulation::new(setup(scheduler, workload))?.run()
}

/// A file with this content, and the workload that it is.
fn file(form: &str, content: &str) -> (tempfile::NamedTempFile, String) {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    let workload = format!("{form}:{}", file.path().display());
    (file, workload)
}

#[test]
fn each_runs_to_its_end_under_each_scheduler() {
    let sleepers = [
        "phases:16:10:100:20:futex",
        "requests:2:8:20:3000",
        "requests:2:8:20:3000:120",
        "perf-pipe:100",
        "chain:4:20:10",
        "make:4:12",
        "co-threads:3:4:16384:1:1000",
    ];
    let yielders = [
        "spin-barrier:16:10:12500",
        "phases:16:10:100:20:spin",
        "phases:16:10:100:20:yield",
        "npb:cg:16:1:libomp:3560",
    ];
    let under = |scheduler, workload| {
        let outcome = run(scheduler, workload).unwrap_or_else(|error| panic!("{workload}: {error}"));
        assert!(outcome.time_s > 0.0 && outcome.fairness <= 1.0, "{workload}");
    };
    sleepers.iter().for_each(|workload| under("fifo", workload));
    // With more threads than CPUs these need a scheduler under which every task gets to run.
    sleepers.iter().chain(&yielders).for_each(|workload| under("flsched", workload));
}

/// The set of idle CPUs, which all of them write to.
#[test]
fn a_policy_pays_for_the_words_that_its_cpus_share() {
    for policy in ["flsched", "smove", "rr2"] {
        let words = run(policy, "chain:4:20:10").unwrap().locks["policy"].taken;
        assert!(words > 0, "{policy}");
    }
}

#[test]
fn barriers_cost_little_where_everybody_has_a_cpu() {
    for wait in ["spin", "yield", "futex", "libomp"] {
        let outcome = run("flsched", &format!("phases:8:100:1000:0:{wait}")).unwrap();
        // 100 phases of 1 ms, and the threads' start.
        assert!((0.1..0.12).contains(&outcome.time_s), "{wait}: {}", outcome.time_s);
    }
}

/// The model's memory delivers 37 GB/s.
#[test]
fn tasks_share_the_bandwidth_of_memory() {
    let time = |workload: &str| {
        let mut setup = setup("eevdf", workload);
        setup.machine = Arc::new(Machine::find("ryzen-3400g:performance").unwrap());
        Simulation::new(setup).unwrap().run().unwrap().time_s
    };
    let within = |value: f64, expected: f64| (0.99..1.02).contains(&(value / expected));
    let (_file, from_a_file) =
        file("tasks", "[[task]]\ncount = 8\nmemory_mb_per_s = 10000\nsteps = [{ run_us = 100000 }]\n");
    let (few, many) = (time("hogs:2:100:0:10000"), time("hogs:8:100:0:10000"));
    assert!(within(few, time("hogs:2:100")), "there is enough for two: {few}");
    assert!(within(many, 8.0 * 0.1 * 10.0 / 37.0), "it takes as long as the bytes: {many}");
    assert!(within(time(&from_a_file), many));
}

/// Most threads wait on one CPU at first. All of them wait for each other by yielding, so no CPU idles, and none takes a
/// thread from that one because it idles.
#[test]
fn threads_that_yield_spread() {
    let time = |scheduler| run(scheduler, "npb:cg:32:1:libomp:3560").unwrap().time_s;
    let eevdf = time("eevdf");
    for policy in ["flsched", "smove", "rr2"] {
        assert!(time(policy) < 2.0 * eevdf, "{policy}: {} s, eevdf: {eevdf} s", time(policy));
    }
}

/// A thread that was moved to a shorter queue waited there for milliseconds, behind others that yielded again and again.
/// All threads of the barrier waited for it.
#[test]
fn a_barrier_waits_for_no_thread_that_was_moved() {
    for seed in 1..=5 {
        let machine = Arc::new(Machine::find("parallel-clock").unwrap().with_cpus(32).unwrap());
        let setup = Setup { machine, seed, ..setup("flsched", "spin-barrier:256:50:12500") };
        let time = Simulation::new(setup).unwrap().run().unwrap().time_s;
        // Eight threads a CPU compute for 125 µs each, 50 times.
        assert!(time < 1.1 * 0.05, "seed {seed}: {time} s");
    }
}

/// Most threads are forked while no CPU idles, and wait on two CPUs. None of them sleeps until the end, so no CPU idles,
/// and under SCHED_RR six threads keep a CPU each.
#[test]
fn threads_that_compute_spread() {
    let fairness = |scheduler| run(scheduler, "co-threads:3:8:16384:3").unwrap().fairness;
    assert!(fairness("rr") < 0.6, "{}", fairness("rr"));
    for policy in ["flsched", "smove", "rr2"] {
        assert!(fairness(policy) > 0.75, "{policy}: {}", fairness(policy));
    }
}

/// All threads stop at the same time, however late they first run.
#[test]
fn co_threads_end_together() {
    for scheduler in ["rr", "rr2", "eevdf"] {
        let outcome = run(scheduler, "co-threads:11:5:16384:3").unwrap();
        assert!((3.0..3.15).contains(&outcome.whole_s), "{scheduler}: {} s", outcome.whole_s);
    }
}

/// Making the threads takes longer than their work here.
#[test]
fn npbs_clock_begins_when_all_threads_exist() {
    // These MIPS are a million operations a µs: an operation of ep takes 51.02 instructions.
    let outcome = run("flsched", "npb:ep:8:1:spin:51020000").unwrap();
    let work = 537e-6 / 8.0;
    assert!((work..work * 1.1).contains(&outcome.time_s), "{}", outcome.time_s);
    assert!(outcome.whole_s > 2.0 * outcome.time_s, "{}", outcome.whole_s);
}

#[test]
fn npbs_first_iteration_is_not_timed() {
    let times = |steps: u64| {
        // These MIPS are 100 operations a µs: an operation of cg takes 3.56 instructions.
        let outcome = run("flsched", &format!("npb:cg:8:{steps}:spin:356")).unwrap();
        (outcome.time_s, outcome.whole_s)
    };
    let ((one, whole_one), (three, whole_three)) = (times(1), times(3));
    let within = |value: f64, expected: f64| (0.97..1.03).contains(&(value / expected));
    assert!(within(three, 3.0 * one), "{one} {three}");
    assert!(within(whole_one, 2.0 * one) && within(whole_three, 4.0 * one), "{whole_one} {whole_three}");
}

#[test]
fn endless_spinning_under_fifo_reaches_the_time_limit() {
    let mut setup = setup("fifo", "phases:16:2:100:0:spin");
    setup.limit = 2 * SECOND;
    assert!(matches!(Simulation::new(setup).unwrap().run(), Err(Error::Limit(_))));
}

/// Each barrier took two turns of 50 ms, 24 times as long as under EEVDF. The first turns still do.
#[test]
fn threads_that_only_spin_wait_for_ticks() {
    let time = |scheduler| run(scheduler, "phases:8:500:400:0:spin").unwrap().time_s;
    let ratio = time("flsched") / time("eevdf");
    assert!(ratio < 1.2, "{ratio}");
}

#[test]
fn processes_that_spin_wait_for_ticks() {
    let ranks = "[barriers.meet]\nparties = 8\nwait = \"spin\"\n\
                 [[task]]\nname = \"rank\"\ncount = 8\nrounds = 500\n\
                 steps = [{ run_us = 400 }, { barrier = \"meet\" }]\n";
    let (_file, workload) = file("tasks", ranks);
    let time = |scheduler| run(scheduler, &workload).unwrap().time_s;
    let ratio = time("flsched") / time("eevdf");
    assert!(ratio < 1.2, "{ratio}");
}

/// They share no memory, so none can wait for another one by spinning.
#[test]
fn processes_that_compute_alone_keep_long_turns() {
    let (_file, workload) =
        file("tasks", "[[task]]\nname = \"job\"\ncount = 32\nsteps = [{ run_us = 400000 }]\n");
    let switches = |scheduler| run(scheduler, &workload).unwrap().context_switches;
    let (ours, fair) = (switches("flsched"), switches("eevdf"));
    assert!(3 * ours < fair, "{ours} {fair}");
}

#[test]
fn a_chain_takes_the_work_of_all_its_links() {
    let outcome = run("fifo", "chain:4:50:1000").unwrap();
    assert!((0.2..0.21).contains(&outcome.time_s), "{}", outcome.time_s);
}

#[test]
fn a_graph_keeps_its_order_and_its_jobs() {
    let graph = "jobs = 2\n[[task]]\nname = \"compile\"\ncount = 4\nsteps = [{ run_us = 10000 }]\n\
                 [[task]]\nname = \"link\"\nneeds = [\"compile\"]\nsteps = [{ run_us = 5000 }]\n";
    let (_file, workload) = file("tasks", graph);
    let outcome = run("fifo", &workload).unwrap();
    assert!((0.025..0.0265).contains(&outcome.time_s), "{}", outcome.time_s);
    assert_eq!(outcome.tasks, 6);
}

#[test]
fn a_cpu_that_is_not_there_is_refused_before_the_run() {
    let (_file, workload) = file("tasks", "[[task]]\nname = \"a\"\ncpus = [8]\nsteps = [{ run_us = 1 }]\n");
    let error = run("fifo", &workload).unwrap_err();
    assert!(
        error.is_usage() && error.to_string().contains("no CPU 8; this machine has CPUs 0 to 7"),
        "{error}"
    );
}

#[test]
fn rt_app_keeps_its_periods_and_its_duration() {
    let json = "{ \"tasks\": { \"beat\": { \"run\": 1000, \"timer\": { \"ref\": \"unique\", \"period\": 10000 } },\n\
                \"a\": { \"loop\": 5, \"run\": 100, \"resume\": \"b\", \"sleep\": 1000 },\n\
                \"b\": { \"loop\": 5, \"suspend\": \"\", \"run\": 100 } },\n\"global\": { \"duration\": 1 } }";
    let (_file, workload) = file("rt-app", json);
    let outcome = run("flsched", &workload).unwrap();
    assert!((1.0..1.001).contains(&outcome.time_s), "{}", outcome.time_s);
    // 100 periods, and a few of a and b.
    assert!((100..120).contains(&outcome.wakeups), "{}", outcome.wakeups);
}

#[test]
fn rt_app_may_be_written_as_its_workgen_allows() {
    let (_file, workload) = file("rt-app", include_str!("rt-app/loose.json"));
    let outcome = run("flsched", &workload).unwrap();
    assert!((0.05..2.0).contains(&outcome.time_s), "{}", outcome.time_s);
    // The first process, that with the duration, and the four threads.
    assert_eq!(outcome.tasks, 6);
}

#[test]
fn rt_app_has_classes_and_suspends_by_the_threads_own_name() {
    let (_file, workload) = file("rt-app", include_str!("rt-app/classes.json"));
    let outcome = run("flsched", &workload).unwrap();
    assert!((1.0..1.001).contains(&outcome.time_s), "{}", outcome.time_s);
}

#[test]
fn a_trace_takes_as_long_again_on_a_machine_like_the_first() {
    let mut csv = "time_us,event,task,other\n".to_owned();
    for round in 0..100u64 {
        let at = round * 2000;
        let line = |at: u64, rest: &str| format!("{at},{rest}\n");
        if round > 0 {
            csv += &line(at - 1, "wake,b,a");
            csv += &line(at - 1, "sleep,b,");
        }
        csv += &line(at, "run,a,");
        csv += &line(at + 999, "wake,a,b");
        csv += &line(at + 1000, "sleep,a,");
        csv += &line(at + 1000, "run,b,");
    }
    let (_file, workload) = file("trace", &csv);
    let outcome = run("fifo", &workload).unwrap();
    assert!((0.195..0.205).contains(&outcome.time_s), "{}", outcome.time_s);
    assert!(outcome.wakeups >= 198, "{}", outcome.wakeups);
}

#[test]
fn a_recording_holds_all_the_time_that_tasks_ran() {
    let (outcome, recording) =
        Simulation::new(setup("flsched", "hackbench:process-pipe:1:5")).unwrap().run_recorded();
    let outcome = outcome.unwrap();
    let ran: u64 = recording.slices.iter().map(|slice| slice.to - slice.from).sum();
    let busy = outcome.busy_share * outcome.cpus as f64 * outcome.whole_s * 1e9;
    assert!((ran as f64 / busy - 1.0).abs() < 0.05, "{ran} of {busy}");
    assert!(recording.wake_ups.len() as u64 >= outcome.wakeups);
    // All but the first task are forked, and messages wake them; a waker runs when it does, or has just left.
    let runs_at = |task, at| {
        recording
            .slices
            .iter()
            .any(|slice| slice.task == task && (slice.from..=slice.to + 20_000).contains(&at))
    };
    let mut known = 0;
    for wake_up in &recording.wake_ups {
        let Some(by) = wake_up.by else { continue };
        known += 1;
        assert!(by != wake_up.task && runs_at(by, wake_up.at), "{wake_up:?}");
    }
    assert!(known * 10 > recording.wake_ups.len() * 9, "{known} of {}", recording.wake_ups.len());
    for cpu in 0..outcome.cpus {
        let mut last = 0;
        for slice in recording.slices.iter().filter(|slice| slice.cpu == cpu) {
            assert!(slice.from >= last && slice.to >= slice.from);
            last = slice.to;
        }
    }
    assert!(recording.queues.iter().all(|queue| queue.waiting >= 0));
    let waiting =
        |cpu| recording.queues.iter().rev().find(|queue| queue.cpu == cpu).map_or(0, |queue| queue.waiting);
    assert!((0..outcome.cpus).all(|cpu| waiting(cpu) == 0), "queues are empty in the end");

    let mut trace = Vec::new();
    write_trace(&recording, "test", &mut trace).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 2 * recording.slices.len());
    let picture = render_timeline(&recording, "a < b", Colouring::Task);
    assert!(picture.contains("a &lt; b") && picture.ends_with("</svg>\n"));
}

#[test]
fn a_recording_contains_frequencies() {
    let mut setup = setup("smove", "make:2:4");
    setup.machine = Arc::new(Machine::find("ryzen-3400g").unwrap());
    let (outcome, recording) = Simulation::new(setup).unwrap().run_recorded();
    let frequencies = outcome.unwrap().frequencies.unwrap();
    // The same time by frequency as the meters have: so the picture shows what the table says.
    let (mut mean, mut all) = (0.0, 0.0);
    for slice in &recording.slices {
        let mut tunings: Vec<_> = recording.tunings.iter().filter(|it| it.cpu == slice.cpu).collect();
        assert_eq!(tunings[0].at, 0);
        let last = flsched_recording::timeline::Tuning { at: u64::MAX, ..*tunings[0] };
        tunings.push(&last);
        for pair in tunings.windows(2) {
            let ns = slice.to.min(pair[1].at).saturating_sub(slice.from.max(pair[0].at)) as f64;
            mean += ns * f64::from(pair[0].mhz);
            all += ns;
        }
    }
    mean /= all;
    assert!((mean / frequencies.busy_mhz - 1.0).abs() < 0.01, "{mean} and {}", frequencies.busy_mhz);

    let mut trace = Vec::new();
    write_trace(&recording, "test", &mut trace).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    let counters = trace["traceEvents"].as_array().unwrap().iter();
    let counters = counters.filter(|event| event["ph"] == "C" && event["args"]["MHz"].is_u64());
    assert_eq!(counters.count(), recording.tunings.len());
    let picture = render_timeline(&recording, "test", Colouring::Frequency);
    for part in ["<title>1400 MHz</title>", "<title>4100 MHz</title>", ">MHz, from<"] {
        assert!(picture.contains(part), "{part}");
    }
}
