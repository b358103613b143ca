//! BPF timers. A timer is part of a map's value; its handler gets the map, the key and the value.
use super::abi::SimMap;
use std::ffi::c_void;

/// A timer's handler: `int (*)(void *map, void *key, void *value)`.
pub(crate) type Handler = unsafe extern "C" fn(*mut c_void, *mut u8, *mut u8) -> i32;

#[derive(Debug)]
pub(crate) struct Timer {
    pub(crate) map: *mut SimMap,
    pub(crate) key: Vec<u8>,
    pub(crate) value: *mut u8,
    pub(crate) handler: Option<Handler>,
    /// The number of the last start or cancellation. Expiries that were planned under another number are
    /// ignored.
    pub(crate) generation: u32,
    pub(crate) is_armed: bool,
}
