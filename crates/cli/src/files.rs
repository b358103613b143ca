//! Files that the user names.
use anyhow::{Context, Result};
use std::path::Path;

/// Writes a file as a whole or not at all.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    flsched_files::replace(path, content).with_context(|| format!("cannot write {}", path.display()))
}
