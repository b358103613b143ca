//! One run of an application, in the helper's process: what its scripts do before, timed, and after.
use super::complaint::complaint;
use super::input::FILE;
use super::reading::read;
use super::{needs, variables};
use crate::monotonic::monotonic;
use flsched_base::process::end_with_parent;
use flsched_spec::UsageError;
use flsched_spec::app::AppFile;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the application that these words name: its name, its values, the folder of its input, and a folder for this run.
/// Returns the exit code.
pub(in crate::workload) fn run(words: &[String]) -> Result<i32, UsageError> {
    let wrong = || UsageError("app: not NAME VALUE… INPUT FOLDER".into());
    let [name, values @ .., input, folder] = words else { return Err(wrong()) };
    let (input, folder) = (Path::new(input), Path::new(folder));
    let text =
        fs::read_to_string(input.join(FILE)).map_err(|error| UsageError(format!("app:{name}: {error}")))?;
    let file = AppFile::parse(name, &text).map_err(|error| UsageError(format!("app:{name}: {error}")))?;
    if values.len() != file.parameters.len() {
        return Err(wrong());
    }
    let scene = Scene { file: &file, values, input, folder };
    Ok(match scene.play() {
        Ok(printed) => {
            print!("{printed}");
            0
        }
        Err(error) => {
            eprintln!("{error}");
            1
        }
    })
}

/// Where and with what the scripts are run.
struct Scene<'a> {
    file: &'a AppFile,
    values: &'a [String],
    input: &'a Path,
    folder: &'a Path,
}

impl Scene<'_> {
    /// All of it; returns the lines with its figures.
    fn play(&self) -> Result<String, String> {
        self.act("before", &self.file.before)?;
        let began = Instant::now();
        self.act("run", &self.file.run)?;
        let took = began.elapsed();
        let ended = monotonic();
        self.act("after", &self.file.after)?;
        self.verdict(took, ended)
    }

    /// The figures of a run that is right.
    fn verdict(&self, took: Duration, ended: Duration) -> Result<String, String> {
        let output = fs::read(self.output()).map_err(|error| error.to_string())?;
        let output = String::from_utf8_lossy(&output);
        let reading = read(self.file, &output)?;
        let time_s = reading.time_s.unwrap_or(took.as_secs_f64());
        let figures = reading.figures.iter().map(|(name, value)| format!("Figure: {name} {value}\n"));
        let figures: String = figures.collect();
        Ok(format!("Time: {time_s:.9}\nEnded: {}\n{figures}", ended.as_nanos()))
    }

    /// Runs one script. What it prints goes to a file, so that nobody has to read it while it runs.
    fn act(&self, part: &str, script: &str) -> Result<(), String> {
        if script.is_empty() {
            return Ok(());
        }
        let status = self.shell(script).map_err(|error| format!("{part}: {error}"))?;
        match status.success() {
            true => Ok(()),
            false => {
                let printed = fs::read(self.output()).unwrap_or_default();
                Err(format!("{part}: {}", complaint(status, &printed)))
            }
        }
    }

    fn shell(&self, script: &str) -> io::Result<std::process::ExitStatus> {
        let output = File::options().create(true).append(true).open(self.output())?;
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let work = self.folder.join("work");
        fs::create_dir_all(&work)?;
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", script])
            .current_dir(&work)
            .env("PATH", needs::path(self.file))
            .env("LC_ALL", "C")
            .env("TMPDIR", self.folder)
            .env("INPUT", self.input)
            .env("CPUS", cpus.to_string())
            .envs(variables(self.file, self.values))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        end_with_parent(&mut shell).status()
    }

    fn output(&self) -> std::path::PathBuf {
        self.folder.join("output")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(scripts: &str) -> Result<String, String> {
        let text = format!(
            "what = ''\nsource = ''\nlicence = ''\npackages = []\nprograms = []\n{scripts}\n\
             [[checks]]\nwhat = 'the sum'\nline = '^sum 3$'\n\
             [[parameters]]\nname = 'THREADS'\nwhat = ''\nper_cpu = 2\nto = 9\n"
        );
        let file = AppFile::parse("some", &text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let values = ["3".to_owned()];
        Scene { file: &file, values: &values, input: Path::new("/etc"), folder: folder.path() }.play()
    }

    #[test]
    fn a_run_has_its_parameters_and_is_timed_alone() {
        let printed = play(
            "before = 'sleep 0.3; echo sum > begin'\nrun = 'echo $(cat begin) $THREADS; test -e $INPUT/hosts'",
        );
        let printed = printed.unwrap();
        let time = crate::workload::seconds(&printed).unwrap();
        assert!(time > 0.0 && time < 0.3, "{printed}");
    }

    #[test]
    fn a_script_that_fails_is_named() {
        let error = play("before = 'echo no disk; exit 4'\nrun = 'true'").unwrap_err();
        assert_eq!(error, "before: exit status: 4: no disk");
        let error = play("run = 'echo $NO_SUCH'").unwrap_err();
        assert!(error.starts_with("run: exit status: 2: ") && error.contains("NO_SUCH"), "{error}");
        let error = play("run = 'kill -9 $$'").unwrap_err();
        assert!(error.starts_with("run: signal: 9"), "{error}");
    }

    #[test]
    fn a_wrong_result_fails() {
        let error = play("run = 'echo sum 4'").unwrap_err();
        assert_eq!(error, "wrong result: the sum: no line of the output is like `^sum 3$`");
    }
}
