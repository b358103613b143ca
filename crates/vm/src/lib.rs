//! A stock kernel in QEMU: find it, boot it, run one command inside.
//!
//! A command passes through these modules on its way into the guest. [`kernel`] finds an image, [`topology`]
//! describes the CPUs and [`memory`] the memory; [`initramfs`] packs the programs. [`clock`] defines what a second
//! is, [`hierarchy`] how long its CPUs wait for memory, and [`accel`] what may execute them; [`emulator`] is the QEMU that one
//! of the clocks needs. [`qemu`],
//! with [`delay`], makes a command line of all that. [`start`] decides between KVM and emulation. [`session`] boots the
//! machine and transports the command's input, output and exit code. [`guest`] is process 1 inside the machine, and [`protocol`] defines the messages
//! between the two. On failure [`console`] finds the kernel's last messages, [`error`] reports the failure, and
//! [`logs`] keeps the log.
mod accel;
mod clock;
mod console;
mod delay;
pub mod emulator;
mod error;
mod foreign;
pub mod guest;
mod hierarchy;
mod initramfs;
pub mod kernel;
mod logs;
mod memory;
mod protocol;
mod qemu;
pub mod session;
mod start;
pub mod topology;

pub use accel::Accel;
pub use clock::{Clock, ClockError, Parallel};
pub use emulator::EmulatorError;
pub use error::{KeptLog, VmError};
pub use flsched_base::{Arch, UnknownArch};
pub use foreign::Foreign;
pub use hierarchy::MemoryModel;
pub use initramfs::programs_in;
pub use kernel::{BtfHealth, Catalog, Kernel, KernelError, KernelRequest, cache_folder};
pub use memory::{Memory, MemoryError};
pub use protocol::Cgroup;
pub use qemu::find as find_qemu;
pub use session::{BootInfo, Ended, GuestCommand, GuestExit, Vm, VmSpec};
pub use topology::{Topology, TopologyError};
