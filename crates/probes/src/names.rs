//! Identifies a lock: by its address if that belongs to a variable of the kernel, else by the function
//! that takes it.
use crate::symbols::Symbols;
use libbpf_rs::btf::{Btf, BtfType, types};
use libbpf_rs::{HasSize, ReferencesType};
use std::ops::Range;

pub(crate) struct LockNames<'a> {
    symbols: &'a Symbols,
    types: Option<Btf<'static>>,
    per_cpu: Range<u64>,
    /// By CPU: the offset from a per-CPU variable's address to the CPU's copy.
    offsets: Vec<u64>,
}

/// A lock's name, and whether it is in per-CPU memory.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub(crate) struct LockName {
    pub(crate) name: String,
    pub(crate) is_per_cpu: bool,
}

/// Locks in memory that has no symbol, by the functions that take them.
const BY_TAKER: &[(&[&str], &str)] = &[
    (&["dispatch", "dsq"], "a dispatch queue's lock"),
    (&["load_avg", "blocked_averages"], "a cgroup's cfs_rq.removed.lock"),
    (&["try_to_wake_up", "task_rq_lock", "wake_up_new_task"], "a task's pi_lock"),
];

impl<'a> LockNames<'a> {
    pub(crate) fn new(symbols: &'a Symbols, offsets: Vec<u64>) -> Self {
        let bound = |name| symbols.address(name).unwrap_or(0);
        let per_cpu = bound("__per_cpu_start")..bound("__per_cpu_end");
        Self { symbols, types: Btf::from_vmlinux().ok(), per_cpu, offsets }
    }

    pub(crate) fn of(&self, lock: u64, taker: &str) -> LockName {
        let shared = |name| LockName { name, is_per_cpu: false };
        if let Some(name) = self.per_cpu_variable(lock) {
            return LockName { name, is_per_cpu: true };
        }
        if let Some((name, _)) = self.symbols.at(lock) {
            return shared(name.to_owned());
        }
        let known = BY_TAKER.iter().find(|(words, _)| words.iter().any(|word| taker.contains(word)));
        shared(known.map_or_else(|| format!("a lock that {taker} takes"), |(_, name)| (*name).to_owned()))
    }

    fn per_cpu_variable(&self, lock: u64) -> Option<String> {
        let here = |offset: &u64| Some(lock.wrapping_sub(*offset)).filter(|at| self.per_cpu.contains(at));
        let (variable, offset) = self.symbols.at(self.offsets.iter().find_map(here)?)?;
        let path = self.types.as_ref().and_then(|btf| {
            let variable: types::Var<'_> = btf.type_by_name(variable)?;
            Some(member_at(btf, variable.referenced_type(), offset))
        });
        Some(format!("{variable}{}", path.unwrap_or_else(|| format!("+{offset}"))))
    }
}

/// The path of members down to a lock, as in `.scx.local_dsq.lock`.
fn member_at(btf: &Btf<'_>, ty: BtfType<'_>, offset: u64) -> String {
    let ty = ty.skip_mods_and_typedefs();
    if let Ok(array) = types::Array::try_from(ty) {
        let element = array.contained_type().skip_mods_and_typedefs();
        let size = types::Composite::try_from(element).map_or(0, |element| element.size() as u64);
        return match offset.checked_div(size) {
            Some(index) => format!("[{index}]{}", member_at(btf, element, offset % size)),
            None => String::new(),
        };
    }
    let is_lock = ty.name().is_some_and(|name| name.to_string_lossy().ends_with("spinlock"));
    let Some(composite) = types::Composite::try_from(ty).ok().filter(|_| !is_lock) else {
        return String::new();
    };
    let start = |member: &types::CompositeMember<'_>| match member.attr {
        types::MemberAttr::Normal { offset } => u64::from(offset) / 8,
        types::MemberAttr::BitField { offset, .. } => u64::from(offset) / 8,
    };
    let Some(nearest) = composite.iter().map(|member| start(&member)).filter(|at| *at <= offset).max() else {
        return String::new();
    };
    let Some(member) = composite.iter().find(|member| start(member) == nearest) else { return String::new() };
    let name = member.name.map(|name| format!(".{}", name.to_string_lossy())).unwrap_or_default();
    let rest = btf
        .type_by_id::<BtfType<'_>>(member.ty)
        .map(|ty| member_at(btf, ty, offset - nearest))
        .unwrap_or_default();
    name + &rest
}
