//! `measure`, `render`, `format`, `site` and `reproduce`: what is published.
use super::cost::count;
use crate::args;
use anyhow::{Context, Result};
use flsched_base::signals::stop_flag;
use flsched_compare::exit::{FAILURE, INTERRUPTED};
use flsched_lab::format as formatting;
use flsched_lab::measure::{Choice, Ended, chosen, is_measured, measure as measure_jobs};
use flsched_lab::papers::run::{self, Request};
use flsched_lab::papers::{paper, plan};
use flsched_lab::project;
use flsched_lab::render as rendering;
use flsched_lab::sets::{self, Sets};
use flsched_lab::site as building;
use std::io::Write;

pub fn measure(args: args::Measure) -> Result<u8> {
    let root = project::folder(args.project.root.as_deref(), sets::FILE)?;
    let sets = Sets::load(&root)?;
    let choice = Choice { sets: args.sets, only: args.only, missing: args.missing };
    let jobs = chosen(&root, &sets, &choice)?;
    if args.dry_run {
        let mut out = std::io::stdout().lock();
        for job in jobs {
            let state = if is_measured(&root, &job) { "measured" } else { "not measured" };
            writeln!(out, "# {} ({state})\n{}", job.file(), job.line())?;
        }
        return Ok(0);
    }
    let stop = stop_flag().context("cannot catch signals")?;
    match measure_jobs(&root, &jobs, &stop)? {
        Ended::Interrupted => Ok(INTERRUPTED),
        Ended::Done(failures) if failures.is_empty() => {
            eprintln!("{} measured; now run: flsched-lab render", jobs.len());
            Ok(0)
        }
        Ended::Done(failures) => {
            eprintln!("flsched-lab: {} of {} failed:", failures.len(), jobs.len());
            failures.iter().for_each(|failure| eprintln!("  {failure}"));
            Ok(FAILURE)
        }
    }
}

pub fn render(args: &args::Render) -> Result<u8> {
    let root = project::folder(args.project.root.as_deref(), sets::FILE)?;
    let rendered = rendering::render(&root)?;
    rendered.errors.iter().for_each(|error| eprintln!("{error}"));
    if args.check {
        rendered.differences.iter().for_each(|difference| eprintln!("{difference}"));
        if !rendered.differences.is_empty() {
            eprintln!("flsched-lab: out of date; run: flsched-lab render");
        }
        let is_clean = rendered.errors.is_empty() && rendered.differences.is_empty();
        return Ok(if is_clean { 0 } else { FAILURE });
    }
    if !rendered.errors.is_empty() {
        eprintln!("flsched-lab: nothing was written");
        return Ok(FAILURE);
    }
    rendering::write(&root, &rendered)?;
    rendered.changes.iter().for_each(|(path, _)| eprintln!("written: {}", path.display()));
    Ok(0)
}

pub fn format(args: &args::Format) -> Result<u8> {
    let root = project::folder(args.project.root.as_deref(), sets::FILE)?;
    let formatted = formatting::format(&root).context("cannot read the reports")?;
    formatted.errors.iter().for_each(|error| eprintln!("{error}"));
    if !formatted.errors.is_empty() {
        eprintln!("flsched-lab: nothing was written");
        return Ok(FAILURE);
    }
    let names = formatted.changes.iter().map(|(name, _)| name.display());
    if args.check {
        names
            .for_each(|name| eprintln!("{name} is not in the form of this version; run: flsched-lab format"));
        return Ok(if formatted.changes.is_empty() { 0 } else { FAILURE });
    }
    formatting::write(&root, &formatted).context("cannot write the reports")?;
    names.for_each(|name| eprintln!("written: {name}"));
    Ok(0)
}

pub fn site(args: &args::Site) -> Result<u8> {
    let root = project::folder(args.project.root.as_deref(), sets::FILE)?;
    let built = building::build(&root)?;
    if !built.errors.is_empty() {
        built.errors.iter().for_each(|error| eprintln!("{error}"));
        eprintln!("flsched-lab: nothing was written");
        return Ok(FAILURE);
    }
    building::write(&built, &args.folder)?;
    let first = args.folder.join("index.html");
    eprintln!("written: {} files; open {}", built.files.len(), first.display());
    Ok(0)
}

pub fn reproduce(args: args::Reproduce) -> Result<u8> {
    let root = project::folder(args.project.root.as_deref(), paper::FOLDER)?;
    let choice = plan::Choice { quick: args.quick, only: args.only, again: args.again };
    let request = Request { choice, list: args.list, out: args.out };
    let stop = stop_flag().context("cannot catch signals")?;
    Ok(match run::reproduce(&root, &request, &count, &stop)? {
        run::Ended::Done => 0,
        run::Ended::Failed => FAILURE,
        run::Ended::Interrupted => INTERRUPTED,
    })
}
