//! The files under `results/` in one form: the newest version of their format, and of simulations only what a seed does not
//! give again.
use crate::papers::paper;
use crate::papers::results::{CountedInSource, Simulated};
use crate::store::{FOLDER, kept};
use flsched_base::files::replace;
use flsched_base::reports::{self, Fields, Kept};
use flsched_compare::{Report, Target};
use flsched_probes::{CostsReport, LocksReport};
use flsched_recording::replays::Replays;
use flsched_sim::conformance::Record;
use flsched_sim::sweep;
use std::path::{Path, PathBuf};

/// Files that are not in that form.
#[derive(Debug, Default)]
pub struct Formatting {
    /// With what they are to be.
    pub changes: Vec<(PathBuf, Vec<u8>)>,
    /// Errors of the files that cannot be read.
    pub errors: Vec<String>,
}

/// All reports of the project, published ones and the papers'.
pub fn format(root: &Path) -> std::io::Result<Formatting> {
    let mut formatting = Formatting::default();
    for folder in [Path::new(FOLDER), Path::new(paper::FOLDER)] {
        let entries = root.join(folder).read_dir()?.collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<PathBuf> = entries.iter().map(|it| folder.join(it.file_name())).collect();
        names.retain(|name| name.extension().is_some_and(|it| it == "json"));
        names.sort();
        for name in names {
            let bytes = std::fs::read(root.join(&name))?;
            match formatted(&bytes) {
                Ok(now) if now == bytes => {}
                Ok(now) => formatting.changes.push((name, now)),
                Err(what) => formatting.errors.push(format!("{} {what}", name.display())),
            }
        }
    }
    Ok(formatting)
}

pub fn write(root: &Path, formatting: &Formatting) -> std::io::Result<()> {
    formatting.changes.iter().try_for_each(|(name, bytes)| replace(&root.join(name), bytes))
}

/// A report of any kind in that form. The error continues a sentence that begins with the name of the file.
pub fn formatted(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let kind = match reports::kind_of(bytes).map_err(|what| what.to_string())? {
        Some(kind) => kind,
        None => kind_of_version_1(bytes)?.to_owned(),
    };
    match kind.as_str() {
        Report::KIND => comparison(bytes),
        sweep::Report::KIND => as_now::<sweep::Report>(bytes),
        Simulated::KIND => as_now::<Simulated>(bytes),
        LocksReport::KIND => as_now::<LocksReport>(bytes),
        CostsReport::KIND => as_now::<CostsReport>(bytes),
        CountedInSource::KIND => as_now::<CountedInSource>(bytes),
        Record::KIND => as_now::<Record>(bytes),
        Replays::KIND => as_now::<Replays>(bytes),
        crate::robustness::report::Report::KIND => as_now::<crate::robustness::report::Report>(bytes),
        other => Err(format!("is a report of kind `{other}`, which is not published")),
    }
}

fn as_now<T: Kept>(bytes: &[u8]) -> Result<Vec<u8>, String> {
    file_of(&kept::<T>(bytes)?)
}

fn comparison(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut report: Report = kept(bytes)?;
    report.round();
    if report.on == Target::Sim {
        report.summarise();
    }
    file_of(&report)
}

fn file_of<T: Kept>(report: &T) -> Result<Vec<u8>, String> {
    reports::bytes(report).map_err(|error| format!("cannot be written: {error}"))
}

/// Files of version 1 do not say what they are. Each kind has a field that no other has, but for one.
fn kind_of_version_1(bytes: &[u8]) -> Result<&'static str, String> {
    let kinds = [
        ("results", Report::KIND),
        ("curves", sweep::Report::KIND),
        ("outcome", Simulated::KIND),
        ("anatomy", LocksReport::KIND),
        ("functions", CostsReport::KIND),
        ("counted", CountedInSource::KIND),
        ("recordings", Replays::KIND),
        ("date", crate::robustness::report::Report::KIND),
        ("entries", Record::KIND),
    ];
    let fields: Fields =
        serde_json::from_slice(bytes).map_err(|error| format!("is not a report: {error}"))?;
    let found = kinds.iter().find(|(field, _)| fields.contains_key(*field));
    found.map(|(_, kind)| *kind).ok_or_else(|| "is not a report of flsched".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::report;
    use flsched_compare::residency::{Residency, Source, Time};
    use flsched_compare::result::Values;

    /// With what is of single CPUs.
    fn detailed(on: Target) -> Report {
        let mut report = report(&[("make:4:16", &[("eevdf", 1.0 / 3.0), ("flsched", 0.2)])]);
        report.on = on;
        let time = Time { cpu: 3, mhz: 1200, s: 0.1 + 0.2 };
        let figure = Values { name: "cpu3_mhz".into(), median: 1234.5, values: vec![1234.5] };
        report.results[0].residency = Residency::of(Source::Model, [time]);
        report.results[0].figures.push(figure);
        report
    }

    fn formatted_of(report: &Report) -> Report {
        let now = formatted(&reports::bytes(report).unwrap()).unwrap();
        assert_eq!(formatted(&now).unwrap(), now, "it is already in that form");
        reports::read(&now).unwrap()
    }

    #[test]
    fn only_of_simulations_the_single_cpus_are_left_out() {
        for (on, is_kept) in [(Target::Host, true), (Target::Vm, true), (Target::Sim, false)] {
            let now = formatted_of(&detailed(on));
            let arm = &now.results[0];
            let residency = arm.residency.as_ref().unwrap();
            assert_eq!(residency.all_s[&1200], 0.3);
            assert_eq!(residency.cpus_s.contains_key(&3), is_kept);
            assert_eq!(arm.figures.iter().any(|it| it.name == "cpu3_mhz"), is_kept);
            assert_eq!(arm.figures[0].name, "wakeup_p99_us");
            assert_eq!(arm.times_s[2], 0.333_333_333);
        }
    }

    #[test]
    fn a_file_of_version_1_gets_its_kind() {
        let old = serde_json::to_vec_pretty(&detailed(Target::Vm)).unwrap();
        let now = String::from_utf8(formatted(&old).unwrap()).unwrap();
        assert!(now.starts_with("{\n  \"kind\": \"compare\",\n  \"version\": 2,\n"), "{now}");
    }

    #[test]
    fn what_is_no_report_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for folder in [folder.path().join(FOLDER), folder.path().join(paper::FOLDER)] {
            std::fs::create_dir(folder).unwrap();
        }
        let file =
            |name: &str, text: &str| std::fs::write(folder.path().join("results").join(name), text).unwrap();
        file("half.json", "{ \"results\": [");
        file("other.json", "{ \"a\": 1 }");
        file("papers/plan.json", r#"{ "kind": "campaign-plan", "version": 1 }"#);
        file("sets.toml", "no JSON");
        let formatting = format(folder.path()).unwrap();
        assert!(formatting.changes.is_empty());
        let errors = formatting.errors.join("\n");
        assert!(errors.starts_with("results/half.json is not JSON"), "{errors}");
        assert!(errors.contains("results/other.json is not a report of flsched"), "{errors}");
        assert!(errors.contains("results/papers/plan.json is a report of kind `campaign-plan`"), "{errors}");
    }
}
