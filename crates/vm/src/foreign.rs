//! What a machine needs whose processor is not this machine's: a root file system of its own, and an `flsched` of its own,
//! which is process 1 there.
//!
//! The root is made of Debian's packages, once, in the cache folder. Programs and files of this machine that a command
//! names are added to it, but for programs of another processor.
use crate::kernel::apt::{Apt, Archive};
use crate::kernel::cache::DOWNLOADS;
use crate::{Arch, Catalog, KernelError, VmError};
use std::fs;
use std::path::{Path, PathBuf};

/// The stable suite, as its C library is newer than that of most compilers' targets.
const fn archive(arch: Arch) -> Archive {
    let folder = match arch {
        Arch::X86 => "apt-root-amd64",
        Arch::Arm64 => "apt-root-arm64",
    };
    Archive { folder, kind: "deb", suites: "trixie", arch }
}

/// A shell and tools, the libraries that every program needs, and the workloads. base-files has the links of a merged-usr
/// system.
const PACKAGES: [&str; 8] =
    ["base-files", "busybox-static", "libc6", "libgcc-s1", "libgomp1", "libnuma1", "libomp5-19", "rt-tests"];

/// What of them nobody reads in a virtual machine, and what only an owner of the system may have.
const LEFT_OUT: [&str; 5] = [
    "--exclude=./usr/share",
    "--exclude=./usr/lib/*/gconv",
    "--exclude=./var",
    "--exclude=./dev",
    "--exclude=./etc/update-motd.d",
];

/// Names the program for the virtual machine.
const PROGRAM_VARIABLE: &str = "FLSCHED_GUEST_PROGRAM";
/// Where packages have it.
const INSTALLED: &str = "/usr/lib/flsched";

/// A machine's own root and program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The processor.
    pub arch: Arch,
    /// The folder with its root file system.
    pub root: PathBuf,
    /// The `flsched` that is process 1.
    pub program: PathBuf,
}

impl Catalog {
    /// What a machine of the catalogue's processor needs beside a kernel; `None`: nothing, as it is this machine's. If the
    /// root is not in the cache, downloads it; apt verifies it.
    pub fn foreign(&self) -> Result<Option<Foreign>, VmError> {
        let arch = self.arch;
        if !arch.is_foreign() {
            return Ok(None);
        }
        let program = program(arch)?;
        let root = self.root(arch)?;
        Ok(Some(Foreign { arch, root, program }))
    }

    fn root(&self, arch: Arch) -> Result<PathBuf, KernelError> {
        let place = self.cache.folder.join("roots").join(format!("{arch}-{}", PACKAGES.join("-")));
        if place.is_dir() {
            return Ok(place);
        }
        let lock =
            self.cache.lock("fetching a root file system", DOWNLOADS, &self.cancel, &*self.progress)?;
        if place.is_dir() {
            return Ok(place); // By another process, while this one waited.
        }
        let work = self.cache.work_folder(&lock)?;
        let (debs, root) = (work.path().join("debs"), work.path().join("root"));
        for folder in [&debs, &root] {
            fs::create_dir(folder).map_err(|e| KernelError::io("create", folder, e))?;
        }
        (self.progress)(&format!("downloading a root file system for {arch} (6 MB)"));
        let apt = Apt {
            cache: self.cache.folder.clone(),
            archive: archive(arch),
            cancel: &self.cancel,
            report: &*self.progress,
        };
        apt.download_all(&PACKAGES, &debs)?;
        let entries = fs::read_dir(&debs).map_err(|e| KernelError::io("read", &debs, e))?;
        for deb in entries.flatten().map(|entry| entry.path()) {
            self.unpack_deb(&deb, &root, &LEFT_OUT)?;
        }
        let roots = self.cache.folder.join("roots");
        fs::create_dir_all(&roots).map_err(|e| KernelError::io("create", &roots, e))?;
        fs::rename(&root, &place).map_err(|e| KernelError::io("create", &place, e))?;
        Ok(place)
    }
}

/// The `flsched` for this processor: the one that the user names, else the one that is built beside this one, else an
/// installed one.
fn program(arch: Arch) -> Result<PathBuf, VmError> {
    let named = std::env::var_os(PROGRAM_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let searched = match named {
        Some(named) => vec![std::path::absolute(&named).unwrap_or(named)],
        None => places(&std::env::current_exe().unwrap_or_default(), arch),
    };
    let found = searched.iter().find(|place| is_for(place, arch)).cloned();
    found.ok_or(VmError::NoGuestProgram { arch, variable: PROGRAM_VARIABLE, searched })
}

/// Of `target/release/flsched` it is `target/aarch64-unknown-linux-gnu/release/flsched`.
fn places(own: &Path, arch: Arch) -> Vec<PathBuf> {
    let built = own.parent().and_then(|profile| {
        let target = profile.parent()?.join(format!("{arch}-unknown-linux-gnu"));
        Some(target.join(profile.file_name()?).join("flsched"))
    });
    built.into_iter().chain([Path::new(INSTALLED).join(arch.name()).join("flsched")]).collect()
}

/// Whether this file is a program of this processor.
pub(crate) fn is_for(file: &Path, arch: Arch) -> bool {
    of_file(file) == Some(arch)
}

/// The processor of a program or library; `None`: it is neither.
pub(crate) fn of_file(file: &Path) -> Option<Arch> {
    use std::io::Read;
    let mut head = [0; 20];
    fs::File::open(file).ok()?.read_exact(&mut head).ok()?;
    of_elf(&head)
}

/// The machine in an ELF file's header.
fn of_elf(head: &[u8; 20]) -> Option<Arch> {
    let machine = head.strip_prefix(b"\x7fELF")?.get(14..)?.try_into().ok()?;
    match object::elf::Machine(u16::from_le_bytes(machine)) {
        object::elf::EM_X86_64 => Some(Arch::X86),
        object::elf::EM_AARCH64 => Some(Arch::Arm64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_searched_beside_this_one_and_where_packages_have_it() {
        let places = places(Path::new("/src/target/release/flsched"), Arch::Arm64);
        let expected =
            ["/src/target/aarch64-unknown-linux-gnu/release/flsched", "/usr/lib/flsched/aarch64/flsched"];
        assert_eq!(places, expected.map(PathBuf::from));
    }

    #[test]
    fn files_tell_their_processor() {
        let own = std::env::current_exe().unwrap();
        assert!(is_for(&own, Arch::HOST));
        assert!(Arch::ALL.into_iter().filter(|arch| arch.is_foreign()).all(|arch| !is_for(&own, arch)));
        assert_eq!(of_file(Path::new("/etc/passwd")), None);
        assert_eq!(of_file(Path::new("/no/such/file")), None);
    }

    #[test]
    fn a_missing_program_is_named_with_the_remedy() {
        let searched = vec!["/usr/lib/flsched/aarch64/flsched".into()];
        let error = VmError::NoGuestProgram { arch: Arch::Arm64, variable: PROGRAM_VARIABLE, searched };
        let text = error.to_string();
        assert!(text.contains("make aarch64") && text.contains("FLSCHED_GUEST_PROGRAM"), "{text}");
        assert!(text.contains("/usr/lib/flsched/aarch64/flsched") && error.exit_code() == 125, "{text}");
    }
}
