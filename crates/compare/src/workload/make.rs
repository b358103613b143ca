//! A parallel build: `make` with many jobs, each a real compiler for a fraction of a second. There are many
//! short-lived processes, which start others, read and write files, and hardly wait for each other.
//!
//! The sources are generated, are always the same, and include no headers. So the work depends on the compiler
//! alone.
use super::{Needs, Runnable, built_in};
use flsched_spec::UsageError;
use flsched_spec::workload::Make;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `-ffreestanding`, because gcc otherwise includes a header of the C library.
const FLAGS: &str = "-O2 -ffreestanding -c";

impl Runnable for Make {
    fn argv(&self, helper: &[OsString], scratch: &Path) -> Vec<OsString> {
        let mut argv = built_in(helper, self);
        argv.push(scratch.into());
        argv
    }

    fn needs(&self) -> Result<Needs, UsageError> {
        programs().map(Needs::programs)
    }
}

/// Runs the workload in `folder` and prints its time. Returns the exit code.
pub(super) fn run(of: Make, folder: &Path) -> i32 {
    match measure(of, folder) {
        Ok(time) => {
            println!("Time: {:.6}", time.as_secs_f64());
            0
        }
        Err(error) => {
            eprintln!("make: {error}");
            1
        }
    }
}

/// The time that `make` takes.
fn measure(of: Make, folder: &Path) -> io::Result<Duration> {
    let compiler = compiler().map_err(io::Error::other)?;
    for file in 0..of.files {
        fs::write(folder.join(format!("file{file}.c")), source(file))?;
    }
    fs::write(folder.join("Makefile"), makefile(of, &compiler))?;
    let mut make = Command::new("make");
    make.args(["--silent", "--no-builtin-rules", "--jobs", &of.jobs.to_string()])
        .current_dir(folder)
        // The compiler's temporary files are removed with the folder after the run.
        .env("TMPDIR", folder)
        .stdin(Stdio::null());
    // The variables of a `make` that started this program must not affect this one.
    for variable in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEFILES"] {
        make.env_remove(variable);
    }
    let start = Instant::now();
    let status = make.status()?;
    let time = start.elapsed();
    match status.success() {
        true => Ok(time),
        false => Err(io::Error::other(format!("it ended with {status}"))),
    }
}

fn makefile(of: Make, compiler: &Path) -> String {
    let objects: Vec<_> = (0..of.files).map(|file| format!("file{file}.o")).collect();
    format!(
        "all: {}\n%.o: %.c\n\t{} {FLAGS} $< -o $@\n",
        objects.join(" "),
        shell_words::quote(&compiler.to_string_lossy())
    )
}

/// gcc, or else `cc`.
fn compiler() -> Result<PathBuf, UsageError> {
    which::which("gcc").or_else(|_| which::which("cc")).map_err(|_| {
        UsageError("no gcc and no cc in PATH; on Debian or Ubuntu: apt-get install gcc libc6-dev".into())
    })
}

/// `make`, the compiler, and the programs that the compiler starts.
fn programs() -> Result<Vec<PathBuf>, UsageError> {
    let make = which::which("make")
        .map_err(|_| UsageError("make is not in PATH; on Debian or Ubuntu: apt-get install make".into()))?;
    let compiler = compiler()?;
    // gcc prints the path of its own programs, or only the name if the program is in PATH.
    let part = |name: &str| {
        let argument = format!("-print-prog-name={name}");
        let output = Command::new(&compiler).arg(argument).stdin(Stdio::null()).output().ok()?;
        which::which(String::from_utf8_lossy(&output.stdout).trim()).ok()
    };
    let parts: Vec<_> = ["cc1", "as"].into_iter().filter_map(part).collect();
    Ok([make, compiler].into_iter().chain(parts).collect())
}

/// A function with loops, branches and a table. Compiling it takes about as long as starting the compiler, so a run
/// consists of many starts and exits.
fn source(file: u64) -> String {
    let (a, b, c) = (file % 7 + 2, file % 11 + 3, file % 13 + 1);
    format!(
        "struct item {{ unsigned key, value; struct item *next; }};\n\
         static const unsigned table[16] = {{ {a}, {b}, {c}, {file} }};\n\
         unsigned work{file}(struct item *list, unsigned *data, unsigned count)\n\
         {{\n\
         \tunsigned sum = {file};\n\
         \tfor (unsigned i = 0; i < count; i++) {{\n\
         \t\tswitch (data[i] % {b}) {{\n\
         \t\tcase 0: sum += data[i] * {a}; break;\n\
         \t\tcase 1: sum ^= data[i] >> {c}; break;\n\
         \t\tcase 2: sum -= table[data[i] & 15]; break;\n\
         \t\tdefault: data[i] = sum % {a} ? sum : data[i] + {c};\n\
         \t\t}}\n\
         \t\tfor (unsigned j = i; j < count && data[j] != sum; j += {a})\n\
         \t\t\tdata[j] = data[j] * {b} + table[j & 15];\n\
         \t}}\n\
         \tfor (struct item *at = list; at; at = at->next)\n\
         \t\tif (at->key % {a} == {c} % {a})\n\
         \t\t\tat->value = sum += at->key / {b};\n\
         \treturn sum;\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_always_the_same_and_never_alike() {
        assert_eq!(source(3), source(3));
        assert_ne!(source(3), source(4));
    }

    #[test]
    fn a_makefile_names_every_file() {
        let text = makefile(Make { jobs: 1, files: 2 }, Path::new("/usr/bin/gcc"));
        assert_eq!(text, "all: file0.o file1.o\n%.o: %.c\n\t/usr/bin/gcc -O2 -ffreestanding -c $< -o $@\n");
    }
}
