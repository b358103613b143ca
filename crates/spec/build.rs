//! Compiles every `policies/*.bpf.c` for BPF and lists the objects for `policy.rs`.
use std::path::Path;

fn main() {
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    flsched_compile::build::objects(&policies, flsched_compile::For::Kernel);
}
