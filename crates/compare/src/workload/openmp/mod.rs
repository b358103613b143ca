//! OpenMP programs of this project on a real OpenMP runtime: compiled here, from the sources in `openmp/`.
mod build;

pub use build::BuildError;

use super::{Measured, Needs, Runnable, ended_at};
use flsched_spec::UsageError;
use flsched_spec::workload::{OpenMp, OpenMpKernel};
use flsched_vm::Arch;
use std::ffi::OsString;
use std::path::Path;

fn source(kernel: OpenMpKernel) -> &'static str {
    match kernel {
        OpenMpKernel::Sparse => include_str!("../../../openmp/sparse.c"),
        OpenMpKernel::Stencil => include_str!("../../../openmp/stencil.c"),
        OpenMpKernel::Ep => include_str!("../../../openmp/ep.c"),
        OpenMpKernel::Transpose => include_str!("../../../openmp/transpose.c"),
        OpenMpKernel::Sort => include_str!("../../../openmp/sort.c"),
        OpenMpKernel::Wavefront => include_str!("../../../openmp/wavefront.c"),
    }
}

/// Compiles the program unless the cache has it, and stores its path in `openmp`.
pub(super) fn build(openmp: &mut OpenMp, arch: Arch) -> Result<(), BuildError> {
    openmp.program = build::program(arch, openmp.runtime, openmp.kernel.name(), source(openmp.kernel))?;
    Ok(())
}

impl Runnable for OpenMp {
    fn argv(&self, _helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        vec![self.program.clone().into(), self.threads.to_string().into(), self.size.to_string().into()]
    }

    fn needs(&self) -> Result<Needs, UsageError> {
        Ok(Needs::programs(vec![self.program.clone()]))
    }

    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        Ok(Measured { ended_at: ended_at(output), ..Measured::printed(output)? })
    }
}
