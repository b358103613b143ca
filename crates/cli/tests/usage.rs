//! The error messages for requests that are not possible; needs neither root nor sched_ext.
use std::process::Command;

fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_flsched")).args(arguments).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(!text.contains("internal error"), "{text}");
    text
}

#[test]
fn knobs_out_of_range_are_refused_with_range_and_meaning() {
    for (option, value, words) in [
        ("--slice-us", "0", ["1000 to 10000000", "longest turn"]),
        ("--slice-us", "10000001", ["1000 to 10000000", "longest turn"]),
        ("--max-delay-us", "0", ["1000 to 10000000", "longest wait"]),
        ("--max-delay-us", "18446744073709551615", ["1000 to 10000000", "longest wait"]),
        ("--reach", "15", ["0 to 14", "groups of CPUs"]),
    ] {
        let text = refused(&["attach", "flsched", option, value]);
        for word in words.into_iter().chain([value]) {
            assert!(text.contains(word), "{option} {value} without {word}: {text}");
        }
    }
    let text = refused(&["run", "--policy", "flsched:slice_us=0", "--", "true"]);
    assert!(text.contains("slice_us: `0` is not a whole number from 1000 to 10000000"), "{text}");
}

#[test]
fn what_is_no_knob_or_no_number_is_refused() {
    for value in ["-1", "fast", "1e9", "", "18446744073709551616"] {
        let text = refused(&["attach", "flsched", &format!("--slice-us={value}")]);
        assert!(text.contains("--slice-us"), "{value}: {text}");
    }
    assert!(refused(&["attach", "flsched", "--slice", "1000"]).contains("--slice"));
    let text = refused(&["run", "--policy", "flsched:slice=1000", "--", "true"]);
    assert!(text.contains("did you mean `slice_us`"), "{text}");
    assert!(refused(&["attach", "nosuch"]).contains("(valid: flsched, "));
}

#[test]
fn the_adversary_refuses_what_it_cannot_do_before_it_begins() {
    let search = |more: &[&str]| refused(&[&["sim", "fuzz", "--adversary"], more].concat());
    for (option, value, word) in [
        ("--seconds", "0", "1..=1000000"),
        ("--generations", "0", "1..=10000"),
        ("--population", "10001", "1..=10000"),
        ("--jobs", "0", "1..=1024"),
        ("--seeds", "4..4", "has no seed"),
        ("--out", "/nowhere/at/all", "is not a folder"),
        ("--schedulers", "nosuch", "flsched"),
    ] {
        let text = search(&[option, value]);
        assert!(text.contains(option.trim_start_matches("--")) || text.contains(value), "{option}: {text}");
        assert!(text.contains(word), "{option} {value} without {word}: {text}");
    }
    assert!(refused(&["sim", "fuzz", "--seconds", "5"]).contains("--adversary"));
}

#[test]
fn the_adversary_says_what_it_holds_a_scheduler_to() {
    let out = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
    command.args([
        "sim",
        "fuzz",
        "--adversary",
        "--schedulers",
        "fifo,eevdf",
        "--seeds",
        "5",
        "--generations",
        "1",
    ]);
    let output = command.args(["--population", "2", "--out"]).arg(out.path()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("seed 5, fifo: ") && text.contains("held to no rule"), "{text}");
    assert!(text.contains("seed 5, eevdf: ") && text.contains("held to ejection\n"), "{text}");
    assert!(text.contains("0 rules broken in all"), "{text}");
}

#[test]
fn force_without_partial_is_refused() {
    assert!(refused(&["run", "--force", "--", "true"]).contains("--partial"));
    assert!(refused(&["attach", "flsched", "--force"]).contains("--partial"));
}

#[test]
fn waits_that_do_not_exist_are_refused_with_the_list() {
    let text = refused(&["run", "--waits", "slep", "--", "true"]);
    assert!(text.contains("did you mean `sleep`? (valid: sleep)"), "{text}");
    let text = refused(&["compare", "--on", "vm", "--schedulers", "eevdf+spin", "--", "true"]);
    assert!(text.contains("unknown way to wait `spin` (valid: sleep)"), "{text}");
    let text = refused(&["compare", "--on", "sim", "--schedulers", "eevdf,eevdf+sleep"]);
    assert!(text.contains("`eevdf+sleep`: not in the simulator"), "{text}");
}

#[test]
fn recordings_that_cannot_be_made_or_read_are_refused() {
    assert!(refused(&["record"]).contains("--out <FILE>"));
    assert!(refused(&["record", "-o", "x", "--seconds", "0"]).contains("1..=3600"));
    assert!(refused(&["record", "-o", "x", "--seconds", "5", "--", "true"]).contains("cannot be used with"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("load.trace");
    let name = file.to_str().unwrap();
    std::fs::write(&file, "{\"flsched_recording\":1,\"flsched\":\"0.1").unwrap();
    let text = refused(&["sim", "--workload", &format!("trace:{name}")]);
    assert!(text.contains(&format!("{name} is cut off or damaged")), "{text}");
    std::fs::write(&file, "{\"flsched_recording\":9}\n").unwrap();
    let text = refused(&["sim", "--workload", &format!("trace:{name}")]);
    assert!(text.contains("of format 9, and this flsched reads format 3"), "{text}");
    let text = refused(&["sim", "--workload", "hogs", "--against", name]);
    assert!(text.contains("--against: hogs:") && text.contains("was not recorded"), "{text}");
    for format in ["trace", "scenario"] {
        let text = refused(&["compare", "--on", "vm", "--workload", &format!("{format}:{name}")]);
        assert!(text.contains("--on sim"), "{text}");
    }
}

#[test]
fn advice_without_a_command_to_run_is_refused() {
    assert!(refused(&["advise"]).contains("<CMD>"));
    let text = refused(&["advise", "--on", "sim", "--", "true"]);
    assert!(text.contains("[possible values: host, vm]"), "{text}");
    assert!(refused(&["advise", "--on", "vm", "--", "nosuch-program"]).contains("nosuch-program"));
    assert!(refused(&["advise", "--runs", "2", "--", "true"]).contains("3..=1000"));
    assert!(refused(&["advise", "--workload", "app:ggml", "--", "true"]).contains("cannot be used with"));
}

#[test]
fn a_workload_that_cannot_be_recorded_is_refused() {
    let text = |words: &[&str]| refused(&[&["record", "--out", "/tmp/x.rec", "--workload"], words].concat());
    assert!(text(&["phases:8"]).contains("only the simulator has it"));
    assert!(text(&["app:gmml"]).contains("did you mean `ggml`?"));
    assert!(text(&["app:ggml:0"]).contains("THREADS"));
    assert!(text(&["app:ggml", "--", "true"]).contains("cannot be used with"));
    assert!(text(&["app:ggml", "--seconds", "1"]).contains("cannot be used with"));
}

#[test]
fn a_command_of_the_lab_says_where_it_went() {
    for arguments in [
        &["locks"][..],
        &["locks", "--source", "7.3"],
        &["costs", "--help"],
        &["costs", "--json", "--policy", "rr2", "--", "sh", "-c", "exit 3"],
        &["reproduce", "--only", "table-3-times", "-o", "page.html"],
    ] {
        let text = refused(arguments);
        let line = format!("target/release/flsched-lab {}", shell_words::join(arguments));
        assert!(text.contains(&line) && text.contains("-p flsched-lab"), "{text}");
    }
}

#[test]
fn a_picture_of_what_is_not_there_is_refused() {
    let text = refused(&["sim", "--svg", "/tmp/x.svg", "--svg-colours", "frequency"]);
    assert!(text.contains("the frequencies of knc-31s1p do not change"), "{text}");
    assert!(refused(&["sim", "--svg-colours", "frequency"]).contains("--svg <FILE>"));
    assert!(refused(&["sim", "draw", "x.txt"]).contains("--svg FILE or --trace FILE"));
}

#[test]
fn a_simulation_of_what_does_not_exist_is_refused() {
    for (arguments, words) in [
        (["--machine", "knc-31sp1"], "did you mean `knc-31s1p`"),
        (["--machine", "./nosuch.toml"], "./nosuch.toml"),
        (["--machine", "ryzen-3400g:powersafe"], "did you mean `powersave`"),
        (["--machine", "knc-31s1p:powersave"], "do not change"),
        (["--cpus", "0"], "1 to 4096"),
        (["--scheduler", "flshced"], "did you mean `flsched`"),
        (["--scheduler", "flsched:slice_us=0"], "1000 to 10000000"),
        (["--workload", "hackbench:process-pipe:0"], "GROUPS"),
        (["--workload", "tasks:/no/such.toml"], "/no/such.toml"),
        (["--workload", "npb:lu"], "bt, cg, ep"),
    ] {
        let text = refused(&["sim", arguments[0], arguments[1]]);
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
    assert!(refused(&["calibrate", "--batches", "0"]).contains("3..=10000"));
}

#[test]
fn settings_that_do_not_exist_are_refused_with_what_was_meant() {
    for (arguments, words) in [
        (
            "--set costs.swich_ns=1",
            "machines/knc-31s1p.toml: unknown entry of `costs` `swich_ns`; did you mean `switch_ns`",
        ),
        ("--set costs.switch_ns=fast", "expects a value like the present one, 5500"),
        ("--set costs.switch_ns=-1", "machines/knc-31s1p.toml with costs.switch_ns=-1: "),
        ("--set costs.switch_ns=99999999999999", "with costs.switch_ns=99999999999999, line "),
        ("--set costs.switch_ns", "`costs.switch_ns` is not PATH=VALUE"),
        ("--set costs=1", "`costs` is a section"),
        ("replay ../../conformance/chain.toml --set limit=1", "did you mean `limit_ms`"),
        ("replay ../../conformance/chain.toml --set limit_ms=0", "limit_ms: 0 is not from 1"),
        ("replay ../../conformance/chain.toml --set machine.cost.tick_ns=0", "did you mean `costs`"),
        ("sweep --set costs.switch_ns=1", "no --set has a range"),
        ("sweep --set costs.switch_ns=1..2 --set costs.tick_ns=1..2", "one range at a time"),
        ("sweep --set costs.switch_ns=2..1", "the first value, 2, is not less than the last one, 1"),
        ("sweep --set costs.switch_ns=1..99999999999999", "0 to 60000000000"),
        ("sweep --set costs.swich_ns=1..2", "did you mean `switch_ns`"),
        ("sweep --set costs.switch_ns=1..2 --schedulers cfs,cfs", "`cfs` is named twice"),
        ("sweep --set costs.switch_ns=1..2 --schedulers csf", "unknown scheduler `csf`"),
        ("sweep", "--set <PATH=A..B[:STEPS]"),
    ] {
        let arguments: Vec<&str> = std::iter::once("sim").chain(arguments.split(' ')).collect();
        let text = refused(&arguments);
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn choices_and_smoves_limits_are_in_the_errors() {
    let text = refused(&["attach", "smove", "--strategy", "locale"]);
    assert!(text.contains("possible values: smove, local, off"), "{text}");
    let text = refused(&["run", "--policy", "smove:strategy=of", "--", "true"]);
    assert!(text.contains("did you mean `off`? (valid: smove, local, off)"), "{text}");
    let text = refused(&["compare", "--schedulers", "smove:strategy=1", "--", "true"]);
    assert!(text.contains("(valid: smove, local, off)"), "{text}");
    let text = refused(&["attach", "smove", "--delay-us", "10001"]);
    assert!(text.contains("1 to 10000") && text.contains("microseconds"), "{text}");
}

#[test]
fn clocks_and_their_settings_are_refused_with_the_range() {
    for (clock, words) in [
        ("parallel:turn=0", "turn=0: expected 10 to 1000000"),
        ("parallel:pause=-1", "pause=-1: expected 0 to 1000000"),
        ("parallel:length=5", "valid are turn, pause, jitter"),
        ("work:turn=20", "the work clock has no settings"),
        ("wall:jitter=1", "the wall clock has no settings"),
        ("model", "valid are parallel, work, wall"),
    ] {
        for command in ["vm", "compare", "advise"] {
            let text = refused(&[command, "--clock", clock, "--", "true"]);
            assert!(text.contains(words), "{command} {clock}: {text}");
        }
    }
    let text = refused(&["advise", "--clock", "work", "--", "true"]);
    assert!(text.contains("valid are parallel and wall"), "{text}");
    for clock in ["parallel", "work", "instructions"] {
        let text = refused(&["vm", "--clock", clock, "--accel", "kvm", "--", "true"]);
        assert!(text.contains("it cannot use KVM"), "{clock}: {text}");
    }
}

#[test]
fn a_binary_file_is_no_trace() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), [0, 255, 1]).expect("there is room");
    let text = refused(&["sim", "--workload", &format!("trace:{}", file.path().display())]);
    assert!(text.contains("it is not text; expected a file of `flsched record`"), "{text}");
}

#[test]
fn files_that_cannot_be_written_are_refused_before_anything_runs() {
    let workload = "--workload hackbench:process-pipe:2";
    for arguments in [
        "compare --on vm --json /no/such/report.json -- true".to_owned(),
        format!("compare --on sim {workload} --html /no/such/report.html"),
        format!("sim {workload} --svg /no/such/picture.svg"),
        format!("sim {workload} --trace /no/such/trace.json"),
        format!("sim sweep {workload} --set costs.switch_ns=1..2 --csv /no/such/curve.csv"),
        "calibrate --out /no/such/machine.toml".to_owned(),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_flsched")).args(arguments.split(' ')).output();
        let output = output.expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments}: {text}");
        assert_eq!(text.lines().count(), 1, "{arguments}: {text}");
        assert!(text.contains("cannot write /no/such/"), "{arguments}: {text}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}

#[test]
fn outputs_of_the_same_name_are_refused() {
    for (arguments, options) in [
        ("compare --on sim --workload hogs --json x --html ./x", "--json and --html"),
        ("advise --json x --html x -- true", "--json and --html"),
        ("sim --trace x --svg x", "--trace and --svg"),
        ("sim --workload trace:y --against y --svg y", "--against and --svg"),
        (
            "sim replay ../../conformance/chain.toml --svg ../../conformance/chain.toml",
            "the scenario and --svg",
        ),
        ("sim draw Cargo.toml --svg ./Cargo.toml", "FILE and --svg"),
        ("sim sweep --set costs.switch_ns=1..2 --csv x --svg x", "--csv and --svg"),
    ] {
        let text = refused(&arguments.split(' ').collect::<Vec<_>>());
        assert!(text.contains(&format!("{options} name the same file")), "{arguments}: {text}");
    }
}

/// Nothing is downloaded or booted before that is known.
#[test]
fn without_our_own_qemu_there_is_no_parallel_clock() {
    for command in [&["vm", "--clock", "parallel"][..], &["compare", "--on", "vm"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_flsched"))
            .args(command)
            .args(["--", "true"])
            .env("FLSCHED_EMULATOR", "/no/such/qemu")
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {text}");
        assert!(text.contains("FLSCHED_EMULATOR=/no/such/qemu cannot be used"), "{command:?}: {text}");
    }
}

#[test]
fn a_comparison_takes_what_its_place_has() {
    for (arguments, words) in [
        ("--on host --machine knc-31s1p", "--machine is not for this machine itself: use it with --on sim"),
        ("--on vm --jobs 2", "--jobs is not for a virtual machine: use it with --on sim"),
        ("--on host --cgroup root -- true", "--cgroup is not for this machine itself: use it with --on vm"),
        ("--on host --include /etc -- true", "--include is not for this machine itself: use it with --on vm"),
        (
            "--on host --cpus 4 -- true",
            "--cpus is not for this machine itself: use it with --on vm or --on sim",
        ),
        (
            "--on sim --cgroup root",
            "--cgroup is not for the simulator, which runs models of programs: use it with --on vm",
        ),
        ("--on sim --npb /tmp", "--npb is not for the simulator"),
        ("--on sim --topology 1s2c1t", "--topology is not for the simulator"),
        ("--on sim --memory 1G", "--memory is not for the simulator"),
        ("--on sim --arch aarch64", "--arch is not for the simulator"),
        ("--on sim --timeout 0", "0 is not in 1..=1000000"),
        ("--on sim --kernel 6.18", "--kernel is not for the simulator"),
        ("--on sim --clock wall", "--clock is not for the simulator"),
        ("--on sim --clock work", "--clock is not for the simulator"),
        ("--on host --clock parallel -- true", "--clock parallel needs an emulated machine"),
        ("--on host --clock work -- true", "--clock work needs an emulated machine"),
        ("--on sim --why", "--why: not with --on sim"),
        ("--on vm --clock work --why -- true", "--why: not with --clock work"),
        ("--on vm --clock work --timeline --html /tmp/x.html -- true", "--timeline: not with --clock work"),
        ("--on sim --timeline", "<--json <FILE>|--html <FILE>>"),
        (
            "--on sim -- true",
            "a command is not for the simulator, which runs models of programs: use it with --on host or --on vm",
        ),
        ("--on sim --machine knc", "did you mean `knc-31s1p`"),
        ("--on sim --workload libomp:ep", "`libomp:ep` is a program: the simulator has no model of it"),
        ("--on vm --workload hogs:4", "`hogs:4` is a model: only the simulator has it (--on sim)"),
    ] {
        let arguments: Vec<&str> = std::iter::once("compare").chain(arguments.split(' ')).collect();
        let text = refused(&arguments);
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}

const SIMULATED: [&str; 9] = [
    "compare",
    "--on",
    "sim",
    "--machine",
    "ryzen-3400g",
    "--schedulers",
    "eevdf,rr",
    "--workload",
    "hogs:2:1",
];

#[test]
fn a_reader_of_messages_that_has_gone_does_not_end_a_comparison() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
    let output = command.args(SIMULATED).stderr(writer).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("verdict"), "{output:?}");
}

#[test]
fn a_reader_that_has_gone_is_not_a_panic() {
    for arguments in [&["attach", "--help"][..], &["status"], &["doctor"], &["doctor", "--json"], &SIMULATED]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
        let output = command.args(arguments).stdout(writer).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("internal error"), "{arguments:?}: {text}");
    }
}
