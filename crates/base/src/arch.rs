//! The processors that our programs, and the kernels they run on, are compiled for.
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// A processor's architecture, by its two common names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum Arch {
    /// x86-64.
    #[serde(rename = "x86_64")]
    X86,
    /// 64-bit Arm.
    #[serde(rename = "aarch64")]
    Arm64,
}

/// There is no such processor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown processor `{0}`: valid are x86_64 and aarch64")]
pub struct UnknownArch(String);

impl Arch {
    /// In the order in which messages name them.
    pub const ALL: [Self; 2] = [Self::X86, Self::Arm64];

    /// This program's own.
    pub const HOST: Self = if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::X86 };

    /// As `uname -m`, Rust, compilers and QEMU name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// As Debian and its kernels name it.
    pub const fn of_debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As the kernel's source names it.
    pub const fn of_kernel(self) -> &'static str {
        match self {
            Self::X86 => "x86",
            Self::Arm64 => "arm64",
        }
    }

    /// Whether this machine does not execute its programs.
    pub fn is_foreign(self) -> bool {
        self != Self::HOST
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
}
