//! Compiles every `policies/*.bpf.c` for the simulator and lists the objects for `env/objects.rs`.
use std::path::Path;

fn main() {
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    flsched_compile::build::objects(&policies, flsched_compile::For::Simulator);
}
