//! What the build needs of this machine.
use super::EmulatorError;
use crate::Arch;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs, each with the Debian package that holds it.
const PROGRAMS: [(&str, &str); 7] = [
    ("bzip2", "bzip2"),
    ("cc", "gcc"),
    ("ninja", "ninja-build"),
    ("patch", "patch"),
    ("pkg-config", "pkg-config"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// Libraries as pkg-config calls them.
const LIBRARIES: [(&str, &str); 2] = [("glib-2.0", "libglib2.0-dev"), ("zlib", "zlib1g-dev")];

/// The library of arm64's device trees; it comes without a file for pkg-config.
const DEVICE_TREES: (&str, &str) = ("libfdt", "libfdt-dev");
const DEVICE_TREE_HEADER: &str = "/usr/include/libfdt.h";

/// QEMU 10 needs Meson 1.5.
const HAS_MESON: &str = "import mesonbuild.coredata as c, venv, sys; \
     sys.exit(tuple(map(int, c.version.split('.')[:2])) < (1, 5))";

/// Checks everything. Returns the Python that has Meson: the user's own, else the system's.
pub(super) fn check(arch: Arch) -> Result<&'static str, EmulatorError> {
    let mut missing: Vec<_> =
        PROGRAMS.into_iter().filter(|(program, _)| which::which(program).is_err()).collect();
    missing
        .extend(LIBRARIES.into_iter().filter(|(library, _)| !succeeds("pkg-config", &["--exists", library])));
    if arch == Arch::Arm64 && !Path::new(DEVICE_TREE_HEADER).is_file() {
        missing.push(DEVICE_TREES);
    }
    let python = ["python3", "/usr/bin/python3"].into_iter().find(|p| succeeds(p, &["-c", HAS_MESON]));
    match python {
        Some(python) if missing.is_empty() => Ok(python),
        Some(_) => Err(EmulatorError::Missing { missing }),
        None => {
            missing.extend([("Python with venv", "python3-venv"), ("meson 1.5 or newer", "meson")]);
            Err(EmulatorError::Missing { missing })
        }
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
