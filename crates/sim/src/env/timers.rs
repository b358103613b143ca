//! BPF timers: one in a map's value, whose handler gets the map, the key and the value.
use super::abi::SimMap;
use std::ffi::c_void;

/// `int (*)(void *map, void *key, void *value)`.
pub(crate) type Handler = unsafe extern "C" fn(*mut c_void, *mut u8, *mut u8) -> i32;

/// A timer.
#[derive(Debug)]
pub(crate) struct Timer {
    pub(crate) map: *mut SimMap,
    pub(crate) key: Vec<u8>,
    pub(crate) value: *mut u8,
    pub(crate) handler: Option<Handler>,
    /// A planned event with another number is void.
    pub(crate) generation: u32,
    pub(crate) is_armed: bool,
}
