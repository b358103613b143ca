//! `flsched sim sweep`: how a result depends on one number.
use crate::args;
use crate::files::{check, check_distinct, write};
use crate::progress::Progress;
use crate::{machine, signals};
use anyhow::Result;
use flsched_base::reports;
use flsched_compare::Contender;
use flsched_compare::exit::INTERRUPTED;
use flsched_host::policy_file;
use flsched_machine::Setting;
use flsched_sim::sweep::{self, Point, Range, Report, Sweep, Variant};
use flsched_sim::{Error, load};
use flsched_spec::Target;
use flsched_spec::UsageError;
use flsched_spec::workload::Model;
use std::io::{self, Write};
use std::sync::Arc;

/// All values with all schedulers.
pub fn sweep(args: &args::Sweep) -> Result<u8> {
    let (range, others) = range_of(&args.settings)?;
    let machine = machine_of(&args.on, &range)?;
    let sweep = plan(args, range, &machine, &others)?;
    check_distinct([
        ("--csv", args.csv.as_ref()),
        ("--svg", args.svg.as_ref()),
        ("--json", args.json.as_ref()),
    ])?;
    args.csv.iter().chain(&args.svg).chain(&args.json).try_for_each(|path| check(path))?;
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
    let report = Report {
        flsched_version: env!("CARGO_PKG_VERSION").into(),
        command_line: shell_words::join(without_files(std::env::args().skip(1))),
        machine: machine.with(&others)?.name,
        workload: args.on.workload.clone(),
        ..Report::new(&sweep, &points, args.on.seed)
    };
    io::stdout().write_all(sweep::table(&report).as_bytes())?;
    if let Some(path) = &args.csv {
        write(path, &sweep::csv(&sweep, &points)?)?;
    }
    if let Some(path) = &args.svg {
        write(path, sweep::svg(&report).map_err(anyhow::Error::msg)?.as_bytes())?;
    }
    if let Some(path) = &args.json {
        write(path, &reports::bytes(&report)?)?;
    }
    Ok(0)
}

/// The command line, which is published, without what differs from user to user and changes no result.
fn without_files(mut words: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = vec!["flsched".to_owned()];
    while let Some(word) = words.next() {
        let option = word.split_once('=').map_or(word.as_str(), |(option, _)| option);
        match ["--json", "--csv", "--svg", "--jobs"].contains(&option) {
            true if option == word => drop(words.next()),
            true => {}
            false => kept.push(word),
        }
    }
    kept
}

/// Of a workload with a placeholder, it is that of the first value.
fn machine_of(on: &args::Simulated, range: &Range) -> Result<machine::Simulated> {
    let workload = on.workload.replace(&range.placeholder(), &range.values[0]);
    Ok(machine::simulated(on.machine.as_deref(), on.cpus, &[&Model::read(&workload)?])?)
}

/// All that can be wrong is found here, before the first run.
fn plan(args: &args::Sweep, range: Range, machine: &machine::Simulated, others: &[Setting]) -> Result<Sweep> {
    let on = &args.on;
    policy_file::add_all(&on.policies, policy_file::On::Simulator)?;
    let place = range.placeholder();
    let is_of_machine = ![&args.schedulers, &on.workload].iter().any(|text| text.contains(&place));
    let path = range.path.clone();
    let variant = |value: &str| -> Result<Variant> {
        let of_machine = is_of_machine.then(|| Setting { path: path.clone(), value: value.to_owned() });
        let settings: Vec<Setting> = others.iter().cloned().chain(of_machine).collect();
        let schedulers = args.schedulers.replace(&place, value);
        let contenders = Contender::parse_list(&[schedulers], Target::Sim)?;
        Ok(Variant {
            machine: Arc::new(machine.with(&settings)?),
            schedulers: contenders.into_iter().map(|contender| contender.scheduler).collect(),
            workload: load(&Model::read(&on.workload.replace(&place, value))?)?,
        })
    };
    Sweep::new(range, (on.seed, args.runs.into(), on.limit_ns()), variant)
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
            Err(UsageError(what.into()).into())
        }
        Err(ranges) => {
            let paths: Vec<&str> = ranges.iter().map(|range| range.path.as_str()).collect();
            Err(UsageError(format!("sweep: one range at a time, not {}", paths.join(" and "))).into())
        }
    }
}
