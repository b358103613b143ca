//! Every row of the papers with what was measured and the verdict.
use crate::papers::paper::{Claim, Paper, Row, Source, Way, Without};
use crate::papers::results::{Found, Gap, Results, take};
use crate::papers::verdict::{Pair, Verdict, of_figures, of_order};
use flsched_compare::stats::Estimate;
use flsched_spec::UsageError;
use std::rc::Rc;

#[derive(Debug)]
pub struct Judged<'a> {
    /// The paper that it is of.
    pub paper: &'a Paper,
    pub row: &'a Row,
    /// One for each way, and within it for each scheduler here that is the paper's; empty without a way.
    pub lines: Vec<Line<'a>>,
}

/// A row on one clock, under one scheduler.
#[derive(Debug)]
pub struct Line<'a> {
    /// How it is reproduced.
    pub way: &'a Way,
    /// The scheduler that is measured in place of the paper's; `None`: the claim is not about it.
    pub subject: Option<&'a str>,
    /// Where it was measured; empty while nothing is.
    pub found: Vec<Rc<Found>>,
    /// The figures here, in the order of the claim; `None` where there is none.
    pub here: Vec<(&'a str, Option<Estimate>)>,
    pub verdict: Verdict,
    /// What decided it; empty: nothing differs.
    pub why: String,
}

impl Judged<'_> {
    /// The verdict for one of the paper's schedulers here, or for claims without one: the worst of all clocks on
    /// which it was measured.
    pub fn verdict_of(&self, subject: &str) -> Verdict {
        self.worst(&|line| line.subject.is_none_or(|it| it == subject))
    }

    /// The worst for all schedulers.
    pub fn verdict(&self) -> Verdict {
        self.worst(&|_| true)
    }

    fn worst(&self, counts: &dyn Fn(&Line<'_>) -> bool) -> Verdict {
        match &self.row.without {
            Some(Without::Missing(_)) => return Verdict::Missing,
            Some(Without::Impossible(_)) => return Verdict::Impossible,
            None => {}
        }
        let lines = || self.lines.iter().filter(|line| counts(line)).map(|line| line.verdict);
        lines().filter(|it| *it != Verdict::Missing).min().unwrap_or(Verdict::Missing)
    }
}

/// Judges all rows of a paper, in its order; an error names the row that needs what its results never have.
pub fn assess<'a>(paper: &'a Paper, results: &Results) -> Result<Vec<Judged<'a>>, UsageError> {
    let judged = |row: &'a Row| {
        let mut lines = Vec::new();
        for way in &row.ways {
            lines.extend(of_way(paper, row, way, results).map_err(|what| {
                UsageError(format!("results/papers/{}.toml: row `{}`: {what}", paper.id, row.id))
            })?);
        }
        Ok(Judged { paper, row, lines })
    };
    paper.rows.iter().map(judged).collect()
}

fn of_way<'a>(
    paper: &'a Paper,
    row: &'a Row,
    way: &'a Way,
    results: &Results,
) -> Result<Vec<Line<'a>>, String> {
    let name = paper.subject.name.as_str();
    let is_about_it = way.figures.iter().any(|(_, taken)| taken.reading().names(name));
    let subjects: Vec<Option<&str>> = match is_about_it {
        true => paper.subject.here.iter().map(|it| Some(it.as_str())).collect(),
        false => vec![None],
    };
    let mut found = Vec::new();
    let mut missing = None;
    for source in &way.from {
        match results.get(paper, source) {
            Ok(it) => found.push(it),
            Err(Gap::Wrong(what)) => return Err(what),
            Err(Gap::Missing(what) | Gap::Failed(what)) => missing = missing.or(Some(what)),
        }
    }
    if let Some(clock) = found.first().map(|it| it.clock())
        && found.iter().any(|it| it.clock() != clock)
    {
        return Err("its results are of different clocks".into());
    }
    let line = |subject| match &missing {
        // Figures of a part could be mistaken for those of the whole.
        Some(what) => Ok(without_figures(row, way, subject, Vec::new(), what.clone())),
        None => line(paper, row, way, subject, &found),
    };
    subjects.into_iter().map(line).collect()
}

fn without_figures<'a>(
    row: &'a Row,
    way: &'a Way,
    subject: Option<&'a str>,
    found: Vec<Rc<Found>>,
    why: String,
) -> Line<'a> {
    let here = row.claim.names().into_iter().map(|name| (name, None)).collect();
    Line { way, subject, found, here, verdict: Verdict::Missing, why }
}

fn line<'a>(
    paper: &Paper,
    row: &'a Row,
    way: &'a Way,
    subject: Option<&'a str>,
    found: &[Rc<Found>],
) -> Result<Line<'a>, String> {
    let mut here = Vec::new();
    let mut failed = None;
    let mut missing = None;
    // A figure of another scheduler is taken from the subject's own results if they have one.
    let mut from = found.to_vec();
    if let Some(subject) = subject {
        from.sort_by_key(|it| !it.is_about(subject));
    }
    for (name, taken) in &way.figures {
        let replaced = |scheduler: &str| match subject {
            Some(subject) if scheduler == paper.subject.name => subject.to_string(),
            _ => scheduler.to_string(),
        };
        let reading = taken.reading().with_schedulers(&replaced);
        here.push((
            name.as_str(),
            match take(&taken.with(reading), &from) {
                Ok(figure) => Some(figure),
                Err(Gap::Wrong(what)) => return Err(what),
                Err(Gap::Failed(what)) => {
                    failed = failed.or(Some(what));
                    None
                }
                Err(Gap::Missing(what)) => {
                    missing = missing.or(Some(what));
                    None
                }
            },
        ));
    }
    let (verdict, why) = match (failed, missing) {
        // A run that fails is a result, and the worst one.
        (Some(what), _) => (Verdict::Not, what),
        (None, Some(what)) => (Verdict::Missing, what),
        (None, None) => judge(&row.claim, &here),
    };
    Ok(Line { way, subject, found: found.to_vec(), here, verdict, why })
}

fn judge(claim: &Claim, here: &[(&str, Option<Estimate>)]) -> (Verdict, String) {
    let figure = |name: &str| here.iter().find(|it| it.0 == name).and_then(|it| it.1);
    match claim {
        Claim::Figures { values, tolerance, neutral, .. } => {
            let pair = |(name, paper): &'_ (String, f64)| Some((name.clone(), *paper, figure(name)?));
            let pairs: Vec<(String, f64, Estimate)> = values.iter().filter_map(pair).collect();
            let pairs: Vec<Pair<'_>> =
                pairs.iter().map(|(name, paper, here)| Pair { name, paper: *paper, here: *here }).collect();
            of_figures(&pairs, *tolerance, *neutral)
        }
        Claim::Order { order, tolerance, .. } => of_order(order, *tolerance, &figure),
        Claim::None => (Verdict::Missing, String::new()),
    }
}

/// The paper's own measurements among a way's sources.
pub fn own(way: &Way) -> impl Iterator<Item = usize> {
    way.from.iter().filter_map(|source| match source {
        Source::Own(index) => Some(*index),
        Source::Published(_) => None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::papers::results::tests::{comparison, costs};

    /// Two ways, two schedulers that are the paper's.
    pub(crate) const PAPER: &str = r#"
        name = "FLSCHED"
        cited = "Somebody: *Something*, 2017."
        subject = { name = "flsched", here = ["flsched_paper", "flsched"] }
        [[measurement]]
        name = "m"
        command = "compare --on sim"
        takes_min = 0.5
        quick = true
        [[measurement]]
        name = "n"
        command = "compare --on vm --clock parallel"
        takes_min = 300
        [[row]]
        id = "best"
        place = "Abstract"
        says = "hackbench is up to 3.12 times faster."
        certainty = "printed"
        unit = "×"
        values = { best = 3.12 }
        neutral = 1
        tolerance_percent = 20
        [[row.way]]
        from = ["m"]
        take = "time of cfs over flsched on hogs:1:1"
        reason = "The model has no bells."
        [[row.way]]
        from = ["n"]
        take = "time of eevdf over flsched on hogs:1:1"
        note = "EEVDF instead of CFS"
        [[row]]
        id = "fifo"
        place = "Figure 2"
        says = "FIFO is faster than CFS."
        certainty = "printed"
        unit = "s"
        order = "fifo < cfs"
        [[row.way]]
        from = ["m"]
        take = "time of {} on hogs:1:1"
        [[row]]
        id = "locks"
        place = "Table 1"
        says = "It takes no lock."
        certainty = "derived"
        impossible = "the source is not here"
        [[row]]
        id = "energy"
        place = "Section 5"
        says = "It needs no more energy."
        certainty = "written"
        missing = "power, in the simulator"
    "#;

    /// A project with the paper, and with these results of `m`.
    pub(crate) fn project(times: &[(&str, &[f64])]) -> (tempfile::TempDir, Paper) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("results/papers")).unwrap();
        std::fs::write(folder.path().join("results/papers/p.toml"), PAPER).unwrap();
        let arms: Vec<(&str, &str, &[f64])> =
            times.iter().map(|(name, times)| ("hogs:1:1", *name, *times)).collect();
        if !arms.is_empty() {
            let report = comparison("compare --on sim", &arms).to_string();
            std::fs::write(folder.path().join("results/papers/p-m.json"), report).unwrap();
        }
        (folder, Paper::parse("p", PAPER).unwrap())
    }

    #[test]
    fn each_scheduler_is_judged_by_itself() {
        let (folder, paper) =
            project(&[("cfs", &[3.0]), ("fifo", &[2.0]), ("flsched_paper", &[6.0]), ("flsched", &[2.0])]);
        let judged = assess(&paper, &Results::new(folder.path())).unwrap();
        let best = &judged[0];
        assert_eq!(best.verdict_of("flsched_paper"), Verdict::Not);
        assert_eq!(best.verdict_of("flsched"), Verdict::OrderOnly);
        assert_eq!(best.verdict(), Verdict::Not);
        let why: Vec<&str> = best.lines.iter().map(|line| line.why.as_str()).collect();
        let expected = [
            "best: 0.500 is not above 1",
            "best: 1.50 instead of 3.12",
            "not measured yet",
            "not measured yet",
        ];
        assert_eq!(why, expected);
        assert_eq!((judged[1].lines.len(), judged[1].verdict()), (1, Verdict::Reproduced));
        assert_eq!(judged[2].verdict(), Verdict::Impossible);
        assert_eq!(judged[3].verdict(), Verdict::Missing);
    }

    #[test]
    fn what_stands_beside_a_subject_is_of_its_own_run() {
        let head = &PAPER[..PAPER.find("[[measurement]]").unwrap()];
        let row = r#"
            [[row]]
            id = "cost"
            place = "Table 3"
            says = "It costs half as much."
            certainty = "printed"
            unit = "ns"
            values = { eevdf = 100, flsched = 50 }
            tolerance_percent = 20
            [[row.way]]
            from = ["a.json", "b.json"]
            take = "mean_ns of enqueue_task under {}"
        "#;
        let paper = Paper::parse("p", &format!("{head}{row}")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("results")).unwrap();
        for (name, policy, eevdf_ns) in [("a", "flsched", 100.0), ("b", "flsched_paper", 200.0)] {
            let costs = costs(policy, eevdf_ns, 50.0).to_string();
            std::fs::write(folder.path().join(format!("results/{name}.json")), costs).unwrap();
        }
        let judged = assess(&paper, &Results::new(folder.path())).unwrap();
        let of_eevdf =
            |line: &Line<'_>| line.here.iter().find(|it| it.0 == "eevdf").unwrap().1.unwrap().value;
        let [of_paper, ours] = &judged[0].lines[..] else { panic!("{judged:?}") };
        assert_eq!((of_paper.subject, of_eevdf(of_paper)), (Some("flsched_paper"), 200.0));
        assert_eq!((ours.subject, of_eevdf(ours)), (Some("flsched"), 100.0));
    }

    #[test]
    fn without_a_result_all_is_missing() {
        let (folder, paper) = project(&[]);
        let judged = assess(&paper, &Results::new(folder.path())).unwrap();
        assert!(judged[..2].iter().all(|it| it.verdict() == Verdict::Missing));
        assert!(judged[0].lines.iter().all(|line| line.here == [("best", None)]));
    }

    #[test]
    fn a_failed_run_is_not_reproduced_and_an_absent_scheduler_is_missing() {
        let (folder, paper) = project(&[("cfs", &[3.0]), ("fifo", &[]), ("flsched", &[2.0])]);
        let judged = assess(&paper, &Results::new(folder.path())).unwrap();
        assert_eq!(judged[1].verdict(), Verdict::Not);
        assert!(judged[1].lines[0].why.contains("1 of 1 runs failed"), "{}", judged[1].lines[0].why);
        assert_eq!(judged[0].verdict_of("flsched_paper"), Verdict::Missing);
        assert_eq!(judged[0].lines[0].why, "flsched_paper took no part in it");
    }

    #[test]
    fn a_result_of_another_command_line_is_none() {
        let (folder, _) = project(&[("cfs", &[3.0]), ("fifo", &[2.0])]);
        let changed =
            Paper::parse("p", &PAPER.replace("compare --on sim", "compare --on sim --runs 9")).unwrap();
        let judged = assess(&changed, &Results::new(folder.path())).unwrap();
        assert_eq!(judged[1].verdict(), Verdict::Missing);
        assert_eq!(judged[1].lines[0].why, "results/papers/p-m.json was produced by a different command");
    }

    #[test]
    fn a_row_that_takes_what_is_not_there_is_an_error() {
        let (folder, _) = project(&[("cfs", &[3.0]), ("fifo", &[2.0])]);
        let wrong = Paper::parse("p", &PAPER.replace("time of {} on", "tiem of {} on")).unwrap();
        let error = assess(&wrong, &Results::new(folder.path())).unwrap_err().to_string();
        assert_eq!(error, "results/papers/p.toml: row `fifo`: fifo on hogs:1:1 has no `tiem`");
        std::fs::write(folder.path().join("results/papers/p-m.json"), "{").unwrap();
        let error = assess(&wrong, &Results::new(folder.path())).unwrap_err().to_string();
        assert!(error.contains("results/papers/p-m.json is not JSON"), "{error}");
    }
}
