//! `flsched sim`, and `replay`: a workload, or a scenario, on a simulated machine.
use crate::args::{self, Drawing, Showing, SvgColours};
use crate::files::{check, check_distinct, write};
use crate::{machine, signals};
use anyhow::Result;
use flsched_host::policy_file;
use flsched_machine::{Machine, Setting, with_settings};
use flsched_recording::timeline::{Colouring, Timeline, render_timeline, write_trace};
use flsched_sim::scenario::Scenario;
use flsched_sim::{Error, Setup, Simulation, load, output, schedulers};
use flsched_spec::UsageError;
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub fn run(args: &args::Sim) -> Result<u8> {
    match &args.other {
        Some(args::SimOther::Fuzz(args)) => return super::fuzz::fuzz(args),
        Some(args::SimOther::Replay(args)) => return replay(args),
        Some(args::SimOther::Sweep(args)) => return super::sweep::sweep(args),
        Some(args::SimOther::Draw(args)) => return draw_real(args),
        None => {}
    }
    check_files(&args.showing.drawing, [("--against", args.against.as_ref())])?;
    let setup = setup(args)?;
    let title = format!(
        "{} under {}, on {} ({} CPUs), seed {}; clock: model",
        setup.workload,
        setup.scheduler,
        setup.machine.name,
        setup.machine.nr_cpus(),
        setup.seed
    );
    refuse_constant(&args.showing.drawing, &setup.machine)?;
    if let Some(warning) = schedulers::warning(&setup.scheduler, &setup.machine) {
        eprintln!("flsched: warning: {warning}");
    }
    let against = args.against.as_deref().map(|path| against(path, &setup)).transpose()?;
    play(Simulation::new(setup)?, &title, &args.showing, against)
}

/// The recording that a replay is held against.
fn against(path: &Path, setup: &Setup) -> Result<flsched_recording::Recording> {
    if setup.workload.recorded().is_none() {
        let what =
            format!("--against: {} was not recorded; it goes with --workload trace:FILE", setup.workload);
        return Err(UsageError(what).into());
    }
    Ok(flsched_recording::Recording::read(&path.display().to_string())
        .map_err(|error| UsageError(error.to_string()))?)
}

/// The run that the options describe.
pub fn setup(args: &args::Sim) -> Result<Setup> {
    let on = &args.on;
    policy_file::add_all(&on.policies, policy_file::On::Simulator)?;
    let model = Model::read(&on.workload)?;
    Ok(Setup {
        machine: Arc::new(
            machine::simulated(on.machine.as_deref(), on.cpus, &[&model])?.with(&args.settings)?,
        ),
        scheduler: Scheduler::read(&args.scheduler, Target::Sim)?,
        workload: load(&model)?,
        seed: on.seed,
        limit: on.limit_ns(),
    })
}

/// Before the path of an entry of the machine's file, where those of a scenario can be set, too.
const MACHINE: &str = "machine.";

/// A scenario from a file.
fn replay(args: &args::Replay) -> Result<u8> {
    check_files(&args.showing.drawing, [("the scenario", Some(&args.file))])?;
    policy_file::add_all(&args.policies, policy_file::On::Simulator)?;
    let (path, text) = read(&args.file)?;
    let (of_machine, mut of_scenario): (Vec<_>, Vec<_>) =
        args.settings.iter().cloned().partition(|setting| setting.path.starts_with(MACHINE));
    let scheduler = args.scheduler.iter();
    of_scenario.extend(scheduler.map(|name| Setting { path: "scheduler".into(), value: name.clone() }));
    let text = with_settings(&text, &path, &of_scenario)?;
    let scenario = Scenario::parse(&text, &path)?;
    let without_prefix = |setting: Setting| Setting { path: setting.path[MACHINE.len()..].into(), ..setting };
    let of_machine: Vec<Setting> = of_machine.into_iter().map(without_prefix).collect();
    let title = format!("seed {}: {}", scenario.seed, scenario.summary());
    let simulation = scenario.simulation_with(&of_machine)?;
    refuse_constant(&args.showing.drawing, simulation.machine())?;
    if !args.showing.json {
        writeln!(io::stdout(), "{title}")?;
    }
    play(simulation, &title, &args.showing, None)
}

/// An output file must not replace an input file, and no two outputs may be the same file.
fn check_files<'a>(
    drawing: &'a Drawing,
    read: impl IntoIterator<Item = (&'a str, Option<&'a PathBuf>)>,
) -> Result<(), UsageError> {
    let written = [("--trace", drawing.trace.as_ref()), ("--svg", drawing.svg.as_ref())];
    check_distinct(read.into_iter().chain(written))
}

/// The machine's frequencies must vary if they are to be drawn.
fn refuse_constant(drawing: &Drawing, machine: &Machine) -> Result<()> {
    if drawing.svg_colours == SvgColours::Frequency && machine.speed.frequency.is_none() {
        let what = format!("--svg-colours frequency: the frequencies of {} do not change", machine.name);
        return Err(UsageError(what).into());
    }
    Ok(())
}

/// To its end, or until Ctrl-C.
fn play(
    simulation: Simulation,
    title: &str,
    showing: &Showing,
    against: Option<flsched_recording::Recording>,
) -> Result<u8> {
    let Showing { json, drawing } = showing;
    drawing.trace.iter().chain(&drawing.svg).try_for_each(|path| check(path))?;
    let cancel = signals::stop_flag()?;
    let simulation = simulation.stop_if(move || cancel.load(Ordering::Relaxed));
    let outcome = if drawing.trace.is_none() && drawing.svg.is_none() {
        simulation.run()
    } else {
        // The recording up to a failure is of interest, too.
        let (outcome, timeline) = simulation.run_recorded();
        draw(&timeline, title, drawing)?;
        outcome
    };
    let mut outcome = match outcome {
        Err(Error::Stopped) => return Ok(flsched_compare::exit::INTERRUPTED),
        outcome => outcome?,
    };
    if let (Some(replayed), Some(recording)) = (&mut outcome.replayed, against) {
        replayed.recorded_under = recording.header.schedulers[0].clone();
        replayed.recorded = recording.figures();
    }
    let text = match json {
        true => serde_json::to_string_pretty(&outcome)? + "\n",
        false => output::render(&outcome),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

/// What a real machine did.
fn draw_real(args: &args::Draw) -> Result<u8> {
    let Drawing { trace, svg, svg_colours } = &args.drawing;
    if trace.is_none() && svg.is_none() {
        return Err(UsageError("draw: nothing to write; add --svg FILE or --trace FILE".into()).into());
    }
    check_files(&args.drawing, [("FILE", Some(&args.file))])?;
    let (path, text) = read(&args.file)?;
    let timeline = output::read_perf_script(&text, &path)?;
    if *svg_colours == SvgColours::Frequency && timeline.tunings.is_empty() {
        let what = format!("--svg-colours frequency: {path} has no event power:cpu_frequency");
        return Err(UsageError(what).into());
    }
    draw(&timeline, &path, &args.drawing)?;
    Ok(0)
}

fn draw(timeline: &Timeline, title: &str, drawing: &Drawing) -> Result<()> {
    if let Some(path) = &drawing.trace {
        let mut trace = Vec::new();
        write_trace(timeline, title, &mut trace)?;
        write(path, &trace)?;
    }
    if let Some(path) = &drawing.svg {
        let colouring = match drawing.svg_colours {
            SvgColours::Task => Colouring::Task,
            SvgColours::Frequency => Colouring::Frequency,
        };
        write(path, render_timeline(timeline, title, colouring).as_bytes())?;
    }
    if let Some(at) = timeline.full_at {
        let until = Duration::from_nanos(at).as_secs_f64();
        eprintln!("flsched: the recording ends at {until:.6} s: it holds no more");
    }
    Ok(())
}

/// Its name, for messages, and its text.
fn read(file: &Path) -> Result<(String, String), Error> {
    let path = file.display().to_string();
    match std::fs::read_to_string(file) {
        Ok(text) => Ok((path, text)),
        Err(cause) => Err(Error::File { path, cause }),
    }
}
