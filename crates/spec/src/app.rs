//! The catalogue of applications: what `apps/NAME.toml` says of a program that people know.
//!
//! The shell scripts in it are run with the parameters and [`PROVIDED`] as variables. A file `NAME.EXTENSION` beside
//! `NAME.toml` belongs to it: a program's source or its input; so do the files that `also` names. A path instead of a
//! name is a file of the user's own.
use crate::UsageError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Variables that the scripts have beside the parameters: the folder with what `input` made, and the number of CPUs.
pub const PROVIDED: [&str; 2] = ["INPUT", "CPUS"];
/// What the name of an application's file ends with.
const EXTENSION: &str = ".toml";

/// Name and text of each file in `apps/`.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/apps.rs"));

static CATALOGUE: LazyLock<Vec<AppFile>> = LazyLock::new(|| {
    let names = FILES.iter().filter_map(|(file, text)| Some((file.strip_suffix(EXTENSION)?, text)));
    let read = |(name, text): (&str, &&str)| {
        let app =
            AppFile::parse(name, text).unwrap_or_else(|error| panic!("apps/{name}{EXTENSION}: {error}"));
        let begin = format!("{name}.");
        let belongs = |file: &str| {
            !file.ends_with(EXTENSION) && (file.starts_with(&begin) || app.also.iter().any(|it| it == file))
        };
        let companions = FILES.iter().filter(|(file, _)| belongs(file));
        AppFile {
            companions: companions.map(|(file, text)| (file.to_string(), text.to_string())).collect(),
            ..app
        }
    };
    names.map(read).collect()
});

/// The user's own that have been read.
static OWN: Mutex<Vec<&'static AppFile>> = Mutex::new(Vec::new());

/// An application as its file describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppFile {
    /// As in `NAME.toml`; of the user's own, the path as given.
    #[serde(skip)]
    pub name: String,
    /// The file as it was read, which reports keep.
    #[serde(skip)]
    pub text: String,
    /// Files that belong to it: name and text.
    #[serde(skip)]
    pub companions: Vec<(String, String)>,
    /// How it is named: `app:NAME:PARAMETER…`.
    #[serde(skip)]
    pub form: String,
    /// What it does, in one line.
    pub what: String,
    /// Where its input is from.
    pub source: String,
    /// The licence of the program and of the input.
    pub licence: String,
    /// Debian packages that have all it needs; `a | b`: either.
    pub packages: Vec<String>,
    /// Programs: names in `PATH`, or patterns of paths, of which the last that is found is taken.
    pub programs: Vec<String>,
    /// Files beside it that belong to it although they do not have its name, as several use them.
    #[serde(default)]
    pub also: Vec<String>,
    /// Programs in a command line by which one knows that it runs this application.
    #[serde(default)]
    pub commands: Vec<String>,
    /// What has been measured of it, or is known of how its tasks wait, in one sentence.
    #[serde(default)]
    pub known: String,
    /// Further files and folders that it reads, as patterns of paths; at least one must be found of each.
    #[serde(default)]
    pub files: Vec<String>,
    /// The same, of which nothing has to be there: what only some versions have.
    #[serde(default)]
    pub optional: Vec<String>,
    /// Memory that it needs in a virtual machine beside the usual, files included.
    #[serde(default)]
    pub memory_mib: u32,
    /// What follows the name, in order.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
    /// Makes the input, once, in an empty folder with the files that belong to it.
    #[serde(default)]
    pub input: String,
    /// What is done before each run, untimed, in the run's folder.
    #[serde(default)]
    pub before: String,
    /// The command line that is timed.
    pub run: String,
    /// What is done after each run, untimed.
    #[serde(default)]
    pub after: String,
    /// Pattern of the line with its own time in seconds; without it, the time is that of `run`.
    pub time: Option<String>,
    /// Patterns of the lines with further figures, by name with the unit last.
    #[serde(default)]
    pub figures: BTreeMap<String, String>,
    /// What must hold of its output; a run with a wrong result counts as failed.
    pub checks: Vec<Check>,
}

/// What is set when it is run.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Table")]
pub struct Parameter {
    /// As in the form, and as the variable.
    pub name: String,
    /// What it is, in a few words.
    pub what: String,
    /// What a user may give for it.
    pub values: Values,
}

/// A parameter as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    what: String,
    per_cpu: Option<u64>,
    default: Option<u64>,
    to: Option<u64>,
    choices: Option<Vec<String>>,
}

impl TryFrom<Table> for Parameter {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        let Table { name, what, per_cpu, default, to, choices } = table;
        let values = match (per_cpu, default, to, choices) {
            (Some(per_cpu), None, Some(to), None) => Values::PerCpu { per_cpu, to },
            (None, Some(default), Some(to), None) => Values::Number { default, to },
            (None, None, None, Some(choices)) if !choices.is_empty() => Values::Choice { choices },
            _ => {
                let valid = "give `per_cpu` and `to`, `default` and `to`, or `choices`";
                return Err(format!("parameter `{name}`: {valid}"));
            }
        };
        let is_capital = |c: char| c.is_ascii_uppercase() || c == '_';
        if name.is_empty() || !name.chars().all(is_capital) || PROVIDED.contains(&name.as_str()) {
            return Err(format!(
                "parameter `{name}`: the name must be capital letters and none of {PROVIDED:?}"
            ));
        }
        Ok(Self { name, what, values })
    }
}

/// The values of a parameter.
#[derive(Debug)]
pub enum Values {
    /// A number that grows with the CPUs if it is left out.
    PerCpu {
        /// How many for each.
        per_cpu: u64,
        /// The greatest value that is allowed.
        to: u64,
    },
    /// A whole number with a default.
    Number {
        /// What it is if it is left out.
        default: u64,
        /// The greatest value that is allowed.
        to: u64,
    },
    /// One of these words; the first if it is left out.
    Choice {
        /// The words that are allowed.
        choices: Vec<String>,
    },
}

/// A condition that a run must meet to count.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What is checked, in the words of messages.
    pub what: String,
    /// Pattern of a line that must be there; the last one counts.
    pub line: String,
    /// The least number that its first group may be.
    pub from: Option<f64>,
    /// The greatest number that it may be.
    pub to: Option<f64>,
}

impl AppFile {
    /// Reads a file of the catalogue.
    pub fn parse(name: &str, text: &str) -> Result<Self, toml::de::Error> {
        let file: Self = toml::from_str(text)?;
        let parameters: String = file.parameters.iter().map(|it| format!(":{}", it.name)).collect();
        Ok(Self { name: name.into(), text: text.into(), form: format!("app:{name}{parameters}"), ..file })
    }

    /// Reads a file of the user's own, with the files that belong to it.
    fn read(path: &str) -> Result<Self, UsageError> {
        let wrong = |error: &dyn std::fmt::Display| UsageError(format!("app:{path}: {error}"));
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let app = Self::parse(path, &text).map_err(|error| wrong(&error))?;
        let companions = beside(Path::new(path), &app.also).map_err(|error| wrong(&error))?;
        Ok(Self { companions, ..app })
    }

    /// The file's name without folder and ending.
    pub fn stem(&self) -> &str {
        let file = self.name.rsplit('/').next().unwrap_or_default();
        file.strip_suffix(EXTENSION).unwrap_or(file)
    }

    /// The one that a command line runs, as in `mpirun -np 8 lmp`.
    pub fn of_command(words: &[String]) -> Option<&'static Self> {
        let names = || words.iter().map(|word| word.rsplit('/').next().unwrap_or_default());
        let runs = |app: &&Self| names().any(|name| app.commands.iter().any(|it| it == name));
        Self::all().iter().find(runs)
    }

    /// All of them, by name.
    pub fn all() -> &'static [Self] {
        &CATALOGUE
    }

    /// The one of that name, or in that file.
    pub fn find(name: &str) -> Result<&'static Self, UsageError> {
        if name.contains('/') {
            let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(read) = own.iter().find(|app| app.name == name) {
                return Ok(read);
            }
            own.push(Box::leak(Box::new(Self::read(name)?)));
            return Ok(own[own.len() - 1]);
        }
        let found = Self::all().iter().find(|app| app.name == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::all().iter().map(|app| &app.name).collect();
            match name {
                "" => UsageError(format!(
                    "app: NAME is missing; `flsched apps` lists them: {}",
                    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
                )),
                _ => UsageError::unknown("application", name, &names),
            }
        })
    }
}

/// The files beside `path` that have its name and another ending, and those that are named.
fn beside(path: &Path, also: &[String]) -> io::Result<Vec<(String, String)>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let begin = format!("{}.", name.strip_suffix(EXTENSION).unwrap_or(&name));
    let mut files = Vec::new();
    for entry in
        fs::read_dir(path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")))?
    {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        if file != name && (file.starts_with(&begin) || also.contains(&file)) {
            files.push((file, fs::read_to_string(entry.path())?));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_an_application_or_belongs_to_one() {
        for (file, _) in FILES {
            let is_its = |app: &&AppFile| app.companions.iter().any(|(it, _)| it == file);
            assert!(file.ends_with(EXTENSION) || AppFile::all().iter().any(|app| is_its(&app)), "{file}");
        }
        for app in AppFile::all() {
            assert!(!app.what.contains('\n') && !app.checks.is_empty(), "{}", app.name);
            assert!(!app.packages.is_empty() && !app.programs.is_empty(), "{}", app.name);
            let has = |also: &String| app.companions.iter().any(|(it, _)| it == also);
            assert!(app.also.iter().all(has), "{}: {:?}", app.name, app.also);
        }
    }

    /// A script with a variable that nobody sets would fail at its first use only.
    #[test]
    fn scripts_use_each_parameter_and_no_other_variable_in_capitals() {
        for app in AppFile::all() {
            let scripts = [&app.input, &app.before, &app.run, &app.after].map(String::as_str).join("\n");
            let used = |name: &str| {
                scripts.match_indices(name).any(|(at, _)| {
                    let after = scripts[at + name.len()..].chars().next();
                    let is_whole = !after.is_some_and(|c| c.is_ascii_uppercase() || c == '_');
                    is_whole
                        && (scripts[..at].ends_with(['$', '{'])
                            || scripts[..at]
                                .rfind("$((")
                                .is_some_and(|open| !scripts[open..at].contains("))")))
                })
            };
            for parameter in &app.parameters {
                assert!(used(&parameter.name), "{}: {}", app.name, parameter.name);
            }
            let of_the_shell = ["PWD", "OLDPWD"];
            let known = |name: &str| {
                PROVIDED.contains(&name)
                    || of_the_shell.contains(&name)
                    || app.parameters.iter().any(|it| it.name == name)
            };
            for part in scripts.split('$').skip(1) {
                let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
                let name: String = part.trim_start_matches('{').chars().take_while(is_part).collect();
                let in_capitals =
                    name.contains(|c: char| c.is_ascii_uppercase()) && name == name.to_uppercase();
                assert!(!in_capitals || known(&name), "{}: ${name}", app.name);
            }
        }
    }

    /// Root runs these scripts.
    #[test]
    fn no_script_lets_others_write_where_it_works() {
        for app in AppFile::all() {
            for script in [&app.input, &app.before, &app.run, &app.after] {
                let mut modes =
                    script.split("chmod ").skip(1).filter_map(|rest| rest.split_whitespace().next());
                let for_all = |mode: &&str| mode.ends_with(['2', '3', '6', '7']) || mode.contains("o+w");
                assert_eq!(modes.find(for_all), None, "{}", app.name);
            }
        }
    }

    #[test]
    fn a_command_is_known_by_its_programs() {
        let known = |line: &str| {
            let words: Vec<_> = line.split(' ').map(String::from).collect();
            AppFile::of_command(&words).map(|app| app.name.as_str())
        };
        assert_eq!(known("mpirun -np 8 /usr/bin/lmp -in in.lj"), Some("lammps"));
        assert_eq!(known("env OMP_NUM_THREADS=4 gmx mdrun"), Some("gromacs"));
        assert_eq!(known("make -j8"), None);
        let mut all: Vec<_> = AppFile::all().iter().flat_map(|app| &app.commands).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "a command of two applications");
    }

    #[test]
    fn unknown_ones_are_named() {
        let error = |name| AppFile::find(name).unwrap_err().to_string();
        assert!(error("gmml").contains("did you mean `ggml`?"), "{}", error("gmml"));
        assert!(error("").starts_with("app: NAME is missing; `flsched apps` lists them: "), "{}", error(""));
    }

    #[test]
    fn a_path_is_a_file_of_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        let name = path.to_str().unwrap();
        let error = AppFile::find(name).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("No such file"), "{error}");
        let text = &AppFile::find("ggml").unwrap().text;
        fs::write(&path, text).unwrap();
        fs::write(folder.path().join("mine.c"), "int x;").unwrap();
        let app = AppFile::find(name).unwrap();
        assert_eq!(app.form, format!("app:{name}:THREADS:STEPS"));
        assert_eq!((app.stem(), app.companions[0].0.as_str()), ("mine", "mine.c"));
        fs::write(&path, "what = 1").unwrap();
        assert!(std::ptr::eq(AppFile::find(name).unwrap(), app), "it is read once");
    }

    #[test]
    fn a_file_with_an_unknown_key_is_refused() {
        let text =
            "what = 'x'\nsource = ''\nlicence = ''\npackages = []\nprograms = []\nrun = ''\nchecks = []\n";
        assert_eq!(AppFile::parse("x", text).unwrap().form, "app:x");
        assert!(AppFile::parse("x", &format!("tiem = 'x'\n{text}")).is_err());
        let error = |parameter: &str| {
            let text = format!("{text}[[parameters]]\nwhat = ''\n{parameter}\n");
            AppFile::parse("x", &text).unwrap_err().to_string()
        };
        assert!(error("name = 'SIZE'\ndefault = 1").contains("parameter `SIZE`: give `per_cpu` and `to`"));
        assert!(error("name = 'SIZE'\ndefault = 1\nto = 2\nfrom = 1").contains("unknown field `from`"));
        assert!(error("name = 'CPUS'\ndefault = 1\nto = 2").contains("none of"));
    }
}
