//! `flsched sim fuzz --adversary`: searches for scenarios that break a rule.
use crate::args;
use crate::files::write;
use crate::progress::Progress;
use crate::signals;
use anyhow::Result;
use flsched_compare::exit::{FAILURE, INTERRUPTED};
use flsched_sim::adversary::{Finding, Search, Told};
use flsched_sim::scenario::Seeds;
use flsched_spec::Policy;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Searches of a seed each.
const DEFAULT_SEEDS: Seeds = Seeds(0..4);

/// All schedulers, with all seeds; the arguments have been checked.
pub fn search(args: &args::Fuzz) -> Result<u8> {
    let interrupted = signals::stop_flag()?;
    let stop = Arc::new(AtomicBool::new(false));
    watch(&interrupted, args.seconds.map(Duration::from_secs), &stop);
    let schedulers = match args.schedulers.as_slice() {
        [] => Policy::all().into_iter().map(|policy| policy.name.to_owned()).collect(),
        some => some.to_vec(),
    };
    let jobs = args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let Seeds(seeds) = args.seeds.clone().unwrap_or(DEFAULT_SEEDS);
    let progress = Progress::start();
    progress.steps(args.generations * u64::from(args.population));
    let mut broken = 0;
    for scheduler in &schedulers {
        for seed in seeds.clone() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let search = Search {
                generations: args.generations,
                population: args.population.into(),
                jobs,
                stop: Arc::clone(&stop),
                ..Search::of(scheduler, seed)?
            };
            say(&headline(&search))?;
            let findings = search.run(|told| tell(&progress, &search, &told))?;
            broken += report(args, &search, &findings)?;
        }
    }
    progress.end();
    if interrupted.load(Ordering::Relaxed) {
        say("stopped early: above is the worst that was found until then")?;
        return Ok(INTERRUPTED);
    }
    if stop.load(Ordering::Relaxed) {
        say("the time is over: above is the worst that was found until then")?;
    }
    say(&format!("{broken} rules broken in all; `flsched sim replay FILE` shows one again"))?;
    Ok(if broken > 0 { FAILURE } else { 0 })
}

/// Sets `stop` after Ctrl-C, or when the time is over.
fn watch(interrupted: &Arc<AtomicBool>, limit: Option<Duration>, stop: &Arc<AtomicBool>) {
    let (interrupted, stop, since) = (Arc::clone(interrupted), Arc::clone(stop), Instant::now());
    thread::spawn(move || {
        while !interrupted.load(Ordering::Relaxed) && limit.is_none_or(|limit| since.elapsed() < limit) {
            thread::sleep(Duration::from_millis(100));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn headline(search: &Search) -> String {
    let Search { seed, scheduler, generations, population, held, .. } = search;
    let rules: Vec<&str> = held.rules.iter().map(|rule| rule.name()).collect();
    let rules = if rules.is_empty() { "no rule".to_owned() } else { rules.join(", ") };
    let of = search.ingredients();
    format!("seed {seed}, {scheduler}: {generations} generations of {population}, of {of:?}; held to {rules}")
}

fn tell(progress: &Progress, search: &Search, told: &Told<'_>) {
    match told {
        Told::Run(generation, done) => {
            progress.done(generation * search.population as u64 + done);
            progress.show(&format!("seed {}, {}: generation {generation}", search.seed, search.scheduler));
        }
        Told::Broken(finding) => progress.keep(&format!(
            "seed {}, {}: generation {} breaks the rule {}",
            search.seed,
            search.scheduler,
            finding.generation,
            finding.rule.name()
        )),
        Told::Shrinking(rule, runs) => progress.show(&format!("{}: made smaller, run {runs}", rule.name())),
    }
}

/// Prints the worst of each rule, and writes what breaks one. Returns how many do.
fn report(args: &args::Fuzz, search: &Search, findings: &[Finding]) -> Result<u64> {
    let mut broken = 0;
    for Finding { rule, score, generation, scenario } in findings {
        let name = rule.name();
        if !score.is_broken() {
            say(&format!("  {name:<10} kept   {:>7.3}  {}", score.value, score.what))?;
            continue;
        }
        broken += 1;
        let scheduler = search.scheduler.replace([':', ',', '='], "-");
        let path = args.out.join(format!("adversary-{scheduler}-{}-{name}.toml", search.seed));
        write(&path, scenario.to_toml()?.as_bytes())?;
        let violation = score.violation(*rule);
        say(&format!(
            "  {name:<10} BROKEN {:>7.3}  generation {generation}: {violation}\n             {}\n             {}",
            score.value,
            scenario.summary(),
            path.display()
        ))?;
    }
    Ok(broken)
}
