//! The command line.
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Measures what FLSCHED publishes and puts it into the documentation; counts what scheduling costs
#[derive(Debug, Parser)]
#[command(name = "flsched-lab", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure sets of results/sets.toml again, one comparison after the other
    Measure(Measure),
    /// Replace the text between `<!-- results: … -->` and `<!-- /results -->` by what the results are now
    Render(Render),
    /// Rewrite the reports under results/ in the newest version of their format, without data that a simulation's seed
    /// gives again
    Format(Format),
    /// Write the documentation and all results as HTML pages, which a browser opens without a network
    Site(Site),
    /// Run the experiments of the three papers, and print which of their claims are reproduced
    Reproduce(Reproduce),
    /// Count the locks that the scheduler takes while a command runs, and the time spent waiting for them
    Locks(Locks),
    /// Count the calls of the scheduler's functions while a command runs, and the time spent in them
    Costs(Overhead),
}

/// Where results, papers and documents are.
#[derive(Debug, Args)]
pub struct Project {
    /// Folder of the project [default: the working folder, or the nearest one above it, that has results/]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Measure {
    /// Sets to measure [default: all]
    #[arg(value_name = "SET")]
    pub sets: Vec<String>,
    /// Measure only the comparison that writes this file of results/ (repeatable)
    #[arg(long, value_name = "FILE")]
    pub only: Vec<String>,
    /// Leave out comparisons that the same command line has measured already
    #[arg(long)]
    pub missing: bool,
    /// Print the command lines and measure nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub project: Project,
}

#[derive(Debug, Args)]
pub struct Render {
    /// Change nothing; exit with 1 if a text differs
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub project: Project,
}

#[derive(Debug, Args)]
pub struct Format {
    /// Change nothing; exit with 1 if a file differs
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub project: Project,
}

#[derive(Debug, Args)]
pub struct Site {
    /// Folder for the pages: missing, empty, or with an older site, which is replaced
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    #[command(flatten)]
    pub project: Project,
}

#[derive(Debug, Args)]
pub struct Overhead {
    /// The policy to measure beside the default scheduler: a built-in one, or the file of your own; either may be
    /// followed by knobs: flsched:slice_us=5000, my.bpf.c:slice_us=5000
    #[arg(long, value_name = "POLICY|FILE.bpf.c[:KNOB=VALUE,…]", default_value = "flsched")]
    pub policy: String,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Command to measure; its output goes to standard error [default: hackbench -p -g 4 -l 100]
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Locks {
    #[command(flatten)]
    pub overhead: Overhead,
    /// Run nothing; count the places in the source of the kernel's scheduler that take a lock. The source is a kernel's
    /// top folder, or that of a series, such as 7.3, which is downloaded once (170 MB)
    #[arg(long, value_name = "DIR|SERIES", conflicts_with_all = ["policy", "command"])]
    pub source: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Results are kept in results/papers/. What the same command and version has measured is not measured \
                  again, so after Ctrl-C the next call continues."
)]
pub struct Reproduce {
    /// Run the short measurements only: about 15 minutes in all on two cores
    #[arg(long)]
    pub quick: bool,
    /// Only this row, that is, this claim of a paper; --list prints the names (repeatable)
    #[arg(long, value_name = "ROW")]
    pub only: Vec<String>,
    /// Measure again what has a result already
    #[arg(long)]
    pub again: bool,
    /// Print the rows and the commands that have no result yet; run nothing
    #[arg(long, conflicts_with = "again")]
    pub list: bool,
    /// Write all rows to this file as an HTML page
    #[arg(long, short, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub project: Project,
}
