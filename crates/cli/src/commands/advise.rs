//! `flsched advise -- CMD`: which scheduler to use for CMD.
use super::compare;
use crate::args;
use crate::progress::Progress;
use crate::signals;
use anyhow::{Result, anyhow};
use flsched_compare::exit;
use flsched_compare::report::advice::{Advice, CONTENDERS};
use flsched_compare::{CompareError, Outputs};
use flsched_spec::UsageError;
use flsched_spec::app::AppFile;
use flsched_vm::Clock;
use std::io::{self, Write};

pub fn run(args: args::Advise) -> Result<u8> {
    if args.clock == Some(Clock::Work) {
        let what = "advise judges by speed, and the work clock does not show it: valid are parallel and wall";
        return Err(UsageError(what.into()).into());
    }
    let words: Vec<String> = std::env::args().collect();
    let command: Vec<String> = match args.command.is_empty() {
        true => vec!["CMD".into()],
        false => args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    if let Some(known) = known(args.workload.as_deref(), &command) {
        writeln!(io::stdout(), "Known: {known}")?;
    }
    let outputs = Outputs { json: args.json.clone(), html: args.html.clone() };
    let comparison = comparison(args);
    let cancel = signals::stop_flag()?;
    let progress = Progress::start();
    let plan = compare::plan(&comparison, &words, &compare::making(&|line| progress.report(line), &cancel));
    let plan = plan.inspect_err(|_| progress.end())?;
    let result = compare::carry_out(&comparison, &plan, &outputs, &progress, &cancel);
    progress.end();
    let report = match result? {
        Ok(report) => report,
        Err(CompareError::Interrupted { .. }) => {
            eprintln!("flsched: interrupted; no advice from a part of the runs");
            return Ok(exit::INTERRUPTED);
        }
        Err(error) => return Err(error.into()),
    };
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let advice = Advice::new(&report, &command, is_set).map_err(|reason| anyhow!("no advice: {reason}"))?;
    write!(io::stdout(), "{advice}")?;
    compare::name_files(&outputs)?;
    Ok(0)
}

/// What the catalogue of applications has on it.
fn known(workload: Option<&str>, command: &[String]) -> Option<String> {
    let named = workload.and_then(|it| it.strip_prefix("app:")).and_then(|it| it.split(':').next());
    let app = match named {
        Some(name) => AppFile::all().iter().find(|app| app.name == name),
        None => AppFile::of_command(command),
    }?;
    let known = if app.known.is_empty() { "nothing has been published of it yet" } else { &app.known };
    let program = if named.is_some() { "" } else { " (with an input of its own)" };
    Some(format!("app:{}{program}, {}: {known}", app.name, app.what))
}

/// The comparison behind the advice.
fn comparison(args: args::Advise) -> args::Compare {
    args::Compare {
        schedulers: Some(CONTENDERS.into()),
        policies: Vec::new(),
        workloads: args.workload.into_iter().collect(),
        npb: None,
        npb_threads: None,
        runs: args.runs,
        on: args.on,
        machine: None,
        jobs: None,
        cpus: args.cpus,
        vm: args.vm,
        clock: args.clock,
        cgroup: None,
        why: false,
        timeline: false,
        seed: args.seed,
        timeout: args.timeout,
        json: args.json,
        html: args.html,
        command: args.command,
    }
}
