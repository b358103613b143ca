//! A report as it is shown: all its words, numbers and symbols, made once. The layouts, [`super::table`] and
//! [`super::html`], place them.
use super::why::{self, Shares};
use super::words::{self, Terms};
use crate::Target;
use crate::clock::Clock;
use crate::environment::Environment;
use crate::result::{ArmResult, Report};
use crate::verdict::{MIN_EFFECT, Noise, Verdict};
use flsched_recording::timeline::Beside;

/// What stands for a figure that is not there.
pub(super) const NONE: &str = "–";

pub(super) struct View<'a> {
    /// The schedulers, without the second copy of the first.
    pub names: String,
    pub clock: Clock,
    pub terms: &'static Terms,
    /// The clock in words, with its settings.
    pub clock_words: String,
    pub kernel: &'a str,
    pub cpus: u32,
    /// `None`: the machine itself.
    pub place: Option<String>,
    pub runs: u32,
    pub seed: u64,
    pub versions: String,
    pub proof: String,
    /// A workload's name and its noise.
    pub noise: Vec<String>,
    pub has_shares: bool,
    /// Policies that are files of the user's own.
    pub policy_files: Vec<String>,
    pub warnings: &'a [String],
    pub complete: bool,
    pub workloads: Vec<Workload<'a>>,
    pub environment: Vec<(&'static str, String)>,
    pub command_line: &'a str,
    pub flsched_version: &'a str,
    pub started_at: &'a str,
    pub duration: String,
}

/// A workload under all schedulers.
pub(super) struct Workload<'a> {
    pub name: &'a str,
    /// The scheduler with which the others are compared.
    pub first: &'a str,
    /// The finding that matters most, in one sentence.
    pub headline: String,
    /// The published gain, beside ours.
    pub published: Option<String>,
    /// What the time measures, if not the whole run.
    pub time_is: Option<String>,
    /// If no scheduler has a time, all for the same reason.
    pub loss_of_all: Option<String>,
    pub noise: Option<&'a Noise>,
    pub has_yields: bool,
    pub timelines: Option<&'a Beside>,
    pub rows: Vec<Row<'a>>,
}

/// A workload under one scheduler.
pub(super) struct Row<'a> {
    pub scheduler: &'a str,
    pub version: Option<&'a str>,
    /// The second copy of the first scheduler.
    pub is_again: bool,
    pub time: Option<Value>,
    pub ratio: Option<Value>,
    pub verdict: Verdict,
    pub reason: &'a str,
    /// The verdict, which then does not depend on its colour alone.
    pub symbol: &'static str,
    /// The predicate of a sentence.
    pub finding: String,
    pub switches: String,
    pub migrations: String,
    pub yields: String,
    pub ejected: usize,
    pub runs: usize,
    /// Further figures, and the shares of CPU time by frequency.
    pub figures: Vec<String>,
    /// Runs without a time, and a breakdown that failed.
    pub losses: Vec<String>,
    pub no_timeline: Option<String>,
    pub shares: Option<Shares<'a>>,
    /// The numbers, which charts draw.
    pub result: &'a ArmResult,
}

/// A figure and its interval.
pub(super) struct Value {
    pub median: String,
    pub interval: String,
}

impl<'a> View<'a> {
    pub fn new(report: &'a Report) -> Self {
        let terms = words::terms(report.clock);
        let workloads: Vec<_> =
            words::workloads(report).into_iter().map(|name| Workload::new(report, name, terms)).collect();
        let noise =
            |(workload, noise): (&String, &Noise)| format!("{workload} {:.2}–{:.2}", noise.low, noise.high);
        let files = report.environment.policy_files.iter();
        Self {
            names: names(&workloads),
            clock: report.clock,
            terms,
            clock_words: words::clock(report),
            kernel: &report.kernel,
            cpus: report.cpus,
            place: place(report),
            runs: report.runs,
            seed: report.seed,
            versions: words::versions(report),
            proof: words::proof(report),
            noise: report.noise.iter().map(noise).collect(),
            has_shares: report.results.iter().any(|result| result.why.is_some()),
            policy_files: files
                .map(|(name, file)| {
                    format!("{name}: a policy from the file {} ({})", file.path, file.version())
                })
                .collect(),
            warnings: &report.warnings,
            complete: report.complete,
            workloads,
            environment: environment(&report.environment),
            command_line: &report.command_line,
            flsched_version: &report.flsched_version,
            started_at: &report.started_at,
            duration: words::seconds(report.duration_s),
        }
    }
}

fn names(workloads: &[Workload<'_>]) -> String {
    let rows = workloads.first().map_or(&[][..], |workload| &workload.rows);
    let names: Vec<_> = rows.iter().filter(|row| !row.is_again).map(|row| row.scheduler).collect();
    names.join(", ")
}

fn place(report: &Report) -> Option<String> {
    match (report.on, &report.environment.vm) {
        (Target::Host, _) => None,
        (Target::Vm, Some(vm)) => Some(format!("in a VM ({})", vm.accel)),
        (Target::Vm, None) => Some("in a VM".into()),
        (Target::Sim, _) => Some(format!("of {}", report.environment.model.as_deref().unwrap_or("a model"))),
    }
}

impl<'a> Workload<'a> {
    fn new(report: &'a Report, name: &'a str, terms: &Terms) -> Self {
        let results = words::results_of(report, name);
        let first = results.first().map_or("", |result| result.scheduler.as_str());
        let loss_of_all = words::loss_of_all(&results);
        let row = |result| Row::new(result, first, terms, loss_of_all.is_none());
        Self {
            name,
            first,
            headline: headline(&results, first, terms),
            published: words::published(report, name),
            time_is: results.first().and_then(|result| words::time_is(result, report.clock)),
            noise: report.noise.get(name),
            has_yields: results.iter().any(|result| result.yields.is_some()),
            timelines: report.timelines.get(name),
            rows: results.into_iter().map(row).collect(),
            loss_of_all,
        }
    }

    /// The rows with a finding, losses first: failed runs, then what is worse.
    pub fn findings(&self) -> Vec<&Row<'a>> {
        let has_finding = |row: &&Row<'_>| row.verdict != Verdict::Baseline || !row.losses.is_empty();
        let mut rows: Vec<_> = self.rows.iter().filter(has_finding).collect();
        rows.sort_by_key(|row| (row.losses.is_empty(), row.verdict != Verdict::Worse));
        rows
    }

    pub fn results(&self) -> Vec<&'a ArmResult> {
        self.rows.iter().map(|row| row.result).collect()
    }
}

impl<'a> Row<'a> {
    fn new(result: &'a ArmResult, first: &str, terms: &Terms, has_own_losses: bool) -> Self {
        let counts = |counts: &Option<crate::result::Counts>| {
            counts.as_ref().map_or_else(|| NONE.to_string(), |counts| words::count(counts.median))
        };
        Self {
            scheduler: &result.scheduler,
            version: words::own_version(result),
            is_again: words::is_again(result),
            time: result
                .time_s
                .map(|time| Value { median: words::seconds(time.median), interval: words::interval(&time) }),
            ratio: result.ratio_to_first.map(|ratio| Value {
                median: words::ratio(ratio),
                interval: words::ratio_interval(result).unwrap_or_default(),
            }),
            verdict: result.verdict,
            reason: &result.verdict_reason,
            symbol: symbol(result.verdict),
            finding: words::finding(result, first, terms),
            switches: counts(&result.context_switches),
            migrations: counts(&result.migrations),
            yields: counts(&result.yields),
            ejected: result.ejected,
            runs: result.runs,
            figures: [words::figures(result), words::residency(result)].into_iter().flatten().collect(),
            losses: [words::losses(result).filter(|_| has_own_losses), words::no_breakdown(result)]
                .into_iter()
                .flatten()
                .collect(),
            no_timeline: words::no_timeline(result),
            shares: result.why.as_ref().map(|breakdown| why::shares(result, breakdown)),
            result,
        }
    }
}

impl Value {
    /// For a table's cell.
    pub fn cell(value: Option<&Self>) -> String {
        value.map_or_else(|| NONE.into(), |Self { median, interval }| format!("{median} {interval}"))
    }
}

fn headline(results: &[&ArmResult], first: &str, terms: &Terms) -> String {
    let Terms { better, worse, best, be_better, .. } = *terms;
    let count = |verdict: Verdict| results.iter().filter(|result| result.verdict == verdict).count();
    let leaders = leaders(results);
    let best = match (leaders.as_slice(), count(Verdict::Worse), count(Verdict::CantTell)) {
        ([], 0, 0) => format!("Nothing to compare {first} with"),
        ([], _, 0) => format!("{first} {best}"),
        ([], ..) => format!("No scheduler was shown to {be_better} than {first}"),
        ([one], ..) => format!("{} {}", one.scheduler, words::finding(one, first, terms)),
        ([most @ .., last], ..) => {
            let most: Vec<_> = most.iter().map(|leader| leader.scheduler.as_str()).collect();
            let ratios = leaders.iter().filter_map(|leader| leader.ratio_to_first);
            let (low, high) = ratios.fold((f64::MAX, 0.0f64), |(low, high), it| (low.min(it), high.max(it)));
            let (low, high) = (words::ratio(low), words::ratio(high));
            let range = if low == high { high } else { format!("{}–{high}", low.trim_end_matches('×')) };
            format!("{} and {} {range} {better} than {first}", most.join(", "), last.scheduler)
        }
    };
    let names = |of: &dyn Fn(&ArmResult) -> bool| -> Vec<&str> {
        results.iter().filter(|it| of(it)).map(|it| it.scheduler.as_str()).collect()
    };
    let failed = names(&|it| !it.failed.is_empty());
    let behind = names(&|it| it.verdict == Verdict::Worse);
    let lost =
        [("runs failed under", failed), (worse, behind)].into_iter().filter(|(_, who)| !who.is_empty());
    // Where all are worse the sentence says so.
    let lost = lost.filter(|(what, _)| *what != worse || !leaders.is_empty() || count(Verdict::CantTell) > 0);
    let lost: String = lost.map(|(what, who)| format!("; {what}: {}", who.join(", "))).collect();
    best + &lost
}

/// The best of the schedulers that are better than the first, and those that cannot be distinguished from it.
fn leaders<'a>(results: &[&'a ArmResult]) -> Vec<&'a ArmResult> {
    let better: Vec<_> = results.iter().copied().filter(|result| result.verdict == Verdict::Better).collect();
    let times = better.iter().filter_map(|result| result.time_s);
    let Some(best) = times.min_by(|a, b| a.median.total_cmp(&b.median)) else {
        return Vec::new();
    };
    let apart = |time: f64| time > best.high * MIN_EFFECT;
    better.into_iter().filter(|result| result.time_s.is_some_and(|time| !apart(time.low))).collect()
}

fn symbol(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::CantTell => "○",
        Verdict::Baseline => "–",
    }
}

/// The environment as names and values.
fn environment(environment: &Environment) -> Vec<(&'static str, String)> {
    let topology = &environment.topology;
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ")
    };
    let load = |load: &[f64]| load.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(" ");
    let mut rows = vec![
        ("kernel", format!("{} {}", environment.kernel, environment.kernel_version)),
        ("architecture", environment.architecture.clone().unwrap_or_default()),
        ("cgroup", environment.cgroup.clone().unwrap_or_default()),
        ("kernel command line", environment.kernel_cmdline.clone().unwrap_or_default()),
        ("CPU", environment.cpu_model.clone().unwrap_or_default()),
        (
            "topology",
            format!(
                "{} CPUs, {} cores, {} sockets, {} memory nodes, {} last-level caches",
                environment.cpus, topology.cores, topology.sockets, topology.nodes, topology.caches
            ),
        ),
        ("memory", environment.memory_mib.map(|mib| format!("{mib} MiB")).unwrap_or_default()),
        ("mitigations", pairs(&environment.mitigations)),
        ("frequency governor", environment.governor.clone().unwrap_or_default()),
        ("load average at start", load(&environment.load_average)),
        ("kernel settings", pairs(&environment.sysctl)),
        ("OpenMP settings", pairs(&environment.openmp)),
        ("hackbench", environment.hackbench_version.clone().unwrap_or_default()),
    ];
    for (name, file) in &environment.policy_files {
        rows.push(("policy from a file", format!("{name}: {}, SHA-256 {}", file.path, file.sha256)));
    }
    if let Some(vm) = &environment.vm {
        rows.extend([
            ("QEMU", vm.qemu_version.clone().unwrap_or_default()),
            ("executed by", vm.accel.clone()),
            ("why not by KVM", vm.accel_note.clone().unwrap_or_default()),
            ("time to boot", format!("{} s", words::seconds(vm.boot_s))),
            ("host kernel", vm.host_kernel.clone()),
            ("host CPU", format!("{} × {}", vm.host_cpus, vm.host_cpu_model.as_deref().unwrap_or("unknown"))),
            ("host load at start", load(&vm.host_load_average)),
        ]);
    }
    rows.retain(|(_, value)| !value.is_empty());
    rows
}
