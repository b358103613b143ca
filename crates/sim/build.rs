//! Compiles every `policies/*.bpf.c` for the simulator, and lists the objects and what they say of
//! themselves for `env/catalog.rs`.
use gimli::{AttributeValue, EndianSlice, LittleEndian};
use object::{Object, ObjectSection, ObjectSymbol};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What clang makes of `__attribute__((btf_decl_tag(…)))` in debug information.
const ANNOTATION: gimli::DwTag = gimli::DwTag(0x6000);
/// Where `KFUNC()` in `include/sim/kfuncs.h` puts its pointers.
const KFUNCS: &str = ".sim.kfuncs";

type Reader<'a> = EndianSlice<'a, LittleEndian>;

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap());
    let policies = here.join("../../policies").canonicalize().expect("policies/ lies beside crates/");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    println!("cargo:rerun-if-changed={}", policies.display());
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-env-changed=BPF_CLANG");

    println!("cargo:rerun-if-changed=tests/policies");

    let clang = clang();
    write_catalog(&clang, &here.join("include"), &policies, &out.join("catalog.rs"));
    // Policies that do what they must not, for the tests.
    write_catalog(&clang, &here.join("include"), &here.join("tests/policies"), &out.join("faulty.rs"));
}

/// Compiles the policies of a folder.
fn write_catalog(clang: &str, include: &Path, policies: &Path, catalog: &Path) {
    let out = catalog.parent().expect("it is a file");
    let mut names: Vec<String> = fs::read_dir(policies)
        .expect("the policies' folder is readable")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| file.strip_suffix(".bpf.c").map(str::to_owned))
        .collect();
    names.sort();

    let mut table = String::from("&[\n");
    for name in &names {
        let full = out.join(format!("{name}.full.so"));
        let lean = out.join(format!("{name}.so"));
        let source = policies.join(format!("{name}.bpf.c"));
        compile(clang, include, &source, &full, "-g");
        compile(clang, include, &source, &lean, "-s");
        table += &entry(name, &fs::read(&full).expect("clang wrote it"), &lean);
    }
    table += "]\n";
    fs::write(catalog, table).expect("OUT_DIR is writable");
}

fn clang() -> String {
    let named = env::var("BPF_CLANG").into_iter();
    let known = ["clang-19", "clang-21", "clang-20", "clang-18", "clang-17", "clang-16", "clang"];
    named
        .chain(known.map(String::from))
        .find(|clang| Command::new(clang).arg("--version").output().is_ok_and(|run| run.status.success()))
        .expect("clang 16 or newer (set BPF_CLANG to name one)")
}

/// A function that is not modelled must fail here, by name, and not when it is called.
fn compile(clang: &str, include: &Path, source: &Path, object: &Path, symbols: &str) {
    let status = Command::new(clang)
        .args(["-O2", "-fPIC", "-shared", "-nostdlib", "-ffreestanding", "-fno-math-errno", symbols])
        .args(["-Wall", "-Werror", "-Werror=implicit-function-declaration", "-Wl,-z,defs"])
        .arg("-I")
        .arg(include)
        .arg(source)
        .arg("-o")
        .arg(object)
        .arg("-lc")
        .status()
        .expect("clang runs");
    assert!(status.success(), "{} needs something that the simulator does not model", source.display());
}

/// A policy's line of the catalog.
fn entry(name: &str, full: &[u8], lean: &Path) -> String {
    let file = object::File::parse(full).expect("an ELF object");
    let kfuncs = file.section_by_name(KFUNCS).map(|section| section.index());
    let variables: Vec<(&str, u64, bool)> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.size() > 0)
        .filter_map(|symbol| Some((symbol.name().ok()?, symbol.size(), symbol.section_index() == kfuncs)))
        .collect();
    let mut tags = Vec::new();
    let load = |id: gimli::SectionId| -> Result<Reader<'_>, gimli::Error> {
        let section = file.section_by_name(id.name());
        Ok(Reader::new(section.and_then(|s| s.data().ok()).unwrap_or_default(), LittleEndian))
    };
    read_tags(&gimli::Dwarf::load(load).expect("debug information"), &mut tags).expect("debug information");

    let mut text =
        format!("    Policy {{ name: {name:?}, object: include_bytes!({lean:?}),\n        knobs: &[");
    for (owner, tag) in &tags {
        if let Some(rest) = tag.strip_prefix("knob ") {
            let mut words = rest.splitn(3, ' ');
            let (low, high) = (words.next().unwrap(), words.next().unwrap());
            let doc = words.next().unwrap_or_default();
            text +=
                &format!("Knob {{ name: {owner:?}, names: &[], min: {low}, max: {high}, doc: {doc:?} }}, ");
        } else if let Some((names, doc)) = tag.strip_prefix("choice ").and_then(|rest| rest.split_once(": "))
        {
            let names: Vec<&str> = names.split(' ').collect();
            let high = names.len() - 1;
            text += &format!(
                "Knob {{ name: {owner:?}, names: &{names:?}, min: 0, max: {high}, doc: {doc:?} }}, "
            );
        }
    }
    text += "],\n        lists: &[";
    for (owner, tag) in &tags {
        if let Some(rest) = tag.strip_prefix("pids ") {
            // How many at most, then the choice with which the list matters.
            let mut words = rest.split(' ').skip(1);
            let (knob, value) = (words.next().unwrap(), words.next().unwrap());
            text += &format!("List {{ name: {owner:?}, knob: {knob:?}, value: {value} }}, ");
        }
    }
    text += "],\n        statistics: &[";
    for (owner, tag) in &tags {
        if let Some(doc) = tag.strip_prefix("stat ") {
            text += &format!("Statistic {{ name: {owner:?}, doc: {doc:?} }}, ");
        }
    }
    text += "],\n        variables: &[";
    for (symbol, size, _) in variables.iter().filter(|(_, _, kfunc)| !kfunc) {
        text += &format!("({symbol:?}, {size}), ");
    }
    text += "],\n        kfuncs: &[";
    for (symbol, _, _) in variables.iter().filter(|(_, _, kfunc)| *kfunc) {
        text += &format!("{symbol:?}, ");
    }
    text + "] },\n"
}

/// Every tagged variable or member, in the order of the source: its name and the tag.
fn read_tags(dwarf: &gimli::Dwarf<Reader<'_>>, tags: &mut Vec<(String, String)>) -> Result<(), gimli::Error> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let text = |value: Option<AttributeValue<Reader<'_>>>| -> Option<String> {
            let slice = dwarf.attr_string(&unit, value?).ok()?;
            Some(slice.to_string_lossy().into_owned())
        };
        let mut owners: Vec<Option<String>> = Vec::new();
        let mut entries = unit.entries();
        let mut depth = 0isize;
        while let Some((delta, entry)) = entries.next_dfs()? {
            depth += delta;
            owners.truncate(depth.max(0) as usize);
            let name = text(entry.attr_value(gimli::DW_AT_name)?);
            if entry.tag() == ANNOTATION {
                let tag = text(entry.attr_value(gimli::DW_AT_const_value)?);
                if let (Some(Some(owner)), Some(tag)) = (owners.last(), tag) {
                    tags.push((owner.clone(), tag));
                }
            }
            owners.push(name);
        }
    }
    Ok(())
}
