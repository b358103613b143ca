//! Reads a policy's description from its object: the tags that `KNOB()`, `CHOICE()`, `PID_LIST()`,
//! `STAT()` and `CONTROL()` of `policies/common.bpf.h` leave in the type information (BTF), and the knobs' initial values.
use crate::{Knob, PidList, Statistic};
use btf_rs::{Btf, BtfType, Type};
use object::{Object, ObjectSection, ObjectSymbol};

/// The section in which the compiler stores type information.
const BTF: &str = ".BTF";
/// The section with the kernel's table of callbacks. One in `.struct_ops` would stay attached after `kill -9`.
const OPS: &str = ".struct_ops.link";
/// The struct behind `STATS()`: a member for each statistic.
const STATS_STRUCT: &str = "policy_stats";

/// An object that was not compiled from a policy's source.
#[derive(Debug, thiserror::Error)]
#[error("the object is malformed: {0}")]
pub struct Malformed(String);

/// What the tags declare.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// In the order of the source.
    pub knobs: Vec<Knob>,
    pub lists: Vec<PidList>,
    /// In the order of the policy's map.
    pub statistics: Vec<Statistic>,
    pub control: Option<String>,
}

/// Reads an object that was compiled for BPF.
pub(crate) fn describe(object: &[u8]) -> Result<Description, Malformed> {
    let file = object::File::parse(object).map_err(|error| Malformed(error.to_string()))?;
    let section = file.section_by_name(BTF).and_then(|section| section.data().ok());
    let Some(section) = section.filter(|section| !section.is_empty()) else {
        return Err(Malformed("its source has no SCX_OPS_DEFINE(NAME_ops, …): it defines no policy".into()));
    };
    let btf = Btf::from_bytes(section).map_err(|error| Malformed(error.to_string()))?;

    let tables = ops_tables(&file);
    if tables != 1 {
        let what = format!("its source has SCX_OPS_DEFINE(NAME_ops, …) {tables} times; a policy has it once");
        return Err(Malformed(what));
    }
    let mut found = Description::default();
    let mut counted: Vec<(u32, Statistic)> = Vec::new();
    for ty in (1..).map_while(|id| btf.resolve_type_by_id(id).ok()) {
        let Type::DeclTag(tag) = ty else { continue };
        let (Ok(text), Ok(tagged)) = (btf.resolve_name(&tag), btf.resolve_chained_type(&tag)) else {
            continue;
        };
        let of = |ty: &dyn BtfType| btf.resolve_name(ty).unwrap_or_default();
        match &tagged {
            Type::Var(variable) => {
                let name = of(variable);
                if let Some(what) = text.strip_prefix("control ") {
                    found.control = Some(what.to_owned());
                    continue;
                }
                if let Some(list) = PidList::parse_tag(&text, &name) {
                    found.lists.push(list);
                    continue;
                }
                let knob = initial_value(&file, &name).and_then(|value| Knob::parse_tag(&text, &name, value));
                found.knobs.push(knob.ok_or_else(|| Malformed(format!("tag `{text}` of {name}")))?);
            }
            Type::Struct(structure) if of(structure) == STATS_STRUCT => {
                let member = tag.component_index();
                let counter = member.and_then(|index| structure.members.get(index as usize));
                if let (Some(index), Some(member), Some(doc)) = (member, counter, text.strip_prefix("stat "))
                {
                    counted.push((index, Statistic { name: of(member), doc: doc.to_owned() }));
                }
            }
            _ => {}
        }
    }
    counted.sort_by_key(|(index, _)| *index);
    found.statistics = counted.into_iter().map(|(_, statistic)| statistic).collect();
    Ok(found)
}

/// How many of the kernel's tables of callbacks the object has.
fn ops_tables(file: &object::File<'_>) -> usize {
    let is_table = |symbol: &object::Symbol<'_, '_>| {
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        symbol.size() > 0 && section.is_some_and(|it| it.name().is_ok_and(|name| name == OPS))
    };
    file.symbols().filter(is_table).count()
}

/// The initial value of a 64-bit variable.
fn initial_value(file: &object::File<'_>, name: &str) -> Option<u64> {
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let bytes = section.data_range(symbol.address(), size_of::<u64>() as u64).ok()??;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_refused() {
        let error = describe(b"not an object").unwrap_err().to_string();
        assert!(error.contains("malformed"), "{error}");
    }
}
