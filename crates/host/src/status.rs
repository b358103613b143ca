//! Which scheduler runs this machine, and since when.
use crate::Waiter;
use crate::class::SCHED_EXT;
use crate::config::release;
use crate::sched_ext;
use crate::tasks::{self, Stat};
use flsched_spec::Policy;
use serde::Serialize;

/// The state of the machine's scheduling.
#[derive(Debug, Serialize)]
pub struct Status {
    /// `uname -r`.
    pub kernel: String,
    /// `default` or the name in the kernel of the sched_ext scheduler.
    pub scheduler: String,
    /// Policy and version, if it is one of this build's.
    pub policy: Option<String>,
    /// See `policy`.
    pub version: Option<String>,
    /// sched_ext's state; `None`: this kernel has none.
    pub state: Option<String>,
    /// Every normal task is under it, or only tasks of class SCHED_EXT.
    pub scope: Option<&'static str>,
    /// How many tasks are under it.
    pub tasks: u64,
    /// Schedulers enabled since boot.
    pub enabled_since_boot: u64,
    /// Schedulers that the kernel has ejected since boot, from its log; none: the log cannot be read.
    pub ejections_since_boot: Option<u64>,
    /// The task whose wait was the reason of the last ejection that the kernel's log has.
    pub last_waiter: Option<Waiter>,
    /// The kernel's log no longer reaches back to boot.
    pub log_is_partial: bool,
}

/// Reads the present status.
pub fn status() -> Status {
    let status = sched_ext::status();
    let active = status.as_ref().filter(|status| status.is_active());
    let ops = active.and_then(|status| status.ops.clone());
    let (policy, version) = match &ops {
        Some(ops) => identify(ops),
        None => (None, None),
    };
    let log = kernel_log();
    Status {
        kernel: release(),
        scheduler: match (&active, ops) {
            (Some(_), ops) => ops.unwrap_or_else(|| "(unnamed sched_ext scheduler)".into()),
            (None, _) => "default".into(),
        },
        policy,
        version,
        state: status.as_ref().map(|status| status.state.clone()),
        scope: active.map(|status| if status.switch_all { "all normal tasks" } else { "SCHED_EXT tasks" }),
        tasks: active.map_or(0, |status| count_tasks(status.switch_all)),
        enabled_since_boot: status.as_ref().map_or(0, |status| status.enable_seq),
        ejections_since_boot: log.as_ref().map(|log| log.ejections),
        last_waiter: log.as_ref().and_then(|log| log.last_waiter.clone()),
        log_is_partial: log.is_some_and(|log| log.partial),
    }
}

/// The scheduler of this machine's normal tasks as comparisons name it: a policy of this build, the name in the kernel of
/// another sched_ext scheduler, else the kernel's own.
pub fn in_force() -> String {
    let active = sched_ext::status().filter(|status| status.is_active() && status.switch_all);
    match active.and_then(|status| status.ops) {
        Some(ops) => identify(&ops).0.unwrap_or(ops),
        None => own_scheduler(&release()).into(),
    }
}

/// Of a kernel of this release.
fn own_scheduler(release: &str) -> &'static str {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (6, 6) { "eevdf" } else { "cfs" }
}

/// `flsched_0.1.0` → policy and version, if it is a policy of this build.
fn identify(ops: &str) -> (Option<String>, Option<String>) {
    let version = |policy: &Policy| Some(ops.strip_prefix(policy.name)?.strip_prefix('_')?.to_owned());
    let policy = policy_named(ops);
    (policy.map(|policy| policy.name.to_owned()), policy.and_then(version))
}

/// The policy of this build that has this name in the kernel, in whatever version.
pub(crate) fn policy_named(ops: &str) -> Option<&'static Policy> {
    // Not `flsched_mine_1e05ae29f6d1`, a policy from a file.
    let is_version = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let names = |policy: &Policy| {
        ops.strip_prefix(policy.name).and_then(|rest| rest.strip_prefix('_')).is_some_and(is_version)
    };
    Policy::all().into_iter().find(|policy| names(policy))
}

/// Tasks whose class the attached scheduler serves.
fn count_tasks(switch_all: bool) -> u64 {
    let classes = tasks::all().filter_map(|(process, id)| Some(Stat::of_task(process, id)?.class));
    let served = |class: &u32| match *class {
        SCHED_EXT => true,
        0 | 3 | 5 => switch_all, // SCHED_NORMAL, BATCH, IDLE
        _ => false,
    };
    classes.filter(served).count() as u64
}

/// What the kernel's log has on ejections.
struct Log {
    ejections: u64,
    last: Option<Ejection>,
    last_waiter: Option<Waiter>,
    partial: bool,
}

/// An ejection, as the kernel's log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ejection {
    /// Its number since boot, or since the log begins, from 1.
    pub number: u64,
    /// The scheduler, as the kernel names it.
    pub scheduler: String,
    pub reason: String,
    /// Whose wait was the reason.
    pub waiter: Option<Waiter>,
}

/// The last ejection; `None`: there was none, or the log cannot be read.
pub fn last_ejection() -> Option<Ejection> {
    kernel_log()?.last
}

/// Counts the kernel's messages on ejections: "disabled" with a reason that is an error.
fn kernel_log() -> Option<Log> {
    let output =
        std::process::Command::new("dmesg").output().ok().filter(|output| output.status.success())?;
    Some(count_ejections(&String::from_utf8_lossy(&output.stdout)))
}

fn count_ejections(log: &str) -> Log {
    let ejected = |line: &&str| {
        line.contains("sched_ext: BPF scheduler")
            && line.contains(" disabled (")
            && !["unregistered from user space", "unregistered from BPF", "unregistered from the main kernel"]
                .iter()
                .any(|normal| line.contains(normal))
    };
    // `sched_ext: NAME: TASK[PID] failed to run for 30.012s`; a task's name may contain a colon, a scheduler's not.
    let waiter = |line: &str| Waiter::read(line.split_once("sched_ext: ")?.1.split_once(": ")?.1);
    let last_waiter = log.lines().rev().find_map(waiter);
    let ejections = log.lines().filter(ejected).count() as u64;
    let last = log.lines().rev().find(ejected).and_then(|line| {
        let (scheduler, rest) = line.split_once("BPF scheduler \"")?.1.split_once("\" disabled (")?;
        let reason = rest.trim_end().trim_end_matches(')').to_owned();
        let after = log.lines().rev().take_while(|other| *other != line);
        let waiter = after.filter_map(waiter).last();
        Some(Ejection { number: ejections, scheduler: scheduler.to_owned(), reason, waiter })
    });
    let first = log.lines().next().unwrap_or_default();
    Log { ejections, last, last_waiter, partial: !first.contains("Linux version") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_errors_as_ejections() {
        let log = "[    0.000000] Linux version 6.18.15\n\
            [   10.1] sched_ext: BPF scheduler \"flsched_0.1.0\" enabled\n\
            [   12.1] sched_ext: BPF scheduler \"flsched_0.1.0\" disabled (unregistered from user space)\n\
            [   13.1] sched_ext: BPF scheduler \"flsched_0.1.0\" disabled (runnable task stall)\n\
            [   14.1] sched_ext: flsched_0.1.0: sh[1] failed to run for 30.0s\n\
            [   15.1] sched_ext: BPF scheduler \"x\" disabled (runtime error)\n";
        let counted = count_ejections(log);
        assert_eq!((counted.ejections, counted.partial), (2, false));
        let waiter = counted.last_waiter.unwrap();
        assert_eq!((waiter.task.as_str(), waiter.pid), ("sh", 1));
        let last = counted.last.unwrap();
        assert_eq!((last.number, last.scheduler.as_str(), last.reason.as_str()), (2, "x", "runtime error"));
        assert_eq!(last.waiter, None);
        let stalled = count_ejections(&log.lines().take(5).collect::<Vec<_>>().join("\n")).last.unwrap();
        assert_eq!((stalled.reason.as_str(), stalled.waiter), ("runnable task stall", Some(waiter)));
        assert!(count_ejections("[ 99.0] eth0: up\n").partial);
    }

    #[test]
    fn kernels_have_eevdf_since_6_6() {
        assert_eq!(["6.6-rc1", "6.18.15+deb13", "7.0"].map(own_scheduler), ["eevdf"; 3]);
        assert_eq!(["6.5.13", "5.14.0-503.el9"].map(own_scheduler), ["cfs"; 2]);
    }

    #[test]
    fn knows_its_own_policies() {
        assert_eq!(identify("flsched_0.1.0"), (Some("flsched".into()), Some("0.1.0".into())));
        assert_eq!(identify("bpfland_1.2"), (None, None));
    }
}
