//! Finds out from raw BTF whether sched_ext programs can be loaded.
//!
//! From 7.1 on, some scx kfuncs take one argument that the verifier supplies: the program's
//! `struct bpf_prog_aux *aux`. The build must then split each into a public prototype without
//! it and an `_impl` one with it. Kernels built with pahole older than 1.26 lack the split: the
//! public prototype keeps the argument, programs declare it without, and the verifier refuses them
//! all. That can be seen in the BTF alone, so no kernel has to be booted to find out.
use super::BtfHealth;
use btf_rs::{Btf, Parameter, Type};

/// Findings about sched_ext in the BTF of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Findings {
    /// How many public scx kfuncs there are; none means a kernel without sched_ext.
    pub kfuncs: usize,
    /// Those whose prototype still has the implicit argument, sorted.
    pub malformed: Vec<String>,
}

impl Findings {
    pub fn health(&self) -> BtfHealth {
        if self.kfuncs == 0 {
            BtfHealth::Unknown("its BTF names no scx kfunc: built without sched_ext?".into())
        } else if self.malformed.is_empty() {
            BtfHealth::Good
        } else {
            BtfHealth::Malformed(self.malformed.clone())
        }
    }
}

/// The same verdict for the kernel that is running now.
pub fn running_kernel_btf() -> BtfHealth {
    let path = "/sys/kernel/btf/vmlinux";
    match std::fs::read(path) {
        Ok(raw) => inspect(&raw).map_or_else(BtfHealth::Unknown, |found| found.health()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            BtfHealth::Unknown(format!("no {path}: built without CONFIG_DEBUG_INFO_BTF"))
        }
        Err(e) => BtfHealth::Unknown(format!("cannot read {path}: {e}")),
    }
}

/// Checks the content of a `.BTF` section.
pub(super) fn inspect(raw: &[u8]) -> Result<Findings, String> {
    inspect_types(raw).map_err(|error| format!("its BTF cannot be read: {error}"))
}

fn inspect_types(raw: &[u8]) -> Result<Findings, btf_rs::Error> {
    let btf = Btf::from_bytes(raw)?;
    let mut kfuncs = 0;
    let mut malformed = Vec::new();
    for id in 1.. {
        let func = match btf.resolve_type_by_id(id) {
            Ok(Type::Func(func)) => func,
            Ok(_) => continue,
            Err(btf_rs::Error::InvalidType(_)) => break,
            Err(error) => return Err(error),
        };
        let name = btf.resolve_name(&func)?;
        // A proper split has the argument in the `_impl` prototype.
        let public = name.starts_with("scx_bpf_") || name.starts_with("__scx_bpf_");
        if !public || name.ends_with("_impl") {
            continue;
        }
        kfuncs += 1;
        let Type::FuncProto(proto) = btf.resolve_chained_type(&func)? else { continue };
        for parameter in &proto.parameters {
            if is_implicit(&btf, parameter)? {
                malformed.push(name.clone());
            }
        }
    }
    malformed.sort();
    malformed.dedup();
    Ok(Findings { kfuncs, malformed })
}

/// Whether a parameter is `struct bpf_prog_aux *aux`. Name and type both: a kfunc may take an explicit argument of
/// that type under another name (`aux__prog`).
fn is_implicit(btf: &Btf, parameter: &Parameter) -> Result<bool, btf_rs::Error> {
    if btf.resolve_name(parameter)? != "aux" {
        return Ok(false);
    }
    let Type::Ptr(pointer) = btf.resolve_chained_type(parameter)? else { return Ok(false) };
    let mut target = btf.resolve_chained_type(&pointer)?;
    if let Type::Const(constant) = &target {
        target = btf.resolve_chained_type(constant)?;
    }
    let Type::Struct(target) = target else { return Ok(false) };
    Ok(btf.resolve_name(&target)? == "bpf_prog_aux")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const KIND_PTR: u32 = 2;
    const KIND_STRUCT: u32 = 4;
    const KIND_CONST: u32 = 10;
    const KIND_FUNC: u32 = 12;
    const KIND_FUNC_PROTO: u32 = 13;

    /// Writes BTF. Types are numbered in the order in which they are added.
    #[derive(Default)]
    struct Writer {
        types: Vec<u8>,
        strings: Vec<u8>,
        count: u32,
    }

    impl Writer {
        fn name(&mut self, name: &str) -> u32 {
            if self.strings.is_empty() {
                self.strings.push(0);
            }
            let at = self.strings.len() as u32;
            self.strings.extend_from_slice(name.as_bytes());
            self.strings.push(0);
            at
        }

        fn add(&mut self, name: &str, kind: u32, to: u32, params: &[(&str, u32)]) -> u32 {
            let name = if name.is_empty() { 0 } else { self.name(name) };
            let params: Vec<_> = params.iter().map(|(n, t)| (self.name(n), *t)).collect();
            for field in [name, kind << 24 | params.len() as u32, to] {
                self.types.extend_from_slice(&field.to_le_bytes());
            }
            for field in params.iter().flat_map(|(n, t)| [*n, *t]) {
                self.types.extend_from_slice(&field.to_le_bytes());
            }
            self.count += 1;
            self.count
        }

        fn finish(self) -> Vec<u8> {
            let mut raw = vec![0x9f, 0xeb, 1, 0];
            let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
            for field in [24, 0, types, types, strings] {
                raw.extend_from_slice(&field.to_le_bytes());
            }
            raw.extend(self.types);
            raw.extend(self.strings);
            raw
        }
    }

    /// BTF with one scx kfunc: as it should be, or as an old pahole leaves it.
    pub(in crate::kernel) fn blob(malformed: bool) -> Vec<u8> {
        let mut btf = Writer::default();
        let aux = btf.add("bpf_prog_aux", KIND_STRUCT, 0, &[]);
        let constant = btf.add("", KIND_CONST, aux, &[]);
        let pointer = btf.add("", KIND_PTR, constant, &[]);
        let full = btf.add("", KIND_FUNC_PROTO, 0, &[("cpu", pointer), ("aux", pointer)]);
        let public = btf.add("", KIND_FUNC_PROTO, 0, &[("cpu", pointer)]);
        let explicit = btf.add("", KIND_FUNC_PROTO, 0, &[("aux__prog", pointer)]);
        btf.add("scx_bpf_kick_cpu", KIND_FUNC, if malformed { full } else { public }, &[]);
        btf.add("scx_bpf_kick_cpu_impl", KIND_FUNC, full, &[]);
        btf.add("scx_bpf_explicit", KIND_FUNC, explicit, &[]);
        btf.add("unrelated", KIND_FUNC, full, &[]);
        btf.finish()
    }

    #[test]
    fn a_proper_split_is_good() {
        let found = inspect(&blob(false)).unwrap();
        assert_eq!(found, Findings { kfuncs: 2, malformed: vec![] });
        assert_eq!(found.health(), BtfHealth::Good);
    }

    #[test]
    fn a_missing_split_is_malformed() {
        let found = inspect(&blob(true)).unwrap();
        assert_eq!(found.health(), BtfHealth::Malformed(vec!["scx_bpf_kick_cpu".into()]));
    }

    #[test]
    fn without_scx_kfuncs_nothing_is_claimed() {
        let mut btf = Writer::default();
        btf.add("task_struct", KIND_STRUCT, 0, &[]);
        assert!(matches!(inspect(&btf.finish()).unwrap().health(), BtfHealth::Unknown(_)));
    }

    #[test]
    fn damage_is_an_error_not_a_panic() {
        let good = blob(false);
        for end in 0..good.len() {
            assert!(inspect(&good[..end]).is_err(), "cut at {end}");
        }
        for at in 24..good.len() {
            let mut bad = good.clone();
            bad[at] = 0xff;
            let _ = inspect(&bad);
        }
    }
}
