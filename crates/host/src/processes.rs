//! Processes that the user names must exist when a policy starts.
use flsched_spec::{PolicySpec, UsageError};
use std::fs;

/// Each pid must be that of an existing process.
pub(crate) fn check(spec: &PolicySpec) -> Result<(), UsageError> {
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
        check(&format!("rr2:pids={pids}").parse().unwrap()).map_err(|error| error.to_string())
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
