//! A policy's object, loaded into this process. Each simulation loads its own copy, so each has its own
//! globals.
use super::abi::{LAYOUT, Ops};
use super::objects::Object;
use crate::Error;
use crate::core::CpuMask;
use flsched_machine::Machine;
use flsched_spec::{Policy, PolicySpec};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};

/// Finds the function that models the kfunc of this name; `None`: it is not modelled.
pub(crate) type Kfuncs = fn(&str) -> Option<*const c_void>;

pub(crate) struct Instance {
    policy: &'static Policy,
    object: Object,
    library: Library,
    /// The dynamic loader identifies objects by their path. The path contains this file's descriptor, which
    /// must not be reused, so the file stays open.
    _file: File,
}

impl Instance {
    /// Loads the policy, links it to `kfuncs`, and sets its knobs and its tables of the `online` CPUs.
    pub(crate) fn load(
        spec: &PolicySpec,
        machine: &Machine,
        online: &CpuMask,
        kfuncs: Kfuncs,
    ) -> Result<Self, Error> {
        let policy = spec.policy;
        let failed = |what: String| Error::Policy { policy: policy.name.into(), what };
        let object = Object::of(policy)?;
        let file = memory_file(object.bytes).map_err(|e| failed(format!("memory file: {e}")))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: the object is a compiled policy. Policies have no constructors, so loading runs no code.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|e| failed(e.to_string()))?;
        let instance = Self { policy, object, library, _file: file };
        instance.check_layout()?;
        instance.link(kfuncs)?;
        let clocks = machine.clocks(online.iter());
        clocks.check(spec)?;
        for (name, value) in spec.knobs() {
            instance.set(name, &value.to_ne_bytes())?;
        }
        let places = machine.tables(online.iter());
        for (name, _) in &instance.object.variables {
            let bytes = match name.as_str() {
                "tick_ns" => Some(machine.tick_ns.to_ne_bytes().to_vec()),
                _ => places.bytes(name).or_else(|| clocks.bytes(name)),
            };
            if let Some(bytes) = bytes {
                instance.set(name, &bytes)?;
            }
        }
        Ok(instance)
    }

    /// The policy's table of callbacks.
    pub(crate) fn ops(&self) -> Result<*const Ops, Error> {
        let table = self.object.ops().map_err(|what| self.failed(what))?;
        Ok(self.address(table)?.cast())
    }

    /// The address of a variable.
    pub(crate) fn address(&self, name: &str) -> Result<*mut c_void, Error> {
        // SAFETY: only the address is taken.
        let symbol = unsafe { self.library.get::<*mut c_void>(name.as_bytes()) };
        symbol.map(|symbol| symbol.into_raw().cast()).map_err(|e| self.failed(e.to_string()))
    }

    fn failed(&self, what: String) -> Error {
        Error::Policy { policy: self.policy.name.into(), what }
    }

    fn check_layout(&self) -> Result<(), Error> {
        // SAFETY: include/sim/ops.h defines sim_layout with this type.
        let layout = unsafe { *self.address("sim_layout")?.cast::<[u32; LAYOUT.len()]>() };
        if layout == LAYOUT { Ok(()) } else { Err(self.failed(format!("{layout:?} is not {LAYOUT:?}"))) }
    }

    /// Sets the pointer of every kfunc that the policy declares.
    fn link(&self, kfuncs: Kfuncs) -> Result<(), Error> {
        for name in &self.object.kfuncs {
            let function =
                kfuncs(name).ok_or_else(|| self.failed(format!("{name} is declared and not modelled")))?;
            // SAFETY: KFUNC() defines a pointer of this name, in writable memory.
            unsafe { *self.address(name)?.cast::<*const c_void>() = function };
        }
        Ok(())
    }

    /// Writes a variable, also one that is constant for the policy.
    fn set(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let size = self.object.variables.iter().find(|(known, _)| known == name).map(|(_, size)| *size);
        if size != Some(bytes.len()) {
            return Err(self.failed(format!("{name} has {size:?} bytes, not {}", bytes.len())));
        }
        let address = self.address(name)?;
        let page = page_size();
        let start = address as usize / page * page;
        let length = (address as usize + bytes.len()).div_ceil(page) * page - start;
        // SAFETY: the pages belong to this object's private mapping, and `bytes` has the variable's size.
        unsafe {
            if libc::mprotect(start as *mut c_void, length, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return Err(self.failed(format!("{name}: {}", std::io::Error::last_os_error())));
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), address.cast::<u8>(), bytes.len());
        }
        Ok(())
    }
}

/// 4 KiB on x86-64, up to 64 KiB elsewhere.
fn page_size() -> usize {
    // SAFETY: it only returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("every system has pages")
}

fn memory_file(bytes: &[u8]) -> std::io::Result<File> {
    // SAFETY: the descriptor is new, so `File` is its only owner.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"policy".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.write_all(bytes)?;
    Ok(file)
}
