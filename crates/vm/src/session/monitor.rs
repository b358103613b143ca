//! Monitors one VM from QEMU's start to its end.
use super::control::Control;
use super::limits::Limits;
use super::process::Qemu;
use super::streams::{Flowing, Streams};
use super::work_folder::WorkFolder;
use super::{Ended, GuestExit};
use crate::console::Console;
use crate::error::KeptLog;
use crate::protocol::{self, GuestMessage, HostMessage, Outcome};
use crate::qemu::{CONSOLE, PORTS};
use crate::{VmError, logs};
use std::ffi::OsString;
use std::io::{self, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two checks of states that change without an event.
const TICK: Duration = Duration::from_millis(50);

/// How long a machine that has crashed may take to end by itself, so that its last messages reach the console.
const CRASH_LIMIT: Duration = Duration::from_secs(2);

/// After a command's time limit, the guest logs the stacks of all tasks. The limit of this log's total time, and of a
/// pause in it.
const STACKS_LIMIT: Duration = Duration::from_secs(60);
const STACKS_PAUSE: Duration = Duration::from_secs(5);

/// The parameters of a VM, before QEMU runs.
pub(super) struct Plan {
    pub qemu: PathBuf,
    pub arguments: Vec<OsString>,
    pub work_folder: WorkFolder,
    pub streams: Streams,
    pub limits: Limits,
    /// The command's name, for messages.
    pub program: String,
    pub cancel: Arc<AtomicBool>,
    pub dropped: Arc<AtomicBool>,
    pub keep_log: bool,
}

/// Sent when the command starts.
pub(super) struct Up {
    pub release: String,
    pub cpus: u32,
    pub control: Arc<Control>,
}

/// The phase of the VM.
enum Phase {
    /// The command has not begun.
    Booting {
        ready: Option<(String, u32)>,
    },
    Running {
        since: Instant,
    },
    /// The command exceeded its time limit; the guest is logging the stacks of all tasks.
    ShowingTasks {
        since: Instant,
    },
    /// The command has ended; the host waits until it has these total bytes of stdout and stderr.
    Draining {
        outcome: Outcome,
        stdout: u64,
        stderr: u64,
    },
    /// All output has arrived; the machine is powering off.
    PoweringOff {
        exit: GuestExit,
        since: Instant,
    },
}

/// A failure, before the log is stored and its path known.
enum Failure {
    BootTimeout,
    RunTimeout,
    Hung,
    Panic(String),
    Died(String),
    /// An error that needs no log.
    Plain(VmError),
}

impl From<VmError> for Failure {
    fn from(error: VmError) -> Self {
        Self::Plain(error)
    }
}

pub(super) struct Monitor {
    // Fields are dropped in this order: QEMU ends before the folder with its files is removed.
    qemu: Qemu,
    plan: Settings,
    work_folder: WorkFolder,
    control: Arc<Control>,
    flowing: Flowing,
    messages: Receiver<io::Result<GuestMessage>>,
    console: Console,
    started: Option<Sender<Up>>,
    phase: Phase,
    begun: Instant,
    /// When the last message from the guest came.
    last_message_at: Instant,
    /// Whether a ping is unanswered.
    ping_pending: bool,
    kernel_log: Vec<String>,
    /// The number of lines in `kernel_log` from before the command.
    boot_lines: usize,
}

/// The parameters that the monitor keeps.
struct Settings {
    limits: Limits,
    program: String,
    cancel: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
    keep_log: bool,
    command_line: String,
}

impl Settings {
    fn interrupted(&self) -> bool {
        self.cancel.load(Ordering::SeqCst) || self.dropped.load(Ordering::SeqCst)
    }
}

impl Monitor {
    /// Runs a VM from its start to its end. When this returns, QEMU has ended and its files are removed.
    pub fn run(plan: Plan, started: Sender<Up>) -> Result<Ended, VmError> {
        let mut monitor = Self::begin(plan, started)?;
        match monitor.watch() {
            Ok(exit) => {
                let kernel_log = monitor.kernel_log.split_off(monitor.boot_lines);
                Ok(Ended { exit, kernel_log })
            }
            Err(failure) => Err(monitor.explain(failure)),
        }
    }

    /// Starts QEMU and waits for it to connect.
    fn begin(plan: Plan, started: Sender<Up>) -> Result<Self, VmError> {
        let Plan { qemu, arguments, work_folder, streams, limits, program, cancel, dropped, keep_log } = plan;
        let command_line =
            arguments.iter().map(|argument| format!("{:?}", argument)).collect::<Vec<_>>().join(" ");
        let settings = Settings { limits, program, cancel, dropped, keep_log, command_line };
        let begun = Instant::now();
        let io = |error| VmError::io("connect to QEMU in", work_folder.path(), error);
        let mut listeners = Vec::new();
        for port in PORTS {
            listeners.push(work_folder.listen(port).map_err(io)?);
        }
        let mut qemu = Qemu::start(&qemu, &arguments, work_folder.path())?;
        let mut sockets = Vec::new();
        for listener in &listeners {
            sockets.push(accept(listener, &mut qemu, &settings, &work_folder, begun)?);
        }
        let [socket, stdin, stdout, stderr]: [UnixStream; 4] =
            sockets.try_into().expect("as many sockets as ports");
        let messages = listen(socket.try_clone().map_err(io)?).map_err(io)?;
        let control = Arc::new(Control::new(socket).map_err(io)?);
        let flowing = streams.connect([stdin, stdout, stderr], &control).map_err(io)?;
        Ok(Self {
            qemu,
            plan: settings,
            control,
            flowing,
            messages,
            console: Console::new(work_folder.path().join(CONSOLE)),
            work_folder,
            started: Some(started),
            phase: Phase::Booting { ready: None },
            begun,
            last_message_at: begun,
            ping_pending: false,
            kernel_log: Vec::new(),
            boot_lines: 0,
        })
    }

    fn watch(&mut self) -> Result<GuestExit, Failure> {
        loop {
            match self.messages.recv_timeout(TICK) {
                Ok(Ok(message)) => self.handle(message)?,
                Ok(Err(error)) => return Err(Failure::Died(format!("it sent nonsense: {error}"))),
                Err(RecvTimeoutError::Timeout) => {}
                // QEMU has closed the port: it is about to end.
                Err(RecvTimeoutError::Disconnected) => sleep(TICK),
            }
            if self.plan.interrupted() {
                return Err(VmError::Interrupted.into());
            }
            self.advance();
            if self.qemu.ended().is_some() {
                return self.ended();
            }
            if self.console.panic().is_some() && !matches!(self.phase, Phase::PoweringOff { .. }) {
                let crashed = Instant::now();
                while crashed.elapsed() < CRASH_LIMIT && self.qemu.ended().is_none() {
                    sleep(TICK);
                }
                return self.ended();
            }
            if self.takes_too_long() {
                self.control.send(HostMessage::ShowTasks);
                self.last_message_at = Instant::now();
                self.phase = Phase::ShowingTasks { since: self.last_message_at };
            }
            if let Some(exit) = self.check_limits()? {
                return Ok(exit);
            }
            self.ping();
        }
    }

    fn handle(&mut self, message: GuestMessage) -> Result<(), Failure> {
        self.last_message_at = Instant::now();
        match message {
            GuestMessage::Ready { release, cpus } => {
                self.phase = Phase::Booting { ready: Some((release, cpus)) };
            }
            GuestMessage::Started { .. } => self.command_started(),
            GuestMessage::Pong => self.ping_pending = false,
            GuestMessage::KernelLog { lines } => self.kernel_log.extend(lines),
            GuestMessage::Fault { reason } => return Err(Failure::Died(reason)),
            // The command ended after its time limit, so this is still an error.
            GuestMessage::Exit { .. } if matches!(self.phase, Phase::ShowingTasks { .. }) => {}
            GuestMessage::Exit { outcome, stdout, stderr } => {
                let command = self.plan.program.clone();
                match outcome {
                    Outcome::NotFound => return Err(VmError::CommandNotFound(command).into()),
                    Outcome::NotExecutable(errno) => {
                        let reason = io::Error::from_raw_os_error(errno).to_string();
                        return Err(VmError::CommandNotExecutable { command, reason }.into());
                    }
                    Outcome::Code(_) | Outcome::Signal(_) => {}
                }
                // Without a command there was no message that it started.
                self.command_started();
                self.phase = Phase::Draining { outcome, stdout, stderr };
            }
        }
        Ok(())
    }

    fn command_started(&mut self) {
        if let (Phase::Booting { ready: Some((release, cpus)) }, Some(started)) =
            (&self.phase, self.started.take())
        {
            self.boot_lines = self.kernel_log.len();
            let up = Up { release: release.clone(), cpus: *cpus, control: self.control.clone() };
            // If the receiver is gone, the VM was dropped, which is checked elsewhere.
            let _ = started.send(up);
            self.phase = Phase::Running { since: Instant::now() };
        }
    }

    /// Requests power-off once all output has arrived.
    fn advance(&mut self) {
        if let Phase::Draining { outcome, stdout, stderr } = self.phase {
            let (have_stdout, have_stderr) = self.flowing.received();
            if have_stdout >= stdout && have_stderr >= stderr {
                let exit = match outcome {
                    Outcome::Signal(signal) => GuestExit::Signal(signal),
                    Outcome::Code(code) | Outcome::NotExecutable(code) => GuestExit::Code(code),
                    Outcome::NotFound => GuestExit::Code(127),
                };
                self.control.send(HostMessage::PowerOff);
                self.phase = Phase::PoweringOff { exit, since: Instant::now() };
            }
        }
    }

    /// The result after QEMU has ended or the guest has crashed.
    fn ended(&mut self) -> Result<GuestExit, Failure> {
        if let Phase::PoweringOff { exit, .. } = self.phase {
            return Ok(exit);
        }
        if let Some(message) = self.console.panic() {
            return Err(Failure::Panic(message));
        }
        let status = self.qemu.ended().map(|status| status.to_string()).unwrap_or_default();
        let said = Qemu::messages(self.work_folder.path());
        let colon = if said.is_empty() { "" } else { ": " };
        Err(Failure::Died(format!("QEMU ended ({status}){colon}{said}")))
    }

    fn takes_too_long(&self) -> bool {
        matches!(&self.phase, Phase::Running { since }
            if self.plan.limits.run.is_some_and(|limit| since.elapsed() > limit))
    }

    fn check_limits(&self) -> Result<Option<GuestExit>, Failure> {
        let limits = &self.plan.limits;
        match &self.phase {
            Phase::Booting { .. } if self.begun.elapsed() > limits.boot => Err(Failure::BootTimeout),
            Phase::Booting { .. } => Ok(None),
            Phase::ShowingTasks { since } => {
                let is_silent = self.last_message_at.elapsed() > STACKS_PAUSE;
                if is_silent || since.elapsed() > STACKS_LIMIT { Err(Failure::RunTimeout) } else { Ok(None) }
            }
            // The command's result is known and is kept, although the machine did not power off in time.
            Phase::PoweringOff { exit, since } if since.elapsed() > limits.power_off => Ok(Some(*exit)),
            _ if self.last_message_at.elapsed() > limits.silence => Err(Failure::Hung),
            _ => Ok(None),
        }
    }

    fn ping(&mut self) {
        let waiting = matches!(self.phase, Phase::Running { .. } | Phase::Draining { .. });
        let limits = &self.plan.limits;
        if waiting
            && !self.ping_pending
            && self.last_message_at.elapsed() > limits.ping.min(limits.silence / 2)
        {
            self.ping_pending = true;
            self.control.send(HostMessage::Ping);
        }
    }

    /// Converts a failure to an error; stores the log if it can explain the failure.
    fn explain(&mut self, failure: Failure) -> VmError {
        // Lines that have arrived and are not read yet belong to the log.
        while let Ok(Ok(GuestMessage::KernelLog { lines })) = self.messages.try_recv() {
            self.kernel_log.extend(lines);
        }
        match failure {
            Failure::Plain(error) => error,
            Failure::BootTimeout => {
                VmError::BootTimeout { limit: self.plan.limits.boot, log: self.keep_log("boot-timeout") }
            }
            Failure::RunTimeout => VmError::RunTimeout {
                limit: self.plan.limits.run.unwrap_or_default(),
                log: self.keep_log("run-timeout"),
            },
            Failure::Hung => {
                VmError::Hung { silence: self.last_message_at.elapsed(), log: self.keep_log("hung") }
            }
            Failure::Panic(message) => VmError::GuestPanic { message, log: self.keep_log("panic") },
            Failure::Died(reason) => VmError::GuestDied { reason, log: self.keep_log("died") },
        }
    }

    fn keep_log(&self, label: &str) -> KeptLog {
        if !self.plan.keep_log {
            return KeptLog::default();
        }
        let text = format!(
            "flsched vm, {label} after {:.1} s; command: {}\n\n--- QEMU ---\n{}\n{}\n\n--- serial console ---\n{}\n\
             --- kernel log, as far as the guest could send it ---\n{}\n",
            self.begun.elapsed().as_secs_f64(),
            self.plan.program,
            self.plan.command_line,
            Qemu::messages(self.work_folder.path()),
            self.console.text(),
            self.kernel_log.join("\n"),
        );
        logs::keep(label, &text)
    }
}

/// Waits for QEMU's connection. It comes at once, unless QEMU rejects its command line.
fn accept(
    listener: &UnixListener,
    qemu: &mut Qemu,
    settings: &Settings,
    work_folder: &WorkFolder,
    begun: Instant,
) -> Result<UnixStream, VmError> {
    let io = |error| VmError::io("connect to QEMU in", work_folder.path(), error);
    listener.set_nonblocking(true).map_err(io)?;
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(false).map_err(io)?;
                return Ok(socket);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(io(error)),
        }
        if settings.interrupted() {
            return Err(VmError::Interrupted);
        }
        if let Some(status) = qemu.ended() {
            let reason = format!("QEMU did not start ({status}): {}", Qemu::messages(work_folder.path()));
            return Err(VmError::GuestDied { reason, log: KeptLog::default() });
        }
        if begun.elapsed() > settings.limits.boot {
            return Err(VmError::BootTimeout { limit: settings.limits.boot, log: KeptLog::default() });
        }
        sleep(Duration::from_millis(5));
    }
}

/// Reads the guest's messages in a thread that ends with QEMU.
fn listen(socket: UnixStream) -> io::Result<Receiver<io::Result<GuestMessage>>> {
    let (sender, messages) = channel();
    std::thread::Builder::new().name("vm-control".into()).spawn(move || {
        let mut lines = BufReader::new(socket);
        while let Some(message) = protocol::receive(&mut lines).transpose() {
            let failed = message.is_err();
            if sender.send(message).is_err() || failed {
                break;
            }
        }
    })?;
    Ok(messages)
}
