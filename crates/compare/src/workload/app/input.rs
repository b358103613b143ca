//! The input of an application: made once by its script, on the machine that has the tools, and kept in the cache
//! folder under a name that depends on all that determines it.
use super::complaint::complaint;
use super::needs::{self, Missing};
use super::variables;
use crate::workload::Making;
use flsched_base::process::{end_with_parent, wait_for};
use flsched_spec::UsageError;
use flsched_spec::app::AppFile;
use flsched_spec::workload::App;
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Pause between two checks whether to stop.
const CHECK: Duration = Duration::from_millis(100);

/// The name of the application's own file among its input: the helper reads it there, also in a virtual machine.
pub(super) const FILE: &str = "app.toml";

/// Begins the names of folders whose input is not complete.
const UNFINISHED: &str = ".tmp";

/// Why there is no input.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It is not installed.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The catalogue does not have it.
    #[error(transparent)]
    Unknown(#[from] UsageError),
    #[error("app:{app}: its input could not be made: {complaint}")]
    Refused {
        app: String,
        /// How it ended, and the end of what it printed.
        complaint: String,
    },
    /// The script did not end.
    #[error("app:{app}: its input was not made within {} s; use smaller parameters, or less other load", .limit.as_secs())]
    Late {
        app: String,
        /// How long it had.
        limit: Duration,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
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
pub(super) fn folder(app: &App, making: &Making<'_>) -> Result<PathBuf, InputError> {
    let file = app.file()?;
    let programs = needs::find(file)?.programs;
    let cache = flsched_vm::cache_folder().ok_or(InputError::NoCacheFolder)?.join("apps");
    fs::create_dir_all(&cache).map_err(|error| InputError::Io(cache.clone(), error))?;
    folder_in(&cache, file, &app.values, &programs, making)
}

fn folder_in(
    cache: &Path,
    file: &AppFile,
    values: &[String],
    programs: &[PathBuf],
    making: &Making<'_>,
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
    let _in_use = enter(cache).map_err(io(cache))?;
    // In the cache folder, because a rename is atomic only within a file system.
    let folder = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(cache).map_err(io(cache))?;
    let own = (FILE.to_owned(), file.text.clone());
    for (name, text) in file.companions.iter().chain([&own]) {
        let path = folder.path().join(name);
        fs::write(&path, text).map_err(io(&path))?;
    }
    make(file, &variables, folder.path(), making)?;
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

/// Removes what killed processes have left, unless another process makes input now. As long as the result is there, no
/// other process removes anything.
fn enter(cache: &Path) -> io::Result<File> {
    let lock = File::open(cache)?;
    if lock.try_lock().is_ok() {
        for entry in fs::read_dir(cache)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        lock.unlock()?;
    }
    // Where the file system has no locks, nobody removes anything.
    let _ = lock.lock_shared();
    Ok(lock)
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

fn make(
    file: &AppFile,
    variables: &[(String, String)],
    folder: &Path,
    making: &Making<'_>,
) -> Result<(), InputError> {
    if file.input.is_empty() {
        return Ok(());
    }
    (making.tell)(&format!("making the input of app:{}, once", file.name));
    let refused =
        |error: io::Error| InputError::Refused { app: file.name.clone(), complaint: error.to_string() };
    // No thread has to read it, and it is gone when this ends.
    let mut printed = tempfile::tempfile().map_err(refused)?;
    let mut command = Command::new("sh");
    command
        .args(["-euc", &file.input])
        .current_dir(folder)
        .env("PATH", needs::path(file))
        .env("LC_ALL", "C")
        .envs(variables.iter().cloned())
        .stdin(Stdio::null())
        .stdout(printed.try_clone().map_err(refused)?)
        .stderr(printed.try_clone().map_err(refused)?)
        .process_group(0);
    let status = end_of(&mut command, file, making)?;
    if status.success() {
        return Ok(());
    }
    let complaint = complaint(status, &all_of(&mut printed));
    Err(InputError::Refused { app: file.name.clone(), complaint })
}

/// Runs the script; whatever it has started ends when it must not go on.
fn end_of(
    command: &mut Command,
    file: &AppFile,
    making: &Making<'_>,
) -> Result<std::process::ExitStatus, InputError> {
    let refused =
        |error: io::Error| InputError::Refused { app: file.name.clone(), complaint: error.to_string() };
    let started = Instant::now();
    let mut child = end_with_parent(command).spawn().map_err(refused)?;
    let stopped = loop {
        if let Some(status) = wait_for(&mut child, CHECK).map_err(refused)? {
            return Ok(status);
        }
        if making.cancel.load(Ordering::Relaxed) {
            break InputError::Interrupted;
        }
        if started.elapsed() > making.limit {
            break InputError::Late { app: file.name.clone(), limit: making.limit };
        }
    };
    let _ = killpg(Pid::from_raw(child.id() as libc::pid_t), Signal::SIGKILL);
    let _ = child.wait();
    Err(stopped)
}

fn all_of(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What cannot be read is missing from a message only.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    bytes
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
        let folder =
            |size: &str| folder_in(cache.path(), &file, &[size.into()], &[], &Making::quietly()).unwrap();
        let first = folder("1");
        assert_eq!(fs::read_to_string(first.join("data")).unwrap(), "1\n");
        fs::write(first.join("mark"), "").unwrap();
        assert!(first.join(FILE).exists());
        assert_eq!(folder("1"), first);
        assert!(first.join("mark").exists(), "not made again");
        assert_ne!(folder("2"), first);
        let other = app("echo other > data\n");
        let of_other =
            |size: &str| folder_in(cache.path(), &other, &[size.into()], &[], &Making::quietly()).unwrap();
        assert_eq!(of_other("2"), of_other("1"), "it does not depend on SIZE");
    }

    #[test]
    fn what_killed_processes_left_is_removed_unless_another_is_at_work() {
        let cache = tempfile::tempdir().unwrap();
        let file = app("echo data > data\n");
        let make =
            |size: &str| folder_in(cache.path(), &file, &[size.into()], &[], &Making::quietly()).unwrap();
        let (left, other) = (cache.path().join(".tmpleft"), cache.path().join("other"));
        fs::create_dir(&left).unwrap();
        fs::create_dir(&other).unwrap();
        let at_work = File::open(cache.path()).unwrap();
        at_work.lock_shared().unwrap();
        let made = make("1");
        assert!(left.exists());
        drop(at_work);
        fs::remove_dir_all(&made).unwrap();
        make("1");
        assert!(!left.exists() && other.exists() && made.exists());
    }

    #[test]
    fn a_script_that_fails_leaves_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let file = app("echo half > data\necho 'no space' >&2\nexit 3\n");
        let error =
            folder_in(cache.path(), &file, &["1".into()], &[], &Making::quietly()).unwrap_err().to_string();
        assert_eq!(error, "app:some: its input could not be made: exit status: 3: no space");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_script_that_does_not_end_is_ended_with_all_that_it_started() {
        let cache = tempfile::tempdir().unwrap();
        let file = app("sleep 61 & sleep 62\n");
        let stop = std::sync::atomic::AtomicBool::new(true);
        let short = Making { limit: Duration::from_millis(1), ..Making::quietly() };
        let stopped = Making { cancel: &stop, ..Making::quietly() };
        for (making, what) in [(short, "not made within 0 s"), (stopped, "interrupted")] {
            let error = folder_in(cache.path(), &file, &["1".into()], &[], &making).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
        }
    }
}
