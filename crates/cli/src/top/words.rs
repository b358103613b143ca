//! Times and numbers, short enough for a column.
use std::time::Duration;

/// `870 ns`, `43 µs`, `1.2 ms`, `12 s`, `3 min`: two digits at least.
pub fn time(ns: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
    if ns >= 120 * UNITS[0].0 {
        return span(Duration::from_nanos(ns));
    }
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| ns >= *unit).unwrap_or(UNITS[3]);
    let value = ns as f64 / unit as f64;
    if unit > 1 && value < 9.95 { format!("{value:.1} {name}") } else { format!("{value:.0} {name}") }
}

/// `12 s`, `3 min`, `5 h`, `2 d`.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// `870`, `12.3k`, `4.5M`.
pub fn count(number: f64) -> String {
    match number {
        0.0..0.05 => "0".into(),
        0.05..9.95 => format!("{number:.1}"),
        9.95..9_999.5 => format!("{number:.0}"),
        9_999.5..999_950.0 => format!("{:.1}k", number / 1e3),
        _ => format!("{:.1}M", number / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_digits_at_least() {
        let shown = [0, 8, 870, 1_200, 43_000, 9_960_000, 119_000_000_000, 200_000_000_000].map(time);
        assert_eq!(shown, ["0 ns", "8 ns", "870 ns", "1.2 µs", "43 µs", "10 ms", "119 s", "3 min"]);
        assert_eq!([9_000, 200_000].map(|s| span(Duration::from_secs(s))), ["2 h", "2 d"]);
    }

    #[test]
    fn counts_are_short() {
        assert_eq!(
            [0.0, 0.4, 12.4, 9_999.0, 12_345.0, 4_500_000.0].map(count),
            ["0", "0.4", "12", "9999", "12.3k", "4.5M"]
        );
    }
}
