//! `flsched-lab reproduce` in a project of its own: what is kept, what is run again, what an interruption leaves.
mod own;

use libtest_mimic::{Arguments, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::OnceLock;

fn main() -> ExitCode {
    let tests: [(&str, fn()); 6] = [
        ("a_result_is_kept_until_the_row_changes", a_result_is_kept_until_the_row_changes),
        ("the_page_is_written", the_page_is_written),
        (
            "a_page_that_cannot_be_written_is_refused_before_anything_runs",
            a_page_that_cannot_be_written_is_refused_before_anything_runs,
        ),
        ("an_interruption_leaves_nothing_half_written", an_interruption_leaves_nothing_half_written),
        ("what_cannot_be_measured_is_named", what_cannot_be_measured_is_named),
        ("bad_input_is_a_usage_error_with_its_place", bad_input_is_a_usage_error_with_its_place),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    own::main(|| {
        libtest_mimic::run(&Arguments::from_args(), tests.into_iter().map(trial).collect()).exit_code()
    })
}

fn paper(command: &str) -> String {
    format!(
        r#"
        name = "P"
        cited = "Somebody: *P*."
        subject = {{ name = "flsched", here = ["flsched"] }}
        [[measurement]]
        name = "m"
        command = "{command}"
        takes_min = 1
        [[row]]
        id = "figure-1"
        place = "Figure 1"
        says = "FIFO takes no longer than CFS."
        certainty = "printed"
        order = "fifo = cfs"
        tolerance_percent = 10
        [[row.way]]
        from = ["m"]
        take = "time of {{}} on *"
        "#
    )
}

const SHORT: &str =
    "compare --on sim --machine i7-2670qm --schedulers cfs,fifo --runs 1 --seed 1 --workload hogs:1:1";

fn project(command: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("results/papers")).unwrap();
    std::fs::write(folder.path().join("results/papers/p.toml"), paper(command)).unwrap();
    folder
}

/// The lab in a folder of its own, beside an `flsched` that is this program.
fn lab() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    static LAB: OnceLock<PathBuf> = OnceLock::new();
    LAB.get_or_init(|| {
        let folder = FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path();
        symlink(std::env::current_exe().unwrap(), folder.join("flsched")).unwrap();
        // Not a link: the lab looks in the folder of its file.
        std::fs::copy(env!("CARGO_BIN_EXE_flsched-lab"), folder.join("flsched-lab")).unwrap();
        folder.join("flsched-lab")
    })
}

fn reproduce(project: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(lab());
    command.arg("reproduce").args(arguments).arg("--root").arg(project);
    command
}

fn output(project: &Path, arguments: &[&str]) -> (Output, String) {
    let output = reproduce(project, arguments).output().unwrap();
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output, String::from_utf8(text).unwrap())
}

fn files(project: &Path) -> Vec<String> {
    let entries = project.join("results/papers").read_dir().unwrap();
    let mut names: Vec<String> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn a_result_is_kept_until_the_row_changes() {
    let project = project(SHORT);
    let (first, text) = output(project.path(), &[]);
    assert!(first.status.success() && text.contains("[1/1] p-m: about 60 s"), "{text}");
    assert!(text.contains("reproduced      figure-1"), "{text}");
    let result = project.path().join("results/papers/p-m.json");
    let bytes = std::fs::read(&result).unwrap();

    let (_, text) = output(project.path(), &[]);
    assert!(!text.contains("[1/1]") && text.contains("reproduced      figure-1"), "{text}");
    // The same seed gives the same bytes.
    let (_, text) = output(project.path(), &["--again"]);
    assert!(text.contains("[1/1]"), "{text}");
    assert_eq!(std::fs::read(&result).unwrap(), bytes);

    std::fs::write(
        project.path().join("results/papers/p.toml"),
        paper(&SHORT.replace("hogs:1:1", "hogs:1:2")),
    )
    .unwrap();
    let (_, text) = output(project.path(), &["--list"]);
    assert!(
        text.contains("missing") && text.contains("p-m.json was produced by a different command"),
        "{text}"
    );
    let (_, text) = output(project.path(), &[]);
    assert!(text.contains("[1/1]") && text.contains("reproduced      figure-1"), "{text}");
}

fn the_page_is_written() {
    let project = project(SHORT);
    let page = project.path().join("page.html");
    let (_, text) = output(project.path(), &["--quick", "-o", page.to_str().unwrap()]);
    assert!(text.contains("missing         figure-1"), "{text}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<h3 id=\"figure-1\">") && page.contains("not measured yet"), "{page}");
}

fn a_page_that_cannot_be_written_is_refused_before_anything_runs() {
    let project = project(SHORT);
    let (ended, text) = output(project.path(), &["-o", "/nonexistent/page.html"]);
    assert_eq!(ended.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot write /nonexistent/page.html") && !text.contains("[1/1]"), "{text}");
    assert_eq!(files(project.path()), ["p.toml"]);
}

fn an_interruption_leaves_nothing_half_written() {
    let long = "compare --on sim --schedulers cfs,fifo --runs 9 --workload hackbench:process-pipe:200:1000";
    let project = project(long);
    let mut child =
        reproduce(project.path(), &[]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("runs in random order")));
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let rest: Vec<String> = lines.collect();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{rest:?}");
    assert!(
        rest.iter().any(|line| line.ends_with("interrupted; results/papers/p-m.json was not written")),
        "{rest:?}"
    );
    assert!(String::from_utf8(ended.stdout).unwrap().contains("missing         figure-1"));
    assert_eq!(files(project.path()), ["p.toml"]);
}

fn what_cannot_be_measured_is_named() {
    let project = project("compare --on sim --machine nosuch --workload hogs:2:1 --schedulers cfs,fifo");
    let (ended, text) = output(project.path(), &[]);
    assert_eq!(ended.status.code(), Some(1), "{text}");
    assert!(text.contains("1 of 1 could not be measured:\n  p-m: "), "{text}");
    assert!(text.contains("nosuch") && text.contains("missing         figure-1"), "{text}");
    assert_eq!(files(project.path()), ["p.toml"]);
}

fn bad_input_is_a_usage_error_with_its_place() {
    let project = project(SHORT);
    let (ended, text) = output(project.path(), &["--only", "figure-2"]);
    assert_eq!(ended.status.code(), Some(2), "{text}");
    assert!(text.contains("unknown row `figure-2`; did you mean `figure-1`?"), "{text}");
    std::fs::write(project.path().join("results/papers/p.toml"), paper("run -- true")).unwrap();
    let (ended, text) = output(project.path(), &[]);
    assert_eq!(ended.status.code(), Some(2), "{text}");
    assert!(
        text.contains("results/papers/p.toml: measurement `m`: `run -- true` does not begin with"),
        "{text}"
    );
    let empty = tempfile::tempdir().unwrap();
    let (ended, text) = output(empty.path(), &[]);
    assert_eq!(ended.status.code(), Some(2), "{text}");
    assert!(text.contains("results/papers"), "{text}");
}
