//! Comparisons in the simulator, whole.
use flsched_base::reports;
use flsched_compare::report::html;
use flsched_compare::residency::Source;
use flsched_compare::{CompareSpec, Event, Outputs, Report, SimExecutor, compare};
use flsched_machine::Machine;
use std::path::Path;
use std::sync::Arc;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

fn run(schedulers: &[&str], workloads: &[&str], jobs: usize, json: Option<&Path>) -> Report {
    let spec = CompareSpec {
        runs: 3,
        seed: 7,
        ..CompareSpec::simulated(&words(schedulers), &words(workloads)).unwrap()
    };
    let machine = Machine::find("ryzen-3400g").unwrap();
    let cancel = Arc::new(false.into());
    let mut executor = SimExecutor::new(machine, &spec.workloads, jobs, Arc::clone(&cancel)).unwrap();
    let outputs = Outputs { json: json.map(Path::to_path_buf), html: None };
    compare(&spec, &mut executor, &mut |_: &Event<'_>| {}, &outputs, &cancel).unwrap()
}

#[test]
fn a_comparison_has_all_that_others_have() {
    let report = run(&["fifo", "flsched"], &["hackbench:process-pipe:2:20", "requests:1:4:20:3000"], 1, None);
    assert!(report.complete && report.results.len() == 6);
    assert_eq!((report.kernel.as_str(), report.cpus), ("6.18, modelled", 8));
    assert_eq!(report.environment.topology.cores, 4);
    for result in &report.results {
        assert_eq!((result.times_s.len(), result.attached_proof.verified), (3, 3), "{result:?}");
        assert!(result.context_switches.is_some() && result.migrations.is_some());
        let figure = |name: &str| result.figures.iter().find(|figure| figure.name == name);
        assert!(figure("lock_wait_percent").is_some());
        assert!(figure("busy_mhz").is_some_and(|mhz| (1400.0..=4200.0).contains(&mhz.median)));
        let residency = result.residency.as_ref().unwrap();
        assert_eq!(residency.source, Source::Model);
        assert!(residency.cpus_s.keys().all(|cpu| *cpu < 8));
        assert!(residency.all_s.keys().all(|mhz| (1400..=4200).contains(mhz)));
        assert!((residency.shares().values().sum::<f64>() - 1.0).abs() < 1e-9);
    }
    let of_requests = &report.results[3];
    assert_eq!(of_requests.time_is.as_deref(), Some("99th percentile of the wake-up latency"));
    assert_eq!(of_requests.figures[0].name, "wakeup_p50_us");
}

#[test]
fn a_file_has_all_that_its_page_shows() {
    let folder = tempfile::tempdir().unwrap();
    let [json, page] = ["r.json", "r.html"].map(|name| folder.path().join(name));
    let report = run(&["cfs", "flsched"], &["make:4:6", "requests:1:4:20:100"], 1, Some(&json));
    Outputs { json: None, html: Some(page.clone()) }.write(&report).unwrap();
    let again: Report = reports::read(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(again, report);
    assert_eq!(html::page(&again, "r"), std::fs::read_to_string(page).unwrap());
}

#[test]
fn the_same_seed_gives_the_same_bytes_however_many_runs_are_done_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |jobs: usize| {
        let path = folder.path().join(format!("{jobs}.json"));
        run(&["fifo", "flsched"], &["make:4:6", "chain:4:20:10"], jobs, Some(&path));
        std::fs::read(path).unwrap()
    };
    let one = bytes(1);
    assert_eq!(one, bytes(2));
    assert_eq!(one, bytes(3));
}

#[test]
fn smove_without_frequencies_is_warned_of() {
    let warnings = |machine: &str| {
        let spec = CompareSpec::simulated(&words(&["smove"]), &words(&["chain:2:5:10"])).unwrap();
        let cancel = Arc::new(false.into());
        let machine = Machine::find(machine).unwrap();
        let mut executor = SimExecutor::new(machine, &spec.workloads, 1, Arc::clone(&cancel)).unwrap();
        compare(&spec, &mut executor, &mut |_: &Event<'_>| {}, &Outputs::default(), &cancel).unwrap().warnings
    };
    assert!(warnings("knc-31s1p").iter().any(|text| text.contains("knc-31s1p do not change")));
    assert!(!warnings("ryzen-3400g").iter().any(|text| text.contains("frequenc")));
}

#[test]
fn seeds_differ_from_run_to_run_and_not_from_scheduler_to_scheduler() {
    let report = run(&["fifo", "fifo"][..1], &["make:4:6"], 1, None);
    let (first, again) = (&report.results[0].times_s, &report.results[1].times_s);
    assert!(first[0] != first[1] && first[1] != first[2], "{first:?}");
    assert!(first.iter().all(|time| !again.contains(time)), "{first:?} {again:?}");
}

#[test]
fn a_run_that_does_not_end_is_reported_as_hung() {
    // Spinning threads under FIFO: those that wait for a CPU never reach the barrier.
    let spec = CompareSpec {
        runs: 1,
        limit: std::time::Duration::from_secs(1),
        ..CompareSpec::simulated(&words(&["fifo"]), &words(&["phases:64:1000000:10:0:spin"])).unwrap()
    };
    let cancel = Arc::new(false.into());
    let machine = Machine::find("ryzen-3400g").unwrap();
    let mut executor = SimExecutor::new(machine, &spec.workloads, 1, Arc::clone(&cancel)).unwrap();
    let report =
        compare(&spec, &mut executor, &mut |_: &Event<'_>| {}, &Outputs::default(), &cancel).unwrap();
    assert_eq!(report.results[0].failed.len(), 1);
    assert!(report.results[0].time_s.is_none());
}

#[test]
fn what_the_simulator_does_not_have_is_refused() {
    let refused = |scheduler: &str, workload: &str| {
        CompareSpec::simulated(&words(&[scheduler]), &words(&[workload])).unwrap_err().to_string()
    };
    assert!(refused("flshed", "hackbench").contains("did you mean `flsched`"));
    assert!(refused("fifo", "hackbnech").contains("did you mean `hackbench`"));
    assert!(refused("fifo,fifo", "hackbench").contains("named twice"));
}

#[test]
fn a_scenario_is_compared_like_other_workloads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hotplug.toml");
    let text = |more: &str| {
        format!(
            "seed = 1\nmachine = \"ryzen-3400g\"\ncpus = 8\nscheduler = \"rr\"\nlimit_ms = 1000\n{more}\n\
             [[task]]\ncount = 8\nrounds = 20\nsteps = [{{ run_us = 1000 }}, {{ sleep_us = 50 }}]\n"
        )
    };
    let workload = format!("scenario:{}", path.display());
    let compared = |more: &str| {
        std::fs::write(&path, text(more)).unwrap();
        run(&["fifo", "flsched"], &[&workload], 1, None)
    };
    let report = compared("");
    assert_eq!(report.results.len(), 3);
    let time = |report: &Report, of: usize| report.results[of].time_s.as_ref().unwrap().median;
    for result in &report.results {
        assert_eq!((result.workload.as_str(), result.times_s.len()), (workload.as_str(), 3), "{result:?}");
    }
    // Seven CPUs go offline before the first task is done: one does the work of eight.
    let events: Vec<String> =
        (1..8).map(|cpu| format!("{{ at_us = {}, offline = {cpu} }}", 100 * cpu)).collect();
    let alone = compared(&format!("event = [{}]", events.join(", ")));
    for of in 0..3 {
        assert!(time(&alone, of) > 4.0 * time(&report, of), "{} {}", time(&alone, of), time(&report, of));
    }
    // The limit is the scenario's.
    std::fs::write(&path, text("").replace("limit_ms = 1000", "limit_ms = 10")).unwrap();
    let hung = run(&["fifo"], &[&workload], 1, None);
    let reason = &hung.results[0].failed[0].reason;
    assert!(hung.results[0].time_s.is_none() && reason.contains("0.010000000 s"), "{reason}");
}

#[test]
fn a_scenario_that_does_not_fit_the_machine_is_refused_before_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.toml");
    let refused = |text: &str, cpus: usize| {
        std::fs::write(&path, text).unwrap();
        let workload = format!("scenario:{}", path.display());
        let spec = CompareSpec::simulated(&words(&["fifo"]), &[workload]).unwrap();
        let machine = Machine::find("ryzen-3400g").unwrap().with_cpus(cpus).unwrap();
        let Err(error) = SimExecutor::new(machine, &spec.workloads, 1, Arc::new(false.into())) else {
            panic!("{text} is run on {cpus} CPUs")
        };
        let error = error.to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        error
    };
    let head = "seed = 1\nmachine = \"ryzen-3400g\"\ncpus = 4\nscheduler = \"rr\"\nlimit_ms = 1000\n";
    let text = format!("{head}workload = \"hogs:4:5\"\nevent = [{{ at_us = 5, offline = 3 }}]\n");
    assert!(refused(&text, 2).contains("event 1: there is no CPU 3; CPUs are 0 to 1"));
    let text = format!("{head}task = [{{ steps = [{{ pin = 3 }}] }}]\n");
    assert!(refused(&text, 2).contains("task 1: there is no CPU 3; CPUs are 0 to 1"));
    assert!(refused(&format!("{head}speed = 5\n"), 4).contains("unknown field `speed`"));
    let text = format!("{head}workload = \"scenario:{}\"\n", path.display());
    assert!(refused(&text, 4).contains("a scenario has no other one as its workload"));
}

#[test]
fn a_file_of_tasks_is_read_once_before_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.toml");
    let workload = format!("tasks:{}", path.display());
    let spec = CompareSpec {
        runs: 2,
        ..CompareSpec::simulated(&words(&["fifo"]), std::slice::from_ref(&workload)).unwrap()
    };
    let cancel = Arc::new(false.into());
    let executor = || {
        let machine = Machine::find("ryzen-3400g").unwrap();
        SimExecutor::new(machine, &spec.workloads, 1, Arc::clone(&cancel))
    };
    let Err(error) = executor() else { panic!("{workload} is not there") };
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");

    std::fs::write(&path, "[[task]]\nsteps = [{ run_us = 100 }]\n").unwrap();
    let mut executor = executor().unwrap();
    std::fs::remove_file(&path).unwrap();
    let report =
        compare(&spec, &mut executor, &mut |_: &Event<'_>| {}, &Outputs::default(), &cancel).unwrap();
    assert_eq!(report.results[0].times_s.len(), 2);
}

#[test]
fn timelines_are_drawn_and_written_beside_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let words = |list: &[&str]| words(list);
    let schedulers = words(&["eevdf", "flsched"]);
    let spec = CompareSpec {
        runs: 1,
        seed: 7,
        timeline: true,
        ..CompareSpec::simulated(&schedulers, &words(&["hackbench:process-pipe:2:200"])).unwrap()
    };
    let cancel = Arc::new(false.into());
    let machine = Machine::find("ryzen-3400g").unwrap();
    let mut executor = SimExecutor::new(machine, &spec.workloads, 2, Arc::clone(&cancel)).unwrap();
    let [json, html] = ["page.json", "page.html"].map(|name| Some(folder.path().join(name)));
    let outputs = Outputs { json, html };
    let report = compare(&spec, &mut executor, &mut |_: &Event<'_>| {}, &outputs, &cancel).unwrap();
    // Of each scheduler once, and not of the second copy of the first.
    let of: Vec<_> = report.results.iter().map(|it| (it.scheduler.as_str(), it.timeline.is_some())).collect();
    assert_eq!(of, [("eevdf", true), ("eevdf (again)", false), ("flsched", true)]);
    assert_eq!(report.results[0].times_s.len(), 1, "its time does not count");

    let data = std::fs::read(folder.path().join("page.json")).unwrap();
    let read: Report = serde_json::from_slice(&data).unwrap();
    assert_eq!(read.timelines, report.timelines);
    let shown: Vec<_> =
        read.timelines["hackbench:process-pipe:2:200"].runs.iter().map(|it| it.scheduler.as_str()).collect();
    assert_eq!(shown, ["eevdf", "flsched"]);
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.len() < 1_000_000 && page.contains("differ most"), "{}", page.len());
    assert_eq!(page.matches("<figure class=\"timeline\"").count(), 4, "whole and in part");
    for scheduler in ["eevdf", "flsched"] {
        let name = format!("page-hackbench-process-pipe-2-200-{scheduler}.json.gz");
        assert!(page.contains(&name) && folder.path().join(&name).metadata().unwrap().len() > 1000, "{name}");
    }
}
