//! The command line.
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use flsched_compare::Waits;
use flsched_machine::Setting;
use flsched_sim::scenario::Seeds;
use flsched_spec::Target;
use flsched_spec::workload::OpenMpKernel;
use flsched_vm::{Arch, Clock};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Show what runs on this machine, and what waits, as it happens
    Top(Top),
    /// Run a command on a stock sched_ext kernel in a virtual machine
    Vm(Vm),
    /// Build the QEMU that the parallel clock needs, once (about 4 minutes), or print its path
    Emulator(Emulator),
    /// Try a command under EEVDF, SCHED_BATCH and FLSCHED, and say in five lines which one to use
    Advise(Advise),
    /// Compare schedulers side by side on a workload or a command
    Compare(Compare),
    /// List the applications that `compare --workload app:NAME` knows, and whether they are installed
    Apps(Apps),
    /// Divide comparisons into shards for many machines, run the shards, and merge them into reports
    Campaign(Campaign),
    /// Record what every task on this machine does, so that the simulator can replay it under other schedulers
    Record(Record),
    /// Run a workload under a policy on a simulated machine
    Sim(Sim),
    /// Measure this machine and write a machine file, with which the simulator models it
    Calibrate(Calibrate),
    /// (inside a comparison) run what a comparison at the other end of a pipe requests
    #[command(hide = true)]
    MeasureAgent(MeasureAgent),
    /// (inside `run --share`) put settings of the kernel back when `run` has ended, however it has
    #[command(hide = true)]
    KeepServers,
    /// (inside a comparison) be one of the built-in workloads
    #[command(hide = true)]
    Workload(Workload),
    /// (of flsched-lab)
    #[command(hide = true, disable_help_flag = true)]
    Locks(Moved),
    /// (of flsched-lab)
    #[command(hide = true, disable_help_flag = true)]
    Costs(Moved),
    /// (of flsched-lab)
    #[command(hide = true, disable_help_flag = true)]
    Reproduce(Moved),
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Print where the CPUs are for policies instead: of this machine, or of the one whose files of
    /// /sys/devices/system are in this tarball
    #[arg(long, value_name = "TARBALL")]
    pub topology: Option<Option<PathBuf>>,
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
    /// Attach the policy in this file instead of a built-in one
    #[arg(long, value_name = "FILE.bpf.c")]
    pub policy: Option<String>,
    /// The policy, then its knobs
    #[arg(value_name = "POLICY [OPTIONS]", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    pub words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Run {
    /// A built-in policy, or the file of your own; either may be followed by knobs: flsched:slice_us=5000,
    /// my.bpf.c:slice_us=5000
    #[arg(long, value_name = "POLICY|FILE.bpf.c[:KNOB=VALUE,…]", default_value = "flsched")]
    pub policy: String,
    /// Schedule only the command and its children; all other tasks stay with the default scheduler
    #[arg(long)]
    pub partial: bool,
    /// With --partial: start even if other tasks keep CPUs busy. The kernel runs those tasks first, so the command may
    /// wait a long time for a CPU
    #[arg(long, requires = "partial")]
    pub force: bool,
    /// With --partial: percentage of each busy CPU that the command gets, 1 to 90. Sets sched_ext's deadline server
    /// (Linux 7.0 or newer) while the command runs [default: unchanged; the kernel's default is 5]
    #[arg(long, value_name = "PERCENT", requires = "partial", value_parser = clap::value_parser!(u64).range(1..=90))]
    pub share: Option<u64>,
    /// How OpenMP threads and Open MPI processes wait for each other: sleep (a waiter releases its CPU at once,
    /// instead of spinning or yielding). This sets environment variables of the command; those that you have set
    /// stay as they are [default: the runtime's own way]
    #[arg(long, value_name = "HOW")]
    pub waits: Option<Waits>,
    /// Command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Apps {
    /// Show only this one, or the application that a file of your own describes (with a / in it: ./mine.toml)
    #[arg(value_name = "NAME|FILE.toml")]
    pub name: Option<String>,
    /// Print the list as JSON, with sources and licences
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Emulator {
    #[command(subcommand)]
    pub action: EmulatorAction,
}

#[derive(Debug, Subcommand)]
pub enum EmulatorAction {
    /// Fetch QEMU's source from Debian, patch, compile and test it; does nothing if it is already built
    Build {
        /// Processor that it emulates: x86_64 or aarch64 [default: this machine's own]
        #[arg(long, value_name = "ARCH", default_value_t = Arch::HOST, hide_default_value = true)]
        arch: Arch,
    },
    /// Print the path of the QEMU that was built; exit with 125 if there is none
    Status {
        /// Processor that it emulates: x86_64 or aarch64 [default: this machine's own]
        #[arg(long, value_name = "ARCH", default_value_t = Arch::HOST, hide_default_value = true)]
        arch: Arch,
    },
}

#[derive(Debug, Args)]
pub struct Status {
    /// Print the status as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Its programs in the kernel took 0.5 % of the time of 4 CPUs at 61,000 switches per second on 4 CPUs, and 0.05 % with 6,100"
)]
pub struct Top {
    /// Time from one view to the next, 0.1 to 3600 seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub interval: f64,
    /// Print one view and end
    #[arg(long)]
    pub once: bool,
    /// Print JSON: with --once one object, else an object on each line
    #[arg(long)]
    pub json: bool,
}

impl Top {
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.interval)
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "give seconds from 0.1 to 3600".into())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cgroup {
    /// A cgroup three levels deep with the CPU controller enabled, as in a login session under systemd
    Login,
    /// The root cgroup
    Root,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// KVM if it works here and the clock is wall, else emulation
    Auto,
    /// Hardware virtualization; needs --clock wall
    Kvm,
    /// Emulation by QEMU
    Tcg,
}

#[derive(Debug, Args)]
pub struct Vm {
    /// List the kernels: this machine's own, those downloaded, and those that can be downloaded
    #[arg(long, conflicts_with = "command")]
    pub list: bool,
    /// Kernel to boot: a series (6.18), a version (6.18.15), a release (as `uname -r` prints it), the path of an image
    /// (with a / in it), host (this machine's kernel), default (host if it has sched_ext, else series 6.18), or
    /// build:6.12 or build:/path/to/source (built once with sched_ext: 20 minutes of one CPU's time and 8 GB of disk)
    #[arg(long, value_name = "VERSION|PATH", default_value = "default")]
    pub kernel: String,
    /// Processor of the virtual machine: x86_64 or aarch64 [default: this machine's own]. Another one is emulated, and
    /// needs an flsched of its own, which `make aarch64` builds
    #[arg(long, value_name = "ARCH", default_value_t = Arch::HOST, hide_default_value = true)]
    pub arch: Arch,
    /// Number of virtual CPUs, 1 to 255 [default: 4; 2 with --clock wall]
    #[arg(long, value_name = "N", conflicts_with = "topology")]
    pub cpus: Option<u32>,
    /// Virtual CPUs as sockets, cores in a socket and threads in a core: 2s4c2t or sockets=2,cores=4,threads=2; with
    /// NUMA nodes, 2n1s4c2t
    #[arg(long, value_name = "TOPOLOGY")]
    pub topology: Option<String>,
    /// Memory of the virtual machine: 512M, 2G, or a number of MiB [default: 768 MiB plus 64 MiB per CPU]
    #[arg(long, value_name = "M")]
    pub memory: Option<String>,
    /// Arguments to add to the kernel's command line: "isolcpus=3 nohz_full=3"
    #[arg(long, value_name = "ARGUMENTS", default_value = "", hide_default_value = true)]
    pub append: String,
    /// How time passes in the virtual machine: parallel (each CPU executes one instruction per nanosecond, all at the
    /// same time: shows speed), work (the same, but one CPU after the other: shows the work done), or wall (real
    /// time). Settings of parallel: parallel:turn=250,pause=40,jitter=7,memory=server (instructions in a round [1000;
    /// 250 with memory], cost of the PAUSE instruction in ns [140], seed of random rounds [none], machine or machine
    /// file whose caches and memory the CPUs have [none]) [default: parallel; wall if `flsched emulator build` has not
    /// been run, or with --accel kvm]
    #[arg(long, value_name = "CLOCK[:SETTING=VALUE,…]")]
    pub clock: Option<Clock>,
    /// What executes the machine's instructions
    #[arg(long, value_enum, default_value = "auto")]
    pub accel: Accel,
    /// Cgroup in which the command runs
    #[arg(long, value_enum, default_value = "login")]
    pub cgroup: Cgroup,
    /// File or folder of this machine to copy into the virtual machine, at the same path (repeatable)
    #[arg(long = "include", value_name = "PATH")]
    pub include: Vec<PathBuf>,
    /// End the command after this many seconds of real time, 1 to 1000000, with exit code 124 [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub timeout: Option<u64>,
    /// Print the kernel, the CPUs, the way of execution and the boot time to standard error
    #[arg(long, short)]
    pub verbose: bool,
    /// Command to run in the virtual machine
    #[arg(last = true, required_unless_present = "list", value_name = "CMD")]
    pub command: Vec<OsString>,
}

fn targets<const N: usize>(targets: [Target; N]) -> impl TypedValueParser<Value = Target> {
    let value = |target: Target| PossibleValue::new(target.name()).help(target.doc());
    PossibleValuesParser::new(targets.map(value)).map(|name| {
        let named = Target::ALL.into_iter().find(|target| target.name() == name);
        named.expect("one of the possible values")
    })
}

#[derive(Debug, Args)]
#[command(after_help = workloads(), group(ArgGroup::new("files").args(["json", "html"]).multiple(true)))]
pub struct Compare {
    /// Schedulers to compare, the baseline first: eevdf, batch, fifo, rr; eevdf:slice_us=20000 (EEVDF with another
    /// base slice); a policy, with knobs if necessary (flsched:slice_us=5000); a scx_* program in PATH
    /// ('scx_x:ARG ARG'). With +sleep appended (eevdf+sleep), OpenMP threads and Open MPI processes sleep while they
    /// wait [default: eevdf,batch,fifo,rr,flsched; on the host without fifo and rr, real-time classes under which
    /// nothing else may run]
    #[arg(long, value_name = "S,S,…")]
    pub schedulers: Option<String>,
    /// File of a policy of your own; in --schedulers it is named like the file: my for my.bpf.c (repeatable)
    #[arg(long = "policy", value_name = "FILE.bpf.c")]
    pub policies: Vec<String>,
    /// Workload to run, see below (repeatable). Sizes that are left out are chosen by the number of CPUs [default:
    /// hackbench and spin-barrier, unless --npb or a CMD is given]
    #[arg(long = "workload", value_name = "NAME[:PARAMS]")]
    pub workloads: Vec<String>,
    /// Run each program of the NAS Parallel Benchmarks in this folder: cg.A.x, lu.B, …
    #[arg(long, value_name = "DIR")]
    pub npb: Option<PathBuf>,
    /// Threads of each NPB program, 1 to 65536 [default: OMP_NUM_THREADS of your environment, else the number of CPUs]
    #[arg(long, value_name = "N", requires = "npb", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub npb_threads: Option<u32>,
    /// Measured runs of each scheduler on each workload, 1 to 1000, after one warm-up run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Where to run [default: host if this machine can run sched_ext, else vm]
    #[arg(long, value_parser = targets(Target::ALL))]
    pub on: Option<Target>,
    /// With --on sim: the machine to simulate, a built-in one (as in `flsched sim --help`) or a file, ./mine.toml
    /// [default: knc-31s1p; of scenarios, the machine that they name; of a recorded load alone, the one in the
    /// recording]
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// With --on sim: number of parallel runs, 1 to 1024; the report is identical [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Number of CPUs of the virtual machine, 1 to 255 [default: 4; 2 with --clock wall], or of the simulated one, 1 to
    /// 4096 [default: as its machine file says; of scenarios, as many as they name]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    #[command(flatten)]
    pub vm: VirtualMachine,
    /// How time passes: parallel (each CPU executes one instruction per nanosecond, all at the same time: shows speed),
    /// work (the same, but one CPU after the other: shows the work done), or wall (real time). Settings of parallel:
    /// parallel:turn=250,pause=40,jitter=7,memory=server (instructions in a round [1000; 250 with memory], cost of the
    /// PAUSE instruction in ns [140], seed of random rounds [none], machine or machine file whose caches and memory the
    /// CPUs have [none]) [default: parallel in a virtual machine, wall on the host]
    #[arg(long, value_name = "CLOCK[:SETTING=VALUE,…]")]
    pub clock: Option<Clock>,
    /// Cgroup of the virtual machine in which workloads and CMD run [default: login]
    #[arg(long, value_enum)]
    pub cgroup: Option<Cgroup>,
    /// Add a breakdown of the CPU time by cause: user, kernel, switching, lock waits, idle while tasks wait, ... It
    /// takes one more run of each scheduler on each workload. Not with --on sim or --clock work
    #[arg(long)]
    pub why: bool,
    /// Add pictures of what ran where to the page: CPUs and time, under one scheduler after the other. It takes one more
    /// run of each scheduler on each workload, and writes a trace for ui.perfetto.dev of each next to the page. The JSON
    /// report has what the pictures show. Not with --clock work
    #[arg(long, requires = "files")]
    pub timeline: bool,
    /// Seed of the order of runs and, with --on sim, of the runs themselves [default: random; it is printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Time limit of one run, in seconds of real time, 1 to 1000000
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub timeout: u64,
    /// Write the results to this file as JSON; it is rewritten as runs end
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the results to this file as an HTML page with charts; it is rewritten as runs end
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Command to compare the schedulers on
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The virtual machine in which a comparison runs.
#[derive(Debug, Clone, Args)]
pub struct VirtualMachine {
    /// Processor of the virtual machine: x86_64 or aarch64, as for `flsched vm` [default: this machine's own]
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<Arch>,
    /// CPUs of the virtual machine as sockets, cores in a socket and threads in a core: 2s4c2t
    #[arg(long, value_name = "TOPOLOGY", conflicts_with = "cpus")]
    pub topology: Option<String>,
    /// Memory of the virtual machine: 512M, 2G, or a number of MiB [default: 768 MiB plus 64 MiB per CPU]
    #[arg(long, value_name = "M")]
    pub memory: Option<String>,
    /// Kernel of the virtual machine, as for `flsched vm` [default: default]
    #[arg(long, value_name = "VERSION|PATH")]
    pub kernel: Option<String>,
    /// File or folder of this machine to copy into the virtual machine, at the same path (repeatable)
    #[arg(long = "include", value_name = "PATH")]
    pub include: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Advise {
    /// Measured runs under each scheduler, 3 to 1000, after one warm-up run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub runs: u32,
    /// Where to run [default: host if this machine can run sched_ext, else vm]
    #[arg(long, value_parser = targets([Target::Host, Target::Vm]))]
    pub on: Option<Target>,
    /// Number of CPUs of the virtual machine, 1 to 255 [default: 4]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    #[command(flatten)]
    pub vm: VirtualMachine,
    /// How time passes in the virtual machine: parallel or wall, as for `flsched compare` [default: parallel]
    #[arg(long, value_name = "CLOCK[:SETTING=VALUE,…]")]
    pub clock: Option<Clock>,
    /// Time limit of one run, in seconds of real time, 1 to 1000000
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub timeout: u64,
    /// Seed of the order of runs [default: random; it is printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write the results to this file as JSON, as `flsched compare` does
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the results to this file as an HTML page with charts, as `flsched compare` does
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Workload to advise on instead of a command: app:NAME, or another one of `flsched compare`
    #[arg(long, value_name = "NAME[:PARAMS]", conflicts_with = "command")]
    pub workload: Option<String>,
    /// Command to advise on
    #[arg(last = true, value_name = "CMD", required_unless_present = "workload")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Campaign {
    #[command(subcommand)]
    pub step: CampaignStep,
}

#[derive(Debug, Subcommand)]
pub enum CampaignStep {
    /// Divide the comparisons of a file into shards, and write what Slurm and HyperQueue need to run them
    Plan(CampaignPlan),
    /// Run shards on this machine; finished work is not repeated
    Run(CampaignRun),
    /// Write the reports, or name the shards that are missing
    Merge(CampaignMerge),
}

#[derive(Debug, Args)]
pub struct CampaignPlan {
    /// The campaign's file, in TOML: see docs/how-to/run-a-campaign.md
    pub file: PathBuf,
    /// Folder for the plan and all results; every node must have it at the same path
    #[arg(long, short, value_name = "FOLDER")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct CampaignRun {
    /// The campaign's folder
    pub folder: PathBuf,
    /// Numbers of the shards, from 1 [default: all that are missing]
    #[arg(value_name = "SHARD", value_parser = clap::value_parser!(u32).range(1..))]
    pub shards: Vec<u32>,
    /// Simulations to run at once; the results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: u32,
}

#[derive(Debug, Args)]
pub struct CampaignMerge {
    /// The campaign's folder
    pub folder: PathBuf,
}

#[derive(Debug, Args)]
pub struct Calibrate {
    /// File to write, such as mine.toml for `flsched sim --machine ./mine.toml` [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Batches of each measurement, 3 to 10000: more batches take longer and give steadier figures
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(3..=10_000))]
    pub batches: u64,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The simulator replays the file: flsched sim --workload trace:FILE --scheduler flsched"
)]
pub struct Record {
    /// File to write, for the simulator
    #[arg(long, short, value_name = "FILE", required_unless_present = "perfetto")]
    pub out: Option<PathBuf>,
    /// Write to this file what ran where, what woke it, and what it waited for, as a trace for ui.perfetto.dev;
    /// compressed if the name ends in .gz
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Record nothing; read an earlier recording from this file
    #[arg(long, value_name = "FILE", requires = "perfetto",
          conflicts_with_all = ["out", "seconds", "anonymous", "max_size", "workload", "command"])]
    pub from: Option<PathBuf>,
    /// How long to record, 1 to 3600 seconds; Ctrl-C ends it earlier [default: 30, or while CMD runs]
    #[arg(long, value_name = "SECONDS", conflicts_with = "command", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: Option<u64>,
    /// Replace names of tasks by hashes, and leave out numbers of processes and CMD
    #[arg(long)]
    pub anonymous: bool,
    /// Memory for the recording while it goes on, 1 to 65536 MiB; the file is smaller. When the buffer is full,
    /// recording stops [default: 256, at most an eighth of the free memory]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub max_size: Option<u64>,
    /// Workload to record instead of a command: app:NAME, or another one of `flsched compare` on the host. Fails if
    /// the workload's result is wrong
    #[arg(long, value_name = "NAME[:PARAMS]", conflicts_with_all = ["command", "seconds"])]
    pub workload: Option<String>,
    /// Command to record: the recording begins before it and ends with it, and its exit code is passed on
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = simulated_workloads(), args_conflicts_with_subcommands = true)]
pub struct Sim {
    #[command(subcommand)]
    pub other: Option<SimOther>,
    /// Scheduler: eevdf, batch, cfs, fifo, rr, or a policy; with settings if necessary: eevdf:slice_us=3000,
    /// flsched:slice_us=5000
    #[arg(long, value_name = "S", default_value = "flsched")]
    pub scheduler: String,
    /// Another value for an entry of the machine's file, such as costs.switch_ns=3000 (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub settings: Vec<Setting>,
    #[command(flatten)]
    pub on: Simulated,
    /// With a recorded load: hold the result against this recording of the same load, made under another scheduler
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    #[command(flatten)]
    pub showing: Showing,
}

/// What to simulate.
#[derive(Debug, Args)]
pub struct Simulated {
    /// Machine to simulate: a built-in one (epyc-2s-768t, i7-2670qm, knc-31s1p, parallel-clock, ryzen-3400g,
    /// server, xeon-e7-8870v4-4s) or a file (./mine.toml). With a governor appended, frequencies follow that one
    /// (ryzen-3400g:powersave); with :even appended, all CPUs are equally fast [default: knc-31s1p; of a scenario, the
    /// machine that it names; of a recorded load, the one in the recording]
    #[arg(long, value_name = "NAME|FILE[:GOVERNOR|:even]")]
    pub machine: Option<String>,
    /// Number of CPUs, 1 to 4096; all else stays as in the machine file [default: as the machine file says; of a
    /// scenario, as many as it names]
    #[arg(long, value_name = "N")]
    pub cpus: Option<usize>,
    /// File of a policy of your own, which is then a scheduler named like the file: my for my.bpf.c (repeatable)
    #[arg(long = "policy", value_name = "FILE.bpf.c")]
    pub policies: Vec<String>,
    /// Workload to run; `flsched sim --help` lists them
    #[arg(long, value_name = "NAME[:PARAMS]", default_value = "hackbench")]
    pub workload: String,
    /// Seed of all random numbers; the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Stop with an error after this many simulated seconds, 1 to 1000000
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub limit: u64,
}

impl Simulated {
    /// The limit, in nanoseconds of simulated time.
    pub fn limit_ns(&self) -> u64 {
        self.limit * 1_000_000_000
    }
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
    /// Write to this file which task ran on which CPU and when, as a trace for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the same as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// What the colours of the picture stand for: the task that runs, or the frequency of the CPU
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
    /// Run random scenarios with all checks; a scenario that fails is shrunk and written to a file
    Fuzz(Fuzz),
    /// Run a scenario file, such as `flsched sim fuzz` writes
    Replay(Replay),
    /// Vary one parameter of the machine and show its effect on a workload
    Sweep(Sweep),
    /// Draw which task ran on which CPU on a real machine, from what perf recorded
    Draw(Draw),
}

#[derive(Debug, Args)]
#[command(
    after_help = "FILE is made by:\n  perf record -a -e sched:sched_switch,sched:sched_wakeup,power:cpu_frequency CMD\n  \
                  perf script > FILE"
)]
pub struct Draw {
    /// Output of `perf script`, also with --ns, with the events sched:sched_switch and, for --svg-colours frequency,
    /// power:cpu_frequency; call chains of -g are skipped
    pub file: PathBuf,
    #[command(flatten)]
    pub drawing: Drawing,
}

#[derive(Debug, Args)]
pub struct Fuzz {
    /// Seeds, one scenario each, from A to B - 1; with --adversary one search each [default: 0..1000; with --adversary
    /// 0..4]
    #[arg(long, value_name = "A..B")]
    pub seeds: Option<Seeds>,
    /// Scenarios to run at once, 1 to 1024; the output does not depend on it [default: 1; with --adversary as many as
    /// there are CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Search for scenarios that break a rule which a scheduler is held to, such as that no task waits for too long:
    /// generates random actions of users and administrators, and varies those that come closest to a violation
    #[arg(long)]
    pub adversary: bool,
    /// With --adversary: generations of a search, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 8, requires = "adversary", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub generations: u64,
    /// With --adversary: scenarios in a generation, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 24, requires = "adversary", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub population: u16,
    /// With --adversary: stop after this many seconds, 1 to 1000000, and report what has been found [default: when all
    /// seeds are done]
    #[arg(long, value_name = "SECONDS", requires = "adversary", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seconds: Option<u64>,
    /// Schedulers to choose from at random [default: all]; with --adversary each is searched [default: all policies]
    #[arg(long, value_name = "S,S", value_delimiter = ',')]
    pub schedulers: Vec<String>,
    /// File of a policy of your own; in --schedulers it is named like the file: my for my.bpf.c (repeatable)
    #[arg(long = "policy", value_name = "FILE.bpf.c")]
    pub policies: Vec<String>,
    /// Folder for the files of scenarios that fail
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flsched sim sweep --set costs.switch_ns=3000..30000:10 --schedulers cfs,flsched --svg curves.svg\n  \
                  flsched sim sweep --set threads=228,456,912 --workload npb:mg:{threads}:2 --runs 3"
)]
pub struct Sweep {
    /// What is varied, an entry of the machine's file: whole numbers from A to B, STEPS of them, 2 to 1000, at equal
    /// distances [default number: 10], or a list of values. If {PATH} stands in --schedulers or --workload, the values
    /// are put there instead. Other entries may have one other value each (repeatable)
    #[arg(long = "set", value_name = "PATH=A..B[:STEPS]|V,V,…", required = true)]
    pub settings: Vec<Setting>,
    /// Schedulers, as for --scheduler of `flsched sim`
    #[arg(long, value_name = "S,S,…", default_value = "eevdf,flsched")]
    pub schedulers: String,
    #[command(flatten)]
    pub on: Simulated,
    /// Runs of each value and scheduler, 1 to 1000, each with the next seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
    /// Number of parallel runs, 1 to 1024; the result is identical
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Write the results to this file as comma-separated values: a line for each value, scheduler and seed
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a picture to this file: the time over the values, a curve for each scheduler
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Replay {
    /// Scenario file, in TOML
    pub file: PathBuf,
    /// Another value for an entry of the scenario, such as limit_ms=500 or task.0.rounds=3, or of its machine's file,
    /// such as machine.costs.switch_ns=3000 (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub settings: Vec<Setting>,
    /// Scheduler to use instead of the scenario's; `flsched sim --help` lists them
    #[arg(long, value_name = "NAME[:KNOB=VALUE,…]")]
    pub scheduler: Option<String>,
    /// File of a policy of your own that the scenario or --scheduler names (repeatable)
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

/// What follows a command that another program has now.
#[derive(Debug, Args)]
pub struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
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
