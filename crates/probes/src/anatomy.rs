//! What a policy's object shows without being run: for each callback the helpers and kfuncs that
//! its code can reach, and whether it has locks of its own.
//!
//! All branches count, also those for other kernels.
use crate::Error;
use flsched_spec::Policy;
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{MapType, ObjectBuilder};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A policy, taken apart.
#[derive(Debug, Deserialize, Serialize)]
pub struct Anatomy {
    pub callbacks: Vec<Callback>,
    /// The policy shares memory with other programs (an arena). Locks in it are plain memory, which
    /// the analysis of calls cannot exclude.
    pub has_arena: bool,
}

/// What a callback's code can reach.
#[derive(Debug, Deserialize, Serialize)]
pub struct Callback {
    /// Its name in the ops table.
    pub name: String,
    pub program: String,
    /// BPF helpers.
    pub helpers: Vec<String>,
    /// Kernel functions.
    pub kfuncs: Vec<String>,
    /// Helpers and kfuncs that take a lock of the policy's own.
    pub own_locks: Vec<String>,
    /// Atomic instructions by operation, with how often each occurs. One that returns the old value
    /// shows a CPU whether it came first, so a lock could be built with it.
    pub atomics: Atomics,
}

/// How often each atomic operation occurs in the code.
pub type Atomics = BTreeMap<String, usize>;

impl Anatomy {
    /// Analyses a policy; needs neither root nor sched_ext.
    pub fn of(policy: &Policy) -> Result<Self, Error> {
        let malformed = |what: String| Error::Object { policy: policy.name.into(), what };
        let code = Code::parse(policy.object).map_err(|e| malformed(e.to_string()))?;
        let helpers = helper_names();
        let mut callbacks: Vec<Callback> = code
            .callbacks
            .iter()
            .map(|entry| {
                let program = code.functions[entry].name.clone();
                let reach = code.reach(*entry);
                let named = |id: &i32| helpers.get(id).cloned().unwrap_or_else(|| format!("helper {id}"));
                let mut own_locks: Vec<_> =
                    reach.kfuncs.iter().filter(|name| name.contains("spin_lock")).cloned().collect();
                own_locks.extend(reach.helpers.iter().filter(|id| **id == BPF_FUNC_SPIN_LOCK).map(named));
                Callback {
                    name: callback_name(policy, &program),
                    helpers: reach.helpers.iter().map(named).collect(),
                    kfuncs: reach.kfuncs.into_iter().collect(),
                    own_locks,
                    atomics: reach.atomics,
                    program,
                }
            })
            .collect();
        callbacks.sort_by(|a, b| a.name.cmp(&b.name));
        let open = ObjectBuilder::default()
            .name(policy.name)
            .and_then(|builder| builder.open_memory(policy.object))
            .map_err(|e| malformed(e.to_string()))?;
        let has_arena = open.maps().any(|map| map.map_type() == MapType::Arena);
        Ok(Self { callbacks, has_arena })
    }

    /// True if no callback takes a lock that the policy itself made.
    pub fn is_lock_free(&self) -> bool {
        !self.has_arena && self.callbacks.iter().all(|callback| callback.own_locks.is_empty())
    }

    /// Without the branches for other kernels: only the kfuncs that this kernel has.
    pub(crate) fn on_this_kernel(mut self, has: impl Fn(&str) -> bool) -> Self {
        self.callbacks.iter_mut().for_each(|callback| callback.kfuncs.retain(|kfunc| has(kfunc)));
        self
    }

    /// All kfuncs of all callbacks, as the kernel calls them.
    pub(crate) fn kfuncs(&self) -> BTreeSet<String> {
        self.callbacks.iter().flat_map(|callback| callback.kfuncs.iter().cloned()).collect()
    }
}

/// `flsched_enqueue` of policy flsched is `enqueue`.
pub(crate) fn callback_name(policy: &Policy, program: &str) -> String {
    let stripped = program.strip_prefix(policy.name).map(|rest| rest.trim_start_matches('_'));
    stripped.unwrap_or(program).to_owned()
}

const BPF_FUNC_SPIN_LOCK: i32 = 93;

/// An instruction is 8 bytes: opcode, registers, offset, immediate.
const INSTRUCTION: u64 = 8;
const CALL: u8 = 0x85;
const LOAD_ADDRESS: u8 = 0x18;
/// Store class, atomic mode, of any size.
const ATOMIC: u8 = 0xc3;
const ATOMIC_MASK: u8 = 0xe7;
/// A call's source register determines what is called.
const TO_HELPER: u8 = 0;
const TO_FUNCTION: u8 = 1;

/// A function: its section and its offset there.
type Entry = (usize, u64);

struct Code {
    functions: BTreeMap<Entry, Function>,
    callbacks: Vec<Entry>,
}

struct Function {
    name: String,
    helpers: BTreeSet<i32>,
    kfuncs: BTreeSet<String>,
    /// Functions that are called, or given to the kernel for a timer or a loop.
    functions: BTreeSet<Entry>,
    atomics: Atomics,
}

#[derive(Default)]
struct Reach {
    helpers: BTreeSet<i32>,
    kfuncs: BTreeSet<String>,
    atomics: Atomics,
}

impl Code {
    fn parse(object: &[u8]) -> object::read::Result<Self> {
        let file = object::File::parse(object)?;
        let mut functions = BTreeMap::new();
        let mut callbacks = Vec::new();
        for section in file.sections().filter(|section| section.kind() == object::SectionKind::Text) {
            let data = section.data()?;
            let targets: HashMap<u64, RelocationTarget> =
                section.relocations().map(|(offset, relocation)| (offset, relocation.target())).collect();
            let is_function = |symbol: &object::Symbol<'_, '_>| {
                symbol.section_index() == Some(section.index()) && symbol.kind() == SymbolKind::Text
            };
            for symbol in file.symbols().filter(is_function) {
                let mut function = Function {
                    name: symbol.name()?.to_owned(),
                    helpers: BTreeSet::new(),
                    kfuncs: BTreeSet::new(),
                    functions: BTreeSet::new(),
                    atomics: Atomics::new(),
                };
                let text = symbol.address()..symbol.address() + symbol.size();
                for at in text.step_by(INSTRUCTION as usize) {
                    let Some(bytes) = data.get(at as usize..(at + INSTRUCTION) as usize) else { break };
                    let (opcode, source) = (bytes[0], bytes[1] >> 4);
                    let immediate = i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
                    let target = match targets.get(&at) {
                        Some(RelocationTarget::Symbol(index)) => Some(file.symbol_by_index(*index)?),
                        _ => None,
                    };
                    match (opcode, source, target) {
                        (CALL, TO_HELPER, None) => function.helpers.extend([immediate]),
                        (CALL, TO_FUNCTION, Some(target)) if target.is_undefined() => {
                            function.kfuncs.extend([kernel_name(target.name()?).to_owned()]);
                        }
                        (CALL, TO_FUNCTION, Some(target)) => {
                            // Relative to the next instruction; -1 means the symbol itself.
                            let start = target.address().wrapping_add_signed((i64::from(immediate) + 1) * 8);
                            function.functions.extend(target.section_index().map(|index| (index.0, start)));
                        }
                        (CALL, TO_FUNCTION, None) => {
                            let start = at.wrapping_add_signed((i64::from(immediate) + 1) * 8);
                            function.functions.extend([(section.index().0, start)]);
                        }
                        (LOAD_ADDRESS, _, Some(target)) => {
                            let start = target.address().wrapping_add_signed(i64::from(immediate));
                            function.functions.extend(target.section_index().map(|index| (index.0, start)));
                        }
                        _ if opcode & ATOMIC_MASK == ATOMIC => {
                            *function.atomics.entry(operation(immediate).to_owned()).or_default() += 1;
                        }
                        _ => {}
                    }
                }
                let entry = (section.index().0, symbol.address());
                if section.name()?.starts_with("struct_ops") {
                    callbacks.push(entry);
                }
                functions.insert(entry, function);
            }
        }
        Ok(Self { functions, callbacks })
    }

    /// Everything that a function and its callees do.
    fn reach(&self, entry: Entry) -> Reach {
        let mut reach = Reach::default();
        let (mut seen, mut todo) = (BTreeSet::new(), vec![entry]);
        while let Some(entry) = todo.pop() {
            // An address that was loaded can be that of data.
            let Some(function) = self.functions.get(&entry).filter(|_| seen.insert(entry)) else { continue };
            reach.helpers.extend(&function.helpers);
            reach.kfuncs.extend(function.kfuncs.iter().cloned());
            for (operation, occurrences) in &function.atomics {
                *reach.atomics.entry(operation.clone()).or_default() += occurrences;
            }
            todo.extend(&function.functions);
        }
        reach
    }
}

/// What an atomic instruction does, by its immediate; with the bit 0x01 it returns the old value.
fn operation(immediate: i32) -> &'static str {
    match immediate {
        0x00 => "add",
        0x01 => "fetch_add",
        0x40 => "or",
        0x41 => "fetch_or",
        0x50 => "and",
        0x51 => "fetch_and",
        0xa0 => "xor",
        0xa1 => "fetch_xor",
        0xe1 => "xchg",
        0xf1 => "cmpxchg",
        0x100 => "load_acquire",
        0x110 => "store_release",
        _ => "unknown",
    }
}

/// libbpf resolves a kfunc without its last `___flavour`.
fn kernel_name(name: &str) -> &str {
    name.rsplit_once("___").map_or(name, |(essential, _)| essential)
}

/// Helpers by number, as far as this kernel's types name them.
fn helper_names() -> HashMap<i32, String> {
    let Ok(btf) = Btf::from_vmlinux() else { return HashMap::new() };
    let Some(ids) = btf.type_by_name::<types::Enum<'_>>("bpf_func_id") else { return HashMap::new() };
    ids.iter()
        .filter_map(|value| {
            let name = value.name?.to_str()?.strip_prefix("BPF_FUNC_")?;
            Some((i32::try_from(value.value).ok()?, format!("bpf_{name}")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_through_subprograms_and_timers() {
        let kfuncs = |policy: &str, name: &str| {
            let anatomy = Anatomy::of(Policy::find(policy).unwrap()).unwrap();
            let found = anatomy.callbacks.iter().find(|callback| callback.name == name).unwrap();
            found.kfuncs.clone()
        };
        assert!(kfuncs("flsched", "enqueue").iter().any(|name| name.starts_with("scx_bpf_dsq_insert")));
        assert!(kfuncs("flsched", "tick").contains(&"scx_bpf_dsq_nr_queued".to_owned()), "in a subprogram");
        assert!(kfuncs("smove", "init").contains(&"scx_bpf_kick_cpu".to_owned()), "in a timer's function");
    }

    #[test]
    fn no_policy_has_locks_of_its_own() {
        for policy in Policy::all() {
            let anatomy = Anatomy::of(policy).unwrap();
            assert!(anatomy.is_lock_free(), "{anatomy:#?}");
        }
    }

    /// Bits are set and cleared; SCHED_RR2 counts threads, too. A CPU is claimed by clearing its bit; a task
    /// that comes second claims another one and waits for nothing.
    #[test]
    fn only_bits_and_counts_change_atomically() {
        const SET_AND_CLEARED: &[&str] = &["or", "and", "fetch_and", "fetch_or"];
        const COUNTED: &[&str] = &["add", "fetch_add", "xchg"];
        for policy in Policy::all() {
            let anatomy = Anatomy::of(policy).unwrap();
            // scx's own header stores the reason of the exit atomically.
            let hot = || anatomy.callbacks.iter().filter(|callback| callback.name != "exit");
            let further = if policy.name == "rr2" { COUNTED } else { &[] };
            let may = |operation: &str| SET_AND_CLEARED.contains(&operation) || further.contains(&operation);
            let mut operations = hot().flat_map(|callback| callback.atomics.keys());
            assert!(operations.all(|operation| may(operation)), "{anatomy:#?}");
        }
        let flsched = Anatomy::of(Policy::find("flsched").unwrap()).unwrap();
        let operations = |name: &str| {
            let callback = flsched.callbacks.iter().find(|callback| callback.name == name).unwrap();
            callback.atomics.keys().cloned().collect::<Vec<_>>()
        };
        // The old value orders what follows: the CPU adds itself, then searches once more. On x86 the order comes without it.
        let clears = if cfg!(target_arch = "x86_64") { "and" } else { "fetch_and" };
        assert_eq!(operations("update_idle"), [clears, "fetch_or"]);
        let takes = operations("select_cpu");
        assert_eq!(takes, ["fetch_and", "fetch_or"], "takes an idle CPU; its group has no more");
    }

    #[test]
    fn drops_the_last_flavour() {
        assert_eq!(kernel_name("scx_bpf_dsq_insert___v2___compat"), "scx_bpf_dsq_insert___v2");
        assert_eq!(kernel_name("scx_bpf_now"), "scx_bpf_now");
    }
}
