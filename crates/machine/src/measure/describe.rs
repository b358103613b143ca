//! The machine file of this machine: measured figures, what the kernel reports, and estimates for the rest.
use super::Calibration;
use super::calls::Channels;
use super::layout::Layout;
use super::sample::Sample;
use crate::instructions;
use crate::{
    ByDistance, ByKind, CacheSizes, Callback, Certainty, ChannelCosts, Costs, Distance, Domain, Frequency,
    Governor, LoadTimes, MachineFile, Scaling, Sourced,
};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// The functions that a wake-up and a switch to the woken task call.
const OF_ONE_WAY: [Callback; 8] = [
    Callback::SelectCpu,
    Callback::Enqueue,
    Callback::WakeupPreempt,
    Callback::Dequeue,
    Callback::Balance,
    Callback::Pick,
    Callback::PutPrev,
    Callback::SetNext,
];
/// Instructions of a pipe's way to a sleeper on the same CPU, by `flsched calibrate` on the parallel clock, Linux 6.18.
const ONE_WAY_INSTRUCTIONS: f64 = 6335.0;
/// Typical time of a timer interrupt on a core of some GHz.
const TICK_NS: u64 = 500;
/// Of a core of some GHz.
const LOAD_BALANCE_NS: u64 = 3000;
/// Likewise.
const CPU_SEARCH_NS: u64 = 80;
/// Likewise.
const PULL_NS: u64 = 1000;
/// Throughput of a core with several busy threads, in percent of its throughput with one.
const SMT_PERCENT: u32 = 125;
/// Time in which the frequency rises from the lowest to the highest.
const RISE_MS: u32 = 10;
/// The interval of intel_pstate: `INTEL_PSTATE_SAMPLING_INTERVAL`.
const PSTATE_INTERVAL_US: u64 = 10_000;
const SCHEDUTIL_INTERVAL_US: u64 = 1000;

/// What cpufreq reports of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Cpufreq<'a> {
    /// By CPU number; `None`: cpufreq reports nothing of that CPU.
    pub cpus: &'a BTreeMap<usize, Option<Scaling>>,
    /// For each CPU the first CPU of its frequency domain.
    pub domains: &'a BTreeMap<usize, usize>,
}

/// Describes this machine under this name; `flsched sim --machine FILE` simulates it.
pub fn describe(name: &str, of: &Calibration, cpufreq: Cpufreq<'_>) -> MachineFile {
    let topology = of.layout.topology();
    let threads = topology.threads_per_core;
    let frequency = frequency(cpufreq, &of.layout);
    let speed = match frequency {
        Some(_) => "frequencies as cpufreq has them",
        None => "frequencies do not change: cpufreq reports none, or keeps them constant",
    };
    MachineFile {
        name: name.to_owned(),
        description: format!("{}, measured by flsched calibrate; {speed}", of.machine),
        smt: (threads > 1).then(|| {
            let share = |running: u32| (SMT_PERCENT / running).min(100);
            let source = "not measured: a core does about a quarter more with several threads than with one";
            Sourced::estimated((1..=threads as u32).map(share).collect(), source)
        }),
        topology: Spanned::new(0..0, topology),
        frequency,
        power: None,
        caches: Some(caches(of)),
        memory: None,
        kernel: None,
        tick_hz: Sourced::measured(of.tick_hz, "resolution of CLOCK_MONOTONIC_COARSE"),
        tickless_idle: Sourced::estimated(true, "not measured: usual"),
        costs: costs(of),
        startup: None,
        instruction_ps: Some(instruction_ps(of)),
        callbacks: BTreeMap::new(),
    }
}

fn instruction_ps(of: &Calibration) -> Sourced<u64> {
    let ps = of.one_way.ns() * 1000.0 / ONE_WAY_INSTRUCTIONS;
    let source = format!(
        "a pipe's way to a sleeper on the same CPU, over the {ONE_WAY_INSTRUCTIONS} instructions that it takes on the parallel clock; {}",
        of.one_way.spread()
    );
    Sourced::new(whole(ps).max(1), source, Certainty::Inferred)
}

fn costs(of: &Calibration) -> Costs {
    let syscall = of.syscall.ns();
    let Channels { write, read, .. } = &of.pipes;
    // The default scheduler of the kernels on which this runs.
    let eevdf = &instructions::priced(&instruction_ps(of))["eevdf"];
    let callbacks: u64 = OF_ONE_WAY.iter().map(|callback| eevdf[callback.name()]).sum();
    let switch = of.one_way.ns() - write.ns() - read.ns() - callbacks as f64;
    let travel = |sample: &Sample| sample.ns() - of.one_way.ns();
    Costs {
        syscall_ns: Sourced::measured(whole(syscall), format!("getppid; {}", of.syscall.spread())),
        pipe_ns: channel_costs("pipes", &of.pipes, syscall),
        socket_ns: channel_costs("pairs of sockets", &of.sockets, syscall),
        wakeup_ns: Sourced::measured(0, "it is in switch_ns: one does not come without the other here"),
        switch_ns: Sourced::measured(
            whole(switch),
            format!(
                "a pipe's way to a sleeper on the same CPU, less its messages and {callbacks} ns of eevdf's functions; \
                 with the wake-up; {}",
                of.one_way.spread()
            ),
        ),
        idle_exit_ns: Sourced::measured(0, "it is in ipi_ns"),
        tick_ns: Sourced::estimated(TICK_NS, "not measured: usual on a core of some GHz"),
        load_balance_ns: Sourced::estimated(
            LOAD_BALANCE_NS,
            "not measured: 10,000 instructions, on a core of some GHz",
        ),
        cpu_search_ns: Sourced::estimated(
            CPU_SEARCH_NS,
            "not measured: 270 instructions, on a core of some GHz",
        ),
        pull_ns: Sourced::estimated(PULL_NS, "not measured: 3,300 instructions, on a core of some GHz"),
        fork_ns: by_kind(
            "fork of a small process, and a new thread",
            [&of.fork, &of.thread_start],
            [of.fork.ns(), of.thread_start.ns()],
        ),
        exit_ns: by_kind(
            "from there to the end of one that only ends, less the former",
            [&of.child, &of.thread_life],
            [of.child.ns() - of.fork.ns(), of.thread_life.ns() - of.thread_start.ns()],
        ),
        ipi_ns: by_distance(
            "how much longer a pipe's way is to an idle CPU than to a sleeper on the same; with the exit from idle",
            &of.one_way_to,
            travel,
        ),
        handover_ns: by_distance("a line that two CPUs write in turns", &of.line, Sample::ns),
    }
}

fn caches(of: &Calibration) -> CacheSizes {
    let memory = whole(of.memory.ns());
    CacheSizes {
        core_kib: Sourced::measured(of.layout.core_kib, "/sys/devices/system/cpu"),
        shared_kib: Sourced::measured(of.layout.shared_kib, "/sys/devices/system/cpu"),
        load_ns_per_kib: Sourced::measured(
            LoadTimes {
                shared: of.shared.as_ref().map_or(0, |sample| whole(sample.ns())),
                node: memory,
                remote: memory,
                memory,
            },
            format!(
                "lines in random order, several at a time; shared: {}; memory: {}; node and remote were not measured and are taken for memory",
                of.shared.as_ref().map_or("there is none".into(), Sample::spread),
                of.memory.spread()
            ),
        ),
        memory_gb_per_s: Some(Sourced::measured(
            whole(of.memory_gb_per_s).max(1),
            "all CPUs of the first node read memory of their own in order",
        )),
    }
}

/// The frequencies; `None`: they are unknown, or they do not change.
fn frequency(cpufreq: Cpufreq<'_>, layout: &Layout) -> Option<Frequency> {
    let known: Vec<&Scaling> = cpufreq.cpus.values().flatten().collect();
    let first = *known.first()?;
    let mhz = |of: Option<u64>| Some(u32::try_from(of?).unwrap_or(u32::MAX)).filter(|mhz| *mhz > 0);
    let min = mhz(known.iter().map(|scaling| scaling.min_mhz).min())?;
    let max = mhz(known.iter().map(|scaling| scaling.max_mhz).max())?;
    let says = format!("cpufreq: {} by {}", first.governor, first.driver);
    let governor = match first.governor.as_str() {
        "performance" => Sourced::measured(Governor::Performance, says),
        _ if first.is_pinned() => return None,
        "powersave" => Sourced::measured(Governor::Powersave, says),
        "schedutil" => Sourced::measured(Governor::Schedutil, says),
        _ => Sourced::estimated(Governor::Schedutil, says + ", which the simulator does not model"),
    };
    let interval_us = match *governor {
        Governor::Powersave => {
            let source = "not measured: INTEL_PSTATE_SAMPLING_INTERVAL of intel_pstate.c";
            Sourced::estimated(PSTATE_INTERVAL_US, source)
        }
        _ => Sourced::estimated(SCHEDUTIL_INTERVAL_US, "not measured: usual with schedutil"),
    };
    let domains = cpufreq.domains.values().collect::<BTreeSet<_>>().len();
    let (cores, caches, _) = layout.counts();
    let domain = match domains {
        count if count >= cores => Domain::Core,
        count if count >= caches => Domain::Cache,
        _ => Domain::Package,
    };
    let rise = (max.saturating_sub(min) / RISE_MS).max(1);
    Some(Frequency {
        domain: Sourced::measured(
            domain,
            format!("cpufreq: {domains} groups of CPUs with one frequency each"),
        ),
        governor,
        min_mhz: Sourced::measured(min, "cpufreq: the lowest of any CPU"),
        turbo_mhz: Sourced::estimated(
            vec![max],
            "cpufreq: the highest of any CPU; taken for the same with all cores active, which it does not report",
        ),
        scale_mhz: Sourced::estimated(max, "not measured: taken for the highest frequency"),
        interval_us,
        up_mhz_per_ms: Sourced::estimated(
            rise,
            format!("not measured: from lowest to highest in {RISE_MS} ms"),
        ),
        down_mhz_per_ms: Sourced::estimated(rise, "not measured: taken for as fast as up"),
    })
}

/// The figures of a process and of a thread.
fn by_kind(what: &str, samples: [&Sample; 2], ns: [f64; 2]) -> Sourced<ByKind> {
    let [process, thread] = samples.map(Sample::spread);
    Sourced::measured(
        ByKind { process: whole(ns[0]), thread: whole(ns[1]) },
        format!("{what}; process: {process}; thread: {thread}"),
    )
}

fn channel_costs(
    what: &str,
    Channels { make, write, read }: &Channels,
    syscall: f64,
) -> Sourced<ChannelCosts> {
    let less_the_call = |sample: &Sample| whole(sample.ns() - syscall);
    Sourced::measured(
        ChannelCosts { make: less_the_call(make), write: less_the_call(write), read: less_the_call(read) },
        format!(
            "20 {what}, 200 messages of 100 bytes into them, then out again, less the calls; make: {}; write: {}; read: {}",
            make.spread(),
            write.spread(),
            read.spread()
        ),
    )
}

fn whole(ns: f64) -> u64 {
    ns.round().max(0.0) as u64
}

/// The figure of each distance. A distance that this machine does not have gets the figure of the next nearer one,
/// or else of the next further one.
fn by_distance(
    what: &str,
    samples: &BTreeMap<Distance, Sample>,
    ns: impl Fn(&Sample) -> f64,
) -> Sourced<ByDistance> {
    let at = |distance: Distance| {
        let nearest = samples.range(..=distance).next_back().or_else(|| samples.range(distance..).next());
        nearest.map_or(0, |(_, sample)| whole(ns(sample)))
    };
    let spreads: Vec<String> = samples
        .iter()
        .map(|(distance, sample)| format!("{}: {}", format!("{distance:?}").to_lowercase(), sample.spread()))
        .collect();
    let spreads = if spreads.is_empty() { "there is one CPU".into() } else { spreads.join("; ") };
    Sourced::measured(
        ByDistance {
            core: at(Distance::Core),
            cache: at(Distance::Cache),
            node: at(Distance::Node),
            remote: at(Distance::Remote),
        },
        format!("{what}; {spreads}; other distances are taken for the nearest of these"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::layout::tests::{Made, layout};
    use super::*;
    use crate::Machine;

    const NO_CPUFREQ: Cpufreq<'_> = Cpufreq { cpus: &BTreeMap::new(), domains: &BTreeMap::new() };

    /// Two cores of two threads that share a cache.
    fn four_cpus() -> Layout {
        let made = |core| Made { core, cache: "0-3", node: 0, package: 0, capacity: 1024 };
        layout(&["0,2", "1,3", "0,2", "1,3"].map(made))
    }

    fn calibration(layout: Layout) -> Calibration {
        let ns = |ns: f64| Sample::of(vec![ns, ns + 1.0]);
        let channels = |ns_each: f64| Channels { make: ns(1800.0), write: ns(ns_each), read: ns(ns_each) };
        Calibration {
            machine: "A \"CPU\", Linux 6.18".into(),
            syscall: ns(100.0),
            pipes: channels(250.0),
            sockets: channels(1000.0),
            one_way: ns(2000.0),
            one_way_to: [(Distance::Cache, ns(5000.0))].into(),
            fork: ns(50_000.0),
            child: ns(80_000.0),
            thread_start: ns(6000.0),
            thread_life: ns(10_000.0),
            line: [(Distance::Core, ns(10.0)), (Distance::Cache, ns(40.0))].into(),
            shared: Some(ns(40.0)),
            memory: ns(300.0),
            memory_gb_per_s: 19.4,
            tick_hz: 250,
            layout,
        }
    }

    /// The file as it is read back from its text.
    fn load(file: &MachineFile) -> Machine {
        let text = file.to_toml();
        let read = MachineFile::parse(&text, "it").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read, *file);
        read.into()
    }

    #[test]
    fn the_file_loads() {
        let file = describe("mine", &calibration(four_cpus()), NO_CPUFREQ);
        let machine = load(&file);
        assert_eq!((machine.nr_cpus(), machine.name.as_str(), machine.tick_ns), (4, "mine", 4_000_000));
        assert_eq!(machine.distance(0, 2), Distance::Core);
        assert_eq!(machine.distance(0, 1), Distance::Cache);
        assert_eq!(machine.speed.smt, [1024, 634]);
        assert_eq!(machine.speed.frequency, None);
        let costs = &machine.costs;
        assert_eq!((*costs.syscall_ns, costs.pipe_ns.write, costs.socket_ns.read), (100, 150, 900));
        assert_eq!(
            *costs.switch_ns,
            2000 - 250 - 250 - OF_ONE_WAY.map(|it| machine.callbacks("eevdf").of(it)).iter().sum::<u64>(),
            "without messages and the scheduler's functions"
        );
        assert_eq!(**file.instruction_ps.as_ref().unwrap(), whole(2_000_000.0 / ONE_WAY_INSTRUCTIONS));
        assert_eq!((costs.fork_ns.thread, costs.exit_ns.process), (6000, 30_000));
        assert_eq!((costs.ipi_ns.core, costs.ipi_ns.remote, costs.handover_ns.node), (3000, 3000, 40));
    }

    #[test]
    fn a_file_says_what_is_measured_and_what_is_not() {
        let file = describe("mine", &calibration(four_cpus()), NO_CPUFREQ);
        assert_eq!(file.costs.syscall_ns.certainty, Certainty::Measured);
        assert!(file.costs.syscall_ns.source.contains("lower decile of 2 batches"));
        for (certainty, source) in [
            (file.costs.tick_ns.certainty, &file.costs.tick_ns.source),
            (file.tickless_idle.certainty, &file.tickless_idle.source),
            (file.smt.as_ref().unwrap().certainty, &file.smt.as_ref().unwrap().source),
        ] {
            assert_eq!(certainty, Certainty::Estimated, "{source}");
            assert!(source.starts_with("not measured"), "{source}");
        }
    }

    #[test]
    fn frequencies_are_what_cpufreq_says() {
        let scaling = |governor: &str, driver: &str| Scaling {
            min_mhz: 1200,
            max_mhz: 3000,
            governor: governor.into(),
            driver: driver.into(),
        };
        let of = |governor, driver, domains: [usize; 4]| {
            let cpus = (0..4).map(|cpu| (cpu, Some(scaling(governor, driver)))).collect();
            let domains = (0..4).zip(domains).collect();
            let cpufreq = Cpufreq { cpus: &cpus, domains: &domains };
            load(&describe("mine", &calibration(four_cpus()), cpufreq)).speed.frequency
        };
        let by_core = of("powersave", "intel_pstate", [0, 1, 0, 1]).unwrap();
        assert_eq!((*by_core.domain, *by_core.governor), (Domain::Core, Governor::Powersave));
        assert_eq!((*by_core.min_mhz, by_core.max_mhz(), *by_core.interval_us), (1200, 3000, 10_000));
        let by_cache = of("ondemand", "acpi-cpufreq", [0; 4]).unwrap();
        assert_eq!((*by_cache.domain, *by_cache.governor), (Domain::Cache, Governor::Schedutil));
        assert_eq!(by_cache.governor.certainty, Certainty::Estimated);
        assert!(!of("performance", "acpi-cpufreq", [0; 4]).unwrap().varies());
        assert_eq!(of("userspace", "acpi-cpufreq", [0; 4]), None);
    }

    #[test]
    fn distances_that_are_not_there_are_the_nearest() {
        let samples = BTreeMap::from([
            (Distance::Cache, Sample::of(vec![40.0])),
            (Distance::Remote, Sample::of(vec![200.0])),
        ]);
        let found = by_distance("x", &samples, Sample::ns);
        assert_eq!(*found, ByDistance { core: 40, cache: 40, node: 40, remote: 200 });
        assert!(found.source.contains("cache: "), "{}", found.source);
        let none = by_distance("x", &BTreeMap::new(), Sample::ns);
        assert_eq!(*none, ByDistance { core: 0, cache: 0, node: 0, remote: 0 });
    }
}
