//! `flsched campaign`: comparisons in shards.
use super::compare;
use crate::args::{self, CampaignMerge, CampaignPlan, CampaignRun, CampaignStep, Cli, Command};
use crate::progress::Progress;
use crate::signals;
use anyhow::{Context, Result, anyhow};
use clap::Parser;
use flsched_campaign::{Campaign, Part, Plan, Planned, Replay, Shard, engines, merge, plan};
use flsched_compare::exit;
use flsched_compare::workload::Making;
use flsched_compare::{CompareError, Event, ExecError, Outputs, RunRequest, Target, requests};
use flsched_spec::UsageError;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often a shard stores what it has done, at most.
const STORE: Duration = Duration::from_secs(1);

pub fn run(args: &args::Campaign) -> Result<u8> {
    match &args.step {
        CampaignStep::Plan(args) => make_plan(args),
        CampaignStep::Run(args) => run_shards(args),
        CampaignStep::Merge(args) => merge_all(args),
    }
}

fn make_plan(args: &CampaignPlan) -> Result<u8> {
    let campaign = Campaign::read(&args.file)?;
    let mut comparisons = Vec::new();
    for comparison in &campaign.comparisons {
        let named = || format!("comparison `{}`", comparison.name);
        let mut planned = Planned {
            name: comparison.name.clone(),
            arguments: comparison.arguments.clone(),
            on: Target::Sim,
            runs: 0,
        };
        let (_, spec) = read(&planned).with_context(named)?;
        (planned.on, planned.runs) = (spec.spec.on, requests(&spec.spec).len());
        comparisons.push(planned);
    }
    let here = std::env::current_dir().context("cannot find the working folder")?;
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let plan = Plan::new(&campaign, comparisons, here, plan::digest_of(&program)?);
    plan.write(&args.out)?;
    let folder = args.out.canonicalize().with_context(|| args.out.display().to_string())?;
    let files = engines::write(&folder, &plan, &program)?;

    let mut out = io::stdout().lock();
    let runs: usize = plan.comparisons.iter().map(|it| it.runs).sum();
    writeln!(
        out,
        "{} comparisons, {runs} runs, {} shards. Run them by one of:",
        plan.comparisons.len(),
        plan.count()
    )?;
    let shown = shell_words::quote(&folder.to_string_lossy()).into_owned();
    let jobs = std::thread::available_parallelism().map_or(1, |n| n.get());
    writeln!(out, "  flsched campaign run {shown} --jobs {jobs}")?;
    files.iter().try_for_each(|(_, command)| writeln!(out, "  {command}"))?;
    writeln!(out, "then: flsched campaign merge {shown}")?;
    Ok(0)
}

/// The comparison's command line, read as `flsched compare` reads it.
fn read(planned: &Planned) -> Result<(args::Compare, compare::Plan)> {
    let words = planned.words();
    let command =
        Cli::try_parse_from(&words).map_err(|error| UsageError(first_lines(&error.to_string())))?.command;
    let Command::Compare(args) = command else { unreachable!("the words begin with `flsched compare`") };
    check(&args).map_err(|message| UsageError(message.into()))?;
    let plan = compare::plan(&args, &words, &Making::quietly())?.whole()?;
    Ok((args, plan))
}

/// A message of the command line without its hints of usage.
fn first_lines(message: &str) -> String {
    let lines = message.lines().take_while(|line| !line.starts_with("Usage:"));
    lines.collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// What one machine decides for itself, a campaign decides for all.
fn check(args: &args::Compare) -> Result<(), &'static str> {
    if args.on.is_none() {
        return Err("--on is missing: every node must do the same, sim, host or vm");
    }
    if args.seed.is_none() {
        return Err("--seed is missing: all shards must draw the same runs");
    }
    if args.json.is_some() || args.html.is_some() {
        return Err("--json and --html: the campaign names its reports itself, after the comparisons");
    }
    if args.jobs.is_some() {
        return Err("--jobs: give it to `flsched campaign run`");
    }
    Ok(())
}

fn run_shards(args: &CampaignRun) -> Result<u8> {
    let plan = Plan::read(&args.folder)?;
    let count = plan.count();
    if let Some(shard) = args.shards.iter().find(|shard| **shard > count) {
        return Err(UsageError(format!("shard {shard}: this campaign has 1 to {count}")).into());
    }
    let program = std::env::current_exe().context("cannot find this program's file")?;
    plan.check_program(&plan::digest_of(&program)?).map_err(UsageError)?;
    let folder = args.folder.canonicalize().with_context(|| args.folder.display().to_string())?;
    std::env::set_current_dir(&plan.folder).with_context(|| {
        format!(
            "{}: the campaign was planned in this folder, which this node does not have",
            plan.folder.display()
        )
    })?;
    let cancel = signals::stop_flag()?;
    let shards: Vec<u32> = if args.shards.is_empty() { (1..=count).collect() } else { args.shards.clone() };
    for shard in shards {
        if !run_shard(&folder, &plan, shard, args.jobs, &cancel)? {
            eprintln!("flsched: interrupted; the same command goes on where this one stopped");
            return Ok(exit::INTERRUPTED);
        }
    }
    Ok(0)
}

/// Whether it was completed; `false`: interrupted.
fn run_shard(folder: &Path, plan: &Plan, number: u32, jobs: u32, cancel: &Arc<AtomicBool>) -> Result<bool> {
    let parts = plan.parts(number);
    let mut shard = Shard::open(folder, plan, number)?;
    if shard.is_complete(&parts) {
        eprintln!("shard {number} of {}: done before", plan.count());
        return Ok(true);
    }
    let progress = Progress::start();
    progress.keep(&format!("shard {number} of {}", plan.count()));
    let mut finish = || {
        for part in &parts {
            let done = match part {
                Part::Runs(of, runs) => simulate(&mut shard, of, runs, jobs, &progress, cancel),
                Part::Whole(of) => compare_here(&mut shard, of, &progress, cancel),
            };
            if !done.with_context(|| format!("comparison `{}`", part_name(part)))? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let finished = finish();
    progress.end();
    // Also what an interrupted or failed shard has done.
    shard.write()?;
    finished
}

fn part_name<'a>(part: &'a Part<'_>) -> &'a str {
    match part {
        Part::Runs(of, _) | Part::Whole(of) => &of.name,
    }
}

/// These runs of the comparison in the simulator.
fn simulate(
    shard: &mut Shard,
    of: &Planned,
    runs: &[usize],
    jobs: u32,
    progress: &Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<bool> {
    let (mut args, plan) = read(of)?;
    args.jobs = Some(jobs);
    let all = requests(&plan.spec);
    if all.len() != of.runs {
        let message =
            format!("it has {} runs, and {} in the plan: plan again in a new folder", all.len(), of.runs);
        return Err(UsageError(message).into());
    }
    let left: Vec<usize> = runs.iter().copied().filter(|run| !shard.has(&of.name, *run)).collect();
    let requested: Vec<RunRequest> = left.iter().map(|run| all[*run].clone()).collect();
    let mut executor = compare::executor(&args, &plan, progress, cancel)?;
    let environment = flsched_compare::compare::environment(&plan.spec, executor.as_mut())?;
    executor.prepare(&requested);
    progress.steps(left.len() as u64);
    let mut stored = Instant::now();
    for (done, (run, request)) in left.into_iter().zip(&requested).enumerate() {
        progress.show(&format!("{} on {}", request.scheduler, request.workload));
        match executor.run(request) {
            Ok(outcome) => shard.add(&of.name, &environment, run, outcome),
            Err(ExecError::Interrupted) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        progress.done(done as u64 + 1);
        if stored.elapsed() >= STORE {
            shard.write()?;
            stored = Instant::now();
        }
    }
    Ok(true)
}

/// The whole comparison, on this machine or in a virtual machine on it.
fn compare_here(
    shard: &mut Shard,
    of: &Planned,
    progress: &Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<bool> {
    let (args, plan) = read(of)?;
    match compare::carry_out(&args, &plan, &Outputs::default(), progress, cancel)? {
        Ok(report) => shard.add_report(&of.name, report),
        Err(CompareError::Interrupted { .. }) => return Ok(false),
        Err(CompareError::Executor { source, .. }) => return Err(source.into()),
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// Ascending numbers as Slurm and HyperQueue take them: `2,4-7`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let text = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(u32::to_string).collect(),
    };
    runs.map(text).collect::<Vec<_>>().join(",")
}

fn merge_all(args: &CampaignMerge) -> Result<u8> {
    let folder = &args.folder;
    let plan = Plan::read(folder)?;
    let mut results = merge::Results::read(folder, &plan)?;
    if !results.missing.is_empty() {
        let numbers = ranges(&results.missing);
        let shown = shell_words::quote(&folder.to_string_lossy()).into_owned();
        return Err(anyhow!(
            "{} of {} shards are missing; to run them: flsched campaign run {shown}, or sbatch --array={numbers} with \
             its slurm.sh",
            results.missing.len(),
            plan.count(),
        ));
    }
    let folder = folder.canonicalize().with_context(|| folder.display().to_string())?;
    std::env::set_current_dir(&plan.folder).with_context(|| plan.folder.display().to_string())?;
    let mut ignore = |_: &Event<'_>| {};
    for comparison in &plan.comparisons {
        let lost = || anyhow!("comparison `{}` has no results", comparison.name);
        let report = match results.reports.remove(&comparison.name) {
            Some(report) => report,
            None => {
                let runs = results.runs.remove(&comparison.name).ok_or_else(lost)?;
                let (_, plan) = read(comparison)?;
                let mut replay = Replay::new(requests(&plan.spec), runs);
                let never = Arc::default();
                flsched_compare::compare(&plan.spec, &mut replay, &mut ignore, &Outputs::default(), &never)?
            }
        };
        let file = |extension: &str| Some(folder.join(format!("{}.{extension}", comparison.name)));
        let outputs = Outputs { json: file("json"), html: file("html") };
        outputs.write(&report)?;
        compare::name_files(&outputs)?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_shards_are_named_in_ranges() {
        assert_eq!(ranges(&[2, 4, 5, 6, 9]), "2,4-6,9");
        assert_eq!(ranges(&[7]), "7");
    }
}
