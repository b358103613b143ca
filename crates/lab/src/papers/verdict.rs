//! Whether what is measured here is what the paper reports. A verdict follows from figures and is never typed.
use crate::papers::order::{Item, Order, Together};
use crate::papers::text::figure;
use flsched_compare::stats::Estimate;
use std::fmt;

/// The outcome for a row, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Neither the paper's figures nor their order.
    Not,
    /// The figures differ, and their order is the paper's.
    OrderOnly,
    /// There is no result yet, or a tool lacks what it takes.
    Missing,
    /// Nothing here can measure it.
    Impossible,
    /// The paper's figures, within the row's tolerance, or its order.
    Reproduced,
}

impl Verdict {
    /// All of them, the worst first.
    pub const ALL: [Self; 5] =
        [Self::Not, Self::OrderOnly, Self::Missing, Self::Impossible, Self::Reproduced];
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Not => "not reproduced",
            Self::OrderOnly => "order only",
            Self::Missing => "missing",
            Self::Impossible => "impossible here",
            Self::Reproduced => "reproduced",
        })
    }
}

/// How far a figure may be from the paper's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Of the paper's figure.
    Percent(f64),
    /// In the row's unit.
    Absolute(f64),
}

impl Tolerance {
    /// Whether `value` counts as `reference`.
    pub fn covers(self, reference: f64, value: f64) -> bool {
        let most = match self {
            Self::Percent(percent) => reference.abs() * percent / 100.0,
            Self::Absolute(most) => most,
        };
        // Figures such as 1.1 and 1.0 differ by a little more than 0.1.
        (value - reference).abs() <= most * (1.0 + 1e-9)
    }

    /// Whether one of the two counts as the other.
    fn joins(self, one: f64, other: f64) -> bool {
        self.covers(one, other) || self.covers(other, one)
    }
}

/// A figure of the paper, and ours.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// What it is, as the row calls it.
    pub name: &'a str,
    pub paper: f64,
    pub here: Estimate,
}

/// Less, beyond the intervals of both.
fn is_less(one: &Estimate, other: &Estimate) -> bool {
    one.value < other.value && one.high < other.low
}

/// Says why one estimate does not count as less than the other.
fn why_not_less((name, one): (&str, &Estimate), (above, other): (&str, &Estimate)) -> String {
    let [value, limit] = [one, other].map(|it| figure(it.value));
    match one.value < other.value {
        true => format!("{name} ({value}) is less than {above} ({limit}), but their intervals overlap"),
        false => format!("{name} ({value}) is not less than {above} ({limit})"),
    }
}

/// Of figures: reproduced if all are within the tolerance of the paper's. Else the order counts: of any two figures,
/// `neutral` included, that differ in the paper by more than the tolerance, the smaller one must be smaller here, too.
/// Returns the first difference beside the verdict.
pub fn of_figures(pairs: &[Pair<'_>], tolerance: Tolerance, neutral: Option<f64>) -> (Verdict, String) {
    let Some(off) = pairs.iter().find(|it| !tolerance.covers(it.paper, it.here.value)) else {
        return (Verdict::Reproduced, String::new());
    };
    let off = format!("{}: {} instead of {}", off.name, figure(off.here.value), figure(off.paper));
    let mut all = pairs.to_vec();
    all.extend(neutral.map(|value| Pair {
        name: "no difference",
        paper: value,
        here: Estimate::exact(value),
    }));
    let mut ordered = 0;
    for one in &all {
        for other in all.iter().filter(|other| one.paper < other.paper) {
            if tolerance.joins(one.paper, other.paper) {
                continue;
            }
            ordered += 1;
            if !is_less(&one.here, &other.here) {
                let what = match neutral {
                    Some(value) if other.name == "no difference" => {
                        format!("{}: {} is not below {}", one.name, figure(one.here.value), figure(value))
                    }
                    Some(value) if one.name == "no difference" => {
                        format!("{}: {} is not above {}", other.name, figure(other.here.value), figure(value))
                    }
                    _ => why_not_less((one.name, &one.here), (other.name, &other.here)),
                };
                return (Verdict::Not, what);
            }
        }
    }
    // A single figure has no order.
    (if ordered > 0 { Verdict::OrderOnly } else { Verdict::Not }, off)
}

/// Of an order that the paper describes without figures: reproduced if each group is less than the next, and what is
/// together is equal within the tolerance; order only if just the latter fails.
pub fn of_order(
    order: &Order,
    tolerance: Tolerance,
    here: &dyn Fn(&str) -> Option<Estimate>,
) -> (Verdict, String) {
    let value = |item: &Item| match item {
        Item::Number(value) => Some(Estimate::exact(*value)),
        Item::Name(name) => here(name),
    };
    let groups: Vec<Vec<(String, Estimate)>> = order
        .groups
        .iter()
        .map(|group| group.items.iter().filter_map(|it| Some((it.to_string(), value(it)?))).collect())
        .collect();
    for two in groups.windows(2) {
        for (name, one) in &two[0] {
            if let Some((above, other)) = two[1].iter().find(|(_, other)| !is_less(one, other)) {
                let what = why_not_less((name, one), (above, other));
                return (Verdict::Not, what);
            }
        }
    }
    let equal = order.groups.iter().zip(&groups).filter(|(group, _)| group.together == Together::Equal);
    for (_, values) in equal {
        for (index, (name, one)) in values.iter().enumerate() {
            let differs = |(_, other): &&(String, Estimate)| !tolerance.joins(one.value, other.value);
            if let Some((unlike, other)) = values[index + 1..].iter().find(differs) {
                let what =
                    format!("{name} ({}) and {unlike} ({}) differ", figure(one.value), figure(other.value));
                // Without a "less than" nothing is left of the claim.
                let verdict = if groups.len() > 1 { Verdict::OrderOnly } else { Verdict::Not };
                return (verdict, what);
            }
        }
    }
    (Verdict::Reproduced, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(of: &[(f64, f64)], percent: f64, neutral: Option<f64>) -> Verdict {
        let names = ["a", "b", "c"];
        let pair = |(name, (paper, here)): (&'static str, &(f64, f64))| Pair {
            name,
            paper: *paper,
            here: Estimate::exact(*here),
        };
        let pairs: Vec<Pair<'_>> = names.into_iter().zip(of).map(pair).collect();
        of_figures(&pairs, Tolerance::Percent(percent), neutral).0
    }

    #[test]
    fn figures_by_tolerance_then_by_order() {
        use Verdict::{Not, OrderOnly, Reproduced};
        for (of, percent, neutral, expected) in [
            // One figure: there is nothing to be in order with.
            (&[(10.0, 12.0)][..], 20.0, None, Reproduced),
            (&[(10.0, 8.0)], 20.0, None, Reproduced),
            (&[(10.0, 12.1)], 20.0, None, Not),
            // Zero has no percentage: it is zero or it is not.
            (&[(0.0, 0.0)], 20.0, None, Reproduced),
            (&[(0.0, 0.1)], 20.0, None, Not),
            // A ratio stays on its side of 1.
            (&[(3.12, 1.4)], 20.0, Some(1.0), OrderOnly),
            (&[(3.12, 0.6)], 20.0, Some(1.0), Not),
            (&[(3.12, 1.0)], 20.0, Some(1.0), Not),
            (&[(0.9, 0.5)], 5.0, Some(1.0), OrderOnly),
            // So near to 1 that the paper names no side.
            (&[(1.01, 2.0)], 5.0, Some(1.0), Not),
            // Several: all must be near, or all in order.
            (&[(10.0, 10.0), (30.0, 31.0)], 5.0, None, Reproduced),
            (&[(10.0, 1.0), (30.0, 2.0)], 5.0, None, OrderOnly),
            (&[(10.0, 2.0), (30.0, 1.0)], 5.0, None, Not),
            (&[(10.0, 2.0), (30.0, 2.0)], 5.0, None, Not),
            // Two of three are equal in the paper and may be in any order here.
            (&[(10.0, 2.0), (10.2, 1.0), (30.0, 3.0)], 5.0, None, OrderOnly),
            (&[(10.0, 2.0), (10.2, 4.0), (30.0, 3.0)], 5.0, None, Not),
            // All are equal in the paper: no order.
            (&[(10.0, 2.0), (10.2, 2.0)], 5.0, None, Not),
        ] {
            assert_eq!(figures(of, percent, neutral), expected, "{of:?} {percent} {neutral:?}");
        }
    }

    #[test]
    fn overlapping_intervals_are_no_order() {
        let wide = Estimate { value: 1.0, low: 0.9, high: 2.1 };
        let pairs = [
            Pair { name: "a", paper: 1.0, here: wide },
            Pair { name: "b", paper: 9.0, here: Estimate::exact(2.0) },
        ];
        let (verdict, why) = of_figures(&pairs, Tolerance::Percent(10.0), None);
        assert_eq!(verdict, Verdict::Not);
        assert_eq!(why, "a (1) is less than b (2), but their intervals overlap");
    }

    #[test]
    fn differences_are_named() {
        let pairs = [Pair { name: "best", paper: 3.12, here: Estimate::exact(0.57) }];
        let (_, why) = of_figures(&pairs, Tolerance::Percent(10.0), Some(1.0));
        assert_eq!(why, "best: 0.570 is not above 1");
        let pairs = [Pair { name: "best", paper: 3.12, here: Estimate::exact(1.57) }];
        let (_, why) = of_figures(&pairs, Tolerance::Percent(10.0), Some(1.0));
        assert_eq!(why, "best: 1.57 instead of 3.12");
    }

    #[test]
    fn orders() {
        use Verdict::{Not, OrderOnly, Reproduced};
        let judged = |text: &str, of: &[(&str, f64)]| {
            let here = |name: &str| of.iter().find(|it| it.0 == name).map(|it| Estimate::exact(it.1));
            of_order(&Order::parse(text).unwrap(), Tolerance::Percent(10.0), &here)
        };
        let times = |fifo, cfs| [("flsched", 1.0), ("fifo", fifo), ("cfs", cfs)];
        let text = "flsched = fifo < cfs";
        assert_eq!(judged(text, &times(1.05, 2.0)).0, Reproduced);
        assert_eq!(judged(text, &times(1.5, 2.0)).0, OrderOnly);
        assert_eq!(judged(text, &times(1.5, 2.0)).1, "flsched (1) and fifo (1.50) differ");
        assert_eq!(judged(text, &times(1.05, 1.0)).0, Not);
        assert_eq!(judged("fifo = cfs", &times(1.0, 2.0)).0, Not);
        // Schedulers that are separated by commas need not be equal.
        assert_eq!(judged("flsched, fifo < cfs", &times(1.5, 2.0)).0, Reproduced);
        assert_eq!(judged("flsched < 1.2 < fifo, cfs", &times(1.5, 2.0)).0, Reproduced);
        assert_eq!(
            judged("flsched < 1.2 < fifo, cfs", &times(1.1, 2.0)).1,
            "1.2 (1.20) is not less than fifo (1.10)"
        );
    }
}
