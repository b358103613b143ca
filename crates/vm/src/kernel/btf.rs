//! Reads, out of raw BTF, whether sched_ext programs can be loaded.
//!
//! From 7.1 on, some scx kfuncs take one argument that the verifier supplies: the program's
//! `struct bpf_prog_aux *aux`. The build must then split each into a public prototype without
//! it and an `_impl` one with it. Kernels built with pahole older than 1.26 lack the split: the
//! public prototype keeps the argument, programs declare it without, and the verifier refuses them
//! all. That can be seen in the BTF alone, so no kernel has to be booted to find out.
use super::BtfHealth;

/// What the BTF of a kernel says about sched_ext.
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

const MAGIC: u16 = 0xeb9f;
const KIND_PTR: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_CONST: u32 = 10;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;

/// Judges the content of a `.BTF` section.
pub(super) fn inspect(raw: &[u8]) -> Result<Findings, String> {
    let types = Types::parse(raw)?;
    let mut kfuncs = 0;
    let mut malformed = Vec::new();
    for at in types.starts.iter().copied() {
        let func = types.at(at)?;
        if func.kind != KIND_FUNC {
            continue;
        }
        let name = types.name(func.name)?;
        // `_impl` is the other half of a proper split: there the argument belongs.
        let public = name.starts_with("scx_bpf_") || name.starts_with("__scx_bpf_");
        if !public || name.ends_with("_impl") {
            continue;
        }
        kfuncs += 1;
        let proto = types.by_id(func.size_or_type)?;
        if proto.kind == KIND_FUNC_PROTO && types.has_implicit_argument(&proto)? {
            malformed.push(name.to_owned());
        }
    }
    malformed.sort();
    malformed.dedup();
    Ok(Findings { kfuncs, malformed })
}

/// One type record; what follows it in the section starts at `rest`.
struct Type {
    kind: u32,
    vlen: usize,
    name: u32,
    size_or_type: u32,
    rest: usize,
}

/// The type and string areas of a BTF blob.
struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Where each type starts; type 1 is the first (0 is void).
    starts: Vec<usize>,
}

impl<'a> Types<'a> {
    fn parse(raw: &'a [u8]) -> Result<Self, String> {
        let magic = raw.get(..2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        if magic != Some(MAGIC) {
            return Err("not little-endian BTF".into());
        }
        let header = word(raw, 4)?;
        let area = |offset_at: usize| -> Result<&'a [u8], String> {
            let start = u64::from(header) + u64::from(word(raw, offset_at)?);
            let end = start + u64::from(word(raw, offset_at + 4)?);
            raw.get(start as usize..end as usize).ok_or_else(|| "truncated BTF".to_owned())
        };
        let mut parsed = Self { types: area(8)?, strings: area(16)?, starts: Vec::new() };
        let mut at = 0;
        while at < parsed.types.len() {
            parsed.starts.push(at);
            let this = parsed.at(at)?;
            let each = |size: usize| size * this.vlen;
            at = this.rest
                + match this.kind {
                    1 | 14 | 17 => 4,               // int, variable, declaration tag
                    2 | 7..=12 | 16 | 18 => 0,      // pointers, qualifiers, names, floats
                    3 => 12,                        // array
                    4 | 5 | 15 | 19 => each(12),    // struct, union, section, enum64
                    6 | KIND_FUNC_PROTO => each(8), // enum
                    kind => return Err(format!("BTF has a type of kind {kind}, unknown to us")),
                };
        }
        Ok(parsed)
    }

    fn at(&self, at: usize) -> Result<Type, String> {
        let info = word(self.types, at + 4)?;
        Ok(Type {
            kind: (info >> 24) & 0x1f,
            vlen: (info & 0xffff) as usize,
            name: word(self.types, at)?,
            size_or_type: word(self.types, at + 8)?,
            rest: at + 12,
        })
    }

    fn by_id(&self, id: u32) -> Result<Type, String> {
        let start = (id as usize).checked_sub(1).and_then(|i| self.starts.get(i));
        self.at(*start.ok_or_else(|| format!("BTF refers to a missing type {id}"))?)
    }

    fn name(&self, offset: u32) -> Result<&'a str, String> {
        let bytes = self.strings.get(offset as usize..).unwrap_or_default();
        let end = bytes.iter().position(|&b| b == 0).ok_or("BTF refers to a missing name")?;
        std::str::from_utf8(&bytes[..end]).map_err(|_| "BTF has a name that is no text".into())
    }

    /// Whether a parameter is `struct bpf_prog_aux *aux`. Name and type both: a kfunc may take an
    /// explicit argument of that type under another name (`aux__prog`).
    fn has_implicit_argument(&self, proto: &Type) -> Result<bool, String> {
        for i in 0..proto.vlen {
            let at = proto.rest + 8 * i;
            if self.name(word(self.types, at)?)? == "aux"
                && self.points_to_prog_aux(word(self.types, at + 4)?)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn points_to_prog_aux(&self, id: u32) -> Result<bool, String> {
        if id == 0 {
            return Ok(false);
        }
        let pointer = self.by_id(id)?;
        if pointer.kind != KIND_PTR || pointer.size_or_type == 0 {
            return Ok(false);
        }
        let mut target = self.by_id(pointer.size_or_type)?;
        if target.kind == KIND_CONST && target.size_or_type != 0 {
            target = self.by_id(target.size_or_type)?;
        }
        Ok(target.kind == KIND_STRUCT && self.name(target.name)? == "bpf_prog_aux")
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32, String> {
    bytes
        .get(at..at + 4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .ok_or_else(|| "truncated BTF".into())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Writes BTF: types get their numbers in the order they are added.
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
