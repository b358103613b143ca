//! Files that the user names.
use anyhow::{Context, Result};
use std::path::Path;

/// Whether a file can be written, before the work that it is to hold.
pub fn check(path: &Path) -> Result<()> {
    flsched_files::check(path).with_context(|| cannot_write(path))
}

/// Writes a file as a whole or not at all.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    flsched_files::replace(path, content).with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
