//! The command line.
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use flsched_compare::Waits;
use flsched_sim::scenario::Seeds;
use flsched_spec::Target;
use flsched_spec::workload::OpenMpKernel;
use flsched_vm::Clock;
use std::ffi::OsString;
use std::path::PathBuf;

/// CPU schedulers for many-core Linux, and tools that show whether one helps your work.
#[derive(Debug, Parser)]
#[command(name = "flsched", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check whether this machine can run flsched; each finding comes with its remedy
    Doctor(Doctor),
    /// Schedule this machine with a policy until Ctrl-C or SIGTERM
    Attach(Attach),
    /// Schedule this machine with a policy while a command runs
    Run(Run),
    /// Print which scheduler runs this machine
    Status(Status),
    /// Run a command on a stock sched_ext kernel in a virtual machine
    Vm(Vm),
    /// Build the QEMU of the parallel clock, once (about 4 minutes), or print where it is
    Emulator(Emulator),
    /// Compare schedulers side by side on a workload or a command
    Compare(Compare),
    /// Count the locks that scheduling takes while a command runs, and time the waits for them
    Locks(Overhead),
    /// Count the calls of the scheduler's functions while a command runs, and time them
    Costs(Overhead),
    /// Run a workload on a simulated machine: the same policies on models of machines
    Sim(Sim),
    /// Run the experiments of the three papers, and print which of their claims come out
    Reproduce(Reproduce),
    /// Write a machine file of this machine, for sim --machine: what the kernel says of its CPUs, measured costs
    Calibrate(Calibrate),
    /// (inside a comparison) run what a comparison at the other end of a pipe asks for
    #[command(hide = true)]
    MeasureAgent(MeasureAgent),
    /// (inside a comparison) be one of the built-in workloads
    #[command(hide = true)]
    Workload(Workload),
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Each policy has its own knobs: flsched attach POLICY --help"
)]
pub struct Attach {
    /// A policy of your own, by its file, instead of one of the build
    #[arg(long, value_name = "FILE.bpf.c")]
    pub policy: Option<String>,
    /// The policy, then its knobs
    #[arg(value_name = "POLICY [OPTIONS]", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    pub words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Run {
    /// The policy, with knobs if necessary: flsched:slice_us=5000; or one of your own, by its file:
    /// my.bpf.c:slice_us=5000
    #[arg(long, value_name = "POLICY|FILE.bpf.c[:KNOB=VALUE,…]", default_value = "flsched")]
    pub policy: String,
    /// Schedule only the command and its children with it; all other tasks stay with the default scheduler
    #[arg(long)]
    pub partial: bool,
    /// Do so even where other tasks keep CPUs busy, so that the kernel makes the command wait for them
    #[arg(long, requires = "partial")]
    pub force: bool,
    /// How threads and processes of OpenMP and Open MPI wait for each other: sleep (they release their CPU at
    /// once instead of spinning or yielding). Variables that you have set stay as they are [default: as the
    /// command waits by itself]
    #[arg(long, value_name = "HOW")]
    pub waits: Option<Waits>,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Emulator {
    #[command(subcommand)]
    pub action: EmulatorAction,
}

#[derive(Debug, Subcommand)]
pub enum EmulatorAction {
    /// Fetch QEMU's source from Debian, patch, compile and test it, unless it is there already
    Build,
    /// Print the path of the program
    Status,
}

#[derive(Debug, Args)]
pub struct Status {
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cgroup {
    /// Three levels with a CPU controller, as in a login session under systemd
    Login,
    /// None
    Root,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// KVM where it works, else emulation
    Auto,
    /// Hardware virtualisation
    Kvm,
    /// Emulation
    Tcg,
}

#[derive(Debug, Args)]
pub struct Vm {
    /// List the kernels on this machine and those known
    #[arg(long, conflicts_with = "command")]
    pub list: bool,
    /// A series (6.18), a version (6.18.15), a release, an image file with a / in its name, host or default
    #[arg(long, value_name = "VERSION|PATH", default_value = "default")]
    pub kernel: String,
    /// CPUs of the machine [default: 4, on the wall clock 2]
    #[arg(long, value_name = "N", conflicts_with = "topology")]
    pub cpus: Option<u32>,
    /// Sockets, cores and threads: 2s4c2t or sockets=2,cores=4,threads=2
    #[arg(long, value_name = "TOPOLOGY")]
    pub topology: Option<String>,
    /// Memory: 1G, 512M, or MiB [default: fits the CPUs]
    #[arg(long, value_name = "M")]
    pub memory: Option<String>,
    /// Further arguments of the kernel, as on its command line: "isolcpus=3 nohz_full=3"
    #[arg(long, value_name = "ARGUMENTS", default_value = "", hide_default_value = true)]
    pub append: String,
    /// What a second is in the machine: parallel (each CPU has its own time, an instruction is 1 ns: shows speed),
    /// parallel:turn=250,pause=40,jitter=7 (instructions in a round, ns that PAUSE costs, a seed that draws
    /// the rounds), work (all CPUs take turns on one: shows work), wall (real time) [default: parallel; wall
    /// without FLSCHED's own QEMU, or with --accel kvm]
    #[arg(long, value_name = "CLOCK[:SETTING=VALUE,…]")]
    pub clock: Option<Clock>,
    /// What executes the machine's instructions
    #[arg(long, value_enum, default_value = "auto")]
    pub accel: Accel,
    /// In which cgroup the command runs
    #[arg(long, value_enum, default_value = "login")]
    pub cgroup: Cgroup,
    /// A host file or folder to copy into the machine, at the same path (repeatable)
    #[arg(long = "include", value_name = "PATH")]
    pub include: Vec<PathBuf>,
    /// End the command after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Print to standard error which kernel boots, on what, and how long it took
    #[arg(long, short)]
    pub verbose: bool,
    /// The command
    #[arg(last = true, required_unless_present = "list", value_name = "CMD")]
    pub command: Vec<OsString>,
}

fn targets() -> impl TypedValueParser<Value = Target> {
    let value = |target: Target| PossibleValue::new(target.name()).help(target.doc());
    PossibleValuesParser::new(Target::ALL.map(value)).map(|name| {
        let named = Target::ALL.into_iter().find(|target| target.name() == name);
        named.expect("one of the possible values")
    })
}

#[derive(Debug, Args)]
#[command(after_help = workloads())]
pub struct Compare {
    /// What to compare, the baseline first: eevdf, batch, fifo, rr, eevdf:slice_us=20000 (another base
    /// slice), a policy with knobs (flsched:slice_us=5000), any scx_* program in PATH ('scx_x:ARG ARG');
    /// with +sleep behind it (eevdf+sleep), OpenMP and Open MPI are asked to sleep while they wait
    /// [default: eevdf,batch,fifo,rr,flsched]
    #[arg(long, value_name = "S,S,…")]
    pub schedulers: Option<String>,
    /// A policy of your own, to be named like the file in --schedulers: my.bpf.c has policy my (repeatable)
    #[arg(long = "policy", value_name = "FILE.bpf.c")]
    pub policies: Vec<String>,
    /// What runs (repeatable), see below; sizes left out fit the CPUs [default: hackbench and spin-barrier, unless
    /// --npb or a CMD is given]
    #[arg(long = "workload", value_name = "NAME[:PARAMS]")]
    pub workloads: Vec<String>,
    /// Each program of the NAS Parallel Benchmarks in this folder: cg.A.x, lu.B, …
    #[arg(long, value_name = "DIR")]
    pub npb: Option<PathBuf>,
    /// Threads of the NPB programs (OMP_NUM_THREADS) [default: as in your environment, else one a CPU]
    #[arg(long, value_name = "N", requires = "npb", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub npb_threads: Option<u32>,
    /// Measured runs of each scheduler on each workload, after one warm-up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Where to run [default: host where it can run sched_ext, else vm]
    #[arg(long, value_parser = targets())]
    pub on: Option<Target>,
    /// With --on sim: a machine that comes with flsched, or a file: ./mine.toml [default: knc-31s1p]
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// With --on sim: how many runs at a time; the report is the same [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// CPUs of the virtual machine [default: 4, on the wall clock 2], or of the simulated one [default: as
    /// it is]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Sockets, cores and threads of the virtual machine
    #[arg(long, value_name = "TOPOLOGY", conflicts_with = "cpus")]
    pub topology: Option<String>,
    /// Memory of the virtual machine
    #[arg(long, value_name = "M")]
    pub memory: Option<String>,
    /// Kernel of the virtual machine
    #[arg(long, value_name = "VERSION|PATH")]
    pub kernel: Option<String>,
    /// What a second is: parallel (each CPU has its own time, an instruction is 1 ns: shows speed),
    /// parallel:turn=250,pause=40,jitter=7 (instructions in a round, ns that PAUSE costs, a seed that draws
    /// the rounds), work (all CPUs take turns on one: shows work), wall (real time) [default: parallel in a
    /// virtual machine, wall on the host]
    #[arg(long, value_name = "CLOCK[:SETTING=VALUE,…]")]
    pub clock: Option<Clock>,
    /// In which cgroup the command runs
    #[arg(long, value_enum, default_value = "login")]
    pub cgroup: Cgroup,
    /// A host file or folder to copy into the virtual machine, at the same path (repeatable)
    #[arg(long = "include", value_name = "PATH")]
    pub include: Vec<PathBuf>,
    /// Break down by cause the CPU time of one more run of each scheduler on each workload: user, kernel, switching,
    /// lock waits, idle while tasks wait, ... (not with --on sim nor --clock work)
    #[arg(long)]
    pub why: bool,
    /// Seed of the order of runs, and in the simulator of the runs [default: drawn, and printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Limit of one run, in seconds of real time
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
    /// Write the results as JSON, after every run
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the results as a page with charts, after every run
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// A command to compare the schedulers on
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Overhead {
    /// The policy to measure beside the default scheduler, with knobs if necessary: flsched:slice_us=5000; or one of
    /// your own, by its file: my.bpf.c:slice_us=5000
    #[arg(long, value_name = "POLICY|FILE.bpf.c[:KNOB=VALUE,…]", default_value = "flsched")]
    pub policy: String,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// The command; what it prints goes to standard error [default: hackbench -p -g 4 -l 100]
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "What has been measured by the same command and version stays as it is in results/papers/; after \
                  Ctrl-C the next call goes on."
)]
pub struct Reproduce {
    /// Only what takes about 15 minutes together on two cores
    #[arg(long)]
    pub quick: bool,
    /// Only this row, by its name in --list (repeatable)
    #[arg(long, value_name = "ROW")]
    pub only: Vec<String>,
    /// Measure again what has been measured
    #[arg(long)]
    pub again: bool,
    /// Print the rows, and the commands that have no result yet; run nothing
    #[arg(long, conflicts_with = "again")]
    pub list: bool,
    /// Write all rows as a page
    #[arg(long, short, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
    /// The project's folder [default: the nearest one above with results/papers]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Calibrate {
    /// Write to this file, as in mine.toml, for sim --machine ./mine.toml [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Batches of each measurement
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(3..=10_000))]
    pub batches: u64,
}

#[derive(Debug, Args)]
#[command(after_help = simulated_workloads(), args_conflicts_with_subcommands = true)]
pub struct Sim {
    #[command(subcommand)]
    pub other: Option<SimOther>,
    /// One that comes with flsched (epyc-2s-768t, i7-2670qm, knc-31s1p, ryzen-3400g, xeon-e7-8870v4-4s) or
    /// a file: ./mine.toml; another governor: ryzen-3400g:powersave; all CPUs equally fast: :even
    #[arg(long, value_name = "NAME|FILE[:GOVERNOR|:even]", default_value = "knc-31s1p")]
    pub machine: String,
    /// The same kind of machine with this many CPUs [default: as it is]
    #[arg(long, value_name = "N")]
    pub cpus: Option<usize>,
    /// eevdf, batch, cfs, fifo, rr, or a policy, with settings if necessary: eevdf:slice_us=3000,
    /// flsched:slice_us=5000
    #[arg(long, value_name = "S", default_value = "flsched")]
    pub scheduler: String,
    /// A policy of your own, to be named like the file in --scheduler: my.bpf.c has policy my (repeatable)
    #[arg(long = "policy", value_name = "FILE.bpf.c")]
    pub policies: Vec<String>,
    /// What runs, see below
    #[arg(long, value_name = "NAME[:PARAMS]", default_value = "hackbench")]
    pub workload: String,
    /// Seed of everything random; the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Give up after this many simulated seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub limit: u64,
    #[command(flatten)]
    pub showing: Showing,
}

/// How to show a run.
#[derive(Debug, Args)]
pub struct Showing {
    /// Print all figures as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub drawing: Drawing,
}

/// What to make of a recording.
#[derive(Debug, Args)]
pub struct Drawing {
    /// Write which task ran where and when as a trace for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the same as a picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// What the colours of the picture show: the task that runs, or the frequency of the CPU
    #[arg(long, value_name = "WHAT", default_value = "task", requires = "svg")]
    pub svg_colours: SvgColours,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SvgColours {
    Task,
    Frequency,
}

#[derive(Debug, Subcommand)]
pub enum SimOther {
    /// Run random scenarios under all checks; one that fails is shrunk and written to a file
    Fuzz(Fuzz),
    /// Run a scenario from a file, as `flsched sim fuzz` writes it
    Replay(Replay),
    /// Draw what a real machine did
    Draw(Draw),
}

#[derive(Debug, Args)]
#[command(
    after_help = "perf record -a -e sched:sched_switch,sched:sched_wakeup,power:cpu_frequency CMD\nperf script > FILE"
)]
pub struct Draw {
    /// Text of perf script with sched:sched_switch and, for colours by frequency, power:cpu_frequency
    pub file: PathBuf,
    #[command(flatten)]
    pub drawing: Drawing,
}

#[derive(Debug, Args)]
pub struct Fuzz {
    /// One scenario for each seed from A to B - 1
    #[arg(long, value_name = "A..B", default_value = "0..1000")]
    pub seeds: Seeds,
    /// How many at a time; the output is the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Draw from these schedulers only [default: all]
    #[arg(long, value_name = "S,S", value_delimiter = ',')]
    pub schedulers: Vec<String>,
    /// A policy of your own, to be named like the file in --schedulers (repeatable)
    #[arg(long = "policy", value_name = "FILE.bpf.c")]
    pub policies: Vec<String>,
    /// The folder for scenarios that fail
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct Replay {
    /// A scenario
    pub file: PathBuf,
    /// A policy of your own that the scenario names (repeatable)
    #[arg(long = "policy", value_name = "FILE.bpf.c")]
    pub policies: Vec<String>,
    #[command(flatten)]
    pub showing: Showing,
}

#[derive(Debug, Args)]
pub struct MeasureAgent {
    /// Policies that are not of this build (repeatable)
    #[arg(long, num_args = 3, value_names = ["NAME", "VERSION", "OBJECT"])]
    pub policy: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Workload {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// The list under the options of `compare`.
fn workloads() -> String {
    let mut text = list("Workloads; parameters may be left out from the end:\n", Target::Vm);
    text += "\nOpenMP kernels:\n";
    for (name, what) in OpenMpKernel::all() {
        text += &format!("  {name:<9} {what}\n");
    }
    text + &list("\nWith --on sim:\n", Target::Sim)
}

/// The list under the options of `sim`.
fn simulated_workloads() -> String {
    list("Workloads; parameters may be left out from the end:\n", Target::Sim)
}

fn list(title: &str, target: Target) -> String {
    let mut text = title.to_string();
    for (form, what) in flsched_spec::Workload::forms(target) {
        text += &format!("  {form}\n          {what}\n");
    }
    text
}
