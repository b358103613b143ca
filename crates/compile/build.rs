//! Packs the headers that policies include, so that a policy compiles where there is no checkout.
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{env, io};

/// Headers of the kernel's user interface that scx's headers include.
const UAPI: [&str; 2] = ["asm-generic/errno.h", "asm-generic/errno-base.h"];

/// Processors as the kernel names them. Each has types of its own there. All are packed: build scripts compile for the
/// processor that cargo builds for.
const PROCESSORS: [&str; 2] = ["x86", "arm64"];

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let policies = here.join("../../policies");
    let simulator = here.join("../sim/include");
    println!("cargo:rerun-if-changed={}", policies.display());
    println!("cargo:rerun-if-changed={}", simulator.display());
    println!("cargo:rerun-if-changed=build.rs");
    // Unpacks scx's headers into OUT_DIR.
    scx_cargo::BpfBuilder::new().expect("clang 18 or newer (set BPF_CLANG to name one)");
    let scx = out.join("scx_utils-bpf_h");

    let archive = File::create(out.join("headers.tar.gz")).expect("OUT_DIR is writable");
    let mut archive = tar::Builder::new(GzEncoder::new(archive, Compression::best()));
    archive.mode(tar::HeaderMode::Deterministic);
    let mut pack = || -> io::Result<()> {
        for folder in ["scx", "lib", "bpf-compat"] {
            archive.append_dir_all(Path::new("kernel").join(folder), scx.join(folder))?;
        }
        for processor in PROCESSORS {
            let types = Path::new("arch").join(processor).join("vmlinux.h");
            archive.append_path_with_name(scx.join(&types), Path::new("kernel").join(&types))?;
        }
        for header in headers(&scx)?.into_iter().filter(|name| name != Path::new("vmlinux.h")) {
            archive.append_path_with_name(scx.join(&header), Path::new("kernel").join(&header))?;
        }
        for header in UAPI {
            archive.append_path_with_name(
                Path::new("/usr/include").join(header),
                Path::new("uapi").join(header),
            )?;
        }
        for header in headers(&policies)? {
            archive.append_path_with_name(policies.join(&header), Path::new("policies").join(&header))?;
        }
        archive.append_dir_all("simulator", &simulator)?;
        archive.finish()
    };
    pack().expect("the headers can be packed");
}

/// Names of the headers in a folder. Links are followed.
fn headers(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| Ok(PathBuf::from(entry?.file_name())))
        .filter(|name| {
            name.as_ref().map_or(true, |name: &PathBuf| name.extension().is_some_and(|it| it == "h"))
        })
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}
