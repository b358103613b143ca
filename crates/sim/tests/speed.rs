//! Whole runs in which CPUs are not equally fast: SMT, frequencies, caches, small cores.
use flsched_machine::Machine;
use flsched_sim::output::Outcome;
use flsched_sim::scenario::Scenario;
use flsched_sim::schedulers::warning;
use flsched_sim::workload::load;
use flsched_sim::{Setup, Simulation};
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use std::sync::Arc;

fn run(machine: Machine, scheduler: &str, workload: &str) -> Outcome {
    let setup = Setup {
        machine: Arc::new(machine),
        scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
        workload: load(&Model::read(workload).unwrap()).unwrap(),
        seed: 1,
        limit: 1_000_000_000_000,
    };
    Simulation::new(setup).unwrap().run().unwrap()
}

fn find(name: &str) -> Machine {
    Machine::find(name).unwrap()
}

fn close(found: f64, expected: f64, by: f64) -> bool {
    (found / expected - 1.0).abs() < by
}

#[test]
fn threads_of_a_core_take_from_each_other() {
    // One core of four threads: up to two are as fast as one, four have half a thread's speed each.
    for (hogs, seconds) in [(1, 0.1), (2, 0.1), (3, 0.15), (4, 0.2)] {
        let time = run(find("knc-31s1p").with_cpus(4).unwrap(), "fifo", &format!("hogs:{hogs}:100")).time_s;
        assert!(close(time, seconds, 0.03), "{hogs} hogs: {time} s");
    }
}

#[test]
fn tasks_with_a_core_each_run_at_full_speed() {
    // As many tasks as a package has cores, and whole cores come first: no two tasks share a core.
    let time =
        run(find("xeon-e7-8870v4-4s").with_governor("performance").unwrap(), "flsched", "hogs:20:100").time_s;
    // 20 active cores: 2.6 of 3.0 GHz, and forks one after another.
    assert!(close(time, 0.1 * 3000.0 / 2600.0, 0.1), "{time} s");
}

#[test]
fn a_cold_core_needs_29_ms_to_its_best() {
    let hot =
        run(find("xeon-e7-8870v4-4s").with_governor("performance").unwrap(), "fifo", "hogs:1:100").time_s;
    let cold = run(find("xeon-e7-8870v4-4s"), "fifo", "hogs:1:100").time_s;
    assert!(close(hot, 0.1, 0.02), "{hot} s");
    // 10 ms each at 1.2, 1.8 and 2.4 GHz, then 3.0: 12 ms of work are missing after 30.
    let lost = cold - hot;
    assert!((0.008..0.020).contains(&lost), "{lost} s are lost");
}

#[test]
fn a_sleeping_machine_comes_to_rest() {
    // A governor that never rests would keep events in the queue, and the run from its end.
    for governor in ["performance", "powersave", "schedutil"] {
        let outcome = run(find("ryzen-3400g").with_governor(governor).unwrap(), "flsched", "hogs:4:20");
        assert!(outcome.time_s < 0.1, "{governor}: {} s", outcome.time_s);
    }
}

#[test]
fn governors_order_as_they_should() {
    let time =
        |governor| run(find("ryzen-3400g").with_governor(governor).unwrap(), "fifo", "hogs:2:50").time_s;
    let (performance, powersave, schedutil) = (time("performance"), time("powersave"), time("schedutil"));
    assert!(performance < schedutil && performance < powersave, "{performance} {powersave} {schedutil}");
}

/// A hog that computes for 200 ms on CPU 0, then does `steps`; `events` come from outside.
fn hog(scheduler: &str, steps: &str, events: &str) -> Outcome {
    let text = format!(
        "seed = 1\nmachine = \"epyc-2s-768t\"\ncpus = 16\nscheduler = \"{scheduler}\"\nlimit_ms = 10000\n\
         [[task]]\nsteps = [{{ pin = 0 }}, {{ run_us = 200000 }}, {steps}]\n{events}"
    );
    Scenario::parse(&text, "it").unwrap().run().unwrap()
}

/// From 1,500 to 3,700 MHz in three steps of a ms costs 1.6 ms. A CPU that knows nothing of the task takes 30 ms.
#[test]
fn a_hog_takes_its_frequency_along() {
    for scheduler in ["eevdf", "cfs"] {
        let stays = hog(scheduler, "{ run_us = 20000 }", "").time_s;
        let moves = hog(scheduler, "{ pin = 8 }, { run_us = 20000 }", "").time_s;
        assert!((0.0005..0.0025).contains(&(moves - stays)), "{scheduler}: {stays} s, then {moves} s");
    }
}

/// While it sleeps its utilisation falls to an eighth, but not what it is expected to use.
#[test]
fn a_hog_that_wakes_on_a_cold_cpu_is_soon_fast() {
    let event = "[[event]]\nat_us = 290000\naffinity = { task = 1, cpus = [8] }\n";
    for scheduler in ["eevdf", "cfs"] {
        let stays = hog(scheduler, "{ run_us = 20000 }", "").time_s;
        let wakes = hog(scheduler, "{ sleep_us = 100000 }, { run_us = 20000 }", event);
        let lost = wakes.time_s - stays - 0.1;
        assert!((0.0005..0.0025).contains(&lost), "{scheduler}: {lost} s");
        assert!(wakes.frequencies.unwrap().cpus[&8].busy_mhz > 3400.0);
    }
}

/// The other half of a CPU's capacity is not expected of it, so five eighths of the frequency are asked for.
#[test]
fn a_new_hog_is_expected_to_use_half_of_its_cpu() {
    for scheduler in ["eevdf", "cfs"] {
        let text = format!(
            "seed = 1\nmachine = \"epyc-2s-768t\"\ncpus = 16\nscheduler = \"{scheduler}\"\nlimit_ms = 10000\n\
             [[task]]\ncpus = [8]\nsteps = [{{ run_us = 5000 }}]\n"
        );
        let outcome = Scenario::parse(&text, "it").unwrap().run().unwrap();
        let mhz = outcome.frequencies.unwrap().cpus[&8].busy_mhz;
        // 1,500 MHz for a ms, then from 2,312 MHz upward.
        assert!((2200.0..2600.0).contains(&mhz), "{scheduler}: {mhz} MHz");
    }
}

#[test]
fn real_time_asks_for_all() {
    let text = "seed = 1\nmachine = \"epyc-2s-768t\"\ncpus = 16\nscheduler = \"fifo\"\nlimit_ms = 10000\n\
                [[task]]\ncpus = [8]\nsteps = [{ run_us = 50000 }]\n";
    let outcome = Scenario::parse(text, "it").unwrap().run().unwrap();
    assert!(outcome.frequencies.unwrap().cpus[&8].busy_mhz > 3550.0);
}

#[test]
fn cold_caches_cost_time() {
    // Two tasks a CPU alternate: each must fetch its data anew after every switch.
    let time = |kib: u64| {
        let scheduler = "flsched:slice_us=2000,max_delay_us=4000";
        run(find("i7-2670qm"), scheduler, &format!("hogs:32:200:{kib}")).time_s
    };
    let (none, some, much) = (time(0), time(64), time(2048));
    assert!(none < some && some < much, "{none} {some} {much}");
    assert!(much < 2.0 * none, "{none} {much}");
}

#[test]
fn threads_on_several_cores_pay_for_the_lines_that_they_share() {
    let time = |settings: &[&str], tasks: &str, lines: u64| {
        let settings: Vec<_> = settings.iter().map(|setting| setting.parse().unwrap()).collect();
        let machine = Machine::find_with("i7-2670qm", &settings).unwrap().with_cpus(2).unwrap();
        run(machine, "rr", &format!("co-threads:{tasks}:64:1:100:{lines}")).time_s
    };
    let two_cores = ["topology.threads_per_core=1", "smt=[100]"];
    // 1000 lines in each 100 µs of work, at 3.0 of 3.1 GHz; the other one has half of them, 35 ns away.
    let slower = time(&two_cores, "1:2", 10) / time(&two_cores, "1:2", 0);
    assert!(close(slower, 1.0 + 17.5 / 103.3, 0.01), "{slower}");
    let farther = ["topology.threads_per_core=1", "smt=[100]", "costs.handover_ns.cache=70"];
    let slower = time(&farther, "1:2", 10) / time(&farther, "1:2", 0);
    assert!(close(slower, 1.0 + 35.0 / 103.3, 0.01), "{slower}");
    // Not for two processes, nor on one core.
    assert!(close(time(&two_cores, "2:1", 10), time(&two_cores, "2:1", 0), 1e-3));
    assert!(close(time(&[], "1:2", 10), time(&[], "1:2", 0), 1e-3));
}

#[test]
fn small_cores_are_slower() {
    let text = include_str!("../../../machines/ryzen-3400g.toml");
    let text = text
        .replace("cores_per_cache = 4", "cores_per_cache = 1")
        .replace("numbering = ", "small = { cores_per_cache = 1, percent = 50 }\nnumbering = ");
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let machine = find(file.path().to_str().unwrap()).with_governor("performance").unwrap();
    assert_eq!(machine.nr_cpus(), 3);
    // The core's two threads at 62 % and the small core at 50 %: the last hog ends there.
    let time = run(machine, "fifo", "hogs:3:100").time_s;
    assert!(close(time, 0.2, 0.03), "{time} s");
}

#[test]
fn even_machines_do_not_change_their_speed() {
    let time = run(find("xeon-e7-8870v4-4s").even(), "fifo", "hogs:160:100").time_s;
    assert!((0.1..0.13).contains(&time), "{time} s");
}

#[test]
fn smove_keeps_tasks_off_slow_cores() {
    let run = |machine: Machine, strategy: &str| {
        let outcome = run(machine, &format!("smove:strategy={strategy}"), "make:2:20");
        (outcome.stats.clone(), outcome.frequencies.unwrap().busy_mhz)
    };
    for name in ["xeon-e7-8870v4-4s", "ryzen-3400g"] {
        let (stats, mhz) = run(find(name), "smove");
        // Two forks a file, whose parents wait for their children at once.
        assert!(stats["avoided"] > 80, "{name}: {stats:?}");
        assert_eq!(stats["avoided"], stats["cancelled"] + stats["expired"], "{name}: {stats:?}");
        assert!(stats["cancelled"] > 9 * stats["expired"], "{name}: {stats:?}");
        let (stats, mhz_without) = run(find(name), "off");
        assert!(stats["avoided"] == 0 && stats["warm"] > 60, "{name}: {stats:?}");
        assert!(mhz > 1.03 * mhz_without, "{name}: {mhz} instead of {mhz_without} MHz");
        let (stats, _) = run(find(name).with_governor("performance").unwrap(), "smove");
        assert!(stats["avoided"] == 0 && stats["warm"] > 60, "{name}, performance: {stats:?}");
    }
}

#[test]
fn busy_time_is_reported_by_frequency() {
    let frequencies = run(find("xeon-e7-8870v4-4s"), "fifo", "hogs:1:100").frequencies.unwrap();
    let share = |mhz: u32| frequencies.shares().find(|(step, _)| *step == mhz).map_or(0.0, |it| it.1);
    // 10 ms each at 1.2, 1.8 and 2.4 GHz, 82 ms at 3.0.
    for (mhz, expected) in [(1200, 0.09), (1800, 0.09), (2400, 0.09), (3000, 0.73)] {
        assert!((share(mhz) - expected).abs() < 0.02, "{mhz}: {frequencies:?}");
    }
    let mean = 0.09 * (1200.0 + 1800.0 + 2400.0) + 0.73 * 3000.0;
    assert!(close(frequencies.busy_mhz, mean, 0.02), "{frequencies:?}");
    assert_eq!(run(find("knc-31s1p"), "fifo", "hogs:1:10").frequencies, None);
}

#[test]
fn a_threshold_is_one_of_the_machines_frequencies() {
    for (mhz, is_right) in [(0, true), (1199, false), (1200, true), (3000, true), (3001, false)] {
        let setup = Setup {
            machine: Arc::new(find("xeon-e7-8870v4-4s")),
            scheduler: Scheduler::read(&format!("smove:threshold_mhz={mhz}"), Target::Sim).unwrap(),
            workload: load(&Model::read("hogs:1:1").unwrap()).unwrap(),
            seed: 1,
            limit: 1_000_000_000,
        };
        match Simulation::new(setup) {
            Ok(_) => assert!(is_right, "{mhz}"),
            Err(error) => assert!(
                !is_right && error.is_usage() && error.to_string().contains("1200 to 3000"),
                "{mhz}: {error}"
            ),
        }
    }
}

#[test]
fn a_machine_without_a_choice_of_frequencies_gets_a_warning() {
    let warning = |scheduler: &str, machine: Machine| {
        warning(&Scheduler::read(scheduler, Target::Sim).unwrap(), &machine)
    };
    for (machine, word) in [
        (find("knc-31s1p"), "do not change"),
        (find("ryzen-3400g").with_governor("performance").unwrap(), "pins"),
        (find("i7-2670qm").with_governor("schedutil").unwrap(), "one frequency"),
    ] {
        assert_eq!(warning("flsched", machine.clone()), None);
        assert!(warning("smove", machine).is_some_and(|text| text.contains(word)), "{word}");
    }
    assert_eq!(warning("smove", find("ryzen-3400g")), None);
}

#[test]
fn governors_need_frequencies() {
    let error = find("knc-31s1p").with_governor("powersave").unwrap_err();
    assert!(error.to_string().contains("do not change"), "{error}");
    let error = find("ryzen-3400g").with_governor("ondemand").unwrap_err();
    assert!(error.to_string().contains("schedutil"), "{error}");
}

#[test]
fn all_cpu_time_is_spent_on_something() {
    for (machine, scheduler, workload) in [
        ("knc-31s1p", "cfs", "hackbench:process-pipe:8:20"),
        ("knc-31s1p", "flsched", "npb:cg:228:1"),
        ("ryzen-3400g", "eevdf", "make:2:20"),
        ("i7-2670qm", "fifo", "hogs:32:20:2048"),
    ] {
        let outcome = run(find(machine), scheduler, workload);
        let busy = outcome.busy_share * outcome.whole_s * outcome.cpus as f64;
        let spent = outcome.cpu_time.busy_ns as f64 / 1e9;
        // The switch to the idle task counts as idle time.
        assert!(close(spent, busy, 0.03), "{scheduler}, {workload}: {spent} of {busy} s");
        let shares: f64 = outcome.cpu_time.rests_on.values().sum();
        assert!(close(shares, 1.0, 1e-9), "{shares}");
    }
}

#[test]
fn a_result_says_how_certain_its_prices_are() {
    let outcome = run(find("knc-31s1p").with_cpus(4).unwrap(), "flsched", "hogs:4:100");
    let share =
        |name: &str| outcome.cpu_time.uses.iter().find(|it| it.name == name).map_or(0.0, |it| it.share);
    // Four threads of a core take from each other as long again as they work.
    assert!(close(share("work"), 0.5, 0.02), "{:?}", outcome.cpu_time);
    assert!(close(share("smt, frequency"), 0.5, 0.02), "{:?}", outcome.cpu_time);
    assert!(close(outcome.cpu_time.rests_on["published"], 0.5, 0.02), "{:?}", outcome.cpu_time);
    let outcome = run(find("parallel-clock").with_cpus(16).unwrap(), "eevdf", "hackbench:process-pipe:1:300");
    // The rest of the time but that in which tasks wait for each other's copies.
    let rests_on = &outcome.cpu_time.rests_on;
    let sure = rests_on["measured"] / (1.0 - rests_on["waiting"]);
    assert!(sure > 0.9, "{:?}", outcome.cpu_time);
    let text = flsched_sim::output::render(&outcome);
    assert!(text.contains("CPU time rests on") && text.contains("% measured"), "{text}");
}

#[test]
fn energy_is_that_of_the_packages_and_of_each_core_by_its_frequency() {
    let energy = |cpus: Option<usize>, workload: &str| {
        let machine = find("xeon-e7-8870v4-4s").with_governor("performance").unwrap();
        let machine = cpus.map_or(machine.clone(), |cpus| machine.with_cpus(cpus).unwrap());
        let outcome = run(machine, "fifo", workload);
        let frequencies = outcome.frequencies.unwrap();
        (frequencies.energy.unwrap(), outcome.whole_s, frequencies.busy_s_by_mhz.values().sum::<f64>())
    };
    // One of 80 cores at 3.0 GHz.
    let (found, run_s, busy_s) = energy(None, "hogs:1:100");
    let cores_j = 9.8 * busy_s + 0.3 * (80.0 * run_s - busy_s);
    assert!(close(found.core_energy_j, cores_j, 0.01), "{found:?}, {cores_j} J");
    assert!(close(found.energy_j, cores_j + 4.0 * 50.0 * run_s, 0.01), "{found:?}");
    // A core draws the same with both of its threads.
    let (found, run_s, busy_s) = energy(Some(2), "hogs:2:100");
    assert!(busy_s > 1.9 * run_s && close(found.core_energy_j, 9.8 * run_s, 0.02), "{found:?}");
    assert!(run(find("epyc-2s-768t"), "fifo", "hogs:1:1").frequencies.is_none_or(|all| all.energy.is_none()));
}
