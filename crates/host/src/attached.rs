//! The policy that runs this machine, whichever process has attached it: its settings and its statistics, from the maps
//! that its programs hold.
use crate::object::{STATS_MAP, variables};
use crate::{loader, sched_ext, status};
use flsched_spec::{Policy, PolicySpec};
use libbpf_rs::btf::Btf;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramType};
use std::ffi::OsStr;
use std::time::Duration;

/// The longest name of a program that the kernel keeps.
const PROGRAM_NAME: usize = 15;

/// A policy of this build that is attached.
pub struct Attached {
    /// The policy and its settings.
    pub spec: PolicySpec,
    /// When it was loaded, on the clock that runs since boot.
    pub loaded_at: Duration,
    statistics: MapHandle,
}

impl Attached {
    /// The one that runs this machine; `None`: the default scheduler does, another one, or one whose maps this process may
    /// not read (that needs CAP_SYS_ADMIN).
    pub fn find() -> Option<Self> {
        let ops = sched_ext::status().filter(sched_ext::Status::is_active)?.ops?;
        // Another version may count other events.
        let policy = status::policy_named(&ops).filter(|policy| policy.ops_name() == ops)?;
        let dispatch: String = format!("{}_dispatch", policy.name).chars().take(PROGRAM_NAME).collect();
        let options = ProgInfoQueryOptions::default().include_map_ids(true);
        let programs = ProgInfoIter::with_query_opts(options)
            .filter(|it| it.ty == ProgramType::StructOps && it.name == *OsStr::new(&dispatch));
        // Others have been loaded and not been attached, as by `doctor`.
        let program = programs.max_by_key(|it| it.load_time)?;
        let mut maps: Vec<MapHandle> =
            program.map_ids.iter().filter_map(|&id| MapHandle::from_map_id(id).ok()).collect();
        let spec = settings(policy, &maps).unwrap_or_else(|| PolicySpec::new(policy));
        let statistics = maps.swap_remove(maps.iter().position(|map| map.name() == STATS_MAP)?);
        Some(Self { spec, loaded_at: program.load_time, statistics })
    }

    /// Its named statistics, summed over CPUs, in the order of its source; empty if they cannot be read.
    pub fn statistics(&self) -> Vec<(String, u64)> {
        loader::sums(self.spec.policy, &self.statistics).unwrap_or_default()
    }
}

/// The knobs that do not have their defaults, from the policy's read-only variables.
fn settings(policy: &'static Policy, maps: &[MapHandle]) -> Option<PolicySpec> {
    let constants = maps.iter().find(|map| map.name().to_string_lossy().ends_with(".rodata"))?;
    let bytes = constants.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    let btf = Btf::from_raw(policy.name, policy.object).ok()??;
    let variables = variables(&btf, ".rodata");
    let value = |name: &str| {
        let (_, offset, _) = variables.iter().find(|(it, _, _)| *it == name)?;
        Some(u64::from_ne_bytes(bytes.get(*offset..offset + 8)?.try_into().ok()?))
    };
    let changed = policy.knobs.iter().filter_map(|knob| {
        let value = value(&knob.name)?;
        (value != knob.default).then(|| (knob.name.clone(), value))
    });
    // A list of processes is not read: without it, its knob would be refused.
    let is_of_list = |name: &str| policy.lists.iter().any(|list| list.knob == name);
    PolicySpec::new(policy).set(changed.filter(|(name, _)| !is_of_list(name)), []).ok()
}
