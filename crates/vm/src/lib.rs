//! A stock kernel in QEMU: find it, boot it, run one command inside.
//!
//! The way of a command into the guest, one module a step:
//! [`kernel`] finds an image, [`topology`] describes the CPUs, [`memory`] the memory, [`initramfs`] packs the
//! programs, [`clock`] says what a second is, [`accel`] decides what executes them, [`emulator`] is a QEMU of our own
//! that one of the clocks needs, [`qemu`], with [`delay`], makes a command line of all that, [`session`] boots it and
//! carries the command's input, output and exit code; [`guest`] is the other end, process 1 inside the machine, and
//! [`protocol`] the messages between the two. On failure [`console`] finds the kernel's last messages, [`error`] reports
//! the failure, and [`logs`] keeps the log.
mod accel;
mod clock;
mod console;
mod delay;
pub mod emulator;
mod error;
pub mod guest;
mod initramfs;
pub mod kernel;
mod logs;
mod memory;
mod protocol;
mod qemu;
pub mod session;
pub mod topology;

pub use clock::{Clock, ClockError, Parallel};
pub use emulator::EmulatorError;
pub use error::{KeptLog, VmError};
pub use initramfs::programs_in;
pub use kernel::{BtfHealth, Catalog, Kernel, KernelError, KernelRequest, cache_folder};
pub use memory::{Memory, MemoryError};
pub use protocol::Cgroup;
pub use qemu::find as find_qemu;
pub use session::{Accel, BootInfo, Ended, GuestCommand, GuestExit, Vm, VmSpec};
pub use topology::Topology;
