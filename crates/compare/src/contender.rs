//! A side of a comparison: a scheduler, and how the threads under it wait.
use crate::{Scheduler, Target, Waits};
use flsched_spec::UsageError;
use std::fmt;

/// A side of a comparison: `SCHEDULER` or `SCHEDULER+WAITS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    pub scheduler: Scheduler,
    /// How the threads of parallel runtimes wait; `None`: the runtimes' default.
    pub waits: Option<Waits>,
}

impl Contender {
    /// Parses the user's list, which is separated by commas or already split: at least one name,
    /// and none twice. `KNOB=VALUE` after a comma belongs to the policy before it:
    /// `eevdf,flsched:slice_us=5000,max_delay_us=9000+sleep,rr` are three.
    pub fn parse_list(items: &[String], target: Target) -> Result<Vec<Self>, UsageError> {
        let mut contenders = Vec::new();
        for name in names(items) {
            let contender = Self::read(&name, target)?;
            if contenders.contains(&contender) {
                return Err(UsageError(format!("scheduler `{name}` is named twice")));
            }
            contenders.push(contender);
        }
        match contenders.is_empty() {
            true => Err(UsageError("no scheduler to compare".into())),
            false => Ok(contenders),
        }
    }

    fn read(text: &str, target: Target) -> Result<Self, UsageError> {
        let scheduler = |text: &str| Scheduler::read(text, target);
        let Some((name, waits)) = text.rsplit_once('+') else { return scheduler(text).map(Self::from) };
        match waits.parse::<Waits>() {
            Ok(_) if target == Target::Sim => Err(UsageError(format!(
                "`{text}`: not in the simulator, whose programs are models without a runtime; use `{name}` \
                 there, or --on vm"
            ))),
            Ok(waits) => Ok(Self { scheduler: scheduler(name)?, waits: Some(waits) }),
            // The arguments of a peer may contain a + of their own.
            Err(_) if name.starts_with("scx_") && name.contains(':') => scheduler(text).map(Self::from),
            Err(UsageError(why)) => Err(UsageError(format!("`{text}`: {why}"))),
        }
    }
}

/// Joins the parts that belong to one scheduler.
fn names(items: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for word in items.iter().flat_map(|item| item.split(',')).filter(|word| !word.is_empty()) {
        match names.last_mut() {
            Some(last) if word.contains('=') && !word.contains(':') => {
                last.push(if last.contains(':') { ',' } else { ':' });
                last.push_str(word);
            }
            _ => names.push(word.to_string()),
        }
    }
    names
}

impl From<Scheduler> for Contender {
    fn from(scheduler: Scheduler) -> Self {
        Self { scheduler, waits: None }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scheduler.fmt(out)?;
        self.waits.map_or(Ok(()), |waits| write!(out, "+{waits}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Result<Vec<String>, String> {
        let items: Vec<_> = items.iter().map(|item| item.to_string()).collect();
        let contenders = Contender::parse_list(&items, Target::Vm).map_err(|error| error.to_string())?;
        Ok(contenders.iter().map(Contender::to_string).collect())
    }

    #[test]
    fn lists() {
        assert_eq!(list(&["eevdf", "rr"]).unwrap(), ["eevdf", "rr"]);
        assert!(list(&["rr", "rr"]).unwrap_err().contains("`rr` is named twice"));
        assert!(list(&[]).is_err());
    }

    #[test]
    fn settings_and_knobs_keep_their_commas() {
        let names = ["eevdf,eevdf:slice_us=20000,rr"];
        assert_eq!(list(&names).unwrap(), ["eevdf", "eevdf:slice_us=20000", "rr"]);
        let names = list(&["eevdf,flsched:slice_us=5000", "max_delay_us=20000+sleep,rr"]).unwrap();
        assert_eq!(names, ["eevdf", "flsched:max_delay_us=20000,slice_us=5000+sleep", "rr"]);
        let names = ["eevdf:llc_balancing=on,eevdf:llc_balancing=off"];
        assert_eq!(list(&names).unwrap(), ["eevdf:llc_balancing=on", "eevdf:llc_balancing=off"]);
    }

    #[test]
    fn the_same_scheduler_with_other_waits_is_another() {
        let names = ["eevdf,eevdf+sleep,batch+sleep,eevdf:slice_us=20000+sleep"];
        let read = list(&names).unwrap();
        assert_eq!(read, ["eevdf", "eevdf+sleep", "batch+sleep", "eevdf:slice_us=20000+sleep"]);
        assert!(list(&["eevdf+sleep,eevdf+sleep"]).unwrap_err().contains("named twice"));
    }

    #[test]
    fn wrong_waits_are_named_with_the_valid_ones() {
        let error = list(&["eevdf+slep"]).unwrap_err();
        assert_eq!(error, "`eevdf+slep`: unknown way to wait `slep`; did you mean `sleep`? (valid: sleep)");
        assert!(list(&["evedf+sleep"]).unwrap_err().contains("did you mean `eevdf`?"));
    }

    #[test]
    fn not_in_the_simulator() {
        let error = |name: &str| Contender::parse_list(&[name.into()], Target::Sim).unwrap_err().to_string();
        assert!(error("eevdf+sleep").contains("not in the simulator"), "{}", error("eevdf+sleep"));
        assert!(error("eevdf+spin").contains("valid: sleep"), "{}", error("eevdf+spin"));
    }
}
