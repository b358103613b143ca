//! The report as an HTML page: a single file without external resources.
//!
//! Every text goes through `maud`, which escapes it.
use super::chart;
use super::why;
use super::words::{self, Terms};
use crate::Target;
use crate::clock::Clock;
use crate::environment::Environment;
use crate::result::{ArmResult, Report};
use crate::verdict::{MIN_EFFECT, MIN_RUNS, Verdict};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The whole page. `traces`: the part of the files' names that the traces of its timelines have in common.
pub fn page(report: &Report, traces: &str) -> String {
    let title = format!("Schedulers side by side: {}", schedulers(report));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content=(format!("flsched {}", report.flsched_version));
                title { (title) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header {
                    p.eyebrow { "flsched compare" }
                    h1 { (title) }
                    (facts(report))
                }
                main {
                    (warnings(report))
                    @for workload in words::workloads(report) {
                        (section(report, workload, traces))
                    }
                    (method(report))
                    (environment(report))
                }
                footer {
                    p { "flsched " (report.flsched_version) " · started " (report.started_at) " · took "
                        (words::seconds(report.duration_s)) " s · the same as data: --json FILE" }
                }
            }
        }
    }
    .into_string()
}

fn schedulers(report: &Report) -> String {
    let workload = words::workloads(report).first().copied().unwrap_or_default();
    let names: Vec<_> = words::results_of(report, workload)
        .iter()
        .map(|result| result.scheduler.as_str())
        .filter(|name| !name.ends_with(" (again)"))
        .collect();
    names.join(", ")
}

fn facts(report: &Report) -> Markup {
    let place = match (report.on, &report.environment.vm) {
        (Target::Host, _) => "on the machine itself".to_string(),
        (Target::Vm, Some(vm)) => format!("in a VM ({})", vm.accel),
        (Target::Vm, None) => "in a VM".to_string(),
        (Target::Sim, _) => format!("of {}", report.environment.model.as_deref().unwrap_or("a model")),
    };
    html! {
        ul.facts {
            li { (words::clock(report)) }
            li { "kernel " (report.kernel) }
            li { (report.cpus) " CPUs " (place) }
            li { (report.runs) " runs of each, in random order" }
            li { "seed " (report.seed) }
            li { (words::proof(report)) }
        }
    }
}

fn warnings(report: &Report) -> Markup {
    html! {
        @if !report.warnings.is_empty() || !report.complete {
            section.card.warnings {
                ul {
                    @if !report.complete {
                        li { strong { "This comparison is incomplete: " } "not all runs have been done." }
                    }
                    @for warning in &report.warnings { li { (warning) } }
                }
            }
        }
    }
}

fn section(report: &Report, workload: &str, traces: &str) -> Markup {
    let results = words::results_of(report, workload);
    let first = results.first().map_or("", |result| result.scheduler.as_str());
    let noise = report.noise.get(workload);
    let terms = words::terms(report.clock);
    html! {
        section.card {
            h2 { (workload) }
            p.headline { (headline(&results, first, terms)) }
            @if let Some(published) = words::published(report, workload) { p { (published) } }
            ul.findings {
                @for result in results.iter().filter(|result| result.verdict != Verdict::Baseline) {
                    li class=(chart::class(result)) {
                        span.sign aria-hidden="true" { (symbol(result.verdict)) }
                        span {
                            strong { (result.scheduler) } ": " (words::finding(result, first, terms))
                            @for loss in [words::losses(result), words::no_breakdown(result), words::no_timeline(result)].iter().flatten() {
                                small { (loss) }
                            }
                        }
                    }
                }
            }
            h3 { (terms.title) }
            figure {
                figcaption {
                    @if let Some(time_is) = results.first().and_then(|it| words::time_is(it, report.clock)) {
                        (time_is) ". "
                    }
                    "Each dot is a run, the line across the median, the bar its 95 % interval. "
                    b.better { "Blue" } " is better, " b.worse { "orange" } " worse, grey can’t tell. "
                    @if noise.is_some() { "The band is noise: as much as " (first) " differs from itself." }
                }
                (scroll(workload, terms.title, chart::times(&results, noise, terms)))
            }
            h3 { "Context switches" }
            figure {
                figcaption { "Median of a run, on all CPUs; colours as above." }
                (scroll(workload, "Context switches", chart::bars(&results, "context switches", |result| {
                    result.context_switches.as_ref().map(|counts| counts.median)
                })))
            }
            (why::section(workload, &results))
            (timelines(report, workload, &results, traces))
            h3 { "Figures" }
            (scroll(workload, "Figures", table(&results, terms)))
        }
    }
}

/// A region that scrolls sideways if the window is narrow. The Tab key focuses it, and the arrow keys scroll it.
pub(super) fn scroll(workload: &str, what: &str, content: Markup) -> Markup {
    html! {
        div.scroll role="group" aria-label=(format!("{what}: {workload}")) tabindex="0" { (content) }
    }
}

/// What ran where, under one scheduler after the other.
fn timelines(report: &Report, workload: &str, results: &[&ArmResult], traces: &str) -> Markup {
    let Some(beside) = report.timelines.get(workload) else { return html! {} };
    let recorded = results.iter().filter(|result| result.timeline.is_some());
    let links: Vec<String> = recorded.map(|result| trace_name(traces, result)).collect();
    html! {
        h3 { "What ran where" }
        p.note {
            "One more run of each scheduler, recorded; its time does not count. A row is a CPU, a colour a " (beside.coloured.word()) ", white \
             where the CPU idles. Point at a colour for the name."
        }
        (beside.fragment(&links))
    }
}

/// The file with the trace of a timeline, beside the page.
pub fn trace_name(common: &str, result: &ArmResult) -> String {
    let plain = |text: &str| -> String {
        text.chars()
            .map(|it| if it.is_ascii_alphanumeric() || "-_.".contains(it) { it } else { '-' })
            .collect()
    };
    format!("{common}-{}-{}.json.gz", plain(&result.workload), plain(&result.scheduler))
}

/// The finding that matters most, in one sentence.
fn headline(results: &[&ArmResult], first: &str, terms: &Terms) -> String {
    let Terms { better, best, be_better, .. } = terms;
    let count = |verdict: Verdict| results.iter().filter(|result| result.verdict == verdict).count();
    let leaders = leaders(results);
    match (leaders.as_slice(), count(Verdict::Worse), count(Verdict::CantTell)) {
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
    }
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

/// A symbol for the verdict, which then does not depend on its colour alone.
fn symbol(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::CantTell => "○",
        Verdict::Baseline => "–",
    }
}

fn table(results: &[&ArmResult], terms: &Terms) -> Markup {
    let yields = results.iter().any(|result| result.yields.is_some());
    let counts = |counts: &Option<crate::result::Counts>| {
        counts.as_ref().map_or_else(|| "–".to_string(), |counts| words::count(counts.median))
    };
    html! {
        table {
            thead {
                tr {
                    th { "scheduler" } th { (terms.noun) " s" } th { "× first" } th.left { "verdict" }
                    th { "switches" } th { "migrations" }
                    @if yields { th { "yields" } }
                    th { "ejected" }
                }
            }
            tbody {
                @for result in results {
                    tr {
                        td {
                            (result.scheduler)
                            @if let Some(version) = words::own_version(result) {
                                br; small { (version) }
                            }
                            @for line in [words::figures(result), words::residency(result)].iter().flatten() {
                                br; small { (line) }
                            }
                        }
                        td {
                            @if let Some(time) = result.time_s {
                                (words::seconds(time.median)) " "
                                small { (words::interval(&time)) }
                            } @else { "–" }
                        }
                        td {
                            @if let Some(ratio) = result.ratio_to_first {
                                (words::ratio(ratio)) " "
                                small { (words::ratio_interval(result).unwrap_or_default()) }
                            } @else { "–" }
                        }
                        td class=(format!("left {}", chart::class(result))) title=(result.verdict_reason) {
                            (result.verdict.to_string())
                        }
                        td { (counts(&result.context_switches)) }
                        td { (counts(&result.migrations)) }
                        @if yields { td { (counts(&result.yields)) } }
                        td class=[(result.ejected > 0).then_some("worse")] {
                            (result.ejected) " of " (result.runs)
                        }
                    }
                }
            }
        }
    }
}

fn method(report: &Report) -> Markup {
    let noun = words::terms(report.clock).noun;
    html! {
        section.card.prose {
            h3 style="margin-top:0" { "How it was measured" }
            p {
                @match report.clock {
                    Clock::Parallel => "The machine is emulated, and each of its CPUs has its own time: an \
                        instruction is a nanosecond, and all CPUs run in parallel. It shows how long a scheduler \
                        makes a program take, waits for locks included, and is hardly disturbed by other programs; \
                        it does not show caches, memory bandwidth, threads that share a core, or frequencies.",
                    Clock::Work => "The machine is emulated, and what is counted is the instructions it \
                        executed, one nanosecond each, one CPU after the other. A figure is the work of all CPUs \
                        together, not how long it lasts: CPUs that spin add to it. It is hardly disturbed by \
                        other programs.",
                    Clock::Wall => "Time is real time. It is disturbed by whatever else happens on the machine, so \
                        only the ratios count, and only beyond the noise.",
                    Clock::Model => "The machine is simulated: its file has what everything costs there, and how \
                        sure that is. The runs of a scheduler differ by their seeds.",
                }
            }
            @if report.clock != Clock::Model { p {
                "After one warm-up of each, every round runs each workload under each scheduler once, in a random \
                order that the seed repeats. The first scheduler takes part twice: the difference between it and \
                itself is the noise."
            } }
            p {
                "A scheduler is better or worse if the 95 % interval of its ratio (" (noun) " of the first / its " (noun) ", \
                bootstrap of medians) lies on one side of 1, and the ratio lies beyond the noise and "
                (format!("{:.0} %", (MIN_EFFECT - 1.0) * 100.0)) "; with fewer than " (MIN_RUNS)
                " measured runs, or when runs failed, it is not called better."
            }
            @if report.clock != Clock::Model { p {
                "In every run the kernel is asked, before and after, which scheduler is in force. A run in which the \
                kernel ejected the scheduler counts as ejected, and its " (noun) " does not count."
            } }
            @if !report.command_line.is_empty() { pre { (report.command_line) } }
        }
    }
}

fn environment(report: &Report) -> Markup {
    html! {
        section.card {
            details {
                summary { "The machine" }
                dl {
                    @for (name, value) in rows(&report.environment) {
                        dt { (name) }
                        dd { (value) }
                    }
                }
            }
        }
    }
}

/// The environment as names and values.
fn rows(environment: &Environment) -> Vec<(String, String)> {
    let topology = &environment.topology;
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ")
    };
    let load = |load: &[f64]| load.iter().map(|value| format!("{value:.2}")).collect::<Vec<_>>().join(" ");
    let mut rows = vec![
        ("kernel", format!("{} {}", environment.kernel, environment.kernel_version)),
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
    rows.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}

#[cfg(test)]
pub(super) mod tests;
