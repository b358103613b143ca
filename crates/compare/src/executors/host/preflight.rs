//! Checks before the first run whether this machine can do all runs.
use super::{attach, why};
use crate::execute::ExecError;
use crate::{Contender, Scheduler, Workload, workload};

/// Checks whether these schedulers and workloads can run on this machine, with breakdowns if `with_why`. The error lists
/// every obstacle with its remedy.
pub fn check(schedulers: &[Contender], workloads: &[Workload], with_why: bool) -> Result<(), ExecError> {
    let root = nix::unistd::geteuid().is_root();
    let mut obstacles = obstacles(schedulers, attach::attachment().is_some(), root);
    if with_why {
        obstacles.extend(match root {
            true => why::check().err().map(|error| format!("{error}; leave out --why, or use --on vm")),
            false => Some("root is needed for --why; run this with sudo, or use --on vm".into()),
        });
    }
    for programs in workloads.iter().map(workload::programs) {
        obstacles.extend(programs.err().map(|error| error.to_string()));
    }
    obstacles.extend(attach::free(attach::attachment()).err().map(|busy| busy.to_string()));
    match obstacles.is_empty() {
        true => Ok(()),
        false => Err(ExecError::Unable(obstacles.join("\n"))),
    }
}

/// Requirements of the schedulers that this machine does not meet.
fn obstacles(schedulers: &[Contender], has_sched_ext: bool, root: bool) -> Vec<String> {
    let names = |wanted: &dyn Fn(&Scheduler) -> bool| {
        let names: Vec<_> =
            schedulers.iter().filter(|it| wanted(&it.scheduler)).map(Contender::to_string).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let mut obstacles = Vec::new();
    if !has_sched_ext && let Some(names) = names(&Scheduler::is_sched_ext) {
        obstacles.push(format!(
            "this kernel has no sched_ext, which {names} needs (Linux 6.16 or newer with \
             CONFIG_SCHED_CLASS_EXT=y); use --on vm, which brings a kernel of its own"
        ));
    }
    if !root && let Some(names) = names(&Scheduler::needs_root) {
        obstacles.push(format!("root is needed for {names}; run this with sudo, or use --on vm"));
    }
    obstacles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender(name: &str) -> Contender {
        name.parse::<Scheduler>().unwrap().into()
    }

    #[test]
    fn each_obstacle_has_its_remedy() {
        let schedulers = ["eevdf", "flsched"].map(contender);
        assert!(obstacles(&schedulers, true, true).is_empty());
        let found = obstacles(&schedulers, false, false);
        assert!(found[0].contains("which flsched needs") && found[0].contains("--on vm"), "{found:?}");
        assert!(found[1].contains("flsched; run this with sudo"), "{found:?}");
    }

    #[test]
    fn the_default_class_needs_nothing() {
        let schedulers = ["eevdf", "batch"].map(contender);
        assert!(obstacles(&schedulers, false, false).is_empty());
        for privileged in ["fifo", "eevdf:slice_us=100"] {
            assert_eq!(obstacles(&[contender(privileged)], false, false).len(), 1);
        }
    }
}
