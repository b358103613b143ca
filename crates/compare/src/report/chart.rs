//! The page's charts. They are inline SVG, so the page's style gives them their colours, light or dark.
use super::words::{self, Terms};
use crate::result::ArmResult;
use crate::verdict::{Noise, Verdict};
use maud::{Markup, html};

const WIDTH: f64 = 760.0;
/// Right end of the plot; the figures follow.
const RIGHT: f64 = 590.0;
const ROW: f64 = 36.0;
const TOP: f64 = 8.0;
const AXIS: f64 = 40.0;
/// Longest name that fits before the plot, in characters.
const NAME: usize = 22;

/// A chart of all runs: a dot for each run, a line for the median, a bar for its interval. The band around the first
/// scheduler's median shows the noise.
pub(super) fn times(results: &[&ArmResult], noise: Option<&Noise>, terms: &Terms) -> Markup {
    let all = || results.iter().flat_map(|result| result.times_s.iter().copied());
    let (min, max) = all().fold((f64::MAX, 0.0f64), |(min, max), time| (min.min(time), max.max(time)));
    if max <= 0.0 {
        return html! { p.none { "No run was measured." } };
    }
    // The axis begins at 0, so that lengths are proportional to values, unless the values are too
    // close together for that.
    let low = if min < max * 0.8 { 0.0 } else { min - (max - min).max(max * 0.02) };
    let axis = Axis::new(left(results), low, max);
    let bottom = TOP + ROW * results.len() as f64;
    let first = results.first().and_then(|result| result.time_s);
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", bottom + AXIS)) role="img"
            aria-label=(format!("{} of all runs, by scheduler", terms.title)) {
            @if let (Some(first), Some(noise)) = (first, noise) {
                @let from = axis.at(first.median / noise.threshold).max(axis.left);
                @let to = axis.at(first.median * noise.threshold).min(RIGHT);
                rect.noise x=(px(from)) y=(px(TOP)) width=(px((to - from).max(1.0)))
                    height=(px(bottom - TOP)) {
                    title { "within the noise of the first scheduler" }
                }
            }
            (axis.grid(bottom, terms.axis))
            @if let Some(first) = first {
                line.first x1=(px(axis.at(first.median))) x2=(px(axis.at(first.median)))
                    y1=(px(TOP)) y2=(px(bottom)) {}
            }
            @for (row, result) in results.iter().enumerate() {
                @let middle = TOP + ROW * (row as f64 + 0.5);
                g class=(class(result)) {
                    (name(result, axis.left, middle))
                    @if let Some(time) = result.time_s {
                        @let (low, high) = (axis.at(time.low), axis.at(time.high));
                        rect.interval x=(px(low - 2.0)) y=(px(middle - 7.0))
                            width=(px(high - low + 4.0)) height="14" rx="7" {
                            title { (words::interval(&time)) " s" }
                        }
                        @for (index, value) in result.times_s.iter().enumerate() {
                            circle.run cx=(px(axis.at(*value))) cy=(px(middle + jitter(index))) r="3.2" {
                                title { (words::seconds(*value)) " s" }
                            }
                        }
                        line.median x1=(px(axis.at(time.median))) x2=(px(axis.at(time.median)))
                            y1=(px(middle - 11.0)) y2=(px(middle + 11.0)) {}
                        text.value x=(px(WIDTH)) y=(px(middle + 4.5)) {
                            (words::seconds(time.median)) " s"
                            @if let (Some(ratio), false) = (result.ratio_to_first, row == 0) {
                                "  ·  " (words::ratio(ratio))
                            }
                        }
                    } @else {
                        text.value x=(px(WIDTH)) y=(px(middle + 4.5)) { "not measured" }
                    }
                }
            }
        }
        @if axis.low > 0.0 {
            p.note { "The axis does not begin at 0." }
        }
    }
}

/// A chart of medians, as bars from 0.
pub(super) fn bars(results: &[&ArmResult], label: &str, of: impl Fn(&ArmResult) -> Option<f64>) -> Markup {
    let max = results.iter().filter_map(|result| of(result)).fold(0.0, f64::max);
    if max <= 0.0 {
        return html! { p.none { "Not counted." } };
    }
    let axis = Axis::new(left(results), 0.0, max);
    let bottom = TOP + ROW * results.len() as f64;
    let first = results.first().and_then(|result| of(result));
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", bottom + AXIS)) role="img"
            aria-label=(format!("{label}, by scheduler")) {
            (axis.grid(bottom, label))
            @for (row, result) in results.iter().enumerate() {
                @let middle = TOP + ROW * (row as f64 + 0.5);
                g class=(class(result)) {
                    (name(result, axis.left, middle))
                    @if let Some(value) = of(result) {
                        rect.bar x=(px(axis.left)) y=(px(middle - 9.0))
                            width=(px((axis.at(value) - axis.left).max(1.0))) height="18" rx="2" {
                            title { (words::count(value)) }
                        }
                        text.value x=(px(WIDTH)) y=(px(middle + 4.5)) {
                            (words::count(value))
                            @if let (Some(first), false) = (first, row == 0) {
                                "  ·  " (times_as_many(value, first))
                            }
                        }
                    } @else {
                        text.value x=(px(WIDTH)) y=(px(middle + 4.5)) { "not counted" }
                    }
                }
            }
        }
    }
}

/// A bar of [`stacks`].
pub(super) struct Stack<'a> {
    /// The result to which the bar belongs.
    pub(super) result: &'a ArmResult,
    /// The bar's length, in seconds.
    pub(super) length: f64,
    /// Name, class and percent of each part.
    pub(super) parts: Vec<(&'static str, &'static str, f64)>,
}

/// A chart of bars that are divided into parts.
pub(super) fn stacks(stacks: &[&Stack<'_>]) -> Markup {
    let results: Vec<_> = stacks.iter().map(|stack| stack.result).collect();
    let max = stacks.iter().map(|stack| stack.length).fold(0.0, f64::max);
    let axis = Axis::new(left(&results), 0.0, max);
    let bottom = TOP + ROW * stacks.len() as f64;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", bottom + AXIS)) role="img"
            aria-label="where the CPU time went, by scheduler" {
            (axis.grid(bottom, "seconds"))
            @for (row, stack) in stacks.iter().enumerate() {
                @let middle = TOP + ROW * (row as f64 + 0.5);
                (name(stack.result, axis.left, middle))
                @for (index, (name, class, percent)) in stack.parts.iter().enumerate() {
                    @let before: f64 = stack.parts[..index].iter().map(|part| part.2).sum();
                    @let at = |percent: f64| axis.at(stack.length * percent / 100.0);
                    rect class=(format!("cause {class}")) x=(px(at(before))) y=(px(middle - 11.0)) height="22"
                        width=(px(at(before + percent) - at(before))) {
                        title { (name) ": " (format!("{percent:.1} %")) }
                    }
                }
                text.value x=(px(WIDTH)) y=(px(middle + 4.5)) { (words::seconds(stack.length)) " s" }
            }
        }
    }
}

fn times_as_many(value: f64, first: f64) -> String {
    match (value > 0.0 && first > 0.0, value < first) {
        (false, _) => String::new(),
        (true, true) => format!("{:.1}× fewer", first / value),
        (true, false) => format!("{:.1}× as many", value / first),
    }
}

/// Left end of the plot, after the longest name.
fn left(results: &[&ArmResult]) -> f64 {
    let longest = results.iter().map(|result| result.scheduler.chars().count()).max().unwrap_or(0);
    20.0 + 8.0 * longest.min(NAME) as f64
}

/// A scheduler's name before its row. A name that is too long is cut; hovering shows all of it.
fn name(result: &ArmResult, left: f64, middle: f64) -> Markup {
    let whole = &result.scheduler;
    let shown = match whole.chars().count() > NAME {
        true => whole.chars().take(NAME - 1).chain(['…']).collect(),
        false => whole.clone(),
    };
    html! {
        text.name x=(px(left - 14.0)) y=(px(middle + 4.5)) { (shown) title { (whole) } }
    }
}

/// The CSS class of a result: its verdict.
pub(super) fn class(result: &ArmResult) -> &'static str {
    match result.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::CantTell => "cant-tell",
        Verdict::Baseline => "baseline",
    }
}

/// A vertical offset by the run's index, which separates dots with equal values.
fn jitter(index: usize) -> f64 {
    [0.0, -4.0, 4.0, -2.0, 2.0][index % 5]
}

/// A coordinate with one digit after the point.
fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// A horizontal scale with round numbers on it.
struct Axis {
    left: f64,
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    fn new(left: f64, low: f64, high: f64) -> Self {
        let step = round_step((high - low) / 5.0);
        let low = (low / step).floor() * step;
        let high = (high / step).ceil() * step;
        Self { left, low, high: if high > low { high } else { low + step }, step }
    }

    fn at(&self, value: f64) -> f64 {
        self.left + (value - self.low) / (self.high - self.low) * (RIGHT - self.left)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(|index| self.low + index as f64 * self.step)
    }

    /// A tick's label, with as many digits after the point as the step has.
    fn tick(&self, value: f64) -> String {
        let whole = |digits: &usize| {
            let scaled = self.step * 10f64.powi(*digits as i32);
            (scaled - scaled.round()).abs() < scaled * 1e-6
        };
        match (0..9).find(whole).unwrap_or(9) {
            0 => words::count(value),
            digits => format!("{value:.digits$}"),
        }
    }

    fn grid(&self, bottom: f64, label: &str) -> Markup {
        html! {
            @for tick in self.ticks() {
                line.grid x1=(px(self.at(tick))) x2=(px(self.at(tick))) y1=(px(TOP)) y2=(px(bottom)) {}
                text.tick x=(px(self.at(tick))) y=(px(bottom + 16.0)) { (self.tick(tick)) }
            }
            text.tick x=(px((self.left + RIGHT) / 2.0)) y=(px(bottom + 33.0)) { (label) }
        }
    }
}

/// The smallest of 1, 2, 2.5, 5, 10, 20, 25, 50, … that is at least `least`.
fn round_step(least: f64) -> f64 {
    let least = if least > 0.0 && least.is_finite() { least } else { 1.0 };
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * power >= least * 0.999_999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (least, step) in [(0.03, 0.05), (0.1, 0.1), (1.7, 2.0), (0.23, 0.25), (6000.0, 10_000.0)] {
            assert!((round_step(least) - step).abs() < step * 1e-9, "{least}");
        }
        assert_eq!(round_step(0.0), 1.0);
    }

    #[test]
    fn the_axis_holds_all_values() {
        let axis = Axis::new(100.0, 0.0, 0.54);
        assert!(axis.high >= 0.54 && (axis.at(0.0) - axis.left).abs() < 1e-9);
        assert!(axis.ticks().count() <= 7);
        assert_eq!(axis.tick(0.2), "0.2");
        assert_eq!(Axis::new(100.0, 0.0, 1.1).tick(0.5), "0.50");
        let narrow = Axis::new(100.0, 1.52, 1.52);
        assert!(narrow.high > narrow.low);
    }
}
