//! Processes: those that the user names must exist when a policy starts; and which ones this process sees.
use caps::{CapSet, Capability};
use flsched_spec::{PolicySpec, UsageError};
use std::fs;
use std::io::ErrorKind;

/// Inode of the first PID namespace (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Whether the numbers of processes here are those of the machine: not in a container without its host's PID namespace.
pub(crate) fn are_of_machine() -> bool {
    // A kernel without such namespaces has no such file.
    fs::read_link("/proc/self/ns/pid")
        .map_or_else(|error| error.kind() == ErrorKind::NotFound, |name| name.as_os_str() == FIRST_NAMESPACE)
}

/// Whether /proc shows all tasks of the machine.
pub(crate) fn sees_all() -> bool {
    let hides = || {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        mounts.lines().any(|mount| {
            mount.split(' ').nth(1) == Some("/proc")
                && mount.contains("hidepid=")
                && !mount.contains("hidepid=0")
        })
    };
    let may_see = || caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_PTRACE).unwrap_or(false);
    are_of_machine() && (!hides() || may_see())
}

/// Each pid must be that of an existing process, by the machine's numbers. Not when a policy is attached again: processes
/// may have ended.
pub(crate) fn check(spec: &PolicySpec) -> Result<(), UsageError> {
    let named = spec.policy.lists.iter().find(|list| spec.pids().contains_key(&list.name));
    if let (Some(list), false) = (named, are_of_machine()) {
        let why = "processes have other numbers in this container than on the machine: share the host's PID namespace";
        return Err(list.wrong(why.into()));
    }
    exist(spec)
}

fn exist(spec: &PolicySpec) -> Result<(), UsageError> {
    for list in &spec.policy.lists {
        for &pid in spec.pids().get(&list.name).into_iter().flatten() {
            match process_of(pid) {
                Some(process) if process == pid => {}
                Some(process) => {
                    return Err(list.wrong(format!("{pid} is a thread of process {process}: name that")));
                }
                None => return Err(list.wrong(format!("there is no process {pid}"))),
            }
        }
    }
    Ok(())
}

/// The process that a thread belongs to; `None`: there is no such thread.
fn process_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(pids: &str) -> Result<(), String> {
        exist(&format!("rr2:pids={pids}").parse().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn only_processes_that_there_are() {
        assert_eq!(checked(&format!("{}+1", std::process::id())), Ok(()));
        let error = checked("1+4194305").unwrap_err();
        assert!(error.contains("there is no process 4194305"), "{error}");
    }

    #[test]
    fn a_thread_is_not_a_process() {
        let (me, tid) = (std::process::id(), nix::unistd::gettid().as_raw() as u32);
        assert_ne!(me, tid, "tests run in threads of their own");
        let error = checked(&tid.to_string()).unwrap_err();
        assert!(error.contains(&format!("thread of process {me}")), "{error}");
    }
}
