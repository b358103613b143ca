//! Real boots. They need QEMU and a kernel, and some seconds each, so they are ignored by default:
//! `cargo test --release -p flsched-vm -- --ignored`.
//!
//! Process 1 is the example `vm`, which cargo builds along with the tests of this package.
use flsched_vm::{
    Accel, Catalog, Clock, GuestCommand, GuestExit, Topology, Vm, VmError, VmSpec, programs_in,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::Hasher;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

fn init() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().and_then(Path::parent).unwrap().join("examples/vm");
    assert!(example.exists(), "{} is missing: cargo build --examples", example.display());
    example
}

/// Two emulated CPUs, which is what works everywhere.
fn spec() -> VmSpec {
    let kernel = Catalog::open(Box::new(|line| eprintln!("{line}")))
        .and_then(|catalog| catalog.resolve(&"6.18".parse().unwrap()))
        .unwrap();
    VmSpec {
        accel: Accel::Tcg,
        init: Some(init()),
        memory_mib: 512,
        ..VmSpec::new(kernel, Topology::flat(2))
    }
}

fn command(argv: &[&str]) -> GuestCommand {
    GuestCommand { argv: argv.iter().map(OsString::from).collect(), env: Vec::new() }
}

fn start(spec: VmSpec, argv: &[&str]) -> Result<Vm, VmError> {
    let command = command(argv);
    let programs = programs_in(&command.argv);
    Vm::start(&VmSpec { programs, ..spec }, &command)
}

fn read(stream: Option<UnixStream>) -> JoinHandle<Vec<u8>> {
    let mut stream = stream.unwrap();
    spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// How it ended, its stdout and its stderr.
fn run(spec: VmSpec, argv: &[&str]) -> (GuestExit, String, String) {
    let mut vm = start(spec, argv).unwrap();
    let (stdout, stderr) = (read(vm.take_stdout()), read(vm.take_stderr()));
    let exit = vm.wait().unwrap();
    let text = |bytes: JoinHandle<Vec<u8>>| String::from_utf8(bytes.join().unwrap()).unwrap();
    (exit, text(stdout), text(stderr))
}

/// Running processes whose command line has this word.
fn processes(word: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pid = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let has_word = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    all.filter_map(pid).filter(has_word).collect()
}

fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "boots VMs"]
fn exit_codes_and_both_outputs_pass() {
    let (exit, stdout, stderr) = run(spec(), &["sh", "-c", "uname -r; pwd; echo aside >&2; exit 7"]);
    assert_eq!(exit, GuestExit::Code(7));
    let here = std::env::current_dir().unwrap();
    assert_eq!(stdout, format!("{}\n{}\n", spec().kernel.release, here.display()));
    assert_eq!(stderr, "aside\n");
    assert_eq!(run(spec(), &["true"]).0, GuestExit::Code(0));
    assert_eq!(run(spec(), &["sh", "-c", "kill -KILL $$"]).0, GuestExit::Signal(9));
}

#[test]
#[ignore = "boots VMs"]
fn missing_and_denied_commands_have_exit_codes_of_their_own() {
    let missing = start(spec(), &["no-such-command"]).unwrap_err();
    assert_eq!(missing.exit_code(), 127, "{missing}");
    assert!(missing.to_string().contains("no-such-command"));
    let data = tempfile::NamedTempFile::new().unwrap();
    let denied = start(spec(), &[data.path().to_str().unwrap()]).unwrap_err();
    assert_eq!(denied.exit_code(), 126, "{denied}");
    assert!(denied.to_string().contains("ermission denied"), "{denied}");
}

/// Reads, and hashes what it reads, so that megabytes need not be kept.
fn digest(mut stream: UnixStream, pause: Duration) -> (u64, u64) {
    let (mut hasher, mut bytes, mut buffer) = (DefaultHasher::new(), 0, vec![0; 1 << 20]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        if count == 0 {
            return (bytes, hasher.finish());
        }
        for &byte in &buffer[..count] {
            hasher.write_u8(byte);
        }
        bytes += count as u64;
        sleep(pause);
    }
}

#[test]
#[ignore = "boots VMs"]
fn much_input_and_output_passes_unchanged() {
    // `tee` gives all of its input to both outputs; one reader is slow.
    let mut vm = start(spec(), &["tee", "/dev/stderr"]).unwrap();
    let (mut stdin, stdout, stderr) =
        (vm.take_stdin().unwrap(), vm.take_stdout().unwrap(), vm.take_stderr().unwrap());
    let fast = spawn(move || digest(stdout, Duration::ZERO));
    let slow = spawn(move || digest(stderr, Duration::from_millis(1)));
    let mut hasher = DefaultHasher::new();
    let mut total = 0;
    // Nothing that repeats at the length of any buffer on the way.
    let mut number = 1u64;
    while total < 20_000_000 {
        let chunk: Vec<u8> = (0..9973)
            .map(|_| {
                number =
                    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (number >> 56) as u8
            })
            .collect();
        chunk.iter().for_each(|&byte| hasher.write_u8(byte));
        stdin.write_all(&chunk).unwrap();
        total += chunk.len() as u64;
    }
    drop(stdin);
    assert_eq!(vm.wait().unwrap(), GuestExit::Code(0));
    let sent = (total, hasher.finish());
    assert_eq!(fast.join().unwrap(), sent);
    assert_eq!(slow.join().unwrap(), sent);
}

/// Where a clock counts instructions, an idle guest's time flies: no limit in the guest gives a reader time.
#[test]
#[ignore = "boots VMs"]
fn a_slow_reader_gets_what_is_left_when_the_command_has_ended() {
    let spec = VmSpec { clock: Clock::Work, accel: Accel::Auto, ..spec() };
    let mut vm = start(spec, &["head", "-c", "3000000", "/dev/zero"]).unwrap();
    let stdout = vm.take_stdout().unwrap();
    let slow = spawn(move || digest(stdout, Duration::from_millis(300)));
    assert_eq!(vm.wait().unwrap(), GuestExit::Code(0));
    assert_eq!(slow.join().unwrap().0, 3_000_000);
}

#[test]
#[ignore = "boots VMs"]
fn no_input_is_an_empty_input_and_a_closed_output_stops_the_writer() {
    let vm = start(spec(), &["cat"]).unwrap();
    assert_eq!(vm.wait().unwrap(), GuestExit::Code(0));

    let mut vm = start(spec(), &["yes"]).unwrap();
    let mut stdout = vm.take_stdout().unwrap();
    let mut line = [0; 2];
    stdout.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"y\n");
    drop(stdout);
    assert_eq!(vm.wait().unwrap(), GuestExit::Signal(Signal::SIGPIPE as i32));
}

#[test]
#[ignore = "boots VMs"]
fn signals_reach_the_command_and_its_children() {
    let script = "trap 'echo caught; exit 3' TERM; sleep 1000 & echo ready; wait";
    let mut vm = start(spec(), &["sh", "-c", script]).unwrap();
    let mut stdout = vm.take_stdout().unwrap();
    let mut ready = [0; 6];
    stdout.read_exact(&mut ready).unwrap();
    vm.signal(Signal::SIGTERM as i32);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(vm.wait().unwrap(), GuestExit::Code(3));
    assert_eq!(rest, "caught\n");
}

#[test]
#[ignore = "boots VMs"]
fn a_panic_is_reported_with_its_reason_and_log() {
    let vm = start(spec(), &["sh", "-c", "echo c > /proc/sysrq-trigger"]).unwrap();
    let begun = Instant::now();
    let error = vm.wait().unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(20));
    let VmError::GuestPanic { message, log } = &error else { panic!("{error}") };
    assert!(message.contains("sysrq triggered crash"), "{message}");
    assert_eq!(error.exit_code(), 122);
    let log = std::fs::read_to_string(log.0.as_ref().unwrap()).unwrap();
    assert!(log.contains("Call Trace") && log.contains("Linux version"), "{log}");
}

#[test]
#[ignore = "boots VMs"]
fn time_limits_hold() {
    let spec = VmSpec { run_limit: Some(Duration::from_secs(2)), ..spec() };
    let vm = start(spec.clone(), &["sleep", "1000"]).unwrap();
    let begun = Instant::now();
    let error = vm.wait().unwrap_err();
    assert_eq!(error.exit_code(), 124, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(40));
    // Where its tasks are is in the log.
    let VmError::RunTimeout { log, .. } = &error else { panic!("{error}") };
    let log = std::fs::read_to_string(log.0.as_ref().unwrap()).unwrap();
    assert!(log.contains("task:sleep") && log.contains("nanosleep"), "{log}");

    let spec = VmSpec { boot_limit: Some(Duration::from_millis(500)), ..spec };
    let error = start(spec, &["true"]).unwrap_err();
    assert_eq!(error.exit_code(), 120, "{error}");
}

#[test]
#[ignore = "boots VMs"]
fn a_hang_is_noticed_and_a_busy_guest_is_none() {
    let spec = VmSpec { hang_limit: Some(Duration::from_secs(6)), memory_mib: 525, ..spec() };
    // Ordinary work on all CPUs does not keep process 1 from answering.
    let busy = "for i in 1 2 3 4; do while :; do :; done & done; sleep 10; echo alive";
    let (exit, stdout, _) = run(spec.clone(), &["sh", "-c", busy]);
    assert_eq!((exit, stdout.as_str()), (GuestExit::Code(0), "alive\n"));

    let vm = start(spec, &["sleep", "1000"]).unwrap();
    let qemu = processes("\u{0}525M");
    let pid = Pid::from_raw(qemu[0] as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    let error = vm.wait().unwrap_err();
    assert!(matches!(error, VmError::Hung { .. }), "{error}");
    assert_eq!(error.exit_code(), 121);
    assert!(processes("\u{0}525M").is_empty());
}

#[test]
#[ignore = "boots VMs"]
fn cancelling_and_dropping_leave_nothing_behind() {
    // A name that only this test's guest memory has on QEMU's command line.
    let spec = VmSpec { memory_mib: 523, ..spec() };
    let vm = start(spec.clone(), &["sleep", "1000"]).unwrap();
    assert_eq!(processes("\u{0}523M").len(), 1);
    let cancel = spec.cancel.clone();
    let killer = spawn(move || {
        sleep(Duration::from_millis(300));
        cancel.store(true, Ordering::SeqCst);
    });
    let begun = Instant::now();
    let error = vm.wait().unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(error.exit_code(), 130, "{error}");
    killer.join().unwrap();
    assert!(processes("\u{0}523M").is_empty());

    // If it is set beforehand, the machine does not boot.
    assert_eq!(start(spec.clone(), &["true"]).unwrap_err().exit_code(), 130);

    spec.cancel.store(false, Ordering::SeqCst);
    drop(start(spec, &["sleep", "1000"]).unwrap());
    assert!(processes("\u{0}523M").is_empty());
}

#[test]
#[ignore = "boots VMs"]
fn killing_the_host_process_kills_the_vm() {
    let image = spec().kernel.image;
    let mut owner = Command::new(init())
        .args([image.as_os_str(), "1s3c1t".as_ref(), "wall".as_ref()])
        .args(["sleep", "1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let word = "cpus=3,sockets=1,cores=3";
    wait_until("QEMU starts", Duration::from_secs(60), || !processes(word).is_empty());
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("QEMU ends", Duration::from_secs(5), || processes(word).is_empty());
}

#[test]
#[ignore = "boots VMs"]
fn the_guest_sees_the_topology_asked_for() {
    let topology = "2n1s2c2t".parse().unwrap();
    let script = "cd /sys/devices/system/cpu; cat cpu*/topology/thread_siblings_list | sort -u | tr '\\n' ' '; \
                  cat cpu*/cache/index3/shared_cpu_list | sort -u | tr '\\n' ' '; \
                  cat ../node/node*/cpulist | tr '\\n' ' '; nproc";
    let (exit, stdout, _) = run(VmSpec { topology, memory_mib: 1024, ..spec() }, &["sh", "-c", script]);
    assert_eq!(exit, GuestExit::Code(0));
    assert_eq!(stdout, "0-1 2-3 4-5 6-7 0-3 4-7 0-3 4-7 8\n");
}

#[test]
#[ignore = "boots VMs"]
fn the_work_clock_repeats_itself() {
    let loops = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";
    let script = format!(
        "up() {{ cut -d' ' -f1 /proc/uptime | tr -d .; }}; {loops}; a=$(up); {loops}; {loops}; b=$(up); echo $((b-a))"
    );
    let took = || {
        let spec = VmSpec { clock: Clock::Work, accel: Accel::Auto, ..spec() };
        let (exit, stdout, stderr) = run(spec, &["sh", "-c", &script]);
        assert_eq!(exit, GuestExit::Code(0), "{stderr}");
        stdout.trim().parse::<f64>().unwrap()
    };
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(took);
        (took(), other.join().unwrap())
    });
    assert!(one > 20.0, "{one} hundredths of a second are too few to compare");
    let ratio = one / two;
    assert!((0.97..=1.03).contains(&ratio), "{one} and {two}");
}
