//! Amounts of memory.
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Memory of a machine whose user names none: what a kernel and a big hackbench need.
const BASE_MIB: u32 = 768;
const PER_CPU_MIB: u32 = 64;
/// Least memory that a stock kernel boots with, and most that makes sense.
const RANGE_MIB: RangeInclusive<u32> = 256..=1024 * 1024;

/// A machine's memory. As text: `512M`, `2G`, or a number of MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// In MiB, from 256 to 1048576.
    pub mib: u32,
}

impl Memory {
    /// What fits a machine with this many CPUs.
    pub fn for_cpus(cpus: u32) -> Self {
        Self { mib: BASE_MIB + PER_CPU_MIB * cpus }
    }
}

impl FromStr for Memory {
    type Err = MemoryError;

    fn from_str(text: &str) -> Result<Self, MemoryError> {
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let factor = match unit.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
            "" | "M" => 1,
            "G" => 1024,
            _ => return Err(MemoryError),
        };
        let mib = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(factor));
        mib.filter(|mib| RANGE_MIB.contains(mib)).map(|mib| Self { mib }).ok_or(MemoryError)
    }
}

/// No amount of memory, or one out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {least}M to {most}M, as in 512M, 2G or 2048 (MiB)", least = RANGE_MIB.start(), most = RANGE_MIB.end())]
pub struct MemoryError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_memory() {
        for (text, mib) in [("2G", 2048), ("512M", 512), ("1024", 1024), ("1GiB", 1024)] {
            assert_eq!(text.parse(), Ok(Memory { mib }), "{text}");
        }
        for bad in ["", "G", "12M", "9999999G", "2T", "-1", "1.5G"] {
            assert_eq!(bad.parse::<Memory>(), Err(MemoryError), "{bad}");
        }
    }

    #[test]
    fn fits_the_cpus() {
        assert_eq!(Memory::for_cpus(4).mib, 1024);
    }
}
