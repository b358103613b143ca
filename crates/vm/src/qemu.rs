//! QEMU's command line: which machine, which kernel arguments, and why.
use crate::protocol::{CONTROL_PORT, STDERR_PORT, STDIN_PORT, STDOUT_PORT};
use crate::{Arch, Clock, EmulatorError, Parallel, Topology, VmError, emulator, hierarchy};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The virtio ports. Each has a socket of that name in QEMU's working folder; names are relative
/// there, so that the length of the path does not matter.
pub(crate) const PORTS: [&str; 4] = [CONTROL_PORT, STDIN_PORT, STDOUT_PORT, STDERR_PORT];

/// The file in QEMU's working folder that gets what the kernel prints on the serial console.
pub(crate) const CONSOLE: &str = "console.log";

/// The file in QEMU's working folder that holds the root file system.
pub(crate) const INITRAMFS: &str = "initramfs.cpio";

/// What executes the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The host's processor.
    Kvm,
    /// Emulation, a host thread for each CPU; by the patched QEMU if there is one.
    Emulation,
    /// Emulation, one CPU after the other, time by instructions.
    Counting,
    /// Emulation by the patched QEMU, each CPU with its own time by instructions.
    Parallel(Parallel),
}

impl Engine {
    /// As shown to the user.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Emulation => "tcg,thread=multi",
            Self::Counting => "tcg,thread=single,icount",
            Self::Parallel(_) => "tcg,thread=single,icount,parallel",
        }
    }

    /// How emulation serves that clock.
    pub fn emulating(clock: Clock) -> Self {
        match clock {
            Clock::Wall => Self::Emulation,
            Clock::Work => Self::Counting,
            Clock::Parallel(settings) => Self::Parallel(settings),
        }
    }

    /// The QEMU that has it.
    pub fn qemu(self, arch: Arch) -> Result<PathBuf, VmError> {
        match self {
            Self::Parallel(Parallel { memory, .. }) => {
                if memory.is_some() && arch != Arch::X86 {
                    return Err(VmError::BadMachine(format!(
                        "memory is modelled for x86_64 only, and not for {arch}: leave `memory` out"
                    )));
                }
                let emulator = emulator::find_for(arch)?;
                if memory.is_some() {
                    emulator.check_memory()?;
                }
                Ok(emulator.qemu)
            }
            // Stock QEMU can run code that the guest's kernel has replaced; see the emulator's last patch. And few users
            // have one for another processor.
            Self::Emulation | Self::Counting if self == Self::Emulation || arch.is_foreign() => {
                match emulator::find_for(arch) {
                    Err(EmulatorError::NotBuilt { .. }) => find(arch),
                    found => Ok(found?.qemu),
                }
            }
            _ => find(arch),
        }
    }
}

pub(crate) const fn program(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "qemu-system-x86_64",
        Arch::Arm64 => "qemu-system-aarch64",
    }
}

/// The Debian package that has it.
pub(crate) const fn package(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "qemu-system-x86",
        Arch::Arm64 => "qemu-system-arm",
    }
}

/// Finds QEMU in PATH.
pub fn find(arch: Arch) -> Result<PathBuf, VmError> {
    which::which(program(arch)).map_err(|_| VmError::NoQemu(arch))
}

/// The first line of `--version`.
pub(crate) fn version(qemu: &Path) -> String {
    let output = Command::new(qemu).arg("--version").stdin(Stdio::null()).output();
    let output = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned()
}

/// Where Debian keeps the firmware of its QEMU; a QEMU that was not installed does not find it by
/// itself.
const FIRMWARE: [&str; 2] = ["/usr/share/seabios", "/usr/share/qemu"];

/// Those of them that are there.
pub(crate) fn firmware() -> Vec<PathBuf> {
    FIRMWARE.into_iter().map(PathBuf::from).filter(|folder| folder.is_dir()).collect()
}

/// A machine in QEMU's terms.
pub(crate) struct Machine<'a> {
    pub arch: Arch,
    pub kernel: &'a Path,
    pub topology: Topology,
    pub memory_mib: u32,
    pub engine: Engine,
    /// The user's, for the kernel.
    pub further_arguments: &'a str,
    /// See [`crate::delay`].
    pub loops_per_jiffy: Option<u64>,
    /// See [`firmware`].
    pub firmware: &'a [PathBuf],
}

impl Machine<'_> {
    /// Everything behind QEMU's name.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Arguments::default();
        // No configuration of the user's, no default devices, no window: a bare machine, the same
        // everywhere.
        arguments.add("-name", "flsched");
        arguments.flag("-no-user-config");
        arguments.flag("-nodefaults");
        arguments.add("-display", "none");
        arguments.add("-monitor", "none");
        let board = match self.arch {
            // Unused devices on the board are switched off, as the kernel would search them for disks.
            Arch::X86 => "q35,sata=off,smbus=off,usb=off,vmport=off",
            // Its older interrupt controller addresses eight CPUs.
            Arch::Arm64 => "virt,gic-version=3",
        };
        arguments.add("-machine", board);
        self.processor(&mut arguments);
        self.memory(&mut arguments);
        // A panic restarts the machine (see `kernel_arguments`), and that ends QEMU.
        arguments.flag("-no-reboot");
        arguments.0.extend(["-kernel".into(), self.kernel.into()]);
        arguments.add("-initrd", INITRAMFS);
        arguments.add("-append", self.kernel_arguments());
        arguments.add("-chardev", format!("file,id=console,path={CONSOLE}"));
        arguments.add("-serial", "chardev:console");
        // Served by the emulated CPU that writes, not by another thread at a moment of its own: a boot is then
        // the same to the instruction each time.
        arguments.add("-device", "virtio-serial-pci,ioeventfd=off");
        for (number, port) in PORTS.iter().enumerate() {
            arguments.add("-chardev", format!("socket,id={port},path={port}"));
            // Number 0 is reserved for a console.
            let number = number + 1;
            arguments.add("-device", format!("virtserialport,nr={number},chardev={port},name={port}"));
        }
        arguments.0
    }

    fn processor(&self, arguments: &mut Arguments) {
        match self.engine {
            Engine::Kvm => {
                arguments.add("-accel", "kvm");
                arguments.add("-cpu", "host");
            }
            Engine::Emulation => {
                arguments.add("-accel", "tcg,thread=multi");
                self.firmware(arguments);
            }
            Engine::Counting => {
                arguments.add("-accel", "tcg,thread=single");
                // One instruction is 1 ns; an idle machine skips to its next event at once.
                arguments.add("-icount", "shift=0,sleep=off");
            }
            Engine::Parallel(settings) => self.parallel(settings, arguments),
        }
        self.features(arguments);
        let Topology { nodes, sockets, cores, threads } = self.topology;
        // Each socket gets a last-level cache of its own by itself.
        arguments.add(
            "-smp",
            format!(
                "cpus={},sockets={},cores={cores},threads={threads}",
                self.topology.cpus(),
                nodes * sockets
            ),
        );
    }

    /// All that QEMU can emulate, but page tables of four levels: a fifth costs every translation and
    /// gives nothing below 64 TiB. Where instructions are counted, no fast repeated string instructions
    /// either: QEMU counts each byte of them as an instruction and leaves its compiled code after it. The
    /// kernel then copies by eight bytes, which is both nearer to a real CPU and 1.5 times as fast.
    ///
    /// On arm64 a core of real machines (Altra, Graviton 2): it has neither instructions that copy a whole page and count
    /// as one nor signed pointers, which are slow to emulate. Its timer counts nanoseconds, as the clocks do; by default it
    /// would count sixteen of them at a time.
    fn features(&self, arguments: &mut Arguments) {
        if self.arch == Arch::Arm64 && self.engine != Engine::Kvm {
            return arguments.add("-cpu", "neoverse-n1,cntfrq=1000000000");
        }
        let features = match self.engine {
            Engine::Kvm => return,
            Engine::Emulation => "max,-la57",
            Engine::Counting => "max,-la57,-erms,-fsrm",
            // Debian 12's QEMU, which is good enough for the others, does not have the last three.
            Engine::Parallel(_) => "max,-la57,-erms,-fsrm,-fzrm,-fsrs,-fsrc",
        };
        arguments.add("-cpu", features);
    }

    fn parallel(&self, settings: Parallel, arguments: &mut Arguments) {
        let Parallel { turn, pause_ns, jitter, memory } = settings;
        let jitter = jitter.map(|seed| format!(",jitter={seed}")).unwrap_or_default();
        let memory = memory.map(|_| format!(",memory={}", hierarchy::FILE)).unwrap_or_default();
        arguments.add("-accel", "tcg,thread=single");
        arguments.add("-icount", format!("shift=0,sleep=off,turn={turn},pause={pause_ns}{jitter}{memory}"));
        // Date and random numbers are the same each time, so that a run can be repeated.
        arguments.add("-rtc", "base=2026-01-01T00:00:00,clock=vm");
        arguments.add("-seed", "1");
        self.firmware(arguments);
    }

    fn firmware(&self, arguments: &mut Arguments) {
        for folder in self.firmware {
            arguments.add("-L", folder);
        }
    }

    fn memory(&self, arguments: &mut Arguments) {
        arguments.add("-m", format!("{}M", self.memory_mib));
        let Topology { nodes, sockets, .. } = self.topology;
        if nodes == 1 {
            return;
        }
        let share = self.memory_mib / nodes;
        for node in 0..nodes {
            // What the division leaves over goes to the first.
            let size = if node == 0 { self.memory_mib - share * (nodes - 1) } else { share };
            arguments.add("-object", format!("memory-backend-ram,id=memory{node},size={size}M"));
            arguments.add("-numa", format!("node,nodeid={node},memdev=memory{node}"));
            for socket in node * sockets..(node + 1) * sockets {
                arguments.add("-numa", format!("cpu,node-id={node},socket-id={socket}"));
            }
        }
    }

    /// None of these arguments changes how the kernel schedules.
    fn kernel_arguments(&self) -> String {
        let mut arguments: Vec<String> = [
            // Where a panic is printed when nothing else works any more.
            match self.arch {
                Arch::X86 => "console=ttyS0",
                Arch::Arm64 => "console=ttyAMA0",
            },
            // Warnings and worse; all the rest comes over the control port, which costs less.
            "loglevel=5",
            // A panic restarts the machine at once; with `-no-reboot` QEMU exits instead.
            "panic=-1",
            // After an oops, the kernel's state is undefined: no result is better than a wrong one.
            "oops=panic",
            // No self-tests of the ciphers: they would continue in the background for a second after
            // the command has started, and be measured along with it.
            "cryptomgr.notests=1",
            // Programs are in the page cache, as if they came from a disk. Those in a tmpfs, the default, count as shared
            // memory, which a scheduler may look at.
            "rootfstype=ramfs",
        ]
        .map(Into::into)
        .into();
        if self.arch == Arch::X86 && self.engine != Engine::Kvm {
            // QEMU keeps the emulated time stamp counters of all CPUs equal and steady, but cannot
            // say so; the kernel would distrust them and read a slow timer device for each time
            // stamp instead, which also would be a lock that all CPUs share.
            arguments.extend(["clocksource=tsc", "tsc=reliable"].map(Into::into));
        }
        if self.arch == Arch::X86 && self.engine == Engine::Emulation {
            // No check that the timer interrupts, as the kernel does without one below KVM. It waits for a
            // few ticks; on a busy host they come too late, and the kernel panics.
            arguments.push("no_timer_check".into());
        }
        // Saves each CPU from measuring it.
        arguments.extend(self.loops_per_jiffy.map(|loops| format!("lpj={loops}")));
        arguments.push(self.further_arguments.into());
        arguments.join(" ").trim_end().into()
    }
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    fn add(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.extend([option.into(), value.into()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(topology: &str, engine: Engine) -> String {
        line_of(Arch::X86, topology, engine)
    }

    fn line_of(arch: Arch, topology: &str, engine: Engine) -> String {
        let machine = Machine {
            arch,
            kernel: Path::new("/boot/vmlinuz"),
            topology: topology.parse().unwrap(),
            memory_mib: 1025,
            engine,
            further_arguments: "maxcpus=3 quiet",
            loops_per_jiffy: (engine == Engine::Counting).then_some(4_000_000),
            firmware: &["/usr/share/one".into(), "/usr/share/two".into()],
        };
        machine.arguments().join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn the_clock_decides_the_engine() {
        let counting = line("4", Engine::emulating(Clock::Work));
        assert!(counting.contains("-accel tcg,thread=single -icount shift=0,sleep=off"), "{counting}");
        assert!(counting.contains("tsc=reliable lpj=4000000 maxcpus=3 quiet"), "{counting}");
        let wall = line("4", Engine::emulating(Clock::Wall));
        assert!(
            wall.contains("-accel tcg,thread=multi -L /usr/share/one -L /usr/share/two -cpu max"),
            "{wall}"
        );
        assert!(!wall.contains("icount"));
        assert!(wall.contains("no_timer_check") && !counting.contains("no_timer_check"), "{wall}");
        let kvm = line("4", Engine::Kvm);
        assert!(kvm.contains("-accel kvm -cpu host") && !kvm.contains("tsc"), "{kvm}");
    }

    #[test]
    fn only_the_parallel_clock_has_turns_and_repeats_date_and_chance() {
        let parallel = line("4", Engine::emulating(Clock::default()));
        let options = "-accel tcg,thread=single -icount shift=0,sleep=off,turn=1000,pause=140 \
                       -rtc base=2026-01-01T00:00:00,clock=vm -seed 1 -L /usr/share/one -L /usr/share/two \
                       -cpu max,-la57,-erms,-fsrm,-fzrm,-fsrs,-fsrc";
        assert!(parallel.contains(options) && parallel.contains("tsc=reliable"), "{parallel}");
        let settings = Parallel { turn: 250, pause_ns: 0, jitter: Some(7), memory: None };
        let drawn = line("4", Engine::emulating(Clock::Parallel(settings)));
        assert!(drawn.contains("turn=250,pause=0,jitter=7 "), "{drawn}");
        let modelled = line("4", Engine::emulating("parallel:memory".parse().unwrap()));
        assert!(modelled.contains("turn=250,pause=140,memory=memory.conf "), "{modelled}");
        for other in [Clock::Work, Clock::Wall] {
            let line = line("4", Engine::emulating(other));
            for option in ["turn=", "-rtc", "-seed"] {
                assert!(!line.contains(option), "{option}: {line}");
            }
        }
    }

    #[test]
    fn nothing_of_x86_is_in_an_arm64_machine() {
        for engine in [Clock::default(), Clock::Work, Clock::Wall].map(Engine::emulating) {
            let line = line_of(Arch::Arm64, "2n1s2c1t", engine);
            assert!(line.contains("-machine virt,gic-version=3"), "{line}");
            assert!(line.contains("-cpu neoverse-n1,cntfrq=1000000000"), "{line}");
            assert!(line.contains("console=ttyAMA0") && line.contains("cpu,node-id=1,socket-id=1"), "{line}");
            for x86 in ["q35", "tsc", "no_timer_check", "-fsrm", "ttyS0", "la57"] {
                assert!(!line.contains(x86), "{x86}: {line}");
            }
        }
    }

    #[test]
    fn topologies_become_smp_and_numa() {
        let line = line("2n2s4c2t", Engine::Emulation);
        assert!(line.contains("-smp cpus=32,sockets=4,cores=4,threads=2"), "{line}");
        assert!(line.contains("memory-backend-ram,id=memory0,size=513M"), "{line}");
        assert!(line.contains("memory-backend-ram,id=memory1,size=512M"), "{line}");
        assert_eq!(line.matches("cpu,node-id=").count(), 4);
        assert!(line.contains("cpu,node-id=1,socket-id=2"), "{line}");
    }

    #[test]
    fn nothing_of_the_hosts_leaks_in() {
        let line = line("1", Engine::Emulation);
        for option in ["-nodefaults", "-no-user-config", "-display none", "-monitor none", "-no-reboot"] {
            assert!(line.contains(option), "{option}");
        }
        assert!(!line.contains("-nic") && !line.contains("-drive"));
    }
}
