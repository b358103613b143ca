//! Time spent waiting for locks, by the kernel's contention tracepoints.
use crate::Error;
use crate::probe::{map, open, refused, summed, words};
use crate::symbols::Symbols;
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const PROBE: &str = "contention";
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/contention.bpf.o"));

/// All waits for locks in the whole kernel, while the command ran.
#[derive(Debug, Deserialize, Serialize)]
pub struct Waits {
    pub spins: u64,
    /// Time in them, over all CPUs, in seconds.
    pub spin_s: f64,
    /// Their share of the time of all CPUs, in percent.
    pub spin_cpu_percent: f64,
    /// Sleeping waits (mutexes, semaphores), which cost no CPU time.
    pub sleeps: u64,
    /// Time in them, over all tasks, in seconds.
    pub sleep_s: f64,
    /// Waits for which the probe had no room. Earlier reports do not have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Where, the longest first.
    pub sites: Vec<Site>,
}

/// A place in the kernel that waits for a lock.
#[derive(Debug, Deserialize, Serialize)]
pub struct Site {
    /// The function that wanted the lock, and its callers.
    pub functions: Vec<String>,
    /// Whether it spins or sleeps.
    pub spins: bool,
    pub waits: u64,
    /// How long, in seconds.
    pub wait_s: f64,
}

/// How many functions of a site are kept.
const CALLERS: usize = 3;

pub(crate) struct ContentionProbe {
    _links: Vec<Link>,
    object: Object,
}

impl ContentionProbe {
    pub(crate) fn attach() -> Result<Self, Error> {
        let object = open(PROBE, OBJECT)?.load().map_err(refused(PROBE))?;
        let links = object.progs_mut().map(|program| program.attach()).collect::<Result<_, _>>();
        Ok(Self { _links: links.map_err(refused(PROBE))?, object })
    }

    pub(crate) fn read(&self, symbols: &Symbols, cpus: usize, run_s: f64) -> Waits {
        let (stacks, sites) = (map(&self.object, "stacks"), map(&self.object, "sites"));
        let mut by_place: BTreeMap<(Vec<String>, bool), (u64, u64)> = BTreeMap::new();
        for key in sites.keys() {
            let [stack, spins] = words(&key)[..] else { continue };
            let [waits, ns] = summed(&sites, &key)[..] else { continue };
            let id = (stack as u32).to_ne_bytes();
            let trace = stacks.lookup(&id, MapFlags::ANY).ok().flatten().unwrap_or_default();
            let sum = by_place.entry((place(symbols, &words(&trace)), spins != 0)).or_default();
            *sum = (sum.0 + waits, sum.1 + ns);
        }
        let mut sites: Vec<Site> = by_place
            .into_iter()
            .map(|((functions, spins), (waits, ns))| Site {
                functions,
                spins,
                waits,
                wait_s: ns as f64 / 1e9,
            })
            .collect();
        sites.sort_by(|a, b| b.wait_s.total_cmp(&a.wait_s));
        let of = |spins: bool| sites.iter().filter(move |site| site.spins == spins);
        let seconds = |spins| of(spins).map(|site| site.wait_s).fold(0.0, |sum, wait_s| sum + wait_s);
        Waits {
            spins: of(true).map(|site| site.waits).sum(),
            spin_s: seconds(true),
            spin_cpu_percent: 100.0 * seconds(true) / (run_s * cpus as f64),
            sleeps: of(false).map(|site| site.waits).sum(),
            sleep_s: seconds(false),
            lost: Some(summed(&map(&self.object, "lost"), &0u32.to_ne_bytes())[0]),
            sites,
        }
    }
}

/// The code that wanted the lock: the stack above the probe and the lock's own functions.
fn place(symbols: &Symbols, trace: &[u64]) -> Vec<String> {
    let name = |address: &u64| symbols.at(*address).map_or("?", |(name, _)| name);
    let is_probe = |address: &u64| {
        ["bpf_trace_run", "__traceiter_contention"].iter().any(|it| name(address).starts_with(it))
    };
    let is_lock = |address: &u64| {
        let own = ["mutex", "rwsem", "down_", "rq_lock", "rtlock", "slowpath"];
        symbols.is_lock_text(*address) || own.iter().any(|it| name(address).contains(it))
    };
    let called: Vec<u64> = trace.iter().copied().filter(|address| *address != 0).collect();
    let above = called.iter().rposition(is_probe).map_or(0, |last| last + 1);
    called[above..].iter().skip_while(|it| is_lock(it)).take(CALLERS).map(|it| name(it).to_owned()).collect()
}
