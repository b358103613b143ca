//! The processors whose kernels the policies run on.

/// A processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// x86-64.
    X86,
    /// 64-bit Arm.
    Arm64,
}

impl Processor {
    /// The one that this program was compiled for.
    pub const fn of_this_program() -> Self {
        if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::X86 }
    }

    /// The one that cargo builds for; build scripts ask.
    pub(crate) fn of_build() -> Self {
        match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
            Ok("aarch64") => Self::Arm64,
            _ => Self::X86,
        }
    }

    /// As Rust and compilers name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// As the kernel's source names it.
    pub const fn of_kernel(self) -> &'static str {
        match self {
            Self::X86 => "x86",
            Self::Arm64 => "arm64",
        }
    }
}
