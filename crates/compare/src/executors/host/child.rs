//! A workload's process: started in its class, waited for, and ended with all its descendants.
use super::class::{self, Class};
use crate::execute::ExecError;
use flsched_base::process::{end_with_parent, wait_for};
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause between two checks whether to stop. Long, so as not to disturb the workload.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// How much of the end of an output is reported, in bytes.
const TAIL: u64 = 2_000;

/// A running process, which leads a process group of its own.
pub(super) struct Child {
    process: std::process::Child,
    started: Instant,
    output: Captured,
    error: Captured,
}

/// How a child ended.
pub(super) struct ChildEnd {
    /// `None`: it did not end in time and was killed.
    pub(super) status: Option<ExitStatus>,
    /// The time from before its start until its end was noticed.
    pub(super) elapsed: Duration,
    output: Captured,
    error: Captured,
}

impl Child {
    /// Starts a program in a class of the kernel, with `environment` in addition to this process's. Its output goes to
    /// memory files, so no thread has to read it while the workload runs.
    pub(super) fn spawn(
        argv: &[OsString],
        environment: Vec<(OsString, OsString)>,
        class: Class,
    ) -> io::Result<Self> {
        let (program, arguments) = argv.split_first().ok_or_else(|| io::Error::other("an empty command"))?;
        let output = Captured::new()?;
        let error = Captured::new()?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(output.writer()?)
            .stderr(error.writer()?)
            .process_group(0);
        end_with_parent(&mut command);
        // SAFETY: between fork and exec there are only async-signal-safe system calls.
        unsafe {
            command.pre_exec(move || {
                raise_file_limit();
                class.enter()
            });
        }
        let started = Instant::now();
        let process = command.spawn().map_err(|error| {
            let program = program.display();
            let text = match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EPERM) => {
                    format!(
                        "cannot start `{program}` in class {}: {error} (run as root)",
                        class::name(class.policy)
                    )
                }
                _ => format!("cannot start `{program}`: {error}"),
            };
            io::Error::new(error.kind(), text)
        })?;
        Ok(Self { process, started, output, error })
    }

    /// Its scheduling class, as the kernel reports it.
    pub(super) fn class(&self) -> Option<libc::c_int> {
        // SAFETY: the call takes an integer only.
        let class = unsafe { libc::sched_getscheduler(self.process.id() as libc::pid_t) };
        (class >= 0).then_some(class & !libc::SCHED_RESET_ON_FORK)
    }

    /// Waits for its end, at most `limit`. Then kills all processes of its group, so that none runs during the next
    /// run.
    pub(super) fn wait(mut self, limit: Duration, cancel: &AtomicBool) -> Result<ChildEnd, ExecError> {
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(ExecError::Interrupted);
            }
            let left = limit.saturating_sub(self.started.elapsed());
            let status = wait_for(&mut self.process, left.min(CHECK_INTERVAL));
            let status = status.map_err(|error| ExecError::Unable(error.to_string()))?;
            if status.is_some() || left.is_zero() {
                let elapsed = self.started.elapsed();
                return Ok(self.end(status, elapsed));
            }
        }
    }

    fn end(self, status: Option<ExitStatus>, elapsed: Duration) -> ChildEnd {
        let (output, error) = (self.output.clone(), self.error.clone());
        drop(self);
        ChildEnd { status, elapsed, output, error }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.process.id() as libc::pid_t), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

impl ChildEnd {
    /// All that it printed.
    pub(super) fn output(&self) -> String {
        self.output.text()
    }

    /// The end of its standard error, with a colon before it; empty if there is none.
    pub(super) fn error_tail(&self) -> String {
        match self.error.tail() {
            text if text.is_empty() => String::new(),
            text => format!(": {text}"),
        }
    }
}

/// A file in memory that a process writes to.
#[derive(Clone)]
pub(super) struct Captured(std::rc::Rc<File>);

impl Captured {
    pub(super) fn new() -> io::Result<Self> {
        let file = memfd_create(c"flsched-output", MFdFlags::MFD_CLOEXEC)?;
        Ok(Self(std::rc::Rc::new(file.into())))
    }

    pub(super) fn writer(&self) -> io::Result<Stdio> {
        self.0.try_clone().map(Stdio::from)
    }

    fn text(&self) -> String {
        self.read_from(SeekFrom::Start(0))
    }

    /// The end of the output as one line.
    pub(super) fn tail(&self) -> String {
        let length = self.0.metadata().map_or(0, |meta| meta.len());
        let text = self.read_from(SeekFrom::Start(length.saturating_sub(TAIL)));
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" | ")
    }

    fn read_from(&self, position: SeekFrom) -> String {
        let mut file = &*self.0;
        let mut bytes = Vec::new();
        let _ = file.seek(position).and_then(|_| file.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// hackbench needs a file descriptor for every end of every channel.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> ChildEnd {
        let argv = ["sh", "-c", script].map(OsString::from);
        let child = Child::spawn(&argv, Vec::new(), Class::NORMAL).unwrap();
        child.wait(limit, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn output_and_status() {
        let end = run("echo out; echo err >&2; exit 3", Duration::from_secs(10));
        assert_eq!(end.status.and_then(|status| status.code()), Some(3));
        assert_eq!((end.output().as_str(), end.error_tail().as_str()), ("out\n", ": err"));
    }

    #[test]
    fn the_limit_ends_it_and_all_it_started() {
        let started = Instant::now();
        // Long enough for a shell to begin on a busy machine.
        let end = run("sleep 60 & echo $!; wait", Duration::from_secs(1));
        assert!(end.status.is_none() && started.elapsed() < Duration::from_secs(20));
        let pid: i32 = end.output().trim().parse().unwrap();
        let gone = || nix::sys::signal::kill(Pid::from_raw(pid), None).is_err() || is_zombie(pid);
        while !gone() {
            assert!(started.elapsed() < Duration::from_secs(20), "{pid} still runs");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The orphan may not have been reaped yet.
    fn is_zombie(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|text| text.contains(") Z "))
    }

    #[test]
    fn cancelling_ends_it() {
        let argv = ["sleep", "60"].map(OsString::from);
        let child = Child::spawn(&argv, Vec::new(), Class::of(&"batch".parse().unwrap())).unwrap();
        assert_eq!(child.class(), Some(libc::SCHED_BATCH));
        let end = child.wait(Duration::MAX, &AtomicBool::new(true));
        assert!(matches!(end, Err(ExecError::Interrupted)));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Child::spawn(&["/no/such".into()], Vec::new(), Class::NORMAL).err().unwrap();
        assert!(error.to_string().contains("cannot start `/no/such`: No such file"), "{error}");
    }
}
