//! Boots a kernel image and runs a command in it: this crate and nothing else.
//!
//! `cargo run --release -p flsched-vm --example vm -- IMAGE 2s2c1t CLOCK CMD…`
use flsched_vm::{BtfHealth, Clock, GuestCommand, Kernel, Vm, VmError, VmSpec, guest, programs_in};
use std::ffi::OsString;
use std::io;
use std::process::exit;

fn main() {
    if guest::is_guest_init() {
        guest::main();
    }
    match run() {
        Ok(code) => exit(code),
        Err(error) => {
            eprintln!("vm: {error}");
            exit(error.exit_code());
        }
    }
}

fn run() -> Result<i32, VmError> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(image), Some(topology), Some(clock)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err(VmError::BadMachine("usage: vm IMAGE TOPOLOGY CLOCK CMD…".into()));
    };
    let image = std::path::PathBuf::from(image);
    let release =
        image.to_string_lossy().split_once("vmlinuz-").map_or("", |(_, release)| release).to_owned();
    let config = Some(image.with_file_name(format!("config-{release}"))).filter(|config| config.exists());
    let kernel = Kernel { release, image, config, btf: BtfHealth::Good };
    let topology = topology.to_string_lossy().parse().map_err(VmError::Topology)?;
    let clock: Clock = clock
        .to_string_lossy()
        .parse()
        .map_err(|error: flsched_vm::ClockError| VmError::BadMachine(error.to_string()))?;
    let argv: Vec<OsString> = arguments.collect();
    let spec = VmSpec { programs: programs_in(&argv), clock, ..VmSpec::new(kernel, topology) };
    let mut vm = Vm::start(&spec, &GuestCommand { argv, env: Vec::new() })?;
    eprintln!("vm: {:?}", vm.boot_info());
    let carriers = [carry(vm.take_stdout(), io::stdout()), carry(vm.take_stderr(), io::stderr())];
    if let Some(mut stdin) = vm.take_stdin() {
        // Not joined: it may block at a terminal without input.
        std::thread::spawn(move || io::copy(&mut io::stdin(), &mut stdin));
    }
    let ended = vm.finish()?;
    for carrier in carriers {
        let _ = carrier.join();
    }
    for line in &ended.kernel_log {
        eprintln!("vm: kernel: {line}");
    }
    Ok(ended.exit.exit_code())
}

fn carry(
    from: Option<impl io::Read + Send + 'static>,
    mut to: impl io::Write + Send + 'static,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        if let Some(mut from) = from {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.flush();
        }
    })
}
