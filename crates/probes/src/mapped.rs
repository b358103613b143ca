//! Maps that a probe writes and user space reads in place.
use libbpf_rs::MapCore;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::mem::size_of;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::NonNull;

/// The values of a map, as the kernel has them.
pub(crate) struct Mapped<T> {
    begin: NonNull<c_void>,
    length: usize,
    records: std::marker::PhantomData<T>,
}

impl<T> Mapped<T> {
    pub(crate) fn new(map: &impl MapCore) -> Result<Self, nix::Error> {
        assert_eq!(map.value_size() as usize, size_of::<T>(), "as in the probe's C source");
        let length = map.max_entries() as usize * size_of::<T>();
        let size = NonZeroUsize::new(length).expect("a map has an entry");
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let begin = unsafe { mmap(None, size, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, map.as_fd(), 0)? };
        Ok(Self { begin, length, records: std::marker::PhantomData })
    }

    pub(crate) fn records(&self, range: Range<usize>) -> &[T] {
        assert!(range.end * size_of::<T>() <= self.length, "the probe writes within its room");
        // SAFETY: within the mapping; records are plain numbers; the probe, which wrote them, has ended.
        unsafe {
            let first = self.begin.cast::<T>().add(range.start);
            std::slice::from_raw_parts(first.as_ptr(), range.len())
        }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned here, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.begin, self.length) };
    }
}

/// How much memory is free, in bytes.
pub(crate) fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
