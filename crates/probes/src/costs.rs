//! How often the scheduler's functions are called, and how long they take.
use crate::functions::CLASS_FUNCTIONS;
use crate::probe::{self, map, open, program, refused, summed, words};
use crate::run::{Machine, Request};
use crate::symbols::Symbols;
use crate::{Error, anatomy};
use flsched_base::reports::{self, Fields, Kept};
use flsched_host::{Purpose, Running, check_machine};
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramInput};
use scx_utils::compat;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;

const PROBE: &str = "costs";
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/costs.bpf.o"));
/// As in costs.bpf.c.
const CALIBRATION_ROUNDS: f64 = 10_000.0;
const CALIBRATE: &str = "calibrate";
const CALIBRATED: &str = "bpf_dynptr_is_null";

/// The costs of the default scheduler's functions beside the policy's.
#[derive(Debug, Deserialize, Serialize)]
pub struct CostsReport {
    /// Where it was measured.
    #[serde(flatten)]
    pub machine: Machine,
    pub command: String,
    /// The policy with its knobs.
    pub policy: String,
    pub policy_version: String,
    /// What the probe adds to each call that it measures.
    pub probe: Overhead,
    /// Time of the command without any probe: the default scheduler, then the policy, in seconds.
    pub run_s: [f64; 2],
    /// The same while the functions were probed.
    pub probed_run_s: [f64; 2],
    /// The functions of the scheduling classes.
    pub functions: Vec<FunctionCosts>,
    /// The policy's callbacks, by the kernel's own statistics of BPF programs.
    pub callbacks: Vec<CallbackCost>,
}

impl Kept for CostsReport {
    const KIND: &'static str = "costs";
    const VERSION: u32 = 2;

    fn renamed(old: Fields) -> Fields {
        reports::renamed(old, "version", "policy_version")
    }
}

/// What the probe adds, measured on a kernel function that does next to nothing.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
pub struct Overhead {
    /// To the measured time of a call, in nanoseconds; subtracted.
    pub inside_ns: f64,
    /// To the time of the calling function, in nanoseconds; subtracted where that function is probed
    /// too.
    pub whole_ns: f64,
}

/// The costs of a class's function: the fair class's under the default scheduler, sched_ext's under
/// the policy.
#[derive(Debug, Deserialize, Serialize)]
pub struct FunctionCosts {
    /// What it is for.
    pub role: String,
    /// The fair class's function.
    pub fair: Cost,
    /// sched_ext's function, including the policy's callbacks.
    pub scx: Cost,
}

/// Calls and mean time.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Cost {
    /// This class has no such function on this kernel, or the compiler removed it.
    Absent,
    /// The kernel does not allow a probe on it.
    NotTraceable { symbol: String },
    /// Measured.
    Measured {
        symbol: String,
        /// How often it was called.
        calls: u64,
        /// Its mean time with all that it calls, without the probe, in nanoseconds.
        mean_ns: f64,
        /// The median of the same, within 6 percent.
        median_ns: f64,
    },
}

/// A callback of the policy.
#[derive(Debug, Deserialize, Serialize)]
pub struct CallbackCost {
    /// Its name in the ops table.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Its mean time with all that it calls, in nanoseconds.
    pub mean_ns: f64,
}

pub fn costs(request: &Request<'_>) -> Result<CostsReport, Error> {
    check_machine()?;
    Purpose::FUNCTIONS.check()?;
    let symbols = Symbols::of_this_kernel()?;
    let probe = calibrate()?;
    let by_default = request.by_default(|request, scheduler, _| {
        let run_s = request.run(scheduler)?;
        let (probed_run_s, costs) = run_probed(request, scheduler, &symbols, probe)?;
        Ok((run_s, probed_run_s, costs))
    })?;
    let by_policy = request.by_policy(|request, scheduler, running| {
        let run_s = request.run(scheduler)?;
        let callbacks = match running {
            Some(running) => run_with_statistics(request, running)?,
            None => Vec::new(),
        };
        let (probed_run_s, costs) = run_probed(request, scheduler, &symbols, probe)?;
        Ok((run_s, probed_run_s, costs, callbacks))
    })?;
    let pairs = by_default.2.into_iter().zip(by_policy.2);
    let functions = CLASS_FUNCTIONS
        .iter()
        .zip(pairs)
        .map(|(function, ((fair, _), (_, scx)))| FunctionCosts { role: function.role.into(), fair, scx })
        .collect();
    Ok(CostsReport {
        machine: Machine::here(),
        command: request.command_line(),
        policy: request.spec.to_string(),
        policy_version: request.spec.policy.version.into(),
        probe,
        run_s: [by_default.0, by_policy.0],
        probed_run_s: [by_default.1, by_policy.1],
        functions,
        callbacks: by_policy.3,
    })
}

/// Runs the command with a probe on the functions of both classes.
fn run_probed(
    request: &Request<'_>,
    scheduler: &str,
    symbols: &Symbols,
    overhead: Overhead,
) -> Result<(f64, Vec<(Cost, Cost)>), Error> {
    let compiled = |names: &[&str]| names.iter().find_map(|name| symbols.compiled(name));
    let functions: Vec<_> =
        CLASS_FUNCTIONS.iter().map(|function| (compiled(function.fair), compiled(function.scx))).collect();
    let names = functions.iter().flat_map(|(fair, scx)| [fair, scx]).flatten().cloned().collect();
    let probe = CostProbe::attach(names, overhead)?;
    let run_s = request.run(scheduler)?;
    let read = |symbol: Option<String>| symbol.map_or(Cost::Absent, |symbol| probe.read(symbol));
    Ok((run_s, functions.into_iter().map(|(fair, scx)| (read(fair), read(scx))).collect()))
}

/// Runs the command while the kernel counts and times the policy's programs.
fn run_with_statistics(request: &Request<'_>, running: &Running) -> Result<Vec<CallbackCost>, Error> {
    let _counting = probe::timed()?;
    let now =
        || running.callbacks().map(|callback| probe::statistics(&callback)).collect::<Result<Vec<_>, _>>();
    let before = now()?;
    request.run(request.spec.policy.name)?;
    let after = now()?;
    let measured = running.callbacks().zip(before.into_iter().zip(after));
    Ok(measured
        .map(|(callback, (before, after))| {
            let (calls, ns) = (after.0 - before.0, after.1 - before.1);
            CallbackCost {
                name: anatomy::callback_name(request.spec.policy, &callback.name().to_string_lossy()),
                calls,
                mean_ns: ns as f64 / calls.max(1) as f64,
            }
        })
        .collect())
}

struct CostProbe {
    // Before the object they belong to.
    links: Vec<Link>,
    object: Object,
    /// The functions; a function's number is its index here.
    functions: Vec<String>,
    refusing: Vec<String>,
}

impl CostProbe {
    /// Probes these functions, as far as the kernel allows: it needs their type information, and
    /// space for a call in their code.
    fn attach(functions: Vec<String>, overhead: Overhead) -> Result<Self, Error> {
        let types = Btf::from_vmlinux().map_err(refused(PROBE))?;
        let is_typed = |name: &str| types.type_by_name::<types::Func<'_>>(name).is_some();
        let mut open = open(PROBE, OBJECT)?;
        for (variable, ns) in [("inside_ns", overhead.inside_ns), ("whole_ns", overhead.whole_ns)] {
            compat::set_rodata_var(&mut open, variable, &(ns.round() as u64).to_ne_bytes())
                .map_err(std::io::Error::other)?;
        }
        for mut program in open.progs_mut().filter(|program| program.name() != CALIBRATE) {
            let target = target(&functions, program.name()).filter(|name| is_typed(name));
            program.set_autoload(target.is_some());
            if target.is_some() {
                program.set_attach_target(0, target.cloned()).map_err(refused(PROBE))?;
            }
        }
        let object = open.load().map_err(refused(PROBE))?;
        let (mut links, mut refusing) = (Vec::new(), Vec::new());
        // The returns first: without its return a call would seem endless.
        for way in ["leave_", "enter_"] {
            for (number, function) in functions.iter().enumerate() {
                let program = program(&object, &format!("{way}{number}"));
                match program.autoload().then(|| program.attach()) {
                    Some(Ok(link)) => links.push(link),
                    _ => refusing.push(function.clone()),
                }
            }
        }
        Ok(Self { links, object, functions, refusing })
    }

    fn read(&self, symbol: String) -> Cost {
        let watched = self.functions.iter().position(|function| *function == symbol);
        let Some(number) = watched.filter(|_| !self.refusing.contains(&symbol)) else {
            return Cost::NotTraceable { symbol };
        };
        let (calls, ns, histogram) = self.sums(number);
        Cost::Measured {
            symbol,
            calls,
            mean_ns: ns as f64 / calls.max(1) as f64,
            median_ns: median(calls, &histogram),
        }
    }

    /// Calls, their time, and the histogram of their durations.
    fn sums(&self, number: usize) -> (u64, u64, Vec<u64>) {
        let words = summed(&map(&self.object, "costs"), &(number as u32).to_ne_bytes());
        (words[0], words[1], words[2..].to_vec())
    }

    /// Time of the calibration loop, in nanoseconds. It runs twice, as caches are cold in the first
    /// run.
    fn calibrate(&self) -> Result<f64, Error> {
        let program = program(&self.object, CALIBRATE);
        for _ in 0..2 {
            program.test_run(ProgramInput::default()).map_err(refused(PROBE))?;
        }
        let ns = map(&self.object, "calibration").lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        Ok(ns.map_err(refused(PROBE))?.map_or(0.0, |ns| words(&ns)[0] as f64))
    }
}

/// `enter_3` and `leave_3` are for the function with the number 3.
fn target<'a>(functions: &'a [String], program: &OsStr) -> Option<&'a String> {
    functions.get(program.to_str()?.rsplit_once('_')?.1.parse::<usize>().ok()?)
}

/// Measures the probe's present cost on this kernel.
fn calibrate() -> Result<Overhead, Error> {
    const NOTHING: Overhead = Overhead { inside_ns: 0.0, whole_ns: 0.0 };
    let mut probe = CostProbe::attach(vec![CALIBRATED.into()], NOTHING)?;
    let with = probe.calibrate()?;
    let (calls, _, histogram) = probe.sums(0);
    probe.links.clear();
    let without = probe.calibrate()?;
    if calls == 0 {
        return Err(Error::Uncalibrated { function: CALIBRATED });
    }
    Ok(Overhead {
        inside_ns: median(calls, &histogram),
        whole_ns: ((with - without) / CALIBRATION_ROUNDS).max(0.0),
    })
}

/// The middle of the bucket that the middle call fell into; the buckets are those of costs.bpf.c.
fn median(calls: u64, histogram: &[u64]) -> f64 {
    let mut seen = 0;
    let reached = |count: &u64| {
        seen += count;
        2 * seen >= calls
    };
    let bucket = histogram.iter().position(reached).filter(|_| calls > 0).unwrap_or(0);
    if bucket < 8 {
        return bucket as f64;
    }
    let width = 2f64.powi(bucket as i32 / 8 - 1);
    width * (8.5 + (bucket % 8) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_the_middle_call() {
        let mut histogram = [0; 256];
        assert_eq!(median(0, &histogram), 0.0);
        histogram[3] = 1;
        histogram[8] = 3; // 8
        histogram[255] = 1;
        assert_eq!(median(5, &histogram), 8.5);
        histogram[8 * 8] = 10; // 1024 to 1151
        assert_eq!(median(15, &histogram), 1088.0);
    }
}
