//! The figures as sections of `machines/NAME.toml`.
use super::Calibration;
use super::calls::Channels;
use super::sample::Sample;
use super::topology::Distance;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Fragment {
    costs: Costs,
    caches: Caches,
}

#[derive(Serialize)]
struct Costs {
    syscall_ns: Sourced<u64>,
    pipe_ns: Sourced<ChannelCosts>,
    socket_ns: Sourced<ChannelCosts>,
    wakeup_ns: Sourced<u64>,
    switch_ns: Sourced<u64>,
    idle_exit_ns: Sourced<u64>,
    fork_ns: Sourced<ByKind>,
    exit_ns: Sourced<ByKind>,
    ipi_ns: Sourced<ByDistance>,
    handover_ns: Sourced<ByDistance>,
}

#[derive(Serialize)]
struct Caches {
    core_kib: Sourced<u64>,
    shared_kib: Sourced<u64>,
    load_ns_per_kib: Sourced<Loads>,
}

#[derive(Serialize)]
struct Sourced<T> {
    value: T,
    source: String,
    certainty: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct ByDistance {
    core: u64,
    cache: u64,
    node: u64,
    remote: u64,
}

#[derive(Serialize)]
struct ByKind {
    process: u64,
    thread: u64,
}

#[derive(Serialize)]
struct ChannelCosts {
    make: u64,
    write: u64,
    read: u64,
}

#[derive(Serialize)]
struct Loads {
    shared: u64,
    node: u64,
    remote: u64,
    memory: u64,
}

/// The sections `[costs]` and `[caches]`. What cannot be measured from outside the kernel is not in
/// them: the tick, and the scheduler's functions, of which `flsched costs` tells.
pub fn render(of: &Calibration) -> String {
    let syscall = of.syscall.ns();
    let Channels { write, read, .. } = &of.pipes;
    let switch = (of.one_way.ns() - write.ns() - read.ns()).max(0.0);
    let travel = |sample: &Sample| (sample.ns() - of.one_way.ns()).max(0.0);
    let measured =
        |value: f64, source: String| Sourced { value: whole(value), source, certainty: "measured" };
    let memory = whole(of.memory.ns());
    let fragment = Fragment {
        costs: Costs {
            syscall_ns: measured(syscall, format!("getppid; {}", of.syscall.spread())),
            pipe_ns: channel_costs("pipes", &of.pipes, syscall),
            socket_ns: channel_costs("pairs of sockets", &of.sockets, syscall),
            wakeup_ns: Sourced {
                value: 0,
                source: "it is in switch_ns: one does not come without the other here".into(),
                certainty: "measured",
            },
            switch_ns: measured(
                switch,
                format!(
                    "a pipe's way to a sleeper on the same CPU, less its messages; with the wake-up and the scheduler's functions; {}",
                    of.one_way.spread()
                ),
            ),
            idle_exit_ns: Sourced { value: 0, source: "it is in ipi_ns".into(), certainty: "measured" },
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
        },
        caches: Caches {
            core_kib: measured(of.topology.core_kib as f64, "/sys/devices/system/cpu".into()),
            shared_kib: measured(of.topology.shared_kib as f64, "/sys/devices/system/cpu".into()),
            load_ns_per_kib: Sourced {
                value: Loads {
                    shared: of.shared.as_ref().map_or(0, |sample| whole(sample.ns())),
                    node: memory,
                    remote: memory,
                    memory,
                },
                source: format!(
                    "lines in random order, several at a time; shared: {}; memory: {}; node and remote were not measured and are taken for memory",
                    of.shared.as_ref().map_or("there is none".into(), Sample::spread),
                    of.memory.spread()
                ),
                certainty: "measured",
            },
        },
    };
    let body = toml::to_string(&fragment).expect("plain data are TOML");
    format!(
        "# Measured by flsched calibrate on {}.\n\
         # For a machine's file: its topology, tick and [callbacks] are not here; see flsched costs for the latter.\n\n{body}",
        of.machine
    )
}

/// Of a process and of a thread.
fn by_kind(what: &str, samples: [&Sample; 2], ns: [f64; 2]) -> Sourced<ByKind> {
    let [process, thread] = samples.map(Sample::spread);
    Sourced {
        value: ByKind { process: whole(ns[0]), thread: whole(ns[1]) },
        source: format!("{what}; process: {process}; thread: {thread}"),
        certainty: "measured",
    }
}

fn channel_costs(
    what: &str,
    Channels { make, write, read }: &Channels,
    syscall: f64,
) -> Sourced<ChannelCosts> {
    let less_the_call = |sample: &Sample| whole(sample.ns() - syscall);
    Sourced {
        value: ChannelCosts {
            make: less_the_call(make),
            write: less_the_call(write),
            read: less_the_call(read),
        },
        source: format!(
            "20 {what}, 200 messages of 100 bytes into them, then out again, less the calls; make: {}; write: {}; read: {}",
            make.spread(),
            write.spread(),
            read.spread()
        ),
        certainty: "measured",
    }
}

fn whole(ns: f64) -> u64 {
    ns.round().max(0.0) as u64
}

/// A distance that this machine has not is as good as the next nearer one, or the next further.
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
    Sourced {
        value: ByDistance {
            core: at(Distance::Core),
            cache: at(Distance::Cache),
            node: at(Distance::Node),
            remote: at(Distance::Remote),
        },
        source: format!("{what}; {spreads}; other distances are taken for the nearest of these"),
        certainty: "measured",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_that_are_not_there_are_the_nearest() {
        let samples = BTreeMap::from([
            (Distance::Cache, Sample::of(vec![40.0])),
            (Distance::Remote, Sample::of(vec![200.0])),
        ]);
        let found = by_distance("x", &samples, Sample::ns);
        assert_eq!(found.value, ByDistance { core: 40, cache: 40, node: 40, remote: 200 });
        assert!(found.source.contains("cache: "), "{}", found.source);
        let none = by_distance("x", &BTreeMap::new(), Sample::ns);
        assert_eq!(none.value, ByDistance { core: 0, cache: 0, node: 0, remote: 0 });
    }
}
