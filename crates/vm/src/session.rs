//! One boot: starts QEMU, runs one command inside, and returns its output and exit code.
//!
//! `Vm::boot` packs the files and boots. [`monitor`] then observes the machine in a separate thread until it has
//! ended, so that a time limit, a panic or Ctrl-C ends it even while the caller is busy with the command's output.
//! [`streams`] copies input and output.
mod control;
mod environment;
mod limits;
mod monitor;
mod process;
mod streams;
mod work_folder;

use crate::initramfs::{self, Contents};
use crate::protocol::{Assignment, HostMessage};
use crate::qemu::{self, Engine, Machine};
use crate::{Accel, Arch, Cgroup, Clock, Foreign, Kernel, Parallel, Topology, VmError, delay, hierarchy};
use control::Control;
use limits::Limits;
use monitor::{Monitor, Plan};
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use streams::Streams;
use work_folder::WorkFolder;

/// A machine to boot.
#[derive(Debug, Clone)]
pub struct VmSpec {
    /// The kernel to boot.
    pub kernel: Kernel,
    /// What it needs if its processor is not this machine's.
    pub foreign: Option<Foreign>,
    pub topology: Topology,
    /// Guest memory in MiB.
    pub memory_mib: u32,
    /// Further arguments of the guest's kernel, as on its command line; they come last.
    pub kernel_arguments: String,
    /// What guest time means.
    pub clock: Clock,
    /// What executes the guest's instructions.
    pub accel: Accel,
    /// Host programs that must be runnable inside, with the libraries they need.
    pub programs: Vec<PathBuf>,
    /// Further host files and folders, at the same path inside.
    pub files: Vec<PathBuf>,
    /// The program that is process 1 inside; `None`: the running executable. Its `main` must begin
    /// with [`crate::guest::is_guest_init`].
    pub init: Option<PathBuf>,
    /// Where in the guest's tree of cgroups the command runs.
    pub cgroup: Cgroup,
    /// How long the boot may take; `None`: a limit that fits CPUs and accelerator.
    pub boot_limit: Option<Duration>,
    /// How long the command may run; `None`: no limit but the hang detector.
    pub run_limit: Option<Duration>,
    /// How long the guest may send no message; `None`: a limit that fits CPUs and accelerator.
    pub hang_limit: Option<Duration>,
    /// Set from a signal handler: the VM is killed and `VmError::Interrupted` returned.
    pub cancel: Arc<AtomicBool>,
}

impl VmSpec {
    /// A VM with this kernel and topology; all other settings have their defaults.
    pub fn new(kernel: Kernel, topology: Topology) -> Self {
        Self {
            kernel,
            foreign: None,
            topology,
            memory_mib: 1024,
            kernel_arguments: String::new(),
            clock: Clock::Wall,
            accel: Accel::Auto,
            programs: Vec::new(),
            files: Vec::new(),
            init: None,
            cgroup: Cgroup::default(),
            boot_limit: None,
            run_limit: None,
            hang_limit: None,
            cancel: Arc::default(),
        }
    }

    /// The machine's processor.
    pub fn arch(&self) -> Arch {
        self.foreign.as_ref().map_or(Arch::HOST, |foreign| foreign.arch)
    }

    pub(crate) fn check(&self) -> Result<(), VmError> {
        self.topology.check().map_err(VmError::Topology)?;
        self.clock.check_topology(&self.topology).map_err(VmError::Topology)?;
        for file in self.init.iter().chain([&self.kernel.image]) {
            if !file.is_file() {
                return Err(VmError::ProgramMissing(file.clone()));
            }
        }
        Ok(())
    }

    /// Checks whether kernel and files fit into memory: the archive is there until it is unpacked, and what the command
    /// writes and needs itself gets as much again.
    fn check_memory(&self, files: u64) -> Result<(), VmError> {
        let files = u32::try_from(files >> 20).unwrap_or(u32::MAX).saturating_add(1);
        let needed = KERNEL_MIB.saturating_add(files.saturating_mul(3));
        if self.memory_mib >= needed {
            return Ok(());
        }
        Err(VmError::BadMachine(format!(
            "{} MiB of memory are too few: kernel, programs and files need {needed} MiB; add --memory {needed}M",
            self.memory_mib
        )))
    }
}

/// Memory that the kernel itself needs to boot, with a margin.
const KERNEL_MIB: u32 = 160;

/// The command that runs inside.
#[derive(Debug, Clone)]
pub struct GuestCommand {
    /// Program and arguments; the program is looked up in the guest's PATH.
    pub argv: Vec<OsString>,
    /// Environment on top of the guest's own.
    pub env: Vec<(OsString, OsString)>,
}

/// Properties of a booted guest.
#[derive(Debug, Clone)]
pub struct BootInfo {
    /// The guest's `uname -r`.
    pub release: String,
    /// CPUs online in the guest.
    pub cpus: u32,
    /// From starting QEMU to the first command, on the host's clock.
    pub boot_time: Duration,
    /// The QEMU that runs it.
    pub qemu: PathBuf,
    /// What executes it: `kvm`, `tcg,thread=multi`, …
    pub accel: String,
    /// Why KVM is not used although it is preferred, as a message for the user.
    pub accel_note: Option<String>,
}

/// How the command inside ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestExit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

impl GuestExit {
    /// The exit code as a shell reports it: the code, or 128 + the signal.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// The result of a VM that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// How the command ended.
    pub exit: GuestExit,
    /// What the guest's kernel logged while the command ran, one line each; normally only
    /// sched_ext's messages on schedulers that are attached and detached.
    pub kernel_log: Vec<String>,
}

/// A running VM with a command in it. Dropping it kills the VM.
///
/// A caller that takes an output must read it while the command runs, or the command blocks as it does on a full pipe.
/// [`Vm::wait`] discards outputs that were not taken, and ends the command's input if it was not taken.
#[derive(Debug)]
pub struct Vm {
    info: BootInfo,
    control: Arc<Control>,
    stdin: Option<UnixStream>,
    stdout: Option<UnixStream>,
    stderr: Option<UnixStream>,
    dropped: Arc<AtomicBool>,
    monitor: Option<JoinHandle<Result<Ended, VmError>>>,
}

impl Vm {
    /// Boots with this engine. `keep_log`: whether to store a log file after a failure.
    pub(crate) fn boot(
        spec: &VmSpec,
        command: &GuestCommand,
        engine: Engine,
        accel_note: Option<String>,
        keep_log: bool,
    ) -> Result<Vm, VmError> {
        spec.check()?;
        let qemu = engine.qemu(spec.arch())?;
        let work_folder = WorkFolder::open()?;
        pack(spec, command, &work_folder)?;
        describe_memory(spec, work_folder.path())?;
        let kernel = std::path::absolute(&spec.kernel.image)
            .map_err(|error| VmError::io("find", &spec.kernel.image, error))?;
        let machine = Machine {
            arch: spec.arch(),
            kernel: &kernel,
            topology: spec.topology,
            memory_mib: spec.memory_mib,
            engine,
            further_arguments: &spec.kernel_arguments,
            loops_per_jiffy: delay::loops_per_jiffy(&spec.kernel, spec.arch(), engine),
            firmware: &qemu::firmware(),
        };
        let defaults = Limits::fitting(engine, spec.topology.cpus());
        let (streams, ends) =
            Streams::new().map_err(|error| VmError::io("connect", work_folder.path(), error))?;
        let dropped = Arc::new(AtomicBool::new(false));
        let plan = Plan {
            arguments: machine.arguments(),
            qemu: qemu.clone(),
            work_folder,
            streams,
            limits: Limits {
                boot: spec.boot_limit.unwrap_or(defaults.boot),
                run: spec.run_limit,
                silence: spec.hang_limit.unwrap_or(defaults.silence),
                ..defaults
            },
            program: command.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            cancel: spec.cancel.clone(),
            dropped: dropped.clone(),
            keep_log,
        };
        let begun = Instant::now();
        let (started, up) = mpsc::channel();
        let monitor = std::thread::Builder::new()
            .name("vm-monitor".into())
            .spawn(move || Monitor::run(plan, started))
            .map_err(|error| VmError::io("start a thread for", &kernel, error))?;
        let Ok(up) = up.recv() else {
            // The monitor ended before the guest was up; its result is the reason.
            return Err(match monitor.join() {
                Ok(Err(error)) => error,
                Ok(Ok(_)) => unreachable!("a machine that never was up cannot end well"),
                Err(panic) => std::panic::resume_unwind(panic),
            });
        };
        let info = BootInfo {
            release: up.release,
            cpus: up.cpus,
            boot_time: begun.elapsed(),
            qemu,
            accel: engine.name().to_owned(),
            accel_note,
        };
        Ok(Vm {
            info,
            control: up.control,
            stdin: Some(ends.stdin),
            stdout: Some(ends.stdout),
            stderr: Some(ends.stderr),
            dropped,
            monitor: Some(monitor),
        })
    }

    /// The command's standard input (once). Closing it ends the input.
    pub fn take_stdin(&mut self) -> Option<UnixStream> {
        self.stdin.take()
    }

    /// The command's standard output (once).
    pub fn take_stdout(&mut self) -> Option<UnixStream> {
        self.stdout.take()
    }

    /// The command's standard error (once).
    pub fn take_stderr(&mut self) -> Option<UnixStream> {
        self.stderr.take()
    }

    /// Properties of the guest.
    pub fn boot_info(&self) -> &BootInfo {
        &self.info
    }

    /// Sends a signal to the command and its children in the guest.
    pub fn signal(&self, number: i32) {
        self.control.send(HostMessage::Signal { number });
    }

    /// Waits until the command and the VM have ended.
    pub fn wait(self) -> Result<GuestExit, VmError> {
        self.finish().map(|ended| ended.exit)
    }

    /// Like [`Vm::wait`], with the kernel's log.
    pub fn finish(mut self) -> Result<Ended, VmError> {
        self.close();
        self.join().expect("the monitor is joined once")
    }

    fn close(&mut self) {
        (self.stdin, self.stdout, self.stderr) = (None, None, None);
    }

    fn join(&mut self) -> Option<Result<Ended, VmError>> {
        let ended = self.monitor.take()?.join();
        Some(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::SeqCst);
        self.close();
        if let Some(monitor) = self.monitor.take() {
            // Nothing receives the result any more; only the end of the thread matters.
            let _ = monitor.join();
        }
    }
}

/// Writes what the emulator is to read of the machine whose memory is modelled.
fn describe_memory(spec: &VmSpec, folder: &Path) -> Result<(), VmError> {
    let Clock::Parallel(Parallel { memory: Some(memory), .. }) = spec.clock else { return Ok(()) };
    let file = folder.join(hierarchy::FILE);
    std::fs::write(&file, memory.file(&spec.topology)).map_err(|error| VmError::io("write", &file, error))
}

fn pack(spec: &VmSpec, command: &GuestCommand, work_folder: &WorkFolder) -> Result<(), VmError> {
    let init = match (&spec.init, &spec.foreign) {
        (Some(init), _) => init.clone(),
        (None, Some(foreign)) => foreign.program.clone(),
        (None, None) => {
            std::env::current_exe().map_err(|error| VmError::io("find", "/proc/self/exe".as_ref(), error))?
        }
    };
    let assignment = Assignment {
        argv: command.argv.clone(),
        env: environment::of(spec, command),
        cgroup: spec.cgroup,
        directory: std::env::current_dir().map_or_else(|_| "/".into(), OsString::from),
        hostname: "flsched-vm".into(),
    };
    let contents = Contents {
        kernel: &spec.kernel,
        foreign: spec.foreign.as_ref(),
        init: &init,
        programs: &spec.programs,
        files: &spec.files,
        assignment: &assignment,
    };
    let bytes = initramfs::write(&contents, &work_folder.path().join(qemu::INITRAMFS))?;
    spec.check_memory(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BtfHealth;

    fn spec() -> VmSpec {
        let image = std::env::current_exe().unwrap();
        let kernel = Kernel { release: "6.18".into(), image, config: None, btf: BtfHealth::Good };
        VmSpec::new(kernel, Topology::flat(2))
    }

    #[test]
    fn too_little_memory_is_refused_with_what_is_needed() {
        let spec = VmSpec { memory_mib: 256, ..spec() };
        assert!(spec.check_memory(30 << 20).is_ok());
        let error = spec.check_memory(100 << 20).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("need 463 MiB; add --memory 463M"), "{error}");
        assert!(spec.check_memory(u64::MAX).is_err());
    }

    #[test]
    fn a_machine_that_cannot_be_is_refused() {
        assert!(spec().check().is_ok());
        let error = VmSpec { topology: Topology::flat(300), ..spec() }.check().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let mut missing = spec();
        missing.kernel.image = "/no/such/image".into();
        assert!(matches!(missing.check(), Err(VmError::ProgramMissing(_))));
    }

    #[test]
    fn exit_codes_are_a_shells() {
        assert_eq!(GuestExit::Code(7).exit_code(), 7);
        assert_eq!(GuestExit::Signal(9).exit_code(), 137);
    }
}
