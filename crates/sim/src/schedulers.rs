//! Creates the classes that model a scheduler as the user names it.
use crate::Error;
use crate::classes::{Cfs, CfsOptions, Class, Eevdf, EevdfOptions, Fair, Rt, RtOptions};
use crate::core::{Core, Scheduling};
use crate::env::objects::Object;
use crate::ext::Ext;
use crate::kfuncs;
use crate::rules::is_control;
use flsched_machine::Machine;
use flsched_spec::{Kernel, KernelSpec, PolicySpec, Scheduler};

/// Shorter than any tick.
const SHORT_US: u64 = 900;
/// The number of the class below the real-time class.
const BELOW_RT: usize = 1;

/// The policy of the first task, which all tasks inherit that do not set another one.
pub(crate) fn scheduling(scheduler: &Scheduler) -> Scheduling {
    let Scheduler::Kernel(spec) = scheduler else { return Scheduling::Normal };
    match spec.kernel {
        Kernel::Fifo => Scheduling::Fifo(1),
        Kernel::Rr => Scheduling::RoundRobin(1),
        Kernel::Batch => Scheduling::Batch,
        Kernel::Eevdf | Kernel::Cfs => Scheduling::Normal,
    }
}

/// Whether the scheduler guarantees that no CPU idles for long while a task that may run there waits.
/// The kernel's classes balance load only now and then, so they do not. Neither does FLSCHED as
/// published, which only pushes, nor a Smove whose tasks may wait for ticks.
pub fn keeps_cpus_busy(scheduler: &Scheduler) -> bool {
    let Scheduler::Policy(spec) = scheduler else { return false };
    let waits = spec.knobs().get("delay_us").is_some_and(|&delay_us| delay_us > SHORT_US);
    !is_control(spec) && !waits
}

/// What the user should know about this scheduler on this machine.
pub fn warning(scheduler: &Scheduler, machine: &Machine) -> Option<String> {
    let Scheduler::Policy(PolicySpec { policy, .. }) = scheduler else { return None };
    let asks = Object::of(policy).is_ok_and(|object| object.has_variable("max_mhz"));
    let why = machine.why_no_choice().filter(|_| asks)?;
    Some(format!(
        "{} finds no slow CPU here, so what it does by frequency changes nothing: {why}",
        policy.name
    ))
}

/// The run's classes, the highest first: one for real-time tasks, one for all others.
pub(crate) fn set_up(scheduler: &Scheduler, core: &mut Core) -> Result<Vec<Box<dyn Class>>, Error> {
    let is_realtime = scheduler.is_realtime();
    let mut options = RtOptions::of(&core.machine.kernel);
    if let Scheduler::Kernel(spec) = scheduler
        && is_realtime
    {
        options.set(spec);
    }
    let rt = Box::new(Rt::new(core, options, 0));
    let eevdf = |core: &mut Core, options| Box::new(Fair::new(core, Eevdf::new(core, options), BELOW_RT));
    let below: Box<dyn Class> = match scheduler {
        Scheduler::Kernel(_) if is_realtime => eevdf(core, EevdfOptions::default()),
        Scheduler::Kernel(spec) if spec.kernel == Kernel::Cfs => {
            let options = CfsOptions::from(spec);
            core.locks.are_free = options.free_locks;
            Box::new(Fair::new(core, Cfs::new(core, options), BELOW_RT))
        }
        Scheduler::Kernel(spec) => eevdf(core, EevdfOptions { slice_us: spec.get("slice_us") }),
        Scheduler::Policy(spec) => Box::new(Ext::new(core, spec, BELOW_RT, kfuncs::find)?),
        Scheduler::Peer(peer) => {
            return Err(Error::Usage(format!(
                "`{}` is a program, which the simulator cannot run",
                peer.program
            )));
        }
    };
    Ok(vec![rt, below])
}

impl RtOptions {
    /// Those that the user has set.
    fn set(&mut self, spec: &KernelSpec) {
        self.slice_ms = spec.get("slice_ms").unwrap_or(self.slice_ms);
        self.push_ipi = spec.get("push_ipi").map_or(self.push_ipi, |push_ipi| push_ipi == 1);
    }
}

impl From<&KernelSpec> for CfsOptions {
    fn from(spec: &KernelSpec) -> Self {
        Self {
            latency_us: spec.get("latency_us"),
            min_granularity_us: spec.get("min_granularity_us"),
            wakeup_granularity_us: spec.get("wakeup_granularity_us"),
            skip_yielder: spec.get("skip_yielder") == Some(1),
            compat_yield: spec.get("compat_yield") == Some(1),
            free_locks: spec.get("free_locks") == Some(1),
        }
    }
}
