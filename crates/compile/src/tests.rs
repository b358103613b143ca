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
