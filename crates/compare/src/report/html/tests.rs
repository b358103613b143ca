//! Tests of the page with an invented report.
use super::*;
use crate::environment::{Environment, VmEnvironment};
use crate::execute::{Ending, Proof, RunOutcome};
use crate::plan::{arms, plan};
use crate::result::Breakdown;
use crate::spec::CompareSpec;
use crate::summary::{Record, results};
use crate::verdict::Verdict;
use crate::warnings::warnings;
use flsched_probes::why::Why;
use std::collections::BTreeMap;

fn page(report: &Report) -> String {
    super::page(report, "page")
}

/// Median time, spread, context switches.
type Behaviour = (f64, f64, u64);

fn behaviour(workload: usize, scheduler: &str) -> Behaviour {
    match (workload, scheduler) {
        (0, "batch") => (0.541, 0.012, 24_900),
        (0, "fifo") => (0.462, 0.004, 14_310),
        (0, "rr") => (0.466, 0.006, 14_350),
        (0, "flsched") => (0.378, 0.003, 2_013),
        (0, _) => (0.540, 0.008, 25_012),
        (_, "batch") => (0.497, 0.02, 118_000),
        (_, "fifo") => (1.104, 0.05, 240_100),
        (_, "rr") => (0.771, 0.04, 160_400),
        (_, "flsched") => (0.331, 0.012, 11_020),
        _ => (0.502, 0.015, 117_500),
    }
}

/// An invented report of a comparison with two workloads.
pub(in crate::report) fn sample() -> Report {
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let schedulers = words(&CompareSpec::SCHEDULERS);
    let spec = CompareSpec::new(&schedulers, &[], 4, Vec::new()).unwrap();
    let command_line = words(&["flsched", "compare", "--cpus", "4"]);
    let spec = CompareSpec { seed: 42, command_line, ..spec };
    let arms = arms(spec.schedulers.len());
    let mut records = Vec::new();
    for (index, step) in plan(2, spec.schedulers.len(), 5, 42).into_iter().enumerate() {
        let name = spec.schedulers[arms[step.arm].scheduler].to_string();
        let (time, spread, switches) = behaviour(step.workload, &name);
        // Spread evenly over [-1, 1], in an order without a pattern.
        let deviation = ((index * 37 + step.arm * 11) % 21) as f64 / 10.0 - 1.0;
        let outcome = RunOutcome {
            context_switches: Some(switches + (index as u64 * 13) % 50),
            migrations: Some(switches / 20),
            yields: (step.workload == 1).then_some(switches * 2),
            proof: Proof { holds: true, ..Proof::default() },
            scheduler_version: Some(if name == "flsched" { "0.1.0" } else { "kernel 6.18.15" }.into()),
            ..RunOutcome::without_measurement(Ending::Timed { time_s: time + spread * deviation })
        };
        records.push(Record { run: index + 1, step, outcome });
    }
    let stalled = records.iter_mut().rfind(|it| it.step.workload == 1 && it.step.arm == 4).unwrap();
    let reason = "runnable task stall (<b>cc1</b>[712] failed to run for 30.1s)".to_string();
    stalled.outcome.ending = Ending::Ejected { reason };
    stalled.outcome.proof.holds = false;
    let environment = Environment {
        kernel: "6.18.15+deb14-cloud-amd64".into(),
        kernel_version: "#1 SMP PREEMPT_DYNAMIC Debian 6.18.15-1".into(),
        cpus: 4,
        cpu_model: Some("QEMU TCG CPU version 2.5+".into()),
        sysctl: BTreeMap::from([
            ("sched_rt_period_us".into(), "1000000".into()),
            ("sched_rt_runtime_us".into(), "950000".into()),
        ]),
        vm: Some(VmEnvironment {
            qemu_version: Some("QEMU emulator version 10.0.8".into()),
            accel: "tcg,thread=single,icount,parallel".into(),
            accel_note: None,
            turn: Some(1000),
            pause_ns: Some(140),
            jitter: None,
            memory_model: None,
            memory_mib: 1024,
            boot_s: 6.2,
            host_kernel: "6.1.0".into(),
            host_cpus: 2,
            host_cpu_model: Some("Example CPU <script>alert(1)</script>".into()),
            host_load_average: vec![0.2, 0.1, 0.0],
        }),
        ..Environment::default()
    };
    let (noise, results) = results(&spec, &arms, &records);
    Report {
        flsched_version: "0.1.0".into(),
        clock: spec.clock,
        kernel: environment.kernel.clone(),
        cpus: environment.cpus,
        seed: spec.seed,
        runs: spec.runs,
        on: spec.on,
        complete: true,
        started_at: "2026-01-31T12:00:00Z".into(),
        duration_s: 312.0,
        command_line: "flsched compare --cpus 4".into(),
        limit_s: 300.0,
        warnings: warnings(&spec, &environment, &results),
        environment,
        published: Default::default(),
        noise,
        results,
        timelines: Default::default(),
    }
}

/// The same, with breakdowns for the first workload.
pub(in crate::report) fn broken_down() -> Report {
    let mut report = sample();
    let workload = report.results[0].workload.clone();
    let here =
        |result: &&mut ArmResult| result.workload == workload && !result.scheduler.ends_with(" (again)");
    for result in report.results.iter_mut().filter(here) {
        let time_s = result.time_s.map_or(0.0, |time| time.median * 1.05);
        let shares =
            Why { user: 60.0, of_which_vain: 4.0, kernel: 15.0, idle_nothing: 25.0, ..Why::default() };
        let why = Why { span_s: time_s, cpus: 4, ..shares };
        result.why = Some(Breakdown { time_s, longer_percent: Some(5.0), why });
    }
    report
}

#[test]
fn the_breakdown_is_drawn_where_there_is_one() {
    let page = page(&broken_down());
    assert_eq!(page.matches("<h3>Where the CPU time went").count(), 1, "one workload has it");
    // A bar of nine parts and a row for each of five schedulers.
    assert_eq!(page.matches("<rect class=\"cause ").count(), 5 * 9);
    assert!(page.contains("<title>idle, nothing to run: 25.0 %</title>"));
    assert!(!super::page(&sample(), "page").contains("Where the CPU time went"));
}

#[test]
fn nothing_from_outside_becomes_markup() {
    let page = page(&sample());
    assert!(!page.contains("<script") && !page.contains("<b>cc1"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("&lt;b&gt;cc1&lt;/b&gt;"));
}

#[test]
fn one_file_and_nothing_to_load() {
    let page = page(&sample());
    for loading in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(loading), "{loading}");
    }
}

#[test]
fn says_what_was_found_and_what_was_lost() {
    let page = page(&sample());
    for needed in [
        "flsched 1.43× faster than eevdf [",
        "slower than eevdf [",
        "can’t tell from eevdf",
        "ejected by the kernel in 1 of 5 runs",
        "kernel 6.18.15+deb14-cloud-amd64",
        "turn 1000, pause 140 ns",
        "<h3>Time</h3>",
        "seed 42",
        "prefers-color-scheme: dark",
    ] {
        assert!(page.contains(needed), "{needed} is missing");
    }
}

#[test]
fn equals_share_the_headline() {
    let mut report = sample();
    let headline_of = |report: &Report| View::new(report).workloads[0].headline.clone();
    assert!(headline_of(&report).starts_with("flsched 1.43× faster than eevdf ["));
    let flsched = report.results.iter().find(|it| it.scheduler == "flsched").unwrap().clone();
    report.results[4].time_s = flsched.time_s;
    report.results[4].ratio_to_first = Some(1.42);
    assert_eq!(headline_of(&report), "rr and flsched 1.42–1.43× faster than eevdf");
    report.results.iter_mut().for_each(|it| it.verdict = Verdict::CantTell);
    assert_eq!(headline_of(&report), "No scheduler was shown to be faster than eevdf");
}

#[test]
fn work_is_no_time() {
    let mut report = sample();
    report.clock = Clock::Work;
    let whole = page(&report);
    for needed in [
        "flsched 1.43× less work than eevdf [",
        "more work than eevdf [",
        "<h3>Work</h3>",
        "<th>work s</th>",
        "seconds of work",
        "work of the first / its work",
    ] {
        assert!(whole.contains(needed), "{needed} is missing");
    }
    for wrong in ["faster", "slower", "fastest", "<h3>Time</h3>", "time s", "seconds</text>"] {
        assert!(!whole.contains(wrong), "{wrong}");
    }
    report.results.iter_mut().for_each(|it| it.verdict = Verdict::CantTell);
    assert!(page(&report).contains("No scheduler was shown to take less work than eevdf"));
}

#[test]
fn every_run_is_a_dot() {
    let report = sample();
    let times: usize = report.results.iter().map(|result| result.times_s.len()).sum();
    assert_eq!(page(&report).matches("<circle").count(), times);
}

/// For a sample page: `FLSCHED_SAMPLE=folder cargo test -p flsched-compare sample_page`.
#[test]
fn sample_page() {
    if let Some(folder) = std::env::var_os("FLSCHED_SAMPLE") {
        let folder = std::path::PathBuf::from(folder);
        std::fs::write(folder.join("sample.html"), page(&sample())).unwrap();
        let style = crate::report::table::Style { width: 100, color: false };
        let text = crate::report::table::render(&sample(), style);
        std::fs::write(folder.join("sample.txt"), text).unwrap();
    }
}
