//! Which measurements to run, and how long they take.
use crate::papers::assess::own;
use crate::papers::paper::{Measurement, Paper, Row};
use crate::papers::results::{Gap, Results};
use flsched_spec::UsageError;

/// What the user requests.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Only measurements that are marked as quick.
    pub quick: bool,
    /// Only these rows; none: all.
    pub only: Vec<String>,
    /// Also what has been measured.
    pub again: bool,
}

/// A measurement to run.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    pub paper: &'a Paper,
    pub measurement: &'a Measurement,
}

/// The measurements of the rows that are asked for, the shortest first, without those that this version of flsched has
/// run already.
pub fn jobs<'a>(
    papers: &'a [Paper],
    results: &Results,
    choice: &Choice,
    version: &str,
) -> Result<Vec<Job<'a>>, UsageError> {
    let rows = chosen(papers, &choice.only)?;
    let mut jobs = Vec::new();
    for paper in papers {
        for (index, measurement) in paper.measurements.iter().enumerate() {
            let is_wanted = paper.rows.iter().any(|row| {
                rows.iter().any(|it| it.id == row.id)
                    && row.ways.iter().any(|way| own(way).any(|it| it == index))
            });
            let is_done = || !choice.again && is_measured(measurement, results, version);
            if is_wanted && (measurement.quick || !choice.quick) && !is_done() {
                jobs.push(Job { paper, measurement });
            }
        }
    }
    // A short measurement does not wait for one that takes a night.
    jobs.sort_by(|one, other| one.measurement.takes_min.total_cmp(&other.measurement.takes_min));
    Ok(jobs)
}

/// The rows of these names; none: all.
pub fn chosen<'a>(papers: &'a [Paper], only: &[String]) -> Result<Vec<&'a Row>, UsageError> {
    let rows = || papers.iter().flat_map(|paper| &paper.rows);
    let ids: Vec<&str> = rows().map(|row| row.id.as_str()).collect();
    if let Some(unknown) = only.iter().find(|id| !ids.contains(&id.as_str())) {
        return Err(UsageError::unknown("row", unknown, &ids));
    }
    Ok(rows().filter(|row| only.is_empty() || only.contains(&row.id)).collect())
}

/// By this command line and this version of flsched. A file that cannot be read is measured again.
pub fn is_measured(measurement: &Measurement, results: &Results, version: &str) -> bool {
    results.own(measurement).is_ok_and(|found| found.version() == version)
}

/// How long they take together, in minutes.
pub fn minutes(jobs: &[Job<'_>]) -> f64 {
    jobs.iter().map(|job| job.measurement.takes_min).sum()
}

/// Why a measurement has no result, for a list; `None`: it has one.
pub fn gap(measurement: &Measurement, results: &Results) -> Option<String> {
    match results.own(measurement) {
        Ok(_) => None,
        Err(Gap::Missing(what) | Gap::Failed(what) | Gap::Wrong(what)) => Some(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::assess::tests::project;

    fn names(papers: &[Paper], root: &std::path::Path, choice: &Choice, version: &str) -> Vec<String> {
        let jobs = jobs(papers, &Results::new(root), choice, version).unwrap();
        jobs.iter().map(|job| job.measurement.name.clone()).collect()
    }

    #[test]
    fn what_is_measured_is_kept_and_the_shortest_comes_first() {
        let (folder, paper) = project(&[]);
        let papers = [paper];
        let all = Choice::default();
        assert_eq!(names(&papers, folder.path(), &all, "0.1.0"), ["m", "n"]);
        let (folder, _) = project(&[("cfs", &[1.0])]);
        assert_eq!(names(&papers, folder.path(), &all, "0.1.0"), ["n"]);
        // Another version measures again, and so does `--again`.
        assert_eq!(names(&papers, folder.path(), &all, "0.2.0"), ["m", "n"]);
        let again = Choice { again: true, ..Choice::default() };
        assert_eq!(names(&papers, folder.path(), &again, "0.1.0"), ["m", "n"]);
        // Half a file is no result.
        std::fs::write(folder.path().join("results/papers/p-m.json"), "{").unwrap();
        assert_eq!(names(&papers, folder.path(), &all, "0.1.0"), ["m", "n"]);
    }

    #[test]
    fn chooses_by_row_and_by_length() {
        let (folder, paper) = project(&[]);
        let papers = [paper];
        let quick = Choice { quick: true, ..Choice::default() };
        assert_eq!(names(&papers, folder.path(), &quick, "0.1.0"), ["m"]);
        let only = |row: &str| Choice { only: vec![row.into()], ..Choice::default() };
        assert_eq!(names(&papers, folder.path(), &only("fifo"), "0.1.0"), ["m"]);
        assert!(names(&papers, folder.path(), &only("energy"), "0.1.0").is_empty());
        let error =
            jobs(&papers, &Results::new(folder.path()), &only("fifi"), "0.1.0").unwrap_err().to_string();
        assert!(error.starts_with("unknown row `fifi`; did you mean `fifo`?"), "{error}");
        assert_eq!(
            minutes(&jobs(&papers, &Results::new(folder.path()), &Choice::default(), "").unwrap()),
            300.5
        );
    }
}
