//! Comparisons with an executor that only pretends.
use super::*;
use crate::Workload;
use crate::execute::Proof;
use crate::result::{ArmResult, FailureKind};
use crate::verdict::Verdict;

type Endings<'a> = dyn FnMut(&RunRequest) -> Result<Ending, ExecError> + 'a;

/// Ends each run as a function says, and remembers what was asked.
struct Script<'a> {
    endings: Box<Endings<'a>>,
    requests: Vec<RunRequest>,
    cold: Vec<usize>,
}

impl<'a> Script<'a> {
    fn new(endings: impl FnMut(&RunRequest) -> Result<Ending, ExecError> + 'a) -> Self {
        Self { endings: Box::new(endings), requests: Vec::new(), cold: Vec::new() }
    }
}

impl Executor for Script<'_> {
    fn environment(&mut self) -> Result<Environment, ExecError> {
        Ok(Environment { kernel: "6.18.0".into(), cpus: 4, ..Environment::default() })
    }

    fn run(&mut self, request: &RunRequest) -> Result<RunOutcome, ExecError> {
        self.requests.push(request.clone());
        let ending = (self.endings)(request)?;
        let holds = matches!(ending, Ending::Timed { .. });
        Ok(RunOutcome {
            context_switches: Some(1000),
            migrations: Some(10),
            proof: Proof { holds, ..Proof::default() },
            scheduler_version: Some("1.0".into()),
            stats: vec![("queued".into(), 7)],
            why: (request.probe == Some(Probe::Why))
                .then(|| flsched_probes::why::Why { user: 42.0, ..Default::default() }),
            ..RunOutcome::without_measurement(ending)
        })
    }

    fn is_cold(&self) -> bool {
        self.cold.contains(&self.requests.len())
    }
}

fn spec(runs: u32) -> CompareSpec {
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let schedulers = words(&["eevdf", "batch", "rr"]);
    let workloads = words(&["hackbench:process-pipe:1:1"]);
    let spec = CompareSpec::new(&schedulers, &workloads, 4, Vec::new()).unwrap();
    CompareSpec { runs, seed: 42, command_line: words(&["flsched", "compare"]), ..spec }
}

fn timed(time_s: f64) -> Result<Ending, ExecError> {
    Ok(Ending::Timed { time_s })
}

/// eevdf 1.0, batch 0.5, rr 2.0, each with a ripple of one part in a thousand.
fn plain(count: &mut u32, request: &RunRequest) -> Result<Ending, ExecError> {
    *count += 1;
    let ripple = 1.0 + f64::from(*count % 5) * 0.001;
    timed(ripple * time_of(request))
}

fn time_of(request: &RunRequest) -> f64 {
    match request.scheduler.to_string().as_str() {
        "batch" => 0.5,
        "rr" => 2.0,
        _ => 1.0,
    }
}

fn run(spec: &CompareSpec, script: &mut Script<'_>) -> Result<Report, CompareError> {
    let outputs = Outputs::default();
    compare(spec, script, &mut |_: &Event<'_>| {}, &outputs, &Arc::new(false.into()))
}

fn of<'a>(report: &'a Report, scheduler: &str) -> &'a ArmResult {
    report.results.iter().find(|result| result.scheduler == scheduler).unwrap()
}

#[test]
fn verdicts_against_the_first() {
    let mut count = 0;
    let report = run(&spec(5), &mut Script::new(|request| plain(&mut count, request))).unwrap();
    assert!(report.complete);
    let names: Vec<_> = report.results.iter().map(|result| result.scheduler.as_str()).collect();
    assert_eq!(names, ["eevdf", "eevdf (again)", "batch", "rr"]);
    let verdicts: Vec<_> = report.results.iter().map(|result| result.verdict).collect();
    use Verdict::{Baseline, Better, Worse};
    assert_eq!(verdicts, [Baseline, Baseline, Better, Worse]);
    let batch = of(&report, "batch");
    assert!((batch.ratio_to_first.unwrap() - 2.0).abs() < 0.02);
    assert_eq!((batch.runs, batch.times_s.len(), batch.attached_proof.verified), (5, 5, 5));
    assert_eq!(batch.stats["queued"], 7);
}

#[test]
fn an_ejected_run_is_counted_and_not_timed() {
    let mut seen = 0;
    let mut script = Script::new(|request| {
        seen += u32::from(request.scheduler.to_string() == "batch");
        match (request.scheduler.to_string().as_str(), seen) {
            ("batch", 3) => Ok(Ending::Ejected { reason: "runnable task stall".into() }),
            _ => timed(time_of(request)),
        }
    });
    let report = run(&spec(5), &mut script).unwrap();
    let batch = of(&report, "batch");
    assert_eq!((batch.ejected, batch.runs, batch.times_s.len()), (1, 5, 4));
    assert_eq!(batch.failed[0].kind, FailureKind::Ejected);
    assert_eq!(batch.verdict, Verdict::CantTell, "an ejected scheduler is never better");
    assert_eq!(batch.attached_proof.verified, 4);
}

#[test]
fn a_failing_scheduler_does_not_stop_the_others() {
    let mut script = Script::new(|request| match request.scheduler.to_string().as_str() {
        "rr" => Ok(Ending::Failed { reason: "no".into() }),
        _ => timed(1.0),
    });
    let report = run(&spec(3), &mut script).unwrap();
    let rr = of(&report, "rr");
    assert_eq!((rr.failed.len(), rr.ejected, rr.time_s, rr.ratio_to_first), (3, 0, None, None));
    assert_eq!(of(&report, "batch").times_s.len(), 3);
}

#[test]
fn a_workload_that_cannot_be_run_does_not_stop_the_others() {
    let mut spec = spec(3);
    spec.workloads.insert(0, Workload::read("perf-pipe:7", Target::Host).unwrap());
    spec.unable.insert(0, "no perf: install it".into());
    let mut script = Script::new(|request| timed(time_of(request)));
    let report = run(&spec, &mut script).unwrap();
    assert!(report.complete && script.requests.iter().all(|it| it.workload.to_string() != "perf-pipe:7"));
    let (unable, able): (Vec<_>, Vec<_>) =
        report.results.iter().partition(|result| result.workload == "perf-pipe:7");
    assert!(able.iter().all(|result| result.times_s.len() == 3));
    for result in &unable {
        let last = result.failed.last().unwrap();
        assert_eq!((result.time_s, last.kind), (None, FailureKind::NotTried));
        assert_eq!(last.reason, "no perf: install it");
    }
    let style = crate::report::table::Style { width: 100, color: false };
    let table = crate::report::table::render(&report, style);
    assert_eq!(table.matches("! all: not tried in 3 of 3 runs: no perf: install it").count(), 1, "{table}");
}

#[test]
fn a_scheduler_that_hangs_twice_is_not_tried_again() {
    let mut script = Script::new(|request| match request.scheduler.to_string().as_str() {
        "rr" => Ok(Ending::Hung { reason: "300 s".into() }),
        _ => timed(1.0),
    });
    let report = run(&spec(5), &mut script).unwrap();
    let tried = |name| {
        let of_name = |request: &&RunRequest| request.scheduler.to_string() == name;
        script.requests.iter().filter(of_name).count()
    };
    assert_eq!((tried("rr"), tried("batch")), (2, 6));
    let rr = of(&report, "rr");
    assert_eq!((rr.runs, rr.failed.len()), (5, 5));
    let kinds: Vec<_> = rr.failed.iter().map(|failure| failure.kind).collect();
    assert_eq!(kinds[0], FailureKind::Hung);
    assert_eq!(kinds[1..], [FailureKind::NotTried; 4]);
}

#[test]
fn a_cold_machine_is_warmed_up_first() {
    let mut script = Script::new(|request| timed(time_of(request)));
    script.cold = vec![5];
    let report = run(&spec(2), &mut script).unwrap();
    // Three warm-ups, two rounds of four, and one extra warm-up.
    assert_eq!(script.requests.len(), 3 + 8 + 1);
    assert!(report.complete && script.requests[5] == script.requests[6]);
}

#[test]
fn breakdowns_come_last_and_change_no_figure() {
    let mut script = Script::new(|request| match request.probe.is_some() {
        true if request.scheduler.to_string() == "rr" => Ok(Ending::Failed { reason: "no BTF".into() }),
        true => timed(time_of(request) * 1.5),
        false => timed(time_of(request)),
    });
    let report = run(&CompareSpec { why: true, ..spec(2) }, &mut script).unwrap();
    let asked: Vec<bool> = script.requests.iter().map(|request| request.probe.is_some()).collect();
    assert_eq!(asked, [[false; 11].as_slice(), &[true; 3]].concat());
    let batch = of(&report, "batch");
    assert_eq!((batch.runs, batch.times_s.as_slice()), (2, [0.5, 0.5].as_slice()));
    let why = batch.why.as_ref().expect("a breakdown");
    assert_eq!((why.time_s, why.longer_percent, why.why.user), (0.75, Some(50.0), 42.0));
    assert!(of(&report, "eevdf (again)").why.is_none() && of(&report, "eevdf").why.is_some());
    let rr = of(&report, "rr");
    assert_eq!((rr.why_failed.as_deref(), rr.failed.len()), (Some("no BTF"), 0));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["results"][2]["why"]["user"], 42.0);
    assert!(json["results"][1].get("why").is_none());
}

#[test]
fn a_breakdown_needs_a_kernel_and_cpus_that_run_at_the_same_time() {
    let refusal = |on, clock| {
        let spec = CompareSpec { why: true, on, clock, ..spec(1) };
        spec.check().map_err(|error| error.to_string())
    };
    use crate::clock::Clock;
    for clock in [Clock::Parallel, Clock::Wall] {
        assert_eq!(refusal(Target::Vm, clock), Ok(()));
    }
    assert!(refusal(Target::Vm, Clock::Work).unwrap_err().contains("--clock parallel"));
    assert!(refusal(Target::Sim, Clock::Model).unwrap_err().contains("--on vm"));
}

#[test]
fn interruption_keeps_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let outputs =
        Outputs { json: Some(folder.path().join("r.json")), html: Some(folder.path().join("r.html")) };
    let cancel = Arc::new(AtomicBool::new(false));
    let mut runs = 0;
    let mut script = Script::new(|request| {
        runs += 1;
        cancel.store(runs == 9, Ordering::Relaxed);
        timed(time_of(request))
    });
    let ended = compare(&spec(5), &mut script, &mut |_: &Event<'_>| {}, &outputs, &cancel);
    let Err(CompareError::Interrupted { report: Some(report) }) = ended else {
        panic!("{ended:?}");
    };
    assert!(!report.complete);
    let text = std::fs::read_to_string(folder.path().join("r.json")).unwrap();
    let written: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(written.results, report.results);
    assert!(!written.complete);
    assert_eq!(written.results.iter().map(|result| result.runs).sum::<usize>(), 9 - 3);
    assert!(std::fs::read_to_string(folder.path().join("r.html")).unwrap().contains("incomplete"));
}

#[test]
fn a_machine_that_gives_up_keeps_what_there_is() {
    let mut runs = 0;
    let mut script = Script::new(|request| {
        runs += 1;
        if runs == 6 { Err(ExecError::Unable("no kernel".into())) } else { timed(time_of(request)) }
    });
    let ended = run(&spec(5), &mut script);
    let Err(CompareError::Executor { source, report: Some(report) }) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(source.to_string(), "no kernel");
    assert_eq!(report.results.iter().map(|result| result.runs).sum::<usize>(), 2);
}

#[test]
fn an_unwritable_report_is_found_out_before_the_first_run() {
    let mut script = Script::new(|_| panic!("no run must happen"));
    let outputs = Outputs { json: Some("/no/such/folder/r.json".into()), html: None };
    let cancel = Arc::new(false.into());
    let ended = compare(&spec(1), &mut script, &mut |_: &Event<'_>| {}, &outputs, &cancel);
    let message = ended.unwrap_err().to_string();
    assert!(message.contains("cannot write /no/such/folder/r.json"), "{message}");
}

#[test]
fn observers_hear_of_every_run() {
    let mut lines = Vec::new();
    let mut observer = |event: &Event<'_>| {
        if let Event::RunStarted(info) = event {
            lines.push((info.number, info.of, info.warm_up, info.last_time_s));
        }
    };
    let mut script = Script::new(|_| timed(1.0));
    let cancel = Arc::new(false.into());
    compare(&spec(2), &mut script, &mut observer, &Outputs::default(), &cancel).unwrap();
    assert_eq!(lines.len(), 3 + 8);
    assert_eq!(lines[0], (1, 11, true, None));
    assert_eq!((lines[10].0, lines[10].2, lines[10].3), (11, false, Some(1.0)));
}

/// Names that scripts rely on; see `docs/reference/compare-json.md`.
#[test]
fn json_field_names() {
    let mut count = 0;
    let report = run(&spec(3), &mut Script::new(|request| plain(&mut count, request))).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    for pointer in [
        "/version",
        "/flsched_version",
        "/clock",
        "/kernel",
        "/cpus",
        "/seed",
        "/runs",
        "/on",
        "/complete",
        "/started_at",
        "/command_line",
        "/environment/kernel",
        "/noise/hackbench:process-pipe:1:1/low",
        "/results/0/workload",
        "/results/0/scheduler",
        "/results/0/scheduler_version",
        "/results/0/runs",
        "/results/0/time_s/median",
        "/results/0/time_s/low",
        "/results/0/time_s/high",
        "/results/0/times_s/2",
        "/results/0/context_switches/median",
        "/results/0/migrations/median",
        "/results/0/ratio_to_first",
        "/results/0/ratio_to_first_low",
        "/results/0/ratio_to_first_high",
        "/results/0/verdict",
        "/results/0/ejected",
        "/results/0/failed",
        "/results/0/attached_proof/verified",
        "/results/0/stats/queued",
    ] {
        assert!(json.pointer(pointer).is_some(), "{pointer}");
    }
    assert_eq!(json["version"], 1);
    assert_eq!(json["clock"], "parallel");
    assert_eq!(json["on"], "vm");
    assert_eq!(json["results"][0]["verdict"], "baseline");
    assert!(json["results"][2]["ratio_to_first"].is_number());
}

#[test]
fn defaults_and_contradictions() {
    let default = CompareSpec::new(&[], &[], 4, Vec::new()).unwrap();
    assert_eq!(default.schedulers.len(), CompareSpec::SCHEDULERS.len());
    assert_eq!(default.workloads.len(), 2);
    let command =
        CompareSpec::new(&["eevdf".into()], &[], 4, vec![Workload::command(vec!["true".into()]).unwrap()])
            .unwrap();
    assert_eq!(command.workloads.len(), 1, "a command alone is the only workload");
    let on_host = CompareSpec { on: Target::Host, ..command };
    let error = on_host.check().unwrap_err().to_string();
    assert!(error.contains("--clock parallel") && error.contains("--on vm"), "{error}");
    let twice = ["hackbench".to_string(), "hackbench:process-pipe:4:300".into()];
    assert!(CompareSpec::new(&["rr".into()], &twice, 4, Vec::new()).is_err());
}
