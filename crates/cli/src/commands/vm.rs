//! `flsched vm -- CMD`: CMD on a stock kernel in a virtual machine.
use crate::args;
use crate::machine;
use crate::progress::Progress;
use crate::signals;
use anyhow::{Context, Result};
use flsched_vm::kernel::Place;
use flsched_vm::{
    Accel, Arch, BtfHealth, Catalog, Clock, EmulatorError, GuestCommand, GuestExit, Vm, VmError, VmSpec,
    emulator, programs_in,
};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

pub fn run(args: &args::Vm) -> Result<u8> {
    if args.list {
        return list(args.arch);
    }
    let cancel = signals::stop_flag()?;
    let accel = machine::accel(args.accel);
    let clock = clock(args.arch, args.clock, accel)?;
    let topology = machine::topology(args.cpus, args.topology.as_deref(), clock)?;
    let memory = machine::memory(args.memory.as_deref(), topology.cpus())?;
    Vm::check(args.arch, clock, accel)?;

    let progress = Progress::start();
    let booted = (|| {
        let (kernel, foreign) = machine::kernel(&args.kernel, args.arch, &progress, &cancel)?;
        let release = kernel.release.clone();
        progress.show(&format!("booting {release} with {} CPUs", topology.cpus()));
        let spec = VmSpec {
            foreign,
            memory_mib: memory.mib,
            kernel_arguments: args.append.clone(),
            clock,
            accel,
            cgroup: machine::cgroup(args.cgroup),
            programs: programs_in(&args.command),
            files: args.include.clone(),
            run_limit: args.timeout.map(Duration::from_secs),
            cancel,
            ..VmSpec::new(kernel, topology)
        };
        let command = GuestCommand { argv: args.command.clone(), env: environment(clock) };
        Ok::<_, anyhow::Error>(Vm::start(&spec, &command)?)
    })();
    progress.end();
    let mut vm = booted?;
    if args.verbose {
        let info = vm.boot_info();
        eprintln!(
            "{} with {} CPUs on {}, booted in {:.1} s",
            info.release,
            info.cpus,
            info.accel,
            info.boot_time.as_secs_f64()
        );
    }
    if let Some(note) = &vm.boot_info().accel_note {
        eprintln!("flsched: {note}");
    }
    let exit = carry(&mut vm).and_then(|()| Ok(vm.wait()?))?;
    Ok(match exit {
        GuestExit::Code(code) => u8::try_from(code & 0xff)?,
        GuestExit::Signal(signal) => {
            eprintln!("flsched: the command was killed by signal {signal}");
            u8::try_from(128 + signal).unwrap_or(u8::MAX)
        }
    })
}

/// The clock that the user chose, else the best one that is available.
fn clock(arch: Arch, chosen: Option<Clock>, accel: Accel) -> Result<Clock, VmError> {
    if let Some(clock) = chosen {
        return Ok(clock);
    }
    // KVM runs in real time.
    if accel == Accel::Kvm {
        return Ok(Clock::Wall);
    }
    match emulator::find_for(arch) {
        Ok(_) => Ok(Clock::default()),
        Err(EmulatorError::NotBuilt { .. }) => {
            let option = if arch.is_foreign() { format!(" --arch {arch}") } else { String::new() };
            eprintln!(
                "flsched: on the wall clock, as FLSCHED's own build of QEMU, which the parallel clock needs, is \
                 not there (`flsched emulator build{option}` builds it)"
            );
            Ok(Clock::Wall)
        }
        Err(error) => Err(error.into()),
    }
}

/// The command's environment: its clock, which it could not find out, and some of the user's
/// variables.
fn environment(clock: Clock) -> Vec<(OsString, OsString)> {
    let mut variables = passed_on();
    variables.retain(|(name, _)| name != flsched_probes::CLOCK_VARIABLE);
    variables.push((flsched_probes::CLOCK_VARIABLE.into(), clock.to_string().into()));
    variables
}

/// The user's variables that programs commonly read; the others are the guest's own.
fn passed_on() -> Vec<(OsString, OsString)> {
    std::env::vars_os()
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            ["LANG", "LC_ALL", "TZ", "RUST_BACKTRACE"].contains(&&*name)
                || ["OMP_", "KMP_", "GOMP_", "FLSCHED_"].iter().any(|prefix| name.starts_with(prefix))
        })
        .collect()
}

/// Carries input and output between us and the command; returns when its output has ended.
fn carry(vm: &mut Vm) -> Result<()> {
    if let Some(stdin) = vm.take_stdin() {
        // Not joined: it may block without limit in a read of the terminal.
        thread::spawn(move || {
            let mut port = &stdin;
            let _ = io::copy(&mut io::stdin().lock(), &mut port);
            let _ = stdin.shutdown(Shutdown::Write);
        });
    }
    let out = vm.take_stdout().map(|port| thread::spawn(move || copy(port, io::stdout())));
    let err = vm.take_stderr().map(|port| thread::spawn(move || copy(port, io::stderr())));
    // Both end when the command has ended, and when the machine is killed.
    for (thread, what) in [(out, "output"), (err, "errors")] {
        if let Some(thread) = thread {
            let copied = thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            copied.with_context(|| format!("cannot pass on the command's {what}"))?;
        }
    }
    Ok(())
}

/// As it comes, not by lines.
fn copy(mut from: UnixStream, mut to: impl Write) -> io::Result<()> {
    let mut buffer = [0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                to.write_all(&buffer[..length])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // QEMU was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn list(arch: Arch) -> Result<u8> {
    let progress = Progress::start();
    let reporter = progress.clone();
    let listed = Catalog::open(Box::new(move |line| reporter.report(line)))
        .and_then(|catalog| catalog.of(arch).list());
    progress.end();
    let listed = listed.map_err(VmError::from)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{:<34} {:<8} {:<22} SCHEDULERS", "KERNEL", "SERIES", "WHERE")?;
    for kernel in listed {
        let size =
            kernel.download_bytes.map(|bytes| format!(" ({} MB)", bytes / 1_000_000)).unwrap_or_default();
        // A kernel that turns out to refuse schedulers is skipped: the next older one of the series is tried.
        let chosen = if kernel.btf.is_some() { "chosen" } else { "tried first" };
        let health = match kernel.btf {
            Some(BtfHealth::Good) => "load".into(),
            Some(BtfHealth::Malformed(kfuncs)) => {
                format!("REFUSED: types of {} kfuncs malformed", kfuncs.len())
            }
            Some(BtfHealth::Unknown(why)) => format!("not known: {why}"),
            None => "not known until downloaded".into(),
        };
        let mark = match (kernel.default, kernel.series_default) {
            (true, _) => format!("  ← {chosen} by default"),
            (_, true) => format!("  ← {chosen} for --kernel {}", kernel.series),
            _ => String::new(),
        };
        let place = match kernel.place {
            Place::Host => "this machine's own".into(),
            Place::Cached => "downloaded".into(),
            Place::Available => format!("to download{size}"),
            Place::Gone => "no longer offered".to_owned(),
        };
        writeln!(out, "{:<34} {:<8} {place:<22} {health}{mark}", kernel.release, kernel.series)?;
    }
    Ok(0)
}
