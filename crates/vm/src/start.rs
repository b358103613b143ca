//! Starts a machine, on KVM or by emulation.
//!
//! That `/dev/kvm` is there does not mean that it can run a stock kernel: nested and filtered
//! virtualisation let a boot hang half-way. So a boot is tried, once, with a time limit, and the
//! verdict is remembered until host, kernel or QEMU change.
use crate::qemu::{self, Engine};
use crate::{Accel, Arch, Clock, GuestCommand, Topology, Vm, VmError, VmSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A guest on a working KVM is up within a second or two.
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// A bad verdict is believed this long: the host may only have been too busy for the time limit.
const BELIEVED: Duration = Duration::from_secs(24 * 3600);

impl Vm {
    /// Whether a machine with this clock can be started here, before anything is downloaded for it.
    pub fn check(arch: Arch, clock: Clock, accel: Accel) -> Result<(), VmError> {
        clock.check(accel)?;
        if arch.is_foreign() && accel == Accel::Kvm {
            return Err(VmError::NoKvm(format!("this machine executes no instructions of {arch}")));
        }
        let engine = match (accel, clock) {
            (Accel::Tcg, _) | (_, Clock::Parallel(_) | Clock::Work) => Engine::emulating(clock),
            (Accel::Auto, Clock::Wall) if arch.is_foreign() => Engine::Emulation,
            (Accel::Auto | Accel::Kvm, Clock::Wall) => Engine::Kvm,
        };
        engine.qemu(arch).map(drop)
    }

    /// Boots and starts the command; returns when the command has been started.
    ///
    /// If the command does not exist, this call fails, and not [`Vm::wait`].
    pub fn start(spec: &VmSpec, command: &GuestCommand) -> Result<Vm, VmError> {
        spec.check()?;
        let chosen = choose(spec)?;
        Self::boot(spec, command, chosen.engine, chosen.note, true)
    }
}

/// What will execute the guest, and why not KVM.
struct Chosen {
    engine: Engine,
    note: Option<String>,
}

/// Decides; may boot a VM to find out.
fn choose(spec: &VmSpec) -> Result<Chosen, VmError> {
    spec.clock.check(spec.accel)?;
    let emulation = Engine::emulating(spec.clock);
    match (spec.accel, spec.clock) {
        (Accel::Tcg, _) | (_, Clock::Parallel(_) | Clock::Work) => {
            Ok(Chosen { engine: emulation, note: None })
        }
        (Accel::Auto, Clock::Wall) if spec.arch().is_foreign() => {
            Ok(Chosen { engine: emulation, note: None })
        }
        (Accel::Kvm, Clock::Wall) => match probe(spec)? {
            Verdict { obstacle: None } => Ok(Chosen { engine: Engine::Kvm, note: None }),
            Verdict { obstacle: Some(obstacle) } => Err(VmError::NoKvm(obstacle)),
        },
        (Accel::Auto, Clock::Wall) => match probe(spec)? {
            Verdict { obstacle: None } => Ok(Chosen { engine: Engine::Kvm, note: None }),
            Verdict { obstacle: Some(obstacle) } => {
                let note = format!("emulated, as KVM cannot be used: {obstacle}");
                Ok(Chosen { engine: emulation, note: Some(note) })
            }
        },
    }
}

/// Whether KVM runs this kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Verdict {
    /// Why not; `None`: it does.
    obstacle: Option<String>,
}

/// A verdict with its age.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Remembered {
    verdict: Verdict,
    /// Seconds since 1970.
    reached: u64,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn probe(spec: &VmSpec) -> Result<Verdict, VmError> {
    let qemu = Engine::Kvm.qemu(Arch::HOST)?;
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        let obstacle = Some(match error.kind() {
            io::ErrorKind::NotFound => "this machine has no /dev/kvm".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "/dev/kvm may not be opened (`sudo usermod -aG kvm $USER`, then log in again)".to_owned()
            }
            _ => format!("/dev/kvm cannot be opened: {error}"),
        });
        return Ok(Verdict { obstacle });
    }
    let memory = Memory::open(dirs::cache_dir().map(|folder| folder.join("flsched")));
    let key = key(&spec.kernel.image, &qemu);
    if let Some(verdict) = memory.recall(&key) {
        return Ok(verdict);
    }
    let verdict = try_it(spec)?;
    memory.remember(key, &verdict);
    Ok(verdict)
}

/// Boots the kernel on two CPUs, as one would not show whether a second can be started.
fn try_it(spec: &VmSpec) -> Result<Verdict, VmError> {
    let small = VmSpec {
        init: spec.init.clone(),
        boot_limit: Some(PROBE_LIMIT),
        run_limit: Some(PROBE_LIMIT),
        cancel: spec.cancel.clone(),
        ..VmSpec::new(spec.kernel.clone(), Topology::flat(2))
    };
    let nothing = GuestCommand { argv: Vec::new(), env: Vec::new() };
    let result = Vm::boot(&small, &nothing, Engine::Kvm, None, false).and_then(Vm::wait);
    let obstacle = match result {
        Ok(_) => None,
        Err(error) => Some(match error {
            VmError::BootTimeout { .. } | VmError::Hung { .. } => {
                format!("{} did not boot on it within {} s", spec.kernel.release, PROBE_LIMIT.as_secs())
            }
            VmError::GuestPanic { message, .. } => {
                format!("{} crashed on it: {message}", spec.kernel.release)
            }
            // QEMU's first message names the cause, the others the place in its source that
            // detected it.
            VmError::GuestDied { reason, .. } => reason.split("; ").next().unwrap_or_default().to_owned(),
            // Nothing that KVM has to do with.
            other => return Err(other),
        }),
    };
    Ok(Verdict { obstacle })
}

/// What a verdict depends on: the running host, the kernel image, QEMU.
fn key(image: &Path, qemu: &Path) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let (size, time) = fs::metadata(image).map(|meta| (meta.len(), meta.mtime())).unwrap_or_default();
    format!("{} {} {size} {time} {}", boot.trim(), image.display(), qemu::version(qemu))
}

/// Verdicts of earlier runs, in a file. A memory that fails costs a few seconds, never a result.
struct Memory(Option<PathBuf>);

/// More kernels than anyone tries between two reboots of the host.
const REMEMBERED: usize = 32;

impl Memory {
    fn open(folder: Option<PathBuf>) -> Self {
        Self(folder.map(|folder| folder.join("kvm-verdicts.json")))
    }

    fn recall(&self, key: &str) -> Option<Verdict> {
        let Remembered { verdict, reached } = self.all().remove(key)?;
        let believed = verdict.obstacle.is_none() || now().saturating_sub(reached) < BELIEVED.as_secs();
        believed.then_some(verdict)
    }

    fn remember(&self, key: String, verdict: &Verdict) {
        let Some(file) = &self.0 else { return };
        let mut all = self.all();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(key, Remembered { verdict: verdict.clone(), reached: now() });
        let _ = self.store(file, &all);
    }

    fn all(&self) -> BTreeMap<String, Remembered> {
        let text = self.0.as_ref().and_then(|file| fs::read(file).ok()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// In one step, as other processes may read it at the same time.
    fn store(&self, file: &Path, all: &BTreeMap<String, Remembered>) -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let new = tempfile::NamedTempFile::new_in(folder)?;
        fs::write(new.path(), serde_json::to_vec_pretty(all)?)?;
        new.persist(file)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::open(Some(folder.path().join("deep")));
        assert_eq!(memory.recall("a"), None);
        let bad = Verdict { obstacle: Some("it hangs".into()) };
        let good = Verdict { obstacle: None };
        memory.remember("a".into(), &bad);
        memory.remember("b".into(), &good);
        assert_eq!(memory.recall("a"), Some(bad));
        assert_eq!(memory.recall("b"), Some(good));
        let mut all = memory.all();
        all.values_mut().for_each(|remembered| remembered.reached -= BELIEVED.as_secs());
        memory.store(memory.0.as_ref().unwrap(), &all).unwrap();
        assert_eq!(memory.recall("a"), None, "a bad verdict gets old");
        assert_eq!(memory.recall("b"), Some(Verdict { obstacle: None }));
        for other in 0..2 * REMEMBERED {
            memory.remember(other.to_string(), &Verdict { obstacle: None });
        }
        assert!(memory.all().len() <= REMEMBERED);
    }

    #[test]
    fn a_broken_memory_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kvm-verdicts.json"), "{broken").unwrap();
        let memory = Memory::open(Some(folder.path().into()));
        assert_eq!(memory.recall("a"), None);
        memory.remember("a".into(), &Verdict { obstacle: None });
        assert!(memory.recall("a").is_some());
        assert_eq!(Memory::open(None).recall("a"), None);
    }

    #[test]
    fn each_image_has_its_own_key() {
        let (one, two) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let none = Path::new("/no/such/qemu");
        assert_ne!(key(one.path(), none), key(two.path(), none));
        let before = key(one.path(), none);
        fs::write(one.path(), "grown").unwrap();
        assert_ne!(key(one.path(), none), before);
    }
}
