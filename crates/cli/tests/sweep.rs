//! `flsched sim sweep`, and single values of a machine's or scenario's file.
use std::path::Path;
use std::process::{Command, Output};

fn flsched(arguments: &str, folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
    command.args(arguments.split(' ')).current_dir(folder).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SWEEP: &str = "sim sweep --machine ryzen-3400g:even --workload hogs:16:5 \
                     --set costs.switch_ns=1000..1000000:3 --set costs.tick_ns=0 --schedulers rr,flsched:slice_us=2000,reach=2";

#[test]
fn a_sweep_has_a_line_for_each_value_and_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let output = flsched(&format!("{SWEEP} --csv a.csv --svg a.svg"), folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let csv = std::fs::read_to_string(folder.path().join("a.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 3 * 2, "{csv}");
    assert!(lines[0].starts_with("setting,value,scheduler,machine,workload,seed,time_s,"), "{csv}");
    for (index, (value, scheduler)) in [1000, 500_500, 1_000_000]
        .into_iter()
        .flat_map(|value| [(value, "rr"), (value, "\"flsched:reach=2,slice_us=2000\"")])
        .enumerate()
    {
        let start = format!("costs.switch_ns,{value},{scheduler},");
        assert!(lines[index + 1].starts_with(&start), "{start} does not begin {}", lines[index + 1]);
    }
    let svg = std::fs::read_to_string(folder.path().join("a.svg")).unwrap();
    for word in ["costs.switch_ns", "flsched:reach=2,slice_us=2000", "rr", "hogs:16:5", "</svg>\n"] {
        assert!(svg.contains(word), "{word} is missing in\n{svg}");
    }

    let table = text(&output.stdout);
    let times: Vec<f64> = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().nth_back(1).and_then(|it| it.parse().ok()).expect(line))
        .collect();
    assert!(times.len() == 3 && times[0] < times[1] && times[1] < times[2], "{table}");

    let at_once = flsched(&format!("{SWEEP} --csv b.csv --svg b.svg --jobs 3"), folder.path());
    assert_eq!(text(&at_once.stdout), table);
    for name in ["csv", "svg"] {
        let read = |letter: &str| std::fs::read(folder.path().join(format!("{letter}.{name}"))).unwrap();
        assert_eq!(read("a"), read("b"), "{name}");
    }
}

/// Without the path, which is no entry of the machine's file.
#[test]
fn a_setting_of_the_scheduler_or_the_workload_is_varied_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = "sim sweep --machine ryzen-3400g:even --set n=4,12 --workload hogs:{n}:5 \
                 --schedulers fifo,flsched:reach={n} --runs 2 --seed 5 --jobs 2 --json a.json";
    let output = flsched(sweep, folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("a.json")).unwrap()).unwrap();
    assert_eq!(report["workload"], "hogs:{n}:5");
    assert_eq!(report["curves"][1]["scheduler"], "flsched:reach={n}");
    let times = |value: usize| report["curves"][0]["times_s"][value].as_array().unwrap().clone();
    assert_eq!((times(0).len(), times(1).len()), (2, 2));
    assert!(times(0)[0].as_f64() < times(1)[1].as_f64(), "{report}");
    // What is published is the same however and wherever it was run.
    let line = report["command_line"].as_str().unwrap();
    assert!(line.starts_with("flsched sim sweep --machine") && line.ends_with("--runs 2 --seed 5"), "{line}");
}

#[test]
fn a_sweep_that_fails_says_where_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let spinning = "sim sweep --machine ryzen-3400g:even --workload phases:16:2:100:0:spin --limit 1 \
                    --set costs.switch_ns=1000..2000:2 --schedulers flsched,fifo --csv a.csv";
    let output = flsched(spinning, folder.path());
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("costs.switch_ns=1000, under fifo: the run has not ended within 1"), "{error}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "{error}");
}

#[test]
fn one_value_can_be_set_for_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let figures = |settings: &str| -> serde_json::Value {
        let output = flsched(
            &format!("sim --json --machine ryzen-3400g:even --workload hogs:1:5 {settings}"),
            folder.path(),
        );
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    };
    let slow = figures("--set costs.fork_ns.process=90000000");
    assert!(slow["time_s"].as_f64() > Some(0.09), "{slow}");
    assert_eq!(slow["machine"], "ryzen-3400g:costs.fork_ns.process=90000000:even");
    let usual = figures("--seed 1");
    assert!(usual["time_s"].as_f64() < Some(0.01), "{usual}");
}

#[test]
fn a_scenario_takes_values_of_its_own_and_of_its_machine() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = "seed = 1\nmachine = \"ryzen-3400g:even\"\ncpus = 2\nscheduler = \"rr\"\nlimit_ms = 1000\n\
                    [[task]]\nrounds = 2\nsteps = [{ run_us = 1000 }, { sleep_us = 10 }]\n";
    std::fs::write(folder.path().join("a.toml"), scenario).unwrap();
    let time = |settings: &str| {
        let output = flsched(&format!("sim replay a.toml{settings}"), folder.path());
        let table = text(&output.stdout);
        let line = table.lines().find(|line| line.trim_start().starts_with("time"));
        let seconds = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        seconds.unwrap_or_else(|| panic!("{settings}: {table}{}", text(&output.stderr)))
    };
    let usual = time("");
    assert!((0.002..0.003).contains(&usual), "{usual}");
    assert!(time(" --set task.0.rounds=20") > 0.02);
    assert!(time(" --set task.0.steps.0.run_us=50000") > 0.1);
    assert!(time(" --set machine.costs.fork_ns.process=90000000") > 0.09);
}
