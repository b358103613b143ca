//! The emulator of the parallel clock: a QEMU with patches of this project, kept in `emulator/` of this crate.
//!
//! In stock QEMU the emulated CPUs share one instruction count and run one at a time. The first patch gives each CPU
//! its own count (`-icount turn=`), and the fourth one caches and memory (`memory=`). The third one fixes a race of
//! stock QEMU that kills a guest's kernel on the wall clock, so that clock uses this QEMU too if it has been built. [`build()`] fetches Debian's source of QEMU, applies
//! the patches, compiles and tests the result, and puts it into the cache folder under a name that depends on the
//! patches. [`find`] finds it there.
mod build;
mod error;
mod tools;

pub use build::{Built, build};
pub use error::EmulatorError;

use crate::{Arch, qemu};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names a QEMU to use instead of the one that [`build()`] makes for this machine's processor.
pub const VARIABLE: &str = "FLSCHED_EMULATOR";

/// The same for the other processors: `FLSCHED_EMULATOR_AARCH64`.
fn variable(arch: Arch) -> String {
    if arch.is_foreign() { format!("{VARIABLE}_{}", arch.name().to_uppercase()) } else { VARIABLE.into() }
}

/// Applied in this order.
const PATCHES: [(&str, &str); 3] = [
    ("0001-icount-parallel-cpus.patch", include_str!("../../emulator/0001-icount-parallel-cpus.patch")),
    ("0002-debian-source.patch", include_str!("../../emulator/0002-debian-source.patch")),
    ("0003-tcg-stale-translations.patch", include_str!("../../emulator/0003-tcg-stale-translations.patch")),
];

/// Further patches for one processor: the model of memory is for x86-64 only. They are not among those above, so that the other processor's emulator need not be
/// built again when they change.
const X86_PATCHES: [(&str, &str); 1] =
    [("0004-icount-memory.patch", include_str!("../../emulator/0004-icount-memory.patch"))];
const ARM64_PATCHES: [(&str, &str); 1] =
    [("0005-arm-parallel-cpus.patch", include_str!("../../emulator/0005-arm-parallel-cpus.patch"))];

fn patches(arch: Arch) -> Vec<(&'static str, &'static str)> {
    let further = match arch {
        Arch::X86 => &X86_PATCHES,
        Arch::Arm64 => &ARM64_PATCHES,
    };
    PATCHES.iter().chain(further).copied().collect()
}

/// How QEMU is configured: one machine, a few devices, nothing that needs a further library, except that arm64's machine
/// is described to its kernel by a device tree.
fn configure(arch: Arch) -> Vec<&'static str> {
    let (target, devices, further) = match arch {
        Arch::X86 => ("--target-list=x86_64-softmmu", "--with-devices-x86_64=flsched", &[][..]),
        Arch::Arm64 => {
            ("--target-list=aarch64-softmmu", "--with-devices-aarch64=flsched", &["--enable-fdt=system"][..])
        }
    };
    let first = [target, "--without-default-features", "--without-default-devices", devices];
    let always = [
        "--enable-system",
        "--enable-tcg",
        "--disable-debug-info",
        "--disable-docs",
        "--disable-download",
        "--disable-qom-cast-debug",
        "--disable-werror",
    ];
    first.iter().chain(&always).chain(further).copied().collect()
}

/// A QEMU whose CPUs can run in parallel in virtual time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emulator {
    pub qemu: PathBuf,
}

/// What is remembered of a build. It is written last, so a build without it is not one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Meta {
    /// `package=version` of the source.
    source: String,
    /// The program's length in bytes, by which a torn file is noticed.
    program_bytes: u64,
}

/// Finds the emulator of this machine's processor: the one that [`VARIABLE`] names, else the one in the cache folder.
pub fn find() -> Result<Emulator, EmulatorError> {
    find_for(Arch::HOST)
}

/// The same for any processor.
pub fn find_for(arch: Arch) -> Result<Emulator, EmulatorError> {
    if let Some(qemu) = named(arch) {
        // Absolute, as QEMU is started in a folder of its own.
        let qemu = std::path::absolute(&qemu).unwrap_or(qemu);
        check(&qemu, arch)?;
        return Ok(Emulator { qemu });
    }
    let not_built = || EmulatorError::NotBuilt { arch };
    in_cache(&crate::cache_folder().ok_or_else(not_built)?, arch).ok_or_else(not_built)
}

/// The program that the user named.
fn named(arch: Arch) -> Option<PathBuf> {
    std::env::var_os(variable(arch)).filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// The folder of a build with these patches.
fn place(cache: &Path, arch: Arch) -> PathBuf {
    let mut hash = Sha256::new();
    for part in patches(arch).into_iter().map(|(_, text)| text).chain(configure(arch)) {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let key: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    builds(cache).join(key)
}

/// The folder of all builds.
fn builds(cache: &Path) -> PathBuf {
    cache.join("emulator")
}

fn in_cache(cache: &Path, arch: Arch) -> Option<Emulator> {
    let folder = place(cache, arch);
    let meta: Meta = serde_json::from_slice(&fs::read(folder.join("meta.json")).ok()?).ok()?;
    let qemu = folder.join(qemu::program(arch));
    (fs::metadata(&qemu).ok()?.len() == meta.program_bytes).then_some(Emulator { qemu })
}

impl Emulator {
    /// Whether it has the model of memory. One that the user named may be older than that.
    pub(crate) fn check_memory(&self) -> Result<(), EmulatorError> {
        if named(Arch::X86).is_none() {
            return Ok(()); // Built from these patches.
        }
        check_option(&self.qemu, Arch::X86, "memory=", ",turn=10,memory=/", "icount: memory: ")
    }
}

/// Whether the program has the option of the clock.
fn check(qemu: &Path, arch: Arch) -> Result<(), EmulatorError> {
    check_option(qemu, arch, "turn=", ",turn=0", "turn must be from")
}

/// Whether the program has an option of `-icount`. With a value that is refused in any case, a patched QEMU names that as
/// the reason, any other QEMU the option.
fn check_option(
    qemu: &Path,
    arch: Arch,
    option: &str,
    refused: &str,
    reason: &str,
) -> Result<(), EmulatorError> {
    let unfit =
        |reason: String| EmulatorError::Unfit { path: qemu.to_owned(), variable: variable(arch), reason };
    let output = Command::new(qemu)
        .args(["-machine", "none", "-display", "none", "-accel", "tcg"])
        .args(["-icount", &format!("shift=0,sleep=off{refused}")])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unfit(error.to_string()))?;
    if String::from_utf8_lossy(&output.stderr).contains(reason) {
        return Ok(());
    }
    Err(unfit(format!("it has no option `-icount {option}`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn put(cache: &Path, bytes: &[u8], promised: u64) {
        let folder = place(cache, Arch::HOST);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(qemu::program(Arch::HOST)), bytes).unwrap();
        let meta = Meta { source: "qemu=1".into(), program_bytes: promised };
        fs::write(folder.join("meta.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
    }

    #[test]
    fn only_a_whole_build_counts() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(in_cache(cache.path(), Arch::HOST), None);
        put(cache.path(), b"program", 8);
        assert_eq!(in_cache(cache.path(), Arch::HOST), None);
        put(cache.path(), b"program", 7);
        assert!(in_cache(cache.path(), Arch::HOST).unwrap().qemu.ends_with(qemu::program(Arch::HOST)));
        fs::remove_file(place(cache.path(), Arch::HOST).join("meta.json")).unwrap();
        assert_eq!(in_cache(cache.path(), Arch::HOST), None);
    }

    #[test]
    fn a_program_without_the_option_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let program = |says: &str| {
            let path = folder.path().join("qemu");
            fs::write(&path, format!("#!/bin/sh\necho '{says}' >&2; exit 1\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            check(&path, Arch::HOST)
        };
        assert!(program("icount: turn must be from 10 to 1000000 instructions").is_ok());
        let error = program("Invalid parameter turn").unwrap_err().to_string();
        assert!(error.contains("has no option") && error.contains(VARIABLE), "{error}");
        let error = check(Path::new("/no/such/qemu"), Arch::HOST).unwrap_err().to_string();
        assert!(error.contains("/no/such/qemu") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn patches_name_their_purpose_first() {
        for (name, text) in patches(Arch::Arm64) {
            let first = text.lines().next().unwrap();
            assert!(!first.is_empty() && !first.starts_with("diff"), "{name}: {first}");
        }
    }

    #[test]
    fn each_processor_has_a_place_of_its_own() {
        let cache = Path::new("/c");
        assert_ne!(place(cache, Arch::X86), place(cache, Arch::Arm64));
        assert_eq!(variable(Arch::HOST), VARIABLE);
        if Arch::HOST == Arch::X86 {
            assert_eq!(variable(Arch::Arm64), "FLSCHED_EMULATOR_AARCH64");
        }
    }
}
