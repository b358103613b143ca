//! A policy with knob values, as the user writes it: `flsched:slice_us=5000,max_delay_us=50000`.
use crate::pids::settle;
use crate::{Description, Error, Options, Policy};
use std::collections::BTreeMap;

/// Parses `NAME[:KNOB=VALUE[,KNOB=VALUE…]]` and checks names and ranges. A value that has a name may
/// stand alone: `flsched:paper`. Processes in a list have plus signs between them: `rr2:pids=12+34`.
pub fn parse_spec(text: &str) -> Result<(&'static Policy, Options), Error> {
    let (name, knobs) = text.split_once(':').unwrap_or((text, ""));
    let policy = Policy::find(name)?;
    let description = policy.describe()?;
    let mut options = Options::default();
    for assignment in knobs.split(',').filter(|part| !part.is_empty()) {
        let Some((knob, value)) = assignment.split_once('=') else {
            let (knob, value) = description.choice(assignment.trim())?;
            options.knobs.insert(knob.name.clone(), value);
            continue;
        };
        let knob = knob.trim().replace('-', "_");
        if let Some(list) = description.list(&knob) {
            options.pids.insert(knob, list.parse(value)?);
            continue;
        }
        let value = description.knob(policy, &knob)?.parse(value.trim())?;
        options.knobs.insert(knob, value);
    }
    settle(&description, &mut options)?;
    Ok((policy, options))
}

/// The other way round: as the user would write it.
pub fn render_spec(policy: &str, knobs: &BTreeMap<String, u64>) -> String {
    let description = match Policy::find(policy) {
        Ok(policy) if !knobs.is_empty() => policy.describe().unwrap_or_default(),
        _ => Description::default(),
    };
    let show = |name: &str, value: u64| {
        let knob = description.knobs.iter().find(|knob| knob.name == name);
        knob.map_or_else(|| value.to_string(), |knob| knob.show(value))
    };
    let knobs: Vec<_> = knobs.iter().map(|(name, value)| format!("{name}={}", show(name, *value))).collect();
    let colon = if knobs.is_empty() { "" } else { ":" };
    format!("{policy}{colon}{}", knobs.join(","))
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
        assert_eq!(render_spec("flsched", &options.knobs), "flsched:max_delay_us=20000,slice_us=5000");
        assert_eq!(render_spec("flsched", &BTreeMap::new()), "flsched");
    }

    #[test]
    fn a_value_that_has_a_name_may_stand_alone() {
        let (_, options) = parse_spec("flsched:paper,slice_us=5000").unwrap();
        assert_eq!(render_spec("flsched", &options.knobs), "flsched:slice_us=5000,variant=paper");
        let error = parse_spec("flsched:papers").unwrap_err().to_string();
        assert!(error.contains("bounded, paper"), "{error}");
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
