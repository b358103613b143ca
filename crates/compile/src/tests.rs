use super::*;

const FLSCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/flsched.bpf.c");

/// A file in a folder where none of the policies' headers is.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.bpf.c");
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn a_copy_of_a_policy_compiles_anywhere() {
    let (_folder, path) = file(&fs::read_to_string(FLSCHED).unwrap());
    let compiler = Compiler::new().unwrap();
    for target in [For::Kernel, For::Simulator] {
        let compiled = compiler.compile(&path, target).unwrap();
        assert!(
            compiled.object.starts_with(b"\x7fELF") && compiled.warnings.is_empty(),
            "{}",
            compiled.warnings
        );
    }
}

/// The layout of a task differs, and so do the registers of system calls: an object is for one processor's kernels.
#[test]
fn a_policy_compiles_for_another_processor() {
    let (_folder, path) = file("#include \"common.bpf.h\"\nint size = sizeof(struct pt_regs);\n");
    let compiled = |processor| Compiler::of(processor).unwrap().compile(&path, For::Kernel).unwrap();
    let (x86, arm64) = (compiled(Arch::X86), compiled(Arch::Arm64));
    assert_ne!(x86.object, arm64.object);
    assert_eq!(x86.sha256, arm64.sha256);
}

#[test]
fn the_hash_is_of_the_file_and_the_authors_headers() {
    let (folder, path) = file("#include \"common.bpf.h\"\n");
    let compiler = Compiler::new().unwrap();
    let hash = |path: &Path| compiler.compile(path, For::Kernel).unwrap().sha256;
    assert_eq!(hash(&path), sha256("#include \"common.bpf.h\"\n"));
    fs::write(&path, "#include \"own.h\"\n").unwrap();
    fs::write(folder.path().join("own.h"), "struct own;\n").unwrap();
    assert_eq!(hash(&path), sha256("#include \"own.h\"\nstruct own;\n"));
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn an_error_names_the_file_and_the_line() {
    let (_folder, path) = file("#include \"common.bpf.h\"\nint x = y;\n");
    let error = Compiler::new().unwrap().compile(&path, For::Kernel).unwrap_err().to_string();
    assert!(error.contains("does not compile for BPF") && error.contains("my.bpf.c:2:9: error"), "{error}");
}

#[test]
fn an_object_that_cannot_be_linked_is_named_by_its_source() {
    let (_folder, path) = file("#include \"common.bpf.h\"\nint x SEC(\".init_array\");\n");
    let error = Compiler::new().unwrap().compile(&path, For::Kernel).err().unwrap().to_string();
    let name = path.display();
    assert!(error.starts_with(&format!("{name}: the object cannot be linked: libbpf: ")), "{error}");
    assert!(error.contains(".init_array") && !error.contains("policy.o"), "{error}");
}

#[test]
fn what_the_simulator_does_not_model_is_named() {
    let (_folder, path) = file("#include \"common.bpf.h\"\nint f(void) { return bpf_no_such_function(); }\n");
    let error = Compiler::new().unwrap().compile(&path, For::Simulator).unwrap_err().to_string();
    assert!(error.contains("for the simulator") && error.contains("bpf_no_such_function"), "{error}");
}

#[test]
fn rules_for_make() {
    let paths =
        |rule: &str| prerequisites(rule).into_iter().map(|it| it.display().to_string()).collect::<Vec<_>>();
    assert_eq!(paths("policy.o: my.bpf.c \\\n  a\\ b.h\n"), ["my.bpf.c", "a b.h"]);
}

/// The atomic instructions of an object, by function: what each does, `fetch_` if it returns the old value.
fn atomics(object: &[u8]) -> Vec<(String, &'static str)> {
    use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
    let file = object::File::parse(object).unwrap();
    let mut found = Vec::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
        let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
        let code = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap();
        for instruction in code.chunks_exact(8) {
            // BPF_STX | BPF_ATOMIC with BPF_W or BPF_DW: Documentation/bpf/standardization/instruction-set.rst.
            if !matches!(instruction[0], 0xc3 | 0xdb) {
                continue;
            }
            let what = match u32::from_le_bytes(instruction[4..].try_into().unwrap()) {
                0x00 => "add",
                0x40 => "or",
                0x50 => "and",
                0xa0 => "xor",
                0x01 => "fetch_add",
                0x41 => "fetch_or",
                0x51 => "fetch_and",
                0xa1 => "fetch_xor",
                0xe1 => "xchg",
                0xf1 => "cmpxchg",
                other => panic!("atomic instruction {other:#x}"),
            };
            found.push((symbol.name().unwrap().to_owned(), what));
        }
    }
    found
}

/// common.bpf.h: where a processor orders only atomics that return the old value, there is no other, and words of bits
/// are set and cleared by them.
#[test]
fn atomics_are_ordered() {
    for name in ["flsched", "flsched_paper", "smove", "rr2"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../policies/{name}.bpf.c"));
        let object = Compiler::of(Arch::Arm64).unwrap().compile(&source, For::Kernel).unwrap().object;
        let found = atomics(&object);
        let unordered: Vec<_> =
            found.iter().filter(|(_, what)| !what.starts_with("fetch_") && !what.ends_with("xchg")).collect();
        assert!(unordered.is_empty(), "{name}: {unordered:?}");
        let is_in = |function: &str, what: &str| {
            found.iter().any(|(of, found)| of.starts_with(function) && *found == what)
        };
        // A CPU that becomes idle sets its bit; another one claims it.
        assert!(is_in("claim_in", "fetch_and"), "{name}: {found:?}");
        let idle = if name == "rr2" { "set_level".to_owned() } else { format!("{name}_update_idle") };
        for what in ["fetch_or", "fetch_and"] {
            assert!(is_in(&idle, what), "{name}: no {what} in {idle}: {found:?}");
        }
        if name == "rr2" {
            // Threads are counted before the bit of their CPU is looked at, and the other way round.
            for what in ["fetch_add", "fetch_or", "fetch_and"] {
                assert!(is_in("count_thread", what), "{name}: no {what} in count_thread: {found:?}");
            }
        }
    }
}
