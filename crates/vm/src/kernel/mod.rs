//! Stock kernels: finds and downloads them, and checks whether sched_ext programs load on them.
//!
//! A request goes through these modules: [`request`] parses what the user asked for. [`host`] finds
//! the machine's own kernel, [`cache`] the kernels that were fetched before, [`apt`] and [`index`]
//! those that Debian offers. [`choice`] selects the best of them, [`fetch`] downloads it, and
//! [`image`] and [`btf`] check it without a boot. [`source`] fetches the source of a series, [`build`] builds a kernel from it.
//! [`catalog`] combines them, and is the only part that other modules need.
pub(crate) mod apt;
mod btf;
mod build;
pub(crate) mod cache;
mod catalog;
mod choice;
mod error;
mod fetch;
mod host;
mod image;
mod index;
mod request;
mod source;
pub(crate) mod subprocess;
mod version;

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub use btf::running_kernel_btf;
pub use cache::cache_folder;
pub use catalog::{Catalog, ListedKernel, Place};
pub use error::KernelError;
pub use request::KernelRequest;
pub use version::is_series;

/// The default series, where the host's own kernel cannot be used and the user names none: the
/// long-term series on which the published figures are measured.
pub const DEFAULT_SERIES: &str = "6.18";

/// Whether the kernel's BTF describes the scx kfuncs so that programs can load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "state", content = "detail")]
pub enum BtfHealth {
    /// Every scx kfunc has a usable prototype.
    Good,
    /// These kfuncs still carry the implicit argument: programs will be refused.
    Malformed(Vec<String>),
    /// The BTF could not be read from the image, for this reason.
    Unknown(String),
}

/// A kernel image that is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    pub image: PathBuf,
    /// Its build configuration, to become `/boot/config-RELEASE` in the guest.
    pub config: Option<PathBuf>,
    /// Whether sched_ext programs load on it.
    pub btf: BtfHealth,
}

/// Whether this build configuration switches sched_ext on; `None` if it cannot be read.
fn config_has_sched_ext(config: &Path) -> Option<bool> {
    let text = std::fs::read_to_string(config).ok()?;
    Some(text.lines().any(|line| line == "CONFIG_SCHED_CLASS_EXT=y"))
}
