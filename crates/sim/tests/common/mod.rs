//! The policy that breaks what users expect.
use flsched_compile::{Compiler, For};
use flsched_spec::Policy;
use std::path::Path;
use std::sync::LazyLock;

/// Makes the policy of `policies/rude.bpf.c` known.
static RUDE: LazyLock<()> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policies/rude.bpf.c");
    let compiler = Compiler::new().unwrap();
    let compile = |target| &*compiler.compile(&source, target).unwrap().object.leak();
    let policy = Policy::read("rude", compile(For::Kernel)).unwrap();
    Policy { native: Some(compile(For::Simulator)), ..policy }.add().unwrap();
});

/// Makes it known, as `rude`.
pub fn rude() {
    LazyLock::force(&RUDE);
}
