//! A policy's object file before it is loaded: its read-only variables and its ops table, found by
//! name through the object's type information.
use crate::Error;
use flsched_spec::Policy;
use libbpf_rs::btf::types::{DataSec, MemberAttr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::{ObjectBuilder, OpenMapMut, OpenObject};
use std::ffi::OsStr;

/// The map behind STATS() in `policies/common.bpf.h`.
pub(crate) const STATS_MAP: &str = "policy_stats";

/// Parses the object; needs neither root nor sched_ext.
pub(crate) fn open(policy: &Policy) -> Result<OpenObject, Error> {
    ObjectBuilder::default()
        .name(policy.name)
        .and_then(|builder| builder.open_memory(policy.object))
        .map_err(|e| Error::Object { policy: policy.name.to_owned(), what: e.to_string() })
}

/// The variables of a data section: name, offset, size.
pub(crate) fn variables<'a>(btf: &'a Btf<'_>, section: &str) -> Vec<(&'a str, usize, usize)> {
    let named = |name: Option<&OsStr>| name.is_some_and(|n| n == section);
    btf.type_by_kind::<DataSec<'_>>()
        .filter(|sec| named(sec.name()))
        .flat_map(|sec| {
            sec.iter()
                .filter_map(|info| {
                    let var = btf.type_by_id::<Var<'_>>(info.ty)?;
                    Some((var.name()?.to_str()?, info.offset as usize, info.size))
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Writes a member of a `struct sched_ext_ops` that is about to be loaded.
pub(crate) fn set_ops_member(
    ops: &mut OpenMapMut<'_>,
    btf: &Btf<'_>,
    member: &str,
    value: &[u8],
) -> Option<()> {
    let slot = ops_slot(ops, btf, member)?;
    let (head, rest) = slot.split_at_mut_checked(value.len())?;
    head.copy_from_slice(value);
    rest.fill(0);
    Some(())
}

/// Reads a member of such a struct.
pub(crate) fn ops_member(ops: &mut OpenMapMut<'_>, btf: &Btf<'_>, member: &str) -> Option<Vec<u8>> {
    ops_slot(ops, btf, member).map(|slot| slot.to_vec())
}

/// The bytes of a member.
fn ops_slot<'a>(ops: &'a mut OpenMapMut<'_>, btf: &Btf<'_>, member: &str) -> Option<&'a mut [u8]> {
    let layout: Struct<'_> = btf.type_by_name("sched_ext_ops")?;
    let found = layout.iter().find(|m| m.name.is_some_and(|n| n == member))?;
    let MemberAttr::Normal { offset } = found.attr else { return None };
    let offset = offset as usize / 8;
    let size = size_of_type(btf.type_by_id(found.ty)?)?;
    ops.initial_value_mut()?.get_mut(offset..offset + size)
}

fn size_of_type(ty: BtfType<'_>) -> Option<usize> {
    use libbpf_rs::btf::types::{Array, Int, Ptr};
    let ty = ty.skip_mods_and_typedefs();
    if Ptr::try_from(ty).is_ok() {
        return Some(size_of::<u64>());
    }
    if let Ok(int) = Int::try_from(ty) {
        return Some(int.bits as usize / 8);
    }
    let array = Array::try_from(ty).ok()?;
    Some(array.capacity() * size_of_type(array.contained_type())?)
}
