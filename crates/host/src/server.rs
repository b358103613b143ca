//! The kernel's deadline server for sched_ext: how much of a CPU that other tasks keep busy it gives to tasks of SCHED_EXT.
use crate::Error;
use crate::partial::allowed_cpus;
use crate::sched_ext;
use flsched_base::process::wait_for;
use nix::sys::signal::{SigHandler, Signal, signal};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SERVERS: &str = "/sys/kernel/debug/sched/ext_server";
/// Within this time the share is given. The kernel's own period, 1 s, would let tasks wait half a second for a half.
const PERIOD_NS: u64 = 100_000_000;
/// How long a command's end may wait for the old settings.
const RESTORES_WITHIN: Duration = Duration::from_secs(2);
/// On a CPU that is offline the old settings are tried again so often, and for so long.
const RETRY: Duration = Duration::from_secs(1);
const GIVES_UP_AFTER: Duration = Duration::from_secs(24 * 3600);

/// A share that lasts as long as this. The old settings come back with its end, and by a second process also if this one is
/// killed.
pub struct Share {
    keeper: Child,
}

/// A CPU's server: its run time in each period, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    cpu: usize,
    runtime: u64,
    period: u64,
}

impl Share {
    /// Gives tasks of SCHED_EXT this share of each CPU that this process may use, in percent. `keeper` runs [`keep`]. Call it
    /// while the scheduler is attached: only then the kernel checks whether there is room.
    pub fn set(percent: u64, mut keeper: Command) -> Result<Self, Error> {
        if !sched_ext::has_deadline_server() {
            return Err(Error::NoDeadlineServer);
        }
        let before: Vec<Setting> = allowed_cpus()
            .into_iter()
            .map(|cpu| Setting::read(Path::new(SERVERS), cpu))
            .collect::<io::Result<_>>()
            .map_err(|cause| Error::Share {
                percent,
                cause,
                remedy: "mount debugfs: mount -t debugfs none /sys/kernel/debug",
            })?;
        // SAFETY: these are system calls. In a session of its own, no terminal's Ctrl-C reaches it; nor does a signal that
        // ends the first process, even before the second one's program is loaded.
        unsafe {
            keeper.pre_exec(|| {
                ignore_ends()?;
                nix::unistd::setsid().map(drop).map_err(Into::into)
            })
        };
        let failed = |cause| Error::Share { percent, cause, remedy: "end some processes" };
        let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(failed)?;
        let mut lines = String::new();
        for Setting { cpu, runtime, period } in &before {
            let _ = writeln!(lines, "{cpu} {runtime} {period}");
        }
        let told = keeper.stdin.as_mut().map_or(Ok(()), |pipe| pipe.write_all(lines.as_bytes()));
        // From here on the keeper puts back what it was told, whatever happens to this process.
        let share = Self { keeper };
        told.map_err(failed)?;
        let wanted =
            |old: &Setting| Setting { runtime: PERIOD_NS / 100 * percent, period: PERIOD_NS, ..*old };
        before.iter().map(wanted).try_for_each(|new| new.write(Path::new(SERVERS))).map_err(|cause| Error::Share {
            percent,
            cause,
            remedy: "take a smaller one: reservations of SCHED_DEADLINE tasks, and 5 % for the default class, must fit beside it",
        })?;
        Ok(share)
    }
}

/// Waits until the old settings are back; on a CPU that is offline the keeper puts them back when it comes online.
impl Drop for Share {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = wait_for(&mut self.keeper, RESTORES_WITHIN);
    }
}

/// From here on these signals do not end the calling process.
fn ignore_ends() -> io::Result<()> {
    for end in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: no handler is installed.
        unsafe { signal(end, SigHandler::SigIgn) }?;
    }
    Ok(())
}

/// What the second process does: reads settings from standard input, and writes them when that ends, with the first process.
pub fn keep() -> io::Result<()> {
    ignore_ends()?;
    let mut lines = String::new();
    io::stdin().read_to_string(&mut lines)?;
    let mut left = settings_in(&lines);
    let deadline = Instant::now() + GIVES_UP_AFTER;
    loop {
        let mut failure = Ok(());
        left.retain(|setting| match setting.write(Path::new(SERVERS)) {
            Ok(()) => false,
            Err(error) => {
                failure = Err(error);
                true
            }
        });
        // Newer kernels refuse a CPU that is offline.
        if left.iter().all(|setting| is_online(setting.cpu)) || Instant::now() > deadline {
            return failure;
        }
        sleep(RETRY);
    }
}

fn is_online(cpu: usize) -> bool {
    // CPU 0 has no such file where it cannot go offline.
    fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/online"))
        .is_ok_and(|text| text.trim() == "1")
        || cpu == 0
}

/// The first process may have died while it wrote: the last line counts only if it is whole.
fn settings_in(lines: &str) -> Vec<Setting> {
    let line = |line: &str| {
        let mut numbers = line.strip_suffix('\n')?.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(Setting { cpu: next()? as usize, runtime: next()?, period: next()? })
    };
    lines.split_inclusive('\n').filter_map(line).collect()
}

impl Setting {
    fn file(self, servers: &Path, name: &str) -> PathBuf {
        servers.join(format!("cpu{}", self.cpu)).join(name)
    }

    fn read(servers: &Path, cpu: usize) -> io::Result<Self> {
        let none = Self { cpu, runtime: 0, period: 0 };
        let number =
            |name| fs::read_to_string(none.file(servers, name))?.trim().parse().map_err(io::Error::other);
        Ok(Self { runtime: number("runtime")?, period: number("period")?, ..none })
    }

    /// The kernel refuses a run time above the period, so the order depends on which way they change.
    fn write(self, servers: &Path) -> io::Result<()> {
        let now = Self::read(servers, self.cpu)?;
        let write = |name, value: u64| fs::write(self.file(servers, name), value.to_string());
        if self.period >= now.period {
            write("period", self.period)?;
            write("runtime", self.runtime)
        } else {
            write("runtime", self.runtime)?;
            write("period", self.period)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_cut_off_is_not_a_setting() {
        let found = settings_in("0 50000000 1000000000\n12 1 2\n13 5000");
        let first = Setting { cpu: 0, runtime: 50_000_000, period: 1_000_000_000 };
        assert_eq!(found, [first, Setting { cpu: 12, runtime: 1, period: 2 }]);
    }

    #[test]
    fn writes_what_it_reads() {
        let servers = std::env::temp_dir().join(format!("flsched-share-{}", std::process::id()));
        fs::create_dir_all(servers.join("cpu7")).unwrap();
        fs::write(servers.join("cpu7/runtime"), "50000000\n").unwrap();
        fs::write(servers.join("cpu7/period"), "1000000000\n").unwrap();
        let old = Setting::read(&servers, 7).unwrap();
        let new = Setting { cpu: 7, runtime: 40_000_000, period: PERIOD_NS };
        new.write(&servers).unwrap();
        let read = Setting::read(&servers, 7).unwrap();
        old.write(&servers).unwrap();
        let again = Setting::read(&servers, 7).unwrap();
        fs::remove_dir_all(&servers).unwrap();
        assert_eq!((read, again), (new, old));
    }
}
