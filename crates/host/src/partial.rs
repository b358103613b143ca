//! Partial mode beside other load. The kernel prefers tasks of the default class to those of SCHED_EXT:
//! without its deadline server for sched_ext, the latter starve on a CPU that the former keep busy.
use flsched_machine::read_cpu_list;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// Load is measured over this time, until no CPU is found busy in every sample, and `SAMPLES` times
/// at most.
const SAMPLE: Duration = Duration::from_millis(200);
const SAMPLES: usize = 3;
/// A CPU that idles for less than this share is busy.
const IDLE_SHARE: f64 = 0.1;

/// What to do instead of partial mode.
pub(crate) const REMEDY: &str = "schedule the whole machine (no --partial), boot a kernel with the server (7.0 or \
                          newer), or start flsched in a cpuset whose CPUs are idle";

/// What prevents partial mode now, on a kernel without the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Obstacle {
    /// CPUs that other tasks keep busy.
    pub busy: usize,
    /// The number of CPUs that this process may use.
    pub of: usize,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { busy, of } = self;
        write!(
            out,
            "other tasks keep {busy} of {of} CPUs busy; on those, tasks of --partial would never run, as this \
             kernel has no deadline server for sched_ext"
        )
    }
}

/// `None`: nothing prevents it.
pub(crate) fn obstacle() -> Option<Obstacle> {
    let allowed = allowed_cpus();
    let busy = busy_cpus(&allowed);
    (busy > 0).then_some(Obstacle { busy, of: allowed.len() })
}

/// How many of these CPUs are busy in every sample.
fn busy_cpus(cpus: &[usize]) -> usize {
    let mut busy = cpus.to_vec();
    let mut before = times();
    for _ in 0..SAMPLES {
        sleep(SAMPLE);
        let after = times();
        busy.retain(|cpu| is_busy(before.get(cpu), after.get(cpu)));
        if busy.is_empty() {
            break;
        }
        before = after;
    }
    busy.len()
}

/// CPUs that this process and its children may use. (nix's mask has room for 1,024.)
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| read_cpu_list(list.trim())).unwrap_or_default()
}

/// What a CPU has done since boot, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    idle: u64,
    all: u64,
}

fn is_busy(before: Option<&Times>, after: Option<&Times>) -> bool {
    // The state of a CPU that came or went in between is not known.
    let (Some(before), Some(after)) = (before, after) else { return false };
    let idle = after.idle.saturating_sub(before.idle) as f64;
    let all = after.all.saturating_sub(before.all) as f64;
    all > 0.0 && idle < IDLE_SHARE * all
}

fn times() -> BTreeMap<usize, Times> {
    parse_times(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Reads each line `cpuN user nice system idle iowait irq softirq steal …`.
fn parse_times(stat: &str) -> BTreeMap<usize, Times> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let cpu = words.next()?.parse().ok()?;
        let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        Some((cpu, Times { idle: times.get(3)? + times.get(4)?, all: times.iter().sum() }))
    };
    stat.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_times_of_each_cpu() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 0 5 70 5 1 2 3 50 50\ncpu12 1 1 1 1 1 1 1 1 0 0\nintr 7\n";
        let times = parse_times(stat);
        assert_eq!(times.keys().collect::<Vec<_>>(), [&0, &12]);
        assert_eq!(times[&0], Times { idle: 75, all: 96 });
    }

    #[test]
    fn busy_is_hardly_idle() {
        let at = |idle, all| Some(Times { idle, all });
        let is_busy = |before: Option<Times>, after: Option<Times>| is_busy(before.as_ref(), after.as_ref());
        assert!(is_busy(at(100, 200), at(101, 220)));
        assert!(!is_busy(at(100, 200), at(102, 220)));
        assert!(!is_busy(at(100, 200), at(100, 200)), "no tick has passed");
        assert!(!is_busy(None, at(1, 2)) && !is_busy(at(1, 2), None));
    }
}
