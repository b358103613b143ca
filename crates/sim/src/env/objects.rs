//! Policies compiled for the simulator, as shared objects.
use super::abi::Ops;
use crate::Error;
use flsched_spec::Policy;
use object::{File, Object as _, ObjectSection, ObjectSymbol};

/// The section into which `KFUNC()` of `include/sim/kfuncs.h` puts the pointers to kfuncs.
const KFUNCS: &str = ".sim.kfuncs";

/// The policies of this build: name and shared object.
static OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// A policy's shared object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) bytes: &'static [u8],
    /// Names of variables and their sizes in bytes.
    pub(crate) variables: Vec<(String, usize)>,
    /// Names of the kfuncs that it may call.
    pub(crate) kfuncs: Vec<String>,
}

impl Object {
    /// Finds the object of a policy: compiled in this build, or at run time from a file.
    pub(crate) fn of(policy: &Policy) -> Result<Self, Error> {
        let failed = |what: String| Error::Policy { policy: policy.name.into(), what };
        let of_build = || Some(OBJECTS.iter().find(|(name, _)| *name == policy.name)?.1);
        let bytes = policy.native.or_else(of_build);
        let bytes = bytes.ok_or_else(|| failed("it is not compiled for the simulator".into()))?;
        Self::read(bytes).map_err(|error| failed(error.to_string()))
    }

    fn read(bytes: &'static [u8]) -> object::Result<Self> {
        let file = File::parse(bytes)?;
        let kfuncs = file.section_by_name(KFUNCS).map(|section| section.index());
        let mut object = Self { bytes, variables: Vec::new(), kfuncs: Vec::new() };
        for symbol in file.dynamic_symbols().filter(|it| it.is_definition() && it.size() > 0) {
            let name = symbol.name()?.to_owned();
            match symbol.section_index() == kfuncs {
                true => object.kfuncs.push(name),
                false => object.variables.push((name, symbol.size() as usize)),
            }
        }
        Ok(object)
    }

    /// The name of its table of callbacks. `SCX_OPS_DEFINE(NAME_ops, …)` defines it: the only variable of that
    /// size whose name ends in `_ops`.
    pub(crate) fn ops(&self) -> Result<&str, String> {
        let tables: Vec<&str> = self
            .variables
            .iter()
            .filter(|(name, size)| name.ends_with("_ops") && *size == size_of::<Ops>())
            .map(|(name, _)| name.as_str())
            .collect();
        match tables[..] {
            [table] => Ok(table),
            _ => Err(format!("it defines {} tables of callbacks NAME_ops, not one", tables.len())),
        }
    }

    /// Whether it has a variable of this name.
    pub(crate) fn has_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|(known, _)| known == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_compiled_for_the_simulator_too() {
        for policy in Policy::all() {
            let object = Object::of(policy).unwrap();
            assert!(object.kfuncs.iter().any(|name| name == "scx_bpf_dsq_insert"), "{}", policy.name);
            for knob in &policy.knobs {
                assert!(object.variables.contains(&(knob.name.clone(), 8)), "{}: {}", policy.name, knob.name);
            }
        }
        let unknown = Policy::read("unknown", Policy::find("flsched").unwrap().object).unwrap();
        assert!(Object::of(&unknown).is_err());
    }
}
