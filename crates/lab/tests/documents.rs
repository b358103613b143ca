//! The documentation's figures are those of the reports under `results/`.
use flsched_base::reports;
use flsched_compare::Report;
use flsched_compare::report::words::{results_of, workloads};
use flsched_compare::report::{html, table};
use flsched_compare::result::ArmResult;
use flsched_compare::stats::{Estimate, ratio_of_medians};
use flsched_compare::verdict::{Evidence, Noise, decide};
use flsched_lab::format::{format, formatted};
use flsched_lab::render::render;
use flsched_lab::store;
use std::path::Path;

fn check(project: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(project).canonicalize().unwrap();
    let rendering = render(&folder).unwrap();
    let lines = [rendering.errors, rendering.differences].concat();
    let command = format!("flsched-lab render --root {}", folder.display());
    assert!(lines.is_empty(), "run `{command}`:\n{}", lines.join("\n"));
}

#[test]
fn documents_are_up_to_date() {
    check("../..");
}

/// Real reports of a small comparison: a change of their rendering changes these files.
#[test]
fn a_small_project_renders_as_before() {
    check("tests/fixture");
}

/// The fixture's reports are of flsched 0.1.0.
#[test]
fn reports_of_version_1_give_the_same_table_and_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture/results");
    for name in ["small-6.18-barrier.json", "small-6.18-floor.json", "small-6.18-messages.json"] {
        let old = std::fs::read(folder.join(name)).unwrap();
        assert_eq!(reports::kind_of(&old).unwrap(), None, "{name}");
        let new = formatted(&old).unwrap();
        assert!(new.len() * 2 < old.len(), "{name}");
        let [old, new] = [old, new].map(|bytes| store::parse(&bytes).unwrap());
        let table = |report| table::render(report, table::Style { width: 100, color: false });
        assert_eq!(table(&new), table(&old), "{name}");
        assert_eq!(html::page(&new, "x"), html::page(&old, "x"), "{name}");
        let proofs =
            |report: &Report| report.results.iter().map(|it| it.attached_proof.clone()).collect::<Vec<_>>();
        assert_eq!(proofs(&new), proofs(&old), "{name}");
    }
}

/// So that a report which is measured again differs only in its figures.
#[test]
fn reports_are_in_one_form() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let formatting = format(&folder).unwrap();
    let changed = formatting.changes.iter().map(|(name, _)| format!("{} is not", name.display()));
    let lines: Vec<String> = formatting.errors.iter().cloned().chain(changed).collect();
    assert!(lines.is_empty(), "run `flsched-lab format`:\n{}", lines.join("\n"));
}

/// A reader of a file comes to the verdict that is in it.
#[test]
fn verdicts_follow_from_the_times() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results");
    let mut verdicts = 0;
    for file in ["quick-6.18-demo", "real-cpus-two", "sim-smove-ryzen", "papers/flsched-parallel-16"] {
        let bytes = std::fs::read(folder.join(format!("{file}.json"))).unwrap();
        let report = store::parse(&bytes).unwrap();
        for workload in workloads(&report) {
            let arms = results_of(&report, workload);
            let ratio =
                |arm: &ArmResult| ratio_of_medians(&arms[0].times_s, &arm.times_s).map(Estimate::rounded);
            let noise = ratio(arms[1]).map(Noise::new);
            assert_eq!(noise.as_ref(), report.noise.get(workload), "{file}: {workload}");
            for arm in &arms[2..] {
                let ratio = ratio(arm);
                let ends = (arm.ratio_to_first, arm.ratio_to_first_low, arm.ratio_to_first_high);
                assert_eq!(
                    ratio.map(|it| (it.value, it.low, it.high)),
                    ends.0.map(|it| (it, ends.1.unwrap(), ends.2.unwrap()))
                );
                let timed_runs = arm.times_s.len().min(arms[0].times_s.len());
                let untimed_runs = arm.failed.len();
                let untimed_first = arms[0].failed.len();
                let verdict = decide(&Evidence { ratio, noise, timed_runs, untimed_runs, untimed_first }).0;
                assert_eq!(verdict, arm.verdict, "{file}: {} on {workload}", arm.scheduler);
                verdicts += 1;
            }
        }
    }
    assert!(verdicts > 50, "{verdicts}");
}
