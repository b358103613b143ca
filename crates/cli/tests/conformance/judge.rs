//! What a run came to, here and there, and whether that is the same.
use crate::MachineResults;
use flsched_sim::run::TaskCounts;
use flsched_sim::scenario::Scenario;
use libtest_mimic::Failed;

/// What all tasks of a scenario did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub switches: u64,
    pub migrations: u64,
}

/// The simulator draws how long calls take; the kernel's plays differ by what else happens on the machine.
const SEEDS: u64 = 5;
/// The tolerance: a tenth of the kernel's number, or a few events where the number is small.
const PART: u64 = 10;
const FEW: u64 = 10;

/// Scenarios whose numbers differ, and the schedulers under which they do; `docs/explanation/simulator-and-kernel.md`
/// has both and the reasons. There, too, all work must be done where it may be done.
const DIFFERENT: &[(&str, &[&str])] = &[
    ("hackbench-four-cpus", crate::SCHEDULERS),
    ("spin-barrier-four-cpus", crate::SCHEDULERS),
    ("chain-two-cpus", &["flsched", "smove", "rr2", "eevdf"]),
    ("hackbench-process-pipe", &["smove", "eevdf"]),
    ("hackbench-thread-pipe", &["eevdf"]),
    ("hackbench-thread-socket", &["smove", "eevdf"]),
    ("hackbench-thread-socket-groups", &["smove"]),
    ("senders-and-receivers", &["eevdf"]),
    ("threads", &["smove", "rr2", "eevdf"]),
    ("hotplug", &["flsched", "smove", "rr2", "eevdf"]),
    ("spin-barrier", &["eevdf"]),
    ("spin-barrier-long", &["flsched"]),
    ("yielders-part", &["smove", "eevdf"]),
    ("fork-bomb", &["smove"]),
    ("hogs-and-sleepers", &["smove", "eevdf"]),
    ("fork-bomb-one-cpu", &["flsched"]),
    ("jobs", &["flsched"]),
];

/// Are its numbers the same here and there?
pub fn is_claimed(scheduler: &str, name: &str) -> bool {
    !DIFFERENT.iter().any(|(scenario, under)| *scenario == name && under.contains(&scheduler))
}

pub fn judge(
    mut scenario: Scenario,
    scheduler: &str,
    name: &str,
    results: &MachineResults,
) -> Result<(), Failed> {
    let plays = results.plays.get(name).cloned().unwrap_or_default();
    let plays: Vec<Tally> =
        plays.into_iter().collect::<Result<_, _>>().map_err(|why| format!("on the kernel: {why}"))?;
    if plays.len() < crate::guest::PLAYS {
        return Err(
            format!("the machine ended before this scenario did; it said:\n{}", results.transcript).into()
        );
    }
    scenario.scheduler = scheduler.into();
    let runs: Result<Vec<Tally>, _> = (0..SEEDS)
        .map(|seed| {
            scenario.seed = seed;
            simulate(&scenario)
        })
        .collect();
    let runs = runs.map_err(|error| format!("in the simulator: {error}"))?;
    let agree = |of: fn(&Tally) -> u64| {
        let (kernel, simulator) = (median(&plays, of), median(&runs, of));
        kernel.abs_diff(simulator) <= FEW.max(kernel / PART)
    };
    let line = format!("kernel {}, simulator {}", show(&plays), show(&runs));
    eprintln!("{scheduler}::{name}: {line}");
    let is_same = agree(|t| t.switches) && agree(|t| t.migrations);
    if is_same || !is_claimed(scheduler, name) { Ok(()) } else { Err(line.into()) }
}

/// Ends only if all tasks do their work, on CPUs where they may run: the simulator checks that.
fn simulate(scenario: &Scenario) -> Result<Tally, flsched_sim::Error> {
    let (_, tasks) = scenario.run_counted()?;
    if scenario.workload.is_some() {
        return Ok(sum(&tasks, |task| task.switches));
    }
    // Without the first one, which forks the others, and without the tasks' ends.
    Ok(sum(&tasks[1..], |task| task.switches_of_program))
}

fn sum(tasks: &[TaskCounts], switches: fn(&TaskCounts) -> u64) -> Tally {
    Tally {
        switches: tasks.iter().map(switches).sum(),
        migrations: tasks.iter().map(|task| task.migrations).sum(),
    }
}

fn median(all: &[Tally], of: fn(&Tally) -> u64) -> u64 {
    let mut figures: Vec<u64> = all.iter().map(of).collect();
    figures.sort_unstable();
    figures[figures.len() / 2]
}

fn show(all: &[Tally]) -> String {
    let list = |of: fn(&Tally) -> u64| {
        let figures: Vec<String> = all.iter().map(|tally| of(tally).to_string()).collect();
        format!("{} ({})", median(all, of), figures.join(" "))
    };
    format!("{} switches, {} migrations", list(|t| t.switches), list(|t| t.migrations))
}
