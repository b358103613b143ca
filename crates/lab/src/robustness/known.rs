//! `known.toml`: faults that are known, each with the reason why it is not mended.
use super::judge::Fault;
use super::report::Kind;
use serde::Deserialize;

const FILE: &str = include_str!("known.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    known: Vec<Known>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    pub load: String,
    pub kind: Kind,
    /// The schedulers that have it.
    pub schedulers: Vec<String>,
    /// The kernels' series, such as 6.18; none: all.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Instances a CPU; none: any.
    #[serde(default)]
    pub per_cpu: Vec<u32>,
    /// Why it is not mended.
    pub reason: String,
}

impl Known {
    pub fn all() -> Result<Vec<Self>, String> {
        let file: File = toml::from_str(FILE).map_err(|error| format!("known.toml: {error}"))?;
        Ok(file.known)
    }

    /// Whether it is this fault on a kernel of this release.
    pub fn is(&self, release: &str, fault: &Fault) -> bool {
        let is_of = |series: &String| {
            release
                .strip_prefix(series.as_str())
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        self.load == fault.load
            && self.kind == fault.kind
            && self.schedulers.contains(&fault.scheduler)
            && (self.kernels.is_empty() || self.kernels.iter().any(is_of))
            && (self.per_cpu.is_empty() || self.per_cpu.contains(&fault.per_cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robustness::loads::Load;

    #[test]
    fn each_names_a_load_and_a_reason() {
        let loads = Load::all().unwrap();
        for known in Known::all().unwrap() {
            assert!(loads.iter().any(|load| load.name == known.load), "no load {}", known.load);
            assert!(!known.reason.trim().is_empty() && !known.schedulers.is_empty(), "{}", known.load);
        }
    }

    #[test]
    fn a_series_is_not_the_beginning_of_another() {
        let text = "load='pipe'\nkind='wait'\nschedulers=['rr2']\nkernels=['6.1']\nreason='r'";
        let known: Known = toml::from_str(text).unwrap();
        let fault = Fault {
            kind: Kind::Wait,
            load: "pipe".into(),
            per_cpu: 4,
            scheduler: "rr2".into(),
            text: String::new(),
        };
        assert!(known.is("6.1.20-amd64", &fault));
        assert!(!known.is("6.18.15-amd64", &fault));
        assert!(!known.is("6.1.20-amd64", &Fault { scheduler: "smove".into(), ..fault.clone() }));
        assert!(!known.is("6.1.20-amd64", &Fault { kind: Kind::Ejected, ..fault }));
    }
}
