//! Figures and errors as text.
use flsched_compare::report::words;

/// Three digits, or a whole number with commas: `1.93`, `0.570`, `42,184,784`.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 && size < 1000.0 {
        return format!("{value}");
    }
    match size {
        size if size >= 1000.0 && value > 0.0 => words::count(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        0.0 => "0".into(),
        _ => format!("{value:.1e}"),
    }
}

/// As it is written, with commas between thousands: `28.037`, `42,184,784`.
pub fn exact(value: f64) -> String {
    match value.fract() == 0.0 && value >= 1000.0 {
        true => words::count(value),
        false => value.to_string(),
    }
}

/// `90 s`, `12 min`, `3.5 h`.
pub fn duration(minutes: f64) -> String {
    match minutes {
        it if it < 2.0 => format!("{:.0} s", it * 60.0),
        it if it < 100.0 => format!("{it:.0} min"),
        it => format!("{:.1} h", it / 60.0),
    }
}

/// An error of TOML on one line; TOML draws the place over several.
pub fn one_line(error: &toml::de::Error) -> String {
    let text = error.to_string();
    match text.lines().next().filter(|line| line.contains(" at line ")) {
        Some(place) => format!("{place}: {}", error.message()),
        None => text.lines().map(str::trim).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        for (value, text) in [
            (42_184_784.0, "42,184,784"),
            (28.037, "28.0"),
            (3.12, "3.12"),
            (0.57, "0.570"),
            (1.0, "1"),
            (0.0, "0"),
            (-0.1234, "-0.123"),
            (0.00001, "1.0e-5"),
            (-1234.6, "-1235"),
        ] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn the_papers_figures_stay_as_they_are() {
        assert_eq!([28.037, 42_184_784.0, 0.37, 200.0].map(exact), ["28.037", "42,184,784", "0.37", "200"]);
    }

    #[test]
    fn durations_have_one_unit() {
        assert_eq!([0.5, 12.3, 210.0].map(duration), ["30 s", "12 min", "3.5 h"]);
    }
}
