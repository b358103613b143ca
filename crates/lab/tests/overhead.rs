//! `flsched-lab locks` and `flsched-lab costs` measure a mixed load in one virtual machine for each policy and kernel,
//! and their reports must bear out what the policy claims.
//!
//! By default FLSCHED is measured, on one kernel. With `FLSCHED_TEST_ALL=1`, which `./test.sh matrix` sets, so are the other
//! policies.
//! `FLSCHED_TEST_POLICIES=smove` and `FLSCHED_TEST_KERNELS=6.18` pick policies and kernels.
mod own;

use flsched_machine::{Callback, Machine};
use flsched_spec::Policy;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::path::Path;
use std::process::{ExitCode, Output};
use std::sync::{Arc, OnceLock};

const KERNEL: &str = "6.18";
/// Enough to distinguish one CPU's lock from a shared one; more would only take longer to emulate.
const CPUS: u64 = 2;
/// Real seconds for one kernel; a quiet machine needs a tenth of it.
const LIMIT: &str = "600";
/// Messages between tasks, threads that wait for each other with `sched_yield`, and two writers of one pipe, which hold
/// its mutex nearly all the time.
const LOAD: &str = "hackbench -p -g 2 -l 8 && flsched workload spin-barrier 8 10 2000 && \
                    (head -c 4000000 /dev/zero & head -c 4000000 /dev/zero & wait) | tail -c 1 > /dev/null";

/// What a policy claims.
struct Claims {
    policy: &'static str,
    /// Callbacks that run for each wake-up, switch or tick; all of them are called under this load.
    hot: &'static [&'static str],
    /// Kinds of locks that the kernel allocates and that the policy's hot paths may take.
    allowed: &'static [Allowed],
}

/// There are several locks of this kind for each CPU; `because` is for the reader.
struct Allowed {
    lock: &'static str,
    for_each_cpu: u64,
    #[expect(dead_code)]
    because: &'static str,
}

const CLAIMS: &[Claims] = &[
    Claims {
        policy: "flsched",
        hot: &["select_cpu", "enqueue", "dispatch", "update_idle", "tick"],
        allowed: &[Allowed {
            lock: "a dispatch queue's lock",
            for_each_cpu: 3,
            because: "FLSCHED makes three queues for each CPU, its run queue, its later queue and its background; \
                      another CPU comes only to queue a task there, or to take one when it has nothing to do",
        }],
    },
    Claims {
        policy: "smove",
        hot: &["select_cpu", "enqueue", "dispatch", "update_idle", "tick"],
        allowed: &[Allowed {
            lock: "a dispatch queue's lock",
            for_each_cpu: 3,
            because: "Smove makes three queues for each CPU, its run queue, those that stay there for a moment and its \
                      background; another CPU comes only to queue a task there, or to take one when it has \
                      nothing to do",
        }],
    },
    Claims {
        policy: "rr2",
        hot: &["select_cpu", "enqueue", "dispatch", "running", "quiescent", "update_idle", "tick"],
        allowed: &[
            Allowed {
                lock: "a dispatch queue's lock",
                for_each_cpu: 1,
                because: "SCHED_RR2 makes a queue for each CPU; another CPU comes only to queue a task there, to \
                          pull one from there, or to gather one",
            },
            Allowed {
                lock: "a lock that bpf_lru_pop_free takes",
                for_each_cpu: 2,
                because: "the list of free entries, each CPU's own and the one behind them, for a team that \
                          comes to a group of CPUs for the first time",
            },
            Allowed {
                lock: "a lock that bpf_lru_push_free takes",
                for_each_cpu: 1,
                because: "the CPU's own list of free entries, when two CPUs add a team to a group at the same \
                          time: the second one's entry goes back",
            },
        ],
    },
];
/// A use of locks by several CPUs that is seen this often is a habit, and a habit must be spread over all CPUs'
/// own queues. A lock that only one CPU took is that CPU's own, however often: the other may have had no reason.
const OFTEN: u64 = 100;

type Reports = Arc<OnceLock<Result<(Value, Value), String>>>;
type Check = fn(&Claims, &Value, &Value) -> Result<(), String>;

/// Of what `flsched-lab locks` reports.
const OF_LOCKS: [(&str, Check); 4] = [
    ("the_policy_has_no_lock_of_its_own", no_own_locks),
    ("hot_callbacks_take_no_shared_lock", no_shared_locks),
    ("every_lock_can_be_watched", locks_are_watched),
    ("waits_are_seen_and_placed", waits_are_placed),
];
/// Of what `flsched-lab costs` reports, which depends on the kernel more than on the policy.
const OF_COSTS: [(&str, Check); 3] = [
    ("every_function_can_be_watched", functions_are_watched),
    ("the_simulators_prices_are_the_kernels", prices_are_right),
    ("costs_report_calls_and_times", costs_are_reported),
];

fn main() -> ExitCode {
    own::main(|| libtest_mimic::run(&Arguments::from_args(), trials()).exit_code())
}

/// A setting, from the environment.
fn variable(name: &str) -> Option<String> {
    std::env::var(format!("FLSCHED_TEST_{name}")).ok()
}

/// Of one machine for each policy and kernel that is asked for.
fn trials() -> Vec<Trial> {
    let policies = variable("POLICIES");
    let picked = |name: &str| match &policies {
        Some(picked) => picked.split(',').any(|policy| policy == name),
        None => name == "flsched" || variable("ALL").is_some(),
    };
    let mut machines: Vec<(&Claims, String, Reports)> = Vec::new();
    // A control, as FLSCHED as published, claims nothing of sched_ext's locks.
    let for_use = Policy::all().into_iter().filter(|policy| policy.control.is_none());
    for policy in for_use.map(|policy| policy.name).filter(|name| picked(name)) {
        let claims = CLAIMS.iter().find(|claims| claims.policy == policy);
        let claims = claims.unwrap_or_else(|| panic!("{policy} claims nothing: see CLAIMS"));
        let kernels = variable("KERNELS").unwrap_or_else(|| KERNEL.into());
        machines.extend(kernels.split(',').map(|kernel| (claims, kernel.to_owned(), Reports::default())));
    }
    let mut trials = Vec::new();
    for (name, check) in OF_LOCKS.into_iter().chain(OF_COSTS) {
        for (claims, kernel, reports) in machines.clone() {
            trials.push(Trial::test(format!("{}::{kernel}::{name}", claims.policy), move || {
                let reports = reports.get_or_init(|| measure(claims.policy, &kernel));
                let (locks, costs) = reports.as_ref().map_err(Failed::from)?;
                check(claims, locks, costs).map_err(Failed::from)
            }));
        }
    }
    trials
}

/// Both reports, from a machine with this kernel.
fn measure(policy: &str, kernel: &str) -> Result<(Value, Value), String> {
    let measured = |what: &str| format!("flsched-lab {what} --policy {policy} --json -- sh -c '{LOAD}'");
    let [locks, costs] = ["locks", "costs"].map(measured);
    let script = format!("{locks} && {costs} && grep -qx disabled /sys/kernel/sched_ext/state");
    let output = in_machine(kernel, &script)?;
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    let mut reports = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    match (reports.next(), reports.next()) {
        (Some(Ok(locks)), Some(Ok(costs))) => Ok((locks, costs)),
        _ => Err(format!("two reports were expected: {}", String::from_utf8_lossy(&output.stdout))),
    }
}

/// Commands of a shell, in a machine with this kernel that has the lab.
fn in_machine(kernel: &str, script: &str) -> Result<Output, String> {
    let folder = Path::new(env!("CARGO_BIN_EXE_flsched-lab")).parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    own::flsched()
        .env("PATH", path)
        .args(["vm", "--kernel", kernel, "--cpus", &CPUS.to_string(), "--clock", "work", "--timeout", LIMIT])
        .args(["--include", "/usr/bin/hackbench", "--", "sh", "-c", script])
        .output()
        .map_err(|error| error.to_string())
}

fn no_own_locks(claims: &Claims, locks: &Value, _: &Value) -> Result<(), String> {
    let anatomy = &locks["anatomy"];
    let callbacks = array(&anatomy["callbacks"]);
    let lockless = callbacks.iter().all(|callback| array(&callback["own_locks"]).is_empty());
    expect(lockless && anatomy["has_arena"] == false && callbacks.len() >= claims.hot.len(), anatomy)
}

fn no_shared_locks(claims: &Claims, locks: &Value, _: &Value) -> Result<(), String> {
    let policy = under(locks, claims.policy)?;
    for callback in claims.hot {
        expect(policy["calls"][callback].as_u64() > Some(0), &policy["calls"])?;
    }
    // A callback that is not hot, as init_task at a fork, may take what the kernel takes for it.
    let is_hot = |callback: &str| claims.hot.contains(&callback);
    let around_the_policy = |lock: &&Value| match lock["callback"].as_str() {
        Some(callback) => is_hot(callback),
        None => !lock["class_function"].is_null(),
    };
    for lock in array(&policy["locks"]).iter().filter(around_the_policy) {
        expect(
            lock["is_per_cpu"] == true || claims.allowed.iter().any(|allowed| allows(allowed, lock)),
            lock,
        )?;
    }
    expect(policy["lost"] == 0, policy)
}

fn allows(allowed: &Allowed, lock: &Value) -> bool {
    let number = |field: &str| lock[field].as_u64().unwrap_or(u64::MAX);
    let is_shared = number("most_cpus") > 1;
    let fewest = if is_shared && number("acquisitions") >= OFTEN { CPUS } else { 1 };
    lock["lock"] == allowed.lock && (fewest..=allowed.for_each_cpu * CPUS).contains(&number("instances"))
}

fn locks_are_watched(_: &Claims, locks: &Value, _: &Value) -> Result<(), String> {
    for measured in array(&locks["schedulers"]) {
        expect(array(&measured["unwatched"]).is_empty(), measured)?;
        // The run queues' own locks prove that the probe sees what there is.
        let of_core = |lock: &&Value| lock["class_function"].is_null() && lock["lock"] == "runqueues.__lock";
        let taken: u64 = array(&measured["locks"])
            .iter()
            .filter(of_core)
            .filter_map(|it| it["acquisitions"].as_u64())
            .sum();
        expect(taken > 1000, measured)?;
    }
    Ok(())
}

fn functions_are_watched(_: &Claims, _: &Value, costs: &Value) -> Result<(), String> {
    for function in array(&costs["functions"]) {
        expect(["fair", "scx"].iter().all(|class| function[class]["state"] != "not_traceable"), function)?;
    }
    Ok(())
}

fn waits_are_placed(_: &Claims, locks: &Value, _: &Value) -> Result<(), String> {
    // The writers contend for their pipe's mutex; under a scheduler that hardly ever preempts they may not.
    let at_pipes = |site: &Value| {
        array(&site["functions"]).iter().any(|name| name.as_str().is_some_and(|name| name.contains("pipe")))
    };
    let waits = |measured: &Value| array(&measured["waits"]["sites"]).iter().any(at_pipes);
    expect(array(&locks["schedulers"]).iter().any(waits), locks)
}

fn costs_are_reported(claims: &Claims, _: &Value, costs: &Value) -> Result<(), String> {
    for name in claims.hot {
        let callback = array(&costs["callbacks"]).iter().find(|callback| callback["name"] == *name);
        let callback = callback.ok_or_else(|| format!("no callback {name}: {costs}"))?;
        expect(callback["calls"].as_u64() > Some(0) && callback["mean_ns"].as_f64() > Some(0.0), callback)?;
    }
    for role in ["enqueue_task", "dequeue_task", "pick_task", "select_task_rq"] {
        let function = array(&costs["functions"]).iter().find(|function| function["role"] == role);
        let function = function.ok_or_else(|| format!("no function {role}: {costs}"))?;
        for class in ["fair", "scx"] {
            let cost = &function[class];
            // An emulated instruction is a nanosecond: no function of these has fewer than ten, none a million.
            let mean_ns = cost["mean_ns"].as_f64().unwrap_or(0.0);
            expect(cost["calls"].as_u64() > Some(100) && (10.0..1e6).contains(&mean_ns), function)?;
        }
    }
    expect(costs["probe"]["inside_ns"].as_f64() > Some(0.0) && costs["clock"] == "work", costs)
}

/// A policy that is changed costs something else. Only functions that do about the same at each call are compared, so not
/// the search for work, and only on the kernel of the prices. Half a bucket of the histogram is no difference.
fn prices_are_right(claims: &Claims, _: &Value, costs: &Value) -> Result<(), String> {
    const APART: f64 = 0.15;
    const LEAST_NS: f64 = 32.0;
    let functions = [
        // With the policy's part or without it, whichever is the median here.
        ("enqueue_task", &[Callback::Enqueue, Callback::OpsEnqueue][..]),
        ("dequeue_task", &[Callback::Dequeue]),
        ("set_next_task", &[Callback::SetNext]),
    ];
    if !costs["kernel"].as_str().is_some_and(|kernel| kernel.starts_with(KERNEL)) {
        return Ok(());
    }
    let machine = Machine::find("parallel-clock").map_err(|error| error.to_string())?;
    let prices = machine.callbacks(claims.policy);
    for (role, parts) in functions {
        let function = array(&costs["functions"]).iter().find(|function| function["role"] == role);
        let median_ns = function.and_then(|function| function["scx"]["median_ns"].as_f64());
        let median_ns = median_ns.ok_or_else(|| format!("no function {role}: {costs}"))?;
        let sums = (1..=parts.len())
            .map(|count| parts[..count].iter().map(|part| prices.of(*part)).sum::<u64>() as f64);
        let is_price = |price_ns: &f64| (median_ns - price_ns).abs() <= LEAST_NS + APART * price_ns;
        let sums: Vec<f64> = sums.collect();
        if !sums.iter().any(is_price) {
            return Err(format!(
                "{role} takes {median_ns} ns, and {sums:?} in machines/callbacks.toml: measure its prices again"
            ));
        }
    }
    Ok(())
}

fn under<'a>(locks: &'a Value, scheduler: &str) -> Result<&'a Value, String> {
    let found = array(&locks["schedulers"]).iter().find(|measured| measured["scheduler"] == scheduler);
    found.ok_or_else(|| format!("nothing was measured under {scheduler}: {locks}"))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn expect(holds: bool, found: &Value) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not as claimed: {found:#}")) }
}
