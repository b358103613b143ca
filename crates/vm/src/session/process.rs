//! The QEMU process. It is killed when this program ends or its value is dropped.
use crate::VmError;
use flsched_base::process::end_with_parent;
use nix::unistd::setsid;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// The file in the working folder for QEMU's own messages.
const MESSAGES: &str = "qemu.log";

pub(super) struct Qemu(Child);

impl Qemu {
    /// Starts QEMU with this working folder. Call it in the thread that waits for QEMU: the kernel kills QEMU when the
    /// *thread* that started it ends.
    pub fn start(program: &Path, arguments: &[OsString], folder: &Path) -> Result<Self, VmError> {
        let messages = folder.join(MESSAGES);
        let messages = File::create(&messages).map_err(|error| VmError::io("create", &messages, error))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(messages);
        // Detached from the terminal: Ctrl-C goes to this program, which decides how the VM ends.
        // SAFETY: between fork and exec there is only an async-signal-safe system call.
        unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) };
        end_with_parent(&mut command);
        command.spawn().map(Self).map_err(|error| VmError::io("start", program, error))
    }

    /// Its exit status; `None`: it is running.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Its last messages as one line.
    pub fn messages(folder: &Path) -> String {
        let text = std::fs::read(folder.join(MESSAGES)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<_> = text
            .lines()
            .map(|line| line.trim().trim_start_matches("qemu-system-x86_64: "))
            .filter(|line| !line.is_empty())
            .collect();
        lines[lines.len().saturating_sub(3)..].join("; ")
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // This is harmless if QEMU has ended: a child keeps its pid until it is reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
