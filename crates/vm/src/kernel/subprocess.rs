//! Runs apt, make and related programs: with a time limit, cancellable, and killed when this program ends.
use super::KernelError;
use flsched_base::process::{end_with_parent, wait_for};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause between two checks whether to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two reports of a program's last line.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// How long a program may take to end when it is asked to: make removes unfinished files.
const GRACE: Duration = Duration::from_secs(5);

/// The result of a finished program.
pub(super) struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A command without input. Its messages are in English, because they are parsed.
pub(crate) fn command(tool: &str) -> Command {
    let mut command = Command::new(tool);
    command.stdin(Stdio::null()).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Runs a command to its end. `doing` names the purpose in error messages.
pub(super) fn run(
    command: Command,
    doing: &str,
    limit: Duration,
    cancel: &AtomicBool,
) -> Result<Finished, KernelError> {
    let mut running = Running::start(command)?;
    let stdout = running.child.stdout.take();
    running.collect(stdout, doing, limit, cancel)
}

/// Runs a command to its end, with all output in a file. `each` regularly gets the last line.
pub(crate) fn run_logged(
    command: Command,
    doing: &str,
    limit: Duration,
    cancel: &AtomicBool,
    log: &Path,
    each: &mut dyn FnMut(&str),
) -> Result<ExitStatus, KernelError> {
    let file = File::create(log).map_err(|e| KernelError::io("create", log, e))?;
    let copy = file.try_clone().map_err(|e| KernelError::io("create", log, e))?;
    let mut running = Running::start_with(command, file.into(), copy.into())?;
    let mut reported_at = Instant::now();
    running.wait(doing, limit, cancel, &mut || {
        if reported_at.elapsed() < REPORT_INTERVAL {
            return;
        }
        reported_at = Instant::now();
        if let Ok(text) = std::fs::read(log)
            && let Some(line) = String::from_utf8_lossy(&text).lines().next_back()
        {
            each(line);
        }
    })
}

/// Runs `first | second`; both must succeed.
pub(super) fn pipe(
    first: Command,
    mut second: Command,
    doing: &str,
    limit: Duration,
    cancel: &AtomicBool,
) -> Result<(), KernelError> {
    let mut source = Running::start(first)?;
    if let Some(stdout) = source.child.stdout.take() {
        second.stdin(stdout);
    }
    let mut sink = Running::start(second)?;
    let stdout = sink.child.stdout.take();
    let sink = sink.collect(stdout, doing, limit, cancel)?;
    let source = source.collect(None, doing, limit, cancel)?;
    if sink.status.success() && source.status.success() {
        return Ok(());
    }
    // The reader's error, such as a full disk, comes first: the writer only gets a broken pipe from it.
    Err(KernelError::Failed { doing: doing.to_owned(), detail: last_words(&(sink.stderr + &source.stderr)) })
}

/// The first error message in a program's output, or else its first line.
pub(super) fn last_words(stderr: &str) -> String {
    // tar first says how much of a block it has written, and then why.
    let complaint = |line: &&str| {
        line.starts_with("E:") || line.starts_with("Err:") || line.contains("No space left on device")
    };
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next();
    lines.find(complaint).or(first).unwrap_or("it gave no reason").trim_start_matches("E: ").to_owned()
}

/// A started program. Dropping it ends its process group.
struct Running {
    child: Child,
    group: Pid,
    ended: bool,
}

impl Running {
    fn start(command: Command) -> Result<Self, KernelError> {
        Self::start_with(command, Stdio::piped(), Stdio::piped())
    }

    fn start_with(mut command: Command, stdout: Stdio, stderr: Stdio) -> Result<Self, KernelError> {
        let tool = command.get_program().to_string_lossy().into_owned();
        command.stdout(stdout).stderr(stderr);
        // A separate process group, so that apt's download helpers can be killed with it.
        command.process_group(0);
        end_with_parent(&mut command);
        let child = command.spawn().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                let package = match tool.as_str() {
                    "tar" => "tar",
                    tool if tool.starts_with("dpkg") => "dpkg",
                    _ => "apt",
                };
                KernelError::NoTool { tool: tool.clone(), package: package.into() }
            }
            _ => KernelError::Failed { doing: format!("starting {tool}"), detail: source.to_string() },
        })?;
        let group = Pid::from_raw(child.id() as i32);
        Ok(Self { child, group, ended: false })
    }

    fn collect(
        mut self,
        stdout: Option<ChildStdout>,
        doing: &str,
        limit: Duration,
        cancel: &AtomicBool,
    ) -> Result<Finished, KernelError> {
        // Threads read the two pipes, because the program blocks when one of them is not read.
        let stdout = stdout.map(reader);
        let stderr = self.child.stderr.take().map(reader);
        let status = self.wait(doing, limit, cancel, &mut || {})?;
        let text = |thread: Option<JoinHandle<Vec<u8>>>| {
            let bytes = thread.and_then(|t| t.join().ok()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ok(Finished { status, stdout: text(stdout), stderr: text(stderr) })
    }
}

impl Running {
    fn wait(
        &mut self,
        doing: &str,
        limit: Duration,
        cancel: &AtomicBool,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<ExitStatus, KernelError> {
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let status = wait_for(&mut self.child, left.min(CHECK_INTERVAL))
                .map_err(|e| KernelError::Failed { doing: doing.to_owned(), detail: e.to_string() })?;
            if let Some(status) = status {
                self.ended = true;
                // Processes that it left running would keep the pipes open.
                let _ = killpg(self.group, Signal::SIGKILL);
                return Ok(status);
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(KernelError::Interrupted);
            }
            if left.is_zero() {
                return Err(KernelError::TimedOut { doing: doing.to_owned(), limit });
            }
            meanwhile();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            let _ = killpg(self.group, Signal::SIGTERM);
            let _ = wait_for(&mut self.child, GRACE);
            let _ = killpg(self.group, Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Command {
        let mut shell = command("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn output_and_code_come_back() {
        let done = run(shell("echo out; echo err >&2; exit 3"), "test", MOMENT, &AtomicBool::new(false));
        let done = done.unwrap();
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(done.status.code(), Some(3));
    }

    #[test]
    fn the_time_limit_kills_grandchildren_too() {
        let start = Instant::now();
        let limit = Duration::from_millis(50);
        let error = run(shell("sleep 60 & sleep 60"), "test", limit, &AtomicBool::new(false));
        assert!(matches!(error, Err(KernelError::TimedOut { .. })));
        assert!(start.elapsed() < MOMENT);
    }

    #[test]
    fn a_program_can_clean_up_before_it_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut slow = shell("trap 'sleep 0.2; rm unfinished; exit 1' TERM; touch unfinished; sleep 60");
        slow.current_dir(folder.path());
        let error = run(slow, "test", Duration::from_secs(1), &AtomicBool::new(false));
        assert!(matches!(error, Err(KernelError::TimedOut { .. })));
        assert!(!folder.path().join("unfinished").exists());
    }

    #[test]
    fn cancelling_ends_it() {
        let error = run(shell("sleep 60"), "test", MOMENT, &AtomicBool::new(true));
        assert!(matches!(error, Err(KernelError::Interrupted)));
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let error = run(command("dpkg-nonsense"), "test", MOMENT, &AtomicBool::new(false));
        let Err(KernelError::NoTool { tool, package }) = error else { panic!("no such error") };
        assert_eq!((tool.as_str(), package.as_str()), ("dpkg-nonsense", "dpkg"));
    }

    #[test]
    fn both_ends_of_a_pipe_count() {
        let never = AtomicBool::new(false);
        assert!(pipe(shell("echo x"), shell("grep -q x"), "test", MOMENT, &never).is_ok());
        assert!(pipe(shell("echo x; exit 1"), shell("cat"), "test", MOMENT, &never).is_err());
        assert!(pipe(shell("echo x"), shell("exit 1"), "test", MOMENT, &never).is_err());
    }

    #[test]
    fn complaints_are_found_among_chatter() {
        assert_eq!(last_words("W: hm\nE: no such thing\nE: more"), "no such thing");
        assert_eq!(last_words("  first\nsecond"), "first");
        let of_tar = "tar: x: Wrote only 512 of 10240 bytes\ntar: x: Cannot write: No space left on device";
        assert!(last_words(of_tar).contains("No space left"));
        assert_eq!(last_words(""), "it gave no reason");
    }
}
