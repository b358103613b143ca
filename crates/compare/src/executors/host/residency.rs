//! How long CPUs ran at each frequency, from cpufreq: as counted by its driver, or else sampled.
use crate::environment::online_cpus;
use crate::residency::{Residency, Source, Time};
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

const SYSFS: &str = "/sys/devices/system/cpu";
/// Time between two samples: too rare to disturb the workload, and often enough to record how a CPU's frequency rises
/// and falls.
const EVERY: Duration = Duration::from_millis(50);
/// The kernel's `USER_HZ`, the unit of the drivers' counts.
const TICKS_PER_S: f64 = 100.0;

/// An observation while a workload runs.
pub(super) enum Watch {
    /// The driver's counts at the start, by CPU and frequency in MHz.
    Driver { root: PathBuf, before: BTreeMap<(usize, u64), u64> },
    /// A thread that samples until the channel is closed.
    Sampler { stop: Sender<()>, sampler: JoinHandle<Vec<Time>> },
    /// This machine has no cpufreq.
    Blind,
}

impl Watch {
    pub(super) fn start() -> Self {
        Self::over(Path::new(SYSFS), online_cpus())
    }

    fn over(root: &Path, cpus: Vec<usize>) -> Self {
        let before = counted(root, &cpus);
        if !before.is_empty() {
            return Self::Driver { root: root.to_owned(), before };
        }
        let root = root.to_owned();
        if !cpus.iter().any(|&cpu| current_mhz(&root, cpu).is_some()) {
            return Self::Blind;
        }
        let (stop, stopped) = channel::<()>();
        let sampler = spawn(move || {
            let mut times = Vec::new();
            let mut last = Instant::now();
            loop {
                let is_over = stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                let s = last.elapsed().as_secs_f64();
                last = Instant::now();
                let time = |&cpu: &usize| Some(Time { cpu, mhz: current_mhz(&root, cpu)?, s });
                times.extend(cpus.iter().filter_map(time));
                if is_over {
                    return times;
                }
            }
        });
        Self::Sampler { stop, sampler }
    }

    /// Ends the observation. Returns the times since its start.
    pub(super) fn end(self) -> Option<Residency> {
        match self {
            Self::Driver { root, before } => {
                let mut cpus: Vec<usize> = before.keys().map(|(cpu, _)| *cpu).collect();
                cpus.dedup();
                let times = counted(&root, &cpus).into_iter().map(|((cpu, mhz), ticks)| {
                    let ticks = ticks.saturating_sub(before.get(&(cpu, mhz)).copied().unwrap_or(0));
                    Time { cpu, mhz, s: ticks as f64 / TICKS_PER_S }
                });
                Residency::of(Source::TimeInState, times)
            }
            Self::Sampler { stop, sampler } => {
                drop(stop);
                Residency::of(Source::Sampled, sampler.join().unwrap_or_default())
            }
            Self::Blind => None,
        }
    }
}

/// The driver's counts since boot, in ticks by CPU and frequency in MHz; empty if it does not count.
fn counted(root: &Path, cpus: &[usize]) -> BTreeMap<(usize, u64), u64> {
    let mut counted = BTreeMap::new();
    for &cpu in cpus {
        let path = root.join(format!("cpu{cpu}/cpufreq/stats/time_in_state"));
        for line in read_to_string(path).unwrap_or_default().lines() {
            let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
            if let (Some(khz), Some(ticks)) = (numbers.next(), numbers.next()) {
                *counted.entry((cpu, khz / 1000)).or_default() += ticks;
            }
        }
    }
    counted
}

fn current_mhz(root: &Path, cpu: usize) -> Option<u64> {
    let text = read_to_string(root.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq"))).ok()?;
    text.trim().parse::<u64>().ok().map(|khz| khz / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::thread::sleep;

    #[test]
    fn what_the_driver_counts_is_taken() {
        let root = tempfile::tempdir().unwrap();
        let stats = root.path().join("cpu3/cpufreq/stats");
        create_dir_all(&stats).unwrap();
        // The current frequency exists as well, but is not read in this case.
        write(root.path().join("cpu3/cpufreq/scaling_cur_freq"), "800000\n").unwrap();
        write(stats.join("time_in_state"), "3701000 10\n3700000 20\n1400000 500\n").unwrap();
        let watch = Watch::over(root.path(), vec![2, 3]);
        write(stats.join("time_in_state"), "3701000 110\n3700000 70\n1400000 500\n").unwrap();
        let time = Time { cpu: 3, mhz: 3700, s: 1.5 };
        assert_eq!(watch.end(), Residency::of(Source::TimeInState, [time]));
    }

    #[test]
    fn without_driver_counts_frequencies_are_sampled() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("cpu0/cpufreq/scaling_cur_freq");
        create_dir_all(file.parent().unwrap()).unwrap();
        write(&file, "1200000\n").unwrap();
        let began = Instant::now();
        let watch = Watch::over(root.path(), vec![0]);
        sleep(3 * EVERY);
        let residency = watch.end().unwrap();
        let elapsed = began.elapsed().as_secs_f64();
        let [(mhz, s)] = residency.cpus_s[&0].iter().collect::<Vec<_>>()[..] else { panic!("{residency:?}") };
        let s = *s;
        assert_eq!(*mhz, 1200);
        // All of the time is recorded; its clock started a little later than `began`.
        assert!(s <= elapsed && s >= EVERY.as_secs_f64() * 3.0 * 0.9, "{s} of {elapsed}");
    }

    #[test]
    fn without_cpufreq_nothing_is_known() {
        let root = tempfile::tempdir().unwrap();
        assert!(Watch::over(root.path(), vec![0, 1]).end().is_none());
    }
}
