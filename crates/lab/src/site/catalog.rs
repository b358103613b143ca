//! The pages of results: one for each set of `results/sets.toml`, and one for each other kind of report. They are Markdown
//! with markers, which [`crate::render`] fills.
use crate::overhead::{Command, Overhead};
use crate::papers::paper;
use crate::sets::{Comparison, FILE, OVERHEAD, SWEEPS, Set, Sets};
use crate::store::Store;
use flsched_spec::UsageError;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The page that lists the others.
pub(crate) const INDEX: &str = "index";

/// A page of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResultPage {
    /// As a marker names it; the file is `results/NAME.html`.
    pub(crate) name: String,
    /// In the list of pages.
    pub(crate) about: String,
    pub(crate) markdown: String,
}

impl ResultPage {
    fn new(name: &str, title: &str, about: &str, body: &str) -> Self {
        let markdown = format!("# {title}\n\n{body}");
        Self { name: name.into(), about: about.into(), markdown }
    }

    /// As if it were a document of the project.
    pub(crate) fn document(&self) -> PathBuf {
        document(&self.name)
    }
}

/// A page of results as if it were a document of the project.
pub(crate) fn document(name: &str) -> PathBuf {
    PathBuf::from(format!("results/{name}.md"))
}

/// All pages of results, without the one that lists them.
pub(crate) fn pages(sets: &Sets, store: &Store) -> Result<Vec<ResultPage>, UsageError> {
    let mut pages: Vec<ResultPage> = sets.iter().map(|set| of_set(set, store)).collect();
    pages.extend(of_overhead(&sets.overhead));
    pages.extend(of_sweeps(sets));
    if store.root().join(paper::FOLDER).is_dir() {
        pages.extend(paper::load(store.root())?.iter().map(|paper| of_paper(&paper.id, &paper.name)));
    }
    for (prefix, page) in KINDS {
        let files = files(store, prefix)?;
        if !files.is_empty() {
            pages.push(page(&files));
        }
    }
    Ok(pages)
}

/// Is there such a page? Names are known without the reports.
pub(crate) fn check(sets: &Sets, store: &Store, name: &str) -> Result<(), String> {
    let pages = pages(sets, store).map_err(|error| error.to_string())?;
    let names: Vec<String> = pages.into_iter().map(|page| page.name).chain([INDEX.into()]).collect();
    match names.iter().any(|it| it == name) {
        true => Ok(()),
        false => Err(UsageError::unknown("page of results", name, &names).to_string()),
    }
}

/// The page that lists the others.
pub(crate) fn index(pages: &[ResultPage]) -> ResultPage {
    let mut body = String::from(
        "Every published measurement, a page for each set. A page has the tables and pictures, and for each table the \
         command, the clock, the kernel, the number of CPUs and the runs behind it.\n\n| page | what it shows |\n|---|---|\n",
    );
    for page in pages {
        let _ = writeln!(body, "| [{}]({}.md) | {} |", page.name, page.name, page.about);
    }
    let _ = write!(body, "\nThe sets are described in [`{FILE}`](sets.toml).\n");
    ResultPage::new(INDEX, "All results", "", &body)
}

fn of_set(set: &Set, store: &Store) -> ResultPage {
    let mut body = block(&format!("set name={} level=2 pictures=yes", set.name));
    let own: Vec<&Comparison> = set.own_comparisons().collect();
    if differ_in_cpus(&own) {
        body.push_str("## Side by side\n\n");
        body.push_str(&block(&format!("growth name={}", set.name)));
    }
    for (number, (file, workload)) in timelines(&own, store).into_iter().enumerate() {
        if number == 0 {
            body.push_str("## What ran where\n\n");
        }
        let stem = file.trim_end_matches(".json");
        let workload = shell_words::quote(&workload);
        body.push_str(&block(&format!(
            "timeline file={file} workload={workload} out=docs/pictures/{stem}-timeline-{number}.svg"
        )));
    }
    ResultPage::new(&set.name, &format!("Set `{}`", set.name), &set.about, &body)
}

/// Several comparisons, each with a number of CPUs of its own.
fn differ_in_cpus(comparisons: &[&Comparison]) -> bool {
    let cpus: BTreeSet<_> = comparisons.iter().filter_map(|it| it.settings.cpus).collect();
    let kernels: BTreeSet<_> = comparisons.iter().map(|it| &it.kernel).collect();
    let schedulers: BTreeSet<_> = comparisons.iter().map(|it| &it.settings.schedulers).collect();
    let workloads: BTreeSet<_> = comparisons.iter().map(|it| it.workloads.len()).collect();
    comparisons.len() > 1
        && cpus.len() == comparisons.len()
        && [kernels.len(), schedulers.len(), workloads.len()] == [1; 3]
}

/// File and workload of what was recorded.
fn timelines(comparisons: &[&Comparison], store: &Store) -> Vec<(String, String)> {
    let recorded = comparisons.iter().filter(|it| it.settings.timeline && store.has(&it.file));
    let of = |it: &&Comparison| {
        // A report that cannot be read is an error of the table above.
        let report = store.get(&it.file).ok();
        let names = report.map(|report| report.timelines.keys().cloned().collect::<Vec<_>>());
        names.unwrap_or_default().into_iter().map(|name| (it.file.clone(), name)).collect::<Vec<_>>()
    };
    recorded.flat_map(of).collect()
}

fn of_overhead(all: &[Overhead]) -> Option<ResultPage> {
    let about = "What scheduling itself costs: reports of `flsched-lab locks` and `flsched-lab costs`.";
    let mut body = format!("{about}\n\n");
    for it in all {
        let (kind, parts): (&str, &[&str]) = match it.command {
            Command::Locks => ("locks", &["totals", "taken", "waits"]),
            Command::Costs => ("costs", &["functions", "callbacks"]),
        };
        let policy = it.policy.to_string();
        let _ = writeln!(
            body,
            "## `flsched {kind}`, `{policy}`, kernel {kernel}, {cpus} CPUs\n\n```sh\nflsched vm --kernel {kernel} --cpus \
             {cpus} --clock {clock} -- flsched {kind} --policy {policy} -- {load}\n```\n",
            kernel = it.kernel,
            cpus = it.cpus,
            clock = it.clock,
            load = it.load,
        );
        for part in parts {
            // Of the locks that were taken, those under this policy.
            let more = if *part == "taken" { format!(" scheduler={policy} most=30") } else { String::new() };
            let _ = writeln!(body, "### {part}\n");
            body.push_str(&block(&format!("{kind} file={} show={part}{more}", it.file)));
        }
    }
    (!all.is_empty()).then(|| ResultPage::new(OVERHEAD, "What scheduling itself costs", about, &body))
}

fn of_sweeps(sets: &Sets) -> Option<ResultPage> {
    let about = "How results of the simulator depend on one number of the machine.";
    let mut body = format!("{about}\n\n");
    for sweep in &sets.sweeps {
        let stem = sweep.file.trim_end_matches(".json");
        let _ = writeln!(body, "## {}\n", stem.trim_start_matches("sweep-").replace('-', " "));
        body.push_str(&block(&format!("sweep file={} out=docs/pictures/{stem}.svg", sweep.file)));
    }
    (!sets.sweeps.is_empty()).then(|| ResultPage::new(SWEEPS, "Sweeps", about, &body))
}

fn of_paper(id: &str, name: &str) -> ResultPage {
    let show = |show: &str, more: &str| block(&format!("papers paper={id} show={show}{more}"));
    let body = format!(
        "{}## In short\n\n{}## Each claim\n\n{}",
        show("cited", ""),
        show("summary", ""),
        show("details", " level=3")
    );
    let about = format!("The paper of {name}: each claim, beside what is measured here.");
    ResultPage::new(&format!("paper-{id}"), &format!("The paper of {name}"), &about, &body)
}

type OfFiles = fn(&[String]) -> ResultPage;

/// Reports that tests write, by the start of their names.
const KINDS: [(&str, OfFiles); 3] =
    [("conformance", conformance), ("recordings", recordings), ("robustness", robustness)];

fn conformance(files: &[String]) -> ResultPage {
    let about = "The simulator's figures beside a kernel's, in all scenarios of `conformance/`.";
    let mut body = format!("{about}\n\n");
    for file in files {
        body.push_str(&format!("## {file}\n\n"));
        body.push_str(&block(&format!("conformance file={file} show=tally")));
        body.push_str(&block(&format!("conformance file={file} show=entries")));
    }
    ResultPage::new("conformance", "The simulator and a kernel", about, &body)
}

fn recordings(files: &[String]) -> ResultPage {
    let about = "Loads that were recorded on a kernel, beside their replays in the simulator.";
    let blocks =
        files.iter().map(|file| format!("## {file}\n\n{}", block(&format!("recordings file={file}"))));
    let body = format!("{about}\n\n{}", blocks.collect::<String>());
    ResultPage::new("recordings", "Recorded loads and their replays", about, &body)
}

fn robustness(files: &[String]) -> ResultPage {
    let about = "stress-ng and rt-tests under every policy, beside EEVDF.";
    let show = |show: &str| block(&format!("robustness file={} show={show}", files.join(",")));
    let body = format!("{about}\n\n## Faults\n\n{}## All loads\n\n{}", show("faults"), show("loads"));
    ResultPage::new("robustness", "Robustness", about, &body)
}

/// Reports whose names start with this word, by name.
fn files(store: &Store, prefix: &str) -> Result<Vec<String>, UsageError> {
    let folder = store.root().join(crate::store::FOLDER);
    let entries = std::fs::read_dir(&folder)
        .map_err(|error| UsageError(format!("cannot read {}: {error}", folder.display())))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_one = |name: &String| {
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".json"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let mut found: Vec<String> = names.filter(is_one).collect();
    found.sort();
    Ok(found)
}

fn block(marker: &str) -> String {
    format!("<!-- results: {marker} -->\n<!-- /results -->\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::project;

    const SETS: &str = "[[set]]\nname = \"s\"\nabout = \"Few.\"\non = \"vm\"\nkernels = [\"6.18\"]\n\
                        schedulers = [\"eevdf\"]\nworkloads = [\"make\"]\n\
                        [[set.comparison]]\nname = \"a\"\ncpus = 4\n[[set.comparison]]\nname = \"b\"\ncpus = 8\n";

    #[test]
    fn each_set_has_a_page_and_the_list_has_all() {
        let sets = Sets::parse(SETS).unwrap();
        let (_folder, store) = project(&[]);
        let pages = pages(&sets, &store).unwrap();
        assert_eq!(pages[0].document(), PathBuf::from("results/s.md"));
        assert!(pages[0].markdown.starts_with("# Set `s`\n\n<!-- results: set name=s "), "{pages:?}");
        assert!(pages[0].markdown.contains("growth name=s"), "two numbers of CPUs: {pages:?}");
        assert!(index(&pages).markdown.contains("| [s](s.md) | Few. |"));
        assert_eq!(check(&sets, &store, "s"), Ok(()));
        assert_eq!(check(&sets, &store, INDEX), Ok(()));
        assert!(check(&sets, &store, "t").unwrap_err().contains("unknown page of results `t`"));
    }

    #[test]
    fn reports_of_tests_have_pages_by_the_start_of_their_names() {
        let (folder, store) = project(&[]);
        for name in ["robustness-6.18.json", "robustnesses.json", "robustness-7.3.json"] {
            std::fs::write(folder.path().join("results").join(name), "{}").unwrap();
        }
        assert_eq!(files(&store, "robustness").unwrap(), ["robustness-6.18.json", "robustness-7.3.json"]);
    }
}
