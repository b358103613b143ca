//! `flsched attach POLICY [knobs]`: system-wide until Ctrl-C or SIGTERM.
use super::run::set_free;
use crate::args::Attach;
use crate::metrics::Metrics;
use crate::service_manager;
use crate::signals;
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use flsched_compare::exit;
use flsched_host::policy_file;
use flsched_host::{
    Change, Running, Scope, StarvationWatch, Starving, Supervisor, check_machine, check_partial,
};
use flsched_spec::{Knob, PidList, Policy, PolicySpec};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two checks of the policy.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

pub fn run(args: Attach) -> Result<u8> {
    let mut words = args.words;
    if let Some(policy) = args.policy {
        return attach_with(policy_file::read(&policy)?, words);
    }
    let at = words.iter().position(|word| !word.to_string_lossy().starts_with('-'));
    let Some(at) = at else {
        let help = words.iter().any(|word| word == "-h" || word == "--help");
        if help {
            print_overview(io::stdout().lock())?;
            return Ok(0);
        }
        if !words.is_empty() {
            eprintln!(
                "flsched: no policy is named; options follow it, as in `flsched attach flsched --partial`\n"
            );
        }
        print_overview(io::stderr().lock())?;
        return Ok(exit::USAGE);
    };
    let name = words.remove(at).to_string_lossy().into_owned();
    attach_with(PolicySpec::new(Policy::find(&name)?), words)
}

/// With the options that follow the policy.
fn attach_with(spec: PolicySpec, words: Vec<OsString>) -> Result<u8> {
    let matches = command_of(spec.policy).get_matches_from(std::iter::once("".into()).chain(words));
    attach(spec, &matches)
}

/// The command line of `attach` with each policy as a subcommand: for its documentation. When it runs, it reads the name
/// of the policy itself, because a policy of the user's own is known only after it is compiled.
pub fn documented(attach: Command) -> Command {
    let policies = Policy::all().into_iter().map(|policy| command_of(policy).name(policy.name));
    attach
        .mut_arg("words", |words| words.hide(true))
        .disable_help_flag(false)
        .disable_help_subcommand(true)
        .subcommands(policies)
}

/// The command line of one policy, its knobs as options.
fn command_of(policy: &'static Policy) -> Command {
    Command::new("flsched")
        .bin_name(format!("flsched attach {}", policy.name))
        .about(format!("Schedule this machine with {} until Ctrl-C or SIGTERM", policy.name))
        .max_term_width(100)
        .arg(
            Arg::new("partial")
                .long("partial")
                .action(ArgAction::SetTrue)
                .help("Schedule only tasks of class SCHED_EXT; all others stay with the default scheduler"),
        )
        .arg(Arg::new("force").long("force").requires("partial").action(ArgAction::SetTrue).help(
            "With --partial: attach even if other tasks keep CPUs busy. The kernel runs those tasks first, so tasks of class \
             SCHED_EXT may wait a long time for a CPU",
        ))
        .arg(
            Arg::new("stats")
                .long("stats")
                .value_name("SECONDS")
                .value_parser(value_parser!(u64).range(1..=86400))
                .help("Print the policy's statistics at this interval, 1 to 86400 seconds; each line counts from the previous one"),
        )
        .arg(
            Arg::new("metrics")
                .long("metrics")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help(
                    "Write the policy's statistics to this file every 5 s, for the textfile collector of Prometheus's \
                     node_exporter (which reads *.prom). The file is removed at the end; after a failure it stays, with \
                     flsched_attached 0",
                ),
        )
        .args(policy.knobs.iter().map(option_of))
        .args(policy.lists.iter().map(list_option_of))
}

/// A knob as an option; clap lists the names that its values may have.
fn option_of(knob: &Knob) -> Arg {
    let (default, wanted) = (knob.show(knob.default), knob.clone());
    let option = Arg::new(knob.name.clone()).long(knob.name.replace('_', "-")).help_heading("Knobs");
    if knob.names.is_empty() {
        return option
            .value_name("N")
            .value_parser(move |text: &str| wanted.parse(text))
            .help(format!("{} [{} to {}] [default: {default}]", knob.doc, knob.min, knob.max));
    }
    let parser = PossibleValuesParser::new(&knob.names).try_map(move |name| wanted.parse(&name));
    option.value_name("NAME").value_parser(parser).help(format!("{} [default: {default}]", knob.doc))
}

/// A list of processes as an option.
fn list_option_of(list: &PidList) -> Arg {
    let wanted = list.clone();
    Arg::new(list.name.clone())
        .long(list.name.replace('_', "-"))
        .help_heading("Knobs")
        .value_name("PID,PID,…")
        .value_parser(move |text: &str| wanted.parse(text))
        .help(list.doc.clone())
}

fn print_overview(mut out: impl Write) -> io::Result<()> {
    writeln!(out, "Schedule this machine with a policy until Ctrl-C or SIGTERM\n")?;
    writeln!(
        out,
        "Usage: flsched attach POLICY [--partial] [--stats SECONDS] [--metrics FILE] [KNOBS]\n\nPolicies:"
    )?;
    for policy in Policy::all() {
        writeln!(out, "  {}", policy.name)?;
    }
    writeln!(out, "\nThe knobs of a policy: flsched attach POLICY --help")?;
    writeln!(out, "One of your own: flsched attach --policy FILE.bpf.c [KNOBS]")?;
    Ok(())
}

fn attach(spec: PolicySpec, matches: &ArgMatches) -> Result<u8> {
    let policy = spec.policy;
    let stop = signals::stop_flag_or_end()?;
    signals::never_stop()?;
    if matches.get_flag("partial") && !matches.get_flag("force") {
        check_partial()?;
    }
    let knob = |knob: &Knob| Some((knob.name.clone(), *matches.get_one::<u64>(&knob.name)?));
    let list = |list: &PidList| Some((list.name.clone(), matches.get_one::<Vec<u32>>(&list.name)?.clone()));
    let spec = spec.set(policy.knobs.iter().filter_map(knob), policy.lists.iter().filter_map(list))?;
    let scope = if matches.get_flag("partial") { Scope::Partial } else { Scope::Machine };
    let stats = matches.get_one::<u64>("stats").map(|seconds| Stats::every(Duration::from_secs(*seconds)));
    let mut metrics = match matches.get_one::<PathBuf>("metrics") {
        Some(file) => {
            // Another flsched may be attached, and this may be its file.
            check_machine()?;
            Some(Metrics::start(file.clone(), &spec, scope)?)
        }
        None => None,
    };
    keep_attached(&spec, scope, &stop, stats, &mut metrics)?;
    if let Some(metrics) = metrics {
        metrics.remove();
    }
    eprintln!("detached; the default scheduler runs the machine");
    Ok(0)
}

/// Until the user stops it, or it ends by itself.
fn keep_attached(
    spec: &PolicySpec,
    scope: Scope,
    stop: &AtomicBool,
    mut stats: Option<Stats>,
    metrics: &mut Option<Metrics>,
) -> Result<()> {
    let policy = spec.policy;
    let name = name_of(spec);
    let scheduled = if scope == Scope::Partial { "SCHED_EXT tasks" } else { "this machine" };
    let mut supervisor = Supervisor::attach(spec, scope, stop)?;
    let mut watch = (scope == Scope::Partial).then(StarvationWatch::of_machine);
    let mut change = Some(Change::Attached);
    while !stop.load(Ordering::Relaxed) {
        if let (Some(Change::Ejected(report, _)), Some(metrics)) = (&change, &mut *metrics) {
            metrics.add_ejection(report.waiter.as_ref());
        }
        match change {
            None => thread::sleep(CHECK_INTERVAL),
            Some(Change::Attached) => {
                let schedules = format!("{name} schedules {scheduled}");
                eprintln!(
                    "{schedules}; cgroup CPU weights and limits have no effect; Ctrl-C restores the default scheduler"
                );
                service_manager::ready(&schedules);
                for warning in supervisor.warnings() {
                    eprintln!("warning: {warning}");
                }
                if let (Some(stats), Some(running)) = (&mut stats, supervisor.running()) {
                    stats.restart(running);
                }
            }
            Some(Change::Hotplug) => eprintln!("CPUs went on- or offline: {} starts again", policy.name),
            Some(Change::Ejected(report, wait)) => {
                let next = format!(
                    "the default scheduler runs the machine; {} starts again in {} s",
                    policy.name,
                    wait.as_secs()
                );
                let waited = report.waiter.as_ref();
                let waited = waited.map(|waiter| format!("; {waiter} waited")).unwrap_or_default();
                let (loud, by) = match report.by_guard {
                    true => ("DETACHED by flsched", "detached, as real-time tasks kept all others waiting"),
                    false => ("EJECTED by the kernel", "ejected by the kernel"),
                };
                eprintln!("{loud}: {}{waited}\n{next}", report.reason);
                service_manager::status(&format!("{by}{waited}; {next}"));
            }
            Some(Change::Refused(error, wait)) => {
                let next = format!("the next try is in {} s", wait.as_secs());
                eprintln!("{} cannot be attached again: {error}\n{next}", policy.name);
                service_manager::status(&format!("cannot be attached again; {next}"));
            }
            Some(Change::Ended(_)) => break,
        }
        if let (Some(watch), Some(_)) = (&mut watch, supervisor.running())
            && let Some(Starving::Tasks(tasks)) = watch.check()
            && let Err(why) = set_free(&tasks)
        {
            // Detaching is what the kernel would do to everybody in another 15 s, but not as an ejection.
            supervisor.detach()?;
            return Err(anyhow::anyhow!("*** DETACHED *** {why}"));
        }
        if let (Some(stats), Some(running)) = (&mut stats, supervisor.running()) {
            stats.tick(running);
        }
        if let Some(metrics) = metrics {
            metrics.tick(supervisor.running());
        }
        change = supervisor.check()?;
    }
    service_manager::stopping();
    match supervisor.detach()? {
        Some(report) if report.ejected => Err(anyhow::anyhow!("ejected by the kernel: {}", report.reason)),
        _ => Ok(()),
    }
}

/// Policy and version, and what the user has set, as the subject of a sentence: `flsched 0.1.0, slice_us=5000,`.
fn name_of(spec: &PolicySpec) -> String {
    let (policy, settings) = (spec.policy, spec.settings());
    let settings = if settings.is_empty() { settings } else { format!(", {settings},") };
    format!("{} {}{settings}", policy.name, policy.version)
}

/// Prints what each statistic grew by.
struct Stats {
    every: Duration,
    due: Instant,
    last: Vec<(String, u64)>,
}

impl Stats {
    fn every(every: Duration) -> Self {
        Self { every, due: Instant::now() + every, last: Vec::new() }
    }

    fn restart(&mut self, running: &Running) {
        self.last = running.stats().unwrap_or_default();
        self.due = Instant::now() + self.every;
    }

    fn tick(&mut self, running: &Running) {
        if Instant::now() < self.due {
            return;
        }
        self.due += self.every;
        let Ok(now) = running.stats() else { return };
        let grown: Vec<String> = now
            .iter()
            .map(|(name, count)| {
                let before = self.last.iter().find(|(n, _)| n == name).map_or(0, |(_, c)| *c);
                format!("{name} {}", count - before)
            })
            .collect();
        // A reader that has gone does not end the scheduling.
        let _ = writeln!(io::stdout(), "{}", grown.join("  "));
        self.last = now;
    }
}
