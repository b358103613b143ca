//! The form of `machines/NAME.toml`. Every number says where it is from and how sure it is.
mod fields;

use crate::costs::{ByDistance, ByKind, CallbackCosts, ChannelCosts, Costs};
use crate::machine::threads;
use crate::speed::{FULL_SPEED, Speed};
use crate::{Callback, Error, Machine, Ns};
use fields::{Cores, FileCaches, FileFrequency, Topology};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// What anything may cost: a minute.
const MAX_COST_NS: u64 = 60_000_000_000;

/// How sure a number is.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Certainty {
    /// Printed in a publication or a data sheet.
    Published,
    /// Measured by us.
    Measured,
    /// Derived from something published or measured.
    Inferred,
    /// From experience with such machines.
    Estimated,
    /// Chosen so that a result comes out, which is therefore no evidence.
    Fitted,
}

/// A number with its origin; the origin is for the reader of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sourced<T> {
    pub(super) value: Spanned<T>,
    #[allow(dead_code, reason = "must be there, for who reads the file")]
    source: String,
    #[allow(dead_code, reason = "must be there, for who reads the file")]
    certainty: Certainty,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    topology: Spanned<Topology>,
    smt: Option<Sourced<Vec<u32>>>,
    frequency: Option<FileFrequency>,
    caches: Option<FileCaches>,
    tick_hz: Sourced<u64>,
    tickless_idle: Sourced<bool>,
    costs: FileCosts,
    callbacks: BTreeMap<String, Sourced<Callbacks>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCosts {
    switch_ns: Sourced<Ns>,
    wakeup_ns: Sourced<Ns>,
    syscall_ns: Sourced<Ns>,
    pipe_ns: Sourced<ChannelCosts>,
    socket_ns: Sourced<ChannelCosts>,
    fork_ns: Sourced<ByKind>,
    task_slab_ns: Option<Sourced<Ns>>,
    start_ns: Option<Sourced<ByKind>>,
    copy_on_write_ns: Option<Sourced<Ns>>,
    exit_ns: Sourced<ByKind>,
    exec_ns: Option<Sourced<Ns>>,
    tick_ns: Sourced<Ns>,
    idle_exit_ns: Sourced<Ns>,
    ipi_ns: Sourced<ByDistance>,
    handover_ns: Sourced<ByDistance>,
}

/// A cost, or several of them.
trait Parts: Copy {
    fn parts(self) -> impl Iterator<Item = Ns>;
}

impl Parts for Ns {
    fn parts(self) -> impl Iterator<Item = Ns> {
        [self].into_iter()
    }
}

impl Parts for ByDistance {
    fn parts(self) -> impl Iterator<Item = Ns> {
        [self.core, self.cache, self.node, self.remote].into_iter()
    }
}

impl Parts for ByKind {
    fn parts(self) -> impl Iterator<Item = Ns> {
        [self.process, self.thread].into_iter()
    }
}

impl Parts for ChannelCosts {
    fn parts(self) -> impl Iterator<Item = Ns> {
        [self.make, self.write, self.read].into_iter()
    }
}

/// By [`Callback::name`]; nothing may be left out.
type Callbacks = BTreeMap<String, Ns>;

/// The text, for messages that say where.
pub(super) struct Source<'a> {
    text: &'a str,
    path: &'a str,
}

impl Source<'_> {
    /// `field`, which is at `span`, is wrong.
    pub(super) fn wrong(&self, span: Range<usize>, field: &str, what: impl AsRef<str>) -> Error {
        let line = self.text[..span.start].lines().count().max(1);
        // A span may begin behind the end of its line's text.
        let line = if self.text[..span.start].ends_with('\n') { line + 1 } else { line };
        Error::usage(format!("{}, line {line}: {field}: {}", self.path, what.as_ref()))
    }

    /// The number, if it is in the range.
    pub(super) fn within<T>(&self, field: &str, of: &Spanned<T>, range: RangeInclusive<T>) -> Result<T, Error>
    where
        T: Copy + PartialOrd + std::fmt::Display,
    {
        let value = *of.get_ref();
        if range.contains(&value) {
            return Ok(value);
        }
        let what = format!("{value} is not from {} to {}", range.start(), range.end());
        Err(self.wrong(of.span(), field, what))
    }

    fn cost<T: Parts>(&self, field: &str, of: &Sourced<T>) -> Result<T, Error> {
        match of.value.get_ref().parts().find(|&ns| ns > MAX_COST_NS) {
            None => Ok(*of.value.get_ref()),
            Some(ns) => {
                let what = format!("{ns} is not from 0 to {MAX_COST_NS}");
                Err(self.wrong(of.value.span(), field, what))
            }
        }
    }

    /// Nothing if the file does not tell.
    fn cost_or_none<T: Parts + Default>(&self, field: &str, of: Option<&Sourced<T>>) -> Result<T, Error> {
        of.map_or(Ok(T::default()), |of| self.cost(field, of))
    }
}

pub(crate) fn parse(text: &str, path: &str) -> Result<Machine, Error> {
    let file: File = toml::from_str(text).map_err(|e| Error::usage(format!("{path}: {e}")))?;
    let source = Source { text, path };
    let Cores { places, capacity } = file.topology.get_ref().cores(&source, file.topology.span())?;
    let tick_hz = source.within("tick_hz", &file.tick_hz.value, 1..=10_000)?;
    let threads = threads(&places);
    let speed = Speed {
        capacity,
        smt: smt(
            &source,
            file.smt.as_ref(),
            threads.iter().map(Vec::len).max().unwrap_or(1),
            &file.topology,
        )?,
        frequency: file.frequency.as_ref().map(|frequency| frequency.checked(&source)).transpose()?,
        caches: file.caches.as_ref().map(|caches| caches.checked(&source)).transpose()?,
    };
    let mut callbacks = BTreeMap::new();
    for (name, costs) in &file.callbacks {
        callbacks.insert(name.clone(), callback_costs(&source, name, &costs.value)?);
    }
    if !callbacks.contains_key("default") {
        return Err(Error::usage(format!("{path}: [callbacks.default] is missing")));
    }
    Ok(Machine {
        threads,
        places,
        tick_ns: 1_000_000_000 / tick_hz,
        tickless_idle: *file.tickless_idle.value.get_ref(),
        speed,
        costs: file.costs.checked(&source, callbacks)?,
        name: file.name,
        description: file.description,
    })
}

impl FileCosts {
    fn checked(
        &self,
        source: &Source<'_>,
        callbacks: BTreeMap<String, CallbackCosts>,
    ) -> Result<Costs, Error> {
        Ok(Costs {
            switch_ns: source.cost("switch_ns", &self.switch_ns)?,
            wakeup_ns: source.cost("wakeup_ns", &self.wakeup_ns)?,
            syscall_ns: source.cost("syscall_ns", &self.syscall_ns)?,
            pipe_ns: source.cost("pipe_ns", &self.pipe_ns)?,
            socket_ns: source.cost("socket_ns", &self.socket_ns)?,
            fork_ns: source.cost("fork_ns", &self.fork_ns)?,
            task_slab_ns: source.cost_or_none("task_slab_ns", self.task_slab_ns.as_ref())?,
            start_ns: source.cost_or_none("start_ns", self.start_ns.as_ref())?,
            copy_on_write_ns: source.cost_or_none("copy_on_write_ns", self.copy_on_write_ns.as_ref())?,
            exit_ns: source.cost("exit_ns", &self.exit_ns)?,
            exec_ns: source.cost_or_none("exec_ns", self.exec_ns.as_ref())?,
            tick_ns: source.cost("tick_ns", &self.tick_ns)?,
            idle_exit_ns: source.cost("idle_exit_ns", &self.idle_exit_ns)?,
            ipi_ns: source.cost("ipi_ns", &self.ipi_ns)?,
            handover_ns: source.cost("handover_ns", &self.handover_ns)?,
            callbacks,
        })
    }
}

/// A core of several threads must say what they take from each other.
fn smt(
    source: &Source<'_>,
    shares: Option<&Sourced<Vec<u32>>>,
    threads: usize,
    topology: &Spanned<Topology>,
) -> Result<Vec<u32>, Error> {
    let Some(shares) = shares else {
        return match threads {
            1 => Ok(Vec::new()),
            _ => Err(source.wrong(
                topology.span(),
                "[topology]",
                format!("cores have {threads} threads: [smt] must say how fast each of 1 to {threads} is"),
            )),
        };
    };
    let percent = shares.value.get_ref();
    let falls = percent.windows(2).all(|pair| pair[0] >= pair[1]);
    if percent.len() != threads || percent[0] != 100 || !falls || percent.contains(&0) {
        let what =
            format!("{percent:?} are not {threads} percentages, 100 first, none greater than the one before");
        return Err(source.wrong(shares.value.span(), "[smt]", what));
    }
    Ok(percent.iter().map(|percent| percent * FULL_SPEED / 100).collect())
}

fn callback_costs(
    source: &Source<'_>,
    scheduler: &str,
    named: &Spanned<Callbacks>,
) -> Result<CallbackCosts, Error> {
    let section = format!("[callbacks.{scheduler}]");
    let wrong = |what: String| source.wrong(named.span(), &section, what);
    let names: Vec<&str> = Callback::ALL.iter().map(|callback| callback.name()).collect();
    let named_costs = named.get_ref();
    if let Some(odd) = named_costs.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(wrong(format!("{odd} is none of {}", names.join(", "))));
    }
    let mut costs = [0; Callback::COUNT];
    for (slot, name) in costs.iter_mut().zip(&names) {
        *slot = *named_costs.get(*name).ok_or_else(|| wrong(format!("{name} is missing")))?;
        if *slot > MAX_COST_NS {
            return Err(wrong(format!("{name}: {slot} is not from 0 to {MAX_COST_NS}")));
        }
    }
    Ok(CallbackCosts(costs))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNC: &str = include_str!("../../../../machines/knc-31s1p.toml");
    const XEON: &str = include_str!("../../../../machines/xeon-e7-8870v4-4s.toml");

    /// The message for a file in which `from` is `to`.
    fn message(text: &str, from: &str, to: &str) -> String {
        assert!(text.contains(from), "{from}");
        let error = parse(&text.replacen(from, to, 1), "my.toml").unwrap_err();
        error.to_string()
    }

    #[test]
    fn says_where_and_what_was_expected() {
        let cases = [
            (KNC, "packages = 1", "packages = 0", ["[topology]", "0 × 1", "1 to"]),
            (KNC, "packages = 1", "packages = -1", ["line", "packages", "-1"]),
            (
                KNC,
                "threads_per_core = 4",
                "threads_per_core = 4611686018427387904",
                ["[topology]", "×", "1 to"],
            ),
            (KNC, "packages = 1", "pacakges = 1", ["line", "unknown field", "pacakges"]),
            (KNC, "tick_hz]\nvalue = 100", "tick_hz]\nvalue = 0", ["line", "tick_hz", "1 to 10000"]),
            (
                KNC,
                "switch_ns = { value = ",
                "switch_ns = { value = 9",
                ["line", "switch_ns", "0 to 60000000000"],
            ),
            (KNC, "[smt]\nvalue = [100, ", "[smt]\nvalue = [", ["line", "[smt]", "4 percentages"]),
            (KNC, "[smt]\nvalue = [100, 100", "[smt]\nvalue = [100, 101", ["line", "[smt]", "none greater"]),
            (KNC, "select_cpu = ", "selct_cpu = ", ["line", "callbacks.default", "selct_cpu"]),
            (XEON, "[callbacks.default]", "[callbacks.fifo]", ["my.toml", "[callbacks.default]", "missing"]),
            (XEON, "min_mhz = { value = 1200", "min_mhz = { value = 4000", ["line", "min_mhz", "1 to"]),
            (XEON, "value = [3000, 3000", "value = [3000, 3100", ["line", "turbo_mhz", "none higher"]),
            (XEON, "value = \"powersave\"", "value = \"powersafe\"", ["line", "governor", "powersave"]),
            (XEON, "core_kib = { value = 256", "core_kib = { value = 0", ["line", "core_kib", "1 to"]),
            (
                XEON,
                "interval_us = { value = ",
                "interval_us = { value = 99999999",
                ["line", "interval_us", "10 to"],
            ),
        ];
        for (text, from, to, expected) in cases {
            let to_9s = to.replace("value = 9", "value = 99999999999999");
            let to = if from.starts_with("switch_ns") { &to_9s } else { to };
            let message = message(text, from, to);
            for part in expected {
                assert!(message.contains(part), "{to}: {part} is not in: {message}");
            }
            assert!(message.starts_with("my.toml"), "{message}");
        }
    }

    #[test]
    fn the_line_is_the_right_one() {
        let line = 1 + KNC.lines().position(|line| line == "[tick_hz]").unwrap() + 1;
        let message = message(KNC, "tick_hz]\nvalue = 100", "tick_hz]\nvalue = 0");
        assert_eq!(message, format!("my.toml, line {line}: tick_hz: 0 is not from 1 to 10000"));
    }
}
