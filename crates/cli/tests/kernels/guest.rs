//! The part inside the machine: plays the scenarios and prints one line of result for each.
use crate::machine::Machine;
use crate::scenarios;
use crate::scheduler::{is_any_attached, sched_ext};
use flsched_spec::Policy;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const PREFIX: &str = "scenario";

/// The machine that this process runs in: `--guest MACHINE POLICY SCENARIOS ROUNDS TIMES`.
pub fn machine() -> Machine {
    std::env::args().nth(2).unwrap_or_default().parse().expect("a machine's name")
}

/// The policy that is tested.
pub fn policy() -> &'static Policy {
    Policy::find(&std::env::args().nth(3).unwrap_or_default()).expect("a policy's name")
}

/// How often scenarios that gain from repetition repeat their work.
pub fn rounds() -> u32 {
    std::env::args().nth(5).map_or(1, |text| text.parse().expect("FLSCHED_TEST_ROUNDS"))
}

/// How often each scenario is played; the first failure ends it.
fn times() -> u32 {
    std::env::args().nth(6).map_or(1, |text| text.parse().expect("FLSCHED_TEST_TIMES"))
}

/// Runs this machine's and policy's scenarios, or those whose names contain the filter.
pub fn play() -> ExitCode {
    let wanted = std::env::args().nth(4).unwrap_or_default();
    let mut failed = false;
    let is_played = |s: &&scenarios::Scenario| s.is_for(machine(), policy().name) && s.is_wanted(&wanted);
    for scenario in scenarios::all().filter(is_played) {
        let name = scenario.name;
        let began = Instant::now();
        let outcome = (1..=times()).try_for_each(|time| {
            play_once(scenario).map_err(|why| if time > 1 { format!("time {time}: {why}") } else { why })
        });
        eprintln!("{}", end_of_notes(name, began.elapsed()));
        match outcome {
            Ok(()) => println!("{PREFIX} {name} ok"),
            Err(why) => {
                failed = true;
                println!("{PREFIX} {name} failed {}", why.replace('\n', " | "));
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn play_once(scenario: &scenarios::Scenario) -> Result<(), String> {
    clear_kernel_log();
    let outcome = catch_unwind(AssertUnwindSafe(scenario.play)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
    });
    outcome.and_then(|()| kernel_log_is_clean()).and_then(|()| default_scheduler_runs())
}

const GUEST_TIME: &str = "s of guest time";

/// The line that ends a scenario's output on standard error.
fn end_of_notes(scenario: &str, took: Duration) -> String {
    format!("{scenario}: {:.1} {GUEST_TIME}", took.as_secs_f64())
}

/// The output of `scenario` within the machine's standard error.
pub fn notes_of(scenario: &str, written: &str) -> String {
    let mut notes = Vec::new();
    for line in written.lines() {
        notes.push(line);
        if line.ends_with(GUEST_TIME) {
            if line.starts_with(&format!("{scenario}:")) {
                return notes.join("\n");
            }
            notes.clear();
        }
    }
    String::new()
}

/// The scenarios that took longest, for the host.
pub fn longest(written: &str) -> String {
    let took = |line: &str| {
        let (name, seconds) = line.strip_suffix(GUEST_TIME)?.rsplit_once(": ")?;
        Some((seconds.trim().parse::<f64>().ok()?, name.to_owned()))
    };
    let mut all: Vec<_> = written.lines().filter_map(took).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let longest = all.iter().take(3).map(|(seconds, name)| format!("{name} {seconds:.1} {GUEST_TIME}"));
    longest.collect::<Vec<_>>().join(", ")
}

/// Parses the result line of a scenario; for the host.
pub fn parse_outcome(line: &str) -> Option<(String, Result<(), String>)> {
    let mut words = line.strip_prefix(PREFIX)?.trim_start().splitn(3, ' ');
    let name = words.next()?.to_owned();
    match words.next()? {
        "ok" => Some((name, Ok(()))),
        "failed" => Some((name, Err(words.next().unwrap_or("").replace(" | ", "\n")))),
        _ => None,
    }
}

/// Also for scenarios that have the scheduler ejected.
pub fn clear_kernel_log() {
    let _ = Command::new("dmesg").arg("-c").output();
}

/// An error if the kernel's log has a warning, an error or an ejection.
fn kernel_log_is_clean() -> Result<(), String> {
    let log = Command::new("dmesg").output().map_err(|e| format!("dmesg: {e}"))?;
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let known_warnings = known_warnings(&release());
    let complaint = |line: &&str| {
        const WORDS: [&str; 6] = [
            "WARNING:",
            "BUG:",
            "Oops",
            "rcu_preempt detected stalls",
            "blocked for more than",
            "runnable task stall",
        ];
        // Any end of a scheduler counts, except for those that its user or CPU hotplug caused.
        let ejected = line.contains("disabled (") && !line.contains("disabled (unregistered from ");
        let known = line.contains("WARNING:") && known_warnings.iter().any(|place| line.contains(place));
        !known && (ejected || WORDS.iter().any(|word| line.contains(word)))
    };
    let complaints: Vec<&str> = log.lines().filter(complaint).collect();
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(format!("kernel log: {}\nall of it:\n{log}", complaints.join("\n")))
    }
}

/// Where a kernel warns that a task still has the verdict of a select_cpu before. A policy that inserts a task twice
/// is ejected instead, so this is never the policy's fault.
const LEFT_VERDICT: &str = " scx_dsq_insert_commit+";

/// Where 6.12 warns that its deadline server's bandwidth is wrong, when a CPU goes offline under any sched_ext scheduler.
const SERVERS_BANDWIDTH: &str = " task_non_contending+";

/// The warnings of a kernel that no policy causes. Some kernels forget to clear the verdict of select_cpu if a scheduler is
/// detached, or a CPU goes offline, between that and the task's enqueueing. Mended by "sched_ext: Fix stale direct dispatch
/// state in ddsp_dsq_id" in 7.0 and 6.18.23, and never in 6.16.
fn known_warnings(release: &str) -> Vec<&'static str> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|text| text.parse::<u32>().ok());
    let mut number = || numbers.next().unwrap_or(0);
    let version = (number(), number(), number());
    let leaves_verdicts = version < (7, 0, 0) && !((6, 18, 23)..(6, 19, 0)).contains(&version);
    let of_server = version < (6, 13, 0);
    let warnings = [(leaves_verdicts, LEFT_VERDICT), (of_server, SERVERS_BANDWIDTH)];
    warnings.into_iter().filter(|(has_it, _)| *has_it).map(|(_, place)| place).collect()
}

/// The kernel's release, as `uname -r` prints it.
pub fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release").trim().to_owned()
}

fn default_scheduler_runs() -> Result<(), String> {
    if is_any_attached() { Err(format!("left sched_ext {}", sched_ext("state"))) } else { Ok(()) }
}
