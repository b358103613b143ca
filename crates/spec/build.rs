//! Compiles every `policies/*.bpf.c` for BPF and lists the objects for `policy.rs`; lists `apps/` for `app.rs`.
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    flsched_compile::build::objects(&root.join("policies"), flsched_compile::For::Kernel);
    list_apps(&root.join("apps"));
}

/// Writes `OUT_DIR/apps.rs`: `&[(FILE, TEXT), …]`, by name.
fn list_apps(folder: &Path) {
    println!("cargo:rerun-if-changed={}", folder.display());
    let files = files(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let entry = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        format!("    ({name:?}, include_str!({path:?})),\n")
    };
    let table: String = files.iter().map(entry).collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo runs this"));
    fs::write(out.join("apps.rs"), format!("&[\n{table}]\n")).expect("OUT_DIR is writable");
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<_> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.sort();
    Ok(files)
}
