//! The guest's root file system: the programs, what they need to run, and a little furniture.
//!
//! Every file is at the same path as on the host, links included, so that a command line means the
//! same inside. [`programs`] finds what a command line names, [`host_files`] copies it with its
//! libraries, [`base`] adds what every system has, [`tree`] writes the archive.
//!
//! The archive is not compressed: unpacking it in an emulated guest would cost more than writing
//! and loading it on the host.
mod base;
mod host_files;
mod programs;
mod tree;

pub use programs::programs_in;

use crate::protocol::{ASSIGNMENT_PATH, Assignment};
use crate::{Foreign, Kernel, VmError};
use host_files::HostFiles;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tree::{Node, Tree};

/// The contents of the archive.
pub(crate) struct Contents<'a> {
    /// The kernel whose configuration is put into `/boot`.
    pub kernel: &'a Kernel,
    /// The machine's own root, if its processor is another one.
    pub foreign: Option<&'a Foreign>,
    /// The program that is process 1.
    pub init: &'a Path,
    /// Programs, with all they need to run.
    pub programs: &'a [PathBuf],
    pub files: &'a [PathBuf],
    /// What process 1 has to do.
    pub assignment: &'a Assignment,
}

/// Writes the archive and returns the size of its files in bytes, which is the memory that they
/// will occupy.
pub(crate) fn write(contents: &Contents, archive: &Path) -> Result<u64, VmError> {
    let tree = plant(contents)?;
    let write = || {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(archive)?);
        tree.write(&mut out)?;
        out.flush()
    };
    write().map_err(|error| VmError::io("write", archive, error))?;
    Ok(tree.bytes())
}

/// In order of precedence: what is already there is never replaced.
fn plant(contents: &Contents) -> Result<Tree, VmError> {
    let mut files = match contents.foreign {
        Some(Foreign { arch, root, .. }) => HostFiles::of_root(root, *arch)?,
        None => HostFiles::default(),
    };
    for program in contents.programs {
        files.add_program(program)?;
    }
    for file in contents.files {
        files.add_all(file)?;
    }
    let init = files.add_program(contents.init)?;
    if let Some(config) = &contents.kernel.config {
        // Several scx schedulers refuse to load unless they can read it there.
        let place = format!("/boot/config-{}", contents.kernel.release);
        files.add_as(config, Path::new(&place))?;
    }
    base::add(&mut files)?;
    let mut tree = files.into_tree();
    tree.insert("/init", Node::Symlink(init.clone()));
    tree.insert("/usr/bin/flsched", Node::Symlink(init));
    let assignment = serde_json::to_vec(contents.assignment)
        .expect("texts are valid JSON, and other words are numbers there");
    tree.insert(ASSIGNMENT_PATH, Node::bytes(0o600, assignment));
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::tree::tests::{Entry, read_archive};
    use super::*;
    use crate::{Arch, BtfHealth};
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn assignment() -> Assignment {
        Assignment {
            argv: vec!["true".into()],
            env: vec![],
            cgroup: Default::default(),
            directory: "/".into(),
            hostname: "flsched".into(),
        }
    }

    fn pack(
        programs: &[PathBuf],
        files: &[PathBuf],
        config: Option<PathBuf>,
    ) -> Result<BTreeMap<String, Entry>, VmError> {
        let kernel =
            Kernel { release: "6.18.15-test".into(), image: "/nowhere".into(), config, btf: BtfHealth::Good };
        let init = std::env::current_exe().unwrap();
        let assignment = assignment();
        let contents = Contents {
            kernel: &kernel,
            foreign: None,
            init: &init,
            programs,
            files,
            assignment: &assignment,
        };
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("initramfs");
        write(&contents, &archive)?;
        Ok(read_archive(&std::fs::read(&archive).unwrap()))
    }

    /// Follows the links inside the archive.
    fn resolve<'a>(archive: &'a BTreeMap<String, Entry>, path: &str) -> Option<&'a Entry> {
        let mut todo: Vec<String> =
            path.split('/').rev().filter(|p| !p.is_empty()).map(String::from).collect();
        let mut at = PathBuf::from("/");
        let mut found = None;
        while let Some(part) = todo.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            let entry = archive.get(next.to_str().unwrap())?;
            if let Some(target) = entry.link() {
                if target.starts_with('/') {
                    at = PathBuf::from("/");
                }
                todo.extend(target.split('/').rev().filter(|p| !p.is_empty()).map(String::from));
            } else {
                at = next;
                found = Some(entry);
            }
        }
        found
    }

    #[test]
    fn a_program_comes_with_loader_libraries_and_links() {
        let archive = pack(&["/bin/ls".into()], &[], None).unwrap();
        let ls = resolve(&archive, "/bin/ls").expect("ls");
        assert_eq!(ls.data, std::fs::read("/bin/ls").unwrap());
        assert_eq!(ls.mode & 0o7777, 0o755);
        let loader = match Arch::HOST {
            Arch::X86 => "/lib64/ld-linux-x86-64.so.2",
            Arch::Arm64 => "/lib/ld-linux-aarch64.so.1",
        };
        assert!(resolve(&archive, loader).is_some());
        let of_debian = format!("/lib/{}-linux-gnu", Arch::HOST);
        for library in ["libc.so.6", "libgcc_s.so.1"] {
            let place = [of_debian.as_str(), "/usr/lib64", "/lib64"]
                .into_iter()
                .find(|folder| Path::new(folder).join(library).exists())
                .unwrap();
            assert!(resolve(&archive, &format!("{place}/{library}")).is_some(), "{library}");
        }
        let same = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(resolve(&archive, "/init").unwrap().data == same);
        assert!(resolve(&archive, "/usr/bin/flsched").unwrap().data == same);
    }

    #[test]
    fn furniture_and_assignment_are_there() {
        let config = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&config, "CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
        let archive = pack(&[], &[], Some(config.path().into())).unwrap();
        assert_eq!(archive["/boot/config-6.18.15-test"].data, b"CONFIG_SCHED_CLASS_EXT=y\n");
        for folder in ["/proc", "/sys", "/dev", "/tmp", "/run", "/root"] {
            assert!(archive[folder].is_folder(), "{folder}");
        }
        assert_eq!(archive["/tmp"].mode & 0o7777, 0o1777);
        assert!(resolve(&archive, "/bin/sh").is_some());
        assert!(archive.contains_key("/etc/passwd"));
        let read: Assignment = serde_json::from_slice(&archive[ASSIGNMENT_PATH].data).unwrap();
        assert_eq!(read, assignment());
    }

    #[test]
    fn every_parent_precedes_its_children() {
        // The kernel unpacks in order and makes no parents.
        let archive = pack(&["/bin/ls".into()], &[], None).unwrap();
        for (name, entry) in &archive {
            let parent = Path::new(name).parent().unwrap().to_str().unwrap();
            if parent != "/" {
                let parent = archive.get(parent).unwrap_or_else(|| panic!("{name} has no parent"));
                assert!(parent.is_folder(), "{name} lies in something that is no folder");
                assert!(parent.position < entry.position, "{name}");
            }
        }
    }

    #[test]
    fn files_keep_links_and_modes() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        std::fs::create_dir(at.join("deep")).unwrap();
        std::fs::write(at.join("deep/data"), "content").unwrap();
        std::fs::set_permissions(at.join("deep/data"), PermissionsExt::from_mode(0o640)).unwrap();
        symlink("deep/data", at.join("link")).unwrap();
        symlink("loop", at.join("loop")).unwrap();
        symlink("nowhere", at.join("broken")).unwrap();
        let archive = pack(&[], &[at.into()], None).unwrap();
        let name = |part: &str| at.join(part).to_str().unwrap().to_owned();
        assert_eq!(archive[&name("link")].link(), Some("deep/data"));
        assert_eq!(archive[&name("broken")].link(), Some("nowhere"));
        let data = resolve(&archive, &name("link")).unwrap();
        assert_eq!((data.data.as_slice(), data.mode & 0o7777), (b"content".as_slice(), 0o640));
    }

    #[test]
    fn a_script_brings_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env -S bash -e\necho\n").unwrap();
        let archive = pack(&[script], &[], None).unwrap();
        assert!(resolve(&archive, "/usr/bin/env").is_some());
        assert!(resolve(&archive, which::which("bash").unwrap().to_str().unwrap()).is_some());
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = pack(&["/no/such/program".into()], &[], None).unwrap_err();
        assert!(
            matches!(&error, VmError::ProgramMissing(path) if path == Path::new("/no/such/program")),
            "{error}"
        );
    }
}
