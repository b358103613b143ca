//! `--policy FILE.bpf.c`: names, errors, the simulator, and a kernel in a virtual machine, where the object goes along.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FLSCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/flsched.bpf.c");

/// A folder with copies of flsched.bpf.c in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A copy with one text changed to another.
    fn copy(&self, name: &str, from: &str, to: &str) -> PathBuf {
        let source = std::fs::read_to_string(FLSCHED).unwrap();
        assert!(source.contains(from), "flsched.bpf.c has no {from}");
        let path = self.path().join(name);
        std::fs::write(&path, source.replacen(from, to, 1)).unwrap();
        path
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
        command.args(arguments).current_dir(self.path()).output().expect("it starts")
    }

    fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The error message of a call that must end with this exit code.
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(!text.contains("internal error"), "{text}");
        text
    }
}

/// A simulation of a workload in which slices end.
fn sim<'a>(scheduler: &'a str, policy: &[&'a str]) -> Vec<&'a str> {
    let fixed =
        ["sim", "--json", "--machine", "ryzen-3400g", "--workload", "hogs:20:300", "--scheduler", scheduler];
    fixed.into_iter().chain(policy.iter().copied()).collect()
}

/// The figures, without the name of the scheduler.
fn figures(json: &str) -> serde_json::Value {
    let mut figures: serde_json::Value = serde_json::from_str(json).unwrap();
    figures.as_object_mut().unwrap().remove("scheduler");
    figures
}

#[test]
fn a_copy_is_simulated_like_the_original_and_a_changed_one_as_changed() {
    let folder = Folder::new();
    folder.copy("same.bpf.c", "", "");
    folder.copy("short.bpf.c", "KNOB(slice_us, 100000", "KNOB(slice_us, 5000");
    let original = figures(&folder.stdout(&sim("flsched", &[])));
    let of_5_ms = figures(&folder.stdout(&sim("flsched:slice_us=5000", &[])));
    assert_ne!(original, of_5_ms);
    assert_eq!(figures(&folder.stdout(&sim("same", &["--policy", "same.bpf.c"]))), original);
    assert_eq!(figures(&folder.stdout(&sim("same:slice_us=5000", &["--policy", "same.bpf.c"]))), of_5_ms);
    assert_eq!(figures(&folder.stdout(&sim("short", &["--policy", "./short.bpf.c"]))), of_5_ms);
}

#[test]
fn a_comparison_says_which_policies_are_from_files() {
    let folder = Folder::new();
    folder.copy("my.bpf.c", "", "");
    let arguments = "compare --on sim --runs 3 --seed 1 --machine ryzen-3400g --workload spin-barrier:8:5:1000 --json \
                     r.json --html r.html --policy ./my.bpf.c --schedulers eevdf,flsched,my:slice_us=5000";
    let table = folder.stdout(&arguments.split_whitespace().collect::<Vec<_>>());
    let report = std::fs::read_to_string(folder.path().join("r.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let files = report["environment"]["policy_files"].as_object().unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["my"]);
    assert_eq!(files["my"]["path"], "./my.bpf.c");
    let hash = files["my"]["sha256"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    assert!(report["results"].as_array().unwrap().iter().any(|arm| arm["scheduler"] == "my:slice_us=5000"));
    let page = std::fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(page.contains(&format!("my: ./my.bpf.c, SHA-256 {hash}")));
    assert!(table.contains("my: a policy from the file ./my.bpf.c"), "{table}");

    let arguments = "compare --on sim --runs 3 --seed 1 --machine ryzen-3400g --workload spin-barrier:8:5:1000 --json \
                     r.json --schedulers eevdf,flsched";
    folder.stdout(&arguments.split_whitespace().collect::<Vec<_>>());
    assert!(!std::fs::read_to_string(folder.path().join("r.json")).unwrap().contains("policy_files"));
}

/// What the tutorial says of its policy.
#[test]
fn the_tutorials_policy_beats_fifo_on_few_cpus() {
    let folder = Folder::new();
    let tutorial = include_str!("../../../docs/tutorial.md");
    let source = tutorial.split_once("```c\n").unwrap().1.split_once("```\n").unwrap().0;
    std::fs::write(folder.path().join("first.bpf.c"), source).unwrap();
    let ratio = |cpus: u32, threads: u32| {
        let arguments = format!(
            "compare --on sim --machine parallel-clock --cpus {cpus} --policy first.bpf.c --schedulers fifo,first --runs 3 \
             --seed 1 --workload spin-barrier:{threads}:50 --json r.json"
        );
        folder.stdout(&arguments.split_whitespace().collect::<Vec<_>>());
        let report = std::fs::read_to_string(folder.path().join("r.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let arm =
            report["results"].as_array().unwrap().iter().find(|arm| arm["scheduler"] == "first").unwrap();
        arm["ratio_to_first"].as_f64().unwrap()
    };
    let (few, many) = (ratio(8, 64), ratio(64, 512));
    assert!((1.1..1.3).contains(&few), "about 1.2 times as fast: {few}");
    assert!((0.4..0.6).contains(&many), "half as fast: {many}");
}

#[test]
fn on_a_kernel_it_schedules_the_machine() {
    let folder = Folder::new();
    folder.copy("short.bpf.c", "KNOB(slice_us, 100000", "KNOB(slice_us, 5000");
    let arguments = "compare --on vm --kernel 6.18 --cpus 2 --clock work --runs 1 --seed 1 --workload \
                     spin-barrier:4:2:100 --json r.json --policy short.bpf.c --schedulers flsched,short:reach=0";
    folder.stdout(&arguments.split_whitespace().collect::<Vec<_>>());
    let report = std::fs::read_to_string(folder.path().join("r.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let hash = report["environment"]["policy_files"]["short"]["sha256"].as_str().unwrap();
    let arm = report["results"].as_array().unwrap().last().unwrap();
    assert_eq!(arm["scheduler"], "short:reach=0");
    assert_eq!(arm["attached_proof"]["verified"], 1, "{arm}");
    let ops = arm["attached_proof"]["seen"][0]["throughout"]["ops"].as_str().unwrap();
    assert!(ops.strip_prefix("short_").is_some_and(|version| hash.starts_with(version)), "{ops} {hash}");
    assert!(arm["stats"]["queued_tail"].as_u64().unwrap() > 0, "{arm}");
}

#[test]
fn what_is_asked_for_wrongly_is_refused() {
    let folder = Folder::new();
    folder.copy("flsched.bpf.c", "", "");
    folder.copy("my.bpf.c", "", "");
    for (file, why) in [
        ("nosuch.bpf.c", "policy file `nosuch.bpf.c`: No such file"),
        ("my.c", "must end in .bpf.c"),
        ("flsched.bpf.c", "there is a scheduler `flsched` already: rename the file"),
    ] {
        for arguments in [
            &["sim", "--policy", file][..],
            &["compare", "--on", "sim", "--policy", file],
            &["compare", "--on", "vm", "--policy", file],
            &["sim", "fuzz", "--policy", file],
            &["attach", "--policy", file],
        ] {
            let text = folder.fails(2, arguments);
            assert!(text.contains(why), "{arguments:?}: {text}");
        }
    }
    let text = folder.fails(2, &["run", "--policy", "nosuch.bpf.c", "--", "true"]);
    assert!(text.contains("`nosuch.bpf.c`: No such file"), "{text}");
    let text = folder.fails(2, &["run", "--policy", "my.bpf.c:slice=1", "--", "true"]);
    assert!(text.contains("knob of my `slice`; did you mean `slice_us`?"), "{text}");
    let text = folder.fails(2, &["attach", "--policy", "my.bpf.c", "--slice-us", "1"]);
    assert!(text.contains("1000 to 10000000"), "{text}");
    let text = folder.fails(2, &["sim", "--policy", "my.bpf.c", "--policy", "./my.bpf.c"]);
    assert!(text.contains("there is a policy `my` already"), "{text}");
    let text = folder.fails(2, &["compare", "--on", "sim", "--schedulers", "eevdf,my.bpf.c"]);
    assert!(text.contains("`my.bpf.c` is the file of a policy: name it with the option --policy"), "{text}");
}

#[test]
fn what_does_not_compile_fails_with_file_and_line() {
    let folder = Folder::new();
    folder.copy("bad.bpf.c", "SCX_OPS_DEFINE(", "int bad = x;\nSCX_OPS_DEFINE(");
    let text = folder.fails(1, &["sim", "--policy", "bad.bpf.c", "--scheduler", "bad"]);
    assert!(text.contains("bad.bpf.c does not compile for BPF:\nbad.bpf.c:"), "{text}");
    folder.copy("none.bpf.c", "SCX_OPS_DEFINE(", "#define NONE(...)\nNONE(");
    let text = folder.fails(1, &["sim", "--policy", "none.bpf.c", "--scheduler", "none"]);
    assert!(text.contains("`none.bpf.c`") && text.contains("SCX_OPS_DEFINE"), "{text}");
}

#[test]
fn missing_clang_is_reported() {
    let folder = Folder::new();
    folder.copy("my.bpf.c", "", "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
    command.args(["sim", "--policy", "my.bpf.c"]).current_dir(folder.path());
    let output = command.env("PATH", "/nowhere").env_remove("BPF_CLANG").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("install clang-19"), "{text}");
}
