//! What the program prints: its help, which the documentation shows, and messages for requests that are not possible.
use flsched_lab::papers::results::Found;
use std::process::Command;

/// The help of each command. `TRYCMD=overwrite` writes the page anew.
#[test]
fn the_page_of_the_lab_is_up_to_date() {
    trycmd::TestCases::new()
        .env("COLUMNS", "100")
        .register_bin("flsched-lab", std::path::Path::new(env!("CARGO_BIN_EXE_flsched-lab")))
        .case("../../docs/reference/lab.md");
}

fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_flsched-lab")).args(arguments).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    text
}

#[test]
fn a_source_that_is_not_there_is_refused() {
    assert!(refused(&["locks", "--source", "nowhere"]).contains("or a series, such as 7.3"));
    assert!(refused(&["locks", "--source", "7.3", "--", "true"]).contains("cannot be used with"));
    assert!(refused(&["locks", "--source", "7.3", "--policy", "rr2"]).contains("cannot be used with"));
}

#[test]
fn a_count_is_read_as_results_are() {
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("kernel/sched");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(top.path().join("Makefile"), "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n").unwrap();
    for file in ["core.c", "fair.c", "rt.c", "deadline.c"] {
        std::fs::write(folder.join(file), "void f(void)\n{\n\traw_spin_lock(&lock);\n}\n").unwrap();
    }
    let source = top.path().to_str().unwrap();
    let lab = Command::new(env!("CARGO_BIN_EXE_flsched-lab"))
        .args(["locks", "--json", "--source", source])
        .output()
        .unwrap();
    assert!(lab.status.success(), "{}", String::from_utf8_lossy(&lab.stderr));
    let Found::Source(report) = Found::parse(&lab.stdout).unwrap() else { panic!("another kind") };
    assert_eq!(report.command_line, format!("flsched-lab locks --source {source}"));
    assert_eq!((&*report.counted.source_of, report.counted.part("fair").unwrap().total()), ("7.3.4", 1));
}

#[test]
fn what_is_not_known_is_refused() {
    assert!(refused(&["costs", "--policy", "flshced"]).contains("did you mean `flsched`"));
    assert!(refused(&["costs", "--policy", "./nosuch.bpf.c", "--", "true"]).contains("nosuch.bpf.c"));
    assert!(refused(&["measure", "quikc"]).contains("did you mean `quick`?"));
    assert!(refused(&["measure", "--root", "/nonexistent"]).contains("--root /nonexistent: No such file"));
    assert!(refused(&["reproduce", "--only", "table-3-tims"]).contains("did you mean `table-3-times`?"));
    assert!(refused(&["compare"]).contains("unrecognized subcommand"));
}
