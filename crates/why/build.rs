//! Compiles the probe.
use std::env;
use std::path::Path;

fn main() {
    let source = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("src/bpf/why.bpf.c");
    println!("cargo:rerun-if-changed={}", source.display());
    scx_cargo::BpfBuilder::new()
        .expect("clang 16 or newer (set BPF_CLANG to name one)")
        .add_cflag("-Wall")
        .add_cflag("-Werror")
        .enable_skel(source.to_str().expect("a UTF-8 path"), "why")
        .build()
        .unwrap_or_else(|e| panic!("{}: {e:?}", source.display()));
}
