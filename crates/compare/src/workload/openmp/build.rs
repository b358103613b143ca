//! Compiles an OpenMP kernel on the user's machine. The program is kept in the cache folder, under a name that depends
//! on its source and its compiler, so it is compiled only once.
use flsched_spec::workload::Runtime;
use flsched_vm::Arch;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The code that all kernels share.
const FRAME: [(&str, &str); 2] = [
    ("main.c", include_str!("../../../openmp/main.c")),
    ("kernel.h", include_str!("../../../openmp/kernel.h")),
];
/// Flags before the program's path. They have no `-march`: the program may run on another CPU than it was compiled on.
const BEFORE: [&str; 5] = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-fopenmp", "-o"];
const AFTER: [&str; 1] = ["-lm"];

/// Why the program could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No suitable compiler is in PATH.
    #[error("{kernel} needs {needs}, which is not in PATH; on Debian or Ubuntu: apt-get install {packages}")]
    NoCompiler {
        kernel: String,
        needs: &'static str,
        /// The Debian packages that have it.
        packages: &'static str,
    },
    /// LLVM's runtime for another processor is in no package of this machine's.
    #[error(
        "{kernel} is not compiled for {arch} on this machine, which has no libomp for it; take libgomp:{name}, or compile it on such \
         a machine and name the program as the command"
    )]
    NoCrossRuntime {
        kernel: String,
        /// The same without the runtime.
        name: String,
        /// The processor.
        arch: Arch,
    },
    /// Every available compiler failed.
    #[error(
        "cannot compile {kernel}: {complaint}\nOn Debian or Ubuntu, what it needs: apt-get install {packages}"
    )]
    Refused {
        kernel: String,
        /// Compiler and first error.
        complaint: String,
        /// The package that is probably missing.
        packages: &'static str,
    },
    /// There is no cache folder.
    #[error("no folder for compiled programs: set FLSCHED_CACHE, or HOME")]
    NoCacheFolder,
    /// A file cannot be written.
    #[error(
        "cannot write {}: {}; free space there, or set FLSCHED_CACHE to a folder you may write to",
        .0.display(),
        .1
    )]
    Io(PathBuf, std::io::Error),
}

/// Compilers for this runtime, in order of preference.
fn compilers(arch: Arch, runtime: Runtime) -> Vec<PathBuf> {
    if arch.is_foreign() {
        return which::which(format!("{arch}-linux-gnu-gcc")).into_iter().collect();
    }
    let names: &[&str] = match runtime {
        Runtime::Libomp => {
            &["clang", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16"]
        }
        Runtime::Libgomp => &["gcc"],
    };
    names.iter().filter_map(|name| which::which(name).ok()).collect()
}

fn needs(arch: Arch, runtime: Runtime) -> &'static str {
    match (arch.is_foreign(), arch) {
        (true, Arch::Arm64) => return "aarch64-linux-gnu-gcc",
        (true, Arch::X86) => return "x86_64-linux-gnu-gcc",
        (false, _) => {}
    }
    match runtime {
        Runtime::Libomp => "clang 16 or newer",
        Runtime::Libgomp => "gcc",
    }
}

fn packages(arch: Arch, runtime: Runtime) -> &'static str {
    match (arch.is_foreign(), arch) {
        (true, Arch::Arm64) => return "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        (true, Arch::X86) => return "gcc-x86-64-linux-gnu libc6-dev-amd64-cross",
        (false, _) => {}
    }
    match runtime {
        Runtime::Libomp => "clang-19 libomp-19-dev (or clang libomp-dev)",
        Runtime::Libgomp => "gcc libc6-dev",
    }
}

/// The program of a kernel; compiles it if the cache does not have it.
pub(super) fn program(
    arch: Arch,
    runtime: Runtime,
    kernel: &str,
    source: &str,
) -> Result<PathBuf, BuildError> {
    if arch.is_foreign() && runtime == Runtime::Libomp {
        let name = kernel.to_owned();
        return Err(BuildError::NoCrossRuntime { kernel: format!("libomp:{kernel}"), name, arch });
    }
    let cache = flsched_vm::cache_folder().ok_or(BuildError::NoCacheFolder)?.join("openmp");
    fs::create_dir_all(&cache).map_err(|error| BuildError::Io(cache.clone(), error))?;
    program_in(&cache, arch, runtime, kernel, source, &compilers(arch, runtime))
}

fn program_in(
    cache: &Path,
    arch: Arch,
    runtime: Runtime,
    kernel: &str,
    source: &str,
    compilers: &[PathBuf],
) -> Result<PathBuf, BuildError> {
    let (kernel, packages) = (format!("{}:{kernel}", runtime.name()), packages(arch, runtime));
    let mut complaint = None;
    for compiler in compilers {
        let name = format!("{}-{:016x}", kernel.replace(':', "-"), key(compiler, source));
        let place = cache.join(name);
        if place.is_file() {
            return Ok(place);
        }
        match compile(cache, compiler, source, &place)? {
            Ok(()) => return Ok(place),
            // Each clang needs a runtime of its own version, so another one may succeed.
            Err(why) => complaint = Some(format!("{}: {why}", compiler.display())),
        }
    }
    Err(match complaint {
        Some(complaint) => BuildError::Refused { kernel, complaint, packages },
        None => BuildError::NoCompiler { kernel, needs: needs(arch, runtime), packages },
    })
}

/// A hash of everything that determines the program. Another build of this crate may compute another hash, which only
/// causes another compilation.
fn key(compiler: &Path, source: &str) -> u64 {
    let version = Command::new(compiler).arg("--version").stdin(Stdio::null()).output();
    let mut hasher = DefaultHasher::new();
    (compiler, version.map(|output| output.stdout).unwrap_or_default()).hash(&mut hasher);
    (FRAME, source, BEFORE, AFTER).hash(&mut hasher);
    hasher.finish()
}

/// What compilers and linkers say of a full disk.
const FULL: &str = "No space left on device";

/// Compiles into `place`, which appears only when it is complete. The inner error is the compiler's.
fn compile(
    cache: &Path,
    compiler: &Path,
    source: &str,
    place: &Path,
) -> Result<Result<(), String>, BuildError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| BuildError::Io(path, error)
    };
    // In the cache folder, because a rename is atomic only within a file system.
    let folder = tempfile::tempdir_in(cache).map_err(io(cache))?;
    for (name, text) in FRAME.into_iter().chain([("work.c", source)]) {
        let path = folder.path().join(name);
        fs::write(&path, text).map_err(io(&path))?;
    }
    let output = Command::new(compiler)
        .args(BEFORE)
        .args(["program", "main.c", "work.c"])
        .args(AFTER)
        .current_dir(folder.path())
        .env("LC_ALL", "C")
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            // No other compiler and no package helps.
            if said.contains(FULL) {
                return Err(io(cache)(ErrorKind::StorageFull.into()));
            }
            return Ok(Err(first_error(&said)));
        }
        Err(error) => return Ok(Err(error.to_string())),
    }
    fs::rename(folder.path().join("program"), place).map_err(io(place))?;
    Ok(Ok(()))
}

fn first_error(text: &str) -> String {
    let error = text.lines().find(|line| line.contains("error") || line.contains("cannot find"));
    error.or(text.lines().next()).unwrap_or("it failed without a word").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compilers(folder: &Path, script: &str) -> Vec<PathBuf> {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join("compiler");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        vec![path]
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let cache = tempfile::tempdir().unwrap();
        let build = |compilers: &[PathBuf]| {
            program_in(cache.path(), Arch::HOST, Runtime::Libomp, "ep", "int x;", compilers)
                .unwrap_err()
                .to_string()
        };
        let error = build(&[]);
        assert!(error.contains("libomp:ep needs clang 16 or newer"), "{error}");
        assert!(error.contains("apt-get install clang-19 libomp-19-dev"), "{error}");
        let refusing =
            compilers(cache.path(), "#!/bin/sh\necho \"main.c:1: error: no 'omp.h'\" >&2\nexit 1\n");
        let error = build(&refusing);
        assert!(error.contains("error: no 'omp.h'") && error.contains("libomp-19-dev"), "{error}");
    }

    #[test]
    fn a_full_disk_is_not_the_compilers_fault() {
        let cache = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\necho 'final link failed: No space left on device' >&2\nexit 1\n";
        let compilers = compilers(cache.path(), script);
        let error =
            program_in(cache.path(), Arch::HOST, Runtime::Libgomp, "ep", "int x;", &compilers).unwrap_err();
        let (error, folder) = (error.to_string(), cache.path().display());
        assert!(
            error.starts_with(&format!("cannot write {folder}: no storage space; free space")),
            "{error}"
        );
    }

    #[test]
    fn compiles_once_for_each_source() {
        let cache = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\ntest $1 = --version && exit\necho once >> \"$0.log\"\necho > program\n";
        let compilers = compilers(cache.path(), script);
        let build = |source: &str| {
            program_in(cache.path(), Arch::HOST, Runtime::Libgomp, "ep", source, &compilers).unwrap()
        };
        let first = build("int x;");
        assert_eq!(build("int x;"), first);
        assert_ne!(build("int y;"), first);
        let log = fs::read_to_string(cache.path().join("compiler.log")).unwrap();
        assert_eq!(log.lines().count(), 2);
        let left: Vec<_> =
            cache.path().read_dir().unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left.len(), 4, "compiler, log and two programs: {left:?}");
    }
}
