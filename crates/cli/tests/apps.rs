//! Comparisons of applications on this machine: what is missing, wrong or refused is named, and the rest goes on. Needs
//! neither root nor sched_ext.
use std::path::Path;
use std::process::Command;

/// An application's file with these lines.
fn write(folder: &Path, name: &str, lines: &str) -> String {
    let path = folder.join(format!("{name}.toml"));
    let text = format!(
        "what = ''\nsource = ''\nlicence = ''\npackages = ['some-package']\n{lines}\n\
         checks = [{{ what = 'the sum', line = '^sum 3$' }}]\n"
    );
    std::fs::write(&path, text).unwrap();
    format!("app:{}", path.display())
}

/// Exit code, standard output and standard error of a comparison of these workloads.
fn compare(folder: &Path, workloads: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
    command.args(["compare", "--on", "host", "--schedulers", "eevdf", "--runs", "1", "--timeout", "60"]);
    for workload in workloads {
        command.args(["--workload", workload]);
    }
    let output = command.env("FLSCHED_CACHE", folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const RIGHT: &str = "programs = ['ls']\nrun = 'echo sum 3'";

#[test]
fn what_is_missing_does_not_stop_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let right = write(folder.path(), "right", RIGHT);
    let missing = write(folder.path(), "missing", "programs = ['no-such-program']\nrun = 'true'");
    let full = write(
        folder.path(),
        "full",
        "programs = ['ls']\ninput = 'cat /proc/version > /dev/full'\nrun = 'true'",
    );
    let (code, out, err) = compare(folder.path(), &[&missing, &right, &full]);
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("apt-get install some-package"), "{out}");
    assert!(err.contains("No space left on device; free space there"), "{err}");
    let line = err.lines().last().unwrap();
    assert!(line.contains(&missing) && line.contains(&full) && !line.contains(&right), "{err}");

    let (code, out, err) = compare(folder.path(), &[&missing]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("which this machine does not have"), "{err}");
    let (code, ..) = compare(folder.path(), &[&right]);
    assert_eq!(code, 0);
}

#[test]
fn a_wrong_result_and_a_refusal_are_failures() {
    let folder = tempfile::tempdir().unwrap();
    let right = write(folder.path(), "right", RIGHT);
    let wrong = write(folder.path(), "wrong", "programs = ['ls']\nrun = 'echo sum 4'");
    let refusal = "programs = ['ls']\nrun = 'echo There are not enough slots available; exit 1'";
    let refused = write(folder.path(), "refused", refusal);
    let (code, out, err) = compare(folder.path(), &[&wrong, &right, &refused]);
    assert_eq!(code, 1, "{err}");
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(out.contains("wrong result: the sum"), "{out}");
    assert!(out.contains("mpirun starts more processes than cores with --oversubscribe"), "{out}");
    assert!(!err.lines().last().unwrap().contains(&right), "{err}");
}
