//! The input of an application: made once by its script, on the machine that has the tools, and kept in the cache
//! folder under a name that depends on all that determines it.
use super::needs::{self, Missing};
use super::variables;
use flsched_spec::UsageError;
use flsched_spec::app::AppFile;
use flsched_spec::workload::App;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The name of the application's own file among its input: the helper reads it there, also in a virtual machine.
pub(super) const FILE: &str = "app.toml";

/// Why there is no input.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It is not installed.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The catalogue does not have it.
    #[error(transparent)]
    Unknown(#[from] UsageError),
    /// The script failed.
    #[error("app:{app}: its input could not be made: {complaint}")]
    Refused {
        /// The application's name.
        app: String,
        /// How it ended, and the end of what it printed.
        complaint: String,
    },
    /// There is no cache folder.
    #[error("no folder for the input of applications: set FLSCHED_CACHE, or HOME")]
    NoCacheFolder,
    /// A file cannot be written.
    #[error(
        "cannot write {}: {}; free space there, or set FLSCHED_CACHE to a folder you may write to",
        .0.display(),
        .1
    )]
    Io(PathBuf, io::Error),
}

/// The folder with the input; makes it if the cache does not have it.
pub(super) fn folder(app: &App) -> Result<PathBuf, InputError> {
    let file = app.file()?;
    let programs = needs::find(file)?.programs;
    let cache = flsched_vm::cache_folder().ok_or(InputError::NoCacheFolder)?.join("apps");
    fs::create_dir_all(&cache).map_err(|error| InputError::Io(cache.clone(), error))?;
    folder_in(&cache, file, &app.values, &programs)
}

fn folder_in(
    cache: &Path,
    file: &AppFile,
    values: &[String],
    programs: &[PathBuf],
) -> Result<PathBuf, InputError> {
    let variables: Vec<_> =
        variables(file, values).into_iter().filter(|(name, _)| file.input.contains(name.as_str())).collect();
    let place = cache.join(format!("{}-{}", file.stem(), key(file, &variables, programs)));
    if place.is_dir() {
        return Ok(place);
    }
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| InputError::Io(path, error)
    };
    // In the cache folder, because a rename is atomic only within a file system.
    let folder = tempfile::tempdir_in(cache).map_err(io(cache))?;
    let own = (FILE.to_owned(), file.text.clone());
    for (name, text) in file.companions.iter().chain([&own]) {
        let path = folder.path().join(name);
        fs::write(&path, text).map_err(io(&path))?;
    }
    make(file, &variables, folder.path())?;
    let made = folder.keep();
    match fs::rename(&made, &place) {
        Ok(()) => Ok(place),
        // Another process was faster.
        Err(_) if place.is_dir() => {
            let _ = fs::remove_dir_all(&made);
            Ok(place)
        }
        Err(error) => Err(InputError::Io(place, error)),
    }
}

/// A hash of everything that determines the input. A program that has been updated may need another one.
fn key(file: &AppFile, variables: &[(String, String)], programs: &[PathBuf]) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(&file.text);
    variables.iter().for_each(|(name, value)| add(&format!("{name}={value}")));
    file.companions.iter().for_each(|(_, text)| add(text));
    for program in programs {
        let made = fs::metadata(program).map(|it| (it.len(), it.mtime())).unwrap_or_default();
        add(&format!("{} {made:?}", program.display()));
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn make(file: &AppFile, variables: &[(String, String)], folder: &Path) -> Result<(), InputError> {
    let refused = |complaint: String| InputError::Refused { app: file.name.clone(), complaint };
    let output = Command::new("sh")
        .args(["-euc", &file.input])
        .current_dir(folder)
        .env("PATH", needs::path(file))
        .env("LC_ALL", "C")
        .envs(variables.iter().cloned())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| refused(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last: Vec<_> = said.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    let last: Vec<_> = last.into_iter().rev().collect();
    Err(refused(format!("{}: {}", output.status, last.join(" | "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(input: &str) -> AppFile {
        let text = format!(
            "what = ''\nsource = ''\nlicence = ''\npackages = ['x']\nprograms = ['ls']\n\
             input = '''{input}'''\nrun = ''\nchecks = []\n\
             [[parameters]]\nname = 'SIZE'\nwhat = ''\ndefault = 1\nto = 9\n"
        );
        AppFile::parse("some", &text).unwrap()
    }

    #[test]
    fn input_is_made_once_for_each_of_its_parameters() {
        let cache = tempfile::tempdir().unwrap();
        let file = app("echo $SIZE > data\nls | grep -q data\n");
        let folder = |size: &str| folder_in(cache.path(), &file, &[size.into()], &[]).unwrap();
        let first = folder("1");
        assert_eq!(fs::read_to_string(first.join("data")).unwrap(), "1\n");
        fs::write(first.join("mark"), "").unwrap();
        assert!(first.join(FILE).exists());
        assert_eq!(folder("1"), first);
        assert!(first.join("mark").exists(), "not made again");
        assert_ne!(folder("2"), first);
        let other = app("echo other > data\n");
        let one = folder_in(cache.path(), &other, &["1".into()], &[]).unwrap();
        assert_eq!(
            folder_in(cache.path(), &other, &["2".into()], &[]).unwrap(),
            one,
            "it does not depend on SIZE"
        );
    }

    #[test]
    fn a_script_that_fails_leaves_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let file = app("echo half > data\necho 'no space' >&2\nexit 3\n");
        let error = folder_in(cache.path(), &file, &["1".into()], &[]).unwrap_err().to_string();
        assert_eq!(error, "app:some: its input could not be made: exit status: 3: no space");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
    }
}
