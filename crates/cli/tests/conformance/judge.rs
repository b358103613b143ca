//! What a scenario comes to in the simulator, and whether that is as on the kernel.
use crate::{Machines, guest};
use flsched_sim::conformance::{Entry, Figures, Record, latencies};
use flsched_sim::run::TaskCounts;
use flsched_sim::scenario::Scenario;
use flsched_spec::Policy;
use libtest_mimic::Failed;

/// How often a scenario is run: the simulator draws how long calls take, and the kernel's plays differ by what else happens on
/// the machine.
pub fn seeds(scenario: &Scenario) -> u64 {
    if guest::is_unsteady(scenario) { 15 } else { 5 }
}

/// A scenario under a scheduler, in both.
pub struct Measured {
    /// With the medians.
    pub entry: Entry,
    /// On the kernel.
    plays: Vec<Figures>,
    /// In the simulator.
    runs: Vec<Figures>,
}

/// Both at a time.
pub fn measure(
    mut scenario: Scenario,
    scheduler: &str,
    name: &str,
    machines: &Machines,
) -> Result<Measured, Failed> {
    let count = guest::plays(&scenario);
    let plays = machines.first.of(name, count)?;
    let again = machines.again.as_ref().map(|machine| machine.of(name, count)).transpose()?;
    scenario.scheduler = scheduler.into();
    let (begin_us, seeds) = (scenario.begin_us, seeds(&scenario));
    let runs: Result<Vec<Figures>, _> = (0..seeds)
        .map(|seed| {
            scenario.seed = seed;
            scenario.begin_us = begin_us + guest::later_ns(&scenario, seed, seeds) / 1000;
            simulate(&scenario)
        })
        .collect();
    let runs = runs.map_err(|error| format!("in the simulator: {error}"))?;
    eprintln!("{scheduler}::{name}: kernel{}\n{:>w$}simulator{}", show(&plays), "", show(&runs), w = 4);
    let entry = Entry {
        scenario: name.into(),
        cpus: scenario.cpus,
        scheduler: scheduler.into(),
        plays: count,
        seeds,
        kernel: Figures::median(&plays),
        again: again.map(|plays| Figures::median(&plays)),
        simulator: Figures::median(&runs),
    };
    Ok(Measured { entry, plays, runs })
}

/// No figure's ranges may be further apart than its medians were: two runs of the same can differ by a half, in both.
pub fn judge(measured: &Measured, record: &Record) -> Result<(), Failed> {
    let Measured { entry, plays, runs } = measured;
    let before = record.find(&entry.scenario, &entry.scheduler);
    // Nothing of ours decides there, so what the kernel did then is as good as what it does now.
    let is_kernels_own = Policy::find(&entry.scheduler).is_err();
    let then = before.filter(|_| is_kernels_own).map(|before| before.kernel);
    // Of a barrier's switches under FLSCHED one of three plays has 4,200 and another 7,400.
    let expected = Figures::expected(plays);
    let plays: Vec<Figures> = plays.iter().copied().chain(expected).chain(then).collect();
    let kernel = Figures::nearest(&plays, &entry.simulator);
    let simulator = Figures::nearest(runs, &kernel);
    let worse = Entry { kernel, simulator, ..entry.clone() }.worse_than(before);
    if worse.is_empty() {
        return Ok(());
    }
    let (kernel, simulator) = (show(&[entry.kernel]), show(&[entry.simulator]));
    Err(format!("{} differ: kernel{kernel}; simulator{simulator}", worse.join(", ")).into())
}

/// Ends only if all tasks do their work, on CPUs where they may run: the simulator checks that.
fn simulate(scenario: &Scenario) -> Result<Figures, flsched_sim::Error> {
    let (outcome, tasks) = scenario.run_counted()?;
    // A program measures its own time. Otherwise it is from the first task's beginning until the others are done.
    let (time_s, switches) = match scenario.workload {
        Some(_) => (outcome.time_s, sum(&tasks, |task| task.switches)),
        // Without the first one, which forks the others, and without the tasks' ends.
        None => {
            let end_ns = tasks[1..].iter().filter_map(|task| task.program_ended_at).max().unwrap_or(0);
            let time_s = end_ns as f64 / 1e9 - scenario.begin_us as f64 / 1e6;
            (time_s, sum(&tasks[1..], |task| task.switches_of_program))
        }
    };
    let wake_ups = outcome.wakeups as usize + tasks.len();
    let percentile = |name| outcome.wakeup_latency_us.get(name).copied().unwrap_or(0.0);
    let (wakeup_p50_us, wakeup_p99_us) = latencies(wake_ups, percentile("p50"), percentile("p99"));
    Ok(Figures {
        time_us: time_s * 1e6,
        switches,
        migrations: sum(&tasks, |task| task.migrations),
        wakeup_p50_us,
        wakeup_p99_us,
    })
}

fn sum(tasks: &[TaskCounts], of: fn(&TaskCounts) -> u64) -> f64 {
    tasks.iter().map(of).sum::<u64>() as f64
}

fn show(all: &[Figures]) -> String {
    let figure = |index: usize| {
        let values: Vec<String> = all.iter().map(|it| format!("{:.1}", it.all()[index])).collect();
        format!(" {} {}", Figures::NAMES[index], values.join(" "))
    };
    (0..Figures::NAMES.len()).map(figure).collect()
}
