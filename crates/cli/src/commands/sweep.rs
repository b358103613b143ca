//! `flsched sim sweep`: how a result depends on one number of the machine.
use crate::args;
use crate::exit::{INTERRUPTED, Usage};
use crate::files::{check, check_distinct, write};
use crate::progress::Progress;
use crate::{machine, policy_file, signals};
use anyhow::Result;
use flsched_compare::Contender;
use flsched_machine::Setting;
use flsched_sim::sweep::{self, Point, Range, Sweep};
use flsched_sim::{Error, load};
use flsched_spec::Target;
use flsched_spec::workload::Model;
use std::io::{self, Write};

/// All values with all schedulers.
pub fn sweep(args: &args::Sweep) -> Result<u8> {
    let sweep = plan(args)?;
    check_distinct([("--csv", args.csv.as_ref()), ("--svg", args.svg.as_ref())])?;
    args.csv.iter().chain(&args.svg).try_for_each(|path| check(path))?;
    let stop = signals::stop_flag()?;
    let progress = Progress::start();
    progress.steps(sweep.count() as u64);
    let mut done = 0;
    let result = sweep.run(args.jobs.into(), &stop, |Point { value, scheduler, outcome }| {
        done += 1;
        progress.done(done);
        progress.report(&format!("{}={value} under {scheduler}: {:.6} s", sweep.range.path, outcome.time_s));
    });
    progress.end();
    let points = match result {
        Err(failure) if matches!(failure.source, Error::Stopped) => return Ok(INTERRUPTED),
        result => result?,
    };
    io::stdout().write_all(sweep::table(&sweep, &points).as_bytes())?;
    if let Some(path) = &args.csv {
        write(path, &sweep::csv(&sweep, &points)?)?;
    }
    if let Some(path) = &args.svg {
        let model = Model::read(&args.on.workload)?;
        let machine = machine::simulated(args.on.machine.as_deref(), args.on.cpus, &[&model])?;
        let title = format!("{} on {}; clock: model", points[0].outcome.workload, machine.name());
        write(path, sweep::svg(&sweep, &points, &title).map_err(anyhow::Error::msg)?.as_bytes())?;
    }
    Ok(0)
}

/// All that can be wrong is found here, before the first run.
fn plan(args: &args::Sweep) -> Result<Sweep> {
    let on = &args.on;
    policy_file::add_all(&on.policies, true)?;
    let (range, others) = range_of(&args.settings)?;
    let contenders = Contender::parse_list(std::slice::from_ref(&args.schedulers), Target::Sim)?;
    let model = Model::read(&on.workload)?;
    let workload = load(&model)?;
    let machine = machine::simulated(on.machine.as_deref(), on.cpus, &[&model])?;
    let machine = |setting: Setting| {
        let settings: Vec<Setting> = others.iter().cloned().chain([setting]).collect();
        machine.with(&settings)
    };
    let schedulers = contenders.into_iter().map(|contender| contender.scheduler).collect();
    Ok(Sweep::new(range, schedulers, &workload, (on.seed, on.limit_ns()), machine)?)
}

/// The setting that is a range, and the others.
fn range_of(settings: &[Setting]) -> Result<(Range, Vec<Setting>)> {
    let mut ranges = Vec::new();
    let mut others = Vec::new();
    for setting in settings {
        match Range::of(setting) {
            Some(range) => ranges.push(range?),
            None => others.push(setting.clone()),
        }
    }
    match <[Range; 1]>::try_from(ranges) {
        Ok([range]) => Ok((range, others)),
        Err(ranges) if ranges.is_empty() => {
            let what = "sweep: no --set has a range, such as costs.switch_ns=3000..30000:10";
            Err(Usage(what.into()).into())
        }
        Err(ranges) => {
            let paths: Vec<&str> = ranges.iter().map(|range| range.path.as_str()).collect();
            Err(Usage(format!("sweep: one range at a time, not {}", paths.join(" and "))).into())
        }
    }
}
