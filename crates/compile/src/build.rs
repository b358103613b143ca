//! What build scripts do with it.
use crate::{Arch, Compiler, For};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What the name of a policy's file ends with.
const EXTENSION: &str = ".bpf.c";

/// Compiles every policy in a folder, and lists the objects in `OUT_DIR/objects.rs`: `&[(NAME, BYTES), …]`, by name.
///
/// # Panics
/// If one does not compile without a warning: cargo shows why.
pub fn objects(policies: &Path, target: For) {
    println!("cargo:rerun-if-changed={}", policies.display());
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo runs this"));
    let names = names(policies).unwrap_or_else(|error| panic!("{}: {error}", policies.display()));
    let compiler = Compiler::of(arch()).unwrap_or_else(|error| panic!("{error}"));
    let mut table = String::from("&[\n");
    for name in names {
        let source = policies.join(format!("{name}{EXTENSION}"));
        let compiled = compiler.compile(&source, target).unwrap_or_else(|error| panic!("{error}"));
        assert!(compiled.warnings.is_empty(), "{}", compiled.warnings);
        let object = out.join(format!("{name}.o"));
        fs::write(&object, compiled.object).expect("OUT_DIR is writable");
        table += &format!("    ({name:?}, include_bytes!({object:?})),\n");
    }
    fs::write(out.join("objects.rs"), table + "]\n").expect("OUT_DIR is writable");
}

/// The policies in a folder, sorted.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    let files = files.collect::<io::Result<Vec<_>>>()?;
    let mut names: Vec<_> =
        files.iter().filter_map(|file| file.strip_suffix(EXTENSION)).map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// What cargo builds for.
fn arch() -> Arch {
    match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => Arch::Arm64,
        _ => Arch::X86,
    }
}
