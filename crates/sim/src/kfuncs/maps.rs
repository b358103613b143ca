//! BPF maps.
use crate::core::TaskStruct;
use crate::env::abi::SimMap;
use crate::ext::context::with;
use std::ffi::c_void;
use std::ptr::null_mut;

pub(super) unsafe extern "C" fn open(
    definition: *mut c_void,
    kind: u32,
    max_entries: u32,
    key_size: u32,
    value_size: u32,
) -> *mut SimMap {
    with(|ext, core| ext.maps.open(definition, kind, max_entries, key_size, value_size, core.nr_cpus()))
}

/// # Safety
/// `key` has `key_size` bytes.
unsafe fn key(map: &SimMap, key: *const u8) -> Vec<u8> {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(key, map.key_size as usize) }.to_vec()
}

pub(super) unsafe extern "C" fn hash_lookup(map: *mut SimMap, wanted: *const u8) -> *mut u8 {
    // SAFETY: a map of ours, and a key of its type.
    let (shown, key) = unsafe { (&*map, key(&*map, wanted)) };
    with(|ext, _| ext.maps.lookup(shown, &key).unwrap_or(null_mut()))
}

pub(super) unsafe extern "C" fn hash_update(
    map: *mut SimMap,
    wanted: *const u8,
    value: *const u8,
    flags: u64,
) -> i32 {
    // SAFETY: a map of ours, and a key of its type.
    let (shown, key) = unsafe { (&*map, key(&*map, wanted)) };
    // SAFETY: a value of its type.
    with(|ext, _| unsafe { ext.maps.update(shown, key, value, flags) })
}

pub(super) unsafe extern "C" fn hash_delete(map: *mut SimMap, wanted: *const u8) -> i32 {
    // SAFETY: a map of ours, and a key of its type.
    let (shown, key) = unsafe { (&*map, key(&*map, wanted)) };
    with(|ext, _| ext.maps.delete(shown, &key))
}

pub(super) unsafe extern "C" fn task_storage_get(
    map: *mut SimMap,
    task: *mut TaskStruct,
    value: *const u8,
    flags: u64,
) -> *mut u8 {
    // SAFETY: a map of ours.
    let shown = unsafe { &*map };
    with(|ext, core| {
        if task.is_null() {
            return null_mut();
        }
        let task = core.task_at(task);
        // SAFETY: a value of its type, or none.
        unsafe { ext.maps.of_task(shown, task, core.tasks.len(), value, flags) }
    })
}

pub(super) unsafe extern "C" fn task_storage_delete(map: *mut SimMap, task: *mut TaskStruct) -> i32 {
    // SAFETY: a map of ours.
    let shown = unsafe { &*map };
    with(|ext, core| ext.maps.forget_task(shown, core.task_at(task)))
}
