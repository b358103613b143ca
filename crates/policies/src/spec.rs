//! A policy with knob values, as the user writes it: `flsched:slice_us=5000,max_delay_us=50000`.
use crate::{Error, Options, Policy};

/// Parses `NAME[:KNOB=VALUE[,KNOB=VALUE…]]` and checks names and ranges.
pub fn parse_spec(text: &str) -> Result<(&'static Policy, Options), Error> {
    let (name, knobs) = text.split_once(':').unwrap_or((text, ""));
    let policy = Policy::find(name)?;
    let description = policy.describe()?;
    let mut options = Options::default();
    for assignment in knobs.split(',').filter(|part| !part.is_empty()) {
        let malformed = || Error::KnobSyntax { text: assignment.to_owned() };
        let (knob, value) = assignment.split_once('=').ok_or_else(malformed)?;
        let knob = knob.trim().replace('-', "_");
        let value = value.trim().parse().map_err(|_| malformed())?;
        description.check(policy, &knob, value)?;
        options.knobs.insert(knob, value);
    }
    Ok((policy, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_knobs() {
        let (policy, options) = parse_spec("flsched:slice_us=5000,max-delay-us=20000").unwrap();
        assert_eq!(policy.name, "flsched");
        assert_eq!(options.knobs["slice_us"], 5000);
        assert_eq!(options.knobs["max_delay_us"], 20000);
        assert!(parse_spec("flsched").unwrap().1.knobs.is_empty());
    }

    #[test]
    fn refuses_nonsense() {
        for bad in
            ["nosuch", "flsched:slice_us", "flsched:slice_us=fast", "flsched:slice_us=1", "flsched:x=1"]
        {
            assert!(parse_spec(bad).unwrap_err().is_usage(), "{bad}");
        }
    }
}
