//! How the kernel was built and booted, and what was reserved since, as far as it keeps schedulers out.
use super::{Finding, failure, ok};
use crate::sched_ext;
use crate::tasks::{self, Stat};
use flsched_machine::read_cpu_list;
use nix::libc;
use std::fs;

/// What to do about `isolcpus=`.
pub(crate) const ISOLATED_REMEDY: &str = "boot without isolcpus=, which sched_ext does not accept, and keep tasks off those \
                                          CPUs by cpusets instead (AllowedCPUs= of systemd), whose CPUs sched_ext keeps to";
/// What to do about PREEMPT_RT.
pub(crate) const REAL_TIME_REMEDY: &str =
    "boot a kernel without PREEMPT_RT: sched_ext does not attach on one with it";

/// CPUs that `isolcpus=` keeps out of scheduling, as a list; `None`: there are none.
pub(crate) fn isolated_cpus() -> Option<String> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    isolated_by(&read("/proc/cmdline"), &read("/sys/devices/system/cpu/isolated"))
}

/// `isolcpus=managed_irq,…` isolates no CPU; and a cpuset's partition can isolate CPUs, too, which sched_ext accepts.
fn isolated_by(command_line: &str, isolated: &str) -> Option<String> {
    let is_by_boot = command_line.split_whitespace().any(|word| word.starts_with("isolcpus="));
    Some(isolated.trim()).filter(|cpus| is_by_boot && !cpus.is_empty()).map(str::to_owned)
}

/// Whether this is a kernel with PREEMPT_RT.
pub(crate) fn is_real_time() -> bool {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    read("/sys/kernel/realtime").trim() == "1" || read("/proc/version").contains("PREEMPT_RT")
}

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = vec![match isolated_cpus() {
        Some(cpus) => {
            failure("isolcpus", format!("isolcpus= keeps CPUs {cpus} out of scheduling"), ISOLATED_REMEDY)
        }
        None => ok("isolcpus", "no CPUs are isolated at boot"),
    }];
    if is_real_time() {
        findings.push(failure("PREEMPT_RT", "this kernel is built with PREEMPT_RT", REAL_TIME_REMEDY));
    }
    findings.extend(deadlines());
    findings
}

/// What to do about reservations.
pub(crate) const DEADLINES_REMEDY: &str =
    "end some of these tasks (policy 6 in /proc/PID/sched), or give them less run time (chrt --deadline)";

/// What SCHED_DEADLINE tasks reserve, if it leaves no room for sched_ext's deadline server.
pub(crate) fn reservations() -> Option<String> {
    has_room()?.err()
}

fn deadlines() -> Option<Finding> {
    const CHECK: &str = "deadlines";
    Some(match has_room()? {
        Ok(()) => {
            ok(CHECK, "the reservations of SCHED_DEADLINE tasks leave room for sched_ext's deadline server")
        }
        Err(found) => failure(CHECK, found, DEADLINES_REMEDY),
    })
}

/// Whether the reservations of SCHED_DEADLINE leave room for sched_ext's deadline server; `None`: there is no server, or no
/// limit.
fn has_room() -> Option<Result<(), String>> {
    if !sched_ext::has_deadline_server() {
        return None;
    }
    let number =
        |file: &str| fs::read_to_string(format!("/proc/sys/kernel/{file}")).ok()?.trim().parse::<f64>().ok();
    // -1: nothing is refused, and nothing is certain either.
    let limit = number("sched_rt_runtime_us").filter(|runtime| *runtime >= 0.0)?
        / number("sched_rt_period_us").filter(|period| *period > 0.0)?;
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = read_cpu_list(&online)?.len() as f64;
    Some(room(reserved(), cpus, limit))
}

/// The share of a CPU that the kernel gives each of its servers by default.
const SERVER: f64 = 0.05;

/// Whether two servers a CPU, for the default class and for sched_ext, fit beside what is reserved.
fn room(reserved: f64, cpus: f64, limit: f64) -> Result<(), String> {
    let servers = 2.0 * SERVER * cpus;
    if reserved + servers <= limit * cpus {
        return Ok(());
    }
    Err(format!(
        "SCHED_DEADLINE tasks reserve {reserved:.2} of {cpus} CPUs, which leaves no room for sched_ext's deadline server \
         (5 % of each): the kernel refuses to attach a scheduler"
    ))
}

/// Of all tasks, in CPUs.
fn reserved() -> f64 {
    let is_deadline = |stat: Stat| stat.class == libc::SCHED_DEADLINE as u32;
    let deadline = tasks::all().filter(|(process, id)| Stat::of_task(*process, *id).is_some_and(is_deadline));
    deadline.filter_map(|(_, id)| bandwidth(id)).sum()
}

/// Of a SCHED_DEADLINE task: run time / period.
fn bandwidth(task: u32) -> Option<f64> {
    // SAFETY: all fields are integers, for which 0 is a value.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: the kernel writes `size` bytes at most.
    let outcome =
        unsafe { libc::syscall(libc::SYS_sched_getattr, task as libc::pid_t, &raw mut attr, size, 0) };
    (outcome == 0 && attr.sched_period > 0).then(|| attr.sched_runtime as f64 / attr.sched_period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_must_leave_room_for_both_servers() {
        assert_eq!(room(0.0, 4.0, 0.95), Ok(()));
        assert_eq!(room(3.3, 4.0, 0.95), Ok(()));
        let found = room(3.5, 4.0, 0.95).unwrap_err();
        assert!(found.starts_with("SCHED_DEADLINE tasks reserve 3.50 of 4 CPUs"), "{found}");
    }

    #[test]
    fn isolated_cpus_are_those_of_the_command_line() {
        assert_eq!(isolated_by("quiet isolcpus=3,5-7\n", "3,5-7\n").as_deref(), Some("3,5-7"));
        assert_eq!(isolated_by("quiet isolcpus=managed_irq,3\n", "\n"), None);
        assert_eq!(isolated_by("quiet\n", "3\n"), None, "a partition of a cpuset");
    }

    #[test]
    fn other_tasks_reserve_nothing() {
        assert_eq!(bandwidth(std::process::id()), None);
    }
}
