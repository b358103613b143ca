//! The headers that policies include, in a temporary folder.
use crate::{Arch, Error, For};
use flate2::read::GzDecoder;
use libbpf_rs::libbpf_sys::API_HEADERS;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Packed by build.rs: `kernel` has scx's headers, and vmlinux.h in a folder for each processor, `uapi` those of the kernel's user interface,
/// `simulator` the simulator's, `policies` those that the policies share.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/headers.tar.gz"));

/// A folder with them.
#[derive(Debug)]
pub(crate) struct Headers {
    folder: TempDir,
}

impl Headers {
    pub(crate) fn unpack() -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        let folder = tempfile::Builder::new().prefix("flsched-headers-").tempdir_in(&parent);
        let folder = folder.map_err(Error::io(format!(
            "cannot create a folder in {}; set TMPDIR to a folder you may write to",
            parent.display()
        )))?;
        let unpack = || {
            tar::Archive::new(GzDecoder::new(PACKED)).unpack(folder.path())?;
            let libbpf = folder.path().join("libbpf/bpf");
            fs::create_dir_all(&libbpf)?;
            API_HEADERS.iter().try_for_each(|(name, text)| fs::write(libbpf.join(name), text))
        };
        unpack().map_err(Error::io(format!("cannot unpack headers into {}", folder.path().display())))?;
        Ok(Self { folder })
    }

    /// A folder for the output.
    pub(crate) fn scratch(&self) -> Result<TempDir, Error> {
        TempDir::new_in(self.folder.path()).map_err(Error::io("cannot make a temporary folder"))
    }

    /// Where the compiler finds them.
    pub(crate) fn options(&self, target: For, arch: Arch) -> Vec<String> {
        let types = format!("kernel/arch/{}", arch.of_kernel());
        let folders: &[(&str, &str)] = match target {
            For::Kernel => &[
                ("-I", "policies"),
                ("-I", &types),
                ("-I", "kernel"),
                ("-I", "kernel/bpf-compat"),
                ("-I", "libbpf"),
                ("-idirafter", "uapi"),
            ],
            For::Simulator => &[("-I", "policies"), ("-I", "simulator")],
        };
        let option = |(option, folder): &(&str, &str)| {
            format!("{option}{}", self.folder.path().join(folder).display())
        };
        folders.iter().map(option).collect()
    }

    /// Is this one of them?
    pub(crate) fn contain(&self, path: &Path) -> bool {
        path.starts_with(self.folder.path())
    }
}
