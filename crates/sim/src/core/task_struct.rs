//! `struct task_struct` of `include/sim/types.h`: what a policy can read of a task.
use flsched_machine::MAX_CPUS;
use std::ffi::c_char;

/// `cpumask_t`.
#[repr(C)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuMask {
    bits: [u64; MAX_CPUS / 64],
}

impl CpuMask {
    pub const fn empty() -> Self {
        Self { bits: [0; MAX_CPUS / 64] }
    }

    /// CPUs 0 to `count` - 1.
    pub fn first(count: usize) -> Self {
        let mut mask = Self::empty();
        (0..count).for_each(|cpu| mask.set(cpu, true));
        mask
    }

    /// Whether `cpu` is in it.
    pub fn has(&self, cpu: usize) -> bool {
        self.bits[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    /// Adds or removes `cpu`.
    pub fn set(&mut self, cpu: usize, is_in: bool) {
        let bit = 1 << (cpu % 64);
        if is_in { self.bits[cpu / 64] |= bit } else { self.bits[cpu / 64] &= !bit }
    }

    /// How many CPUs are in it.
    pub fn weight(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.bits.iter().enumerate().flat_map(|(index, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    index * 64 + bit
                })
            })
        })
    }

    /// The CPUs that are in both.
    pub fn and(&self, other: &Self) -> Self {
        let mut both = Self::empty();
        for (word, (a, b)) in both.bits.iter_mut().zip(self.bits.iter().zip(&other.bits)) {
            *word = a & b;
        }
        both
    }

    /// The first CPU in both, at or after `from`, else the first of all in both.
    pub fn first_common_from(&self, other: &Self, from: usize) -> Option<usize> {
        let words = self.bits.len();
        let (start, bit) = (from / 64, from % 64);
        let common = |index: usize| self.bits[index] & other.bits[index];
        let found = |index: usize, word: u64| index * 64 + word.trailing_zeros() as usize;
        let here = common(start) >> bit << bit;
        if here != 0 {
            return Some(found(start, here));
        }
        (1..=words).map(|step| (start + step) % words).find_map(|index| {
            let word = common(index);
            (word != 0).then(|| found(index, word))
        })
    }
}

/// `struct sched_entity`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SchedEntity {
    /// Time it has run, in ns.
    pub sum_exec_runtime: u64,
    /// When that was last updated.
    pub exec_start: u64,
}

/// `struct sched_ext_entity`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SchedExtEntity {
    pub(crate) slice: u64,
    pub(crate) dsq_vtime: u64,
    pub(crate) ddsp_dsq_id: u64,
    pub(crate) ddsp_enq_flags: u64,
    pub(crate) runnable_at: u64,
    pub(crate) flags: u32,
    pub(crate) weight: u32,
    pub(crate) sticky_cpu: i32,
    pub(crate) holding_cpu: i32,
    pub(crate) selected_cpu: i32,
    pub(crate) disallow: bool,
}

/// `struct signal_struct`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SignalStruct {
    /// Threads of the process that exist.
    pub nr_threads: i32,
}

/// `struct percpu_counter`.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct PercpuCounter {
    pub(crate) count: i64,
}

/// `struct mm_struct`: what a process has mapped, in pages, by kind.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct MmStruct {
    pub(crate) rss_stat: [PercpuCounter; 4],
    /// Always null: no program has a file.
    exe_file: usize,
}

impl MmStruct {
    /// `MM_SHMEMPAGES`: of memory that processes share.
    pub(crate) const SHARED: usize = 3;
}

/// `struct css_set`: one pointer, to a `struct cgroup`, which has one, to a `struct kernfs_node`,
/// which has a number.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CssSet(&'static &'static u64);

/// The root cgroup, in which all tasks are.
pub(crate) static ROOT_CGROUP: CssSet = CssSet(&&1);

/// `struct task_struct`; the fields are the kernel's.
#[repr(C)]
#[derive(Debug)]
pub struct TaskStruct {
    pub pid: i32,
    pub tgid: i32,
    pub flags: u32,
    pub policy: u32,
    pub prio: i32,
    pub static_prio: i32,
    pub normal_prio: i32,
    pub nr_cpus_allowed: i32,
    pub on_cpu: i32,
    pub on_rq: i32,
    pub wake_cpu: i32,
    pub recent_used_cpu: i32,
    pub migration_disabled: u16,
    pub start_time: u64,
    pub start_boottime: u64,
    pub nvcsw: u64,
    pub nivcsw: u64,
    pub se: SchedEntity,
    pub scx: SchedExtEntity,
    pub(crate) mm: *mut MmStruct,
    pub(crate) real_parent: *mut TaskStruct,
    pub(crate) parent: *mut TaskStruct,
    pub(crate) group_leader: *mut TaskStruct,
    pub(crate) signal: *mut SignalStruct,
    pub(crate) cgroups: *const CssSet,
    pub(crate) cpus_ptr: *const CpuMask,
    pub comm: [c_char; 16],
    /// All threads of a process use their leader's.
    pub(crate) own_signal: SignalStruct,
    pub(crate) own_mm: MmStruct,
    pub cpus_mask: CpuMask,
}

impl TaskStruct {
    pub fn name(&self) -> String {
        self.comm.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_searched_all_around() {
        let mut mask = CpuMask::empty();
        mask.set(3, true);
        mask.set(200, true);
        let all = CpuMask::first(228);
        assert_eq!(mask.iter().collect::<Vec<_>>(), [3, 200]);
        assert_eq!(mask.first_common_from(&all, 3), Some(3));
        assert_eq!(mask.first_common_from(&all, 4), Some(200));
        assert_eq!(mask.first_common_from(&all, 201), Some(3));
        assert_eq!(CpuMask::empty().first_common_from(&all, 9), None);
        assert_eq!((mask.weight(), all.weight()), (2, 228));
    }
}
