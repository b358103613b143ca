//! The form of `machines/NAME.toml`, read and written.
use crate::Error;
use crate::costs::{CallbackCosts, Callbacks, Costs};
use crate::hierarchy::Hierarchy;
use crate::instructions;
use crate::release::Release;
use crate::setting::{Setting, with_settings};
use crate::source::Source;
use crate::sourced::Sourced;
use crate::speed::{CacheSizes, Frequency, Power, check_smt};
use crate::startup::Startup;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;
use toml_edit::Item;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// As in `machines/NAME.toml`.
    pub name: String,
    /// What it is, in a line.
    pub description: String,
    /// Where its CPUs are.
    pub topology: Spanned<Topology>,
    /// Percent of a lone thread's speed, by the number of the core's running threads, from one on. Not needed for
    /// cores with one thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<Sourced<Vec<u32>>>,
    /// `None`: all CPUs are always at their highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
    /// What its CPUs draw; `None`: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// `None`: data are everywhere at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheSizes>,
    /// For the parallel clock's model of memory; `None`: it has not been described so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Hierarchy>,
    /// Its Linux, where the kernel's age makes a difference; `None`: as [`Release::default`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Sourced<Release>>,
    /// Timer ticks in a second.
    pub tick_hz: Sourced<u64>,
    /// An idle CPU has no ticks.
    pub tickless_idle: Sourced<bool>,
    pub costs: Costs,
    /// What starting programs and tasks costs beside; `None`: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup: Option<Startup>,
    /// How long a mean instruction of a scheduler's functions takes, in ps; `None`: `callbacks` has all prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_ps: Option<Sourced<u64>>,
    /// What each function of a scheduler costs, where that does not follow from its instructions: by scheduler, and
    /// `default` for those that are named nowhere.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callbacks: BTreeMap<String, Sourced<Callbacks>>,
}

impl MachineFile {
    /// Reads and checks a file's text; `path` is for messages.
    ///
    /// # Errors
    /// The line and what is wrong with it.
    pub fn parse(text: &str, path: &str) -> Result<Self, Error> {
        let file: Self = toml::from_str(text).map_err(|e| Error::usage(format!("{path}: {e}")))?;
        file.check(&Source { text, path })?;
        Ok(file)
    }

    /// The same with other values for some entries. Prices of callbacks can be set whether the file lists them or not.
    ///
    /// # Errors
    /// As [`Self::parse`], and for an entry that there is not.
    pub(crate) fn parse_with(text: &str, path: &str, settings: &[Setting]) -> Result<Self, Error> {
        if settings.is_empty() {
            return Self::parse(text, path);
        }
        let words: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let changed = format!("{path} with {}", words.join(", "));
        let (of_callbacks, others): (Vec<_>, Vec<_>) =
            settings.iter().cloned().partition(|setting| setting.path.starts_with("callbacks."));
        let mut text = with_settings(text, path, &others)?;
        if !of_callbacks.is_empty() {
            text += &Self::parse(&text, &changed)?.unlisted();
            text = with_settings(&text, path, &of_callbacks)?;
        }
        Self::parse(&text, &changed)
    }

    /// The prices of all schedulers' functions: from their instructions, unless the file lists them.
    pub(crate) fn prices(&self) -> BTreeMap<String, Sourced<Callbacks>> {
        let mut prices = self.instruction_ps.as_ref().map(instructions::priced).unwrap_or_default();
        prices.extend(self.callbacks.clone());
        prices
    }

    /// The lists that the file does not have, as sections to append to it.
    fn unlisted(&self) -> String {
        let mut callbacks = self.prices();
        callbacks.retain(|scheduler, _| !self.callbacks.contains_key(scheduler));
        format!(
            "\n{}",
            toml::to_string(&BTreeMap::from([("callbacks", callbacks)])).expect("plain data are TOML")
        )
    }

    /// As text: one line a value, in sections.
    pub fn to_toml(&self) -> String {
        let mut document = toml_edit::ser::to_document(self).expect("plain data are TOML");
        for (_, item) in document.iter_mut() {
            *item = std::mem::take(item).into_table().map_or_else(|value| value, Item::Table);
        }
        document.to_string()
    }

    /// Checks that the file's form alone does not imply.
    fn check(&self, source: &Source<'_>) -> Result<(), Error> {
        self.topology.get_ref().check(source, self.topology.span())?;
        source.within("tick_hz", self.tick_hz.spanned(), 1..=10_000)?;
        check_smt(source, self.smt.as_ref(), &self.topology)?;
        self.frequency.iter().try_for_each(|frequency| frequency.check(source))?;
        self.power.iter().try_for_each(|power| power.check(source, self.frequency.as_ref()))?;
        self.caches.iter().try_for_each(|caches| caches.check(source))?;
        self.memory.iter().try_for_each(|memory| memory.check(source, self.caches.as_ref()))?;
        for (name, costs) in &self.callbacks {
            CallbackCosts::check(source, name, costs)?;
        }
        match &self.instruction_ps {
            Some(ps) => source.within("instruction_ps", ps.spanned(), 1..=1_000_000)?,
            None if self.callbacks.contains_key("default") => {}
            None => {
                let what =
                    format!("{}: [instruction_ps] is missing, and so is [callbacks.default]", source.path);
                return Err(Error::usage(what));
            }
        }
        self.costs.check(source)?;
        self.startup.iter().try_for_each(|startup| startup.check(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Certainty;

    const KNC: &str = include_str!("../../../machines/knc-31s1p.toml");
    const XEON: &str = include_str!("../../../machines/xeon-e7-8870v4-4s.toml");

    const PARALLEL: &str = include_str!("../../../machines/parallel-clock.toml");

    /// The message for a file in which `from` is `to`.
    fn message(text: &str, from: &str, to: &str) -> String {
        assert!(text.contains(from), "{from}");
        let error = MachineFile::parse(&text.replacen(from, to, 1), "my.toml").unwrap_err();
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
            (KNC, "select_cpu = ", "selct_cpu = ", ["line", "callbacks.flsched", "selct_cpu"]),
            (
                KNC,
                "instruction_ps]\nvalue = ",
                "instruction_ps]\nvalue = 9999999",
                ["line", "instruction_ps", "1 to 1000000"],
            ),
            (XEON, "min_mhz = { value = 1200", "min_mhz = { value = 4000", ["line", "min_mhz", "1 to"]),
            (XEON, "value = [3000, 3000", "value = [3000, 3100", ["line", "turbo_mhz", "none higher"]),
            (XEON, "[1200, 2000]", "[2200, 2000]", ["line", "core_mw", "each above the one before"]),
            (XEON, "value = \"powersave\"", "value = \"powersafe\"", ["line", "governor", "powersave"]),
            (
                PARALLEL,
                "exec_ns = { value = { hackbench = ",
                "exec_ns = { value = { hackbench = 9999999999",
                ["line", "exec_ns", "0 to 60000000000"],
            ),
            (KNC, "value = \"2.6.38\"", "value = \"2.6.x\"", ["line", "2.6.x", "not a release of Linux"]),
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
    fn prices_follow_from_instructions_unless_they_are_listed() {
        let file = MachineFile::parse(KNC, "it").unwrap();
        let (ps, prices) = (file.instruction_ps.as_ref().unwrap(), file.prices());
        assert_eq!(prices["eevdf"]["pick"], instructions::priced(ps)["eevdf"]["pick"]);
        assert_eq!(*prices["flsched"], *file.callbacks["flsched"]);
        let start = KNC.find("[instruction_ps]").unwrap();
        let end = start + KNC[start..].find("\n\n").unwrap();
        let without = KNC.replace(&KNC[start..end], "");
        let error = MachineFile::parse(&without, "my.toml").unwrap_err().to_string();
        assert!(error.contains("[instruction_ps] is missing"), "{error}");
        let listed = without.replace("[callbacks.flsched]", "[callbacks.default]");
        assert_eq!(MachineFile::parse(&listed, "it").unwrap().prices().len(), 2, "as in files of one's own");
    }

    #[test]
    fn sets_prices_that_are_not_listed() {
        let set = |settings: &[&str]| {
            let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
            MachineFile::parse_with(XEON, "it", &settings).map(|file| file.prices())
        };
        let before = set(&[]).unwrap();
        let prices = set(&["callbacks.rr2.pick=7", "instruction_ps=1000"]).unwrap();
        assert_eq!((prices["rr2"]["pick"], prices["rr2"].certainty), (7, Certainty::Estimated));
        let of_1000_ps = instructions::priced(&Sourced::estimated(1000, ""));
        assert_eq!(prices["rr2"]["balance"], of_1000_ps["rr2"]["balance"], "its other prices stay");
        assert_ne!(prices["flsched"], before["flsched"]);
        let error = set(&["callbacks.rr3.pick=7"]).unwrap_err().to_string();
        assert!(error.contains("unknown entry of `callbacks` `rr3`; did you mean `rr2`"), "{error}");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in [KNC, XEON, PARALLEL] {
            let file = MachineFile::parse(text, "it").unwrap();
            let written = file.to_toml();
            assert_eq!(MachineFile::parse(&written, "it").unwrap(), file);
            let sections = |text: &str| text.lines().filter(|line| line.starts_with('[')).count();
            assert!(sections(&written) <= sections(text), "one line a value: {written}");
        }
    }

    #[test]
    fn the_line_is_the_right_one() {
        let line = 1 + KNC.lines().position(|line| line == "[tick_hz]").unwrap() + 1;
        let message = message(KNC, "tick_hz]\nvalue = 100", "tick_hz]\nvalue = 0");
        assert_eq!(message, format!("my.toml, line {line}: tick_hz: 0 is not from 1 to 10000"));
    }
}
