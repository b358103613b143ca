//! Which locks scheduling takes, and how long CPUs wait for them.
use crate::functions::{CLASS_FUNCTIONS, CORE_FUNCTIONS, RQ_LOCK_WRAPPER};
use crate::names::LockNames;
use crate::probe::{Target, attach_to, map, open, per_cpu, program, refused, summed, words};
use crate::run::{Machine, Request};
use crate::symbols::Symbols;
use crate::waits::{ContentionProbe, Waits};
use crate::{Anatomy, Error, anatomy};
use flsched_base::reports::{self, Fields, Kept};
use flsched_host::{Purpose, Running, check_machine};
use flsched_spec::Policy;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramInput};
use scx_utils::compat;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

const PROBE: &str = "locks";
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/locks.bpf.o"));
static CALLBACK_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/callback.bpf.o"));
/// As in the BPF sources.
const MAX_CORE_RANGES: usize = 16;

/// The default scheduler's locks beside a policy's.
#[derive(Debug, Deserialize, Serialize)]
pub struct LocksReport {
    /// Where it was measured.
    #[serde(flatten)]
    pub machine: Machine,
    pub command: String,
    /// The policy with its knobs.
    pub policy: String,
    pub policy_version: String,
    /// What the policy's object shows without being run.
    pub anatomy: Anatomy,
    /// The default scheduler, then the policy.
    pub schedulers: Vec<SchedulerLocks>,
}

impl Kept for LocksReport {
    const KIND: &'static str = "locks";
    const VERSION: u32 = 2;

    fn renamed(old: Fields) -> Fields {
        reports::renamed(old, "version", "policy_version")
    }
}

/// What was counted under one scheduler.
#[derive(Debug, Deserialize, Serialize)]
pub struct SchedulerLocks {
    pub scheduler: String,
    /// Time of the command while waits were timed, in seconds.
    pub timed_run_s: f64,
    /// Time of the command while acquisitions were counted, in seconds.
    pub counted_run_s: f64,
    pub waits: Waits,
    /// The locks that scheduling took.
    pub locks: Vec<LockUse>,
    /// Calls of each function that was watched.
    pub calls: BTreeMap<String, u64>,
    /// Functions that this kernel does not allow a probe to watch.
    pub unwatched: Vec<String>,
    /// Acquisitions for which the probe had no room.
    pub lost: u64,
}

/// A lock, or many of a kind, taken in one place.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct LockUse {
    /// The class's function that ran; `None`: the core, for any class.
    pub class_function: Option<String>,
    /// The policy's callback that ran.
    pub callback: Option<String>,
    /// The kfunc that the callback had called.
    pub kfunc: Option<String>,
    pub lock: String,
    /// The kernel function that took it.
    pub taken_by: String,
    /// It is in per-CPU memory.
    pub is_per_cpu: bool,
    /// How many locks of this kind were taken.
    pub instances: usize,
    /// The largest number of CPUs that took the same one.
    pub most_cpus: usize,
    pub acquisitions: u64,
    /// How often for each call of the innermost function named here.
    pub per_call: Option<f64>,
    /// Share of each lock's busiest CPU, in percent: 100 is a lock that no other CPU takes.
    pub busiest_cpu_percent: f64,
}

pub fn locks(request: &Request<'_>) -> Result<LocksReport, Error> {
    check_machine()?;
    Purpose::FUNCTIONS.check()?;
    let symbols = Symbols::of_this_kernel()?;
    let anatomy = Anatomy::of(request.spec.policy)?.on_this_kernel(|kfunc| symbols.address(kfunc).is_some());
    let machine = Machine::here();
    let kfuncs = anatomy.kfuncs();
    let under = |request: &Request<'_>, scheduler: &str, running: Option<&Running>| {
        let contention = ContentionProbe::attach()?;
        let timed_run_s = request.run(scheduler)?;
        let waits = contention.read(&symbols, machine.cpus, timed_run_s);
        drop(contention);
        let probe = LockProbe::attach(&symbols, &kfuncs, request.spec.policy, running)?;
        let counted_run_s = request.run(scheduler)?;
        Ok(SchedulerLocks {
            scheduler: scheduler.to_owned(),
            timed_run_s,
            counted_run_s,
            waits,
            locks: probe.read(&symbols),
            calls: probe.calls(),
            lost: probe.lost(),
            unwatched: probe.unwatched,
        })
    };
    let schedulers = vec![request.by_default(under)?, request.by_policy(under)?];
    Ok(LocksReport {
        machine,
        command: request.command_line(),
        policy: request.spec.to_string(),
        policy_version: request.spec.policy.version.into(),
        anatomy,
        schedulers,
    })
}

/// As in places.h. The values between them are for callbacks, which mark themselves.
#[derive(Clone, Copy)]
enum Kind {
    ClassFunction = 0,
    Kfunc = 2,
}

struct LockProbe {
    // Before the objects they belong to.
    links: Vec<Link>,
    _marks: Vec<Object>,
    object: Object,
    /// Names of the functions that are watched; a function's number is its index here, and 0 is
    /// none.
    watched: Vec<String>,
    unwatched: Vec<String>,
}

impl LockProbe {
    /// Watches the default scheduler's functions, or those around the policy that runs.
    fn attach(
        symbols: &Symbols,
        kfuncs: &BTreeSet<String>,
        policy: &Policy,
        running: Option<&Running>,
    ) -> Result<Self, Error> {
        let mut open = open(PROBE, OBJECT)?;
        let wrapper = symbols.text_of(RQ_LOCK_WRAPPER).unwrap_or_default();
        let core = CORE_FUNCTIONS.iter().filter_map(|name| symbols.text_of(name));
        let unused = std::iter::repeat(Range::default());
        let core: Vec<u8> = core.chain(unused).take(MAX_CORE_RANGES).flat_map(bytes_of).collect();
        for (variable, value) in [("rq_lock_wrapper", bytes_of(wrapper)), ("core", core)] {
            compat::set_rodata_var(&mut open, variable, &value).map_err(std::io::Error::other)?;
        }
        let object = open.load().map_err(refused(PROBE))?;
        program(&object, "read_per_cpu_offsets").test_run(ProgramInput::default()).map_err(refused(PROBE))?;
        let mut probe = Self {
            links: Vec::new(),
            _marks: Vec::new(),
            object,
            watched: vec![String::new()],
            unwatched: Vec::new(),
        };

        let mut targets = Vec::new();
        let scx = running.is_some();
        let class =
            CLASS_FUNCTIONS.iter().flat_map(|function| if scx { function.scx } else { function.fair });
        for function in class.filter_map(|name| symbols.compiled(name)) {
            targets.push(probe.number(Kind::ClassFunction, function));
        }
        if let Some(running) = running {
            for function in kfuncs {
                targets.push(probe.number(Kind::Kfunc, function.clone()));
            }
            probe.watch_callbacks(policy, running)?;
        }
        probe.attach_to("leave", true, &targets);
        probe.attach_to("enter", false, &targets);
        // Last: nothing is counted before it is attached.
        probe.attach_to("enter_rq_lock_wrapper", false, &[(RQ_LOCK_WRAPPER.to_owned(), 0)]);
        let locks: Vec<_> = symbols.lock_functions().into_iter().map(|name| (name, 0)).collect();
        probe.attach_to("take", false, &locks);
        Ok(probe)
    }

    /// The next number, for a function to be watched.
    fn number(&mut self, kind: Kind, function: String) -> Target {
        self.watched.push(function.clone());
        (function, (kind as u64) << 32 | (self.watched.len() - 1) as u64)
    }

    fn attach_to(&mut self, name: &str, on_return: bool, targets: &[Target]) {
        let refusing = attach_to(&program(&self.object, name), on_return, targets, &mut self.links);
        self.unwatched.extend(refusing);
        self.unwatched.sort();
        self.unwatched.dedup();
    }

    /// A tracing program has one target, so there is one small object for each callback.
    fn watch_callbacks(&mut self, policy: &Policy, running: &Running) -> Result<(), Error> {
        const MARK: &str = "callback";
        let sleeps = |section: &str| section.starts_with("struct_ops.s");
        for callback in running.callbacks() {
            // These run when the policy is attached and detached, and may move from CPU to CPU.
            if sleeps(&callback.section().to_string_lossy()) {
                continue;
            }
            let name = callback.name().to_string_lossy().into_owned();
            let number = self.watched.len();
            let mut open = open(MARK, CALLBACK_OBJECT)?;
            compat::set_rodata_var(&mut open, "function", &(number as u32).to_ne_bytes())
                .map_err(std::io::Error::other)?;
            for mut shared in open.maps_mut() {
                let name = shared.name().to_string_lossy().into_owned();
                if name == "places" || name == "calls" {
                    shared.reuse_fd(map(&self.object, &name).as_fd()).map_err(refused(MARK))?;
                }
            }
            for mut program in open.progs_mut() {
                let target = callback.as_fd().as_raw_fd();
                program.set_attach_target(target, Some(name.clone())).map_err(refused(MARK))?;
            }
            let object = open.load().map_err(refused(MARK))?;
            for name in ["leave_callback", "enter_callback"] {
                self.links.push(program(&object, name).attach().map_err(refused(MARK))?);
            }
            self._marks.push(object);
            self.watched.push(anatomy::callback_name(policy, &name));
        }
        Ok(())
    }

    fn calls_of(&self, function: u64) -> u64 {
        summed(&map(&self.object, "calls"), &(function as u32).to_ne_bytes())[0]
    }

    fn calls(&self) -> BTreeMap<String, u64> {
        let numbered = self.watched.iter().enumerate().skip(1);
        numbered.map(|(number, name)| (name.clone(), self.calls_of(number as u64))).collect()
    }

    fn lost(&self) -> u64 {
        summed(&map(&self.object, "lost"), &0u32.to_ne_bytes())[0]
    }

    fn read(&self, symbols: &Symbols) -> Vec<LockUse> {
        let offsets = map(&self.object, "per_cpu_offsets");
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1) as u32;
        let offset = |cpu: u32| Some(words(&offsets.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).ok()??)[0]);
        let names = LockNames::new(symbols, (0..cpus).filter_map(offset).collect());

        // Place, lock's name, taker → each lock's acquisitions by CPU.
        let mut uses: BTreeMap<_, BTreeMap<u64, Vec<u64>>> = BTreeMap::new();
        let acquisitions = map(&self.object, "acquisitions");
        for key in acquisitions.keys() {
            let [class_function, callback, kfunc, lock, taker] = words(&key)[..] else { continue };
            let taker = symbols.at(taker).map_or("?", |(name, _)| name);
            let place = (class_function, callback, kfunc);
            let counts =
                uses.entry((place, names.of(lock, taker), taker)).or_default().entry(lock).or_default();
            for (cpu, count) in per_cpu(&acquisitions, &key).iter().enumerate() {
                counts.resize(counts.len().max(cpu + 1), 0);
                counts[cpu] += count[0];
            }
        }
        let named = |number: u64| self.watched.get(number as usize).filter(|name| !name.is_empty()).cloned();
        uses.into_iter()
            .map(|(((class_function, callback, kfunc), lock, taker), locks)| {
                let acquisitions: u64 = locks.values().flatten().sum();
                let busiest: u64 = locks.values().filter_map(|cpus| cpus.iter().max()).sum();
                let takers = |cpus: &Vec<u64>| cpus.iter().filter(|count| **count > 0).count();
                let inner = [kfunc, callback, class_function].into_iter().find(|number| *number != 0);
                let calls = inner.map(|number| self.calls_of(number)).filter(|calls| *calls > 0);
                LockUse {
                    class_function: named(class_function),
                    callback: named(callback),
                    kfunc: named(kfunc),
                    lock: lock.name,
                    taken_by: taker.to_owned(),
                    is_per_cpu: lock.is_per_cpu,
                    instances: locks.len(),
                    most_cpus: locks.values().map(takers).max().unwrap_or(0),
                    acquisitions,
                    per_call: calls.map(|calls| acquisitions as f64 / calls as f64),
                    busiest_cpu_percent: 100.0 * busiest as f64 / acquisitions.max(1) as f64,
                }
            })
            .collect()
    }
}

fn bytes_of(range: Range<u64>) -> Vec<u8> {
    [range.start, range.end].map(u64::to_ne_bytes).concat()
}
