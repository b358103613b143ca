//! What the kernel's verifier did before it let a policy in.
use libbpf_rs::Object;
use libbpf_rs::libbpf_sys::{bpf_obj_get_info_by_fd, bpf_prog_info};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// How many instructions the verifier processes of a program before it refuses it: the kernel's
/// `BPF_COMPLEXITY_LIMIT_INSNS`.
pub const LIMIT: u32 = 1_000_000;

/// The program of a policy that took the verifier the most work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costliest {
    /// Its name in the policy's source.
    pub program: String,
    /// Instructions processed, with those of every path that the verifier followed.
    pub instructions: u32,
}

impl Costliest {
    /// `None` if the kernel does not count, or does not say.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        let programs = object.progs().filter_map(|program| {
            let instructions = processed(program.as_fd())?;
            Some(Self { program: program.name().to_str()?.to_owned(), instructions })
        });
        programs.max_by_key(|program| program.instructions)
    }
}

impl fmt::Display for Costliest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} of the verifier's {} instructions: {}", self.instructions, LIMIT, self.program)
    }
}

fn processed(program: BorrowedFd<'_>) -> Option<u32> {
    let mut info = bpf_prog_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `size` bytes to `info`, which is valid with any content.
    let failed =
        unsafe { bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut size) };
    (failed == 0 && info.verified_insns > 0).then_some(info.verified_insns)
}
