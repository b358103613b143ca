//! Policies that do what they should not.
use flsched_compile::{Compiler, For};
use flsched_spec::Policy;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

static ADDED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

/// Makes the policy of `policies/NAME.bpf.c` known.
pub fn add(name: &'static str) {
    // Held until the policy is known.
    let mut added = ADDED.lock().unwrap();
    if !added.insert(name) {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/policies/{name}.bpf.c"));
    let compiler = Compiler::new().unwrap();
    let compile = |target| &*compiler.compile(&source, target).unwrap().object.leak();
    let policy = Policy::read(name, compile(For::Kernel)).unwrap();
    Policy { native: Some(compile(For::Simulator)), ..policy }.add().unwrap();
}
