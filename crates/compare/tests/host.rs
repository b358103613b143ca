//! Real runs on this machine, under the kernel's own classes. A program of its own rather than the
//! test harness, because it is also the helper process that runs the built-in workloads.
use flsched_compare::Target;
use flsched_compare::execute::{Ending, RunOutcome};
use flsched_compare::executors::vm::agent::serve;
use flsched_compare::workload::{self, BuildError, Making, ProgramError, runnable};
use flsched_compare::{
    CompareSpec, Event, Executor, HostExecutor, Outputs, RunRequest, Waits, Workload, compare, workload_main,
};
use flsched_spec::workload::{NpbProgram, Program, Runtime};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

type Test = fn();

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "workload") {
        std::process::exit(workload_main(&arguments[1..]));
    }
    let filter = arguments.iter().find(|word| !word.starts_with('-')).cloned().unwrap_or_default();
    let tests: [(&str, Test); 12] = [
        ("kernel_classes_run_the_spin_barrier", kernel_classes_run_the_spin_barrier),
        ("kernel_classes_run_hackbench", kernel_classes_run_hackbench),
        ("openmp_kernels_check_themselves", openmp_kernels_check_themselves),
        ("the_executor_runs_openmp", the_executor_runs_openmp),
        ("other_built_in_workloads", other_built_in_workloads),
        ("npb_programs_are_verified", npb_programs_are_verified),
        ("applications_are_checked", applications_are_checked),
        ("migrations_are_counted", migrations_are_counted),
        ("failures_are_outcomes", failures_are_outcomes),
        ("programs_get_the_chosen_wait_policy", programs_get_the_chosen_wait_policy),
        ("the_agent_measures", the_agent_measures),
        ("a_whole_comparison", a_whole_comparison),
    ];
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(&filter)) {
        test();
        println!("test {name} ... ok");
    }
}

fn executor() -> HostExecutor {
    HostExecutor::new(Arc::new(AtomicBool::new(false)))
}

fn request(scheduler: &str, workload: &str) -> RunRequest {
    RunRequest {
        scheduler: scheduler.parse().unwrap(),
        waits: None,
        workload: Workload::read(workload, Target::Host).unwrap(),
        limit_s: 60.0,
        seed: 0,
        probe: None,
    }
}

/// Those that this user may use.
fn classes() -> Vec<&'static str> {
    let root = nix::unistd::geteuid().is_root();
    if root { vec!["eevdf", "batch", "fifo", "rr"] } else { vec!["eevdf", "batch"] }
}

fn assert_timed(outcome: &RunOutcome, class: &str) {
    assert!(outcome.time_s().is_some_and(|time| time > 0.0), "{outcome:?}");
    assert!(outcome.proof.holds, "{outcome:?}");
    let expected = match class {
        "eevdf" => "SCHED_OTHER".to_string(),
        other => format!("SCHED_{}", other.to_uppercase()),
    };
    assert_eq!(outcome.proof.class.as_deref(), Some(expected.as_str()));
    assert!(outcome.context_switches.is_some_and(|count| count > 0));
}

fn kernel_classes_run_the_spin_barrier() {
    let mut executor = executor();
    for class in classes() {
        let outcome = executor.run(&request(class, "spin-barrier:8:10:1000")).unwrap();
        assert_timed(&outcome, class);
        assert!(outcome.yields.is_some(), "{outcome:?}");
    }
}

fn kernel_classes_run_hackbench() {
    if which::which("hackbench").is_err() {
        println!("skipped: hackbench is not installed (apt-get install rt-tests)");
        return;
    }
    let mut executor = executor();
    for class in classes() {
        let workloads = ["hackbench:process-pipe:1:10", "hackbench:thread-socket:1:10"];
        for workload in workloads {
            assert_timed(&executor.run(&request(class, workload)).unwrap(), class);
        }
    }
}

/// Each at a small size.
const KERNELS: [(&str, u64); 6] =
    [("sparse", 1), ("stencil", 20), ("ep", 100), ("transpose", 2), ("sort", 2), ("wavefront", 2)];

/// On few and on more threads than there are CPUs, on both runtimes where they are installed.
fn openmp_kernels_check_themselves() {
    for runtime in Runtime::ALL {
        for (kernel, size) in KERNELS {
            for threads in [1, 3, 16] {
                let name = format!("{}:{kernel}:{threads}:{size}", runtime.name());
                let mut workload = Workload::read(&name, Target::Host).unwrap();
                match workload::build(&mut workload, flsched_vm::Arch::HOST, &Making::quietly()) {
                    Ok(()) => assert_right(&workload),
                    Err(BuildError::Program(ProgramError::Refused { complaint, .. }))
                        if !complaint.contains("omp") =>
                    {
                        panic!("{name}: {complaint}");
                    }
                    Err(missing) => println!("skipped: {missing}"),
                }
            }
        }
    }
}

/// Without the executor, which waits for a quiet machine before each run.
fn assert_right(openmp: &Workload) {
    let Workload::Program(openmp) = openmp else { panic!("{openmp} is no program") };
    let argv = runnable(openmp).argv(&[], Path::new(""));
    let output = Command::new(&argv[0]).args(&argv[1..]).output().unwrap();
    assert!(output.status.success(), "{openmp}: {output:?}");
    let measured = runnable(openmp).measured(&String::from_utf8_lossy(&output.stdout), 0.0).unwrap();
    assert!(measured.time_s > 0.0 && measured.ended_at.is_some(), "{openmp}: {measured:?}");
}

fn the_executor_runs_openmp() {
    let mut request = request("eevdf", "libgomp:sparse:3:1");
    match workload::build(&mut request.workload, flsched_vm::Arch::HOST, &Making::quietly()) {
        Ok(()) => assert_timed(&executor().run(&request).unwrap(), "eevdf"),
        Err(missing) => println!("skipped: {missing}"),
    }
}

fn other_built_in_workloads() {
    let mut executor = executor();
    for workload in ["requests:1:3:10:100", "perf-pipe:50", "make:2:2"] {
        let request = request("eevdf", workload);
        if let Err(missing) = workload::needs(&request.workload) {
            println!("skipped: {missing}");
            continue;
        }
        let outcome = executor.run(&request).unwrap();
        assert_timed(&outcome, "eevdf");
        let names: Vec<_> = outcome.figures.iter().map(|(name, _)| name.as_str()).collect();
        match workload.starts_with("requests") {
            true => {
                assert_eq!(
                    names,
                    ["wakeup_p50_us", "wakeup_p99_us", "wakeup_p99_9_us", "requests_per_s", "busy_percent"]
                )
            }
            false => assert!(names.is_empty(), "{names:?}"),
        }
    }
}

/// Programs that print what NPB prints: only that is tested here.
fn npb_programs_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    for (name, verdict) in [("cg.S.x", "SUCCESSFUL"), ("lu.S.x", "UNSUCCESSFUL")] {
        let script = format!(
            "#!/bin/sh\necho ' Time in seconds =                     0.25'\n\
             echo \" Total threads   =                       $OMP_NUM_THREADS\" >&2\n\
             echo ' Verification    =               {verdict}'\n"
        );
        let path = folder.path().join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let programs = NpbProgram::in_folder(folder.path(), Some(3)).unwrap();
    let mut endings = programs.into_iter().map(|program| {
        let request = RunRequest {
            workload: Workload::Program(Program::Npb(program)),
            ..request("eevdf", "hackbench")
        };
        executor().run(&request).unwrap().ending
    });
    assert_eq!(endings.next(), Some(Ending::Timed { time_s: 0.25 }));
    let failed = endings.next().unwrap();
    let expected =
        "npb:lu.S.x:3: its verification was UNSUCCESSFUL: Total threads   =                       3";
    assert_eq!(failed, Ending::Failed { reason: expected.into() });
}

/// The same program once as it is, and once without the barrier that makes its result right.
fn applications_are_checked() {
    if which::which("gcc").is_err() {
        println!("skipped: gcc is not installed");
        return;
    }
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    let source = std::fs::read_to_string(apps.join("ggml.c")).unwrap();
    let barrier = "\t\tbarrier();\n";
    assert_eq!(source.matches(barrier).count(), 1);
    let ending = |source: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ggml.toml");
        std::fs::copy(apps.join("ggml.toml"), &file).unwrap();
        std::fs::write(folder.path().join("ggml.c"), source).unwrap();
        let mut request = request("eevdf", &format!("app:{}:4:20", file.display()));
        workload::build(&mut request.workload, flsched_vm::Arch::HOST, &Making::quietly()).unwrap();
        executor().run(&request).unwrap().ending
    };
    let right = ending(&source);
    assert!(matches!(right, Ending::Timed { time_s } if time_s > 0.0), "{right:?}");
    let wrong = ending(&source.replace(barrier, ""));
    assert!(
        matches!(&wrong, Ending::Failed { reason } if reason.contains("the product is wrong")),
        "{wrong:?}"
    );
}

/// A command that moves itself between two CPUs, where there are two.
fn migrations_are_counted() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 || !nix::unistd::geteuid().is_root() || which::which("taskset").is_err() {
        println!("skipped: needs root, two CPUs and taskset");
        return;
    }
    let script = "for i in 1 2 3 4 5; do taskset -pc 0 $$; taskset -pc 1 $$; done";
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    let request =
        RunRequest { workload: Workload::command(command).unwrap(), ..request("eevdf", "hackbench") };
    let outcome = executor().run(&request).unwrap();
    assert!(outcome.migrations.is_some_and(|count| count >= 5), "{outcome:?}");
}

fn failures_are_outcomes() {
    let mut executor = executor();
    let mut ending = |argv: &[&str], limit_s: f64| {
        let command = argv.iter().map(Into::into).collect();
        let workload = Workload::command(command).unwrap();
        let request = RunRequest { workload, limit_s, ..request("eevdf", "hackbench") };
        executor.run(&request).unwrap().ending
    };
    let failed = ending(&["sh", "-c", "echo broken >&2; exit 3"], 60.0);
    assert!(
        matches!(&failed, Ending::Failed { reason } if reason.contains("exit status: 3: broken")),
        "{failed:?}"
    );
    let missing = ending(&["/no/such/program"], 60.0);
    assert!(
        matches!(&missing, Ending::Failed { reason } if reason.contains("/no/such/program")),
        "{missing:?}"
    );
    let hung = ending(&["sleep", "60"], 0.1);
    assert!(matches!(hung, Ending::Hung { .. }), "{hung:?}");
}

fn programs_get_the_chosen_wait_policy() {
    // SAFETY: this program has no other thread now.
    unsafe { std::env::set_var("GOMP_SPINCOUNT", "7") };
    let seen = |waits: Option<Waits>, wanted: &str| {
        let script = format!("test \"$OMP_WAIT_POLICY $KMP_BLOCKTIME $GOMP_SPINCOUNT\" = \"{wanted}\"");
        let command = ["sh", "-c", &script].map(Into::into).to_vec();
        let workload = Workload::command(command).unwrap();
        let outcome =
            executor().run(&RunRequest { workload, waits, ..request("eevdf", "hackbench") }).unwrap();
        outcome.time_s().is_some()
    };
    assert!(seen(Some(Waits::Sleep), "passive 0 7"), "a preset variable is kept, the others are set");
    assert!(seen(None, "  7"), "nothing is set unasked");
    // SAFETY: as above.
    unsafe { std::env::remove_var("GOMP_SPINCOUNT") };
}

fn the_agent_measures() {
    let request = r#"{"request":"run","scheduler":"batch","workload":{"spin-barrier":{"threads":4,"iterations":5,"work":100}},"limit_s":60}"#;
    let mut answers = Vec::new();
    serve(format!("{request}\n").as_bytes(), &mut answers, &mut executor()).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answers).unwrap();
    assert_eq!(answer["answer"], "run", "{answer}");
    assert_eq!(answer["ending"]["kind"], "timed", "{answer}");
}

fn a_whole_comparison() {
    let schedulers = ["eevdf".to_string(), "batch".to_string()];
    let workloads = ["spin-barrier:4:5:1000".to_string()];
    let spec = CompareSpec {
        runs: 1,
        limit: Duration::from_secs(60),
        on: Target::Host,
        clock: flsched_compare::Clock::Wall,
        ..CompareSpec::new(&schedulers, &workloads, 4, vec![Workload::command(vec!["true".into()]).unwrap()])
            .unwrap()
    };
    flsched_compare::executors::host::preflight::check(&spec).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let outputs = Outputs {
        json: Some(folder.path().join("report.json")),
        html: Some(folder.path().join("report.html")),
    };
    let cancel = Arc::new(AtomicBool::new(false));
    let mut quiet = |_: &Event<'_>| {};
    let report = compare(&spec, &mut executor(), &mut quiet, &outputs, &cancel).unwrap();
    assert!(report.complete && report.results.len() == 2 * (schedulers.len() + 1));
    for result in &report.results {
        assert_eq!((result.times_s.len(), result.attached_proof.verified), (1, 1), "{result:?}");
    }
    let text = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let written: flsched_compare::Report = serde_json::from_str(&text).unwrap();
    assert!(written.complete && written.results == report.results);
}
