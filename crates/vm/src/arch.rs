//! The processors that a virtual machine can have.
use std::fmt;
use std::str::FromStr;

/// A processor's architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86-64.
    X86,
    /// 64-bit Arm.
    Arm64,
}

/// There is no such processor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown processor `{0}`: valid are x86_64 and aarch64")]
pub struct UnknownArch(String);

impl Arch {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::X86, Self::Arm64];

    /// This program's own.
    pub const HOST: Self = if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::X86 };

    /// As `uname -m`, Rust and QEMU name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// As Debian and its kernels name it.
    pub(crate) const fn of_debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// QEMU's program.
    pub(crate) const fn qemu(self) -> &'static str {
        match self {
            Self::X86 => "qemu-system-x86_64",
            Self::Arm64 => "qemu-system-aarch64",
        }
    }

    /// The Debian package with that program.
    pub(crate) const fn qemu_package(self) -> &'static str {
        match self {
            Self::X86 => "qemu-system-x86",
            Self::Arm64 => "qemu-system-arm",
        }
    }

    /// The machine in an ELF file's header.
    pub(crate) fn of_elf(head: &[u8]) -> Option<Self> {
        let machine = head.strip_prefix(b"\x7fELF").and_then(|rest| rest.get(14..16))?;
        match object::elf::Machine(u16::from_le_bytes([machine[0], machine[1]])) {
            object::elf::EM_X86_64 => Some(Self::X86),
            object::elf::EM_AARCH64 => Some(Self::Arm64),
            _ => None,
        }
    }

    /// Whether this machine does not execute its programs.
    pub const fn is_foreign(self) -> bool {
        !matches!((self, Self::HOST), (Self::X86, Self::X86) | (Self::Arm64, Self::Arm64))
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        let named = |arch: &Self| arch.name() == text || arch.of_debian() == text;
        Self::ALL.into_iter().find(named).ok_or_else(|| UnknownArch(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for arch in Arch::ALL {
            assert_eq!(arch.to_string().parse(), Ok(arch));
            assert_eq!(arch.of_debian().parse(), Ok(arch));
        }
        assert!("riscv64".parse::<Arch>().unwrap_err().to_string().contains("x86_64 and aarch64"));
        assert_eq!(Arch::ALL.iter().filter(|arch| arch.is_foreign()).count(), 1);
    }

    #[test]
    fn programs_tell_their_processor() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Arch::of_elf(&own), Some(Arch::HOST));
        for other in [&b"#!/bin/sh"[..], b"\x7fELF", &own[..19]] {
            assert_eq!(Arch::of_elf(other), None);
        }
    }
}
