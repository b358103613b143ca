//! OpenMP programs of this project on a real OpenMP runtime: `libomp` is LLVM's and Intel's, `libgomp` is
//! GCC's. Each kernel is one way in which threads of parallel programs wait for each other, as in the NAS
//! Parallel Benchmarks; it checks its own result.
use super::parameters::Parameters;
use crate::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// How those on LLVM's runtime are named.
pub(super) const LIBOMP_FORM: &str = "libomp:KERNEL:THREADS:SIZE";
/// How those on GCC's runtime are named.
pub(super) const LIBGOMP_FORM: &str = "libgomp:KERNEL:THREADS:SIZE";

/// `libomp:KERNEL:THREADS:SIZE` or `libgomp:KERNEL:THREADS:SIZE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenMp {
    /// The runtime that provides threads and barriers.
    pub runtime: Runtime,
    /// What the threads compute.
    pub kernel: OpenMpKernel,
    /// Threads of the team.
    pub threads: u64,
    /// How much work; what it counts is described in each kernel's source.
    pub size: u64,
    /// The path of the compiled program; empty until it has been compiled.
    pub program: PathBuf,
}

/// The library that makes threads and barriers out of the program's directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// LLVM's, which descends from Intel's: spins and yields for 200 ms, then sleeps.
    Libomp,
    /// GCC's: spins, but hardly when there are more threads than CPUs, then sleeps.
    Libgomp,
}

/// What the threads do, and how they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpenMpKernel {
    /// Conjugate gradients: barriers and reductions.
    Sparse,
    /// One short parallel region after the other.
    Stencil,
    /// Threads wait for each other only at the end.
    Ep,
    /// Each thread reads what all threads wrote, between two barriers.
    Transpose,
    /// Short phases with a barrier after each.
    Sort,
    /// Each thread waits for its neighbour, without the runtime.
    Wavefront,
}

struct Description {
    kernel: OpenMpKernel,
    name: &'static str,
    what: &'static str,
    size: u64,
    sizes: std::ops::RangeInclusive<u64>,
}

/// The default sizes are 0.15 to 0.4 s of work when an instruction takes 1 ns.
const KERNELS: [Description; 6] = [
    Description {
        kernel: OpenMpKernel::Sparse,
        name: "sparse",
        what: "conjugate gradients, as in NPB's CG, class A: five barriers per iteration, two of them with reductions",
        size: 1,
        sizes: 1..=1_000_000,
    },
    Description {
        kernel: OpenMpKernel::Stencil,
        name: "stencil",
        what: "heat on a grid, as in NPB's MG and SP: many short parallel regions",
        size: 150,
        sizes: 1..=100_000_000,
    },
    Description {
        kernel: OpenMpKernel::Ep,
        name: "ep",
        what: "independent computations, as in NPB's EP: one barrier, at the end",
        size: 3500,
        sizes: 1..=60_000,
    },
    Description {
        kernel: OpenMpKernel::Transpose,
        name: "transpose",
        what: "Fourier transforms, as in NPB's FT: each thread reads what all threads wrote, between two barriers",
        size: 30,
        sizes: 1..=1_000_000,
    },
    Description {
        kernel: OpenMpKernel::Sort,
        name: "sort",
        what: "radix sort of integers, as in NPB's IS: short phases with a barrier after each",
        size: 25,
        sizes: 1..=1_000_000,
    },
    Description {
        kernel: OpenMpKernel::Wavefront,
        name: "wavefront",
        what: "a pipeline, as in NPB's LU: each thread waits for its neighbour's flag with sched_yield",
        size: 40,
        sizes: 1..=1_000_000,
    },
];

impl Runtime {
    /// Both runtimes.
    pub const ALL: [Self; 2] = [Self::Libomp, Self::Libgomp];

    /// The library's name, with which the workload's begins.
    pub fn name(self) -> &'static str {
        match self {
            Self::Libomp => "libomp",
            Self::Libgomp => "libgomp",
        }
    }
}

impl OpenMpKernel {
    /// All names, each with what it is.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        KERNELS.iter().map(|it| (it.name, it.what))
    }

    /// As users write it.
    pub fn name(self) -> &'static str {
        KERNELS[self as usize].name
    }
}

impl OpenMp {
    /// What is left out is `sparse`, four threads for each CPU, and as much work for each CPU as one of four has of
    /// the kernel's default.
    pub(super) fn read(runtime: Runtime, words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        let described = words.choice("OpenMP kernel", &KERNELS.each_ref().map(|it| (it.name, it)))?;
        let threads = words.default(|cpus| 4 * cpus, 16);
        let size = words.default(|cpus| described.size * cpus.div_ceil(4), described.size);
        Ok(Self {
            runtime,
            kernel: described.kernel,
            threads: words.number("THREADS", threads, 1..=4096)?,
            size: words.number("SIZE", size.min(*described.sizes.end()), described.sizes.clone())?,
            program: PathBuf::new(),
        })
    }
}

impl fmt::Display for OpenMp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runtime, kernel) = (self.runtime.name(), self.kernel.name());
        write!(out, "{runtime}:{kernel}:{}:{}", self.threads, self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Program;
    use super::*;

    #[test]
    fn parameters() {
        let name = |text| Program::sized(text, 4).map(|it| it.to_string());
        assert_eq!(name("libomp").unwrap(), "libomp:sparse:16:1");
        assert_eq!(name("libomp:stencil:8").unwrap(), "libomp:stencil:8:150");
        assert_eq!(name("libgomp:ep:8:100").unwrap(), "libgomp:ep:8:100");
        let error = |text| name(text).unwrap_err().to_string();
        assert!(error("libomp:sparce").contains("did you mean `sparse`"), "{}", error("libomp:sparce"));
        assert!(error("libomp:ep:0").contains("libomp THREADS: `0`"), "{}", error("libomp:ep:0"));
        assert!(error("libomp:ep:1:99999999").contains("from 1 to 60000"));
        assert!(error("libomp:ep:1:1:1").contains("too many (libomp:KERNEL:THREADS:SIZE)"));
    }

    #[test]
    fn each_kernel_is_described_once_under_its_own_name() {
        for described in &KERNELS {
            let name = serde_json::to_string(&described.kernel).unwrap();
            assert_eq!(name, format!("\"{}\"", described.name));
            assert_eq!(described.kernel.name(), described.name);
        }
    }
}
