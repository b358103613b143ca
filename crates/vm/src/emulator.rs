//! FLSCHED's own build of QEMU, in which CPUs run in parallel: what the parallel clock needs.
use crate::VmError;
use std::path::PathBuf;

/// Names a binary to use instead.
const VARIABLE: &str = "FLSCHED_EMULATOR";

/// One that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emulator {
    /// Its `qemu-system-x86_64`.
    pub qemu: PathBuf,
}

/// Finds it.
pub fn find() -> Result<Emulator, VmError> {
    match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(path) => named(path.into()),
        None => Err(VmError::NoEmulator),
    }
}

fn named(qemu: PathBuf) -> Result<Emulator, VmError> {
    // Absolute, as QEMU is started in a folder of its own.
    if let (true, Ok(qemu)) = (qemu.is_file(), std::path::absolute(&qemu)) {
        return Ok(Emulator { qemu });
    }
    let what = format!("{VARIABLE} names {}, which is no file: mend or unset it", qemu.display());
    Err(VmError::BadMachine(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_be_that_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(named(file.path().into()).unwrap().qemu, file.path());
        let error = named("/no/such/qemu".into()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("FLSCHED_EMULATOR names /no/such/qemu"), "{error}");
    }
}
