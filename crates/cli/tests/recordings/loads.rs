//! What is recorded: many small messages, a parallel build, a database.
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Load {
    /// It runs in a cgroup three levels deep, as in a login session, and in an autogroup.
    pub is_in_session: bool,
    /// Files and folders that the machine needs.
    pub include: Vec<PathBuf>,
    /// Done there before the recordings, by a shell.
    pub prepare: String,
    /// What is recorded, as a shell would read it.
    pub command: String,
}

type Make = fn(&Path) -> Result<Load, Box<dyn Error>>;

/// By name; each may use a folder, which the machine has under the same name. The model has no groups of tasks, and the
/// loads are recorded without. One of them is also recorded as it runs in a session.
pub const ALL: [(&str, Make); 4] = [
    ("hackbench", hackbench),
    ("hackbench-in-session", hackbench_in_session),
    ("build", build),
    ("pgbench", pgbench),
];

fn hackbench(_folder: &Path) -> Result<Load, Box<dyn Error>> {
    Ok(Load {
        is_in_session: false,
        include: vec![which::which("hackbench")?],
        prepare: String::new(),
        command: "hackbench -p -g 4 -l 300".into(),
    })
}

fn hackbench_in_session(folder: &Path) -> Result<Load, Box<dyn Error>> {
    Ok(Load { is_in_session: true, ..hackbench(folder)? })
}

/// `make` with twice as many jobs as CPUs. Real compilers, and sources that include no headers.
fn build(folder: &Path) -> Result<Load, Box<dyn Error>> {
    const FILES: usize = 32;
    let sources = folder.join("src");
    fs::create_dir(&sources)?;
    for file in 0..FILES {
        fs::write(sources.join(format!("f{file}.c")), functions(file))?;
    }
    let objects: Vec<String> = (0..FILES).map(|file| format!("f{file}.o")).collect();
    let rule = "\tgcc -O2 -ffreestanding -c $< -o $@\n";
    fs::write(sources.join("Makefile"), format!("all: {}\n%.o: %.c\n{rule}", objects.join(" ")))?;
    let part = |name: &str| -> Result<PathBuf, Box<dyn Error>> {
        let output = Command::new("gcc").arg(format!("-print-prog-name={name}")).output()?;
        Ok(which::which(String::from_utf8(output.stdout)?.trim())?)
    };
    Ok(Load {
        is_in_session: false,
        include: vec![
            which::which("make")?,
            which::which("gcc")?,
            part("cc1")?,
            part("as")?,
            sources.clone(),
        ],
        prepare: String::new(),
        command: format!("make -s -r -B -j8 -C {}", sources.display()),
    })
}

/// Three functions, each a little different.
fn functions(file: usize) -> String {
    let function = |number: usize| {
        let (a, b) = (file + number + 3, number % 5 + 2);
        format!(
            "unsigned g{number}(unsigned *data, unsigned count)\n{{\n\tunsigned sum = {a};\n\
             \tfor (unsigned i = 0; i < count; i++)\n\t\tswitch (data[i] % {a}) {{\n\t\tcase 0: sum += data[i] * {b}; break;\n\
             \t\tcase 1: sum ^= data[i] >> {b}; break;\n\t\tdefault: data[i] = sum % {b} ? sum : data[i] + {a};\n\t\t}}\n\
             \treturn sum;\n}}\n"
        )
    };
    (0..3).map(function).collect()
}

/// PostgreSQL as Debian packages it: a server with 16 clients that change accounts.
fn pgbench(folder: &Path) -> Result<Load, Box<dyn Error>> {
    let version = fs::read_dir("/usr/lib/postgresql")
        .map_err(|e| format!("/usr/lib/postgresql: {e}; apt-get install postgresql"))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse::<u32>().ok())
        .max()
        .ok_or("no version in /usr/lib/postgresql")?;
    let library = PathBuf::from(format!("/usr/lib/postgresql/{version}"));
    let program = |name: &str| library.join("bin").join(name);
    let data = folder.join("pg");
    let (run, at) = (folder.display(), data.display());
    // The server refuses to run as root, and its user has to get there.
    let server = format!(
        "setpriv --reuid=postgres --regid=postgres --clear-groups {} -D {at} -o '-k {run} -c jit=off -h \"\"' -w -l {run}/log",
        program("pg_ctl").display()
    );
    let script = format!(
        "set -e; chmod 755 {run}; mkdir {at}; touch {run}/log; chown postgres:postgres {run} {at} {run}/log\n\
         setpriv --reuid=postgres --regid=postgres --clear-groups {} -D {at} -A trust --locale=C --encoding=UTF8 \
         --wal-segsize=1\n{server} start\n{} -U postgres -h {run} -i -q -s 4 postgres\n{server} stop\n",
        program("initdb").display(),
        program("pgbench").display(),
    );
    let output = Command::new("sh").args(["-c", &script]).output()?;
    if !output.status.success() {
        return Err(format!("initdb: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let mut include: Vec<PathBuf> = ["postgres", "pg_ctl", "pgbench"].map(program).into();
    include.extend(["plpgsql.so", "dict_snowball.so"].map(|name| library.join("lib").join(name)));
    include.push(format!("/usr/share/postgresql/{version}").into());
    include.extend(["/usr/share/zoneinfo", "/etc/passwd", "/etc/group"].map(PathBuf::from));
    include.push(data.clone());
    Ok(Load {
        is_in_session: false,
        include,
        prepare: format!(
            "mkdir -p /dev/shm\nmount -t tmpfs none /dev/shm\nchmod 1777 /dev/shm\ntouch {run}/log\n\
             chown -R postgres:postgres {run}\nchmod 700 {at}\n{server} start >&2"
        ),
        command: format!("{} -U postgres -h {run} -c 16 -j 4 -t 50 postgres", program("pgbench").display()),
    })
}
