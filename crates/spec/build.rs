//! Compiles every `policies/*.bpf.c` for BPF and lists the objects for `policy.rs`.
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let policies = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../policies");
    let policies = policies.canonicalize().expect("policies/ lies beside crates/");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    println!("cargo:rerun-if-changed={}", policies.display());

    let mut names: Vec<String> = fs::read_dir(&policies)
        .expect("policies/ is readable")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| file.strip_suffix(".bpf.c").map(str::to_owned))
        .collect();
    names.sort();

    let mut table = String::from("&[\n");
    for name in &names {
        let source = policies.join(format!("{name}.bpf.c"));
        scx_cargo::BpfBuilder::new()
            .expect("clang 16 or newer (set BPF_CLANG to name one)")
            .add_cflag("-Wall")
            .add_cflag("-Werror")
            .enable_skel(source.to_str().expect("a UTF-8 path"), name)
            .build()
            .unwrap_or_else(|e| panic!("{}: {e:?}", source.display()));
        let object = out.join(format!("{name}.bpf.o"));
        table += &format!("    ({name:?}, include_bytes!({object:?})),\n");
    }
    table += "]\n";
    fs::write(out.join("objects.rs"), table).expect("OUT_DIR is writable");
}
