//! `results/sets.toml`: what is measured and published.
use crate::expand::expand;
use crate::floor::one_cpu_workload;
use crate::overhead::Overhead;
use crate::papers::text::one_line;
use crate::sweeps::{self, Sweep};
use flsched_base::Arch;
use flsched_spec::{Target, UsageError, Workload};
use serde::Deserialize;
use std::path::Path;
use toml::{Table, Value};

/// Where sets are described, under the project's folder.
pub const FILE: &str = "results/sets.toml";
/// On one CPU hardly anything but the work is left under these.
const FLOOR_SCHEDULERS: [&str; 3] = ["eevdf", "batch", "fifo"];
/// Keys of a set that have no effect on how a comparison is measured.
const OWN_KEYS: [&str; 5] = ["name", "about", "like", "comparison", "floor"];

/// The set of all `[[overhead]]`, as the command line names it.
pub const OVERHEAD: &str = "overhead";
/// The set of all `[[sweep]]`.
pub const SWEEPS: &str = "sweep";

/// All sets, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Sets {
    pub(crate) sets: Vec<Set>,
    pub(crate) overhead: Vec<Overhead>,
    pub(crate) sweeps: Vec<Sweep>,
}

/// Comparisons that are measured and shown together.
#[derive(Debug, Clone)]
pub struct Set {
    /// As the command line names it.
    pub name: String,
    /// In a line.
    pub about: String,
    /// In the order in which they are measured.
    pub comparisons: Vec<Comparison>,
}

/// One `flsched compare`, one file.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Its report's name under `results/`.
    pub file: String,
    /// Within the set.
    pub name: String,
    /// The heading above its table; the name, unless the file has another.
    pub title: String,
    /// Of the virtual machine.
    pub kernel: Option<String>,
    /// With all their numbers.
    pub workloads: Vec<String>,
    /// How it is measured.
    pub settings: Settings,
    /// The file with the work on one CPU; `None`: the set has no floor, or this is one.
    pub floor: Option<String>,
}

/// The set has the defaults; a comparison may have its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `--on`.
    pub on: Option<String>,
    /// `--clock`.
    pub clock: Option<String>,
    /// `--kernel`: one comparison for each.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// `--arch`.
    pub arch: Option<Arch>,
    /// `--cpus`.
    pub cpus: Option<u32>,
    /// `--topology`.
    pub topology: Option<String>,
    /// `--memory`.
    pub memory: Option<String>,
    /// `--machine`, of the simulator.
    pub machine: Option<String>,
    /// `--policy`, each: copies of a policy, changed by a patch; see [`crate::patched`].
    #[serde(default)]
    pub patched: Vec<String>,
    /// `--schedulers`.
    pub schedulers: Vec<String>,
    /// `--workload`, each; `{cpus}` and `{8*cpus}` grow with the CPUs.
    workloads: Vec<String>,
    /// `--runs`.
    pub runs: Option<u32>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--timeout`.
    pub timeout: Option<u64>,
    /// `--timeline`.
    #[serde(default)]
    pub timeline: bool,
}

impl Set {
    /// Without those that measure the work on one CPU, which are columns of the others.
    pub fn own_comparisons(&self) -> impl Iterator<Item = &Comparison> {
        let is_floor =
            |it: &&Comparison| self.comparisons.iter().any(|other| other.floor.as_deref() == Some(&it.file));
        self.comparisons.iter().filter(move |it| !is_floor(it))
    }
}

impl Sets {
    /// Those of the project in this folder.
    pub fn load(root: &Path) -> Result<Self, UsageError> {
        let text = std::fs::read_to_string(root.join(FILE))
            .map_err(|error| UsageError(format!("cannot read {FILE} in {}: {error}", root.display())))?;
        Self::parse(&text).map_err(|message| UsageError(format!("{FILE}: {message}")))
    }

    /// From the file's text; or what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut file: Table = text.parse().map_err(|error: toml::de::Error| one_line(&error))?;
        let described = tables(file.remove("set"), "set")?;
        let overhead = match file.remove("overhead") {
            None => Vec::new(),
            some => tables(some, "overhead")?.into_iter().map(overhead).collect::<Result<_, _>>()?,
        };
        let sweeps = match file.remove("sweep") {
            None => Vec::new(),
            some => tables(some, "sweep")?.into_iter().map(sweeps::read).collect::<Result<_, _>>()?,
        };
        if let Some(key) = file.keys().next() {
            return Err(format!(
                "`{key}` at the top is unknown: valid are [[set]], [[overhead]] and [[sweep]]"
            ));
        }
        let mut inherited: Vec<Table> = Vec::new();
        let mut sets: Vec<Set> = Vec::new();
        for table in described {
            let table = with_inherited(table, &inherited)?;
            let set = set(&table)?;
            if [OVERHEAD, SWEEPS].contains(&set.name.as_str()) {
                return Err(format!("set `{0}`: what is in [[{0}]] has that name", set.name));
            }
            if sets.iter().any(|other| other.name == set.name) {
                return Err(format!("set `{}` is described twice", set.name));
            }
            sets.push(set);
            inherited.push(table);
        }
        let all = Self { sets, overhead, sweeps };
        let overhead = all.overhead.iter().map(|it| &it.file);
        let sweeps = all.sweeps.iter().map(|it| &it.file);
        let files: Vec<&String> =
            all.comparisons().map(|it| &it.file).chain(overhead).chain(sweeps).collect();
        match files.iter().enumerate().find(|(index, file)| files[..*index].contains(file)) {
            Some((_, file)) => Err(format!("two comparisons write {file}")),
            None => Ok(all),
        }
    }

    /// In the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Set> {
        self.sets.iter()
    }

    pub fn get(&self, name: &str) -> Result<&Set, UsageError> {
        let names = || self.sets.iter().map(|set| set.name.clone()).collect::<Vec<_>>();
        let found = self.sets.iter().find(|set| set.name == name);
        found.ok_or_else(|| UsageError::unknown("set", name, &names()))
    }

    /// All comparisons of all sets.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.sets.iter().flat_map(|set| &set.comparisons)
    }

    /// All copies of policies that are measured.
    pub fn patched(&self) -> impl Iterator<Item = &String> {
        let of_sweeps = self.sweeps.iter().flat_map(|it| &it.patched);
        self.comparisons().flat_map(|it| &it.settings.patched).chain(of_sweeps)
    }

    /// The comparison that writes this file.
    pub fn comparison(&self, file: &str) -> Option<&Comparison> {
        self.comparisons().find(|comparison| comparison.file == file)
    }
}

/// The settings of the set that `like` names, replaced by those that the set itself has.
fn with_inherited(table: Table, earlier: &[Table]) -> Result<Table, String> {
    let Some(like) = table.get("like").and_then(Value::as_str) else {
        return Ok(table);
    };
    let named = |other: &&Table| other.get("name").and_then(Value::as_str) == Some(like);
    let Some(base) = earlier.iter().find(named) else {
        return Err(format!("like = \"{like}\": no set above it has that name"));
    };
    let mut merged = base.clone();
    merged.extend(table);
    Ok(merged)
}

fn set(table: &Table) -> Result<Set, String> {
    let name = text(table, "name").map_err(|error| format!("a set: {error}"))?;
    plain(&name)?;
    let within = |error: String| format!("set `{name}`: {error}");
    let about = text(table, "about").map_err(within)?;
    let mut defaults = table.clone();
    OWN_KEYS.iter().for_each(|key| drop(defaults.remove(*key)));

    let mut comparisons = Vec::new();
    for own in tables(table.get("comparison").cloned(), "comparison").map_err(within)? {
        comparisons.extend(expanded(&name, &defaults, own).map_err(within)?);
    }
    if let Some(floor) = table.get("floor") {
        let Value::Table(floor) = floor else {
            return Err(within("`floor` is not a table: write [set.floor]".into()));
        };
        let floors = floors(&name, &defaults, floor, &mut comparisons).map_err(within)?;
        comparisons.extend(floors);
    }
    Ok(Set { name, about, comparisons })
}

/// One `[[overhead]]`.
fn overhead(table: Table) -> Result<Overhead, String> {
    let file = text(&table, "file").map_err(|error| format!("an overhead: {error}"))?;
    let within = |error: String| format!("overhead `{file}`: {error}");
    plain(&file).map_err(within)?;
    if !file.ends_with(".json") {
        return Err(within("`file` must end with .json".into()));
    }
    let overhead: Overhead = table.try_into().map_err(|error: toml::de::Error| within(one_line(&error)))?;
    match shell_words::split(&overhead.load) {
        Ok(words) if !words.is_empty() => Ok(overhead),
        _ => Err(within("`load` is not a command".into())),
    }
}

/// One table of the file, for each kernel.
fn expanded(set: &str, defaults: &Table, own: Table) -> Result<Vec<Comparison>, String> {
    let name = text(&own, "name").map_err(|error| format!("a comparison: {error}"))?;
    plain(&name)?;
    let within = |error: String| format!("comparison `{name}`: {error}");
    let title = match own.contains_key("title") {
        true => text(&own, "title").map_err(within)?,
        false => name.clone(),
    };
    let mut merged = defaults.clone();
    merged.extend(own);
    ["name", "title"].iter().for_each(|key| drop(merged.remove(*key)));
    let settings: Settings = merged.try_into().map_err(|error: toml::de::Error| within(one_line(&error)))?;
    let workloads = workloads(&settings).map_err(within)?;
    if settings.schedulers.is_empty() {
        return Err(within("`schedulers` is empty".into()));
    }
    if let Some(name) = settings.patched.iter().find(|name| !settings.schedulers.contains(name)) {
        return Err(within(format!("`schedulers` does not name `{name}`, which is in `patched`")));
    }
    let kernels = match settings.kernels.as_slice() {
        [] => vec![None],
        kernels => kernels.iter().cloned().map(Some).collect(),
    };
    let comparison = |kernel: Option<String>| {
        let file = match &kernel {
            Some(kernel) => {
                plain(kernel)?;
                format!("{set}-{kernel}-{name}.json")
            }
            None => format!("{set}-{name}.json"),
        };
        let (name, title) = (name.clone(), title.clone());
        let (workloads, settings) = (workloads.clone(), settings.clone());
        Ok(Comparison { file, name, title, kernel, workloads, settings, floor: None })
    };
    kernels.into_iter().map(comparison).collect::<Result<_, _>>().map_err(within)
}

/// For each kernel the work on one CPU of all workloads that have such a thing.
fn floors(
    set: &str,
    defaults: &Table,
    own: &Table,
    comparisons: &mut [Comparison],
) -> Result<Vec<Comparison>, String> {
    let mut workloads: Vec<Value> = Vec::new();
    for workload in comparisons.iter().flat_map(|it| &it.workloads) {
        let workload = one_cpu_workload(workload).map(Value::String);
        workloads.extend(workload.filter(|new| !workloads.contains(new)));
    }
    if workloads.is_empty() {
        return Err("[set.floor]: none of its workloads has a floor".into());
    }
    let mut defaults = defaults.clone();
    defaults.remove("topology");
    defaults
        .insert("schedulers".into(), FLOOR_SCHEDULERS.map(|name| Value::String(name.into())).to_vec().into());
    defaults.extend(own.clone());
    let fixed = [
        ("name", Value::String("floor".into())),
        ("cpus", Value::Integer(1)),
        ("workloads", Value::Array(workloads)),
    ];
    if let Some((key, _)) = fixed.iter().find(|(key, _)| own.contains_key(*key)) {
        return Err(format!("[set.floor]: `{key}` follows from the comparisons and cannot be set"));
    }
    let floors =
        expanded(set, &defaults, fixed.map(|(key, value)| (key.to_string(), value)).into_iter().collect())?;
    for comparison in comparisons {
        let same_kernel = floors.iter().find(|floor| floor.kernel == comparison.kernel);
        comparison.floor = same_kernel.map(|floor| floor.file.clone());
    }
    Ok(floors)
}

/// With all their numbers, each known to `flsched compare`.
fn workloads(settings: &Settings) -> Result<Vec<String>, String> {
    if settings.workloads.is_empty() {
        return Err("`workloads` is empty".into());
    }
    let mut all: Vec<String> = Vec::new();
    for workload in &settings.workloads {
        let workload = match (workload.contains('{'), settings.cpus) {
            (false, _) => workload.clone(),
            (true, Some(cpus)) => expand(workload, cpus)?,
            (true, None) => return Err(format!("`{workload}` needs the number of `cpus`")),
        };
        let target = if settings.on.as_deref() == Some("sim") { Target::Sim } else { Target::Vm };
        Workload::read_all(&workload, target, 4).map_err(|error| error.to_string())?;
        if all.contains(&workload) {
            return Err(format!("workload `{workload}` is named twice"));
        }
        all.push(workload);
    }
    Ok(all)
}

fn tables(value: Option<Value>, key: &str) -> Result<Vec<Table>, String> {
    let wrong = || format!("`{key}` is not a list of tables: write [[{key}]]");
    match value {
        None => Err(format!("there is no [[{key}]]")),
        Some(Value::Array(values)) => values
            .into_iter()
            .map(|value| match value {
                Value::Table(table) => Ok(table),
                _ => Err(wrong()),
            })
            .collect(),
        Some(_) => Err(wrong()),
    }
}

pub(crate) fn text(table: &Table, key: &str) -> Result<String, String> {
    match table.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(_) => Err(format!("`{key}` must be a text")),
        None => Err(format!("`{key}` is missing")),
    }
}

/// A part of a file's name.
pub(crate) fn plain(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    match !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!("`{name}` becomes part of a file's name: letters, digits, `.`, `-`, `_` only")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    const TWO: &str = r#"
        [[set]]
        name = "four"
        about = "a set"
        on = "vm"
        clock = "wall"
        kernels = ["6.18", "7.3"]
        cpus = 4
        schedulers = ["eevdf", "flsched"]
        runs = 5
        seed = 1
        [[set.comparison]]
        name = "messages"
        workloads = ["hackbench:process-pipe:{cpus}:10"]
        [[set.comparison]]
        name = "barrier"
        kernels = ["6.18"]
        workloads = ["spin-barrier:{8*cpus}", "requests"]
        [set.floor]
        runs = 3

        [[set]]
        name = "sixteen"
        about = "the same with more CPUs"
        like = "four"
        cpus = 16
        arch = "aarch64"
    "#;

    #[test]
    fn defaults_kernels_and_products() {
        let sets = Sets::parse(TWO).unwrap();
        let files: Vec<_> = sets.get("four").unwrap().comparisons.iter().map(|it| it.file.as_str()).collect();
        assert_eq!(
            files,
            [
                "four-6.18-messages.json",
                "four-7.3-messages.json",
                "four-6.18-barrier.json",
                "four-6.18-floor.json",
                "four-7.3-floor.json"
            ]
        );
        let line = |file| command::line(sets.comparison(file).unwrap());
        assert_eq!(
            line("sixteen-7.3-messages.json"),
            "flsched compare --on vm --arch aarch64 --kernel 7.3 --cpus 16 --clock wall --schedulers eevdf,flsched \
             --runs 5 --seed 1 --workload hackbench:process-pipe:16:10"
        );
        assert_eq!(
            line("four-6.18-floor.json"),
            "flsched compare --on vm --kernel 6.18 --cpus 1 --clock wall --schedulers eevdf,batch,fifo \
             --runs 3 --seed 1 --workload hackbench:process-pipe:4:10 --workload spin-barrier:1:150:12500"
        );
        let floor = |file| sets.comparison(file).unwrap().floor.clone();
        assert_eq!(floor("four-7.3-messages.json").as_deref(), Some("four-7.3-floor.json"));
        assert_eq!(floor("four-7.3-floor.json"), None);
    }

    #[test]
    fn names_what_is_wrong() {
        let error = |from: &str, to: &str| {
            let text = TWO.replacen(from, to, 1);
            assert_ne!(text, TWO, "{from} is not in it");
            let error = Sets::parse(&text).unwrap_err();
            assert!(!error.contains('\n'), "{error}");
            error
        };
        assert!(error("seed = 1", "sead = 1").contains("comparison `messages`: unknown field `sead`"));
        assert!(error("spin-barrier:{", "spin-barier:{").contains("did you mean `spin-barrier`"));
        assert!(error("{8*cpus}", "{8*cpu}").contains("`{8*cpu}`"));
        assert!(
            error("name = \"barrier\"", "name = \"messages\"")
                .contains("two comparisons write four-6.18-messages")
        );
        assert!(error("name = \"sixteen\"", "name = \"four\"").contains("twice"));
        assert!(error("name = \"sixteen\"", "name = \"overhead\"").contains("[[overhead]]"));
        assert!(error("like = \"four\"", "like = \"five\"").contains("like = \"five\""));
        assert!(error("name = \"four\"", "name = \"a/b\"").contains("`a/b`"));
        assert!(error("about = \"a set\"", "").contains("set `four`: `about` is missing"));
        assert!(error("cpus = 4", "cpus = \"4\"").contains("cpus"));
        assert!(error("aarch64", "arm64").contains("unknown variant `arm64`"));
        assert!(error("cpus = 4", "cpus = ").contains("line 8"));
        let patched = error("runs = 5", "patched = [\"no_x\"]");
        assert!(patched.contains("`schedulers` does not name `no_x`"), "{patched}");
    }

    #[test]
    fn unknown_sets_get_a_hint() {
        let error = Sets::parse(TWO).unwrap().get("fuor").unwrap_err().to_string();
        assert!(error.contains("did you mean `four`?"), "{error}");
    }

    #[test]
    fn overhead_is_a_set_of_its_own() {
        let with = |overhead: &str| Sets::parse(&format!("{TWO}\n[[overhead]]\n{overhead}"));
        let whole = "file = \"l.json\"\ncommand = \"locks\"\nkernel = \"6.18\"\ncpus = 4\n\
                     clock = \"work\"\npolicy = \"flsched\"\nload = \"sleep 1\"";
        let sets = with(whole).unwrap();
        let files = |names: &[String]| {
            sets.jobs(names).unwrap().iter().map(|job| job.file().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(files(&["overhead".into()]), ["l.json"]);
        assert_eq!(files(&[]).last().map(String::as_str), Some("l.json"));
        assert!(!files(&["four".into()]).contains(&"l.json".to_string()));
        let error = |from: &str, to: &str| with(&whole.replace(from, to)).unwrap_err();
        assert!(error("l.json", "l").contains("must end with .json"));
        assert!(error("sleep 1", "'").contains("`load` is not a command"));
        assert!(error("locks", "lock").starts_with("overhead `l.json`"));
        assert!(error("cpus", "cpu").contains("cpu"));
        let unknown = sets.jobs(&["overhed".into()]).unwrap_err().to_string();
        assert!(unknown.contains("did you mean `overhead`?"), "{unknown}");
    }
}
