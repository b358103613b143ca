//! A temporary change of a setting of the kernel's own scheduler.
//!
//! A separate shell restores the old value at the end of its input. Its input ends when the run is over, and also when
//! this program is killed.
use nix::mount::{MsFlags, mount};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const DEBUGFS: &str = "/sys/kernel/debug";
const BASE_SLICE: &str = "/sys/kernel/debug/sched/base_slice_ns";
const LLC_BALANCING: &str = "/sys/kernel/debug/sched/llc_balancing/enabled";
/// Waits until its input ends, then writes its first argument into its second.
const RESTORE: &str = "while read -r line; do :; done; echo \"$1\" >\"$2\"";

/// A changed setting. Dropping it restores the old value.
pub(super) struct Setting {
    file: &'static Path,
    wanted: u64,
    before: u64,
    restorer: Child,
}

impl Setting {
    /// Changes the setting with this name for the whole machine.
    pub(super) fn set(name: &str, value: u64) -> io::Result<Self> {
        let (file, wanted, since) = match name {
            "slice_us" => (BASE_SLICE, value * 1000, "Linux 6.6 or newer has it"),
            "llc_balancing" => (LLC_BALANCING, value, "Linux 7.2 or newer with CONFIG_SCHED_CACHE=y has it"),
            _ => return Err(io::Error::other("a kernel has no such setting")),
        };
        let file = Path::new(file);
        if !file.exists() && !Path::new(DEBUGFS).join("sched").exists() {
            // Distributions mount it at boot. It stays mounted.
            mount(Some("debugfs"), DEBUGFS, Some("debugfs"), MsFlags::empty(), None::<&str>)
                .map_err(|error| io::Error::other(format!("cannot mount debugfs at {DEBUGFS}: {error}")))?;
        }
        if !file.exists() {
            return Err(io::Error::other(format!("this kernel has no {} ({since})", file.display())));
        }
        Self::set_in(file, wanted)
    }

    fn set_in(file: &'static Path, wanted: u64) -> io::Result<Self> {
        let before = read(file)?;
        let restorer = Command::new("sh")
            .args(["-c", RESTORE, "sh", &before.to_string()])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // The shell must not get Ctrl-C: this program handles it and then ends the shell's input.
            .process_group(0)
            .spawn()?;
        let setting = Self { file, wanted, before, restorer };
        fs::write(file, wanted.to_string())
            .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
        match read(file)? {
            now if now == wanted => Ok(setting),
            now => Err(io::Error::other(format!("{} is {now}, not {wanted}", file.display()))),
        }
    }

    /// Restores the old value. Returns a message if another program had changed the setting in between.
    pub(super) fn restore(mut self) -> io::Result<Option<String>> {
        let at_end = read(self.file)?;
        self.put_back()?;
        let now = read(self.file)?;
        if now != self.before {
            return Err(io::Error::other(format!("{} is {now}, was {}", self.file.display(), self.before)));
        }
        let path = self.file.display();
        Ok((at_end != self.wanted).then(|| format!("{path} was changed to {at_end} during the run")))
    }

    fn put_back(&mut self) -> io::Result<()> {
        drop(self.restorer.stdin.take());
        self.restorer.wait().map(drop)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = self.put_back();
    }
}

fn read(file: &Path) -> io::Result<u64> {
    let text =
        fs::read_to_string(file).map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
    text.trim().parse().map_err(|_| io::Error::other(format!("{}: not a number: {text}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A separate file for each test: the tests check which process writes what and when.
    fn file() -> &'static Path {
        let (_, path) = tempfile::NamedTempFile::new().unwrap().keep().unwrap();
        fs::write(&path, "2800000\n").unwrap();
        Box::leak(path.into_boxed_path())
    }

    #[test]
    fn comes_back() {
        let file = file();
        let setting = Setting::set_in(file, 20_000_000).unwrap();
        assert_eq!(read(file).unwrap(), 20_000_000);
        assert_eq!(setting.restore().unwrap(), None);
        assert_eq!(read(file).unwrap(), 2_800_000);
        drop(Setting::set_in(file, 100_000).unwrap());
        assert_eq!(read(file).unwrap(), 2_800_000);
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn another_hand_is_noticed() {
        let file = file();
        let setting = Setting::set_in(file, 20_000_000).unwrap();
        fs::write(file, "5").unwrap();
        assert!(setting.restore().unwrap().is_some_and(|text| text.contains("changed to 5")));
        assert_eq!(read(file).unwrap(), 2_800_000);
        fs::remove_file(file).unwrap();
    }
}
