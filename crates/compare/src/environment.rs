//! The machine on which runs are measured, as written to the report.
use flsched_machine::read_cpu_list;
use flsched_spec::PolicyFile;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// What may explain a result, as far as it can be found out. Nothing in it identifies the machine's
/// owner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// `uname -r`.
    pub kernel: String,
    /// `uname -v`.
    pub kernel_version: String,
    /// `uname -m`; reports before this was recorded are of x86_64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// CPUs online.
    pub cpus: u32,
    /// The CPUs' model name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    pub topology: Topology,
    /// Memory in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// The kernel's command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_cmdline: Option<String>,
    /// The kernel's mitigations of the CPU's flaws, by flaw; flaws that do not affect the CPU are
    /// left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mitigations: BTreeMap<String, String>,
    /// Frequency governor of the first CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether the CPUs may exceed their nominal frequency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boost: Option<bool>,
    /// Load averages over 1, 5 and 15 minutes before the first run.
    pub load_average: Vec<f64>,
    /// The cgroup of the runs; the fair class spends time on each of its levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Kernel settings that affect scheduling, by name under `/proc/sys/kernel`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// The user's environment variables for OpenMP runtimes and Open MPI, which apply to every run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub openmp: BTreeMap<String, String>,
    /// Whether the kernel has sched_ext.
    pub sched_ext: bool,
    /// The version that hackbench reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hackbench_version: Option<String>,
    /// The simulated machine's name; only this, the CPUs and their topology are known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Policies under test that are from the user's files, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policy_files: BTreeMap<String, PolicyFile>,
    /// The machine around this one, if this one is a VM that `compare` booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmEnvironment>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Packages.
    pub sockets: usize,
    /// Cores in total.
    pub cores: usize,
    /// Memory nodes.
    pub nodes: usize,
    /// Groups of CPUs that share a last-level cache.
    pub caches: usize,
}

/// The VM and its host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VmEnvironment {
    /// The version that QEMU reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu_version: Option<String>,
    /// What executes the guest: `kvm`, `tcg,thread=multi`, …
    pub accel: String,
    /// Why KVM is not used although it is preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accel_note: Option<String>,
    /// On the parallel clock: length of a round in instructions, unless `jitter` draws it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// On the parallel clock: the cost of the instruction PAUSE, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ns: Option<u32>,
    /// On the parallel clock: the seed that draws the length of rounds, if they are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<u64>,
    /// On the parallel clock: the machine whose caches and memory the CPUs have, if they have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_model: Option<String>,
    /// The guest's memory in MiB, as requested.
    pub memory_mib: u32,
    /// Seconds from starting QEMU to the first command.
    pub boot_s: f64,
    pub host_kernel: String,
    /// The host's CPUs online.
    pub host_cpus: u32,
    /// The model name of the host's CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cpu_model: Option<String>,
    /// The host's load averages before the first run.
    pub host_load_average: Vec<f64>,
}

/// Kernel settings that are recorded.
const SYSCTLS: [&str; 6] = [
    "sched_rt_runtime_us",
    "sched_rt_period_us",
    "sched_autogroup_enabled",
    "sched_schedstats",
    "numa_balancing",
    "timer_migration",
];

impl Environment {
    /// The machine that this program runs on.
    pub fn of_this_machine() -> Self {
        let cpus = online_cpus();
        let [kernel, kernel_version, architecture] = uname();
        Self {
            kernel,
            kernel_version,
            architecture: Some(architecture).filter(|name| !name.is_empty()),
            cpus: cpus.len() as u32,
            cpu_model: cpu_model(),
            topology: topology(&cpus),
            memory_mib: memory_mib(),
            kernel_cmdline: read("/proc/cmdline"),
            mitigations: mitigations(),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            boost: read("/sys/devices/system/cpu/cpufreq/boost").map(|text| text == "1"),
            load_average: load_average(),
            cgroup: read("/proc/self/cgroup").and_then(|groups| {
                groups.lines().find_map(|line| line.strip_prefix("0::").map(str::to_owned))
            }),
            sysctl: SYSCTLS
                .iter()
                .filter_map(|name| Some((name.to_string(), read(format!("/proc/sys/kernel/{name}"))?)))
                .collect(),
            openmp: openmp_settings(),
            sched_ext: Path::new("/sys/kernel/sched_ext").exists(),
            hackbench_version: first_line("hackbench", "--help"),
            model: None,
            policy_files: BTreeMap::new(),
            vm: None,
        }
    }
}

/// Environment variables that affect LLVM's, Intel's and GCC's OpenMP runtimes, OpenBLAS and Open MPI.
pub(crate) fn openmp_settings() -> BTreeMap<String, String> {
    let concerned = |name: &str| {
        ["OMP_", "KMP_", "LIBOMP_", "GOMP_", "OPENBLAS_", "OMPI_MCA_"].iter().any(|it| name.starts_with(it))
    };
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(name, _)| concerned(name))
        .collect()
}

/// Numbers of the CPUs that are online.
pub(crate) fn online_cpus() -> Vec<usize> {
    read("/sys/devices/system/cpu/online").and_then(|text| read_cpu_list(&text)).unwrap_or_default()
}

/// The first line that `program argument` prints, on standard output or standard error.
pub(crate) fn first_line(program: impl AsRef<OsStr>, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().map(str::trim).find(|line| !line.is_empty()).map(String::from)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

/// `uname -r`.
pub(crate) fn kernel_release() -> String {
    let [release, ..] = uname();
    release
}

/// The kernel's release and version, and its architecture.
fn uname() -> [String; 3] {
    let Ok(names) = nix::sys::utsname::uname() else { return Default::default() };
    [names.release(), names.version(), names.machine()].map(|name| name.to_string_lossy().into_owned())
}

/// The value of `name: value` in a file of such lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_string())
}

fn cpu_model() -> Option<String> {
    ["model name", "Model", "cpu model", "uarch"].iter().find_map(|name| field("/proc/cpuinfo", name))
}

fn memory_mib() -> Option<u64> {
    let text = field("/proc/meminfo", "MemTotal")?;
    text.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}

fn load_average() -> Vec<f64> {
    let text = read("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).filter_map(|word| word.parse().ok()).collect()
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(folder) = std::fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    folder
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, read(entry.path())?)))
        .filter(|(_, state)| state != "Not affected")
        .collect()
}

fn topology(cpus: &[usize]) -> Topology {
    let of_cpu = |cpu: usize, file: &str| read(format!("/sys/devices/system/cpu/cpu{cpu}/{file}"));
    let distinct = |file: &dyn Fn(usize) -> Option<String>| {
        cpus.iter().filter_map(|cpu| file(*cpu)).collect::<BTreeSet<_>>().len()
    };
    // The cache with the highest index is the last level.
    let last_cache = |cpu: usize| {
        (0..8).rev().find_map(|index| of_cpu(cpu, &format!("cache/index{index}/shared_cpu_list")))
    };
    Topology {
        sockets: distinct(&|cpu| of_cpu(cpu, "topology/physical_package_id")),
        cores: distinct(&|cpu| of_cpu(cpu, "topology/thread_siblings_list")),
        nodes: read("/sys/devices/system/node/online")
            .and_then(|text| read_cpu_list(&text))
            .map_or(1, |nodes| nodes.len()),
        caches: distinct(&last_cache),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_cpus() {
        let environment = Environment::of_this_machine();
        assert!(environment.cpus >= 1 && !environment.kernel.is_empty());
        let line = serde_json::to_string(&environment).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&line).unwrap(), environment);
    }
}
