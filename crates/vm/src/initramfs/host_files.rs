//! Host files on their way into the tree: with the links that lead to them, and with what a
//! program needs to run.
use super::programs::{interpreters, which};
use super::tree::{Content, Node, Tree};
use crate::{Arch, VmError, foreign};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// As many links in one path as the kernel itself follows.
const MAX_LINKS: u32 = 40;

/// The C library opens these by name while a program runs, so no list of needed libraries has them:
/// the first to cancel a thread or unwind, the second to look up users with an older libc.
const OPENED_AT_RUN_TIME: [&str; 2] = ["libgcc_s.so.1", "libnss_files.so.2"];

/// A tree in the making.
#[derive(Default)]
pub(super) struct HostFiles {
    tree: Tree,
    /// Files whose libraries and interpreters have been added already.
    completed: BTreeSet<PathBuf>,
    /// The machine's processor, if it is another one: this machine's programs and libraries are left out.
    foreign: Option<Arch>,
}

impl HostFiles {
    /// With a root file system of another processor, where all that programs need is there already.
    pub fn of_root(root: &Path, arch: Arch) -> Result<Self, VmError> {
        let mut files = Self { foreign: Some(arch), ..Self::default() };
        files.add_root(root, root)?;
        Ok(files)
    }

    /// Adds a folder below a root, at its path there.
    fn add_root(&mut self, root: &Path, folder: &Path) -> Result<(), VmError> {
        for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
            let path = entry.map_err(|error| unreadable(folder, error))?.path();
            let meta = fs::symlink_metadata(&path).map_err(|error| unreadable(&path, error))?;
            let mode = meta.permissions().mode() & 0o7777;
            let place = Path::new("/").join(path.strip_prefix(root).expect("it is below"));
            if meta.is_symlink() {
                let target = fs::read_link(&path).map_err(|error| unreadable(&path, error))?;
                self.tree.insert(&place, Node::Symlink(target));
            } else if meta.is_dir() {
                self.tree.insert(&place, Node::Folder { mode });
                self.add_root(root, &path)?;
            } else if meta.is_file() {
                let content = Content::Host { path: path.clone(), size: meta.len() };
                self.tree.insert(&place, Node::File { mode, content });
            }
        }
        Ok(())
    }

    /// Whether the machine has a root of its own.
    pub fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// Whether a program or library is one that the machine cannot execute.
    fn is_useless(&self, path: &Path) -> bool {
        self.foreign.is_some_and(|arch| foreign::of_file(path).is_some_and(|of| of != arch))
    }

    pub fn into_tree(self) -> Tree {
        self.tree
    }

    pub fn tree(&mut self) -> &mut Tree {
        &mut self.tree
    }

    /// Adds a file or an empty folder at its own path, the links on the way to it, and nothing
    /// else. Returns its path without links.
    pub fn add(&mut self, path: &Path) -> Result<PathBuf, VmError> {
        let unreadable = |error| unreadable(path, error);
        let absolute = std::path::absolute(path).map_err(unreadable)?;
        let mut todo = components(&absolute);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let meta = fs::symlink_metadata(&next).map_err(unreadable)?;
            let mode = meta.permissions().mode() & 0o7777;
            if meta.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(unreadable(io::Error::from_raw_os_error(libc::ELOOP)));
                }
                let target = fs::read_link(&next).map_err(unreadable)?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                let mut ahead = components(&target);
                ahead.append(&mut todo);
                todo = ahead;
                self.tree.insert(&next, Node::Symlink(target));
            } else if meta.is_dir() {
                self.tree.insert(&next, Node::Folder { mode });
                at = next;
            } else if meta.is_file() {
                let content = Content::Host { path: next.clone(), size: meta.len() };
                self.tree.insert(&next, Node::File { mode, content });
                at = next;
            } else {
                let error = io::Error::new(io::ErrorKind::Unsupported, "neither file nor folder");
                return Err(unreadable(error));
            }
        }
        Ok(at)
    }

    /// Adds a host file at another path.
    pub fn add_as(&mut self, path: &Path, place: &Path) -> Result<(), VmError> {
        let meta = fs::metadata(path).map_err(|error| unreadable(path, error))?;
        let content = Content::Host { path: path.to_owned(), size: meta.len() };
        self.tree.insert(place, Node::File { mode: 0o644, content });
        Ok(())
    }

    /// Adds a program with its libraries, or, if it is a script, with its interpreter. Returns its
    /// path without links.
    pub fn add_program(&mut self, path: &Path) -> Result<PathBuf, VmError> {
        if self.is_useless(path) {
            return Ok(path.to_owned());
        }
        let real = self.add(path)?;
        self.complete(&real)?;
        Ok(real)
    }

    /// Adds a file as a program, or a folder with all that is in it.
    pub fn add_all(&mut self, path: &Path) -> Result<(), VmError> {
        let real = self.add_program(path)?;
        if real.is_dir() {
            self.add_folder(&real)?;
        }
        Ok(())
    }

    fn add_folder(&mut self, folder: &Path) -> Result<(), VmError> {
        for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
            let entry = entry.map_err(|error| unreadable(folder, error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| unreadable(&path, error))?;
            if kind.is_symlink() {
                // Copied as it is: its target may not exist, or may not be among the copied files.
                let target = fs::read_link(&path).map_err(|error| unreadable(&path, error))?;
                self.tree.insert(&path, Node::Symlink(target));
            } else if kind.is_dir() {
                self.add(&path)?;
                self.add_folder(&path)?;
            } else if kind.is_file() {
                self.add_program(&path)?;
            }
            // Sockets, pipes and devices mean nothing in another machine.
        }
        Ok(())
    }

    /// Adds what the file needs to run.
    fn complete(&mut self, file: &Path) -> Result<(), VmError> {
        if !file.is_file() || !self.completed.insert(file.to_owned()) {
            return Ok(());
        }
        let head = head(file).map_err(|error| unreadable(file, error))?;
        if head.starts_with(b"\x7fELF") {
            self.add_libraries(file)
        } else if head.starts_with(b"#!") {
            for interpreter in interpreters(&head) {
                if let Some(program) = which(&interpreter) {
                    self.add_program(&program)?;
                }
            }
            Ok(())
        } else {
            Ok(())
        }
    }

    fn add_libraries(&mut self, file: &Path) -> Result<(), VmError> {
        if self.is_foreign() {
            return Ok(());
        }
        // A file that cannot be analysed is added alone. A program that misses a library fails in
        // the guest as it would fail on the host, with the loader's own message.
        let Ok(needed) = lddtree::DependencyAnalyzer::default().analyze(file) else { return Ok(()) };
        for library in needed.libraries.values().filter(|library| library.found()) {
            let real = self.add(&library.path)?;
            // On its own once more: a library may name folders to search that the program does not.
            self.complete(&real)?;
            if library.name == "libc.so.6" {
                for name in OPENED_AT_RUN_TIME {
                    let companion = library.path.with_file_name(name);
                    if companion.exists() {
                        self.add_program(&companion)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

fn head(file: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(file)?.take(256).read_to_end(&mut head)?;
    Ok(head)
}

fn unreadable(path: &Path, error: io::Error) -> VmError {
    match error.kind() {
        io::ErrorKind::NotFound => VmError::ProgramMissing(path.to_owned()),
        _ => VmError::io("pack", path, error),
    }
}
