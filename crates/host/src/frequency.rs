//! How fast this machine's CPUs can run, from cpufreq: for the tables of `policies/frequency.bpf.h`, and
//! for the check whether a policy that chooses CPUs by frequency has any choice.
use flsched_machine::{Clock, Clocks, Scaling, read_cpu_list};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::Path;

const SYSFS: &str = "/sys/devices/system/cpu";
const CPUINFO: &str = "/proc/cpuinfo";

/// The CPUs' frequencies: which CPUs share one, and which governor chooses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frequencies {
    /// By CPU number; `None`: cpufreq reports nothing of that CPU.
    pub cpus: BTreeMap<usize, Option<Scaling>>,
    /// For each CPU the first of those that run at its frequency: threads of a core, cores of one clock.
    pub domains: BTreeMap<usize, usize>,
    /// False if the CPU lacks what the kernel measures frequencies by.
    pub is_measured: bool,
}

impl Frequencies {
    /// Reads those of this machine's online CPUs.
    pub fn of_this_machine() -> Self {
        let cpuinfo = read_to_string(CPUINFO).unwrap_or_default();
        Self::read(Path::new(SYSFS), &cpuinfo)
    }

    fn read(root: &Path, cpuinfo: &str) -> Self {
        let online = list(&read_to_string(root.join("online")).unwrap_or_default());
        let mut cpus = BTreeMap::new();
        let mut domains: BTreeMap<usize, usize> = online.iter().map(|&cpu| (cpu, cpu)).collect();
        for &cpu in &online {
            let folder = root.join(format!("cpu{cpu}"));
            let text = |file: &str| read_to_string(folder.join(file)).ok().map(|text| text.trim().to_owned());
            let mhz = |file: &str| text(file)?.parse::<u64>().ok().map(|khz| khz / 1000);
            let scaling = || {
                Some(Scaling {
                    min_mhz: mhz("cpufreq/scaling_min_freq")?.max(mhz("cpufreq/cpuinfo_min_freq")?),
                    max_mhz: mhz("cpufreq/cpuinfo_max_freq")?,
                    governor: text("cpufreq/scaling_governor")?,
                    driver: text("cpufreq/scaling_driver").unwrap_or_default(),
                })
            };
            cpus.insert(cpu, scaling());
            for file in ["topology/core_cpus_list", "cpufreq/freqdomain_cpus", "cpufreq/related_cpus"] {
                join(&mut domains, cpu, &list(&text(file).unwrap_or_default()));
            }
        }
        // Other architectures have other counters, and no flag for them.
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
        let is_measured = flags.is_none_or(|flags| flags.split_whitespace().any(|flag| flag == "aperfmperf"));
        Self { cpus, domains, is_measured }
    }

    /// How many CPUs or groups of CPUs have a frequency of their own.
    pub fn count_domains(&self) -> usize {
        self.clocks().count_domains()
    }

    /// Why a policy cannot choose between faster and slower CPUs on this machine; `None`: it can.
    pub fn why_useless(&self) -> Option<String> {
        let known: Vec<&Scaling> = self.cpus.values().flatten().collect();
        let Some(first) = known.first() else {
            return Some(format!(
                "the kernel controls no CPU frequencies here (no cpufreq in {SYSFS}/cpu*), as in most \
                 virtual machines"
            ));
        };
        if !self.is_measured {
            return Some(
                "the CPUs lack the counters by which the kernel measures frequencies (APERF, MPERF)".into(),
            );
        }
        if self.count_domains() < 2 {
            return Some("all CPUs run at one frequency".into());
        }
        known
            .iter()
            .all(|scaling| scaling.is_pinned())
            .then(|| format!("governor {} of driver {} pins the frequencies", first.governor, first.driver))
    }

    pub(crate) fn clocks(&self) -> Clocks {
        let clock = |(&cpu, &domain): (&usize, &usize)| {
            let scaling = self.cpus.get(&cpu).and_then(Option::as_ref);
            let varying = scaling.filter(|scaling| self.is_measured && !scaling.is_pinned());
            Clock { cpu, domain, range_mhz: varying.map(|scaling| (scaling.min_mhz, scaling.max_mhz)) }
        };
        Clocks(self.domains.iter().map(clock).collect())
    }
}

/// Makes one domain of those of `cpu` and `others`, named after its first CPU.
fn join(domains: &mut BTreeMap<usize, usize>, cpu: usize, others: &[usize]) {
    let names: BTreeSet<usize> =
        others.iter().chain([&cpu]).filter_map(|cpu| domains.get(cpu).copied()).collect();
    let Some(&first) = names.first() else { return };
    domains.values_mut().filter(|name| names.contains(name)).for_each(|name| *name = first);
}

/// The CPUs of a list in sysfs; none, if the text is not a list.
fn list(text: &str) -> Vec<usize> {
    read_cpu_list(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flsched_machine::MAX_CPUS;
    use std::fs::{create_dir_all, remove_dir_all, write};

    const FLAGS: &str = "flags\t\t: fpu tsc aperfmperf\n";

    /// Four cores of two threads, CPU and CPU + 4, with these files in each `cpufreq`.
    fn machine(name: &str, files: &[(&str, &str)], cpuinfo: &str) -> Frequencies {
        let root = std::env::temp_dir().join(format!("flsched-cpufreq-{name}-{}", std::process::id()));
        for cpu in 0..8 {
            let folder = root.join(format!("cpu{cpu}"));
            create_dir_all(folder.join("topology")).unwrap();
            create_dir_all(folder.join("cpufreq")).unwrap();
            let core = cpu % 4;
            write(folder.join("topology/core_cpus_list"), format!("{core},{}\n", core + 4)).unwrap();
            for (file, text) in files {
                write(folder.join("cpufreq").join(file), text).unwrap();
            }
        }
        write(root.join("online"), "0-7\n").unwrap();
        let frequencies = Frequencies::read(&root, cpuinfo);
        remove_dir_all(&root).unwrap();
        frequencies
    }

    fn xeon<'a>(governor: &'a str, driver: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![
            ("cpuinfo_min_freq", "1200000\n"),
            ("scaling_min_freq", "1200000\n"),
            ("cpuinfo_max_freq", "3000000\n"),
            ("scaling_governor", governor),
            ("scaling_driver", driver),
        ]
    }

    fn table(frequencies: &Frequencies, name: &str) -> Vec<u16> {
        let bytes = frequencies.clocks().bytes(name).unwrap();
        assert_eq!(bytes.len(), MAX_CPUS * 2);
        bytes.chunks(2).take(8).map(|two| u16::from_ne_bytes([two[0], two[1]])).collect()
    }

    #[test]
    fn each_core_has_its_own() {
        let frequencies = machine("own", &xeon("schedutil\n", "intel_cpufreq\n"), FLAGS);
        assert_eq!(frequencies.why_useless(), None);
        assert_eq!(frequencies.count_domains(), 4);
        assert_eq!(table(&frequencies, "min_mhz"), [1200; 8]);
        assert_eq!(table(&frequencies, "max_mhz"), [3000; 8]);
        assert_eq!(table(&frequencies, "clock_domains"), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(frequencies.clocks().bytes("places"), None);
    }

    #[test]
    fn hardware_that_chooses_does_not_pin() {
        assert_eq!(machine("hwp", &xeon("powersave", "intel_pstate"), FLAGS).why_useless(), None);
        for (governor, driver) in
            [("powersave", "acpi-cpufreq"), ("performance", "intel_pstate"), ("userspace", "acpi-cpufreq")]
        {
            let frequencies = machine("pinned", &xeon(governor, driver), FLAGS);
            let why = frequencies.why_useless().unwrap();
            assert!(why.contains(governor) && why.contains(driver), "{why}");
            assert_eq!(table(&frequencies, "max_mhz"), [0; 8], "nothing to choose from");
        }
    }

    #[test]
    fn one_clock_for_all_is_useless() {
        let mut files = xeon("schedutil", "acpi-cpufreq");
        files.push(("freqdomain_cpus", "0 1 2 3 4 5 6 7"));
        let frequencies = machine("one", &files, FLAGS);
        assert_eq!(table(&frequencies, "clock_domains"), [0; 8]);
        assert_eq!(table(&frequencies, "max_mhz"), [0; 8], "nothing to choose from");
        assert!(frequencies.why_useless().unwrap().contains("one frequency"));
    }

    #[test]
    fn nothing_known_is_useless() {
        let without = machine("none", &[], FLAGS);
        assert!(without.why_useless().unwrap().contains("no cpufreq"));
        let unmeasured = machine("unmeasured", &xeon("schedutil", "acpi-cpufreq"), "flags\t\t: fpu tsc\n");
        assert!(unmeasured.why_useless().unwrap().contains("APERF"));
        assert_eq!(table(&unmeasured, "max_mhz"), [0; 8]);
        let arm = machine("arm", &xeon("schedutil", "cppc_cpufreq"), "Features\t: fp asimd\n");
        assert_eq!(arm.why_useless(), None);
    }

    #[test]
    fn domains_join() {
        let mut domains = (0..6).map(|cpu| (cpu, cpu)).collect();
        join(&mut domains, 4, &[4, 5]);
        join(&mut domains, 1, &[1, 5]);
        assert_eq!(domains.into_values().collect::<Vec<_>>(), [0, 1, 2, 3, 1, 1]);
    }
}
