//! Values of the kernel's sched_ext enums, which differ between kernels. scx's headers ask for them as
//! read-only variables `__SCX_…`.
use scx_utils::compat;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The kernel's types of those enums (scx's own `enum_defs.autogen.h`).
const ENUM_TYPES: &[&str] = &[
    "scx_public_consts",
    "scx_rq_flags",
    "scx_dsq_id_flags",
    "scx_ent_flags",
    "scx_task_state",
    "scx_ent_dsq_flags",
    "scx_kick_flags",
    "scx_enq_flags",
    "scx_deq_flags",
];

/// The value of `constant` on the running kernel; 0 if it has none, as scx's headers expect.
///
/// Each type that is asked is searched for among all types of the kernel, some hundred thousand: half of
/// what attaching costs. So the likeliest type is asked first, and nothing is asked twice.
pub(crate) fn value(constant: &str) -> u64 {
    static KNOWN: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(value) = known.get(constant) {
        return *value;
    }
    let value = compat::read_enum_any(&likeliest_first(constant), constant).unwrap_or(0);
    known.insert(constant.to_owned(), value);
    value
}

/// `SCX_ENQ_WAKEUP` is probably one of `scx_enq_flags`.
fn likeliest_first(constant: &str) -> Vec<&'static str> {
    let constant = constant.to_lowercase();
    let words_shared = |name: &str| {
        name.split('_').zip(constant.split('_')).take_while(|(ours, theirs)| ours == theirs).count()
    };
    let mut types = ENUM_TYPES.to_vec();
    types.sort_by_key(|name| std::cmp::Reverse(words_shared(name)));
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_the_likeliest_type_first() {
        for (constant, expected) in [
            ("SCX_ENQ_WAKEUP", "scx_enq_flags"),
            ("SCX_KICK_IDLE", "scx_kick_flags"),
            ("SCX_DSQ_LOCAL_ON", "scx_dsq_id_flags"),
            ("SCX_SLICE_DFL", "scx_public_consts"),
        ] {
            assert_eq!(likeliest_first(constant)[0], expected);
        }
        assert_eq!(likeliest_first("SCX_RQ_ONLINE").len(), ENUM_TYPES.len());
    }
}
