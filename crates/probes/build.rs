//! Compiles the probes, `src/bpf/*.bpf.c`.
use std::env;
use std::path::Path;

const PROBES: [&str; 8] = ["callback", "contention", "costs", "locks", "record", "tally", "watch", "why"];

fn main() {
    let sources = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("src/bpf");
    println!("cargo:rerun-if-changed={}", sources.display());
    for name in PROBES {
        let source = sources.join(format!("{name}.bpf.c"));
        scx_cargo::BpfBuilder::new()
            .expect("clang 18 or newer (set BPF_CLANG to name one)")
            .add_cflag("-Wall")
            .add_cflag("-Werror")
            .enable_skel(source.to_str().expect("a UTF-8 path"), name)
            .build()
            .unwrap_or_else(|e| panic!("{}: {e:?}", source.display()));
    }
}
