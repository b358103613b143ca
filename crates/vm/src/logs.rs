//! What the guest said, kept for the user when a VM fails.
use crate::error::KeptLog;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Older ones are removed.
const KEPT: usize = 20;

/// Writes the log; a log that cannot be kept must not hide the failure that it records.
pub(crate) fn keep(label: &str, text: &str) -> KeptLog {
    KeptLog(folder().and_then(|folder| keep_in(&folder, label, text)))
}

fn folder() -> Option<PathBuf> {
    Some(dirs::state_dir().or_else(dirs::cache_dir)?.join("flsched").join("vm-logs"))
}

fn keep_in(folder: &Path, label: &str, text: &str) -> Option<PathBuf> {
    fs::create_dir_all(folder).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    // Ten digits until the year 2286: names sort by age.
    let name = format!("{:010}.{:03}-{label}-{}.log", now.as_secs(), now.subsec_millis(), std::process::id());
    let path = folder.join(name);
    fs::write(&path, text).ok()?;
    prune(folder);
    Some(path)
}

fn prune(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    let mut logs: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_log).collect();
    logs.sort();
    for old in &logs[..logs.len().saturating_sub(KEPT)] {
        let _ = fs::remove_file(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_only_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        for old in 0..KEPT + 5 {
            fs::write(folder.path().join(format!("{old:010}.000-hung-1.log")), "old").unwrap();
        }
        let kept = keep_in(folder.path(), "panic", "new").unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), KEPT);
        assert!(!folder.path().join("0000000000.000-hung-1.log").exists());
    }
}
