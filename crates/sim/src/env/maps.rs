//! BPF maps: hashes, LRU hashes, arrays, per-CPU arrays and task storage.
use super::abi::{E2BIG, EEXIST, ENOENT, SimMap};
use crate::core::TaskId;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{copy_nonoverlapping, null_mut};

const HASH: u32 = 1;
const ARRAY: u32 = 2;
const PERCPU_ARRAY: u32 = 6;
const LRU_HASH: u32 = 9;
const TASK_STORAGE: u32 = 29;

const NOEXIST: u64 = 1;
const EXIST: u64 = 2;
const STORAGE_CREATE: u64 = 1;

/// The unit of memory for values: a cache line, aligned at least as strictly as in the kernel.
#[repr(align(64))]
#[derive(Debug, Clone, Copy)]
struct Line(#[allow(dead_code, reason = "memory")] [u8; 64]);

type Value = Box<[Line]>;

fn zeroed(bytes: usize) -> Value {
    vec![Line([0; 64]); bytes.div_ceil(64).max(1)].into_boxed_slice()
}

fn start(value: &mut Value) -> *mut u8 {
    value.as_mut_ptr().cast()
}

/// All open maps of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    maps: Vec<Map>,
    /// Values of removed entries. The running callback may still hold pointers to them.
    gone: Vec<Value>,
}

#[derive(Debug)]
struct Map {
    definition: *const c_void,
    /// The part that the policy accesses. Its address never changes, as the policy keeps a pointer to it.
    shown: *mut SimMap,
    /// The values of an array or a per-CPU array; empty for other types.
    _values: Value,
    by_key: BTreeMap<Vec<u8>, Entry>,
    /// The keys of an LRU hash in the order of their last use.
    by_use: BTreeMap<u64, Vec<u8>>,
    uses: u64,
    by_task: Vec<Option<Value>>,
}

/// An entry of a hash.
#[derive(Debug)]
struct Entry {
    value: Value,
    used: u64,
}

impl Map {
    /// Finds an entry; in an LRU hash it becomes the most recently used.
    fn find(&mut self, key: &[u8], is_lru: bool) -> Option<*mut u8> {
        let entry = self.by_key.get_mut(key)?;
        if is_lru {
            self.by_use.remove(&entry.used);
            self.uses += 1;
            entry.used = self.uses;
            self.by_use.insert(entry.used, key.to_vec());
        }
        Some(start(&mut entry.value))
    }

    fn remove(&mut self, key: &[u8]) -> Option<Value> {
        let entry = self.by_key.remove(key)?;
        self.by_use.remove(&entry.used);
        Some(entry.value)
    }

    /// Removes the least recently used entry.
    fn remove_oldest(&mut self) -> Option<Value> {
        let (_, key) = self.by_use.pop_first()?;
        self.remove(&key)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the pointer is from Box::into_raw() in open() and is freed only here.
        drop(unsafe { Box::from_raw(self.shown) });
    }
}

impl Maps {
    /// Frees the values of removed entries. Call it only while no callback runs: then no pointers to them exist.
    pub(crate) fn forget_gone(&mut self) {
        self.gone.clear();
    }

    /// The counters in the first entry of a per-CPU array, each summed over all CPUs; empty: the map was never
    /// opened.
    pub(crate) fn sums(&self, definition: *const c_void, nr_cpus: usize) -> Vec<u64> {
        let Some(map) = self.maps.iter().find(|map| map.definition == definition) else {
            return Vec::new();
        };
        // SAFETY: `values` has `nr_cpus` times `cpu_stride` bytes.
        unsafe {
            let shown = &*map.shown;
            let of_cpu = |cpu: usize| shown.values.add(cpu * shown.cpu_stride as usize).cast::<u64>();
            let count = |index: usize| (0..nr_cpus).map(|cpu| *of_cpu(cpu).add(index)).sum();
            (0..shown.value_size as usize / 8).map(count).collect()
        }
    }

    /// The key of the entry whose value contains the address `value`; a timer's handler gets this key.
    pub(crate) fn key_of(&mut self, map: *const SimMap, value: *const u8) -> Option<Vec<u8>> {
        // SAFETY: the policy got the pointer from open(), and it is valid until the map is dropped.
        let shown = unsafe { &*map };
        if shown.kind == ARRAY {
            let index = (value as u64).checked_sub(shown.values as u64)? / shown.stride;
            return Some((index as u32).to_ne_bytes().to_vec());
        }
        let entries = &mut self.maps[shown.id as usize].by_key;
        entries.iter_mut().find_map(|(key, entry)| {
            let from = start(&mut entry.value) as u64;
            (from..from + u64::from(shown.value_size)).contains(&(value as u64)).then(|| key.clone())
        })
    }

    /// Creates the map that `definition` in the policy's memory describes. Panics if its type is not modelled.
    pub(crate) fn open(
        &mut self,
        definition: *const c_void,
        kind: u32,
        max_entries: u32,
        key_size: u32,
        value_size: u32,
        nr_cpus: usize,
    ) -> *mut SimMap {
        let known = [HASH, ARRAY, PERCPU_ARRAY, LRU_HASH, TASK_STORAGE];
        assert!(known.contains(&kind), "maps of type {kind} are not modelled");
        let stride = u64::from(value_size).next_multiple_of(8);
        let mut shown = SimMap {
            values: null_mut(),
            stride,
            cpu_stride: 0,
            kind,
            max_entries,
            key_size,
            value_size,
            id: self.maps.len() as u32,
        };
        let entries = stride as usize * max_entries as usize;
        let mut values = match kind {
            ARRAY => zeroed(entries),
            PERCPU_ARRAY => {
                shown.cpu_stride = (entries as u64).next_multiple_of(64);
                zeroed(shown.cpu_stride as usize * nr_cpus)
            }
            _ => Box::default(),
        };
        if kind == ARRAY || kind == PERCPU_ARRAY {
            shown.values = start(&mut values);
        }
        let shown = Box::into_raw(Box::new(shown));
        let map = Map {
            definition,
            shown,
            _values: values,
            by_key: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            by_task: Vec::new(),
        };
        self.maps.push(map);
        shown
    }

    /// The value in a hash under this key.
    pub(crate) fn lookup(&mut self, shown: &SimMap, key: &[u8]) -> Option<*mut u8> {
        self.maps[shown.id as usize].find(key, shown.kind == LRU_HASH)
    }

    /// Inserts or changes an entry of a hash.
    ///
    /// # Safety
    /// `value` has `value_size` bytes.
    pub(crate) unsafe fn update(
        &mut self,
        shown: &SimMap,
        key: Vec<u8>,
        value: *const u8,
        flags: u64,
    ) -> i32 {
        let map = &mut self.maps[shown.id as usize];
        let (exists, len) = (map.by_key.contains_key(&key), map.by_key.len());
        let is_lru = shown.kind == LRU_HASH;
        if flags & NOEXIST != 0 && exists {
            return -EEXIST;
        }
        if flags & EXIST != 0 && !exists {
            return -ENOENT;
        }
        if !exists && len >= shown.max_entries as usize {
            if !is_lru {
                return -E2BIG;
            }
            self.gone.extend(map.remove_oldest());
        }
        let size = shown.value_size as usize;
        if !exists {
            map.by_key.insert(key.clone(), Entry { value: zeroed(size), used: 0 });
        }
        if let Some(entry) = map.find(&key, is_lru) {
            // SAFETY: both have value_size bytes.
            unsafe { copy_nonoverlapping(value, entry, size) };
        }
        0
    }

    /// Removes an entry from a hash.
    pub(crate) fn delete(&mut self, shown: &SimMap, key: &[u8]) -> i32 {
        match self.maps[shown.id as usize].remove(key) {
            Some(value) => {
                self.gone.push(value);
                0
            }
            None => -ENOENT,
        }
    }

    /// The storage of `task` in this map, or null. If there is none and `flags` contain `STORAGE_CREATE`, it is
    /// created as a copy of `value`, or zeroed if `value` is null. `nr_tasks`: the number of tasks.
    ///
    /// # Safety
    /// `value` is null or has `value_size` bytes.
    pub(crate) unsafe fn of_task(
        &mut self,
        shown: &SimMap,
        task: TaskId,
        nr_tasks: usize,
        value: *const u8,
        flags: u64,
    ) -> *mut u8 {
        let slots = &mut self.maps[shown.id as usize].by_task;
        if slots.len() <= task {
            slots.resize_with(nr_tasks, || None);
        }
        if slots[task].is_none() && flags & STORAGE_CREATE != 0 {
            let mut fresh = zeroed(shown.value_size as usize);
            if !value.is_null() {
                // SAFETY: both have value_size bytes.
                unsafe { copy_nonoverlapping(value, start(&mut fresh), shown.value_size as usize) };
            }
            slots[task] = Some(fresh);
        }
        slots[task].as_mut().map_or(null_mut(), start)
    }

    /// Removes the storage of `task`.
    pub(crate) fn forget_task(&mut self, shown: &SimMap, task: TaskId) -> i32 {
        let slots = &mut self.maps[shown.id as usize].by_task;
        slots.get_mut(task).and_then(Option::take).map_or(-ENOENT, |_| 0)
    }
}
