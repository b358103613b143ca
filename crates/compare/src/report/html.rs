//! The report as an HTML page: a single file without external resources.
//!
//! Every text goes through `maud`, which escapes it.
use super::chart;
use super::view::{NONE, Value, View, Workload};
use super::why;
use super::words::Terms;
use crate::clock::Clock;
use crate::result::{ArmResult, Report};
use crate::verdict::{MIN_EFFECT, MIN_RUNS};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The whole page. `traces`: the part of the files' names that the traces of its timelines have in common.
pub fn page(report: &Report, traces: &str) -> String {
    let view = View::new(report);
    let title = format!("Schedulers side by side: {}", view.names);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content=(format!("flsched {}", view.flsched_version));
                title { (title) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header {
                    p.eyebrow { "flsched compare" }
                    h1 { (title) }
                    (facts(&view))
                }
                main {
                    (warnings(&view))
                    @for workload in &view.workloads {
                        (section(workload, view.terms, traces))
                    }
                    (method(&view))
                    (environment(&view.environment))
                }
                footer {
                    p { "flsched " (view.flsched_version) " · started " (view.started_at) " · took "
                        (view.duration) " s · the same as data: --json FILE" }
                }
            }
        }
    }
    .into_string()
}

fn facts(view: &View<'_>) -> Markup {
    html! {
        ul.facts {
            li { (view.clock_words) }
            li { "kernel " (view.kernel) }
            li { (view.cpus) " CPUs " (view.place.as_deref().unwrap_or("on the machine itself")) }
            li { (view.runs) " runs of each, in random order" }
            li { "seed " (view.seed) }
            li { (view.proof) }
        }
    }
}

fn warnings(view: &View<'_>) -> Markup {
    html! {
        @if !view.warnings.is_empty() || !view.complete {
            section.card.warnings {
                ul {
                    @if !view.complete {
                        li { strong { "This comparison is incomplete: " } "not all runs have been done." }
                    }
                    @for warning in view.warnings { li { (warning) } }
                }
            }
        }
    }
}

fn section(workload: &Workload<'_>, terms: &Terms, traces: &str) -> Markup {
    let Workload { name, first, .. } = *workload;
    let results = workload.results();
    html! {
        section.card {
            h2 { (name) }
            p.headline { (workload.headline) }
            @if let Some(published) = &workload.published { p { (published) } }
            @if let Some(loss) = &workload.loss_of_all { p { "All: " (loss) } }
            ul.findings {
                @for row in workload.findings() {
                    li class=(chart::class(row.result)) {
                        span.sign aria-hidden="true" { (row.symbol) }
                        span {
                            strong { (row.scheduler) } ": " (row.finding)
                            @for loss in row.losses.iter().chain(&row.no_timeline) { small { (loss) } }
                        }
                    }
                }
            }
            h3 { (terms.title) }
            figure {
                figcaption {
                    @if let Some(time_is) = &workload.time_is { (time_is) ". " }
                    "Each dot is a run, the line across the median, the bar its interval. "
                    b.better { "Blue" } " is better, " b.worse { "orange" } " worse, grey can’t tell. "
                    @if workload.noise.is_some() { "The band is noise: as much as " (first) " differs from itself." }
                }
                (scroll(name, terms.title, chart::times(&results, workload.noise, terms)))
            }
            h3 { "Context switches" }
            figure {
                figcaption { "Median of a run, on all CPUs; colours as above." }
                (scroll(name, "Context switches", chart::bars(&results, "context switches", |result| {
                    result.context_switches.as_ref().map(|counts| counts.median)
                })))
            }
            (why::section(workload))
            (timelines(workload, traces))
            h3 { "Figures" }
            (scroll(name, "Figures", table(workload, terms)))
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
fn timelines(workload: &Workload<'_>, traces: &str) -> Markup {
    let Some(beside) = workload.timelines else { return html! {} };
    let recorded = workload.rows.iter().filter(|row| row.result.timeline.is_some());
    let links: Vec<String> = recorded.map(|row| trace_name(traces, row.result)).collect();
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

fn table(workload: &Workload<'_>, terms: &Terms) -> Markup {
    let value = |value: &Option<Value>| {
        html! {
            @if let Some(Value { median, interval }) = value { (median) " " small { (interval) } } @else { (NONE) }
        }
    };
    html! {
        table {
            thead {
                tr {
                    th { "scheduler" } th { (terms.noun) " s" } th { "× first" } th.left { "verdict" }
                    th { "switches" } th { "migrations" }
                    @if workload.has_yields { th { "yields" } }
                    th { "ejected" }
                }
            }
            tbody {
                @for row in &workload.rows {
                    tr {
                        td {
                            (row.scheduler)
                            @for line in row.version.into_iter().chain(row.figures.iter().map(String::as_str)) {
                                br; small { (line) }
                            }
                        }
                        td { (value(&row.time)) }
                        td { (value(&row.ratio)) }
                        td class=(format!("left {}", chart::class(row.result))) title=(row.reason) {
                            (row.verdict.to_string())
                        }
                        td { (row.switches) }
                        td { (row.migrations) }
                        @if workload.has_yields { td { (row.yields) } }
                        td class=[(row.ejected > 0).then_some("worse")] { (row.ejected) " of " (row.runs) }
                    }
                }
            }
        }
    }
}

fn method(view: &View<'_>) -> Markup {
    let noun = view.terms.noun;
    html! {
        section.card.prose {
            h3 style="margin-top:0" { "How it was measured" }
            p {
                @match view.clock {
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
            @if view.clock != Clock::Model { p {
                "After one warm-up of each, every round runs each workload under each scheduler once, in a random \
                order that the seed repeats. The first scheduler takes part twice: the difference between it and \
                itself is the noise."
            } }
            p {
                "A scheduler is better or worse if the interval of its ratio (" (noun) " of the first / its " (noun) ", \
                bootstrap of medians) lies on one side of 1, and the ratio lies beyond the noise and "
                (format!("{:.0} %", (MIN_EFFECT - 1.0) * 100.0)) "; with fewer than " (MIN_RUNS)
                " measured runs, or when runs failed, it is not called better."
            }
            @if view.clock != Clock::Model { p {
                "In every run the kernel is asked, before and after, which scheduler is in force. A run in which the \
                kernel ejected the scheduler counts as ejected, and its " (noun) " does not count."
            } }
            @if !view.command_line.is_empty() { pre { (view.command_line) } }
        }
    }
}

fn environment(rows: &[(&str, String)]) -> Markup {
    html! {
        section.card {
            details {
                summary { "The machine" }
                dl {
                    @for (name, value) in rows {
                        dt { (name) }
                        dd { (value) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
