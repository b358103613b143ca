//! A campaign's shards, run by several processes, killed and continued, give the report of one machine.
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const CAMPAIGN: &str = r#"
    shards = 4
    [[comparison]]
    name = "hogs"
    arguments = "--on sim --machine i7-2670qm --schedulers cfs,flsched --workload hogs:{tasks}:2 --runs 5 --seed 3"
    values = { tasks = [8, 20] }
"#;

fn flsched(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
    // A report names its command line, and a campaign's is the short one.
    command.current_dir(folder).arg0("flsched").args(arguments);
    command
}

fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = flsched(folder, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    text(&output)
}

fn refused(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = flsched(folder, arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
    text(&output)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn planned(campaign: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.toml"), campaign).unwrap();
    let said = done(folder.path(), &["campaign", "plan", "c.toml", "--out", "all"]);
    assert!(said.contains("sbatch") && said.contains("submit-to-hyperqueue.py"), "{said}");
    folder
}

#[test]
fn shards_give_the_report_of_one_machine() {
    let folder = planned(CAMPAIGN);
    let here = folder.path();
    let mut shards: Vec<_> =
        ["3", "1"].map(|shard| flsched(here, &["campaign", "run", "all", shard]).spawn().unwrap()).into();
    shards.iter_mut().for_each(|shard| assert!(shard.wait().unwrap().success()));
    let said = refused(here, &["campaign", "merge", "all"], 1);
    assert!(said.contains("2 of 4 shards are missing") && said.contains("--array=2,4 "), "{said}");
    assert!(!here.join("all/hogs-8.json").exists());
    let said = done(here, &["campaign", "run", "all", "--jobs", "2"]);
    assert!(said.contains("shard 1 of 4: done before") && !said.contains("shard 2 of 4: done"), "{said}");
    done(here, &["campaign", "merge", "all"]);
    for tasks in ["8", "20"] {
        let line = CAMPAIGN.split('"').find(|part| part.contains("--on")).unwrap().replace("{tasks}", tasks);
        let words = format!("compare {line} --json one.json --html one.html");
        done(here, &words.split(' ').collect::<Vec<_>>());
        for extension in ["json", "html"] {
            let read = |path: String| std::fs::read_to_string(here.join(path)).unwrap();
            let (merged, one) =
                (read(format!("all/hogs-{tasks}.{extension}")), read(format!("one.{extension}")));
            let differs = merged.lines().zip(one.lines()).find(|(merged, one)| merged != one);
            assert!(merged == one, "{tasks} {extension}: {differs:?}");
        }
    }
}

#[test]
fn a_killed_shard_goes_on_where_it_was() {
    // Minutes of work, of which seconds are done.
    let long = CAMPAIGN.replace("shards = 4", "shards = 1").replace("--runs 5", "--runs 1000");
    let long = long.replace("hogs:{tasks}:2", "hackbench:process-pipe:{tasks}:5");
    let folder = planned(&long);
    let file = folder.path().join("all/shards/00001.json");
    let mut shard =
        flsched(folder.path(), &["campaign", "run", "all"]).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !file.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing was stored");
        assert!(shard.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(20));
    }
    shard.kill().unwrap();
    shard.wait().unwrap();
    let stored = std::fs::metadata(&file).unwrap().len();
    assert!(refused(folder.path(), &["campaign", "merge", "all"], 1).contains("1 of 1 shards are missing"));
    // Ctrl-C keeps what was done, too.
    let mut shard =
        flsched(folder.path(), &["campaign", "run", "all"]).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let pid = nix::unistd::Pid::from_raw(shard.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(shard.wait().unwrap().code(), Some(130));
    assert!(std::fs::metadata(&file).unwrap().len() > stored);
}

#[test]
fn what_cannot_be_the_same_on_all_nodes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = |from: &str, to: &str| {
        std::fs::write(folder.path().join("c.toml"), CAMPAIGN.replace(from, to)).unwrap();
        let said = refused(folder.path(), &["campaign", "plan", "c.toml", "--out", "all"], 2);
        assert!(!folder.path().join("all").exists(), "{said}");
        said
    };
    assert!(error(" --seed 3", "").contains("comparison `hogs-8`: --seed is missing"));
    assert!(error("--on sim ", "").contains("--on is missing"));
    assert!(error("--seed 3", "--seed 3 --json x").contains("--json and --html"));
    assert!(error("hogs:{tasks}:2", "hgos:{tasks}:2").contains("did you mean `hogs`"));
    assert!(error("--runs 5", "--rnus 5").contains("--rnus"));
    assert!(error("shards = 4", "shards = 0").contains("from 1 to 100000"));
}

#[test]
fn shards_of_another_plan_or_program_are_refused() {
    let folder = planned(CAMPAIGN);
    let here = folder.path();
    let said = refused(here, &["campaign", "run", "all", "5"], 2);
    assert!(said.contains("shard 5: this campaign has 1 to 4"), "{said}");
    std::fs::write(here.join("c.toml"), CAMPAIGN.replace("--runs 5", "--runs 6")).unwrap();
    let said = refused(here, &["campaign", "plan", "c.toml", "--out", "all"], 2);
    assert!(said.contains("another plan"), "{said}");
    let plan = here.join("all/plan.json");
    let text = std::fs::read_to_string(&plan).unwrap();
    let at = text.find("\"program\": \"").unwrap() + 12;
    let digit = if text[at..].starts_with('0') { '1' } else { '0' };
    std::fs::write(&plan, format!("{}{digit}{}", &text[..at], &text[at + 1..])).unwrap();
    assert!(refused(here, &["campaign", "run", "all"], 2).contains("same executable file"));
    assert!(refused(here, &["campaign", "run", "nosuch"], 1).contains("nosuch/plan.json"));
}
