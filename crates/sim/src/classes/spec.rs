//! A scheduler as the user names it.
use super::{Cfs, CfsOptions, Class, Eevdf, EevdfOptions, Fair, Rt, RtOptions};
use crate::core::{Core, Scheduling};
use crate::ext::Ext;
use crate::machine::Machine;
use crate::{Error, Policy};
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
    Policy {
        /// Which.
        policy: &'static Policy,
        /// Knobs that are not at their defaults.
        knobs: BTreeMap<String, u64>,
    },
}

impl Scheduler {
    /// What the first task asks for, and all those inherit that do not ask for anything else.
    pub(crate) fn scheduling(&self) -> Scheduling {
        match self {
            Self::Fifo(_) => Scheduling::Fifo(1),
            Self::Rr(_) => Scheduling::RoundRobin(1),
            Self::Batch(_) => Scheduling::Batch,
            Self::Eevdf(_) | Self::Cfs(_) | Self::Policy { .. } => Scheduling::Normal,
        }
    }
}

impl Scheduler {
    /// It promises that no CPU idles for long while a task that may run there waits. The kernel's classes
    /// balance the load now and then and do not, nor does FLSCHED as published, which only pushes, nor a
    /// Smove that was told to let tasks wait for ticks.
    pub fn keeps_cpus_busy(&self) -> bool {
        let Self::Policy { policy, knobs } = self else { return false };
        let is_published = policy.choice("paper").is_ok_and(|(knob, paper)| knobs.get(knob) == Some(&paper));
        let waits = knobs.get("delay_us").is_some_and(|&delay_us| delay_us > SHORT_US);
        !is_published && !waits
    }

    /// What a user who chose it for this machine should know.
    pub fn warning(&self, machine: &Machine) -> Option<String> {
        let Self::Policy { policy, .. } = self else { return None };
        let asks = policy.variables.iter().any(|(name, _)| *name == "max_mhz");
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
        Scheduler::Policy { policy, knobs } => Box::new(Ext::new(core, policy, knobs, BELOW_RT)?),
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
            Self::Policy { policy, knobs } => {
                let shown = |(name, &value): (&'_ String, &u64)| {
                    let knob = policy.knobs.iter().find(|knob| knob.name == name);
                    knob.map_or_else(|| value.to_string(), |knob| knob.show(value))
                };
                (policy.name, knobs.iter().map(|knob| (knob.0.as_str(), shown(knob))).collect())
            }
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
    let kernel = KERNELS.iter().find(|(known, _)| *known == name);
    let policy = Policy::all().iter().find(|policy| policy.name == name);
    if kernel.is_none() && policy.is_none() {
        let policies = Policy::all().iter().map(|policy| policy.name);
        let names: Vec<&str> = KERNELS.iter().map(|(name, _)| *name).chain(policies).collect();
        return Err(Error::unknown("scheduler", name, &names));
    }
    let mut set = BTreeMap::new();
    for assignment in rest.split(',').filter(|part| !part.is_empty()) {
        let Some((setting, value)) = assignment.split_once('=') else {
            let policy =
                policy.ok_or_else(|| Error::Usage(format!("{text}: {assignment} is not NAME=VALUE")))?;
            let (knob, value) = policy.choice(assignment.trim())?;
            set.insert(knob.to_owned(), value);
            continue;
        };
        let (setting, value) = (setting.trim().replace('-', "_"), value.trim());
        let value = match (kernel, policy) {
            (Some((_, settings)), _) => parse_setting(name, settings, &setting, value)?,
            (None, Some(policy)) => policy.parse_knob(&setting, value)?,
            (None, None) => unreachable!("one of them was found"),
        };
        set.insert(setting, value);
    }
    Ok(match policy {
        Some(policy) => Scheduler::Policy { policy, knobs: set },
        None => kernels(name, &set),
    })
}

fn parse_setting(scheduler: &str, settings: &[Setting], name: &str, text: &str) -> Result<u64, Error> {
    let Some((_, range)) = settings.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = settings.iter().map(|(name, _)| *name).collect();
        return Err(Error::unknown(&format!("setting of {scheduler}"), name, &names));
    };
    let (low, high) = (range.start(), range.end());
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        Error::Usage(format!("{scheduler}:{name}: {text} is not a whole number from {low} to {high}"))
    })
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
        assert_eq!(error, "unknown setting of eevdf slice_ms; did you mean slice_us? (there are: slice_us)");
    }
}
