//! OpenMP programs of this project on a real OpenMP runtime: `libomp` is LLVM's and Intel's, `libgomp` is
//! GCC's. Each kernel is one way in which threads of parallel programs wait for each other, as in the NAS
//! Parallel Benchmarks; it checks its own result.
mod build;

pub use build::BuildError;

use super::parameters::Parameters;
use flsched_spec::UsageError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// How those on LLVM's runtime are named.
pub const LIBOMP_FORM: &str = "libomp:KERNEL:THREADS:SIZE";
/// How those on GCC's runtime are named.
pub const LIBGOMP_FORM: &str = "libgomp:KERNEL:THREADS:SIZE";

/// `libomp:KERNEL:THREADS:SIZE` or `libgomp:KERNEL:THREADS:SIZE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenMp {
    /// Whose threads and barriers.
    pub runtime: Runtime,
    /// What they do.
    pub kernel: Kernel,
    /// Threads of the team.
    pub threads: u64,
    /// How much work; each kernel says of what in its source.
    pub size: u64,
    /// Where the program is; empty until [`OpenMp::build`].
    program: PathBuf,
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
pub enum Kernel {
    /// Conjugate gradients: barriers and reductions.
    Sparse,
    /// One short parallel region after the other.
    Stencil,
    /// No waiting but at the end.
    Ep,
    /// Everybody reads what everybody wrote, with barriers around.
    Transpose,
    /// Short phases with a barrier after each.
    Sort,
    /// Each waits for its neighbour, without the runtime.
    Wavefront,
}

struct Description {
    kernel: Kernel,
    name: &'static str,
    what: &'static str,
    source: &'static str,
    size: u64,
    sizes: std::ops::RangeInclusive<u64>,
}

/// The default sizes are 0.15 to 0.4 s of work when an instruction takes 1 ns.
const KERNELS: [Description; 6] = [
    Description {
        kernel: Kernel::Sparse,
        name: "sparse",
        what: "conjugate gradients, as in NPB's CG, class A: five barriers, two of them with sums, an iteration",
        source: include_str!("../../../openmp/sparse.c"),
        size: 1,
        sizes: 1..=1_000_000,
    },
    Description {
        kernel: Kernel::Stencil,
        name: "stencil",
        what: "heat on a grid, as in NPB's MG and SP: one short parallel region after the other",
        source: include_str!("../../../openmp/stencil.c"),
        size: 150,
        sizes: 1..=100_000_000,
    },
    Description {
        kernel: Kernel::Ep,
        name: "ep",
        what: "as NPB's EP: the threads meet at the end only",
        source: include_str!("../../../openmp/ep.c"),
        size: 3500,
        sizes: 1..=60_000,
    },
    Description {
        kernel: Kernel::Transpose,
        name: "transpose",
        what: "Fourier transforms, as in NPB's FT: all threads read what all wrote, with barriers around",
        source: include_str!("../../../openmp/transpose.c"),
        size: 30,
        sizes: 1..=1_000_000,
    },
    Description {
        kernel: Kernel::Sort,
        name: "sort",
        what: "integers sorted by their digits, as in NPB's IS: short phases with a barrier after each",
        source: include_str!("../../../openmp/sort.c"),
        size: 25,
        sizes: 1..=1_000_000,
    },
    Description {
        kernel: Kernel::Wavefront,
        name: "wavefront",
        what: "a pipeline, as in NPB's LU: each thread yields until its neighbour's flag is set",
        source: include_str!("../../../openmp/wavefront.c"),
        size: 40,
        sizes: 1..=1_000_000,
    },
];

impl Runtime {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Libomp, Self::Libgomp];

    /// The library's name, with which the workload's begins.
    pub fn name(self) -> &'static str {
        match self {
            Self::Libomp => "libomp",
            Self::Libgomp => "libgomp",
        }
    }

    /// How its workloads are named.
    pub fn form(self) -> &'static str {
        match self {
            Self::Libomp => LIBOMP_FORM,
            Self::Libgomp => LIBGOMP_FORM,
        }
    }
}

impl Kernel {
    /// All names, each with what it is.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        KERNELS.iter().map(|it| (it.name, it.what))
    }

    fn description(self) -> &'static Description {
        let index = KERNELS.iter().position(|it| it.kernel == self);
        &KERNELS[index.expect("each kernel has a description")]
    }
}

impl OpenMp {
    /// Reads what stands after `libomp:`; what is left out is `sparse`, four threads for each CPU,
    /// and as much work for each CPU as one of four has of the kernel's default.
    pub(super) fn parse(runtime: Runtime, parameters: &str, cpus: u64) -> Result<Self, UsageError> {
        let mut parameters = Parameters::new(runtime.form(), parameters);
        let name = parameters.word().unwrap_or("sparse");
        let Some(described) = KERNELS.iter().find(|it| it.name == name) else {
            let names: Vec<_> = Kernel::all().map(|(name, _)| name.to_string()).collect();
            return Err(UsageError::unknown("OpenMP kernel", name, &names));
        };
        let threads = parameters.number("THREADS", 4 * cpus, 1..=4096)?;
        let default_size = (described.size * cpus.div_ceil(4)).min(*described.sizes.end());
        let size = parameters.number("SIZE", default_size, described.sizes.clone())?;
        parameters.end()?;
        Ok(Self { runtime, kernel: described.kernel, threads, size, program: PathBuf::new() })
    }

    /// Compiles the program, unless that has been done before, and remembers where it is.
    pub(super) fn build(&mut self) -> Result<(), BuildError> {
        let described = self.kernel.description();
        self.program = build::program(self.runtime, described.name, described.source)?;
        Ok(())
    }

    /// Where it was built.
    pub(super) fn program(&self) -> PathBuf {
        self.program.clone()
    }

    /// The command line.
    pub(super) fn argv(&self) -> Vec<OsString> {
        vec![self.program.clone().into(), self.threads.to_string().into(), self.size.to_string().into()]
    }
}

impl fmt::Display for OpenMp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runtime, kernel) = (self.runtime.name(), self.kernel.description().name);
        write!(out, "{runtime}:{kernel}:{}:{}", self.threads, self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let name = |text| OpenMp::parse(Runtime::Libomp, text, 4).map(|it| it.to_string());
        assert_eq!(name("").unwrap(), "libomp:sparse:16:1");
        assert_eq!(name("stencil:8").unwrap(), "libomp:stencil:8:150");
        assert_eq!(name("ep:8:100").unwrap(), "libomp:ep:8:100");
        let error = |text| name(text).unwrap_err().to_string();
        assert!(error("sparce").contains("did you mean `sparse`"), "{}", error("sparce"));
        assert!(error("ep:0").contains("libomp THREADS: `0`"), "{}", error("ep:0"));
        assert!(error("ep:1:99999999").contains("from 1 to 60000"));
        assert!(error("ep:1:1:1").contains("too many (libomp:KERNEL:THREADS:SIZE)"));
    }

    #[test]
    fn each_kernel_is_described_once_under_its_own_name() {
        for described in &KERNELS {
            let name = serde_json::to_string(&described.kernel).unwrap();
            assert_eq!(name, format!("\"{}\"", described.name));
            assert_eq!(described.kernel.description().name, described.name);
        }
    }
}
