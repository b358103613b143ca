//! A scheduler as the user names it.
use super::{Cfs, CfsOptions, Class, Eevdf, EevdfOptions, Fair, Rt, RtOptions};
use crate::Error;
use crate::core::{Core, Scheduling};
use crate::env::objects::Object;
use crate::ext::Ext;
use crate::machine::Machine;
use flsched_spec::{Policy, PolicySpec, UsageError, number};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// Less than any tick.
const SHORT_US: u64 = 900;
/// The number of the class below the real-time class.
const BELOW_RT: usize = 1;

/// Who schedules.
#[derive(Debug, Clone)]
pub enum Scheduler {
    /// The real-time class, all tasks `SCHED_FIFO` at one priority.
    Fifo(RtOptions),
    /// The same, `SCHED_RR`.
    Rr(RtOptions),
    /// The fair class since Linux 6.6, as in 6.18.
    Eevdf(EevdfOptions),
    /// The same, all tasks `SCHED_BATCH`.
    Batch(EevdfOptions),
    /// The fair class until Linux 6.5, as in 2.6.38 and 3.10.
    Cfs(CfsOptions),
    /// A policy under sched_ext.
    Policy(PolicySpec),
}

impl Scheduler {
    /// What the first task asks for, and all those inherit that do not ask for anything else.
    pub(crate) fn scheduling(&self) -> Scheduling {
        match self {
            Self::Fifo(_) => Scheduling::Fifo(1),
            Self::Rr(_) => Scheduling::RoundRobin(1),
            Self::Batch(_) => Scheduling::Batch,
            Self::Eevdf(_) | Self::Cfs(_) | Self::Policy(_) => Scheduling::Normal,
        }
    }
}

impl Scheduler {
    /// It promises that no CPU idles for long while a task that may run there waits. The kernel's classes
    /// balance the load now and then and do not, nor does FLSCHED as published, which only pushes, nor a
    /// Smove that was told to let tasks wait for ticks.
    pub fn keeps_cpus_busy(&self) -> bool {
        let Self::Policy(spec) = self else { return false };
        let chosen = spec.policy.choice("paper");
        let is_published = chosen.is_ok_and(|(knob, paper)| spec.value(&knob.name) == Some(paper));
        let waits = spec.knobs().get("delay_us").is_some_and(|&delay_us| delay_us > SHORT_US);
        !is_published && !waits
    }

    /// What a user who chose it for this machine should know.
    pub fn warning(&self, machine: &Machine) -> Option<String> {
        let Self::Policy(PolicySpec { policy, .. }) = self else { return None };
        let asks = Object::of(policy).is_ok_and(|object| object.has_variable("max_mhz"));
        let why = machine.why_no_choice().filter(|_| asks)?;
        Some(format!(
            "{} finds no slow CPU here, so what it does by frequency changes nothing: {why}",
            policy.name
        ))
    }
}

/// The run's classes, the highest first: one for real-time tasks, one for all others.
pub(crate) fn set_up(scheduler: &Scheduler, core: &mut Core) -> Result<Vec<Box<dyn Class>>, Error> {
    let rt = match scheduler {
        Scheduler::Fifo(options) | Scheduler::Rr(options) => *options,
        _ => RtOptions::default(),
    };
    let rt = Box::new(Rt::new(core, rt, 0));
    let eevdf = |core: &mut Core, options| Box::new(Fair::new(core, Eevdf::new(core, options), BELOW_RT));
    let below: Box<dyn Class> = match scheduler {
        Scheduler::Fifo(_) | Scheduler::Rr(_) => {
            core.ask_for_full_speed();
            eevdf(core, EevdfOptions::default())
        }
        Scheduler::Eevdf(options) | Scheduler::Batch(options) => eevdf(core, *options),
        Scheduler::Cfs(options) => Box::new(Fair::new(core, Cfs::new(core, *options), BELOW_RT)),
        Scheduler::Policy(spec) => Box::new(Ext::new(core, spec, BELOW_RT)?),
    };
    Ok(vec![rt, below])
}

/// A setting of a kernel scheduler: its name and its range.
type Setting = (&'static str, RangeInclusive<u64>);

/// Microseconds: what the kernel takes.
const SLICES_US: RangeInclusive<u64> = 100..=100_000;
const EEVDF: &[Setting] = &[("slice_us", SLICES_US)];
const CFS: &[Setting] = &[
    ("latency_us", 100..=1_000_000),
    ("min_granularity_us", 100..=1_000_000),
    ("wakeup_granularity_us", 0..=1_000_000),
    ("skip_yielder", 0..=1),
];
const FIFO: &[Setting] = &[("push_ipi", 0..=1)];
const RR: &[Setting] = &[("slice_ms", 1..=10_000), ("push_ipi", 0..=1)];

/// The kernel's own schedulers, and what may be set.
const KERNELS: &[(&str, &[Setting])] =
    &[("fifo", FIFO), ("rr", RR), ("eevdf", EEVDF), ("batch", EEVDF), ("cfs", CFS)];

fn kernels(name: &str, set: &BTreeMap<String, u64>) -> Scheduler {
    let get = |name: &str| set.get(name).copied();
    let rt = RtOptions {
        slice_ms: get("slice_ms").unwrap_or(RtOptions::default().slice_ms),
        push_ipi: get("push_ipi").unwrap_or(1) == 1,
    };
    let eevdf = EevdfOptions { slice_us: get("slice_us") };
    match name {
        "fifo" => Scheduler::Fifo(rt),
        "rr" => Scheduler::Rr(rt),
        "eevdf" => Scheduler::Eevdf(eevdf),
        "batch" => Scheduler::Batch(eevdf),
        _ => Scheduler::Cfs(CfsOptions {
            latency_us: get("latency_us"),
            min_granularity_us: get("min_granularity_us"),
            wakeup_granularity_us: get("wakeup_granularity_us"),
            skip_yielder: get("skip_yielder") == Some(1),
        }),
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rt = RtOptions::default();
        let push_ipi = |options: &RtOptions| (!options.push_ipi).then_some(0);
        let (name, set): (&str, Vec<(&str, String)>) = match self {
            Self::Fifo(options) => ("fifo", list([("push_ipi", push_ipi(options))])),
            Self::Rr(options) => {
                let slice_ms = Some(options.slice_ms).filter(|&ms| ms != rt.slice_ms);
                ("rr", list([("push_ipi", push_ipi(options)), ("slice_ms", slice_ms)]))
            }
            Self::Eevdf(options) => ("eevdf", list([("slice_us", options.slice_us)])),
            Self::Batch(options) => ("batch", list([("slice_us", options.slice_us)])),
            Self::Cfs(options) => (
                "cfs",
                list([
                    ("latency_us", options.latency_us),
                    ("min_granularity_us", options.min_granularity_us),
                    ("skip_yielder", options.skip_yielder.then_some(1)),
                    ("wakeup_granularity_us", options.wakeup_granularity_us),
                ]),
            ),
            Self::Policy(spec) => return spec.fmt(out),
        };
        write!(out, "{name}")?;
        for (index, (setting, value)) in set.iter().enumerate() {
            write!(out, "{}{setting}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

fn list<const N: usize>(all: [(&'static str, Option<u64>); N]) -> Vec<(&'static str, String)> {
    all.into_iter().filter_map(|(name, value)| Some((name, value?.to_string()))).collect()
}

/// Reads `NAME[:SETTING=NUMBER,…]`: `fifo`, `rr`, `eevdf`, `batch`, `cfs`, or a policy and its knobs, of
/// which a value that has a name may stand alone: `flsched:paper`.
pub fn parse_scheduler(text: &str) -> Result<Scheduler, Error> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    if Policy::all().iter().any(|policy| policy.name == name) {
        return without_processes(text.parse()?).map(Scheduler::Policy);
    }
    let Some((_, settings)) = KERNELS.iter().find(|(known, _)| *known == name) else {
        let policies = Policy::all().iter().map(|policy| policy.name);
        let names: Vec<&str> = KERNELS.iter().map(|(name, _)| *name).chain(policies).collect();
        return Err(Error::unknown("scheduler", name, &names));
    };
    let mut set = BTreeMap::new();
    for assignment in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((setting, value)) = assignment.split_once('=') else {
            return Err(Error::Usage(format!("{text}: {assignment} is not NAME=VALUE")));
        };
        let setting = setting.trim().replace('-', "_");
        let value = parse_setting(name, settings, &setting, value.trim())?;
        set.insert(setting, value);
    }
    Ok(kernels(name, &set))
}

/// A simulated run has no processes before it begins, so nobody can name them.
fn without_processes(spec: PolicySpec) -> Result<PolicySpec, Error> {
    match spec.pids().keys().next() {
        Some(list) => Err(Error::Usage(format!(
            "{}: {list} names processes, and a simulated run has none before it begins",
            spec.policy.name
        ))),
        None => Ok(spec),
    }
}

fn parse_setting(scheduler: &str, settings: &[Setting], name: &str, text: &str) -> Result<u64, UsageError> {
    let Some((_, range)) = settings.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = settings.iter().map(|(name, _)| *name).collect();
        return Err(UsageError::unknown(&format!("setting of {scheduler}"), name, &names));
    };
    number(&format!("{scheduler}:{name}"), text, range.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in [
            "fifo",
            "fifo:push_ipi=0",
            "rr:push_ipi=0,slice_ms=20",
            "eevdf",
            "eevdf:slice_us=20000",
            "batch",
            "cfs:latency_us=6000,skip_yielder=1",
            "flsched",
            "flsched:max_delay_us=20000,slice_us=5000",
        ] {
            assert_eq!(parse_scheduler(text).unwrap().to_string(), text);
        }
        assert_eq!(parse_scheduler("flsched:paper").unwrap().to_string(), "flsched:variant=paper");
    }

    #[test]
    fn says_what_is_wrong() {
        for bad in [
            "flshced",
            "fifo:x",
            "fifo:slice_ms=3",
            "eevdf:slice_us=99",
            "eevdf:slice_us=-1",
            "cfs:latency=5",
            "rr:push_ipi=2",
            "flsched:slice_us",
            "flsched:slice_us=1",
            "flsched:x=1",
            "flsched:papers",
        ] {
            assert!(parse_scheduler(bad).unwrap_err().is_usage(), "{bad}");
        }
        let error = parse_scheduler("eevdf:slice_ms=3").unwrap_err().to_string();
        assert_eq!(error, "unknown setting of eevdf `slice_ms`; did you mean `slice_us`? (valid: slice_us)");
    }

    #[test]
    fn nobody_can_name_processes() {
        assert!(parse_scheduler("rr2:group_by=cgroup").is_ok());
        let error = parse_scheduler("rr2:pids=12+34").unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("pids names processes"), "{error}");
    }
}
