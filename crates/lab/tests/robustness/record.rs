//! `results/robustness-KERNEL.json`: what is published.
use crate::machine::Boot;
use flsched_base::files::replace;
use flsched_base::reports;
use flsched_lab::robustness::loads::Load;
use flsched_lab::robustness::report::{Entry, Report};
use std::path::PathBuf;

/// Keeps what was measured, if that is wanted.
pub struct Record {
    is_wanted: bool,
}

impl Record {
    pub fn open(is_wanted: bool) -> Self {
        Self { is_wanted }
    }

    /// Replaces what a boot has measured again.
    pub fn add(&mut self, boot: &Boot, release: &str, entries: Vec<Entry>) -> Result<(), String> {
        if !self.is_wanted || entries.is_empty() {
            return Ok(());
        }
        let file = file(&boot.kernel);
        let mut report = Report {
            kernel: release.to_owned(),
            clock: boot.clock.clone(),
            cpus: boot.cpus,
            date: today(),
            flsched_version: env!("CARGO_PKG_VERSION").to_owned(),
            entries: Vec::new(),
        };
        if file.exists() {
            let before = read(&file)?;
            if (&before.kernel, &before.clock, before.cpus) != (&report.kernel, &report.clock, report.cpus) {
                let Report { kernel, clock, cpus, .. } = before;
                return Err(format!(
                    "{} is of {kernel}, {clock} clock, {cpus} CPUs: remove it to record another machine",
                    file.display()
                ));
            }
            report.entries = before.entries;
        }
        let is_new = |before: &Entry| {
            entries.iter().any(|new| (&new.load, new.per_cpu) == (&before.load, before.per_cpu))
        };
        report.entries.retain(|before| !is_new(before));
        report.entries.extend(entries);
        let loads = Load::all()?;
        let place = |entry: &Entry| loads.iter().position(|load| load.name == entry.load);
        report.entries.sort_by_key(|entry| (place(entry), entry.per_cpu));
        let bytes = reports::bytes(&report);
        bytes.and_then(|bytes| replace(&file, &bytes)).map_err(|error| format!("{}: {error}", file.display()))
    }
}

fn file(kernel: &str) -> PathBuf {
    let results = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../results");
    results.join(format!("robustness-{kernel}.json"))
}

fn read(file: &std::path::Path) -> Result<Report, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    reports::read(&bytes).map_err(|error| format!("{} {error}", file.display()))
}

fn today() -> String {
    let now = std::process::Command::new("date").args(["-u", "+%F"]).output();
    now.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
