//! The compiler, and how it is called.
use crate::{Arch, For};
use std::process::Command;

/// Where no environment variable names one: the version that the build prefers first.
const KNOWN: [&str; 6] = ["clang-19", "clang-22", "clang-21", "clang-20", "clang-18", "clang"];

/// A clang that runs.
#[derive(Debug)]
pub(crate) struct Clang {
    program: String,
    /// Major version.
    version: u32,
}

impl Clang {
    /// The compiler that BPF_CLANG names, or the best one in PATH.
    pub(crate) fn find() -> Option<Self> {
        let named = std::env::var("BPF_CLANG").ok().filter(|name| !name.is_empty());
        let is_named = named.is_some();
        let known = KNOWN.into_iter().filter(|_| !is_named).map(String::from);
        named.into_iter().chain(known).find_map(Self::of)
    }

    fn of(program: String) -> Option<Self> {
        let output = Command::new(&program).arg("-dumpversion").output().ok()?;
        let version = String::from_utf8(output.stdout).ok()?.split('.').next()?.trim().parse().ok()?;
        (version >= 18).then_some(Self { program, version })
    }

    /// Without file names and include paths. For BPF these are the options that scx_cargo chooses for the policies
    /// of the build.
    pub(crate) fn command(&self, target: For, arch: Arch) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-O2", "-Wall"]);
        match target {
            For::Kernel => {
                command.args([
                    "-target",
                    "bpf",
                    "-c",
                    "-g",
                    "-mcpu=v4",
                    "-mlittle-endian",
                    "-fno-stack-protector",
                ]);
                command.args(["-Wno-compare-distinct-pointer-types", "-mllvm", "-disable-ldsx"]);
                if self.version >= 22 {
                    command.args(["-mllvm", "-disable-gotox"]);
                }
                let name = arch.of_kernel();
                command.args([format!("-D__TARGET_ARCH_{name}"), format!("-D__SCX_TARGET_ARCH_{name}")]);
            }
            For::Simulator => {
                if arch != Arch::HOST {
                    command.arg(format!("--target={}-linux-gnu", arch.name()));
                }
                if arch == Arch::Arm64 {
                    // Atomics would be in the compiler's own library, which is not linked. And the simulator writes
                    // constants, which makes their pages writable and no longer executable: they share none with code.
                    command.args(["-mno-outline-atomics", "-Wl,-z,separate-code"]);
                }
                command.args(["-fPIC", "-shared", "-nostdlib", "-ffreestanding", "-fno-math-errno", "-s"]);
                // A function that is not modelled must fail here, by name, and not when it is called.
                command.args(["-Werror=implicit-function-declaration", "-Wl,-z,defs"]);
            }
        }
        command
    }
}
