//! Errors of a policy end the run where the kernel would eject the policy, and the message locates them.
use crate::output::Outcome;
use crate::workload::{Disturbance, load};
use crate::{Error, Setup, Simulation, Violation};
use flsched_compile::{Compiler, For};
use flsched_machine::Machine;
use flsched_spec::workload::Model;
use flsched_spec::{Knob, Policy, PolicySpec, Scheduler, Statistic};
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// The names of `enum fault` in `tests/policies/faulty.bpf.c`, in its order.
const FAULTS: &str = "none twice other late no_queue bad_cpu error stall forbidden_cpu vtime_to_builtin mixed \
    bad_select overflow bad_kick reenqueue destroy init current";

static FAULTY: LazyLock<Policy> = LazyLock::new(|| {
    let names: Vec<String> = FAULTS.split_whitespace().map(str::to_owned).collect();
    let (name, doc, max) = ("fault".to_owned(), "what it does".to_owned(), names.len() as u64 - 1);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policies/faulty.bpf.c");
    let compiled = Compiler::new().unwrap().compile(&source, For::Simulator).unwrap();
    Policy {
        name: "faulty",
        control: None,
        knobs: vec![Knob { name, doc, min: 0, max, default: 0, names }],
        lists: Vec::new(),
        statistics: vec![Statistic { name: "enqueued".into(), doc: "tasks that were enqueued".into() }],
        object: &[],
        version: "0",
        native: Some(compiled.object.leak()),
        file: None,
    }
});

fn simulation(fault: &str, workload: &str) -> Result<Simulation, Error> {
    let value = FAULTY.knob("fault")?.parse(fault)?;
    let spec = PolicySpec::new(&FAULTY).set([("fault".to_owned(), value)], [])?;
    Simulation::new(Setup {
        machine: Arc::new(Machine::find("ryzen-3400g")?.with_cpus(4)?.even()),
        scheduler: Scheduler::Policy(spec),
        workload: load(&Model::read(workload)?)?,
        seed: 1,
        limit: 100_000_000_000,
    })
}

fn run(fault: &str) -> Result<Outcome, Error> {
    simulation(fault, "hogs:12:100")?.run()
}

fn violation(fault: &str) -> Violation {
    match run(fault) {
        Err(Error::Violation(violation)) => violation,
        Err(error) => panic!("{fault}: {error}"),
        Ok(_) => panic!("{fault}: the run was not ended"),
    }
}

#[test]
fn does_nothing_wrong_by_itself() {
    let outcome = run("none").unwrap();
    assert_eq!(outcome.tasks, 13);
    assert!(outcome.stats["enqueued"] >= 13);
}

#[test]
fn is_stopped_with_callback_task_and_time() {
    for (fault, callback, what) in [
        ("twice", "enqueue", "a second time"),
        ("other", "enqueue", "while the policy is asked about"),
        ("late", "running", "outside select_cpu, enqueue and dispatch"),
        ("no_queue", "", "queue 0x63 does not exist"),
        ("bad_cpu", "", "CPU 4 does not exist"),
        ("vtime_to_builtin", "", "not ordered by virtual time"),
        ("bad_select", "select_cpu", "CPU 4 does not exist"),
    ] {
        let violation = violation(fault);
        assert_eq!(violation.callback, callback, "{violation}");
        assert!(violation.what.contains(what), "{violation}");
        assert!(violation.task.is_some(), "{violation}");
        assert!(violation.at < 1_000_000_000, "{violation}");
    }
}

#[test]
fn is_stopped_where_no_task_is_to_blame() {
    for (fault, callback, what) in [
        ("error", "enqueue", "is the 3-th"),
        ("bad_kick", "enqueue", "CPU -1 does not exist"),
        ("reenqueue", "enqueue", "for cpu_release only"),
        ("destroy", "enqueue", "destroyed with tasks in it"),
        ("overflow", "dispatch", "dispatch buffer overflow"),
    ] {
        let violation = violation(fault);
        assert_eq!(violation.callback, callback, "{violation}");
        assert!(violation.what.contains(what), "{violation}");
    }
}

#[test]
fn a_task_that_never_runs_is_found_by_the_watchdog() {
    let violation = violation("stall");
    assert_eq!(violation.callback, "watchdog");
    assert!(violation.task.is_some());
    assert!((5_000_000_000..=7_000_000_000).contains(&violation.at), "{violation}");
}

#[test]
fn a_failing_init_is_the_policys_error() {
    let Err(Error::Policy { what, .. }) = run("init") else { panic!("it begins") };
    assert!(what.contains("-12"), "{what}");
}

#[test]
fn a_cpu_that_the_task_must_not_use_is_refused() {
    let mut simulation = simulation("forbidden_cpu", "hackbench:process-pipe:1:20").unwrap();
    let one = (1..30).map(|task| {
        let mut mask = crate::core::CpuMask::empty();
        mask.set(1, true);
        (1_000_000 + task as u64, Disturbance::Affinity(task, std::sync::Arc::new(mask)))
    });
    simulation.plan(one);
    let Err(Error::Violation(violation)) = simulation.run() else { panic!("the run was not ended") };
    assert!(violation.what.contains("may not run on CPU 0"), "{violation}");
}

/// As on a kernel: there it is the idle task, whose pid is 0.
#[test]
fn an_interrupt_on_an_idle_cpu_finds_a_current_task() {
    let simulation = simulation("current", "requests:1:1:3:100:200000").unwrap();
    let Err(Error::Violation(violation)) = simulation.run() else { panic!("the run was not ended") };
    assert!(violation.what.contains("the current task is 0"), "{violation}");
}

#[test]
fn it_is_started_again_when_a_cpu_goes_and_comes() {
    let mut simulation = simulation("none", "hogs:12:100").unwrap();
    let (ms, down, up) = (1_000_000, Disturbance::Offline, Disturbance::Online);
    simulation.plan([(20 * ms, down(3)), (30 * ms, down(0)), (60 * ms, up(3)), (90 * ms, up(0))]);
    let outcome = simulation.run().unwrap();
    // 1,200 ms of work on four CPUs, of which two were offline for 40 and for 60 ms.
    assert!((0.324..0.36).contains(&outcome.time_s), "{}", outcome.time_s);
    assert!(outcome.stats["enqueued"] >= 13 + 4 * 4, "{:?}", outcome.stats);
}
