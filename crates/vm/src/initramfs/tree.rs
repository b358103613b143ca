//! A file system as a map, and the `newc` archive it becomes.
use cpio::newc::{Builder, ModeFileType, trailer};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Where a file's content comes from.
pub(super) enum Content {
    /// This file of the host, read when the archive is written.
    Host {
        path: PathBuf,
        size: u64,
    },
    Bytes(Vec<u8>),
}

pub(super) enum Node {
    Folder { mode: u32 },
    File { mode: u32, content: Content },
    Symlink(PathBuf),
    CharDevice { mode: u32, major: u32, minor: u32 },
}

impl Node {
    pub fn bytes(mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self::File { mode, content: Content::Bytes(bytes.into()) }
    }

    fn size(&self) -> u64 {
        match self {
            Self::File { content: Content::Host { size, .. }, .. } => *size,
            Self::File { content: Content::Bytes(bytes), .. } => bytes.len() as u64,
            _ => 0,
        }
    }
}

/// All entries by absolute path. A map that is ordered by path components: parents come first, as
/// the kernel needs them, and equal contents give equal archives.
#[derive(Default)]
pub(super) struct Tree(BTreeMap<PathBuf, Node>);

impl Tree {
    /// Adds an entry unless there is one at that path, and the folders that lead to it.
    pub fn insert(&mut self, path: impl AsRef<Path>, node: Node) {
        // Parents that are links stay links: a caller that inserts below them resolves them first.
        for parent in path.as_ref().ancestors().skip(1).filter(|parent| parent.parent().is_some()) {
            self.0.entry(parent.to_owned()).or_insert(Node::Folder { mode: 0o755 });
        }
        if let Entry::Vacant(place) = self.0.entry(path.as_ref().to_owned()) {
            place.insert(node);
        }
    }

    pub fn contains(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Bytes in all files.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(Node::size).sum()
    }

    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (path, node) in &self.0 {
            write_node(path, node, out)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        }
        trailer(out)?;
        Ok(())
    }
}

fn write_node(path: &Path, node: &Node, out: &mut impl Write) -> io::Result<()> {
    let name = utf8(path)?.trim_start_matches('/');
    let entry = |mode: u32, kind| Builder::new(name).mode(mode).set_mode_file_type(kind);
    match node {
        Node::Folder { mode } => {
            entry(*mode, ModeFileType::Directory).write(out, 0).finish()?;
        }
        Node::CharDevice { mode, major, minor } => {
            let entry = entry(*mode, ModeFileType::Char).rdev_major(*major).rdev_minor(*minor);
            entry.write(out, 0).finish()?;
        }
        Node::Symlink(target) => {
            let target = utf8(target)?.as_bytes();
            copy(entry(0o777, ModeFileType::Symlink), out, target, target.len() as u64)?;
        }
        Node::File { mode, content } => {
            let entry = entry(*mode, ModeFileType::Regular);
            match content {
                Content::Bytes(bytes) => copy(entry, out, bytes.as_slice(), bytes.len() as u64)?,
                Content::Host { path, size } => copy(entry, out, File::open(path)?, *size)?,
            }
        }
    }
    Ok(())
}

/// The size precedes the content, so a change of the file in between must be detected.
fn copy(entry: Builder, out: &mut impl Write, from: impl Read, size: u64) -> io::Result<()> {
    let announced = u32::try_from(size)
        .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "an initramfs holds no file above 4 GiB"))?;
    let mut entry = entry.write(out, announced);
    if io::copy(&mut from.take(size), &mut entry)? != size {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it changed while it was read"));
    }
    entry.finish()?;
    Ok(())
}

fn utf8(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidFilename, "the name is not valid UTF-8"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cpio::newc::Reader;

    /// What was read back of an entry.
    #[derive(Debug)]
    pub(in crate::initramfs) struct Entry {
        pub position: usize,
        pub mode: u32,
        pub device: (u32, u32),
        pub data: Vec<u8>,
    }

    impl Entry {
        pub fn is_folder(&self) -> bool {
            self.mode & 0o170000 == 0o040000
        }
        pub fn link(&self) -> Option<&str> {
            (self.mode & 0o170000 == 0o120000).then(|| std::str::from_utf8(&self.data).unwrap())
        }
    }

    /// Takes an archive apart.
    pub(in crate::initramfs) fn read_archive(mut bytes: &[u8]) -> BTreeMap<String, Entry> {
        let mut entries = BTreeMap::new();
        loop {
            let mut reader = Reader::new(bytes).unwrap();
            if reader.entry().is_trailer() {
                return entries;
            }
            let name = format!("/{}", reader.entry().name());
            let mode = reader.entry().mode();
            let device = (reader.entry().rdev_major(), reader.entry().rdev_minor());
            let mut data = Vec::new();
            reader.read_to_end(&mut data).unwrap();
            bytes = reader.finish().unwrap();
            let entry = Entry { position: entries.len(), mode, device, data };
            assert!(entries.insert(name.clone(), entry).is_none(), "{name} twice");
        }
    }

    #[test]
    fn an_archive_reads_back() {
        let mut tree = Tree::default();
        tree.insert("/dev/console", Node::CharDevice { mode: 0o600, major: 5, minor: 1 });
        tree.insert("/usr/bin/tool", Node::bytes(0o755, *b"abcde"));
        tree.insert("/usr/bin/tool", Node::bytes(0o755, *b"never replaces"));
        tree.insert("/bin", Node::Symlink("usr/bin".into()));
        let mut bytes = Vec::new();
        tree.write(&mut bytes).unwrap();
        let entries = read_archive(&bytes);
        assert_eq!(entries["/dev/console"].device, (5, 1));
        assert_eq!(entries["/usr/bin/tool"].data, b"abcde");
        assert_eq!(entries["/bin"].link(), Some("usr/bin"));
        assert!(entries["/usr"].is_folder());
        assert_eq!(tree.bytes(), 5);
    }

    #[test]
    fn a_file_that_shrinks_is_noticed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "four").unwrap();
        let mut tree = Tree::default();
        let content = Content::Host { path: file.path().into(), size: 5 };
        tree.insert("/x", Node::File { mode: 0o644, content });
        let error = tree.write(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
