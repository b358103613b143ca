//! How many digits a figure carries, and a few more, so that a page which rounds again shows the same. A report is rounded to
//! these before anything is decided or shown: so its file and what was shown are the same.

/// Seconds, to the nanosecond.
pub(crate) fn seconds(value: f64) -> f64 {
    decimals(value, 9)
}

/// Seconds that say how long something took here, to the microsecond.
pub(crate) fn microseconds(value: f64) -> f64 {
    decimals(value, 6)
}

/// Nine significant digits, and of large numbers all before the point.
pub(crate) fn significant(value: f64) -> f64 {
    const DIGITS: i32 = 9;
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    decimals(value, usize::try_from(DIGITS - before_point).unwrap_or(0))
}

/// Like [`significant`], but not to a short number such as 1.175: from there a page that shows two digits could go the other way
/// than from the ratio itself, 1.17499…
pub(crate) fn ratio(value: f64) -> f64 {
    const SHORT: usize = 6;
    let rounded = significant(value);
    let is_short = rounded == decimals(rounded, SHORT);
    if is_short { value } else { rounded }
}

/// The nearest number with so many digits after the point, as a text has it: so it is written with no more.
fn decimals(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_digits_than_a_figure_carries() {
        assert_eq!(seconds(0.460_809_031_000_000_04), 0.460_809_031);
        assert_eq!(seconds(1234.5), 1234.5);
        assert_eq!(microseconds(412.616_674_277), 412.616_674);
        assert_eq!(significant(0.934_939_759_036_144_7), 0.934_939_759);
        assert_eq!(significant(1.233_983_286_908_078), 1.233_983_29);
        assert_eq!(significant(0.000_012_345_678_901_2), 0.000_012_345_678_9);
        assert_eq!(significant(383_986_123.4), 383_986_123.0);
        assert_eq!(significant(12_345_678_901.0), 12_345_678_901.0);
        assert_eq!(significant(-2.000_000_000_4), -2.0);
        assert_eq!([significant(0.0), significant(f64::INFINITY)], [0.0, f64::INFINITY]);
    }

    #[test]
    fn a_ratio_is_shown_as_it_is() {
        let just_below: f64 = 0.141 / 0.12;
        assert_eq!((just_below < 1.175, format!("{just_below:.2}")), (true, "1.17".into()));
        assert_eq!(format!("{:.2}", ratio(just_below)), "1.17");
        assert_eq!(ratio(1.175), 1.175);
        assert_eq!(ratio(1.0 / 3.0), 0.333_333_333);
    }

    #[test]
    fn rounding_twice_changes_nothing() {
        for value in [0.1 + 0.2, 1.0 / 3.0, 2e-7 / 3.0, 99.999_999_9, 999_999.5, 1e15 / 7.0, 0.141 / 0.12] {
            for round in [seconds, microseconds, significant, ratio] {
                assert_eq!(round(round(value)), round(value), "{value}");
            }
        }
    }
}
