//! The policies of this build.
use crate::{Description, Error};

/// A scheduler that this build contains.
#[derive(Debug)]
pub struct Policy {
    /// As in `policies/NAME.bpf.c`.
    pub name: &'static str,
    pub(crate) object: &'static [u8],
}

static POLICIES: &[Policy] = include!(concat!(env!("OUT_DIR"), "/catalog.rs"));

impl Policy {
    /// All policies of this build, by name.
    pub fn all() -> &'static [Policy] {
        POLICIES
    }

    /// The policy of that name, or an error that lists the valid ones and the nearest match.
    pub fn find(name: &str) -> Result<&'static Policy, Error> {
        POLICIES.iter().find(|policy| policy.name == name).ok_or_else(|| Error::UnknownPolicy {
            name: name.to_owned(),
            valid: POLICIES.iter().map(|policy| policy.name.to_owned()).collect(),
        })
    }

    /// The policy's version: that of the build.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// The compiled object, for those who look into it.
    pub fn object(&self) -> &'static [u8] {
        self.object
    }

    /// The policy's knobs and statistics, read out of its object file.
    pub fn describe(&self) -> Result<Description, Error> {
        Description::of(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_flsched_and_refuses_others() {
        assert_eq!(Policy::find("flsched").unwrap().name, "flsched");
        let message = Policy::find("flshced").unwrap_err().to_string();
        assert!(message.contains("flshced") && message.contains("did you mean flsched"), "{message}");
    }
}
