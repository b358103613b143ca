//! Loads that any user can bring, on stock kernels, under the policies and beside EEVDF in the same boot: what they
//! achieve, how long a task of nice 0 waits meanwhile, ejections, and the kernel's log. Most are stressors of stress-ng;
//! all are in `crates/lab/src/robustness/loads.toml`. A fault that is not in `crates/lab/src/robustness/known.toml` fails the test.
//! This program is all sides: started by cargo it boots the machines, with `--guest` it is the command inside, with
//! `load` one of the test's own loads.
//!
//! Nothing is tested without `FLSCHED_TEST_ROBUSTNESS=all`, because it takes hours; `FLSCHED_TEST_ROBUSTNESS=record` also
//! writes `results/robustness-KERNEL.json`, where it replaces what it has measured and keeps the rest. Parts are chosen by
//! `FLSCHED_TEST_LOADS=futex,pipe`, `FLSCHED_TEST_PER_CPU=4`, `FLSCHED_TEST_POLICIES=flsched` and
//! `FLSCHED_TEST_KERNELS=6.18`. `FLSCHED_TEST_RUNS=3` runs each load three times in a boot, `FLSCHED_TEST_SECONDS=2` for
//! two seconds of guest time. `FLSCHED_TEST_CPUS=4` and `FLSCHED_TEST_CLOCK=wall` choose another machine, and
//! `FLSCHED_TEST_JOBS=1` one machine at a time.
#[path = "../../../cli/tests/common/mod.rs"]
mod common;
mod guest;
mod kernel_log;
mod load;
mod machine;
#[path = "../own/mod.rs"]
mod own;
mod probe;
mod record;

use common::variable;
use flsched_lab::robustness::judge::{Fault, faults};
use flsched_lab::robustness::known::Known;
use flsched_lab::robustness::loads::{Load, PER_CPU};
use flsched_lab::robustness::report::{BASE, BASE_AGAIN, Entry};
use machine::Boot;
use record::Record;
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Mutex;

const KERNELS: &str = "6.18,7.3";
const POLICIES: &str = "flsched,smove,rr2";
/// Loads of a boot. A machine that is lost loses no more than these.
const LOADS_OF_A_BOOT: usize = 6;

fn main() -> ExitCode {
    own::main(side)
}

fn side() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--guest", plan] => guest::play(plan),
        ["load", words @ ..] => load::run(words),
        // What cargo passes on, such as --include-ignored, has no meaning here.
        _ => match test() {
            Ok(code) => code,
            Err(why) => {
                eprintln!("robustness: {why}");
                ExitCode::from(2)
            }
        },
    }
}

fn test() -> Result<ExitCode, String> {
    let extent = variable("ROBUSTNESS").unwrap_or_default();
    match extent.as_str() {
        "" => return Ok(ExitCode::SUCCESS),
        "all" | "record" => {}
        other => return Err(format!("FLSCHED_TEST_ROBUSTNESS={other}: expected all or record")),
    }
    let known = Known::all()?;
    let boots = boots()?;
    let (count, jobs) = (boots.len(), number("JOBS", machine::at_a_time())?);
    eprintln!("{count} boots, {jobs} at a time");
    let record = Mutex::new(Record::open(extent == "record"));
    let (waiting, new) = (Mutex::new(VecDeque::from(boots)), Mutex::new(Vec::new()));
    let failed = Mutex::new(Vec::new());
    let work = || {
        while let Some(boot) = next(&waiting) {
            let (release, entries) = match boot.play() {
                Ok(played) => played,
                // The other machines can still tell something.
                Err(why) => {
                    eprintln!("{why}");
                    failed.lock().expect("nothing panics with it").push(why);
                    continue;
                }
            };
            for entry in &entries {
                show(&release, entry, &known, &new);
            }
            record.lock().expect("nothing panics with it").add(&boot, &release, entries)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("its errors are values"))
    })
    .map_err(|why: String| why)?;
    let mut new = new.into_inner().expect("all threads have ended");
    new.sort();
    let failed = failed.into_inner().expect("all threads have ended");
    if !failed.is_empty() {
        eprintln!("{} of {count} boots measured nothing:", failed.len());
        failed.iter().for_each(|why| eprintln!("  {why}"));
    }
    if new.is_empty() && !failed.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if new.is_empty() {
        eprintln!("no fault that is not known");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{} faults that are not in crates/lab/src/robustness/known.toml:", new.len());
    new.iter().for_each(|(fault, release)| eprintln!("  {release}: {fault}"));
    Ok(ExitCode::FAILURE)
}

fn next(waiting: &Mutex<VecDeque<Boot>>) -> Option<Boot> {
    let mut waiting = waiting.lock().expect("nothing panics with it");
    let boot = waiting.pop_front()?;
    eprintln!("{boot}; {} more", waiting.len());
    Some(boot)
}

/// Prints a line for each scheduler, and the faults.
fn show(release: &str, entry: &Entry, known: &[Known], new: &Mutex<Vec<(Fault, String)>>) {
    let Entry { load, per_cpu, .. } = entry;
    for arm in &entry.arms {
        let ratio = flsched_lab::robustness::judge::ratio(entry, &arm.scheduler);
        let ratio = ratio.map_or("–".into(), |ratio| format!("{:.2}", ratio.value));
        let (wait, runnable) = (arm.longest_wait_ms(), arm.runnable());
        let scheduler = &arm.scheduler;
        eprintln!("{release} {load} {per_cpu} {scheduler}: {ratio}, {wait:.1} ms, {runnable} runnable");
    }
    for fault in faults(entry) {
        match known.iter().find(|known| known.is(release, &fault)) {
            Some(known) => eprintln!("known: {fault}: {}", known.reason),
            None => {
                eprintln!("FAULT: {fault}");
                new.lock().expect("nothing panics with it").push((fault, release.to_owned()));
            }
        }
    }
}

fn boots() -> Result<Vec<Boot>, String> {
    let listed = |name: &str, default: &str| -> Vec<String> {
        let text = variable(name).unwrap_or_else(|| default.to_owned());
        text.split(',').map(str::to_owned).collect()
    };
    let mut loads = Load::all()?;
    if let Some(wanted) = variable("LOADS") {
        let wanted: Vec<&str> = wanted.split(',').collect();
        if let Some(name) = wanted.iter().find(|name| loads.iter().all(|load| load.name != **name)) {
            return Err(format!("FLSCHED_TEST_LOADS: there is no load {name}"));
        }
        loads.retain(|load| wanted.contains(&load.name.as_str()));
    }
    let all_per_cpu = PER_CPU.map(|number| number.to_string()).join(",");
    let mut schedulers = vec![BASE.to_owned()];
    schedulers.extend(listed("POLICIES", POLICIES));
    schedulers.push(BASE_AGAIN.to_owned());
    let mut boots = Vec::new();
    for kernel in listed("KERNELS", KERNELS) {
        for per_cpu in listed("PER_CPU", &all_per_cpu) {
            let per_cpu = per_cpu.parse().map_err(|_| format!("FLSCHED_TEST_PER_CPU: {per_cpu}"))?;
            let run: Vec<&Load> = loads.iter().filter(|load| load.is_run_with(per_cpu)).collect();
            for loads in run.chunks(LOADS_OF_A_BOOT) {
                boots.push(Boot {
                    kernel: kernel.clone(),
                    clock: variable("CLOCK").unwrap_or_else(|| "parallel".into()),
                    cpus: number("CPUS", 2)?,
                    plan: guest::Plan {
                        per_cpu,
                        cpus: number("CPUS", 2)?,
                        seconds: number("SECONDS", 1)?,
                        runs: number("RUNS", 1)?,
                        schedulers: schedulers.clone(),
                        loads: loads.iter().map(|load| load.name.clone()).collect(),
                        without: Vec::new(),
                    },
                });
            }
        }
    }
    Ok(boots)
}

fn number(name: &str, default: u32) -> Result<u32, String> {
    let Some(text) = variable(name) else { return Ok(default) };
    text.parse().map_err(|_| format!("FLSCHED_TEST_{name}={text}: expected a number"))
}
