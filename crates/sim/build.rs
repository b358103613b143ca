//! Compiles every `policies/*.bpf.c` for the simulator, and lists the objects for `env/objects.rs`.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap());
    let policies = here.join("../../policies").canonicalize().expect("policies/ lies beside crates/");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    println!("cargo:rerun-if-changed={}", policies.display());
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=tests/policies");
    println!("cargo:rerun-if-env-changed=BPF_CLANG");

    let clang = clang();
    compile_all(&clang, &here.join("include"), &policies, &out.join("objects.rs"));
    // Policies that do what they must not, for the tests.
    compile_all(&clang, &here.join("include"), &here.join("tests/policies"), &out.join("faulty.rs"));
}

/// Compiles the policies of a folder.
fn compile_all(clang: &str, include: &Path, policies: &Path, list: &Path) {
    let out = list.parent().expect("the list lies in a folder");
    let mut names: Vec<String> = fs::read_dir(policies)
        .expect("the policies' folder is readable")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| file.strip_suffix(".bpf.c").map(str::to_owned))
        .collect();
    names.sort();

    let mut table = String::from("&[\n");
    for name in &names {
        let object = out.join(format!("{name}.so"));
        compile(clang, include, &policies.join(format!("{name}.bpf.c")), &object);
        table += &format!("    ({name:?}, include_bytes!({object:?})),\n");
    }
    table += "]\n";
    fs::write(list, table).expect("OUT_DIR is writable");
}

fn clang() -> String {
    let named = env::var("BPF_CLANG").into_iter();
    let known = ["clang-19", "clang-21", "clang-20", "clang-18", "clang-17", "clang-16", "clang"];
    named
        .chain(known.map(String::from))
        .find(|clang| Command::new(clang).arg("--version").output().is_ok_and(|run| run.status.success()))
        .expect("clang 16 or newer (set BPF_CLANG to name one)")
}

/// A function that is not modelled must fail here, by name, and not when it is called.
fn compile(clang: &str, include: &Path, source: &Path, object: &Path) {
    let status = Command::new(clang)
        .args(["-O2", "-fPIC", "-shared", "-nostdlib", "-ffreestanding", "-fno-math-errno", "-s"])
        .args(["-Wall", "-Werror", "-Werror=implicit-function-declaration", "-Wl,-z,defs"])
        .arg("-I")
        .arg(include)
        .arg(source)
        .arg("-o")
        .arg(object)
        .arg("-lc")
        .status()
        .expect("clang runs");
    assert!(status.success(), "{} needs something that the simulator does not model", source.display());
}
