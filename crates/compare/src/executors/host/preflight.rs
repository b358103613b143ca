//! Checks before the first run whether this machine can do all runs.
use super::{attach, timeline, why};
use crate::execute::ExecError;
use crate::{CompareSpec, Contender, Scheduler, workload};
use flsched_host::{Lack, Purpose};

/// Checks whether this machine can do all that is asked for. The error lists every obstacle with its remedy.
pub fn check(spec: &CompareSpec) -> Result<(), ExecError> {
    let may = May {
        is_root: nix::unistd::geteuid().is_root(),
        attach: Purpose::ATTACH.lack(),
        be_real_time: Purpose::REAL_TIME.lack(),
    };
    let mut obstacles = obstacles(&spec.schedulers, attach::attachment().is_some(), &may);
    if spec.why {
        let refused = why::check().err();
        obstacles.extend(refused.map(|error| format!("leave out --why, or use --on vm: {error}")));
    }
    if spec.timeline {
        let refused = timeline::check().err();
        obstacles.extend(refused.map(|error| format!("leave out --timeline, or use --on vm: {error}")));
    }
    for needs in spec.able().map(workload::needs) {
        obstacles.extend(needs.err().map(|error| error.to_string()));
    }
    obstacles.extend(attach::free(attach::attachment()).err().map(|busy| busy.to_string()));
    match obstacles.is_empty() {
        true => Ok(()),
        false => Err(ExecError::Unable(obstacles.join("\n"))),
    }
}

/// What this process may do.
#[derive(Default)]
struct May {
    is_root: bool,
    attach: Option<Lack>,
    be_real_time: Option<Lack>,
}

/// Requirements of the schedulers that this machine does not meet.
fn obstacles(schedulers: &[Contender], has_sched_ext: bool, may: &May) -> Vec<String> {
    let names = |wanted: &dyn Fn(&Scheduler) -> bool| {
        let names: Vec<_> =
            schedulers.iter().filter(|it| wanted(&it.scheduler)).map(Contender::to_string).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let mut obstacles = Vec::new();
    if !has_sched_ext && let Some(names) = names(&Scheduler::is_sched_ext) {
        obstacles.push(format!(
            "this kernel has no sched_ext, which {names} needs (Linux 6.12 or newer with \
             CONFIG_SCHED_CLASS_EXT=y); use --on vm, which brings a kernel of its own"
        ));
    }
    if !may.is_root
        && let Some(names) = names(&Scheduler::needs_root)
    {
        obstacles.push(format!("root is needed for {names}; run this with sudo, or use --on vm"));
        return obstacles;
    }
    // Root of a container may lack capabilities.
    for (lack, wanted) in
        [(&may.attach, Scheduler::is_sched_ext as fn(&_) -> _), (&may.be_real_time, Scheduler::is_realtime)]
    {
        if let (Some(lack), Some(names)) = (lack, names(&wanted)) {
            obstacles.push(format!("{names}: {lack}; or use --on vm"));
        }
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
        assert!(obstacles(&schedulers, true, &May { is_root: true, ..May::default() }).is_empty());
        let found = obstacles(&schedulers, false, &May::default());
        assert!(found[0].contains("which flsched needs") && found[0].contains("--on vm"), "{found:?}");
        assert!(found[1].contains("flsched; run this with sudo"), "{found:?}");
    }

    #[test]
    fn the_default_class_needs_nothing() {
        let schedulers = ["eevdf", "batch"].map(contender);
        assert!(obstacles(&schedulers, false, &May::default()).is_empty());
        for privileged in ["fifo", "eevdf:slice_us=100"] {
            assert_eq!(obstacles(&[contender(privileged)], false, &May::default()).len(), 1);
        }
    }
}
