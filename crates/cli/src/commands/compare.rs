//! `flsched compare`: schedulers side by side.
use crate::args;
use crate::files::check_distinct;
use crate::machine;
use crate::progress::Progress;
use crate::signals;
use anyhow::{Context, Result, anyhow};
use flsched_compare::execute::Probe;
use flsched_compare::executors::vm::needs;
use flsched_compare::report::table::{Style, render};
use flsched_compare::workload::{Making, memory_mib};
use flsched_compare::{
    Clock, CompareError, CompareSpec, Event, Executor, HostExecutor, Outputs, Report, SimExecutor,
    VmExecutor, Workload, compare,
};
use flsched_host::policy_file;
use flsched_host::sched_ext;
use flsched_spec::Target;
use flsched_spec::workload::{Model, NpbProgram, Program};
use flsched_vm::{Accel, Arch, Memory, Topology, Vm, VmSpec};
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

mod places;

const DEFAULT_KERNEL: &str = "default";

pub fn run(args: &args::Compare) -> Result<u8> {
    let words: Vec<String> = std::env::args().collect();
    let cancel = signals::stop_flag()?;
    let progress = Progress::start();
    let plan = plan(args, &words, &making(&|line| progress.report(line), &cancel));
    let plan = plan.inspect_err(|_| progress.end())?;
    let outputs = Outputs { json: args.json.clone(), html: args.html.clone() };
    let result = carry_out(args, &plan, &outputs, &progress, &cancel);
    progress.end();
    match result? {
        Ok(report) => {
            print(&report)?;
            name_files(&outputs)?;
            Ok(code_of(&report))
        }
        Err(error) => {
            let (report, interrupted) = match &error {
                CompareError::Interrupted { report } => (report, true),
                CompareError::Executor { report, .. } => (report, false),
                CompareError::Usage(_) | CompareError::Output(_) => return Err(error.into()),
            };
            let measured = report.as_ref().filter(|report| report.has_results());
            if let Some(report) = measured {
                print(report)?;
                name_files(&outputs)?;
            }
            if interrupted {
                let outcome = match measured {
                    Some(_) => "what was measured so far is above",
                    None => "nothing was measured yet",
                };
                eprintln!("flsched: interrupted; {outcome}");
                return Ok(flsched_compare::exit::INTERRUPTED);
            }
            Err(error.into())
        }
    }
}

/// A failure if a workload has no time at all under a scheduler; says which.
fn code_of(report: &Report) -> u8 {
    let without = without_time(report);
    if without.is_empty() {
        return 0;
    }
    eprintln!("flsched: no time, see above: {}", without.join(", "));
    flsched_compare::exit::FAILURE
}

/// Workloads without a time under all schedulers, and under some.
fn without_time(report: &Report) -> Vec<String> {
    let has_time =
        |workload: &str| report.results.iter().any(|it| it.workload == workload && it.time_s.is_some());
    let mut without: Vec<String> = Vec::new();
    for result in report.results.iter().filter(|it| it.time_s.is_none()) {
        let line = match has_time(&result.workload) {
            true => format!("{} on {}", result.scheduler, result.workload),
            false => result.workload.clone(),
        };
        if !without.contains(&line) {
            without.push(line);
        }
    }
    without
}

/// Shows what is made, and lets the user stop it.
pub fn making<'a>(tell: &'a dyn Fn(&str), cancel: &'a AtomicBool) -> Making<'a> {
    Making { tell, cancel, ..Making::quietly() }
}

/// What a command line requests.
pub struct Plan {
    pub spec: CompareSpec,
    place: Place,
}

fn place_of_policies(on: Target, arch: Arch) -> policy_file::On {
    match on {
        Target::Sim => policy_file::On::Simulator,
        _ => policy_file::On::Kernel(arch),
    }
}

impl Plan {
    /// Where nothing can be left out.
    pub fn whole(self) -> Result<Self> {
        match self.spec.unable.values().next() {
            Some(reason) => Err(anyhow!("{reason}")),
            None => Ok(self),
        }
    }
}

/// Reads the command line, and builds the programs that it needs. Workloads that this machine lacks are named, and left
/// out if there are others.
pub fn plan(args: &args::Compare, words: &[String], making: &Making<'_>) -> Result<Plan> {
    check_distinct([("--json", args.json.as_ref()), ("--html", args.html.as_ref())])?;
    let on = target(args.on);
    places::check(args, on)?;
    let arch = args.vm.arch.unwrap_or(Arch::HOST);
    policy_file::add_all(&args.policies, place_of_policies(on, arch))?;
    let place = place_of(args, on)?;
    let mut spec = spec_of(args, place, words)?;
    spec.check()?;
    if let (None, Some(why)) = (args.on, why_not_here()) {
        eprintln!("flsched: {why}: this runs in a virtual machine, on emulated CPUs (--on vm)");
    }
    let built = spec.build(arch, making);
    spec.unable.values().for_each(|reason| eprintln!("! {reason}"));
    built?;
    Ok(Plan { spec, place })
}

pub fn carry_out(
    args: &args::Compare,
    plan: &Plan,
    outputs: &Outputs,
    progress: &Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<Result<Report, CompareError>> {
    outputs.check()?;
    let mut executor = executor(args, plan, progress, cancel)?;
    let mut observer = |event: &Event<'_>| show_event(progress, event);
    Ok(compare(&plan.spec, executor.as_mut(), &mut observer, outputs, cancel))
}

/// Where the runs are done.
#[derive(Clone, Copy)]
enum Place {
    Host,
    Vm { topology: Topology, memory: Memory, clock: flsched_vm::Clock },
    Sim,
}

/// The target that the user chose, else the one that this machine can do.
fn target(chosen: Option<Target>) -> Target {
    chosen.unwrap_or(if why_not_here().is_some() { Target::Vm } else { Target::Host })
}

fn why_not_here() -> Option<&'static str> {
    match (sched_ext::status(), nix::unistd::geteuid().is_root()) {
        (None, _) => Some("this kernel has no sched_ext"),
        (Some(_), false) => Some("only root can attach a scheduler"),
        (Some(_), true) => None,
    }
}

fn place_of(args: &args::Compare, on: Target) -> Result<Place> {
    Ok(match on {
        Target::Host => Place::Host,
        Target::Vm => {
            let clock = args.clock.unwrap_or_default();
            let topology = machine::topology(args.cpus, args.vm.topology.as_deref(), clock)?;
            let memory = machine::memory(args.vm.memory.as_deref(), topology.cpus())?;
            Place::Vm { topology, memory, clock }
        }
        Target::Sim => Place::Sim,
    })
}

fn spec_of(args: &args::Compare, place: Place, words: &[String]) -> Result<CompareSpec> {
    let mut schedulers: Vec<String> = args.schedulers.iter().cloned().collect();
    if schedulers.is_empty() && matches!(place, Place::Host) {
        schedulers.push(CompareSpec::ON_HOST.into());
    }
    let (on, cpus, clock) = match place {
        Place::Host => {
            let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
            (Target::Host, cpus, args.clock.map_or(Clock::Wall, Clock::from))
        }
        Place::Vm { topology, clock, .. } => (Target::Vm, topology.cpus(), clock.into()),
        Place::Sim => return simulated_spec_of(args, &schedulers, words),
    };
    let mut further = Vec::new();
    if let Some(folder) = &args.npb {
        let programs = NpbProgram::in_folder(folder, args.npb_threads)?;
        further.extend(programs.into_iter().map(|npb| Workload::Program(Program::Npb(npb))));
    }
    if !args.command.is_empty() {
        further.push(Workload::command(args.command.clone())?);
    }
    let mut spec = CompareSpec::new(&schedulers, &args.workloads, cpus, further)?;
    spec.on = on;
    spec.clock = clock;
    complete(&mut spec, args);
    spec.command_line = words.to_vec();
    Ok(spec)
}

fn simulated_spec_of(args: &args::Compare, schedulers: &[String], words: &[String]) -> Result<CompareSpec> {
    let mut spec = CompareSpec::simulated(schedulers, &args.workloads)?;
    complete(&mut spec, args);
    spec.command_line = without_what_changes_nothing(words);
    Ok(spec)
}

/// The report of a simulation is the same however many runs are done at a time, and wherever it is written.
fn without_what_changes_nothing(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (option, value) =
            word.split_once('=').map_or((word.as_str(), None), |(option, it)| (option, Some(it)));
        if !["--jobs", "--json", "--html"].contains(&option) {
            kept.push(word.clone());
        } else if value.is_none() {
            words.next();
        }
    }
    kept
}

fn complete(spec: &mut CompareSpec, args: &args::Compare) {
    spec.runs = args.runs;
    spec.limit = Duration::from_secs(args.timeout);
    spec.why = args.why;
    spec.timeline = args.timeline;
    if let Some(seed) = args.seed {
        spec.seed = seed;
    }
}

/// What does its runs.
pub fn executor(
    args: &args::Compare,
    Plan { spec, place }: &Plan,
    progress: &Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<Box<dyn Executor>> {
    let (topology, memory, clock) = match *place {
        Place::Host => {
            flsched_compare::executors::host::preflight::check(spec)?;
            return Ok(Box::new(HostExecutor::new(cancel.clone())));
        }
        Place::Vm { topology, memory, clock } => (topology, memory, clock),
        Place::Sim => {
            let models = spec.workloads.iter().filter_map(|workload| match workload {
                Workload::Model(model) => Some(model),
                Workload::Program(_) => None,
            });
            let cpus = args.cpus.map(|cpus| cpus as usize);
            let models: Vec<&Model> = models.collect();
            let machine = machine::simulated(args.machine.as_deref(), cpus, &models)?.with(&[])?;
            let jobs = args.jobs.unwrap_or(1) as usize;
            return Ok(Box::new(SimExecutor::new(machine, &spec.workloads, jobs, cancel.clone())?));
        }
    };
    let arch = args.vm.arch.unwrap_or(Arch::HOST);
    Vm::check(arch, clock, Accel::Auto)?;
    let able: Vec<_> = spec.able().cloned().collect();
    let mut needs = needs(&spec.schedulers, &able)?;
    needs.programs.extend(flsched_vm::programs_in(&args.command));
    needs.files.extend(args.vm.include.clone());
    // The files of workloads need memory beside the default; an amount that the user gave stays as it is.
    let further = spec.able().map(memory_mib).sum();
    let files_mib: u32 = if args.vm.memory.is_some() { 0 } else { further };
    let wanted = args.vm.kernel.as_deref().unwrap_or(DEFAULT_KERNEL);
    let (kernel, foreign) = machine::kernel(wanted, arch, progress, cancel)?;
    progress.report(&format!("booting {} with {} CPUs", kernel.release, topology.cpus()));
    let vm = VmSpec {
        foreign,
        memory_mib: memory.mib + files_mib,
        clock,
        cgroup: args.cgroup.map(machine::cgroup).unwrap_or_default(),
        programs: needs.programs,
        files: needs.files,
        cancel: cancel.clone(),
        ..VmSpec::new(kernel, topology)
    };
    let executor = VmExecutor::new(vm).with_policies(&spec.schedulers);
    Ok(Box::new(executor.context("cannot write a policy's object for the virtual machine")?))
}

fn show_event(progress: &Progress, event: &Event<'_>) {
    match event {
        Event::Started { seed, runs, .. } => {
            progress.keep(&format!("{runs} runs in random order, seed {seed}"));
            progress.steps(*runs as u64);
        }
        Event::RunStarted(info) => {
            let warm_up = match (info.warm_up, info.probe) {
                (true, _) => " (warm-up)",
                (_, Some(Probe::Why)) => " (breakdown)",
                (_, Some(Probe::Timeline)) => " (timeline)",
                _ => "",
            };
            let last = info.last_time_s.map(|time| format!(", last {time:.3} s")).unwrap_or_default();
            progress.show(&format!("{} on {}{warm_up}{last}", info.scheduler, info.workload));
        }
        Event::RunEnded(info, outcome) => {
            progress.done(info.number as u64);
            if let Some(trouble) = outcome.trouble() {
                progress.keep(&format!("! {} on {}: {trouble}", info.scheduler, info.workload));
            } else if !console::user_attended_stderr() {
                let time = outcome.time_s().map(|time| format!("{time:.3} s")).unwrap_or_default();
                eprintln!("{}/{} {} on {}: {time}", info.number, info.of, info.scheduler, info.workload);
            }
        }
    }
}

fn print(report: &Report) -> io::Result<()> {
    let (_, width) = console::Term::stdout().size();
    let width = if console::user_attended() { width.max(60) } else { 100 };
    writeln!(io::stdout(), "{}", render(report, Style { width, color: console::colors_enabled() }))
}

pub fn name_files(outputs: &Outputs) -> io::Result<()> {
    for path in [&outputs.html, &outputs.json].into_iter().flatten() {
        writeln!(io::stdout(), "written: {}", path.display())?;
    }
    Ok(())
}

/// Inside a virtual machine: do the runs that are requested on standard input.
pub fn agent(args: &args::MeasureAgent) -> Result<u8> {
    for policy in args.policy.chunks_exact(3) {
        policy_file::add_object(&policy[0], &policy[1], Path::new(&policy[2]))?;
    }
    let cancel = Arc::new(AtomicBool::new(false));
    let mut executor = HostExecutor::new(cancel);
    flsched_compare::executors::vm::agent::serve(BufReader::new(io::stdin()), io::stdout(), &mut executor)?;
    Ok(0)
}

/// Be a built-in workload.
pub fn workload(args: &args::Workload) -> Result<u8> {
    Ok(u8::try_from(flsched_compare::workload_main(&args.words))?)
}
