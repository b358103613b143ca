//! Building the emulator: source, patches, compilation, its own test, then into the cache as a whole.
use super::{
    Emulator, EmulatorError, Meta, builds, configure, find_for, in_cache, named, patches, place, tools,
};
use crate::kernel::apt::{Apt, Archive};
use crate::kernel::cache::{Cache, check_for_make};
use crate::kernel::subprocess::{command, run_logged};
use crate::{Arch, KernelError, qemu};
use nix::sys::statvfs::statvfs;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Source and objects take 620 MB.
const NEEDED_BYTES: u64 = 800 << 20;
const UNPACK_LIMIT: Duration = Duration::from_secs(300);
/// Three minutes of CPU time on a current machine.
const COMPILE_LIMIT: Duration = Duration::from_secs(3600);
/// All that is done under the lock of builds: the download and the test, too.
const BUILD_LIMIT: Duration = COMPILE_LIMIT.saturating_add(Duration::from_secs(3600));
/// Seconds on an idle machine.
const TEST_LIMIT: Duration = Duration::from_secs(300);

const SOURCE: Archive = Archive { folder: "apt-source", kind: "deb-src", suites: "trixie", arch: Arch::HOST };
/// In QEMU's source, by the patches.
const fn test(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "tests/qtest/icount-turn-test",
        Arch::Arm64 => "tests/qtest/icount-turn-arm-test",
    }
}

/// How the emulator came to be there.
#[derive(Debug)]
pub enum Built {
    /// It was there already.
    Before(Emulator),
    /// It has been built, in that time.
    Now(Emulator, Duration),
}

/// Builds the emulator of a processor unless it exists. `report` gets the progress, one line at a time.
pub fn build(arch: Arch, report: &dyn Fn(&str), cancel: &AtomicBool) -> Result<Built, EmulatorError> {
    if named(arch).is_some() {
        return Ok(Built::Before(find_for(arch)?));
    }
    let cache = Cache::locate()?;
    if let Some(emulator) = in_cache(&cache.folder, arch) {
        return Ok(Built::Before(emulator));
    }
    let python = tools::check(arch)?;
    check_for_make(&cache.folder, Cache::OTHER_FOLDER)?;
    // A lock and a work folder of its own: kernels can be fetched while QEMU compiles.
    let own = Cache { folder: builds(&cache.folder) };
    let lock = own.lock("building the emulator", BUILD_LIMIT, cancel, report)?;
    if let Some(emulator) = in_cache(&cache.folder, arch) {
        return Ok(Built::Before(emulator)); // By another process, while this one waited.
    }
    check_space(&cache.folder)?;
    let begun = Instant::now();
    let work = own.work_folder(&lock)?;
    let build = Build { arch, cache: &cache, work: work.path(), report, cancel };
    let source = build.fetch()?;
    let tree = build.unpack(&source)?;
    let program = build.compile(&tree, python)?;
    build.test(&tree)?;
    let emulator = build.install(&program, &source)?;
    Ok(Built::Now(emulator, begun.elapsed()))
}

/// Checked before anything is written: a full disk keeps programs even from saying so.
fn check_space(folder: &Path) -> Result<(), EmulatorError> {
    let Ok(disk) = statvfs(folder) else { return Ok(()) };
    if disk.blocks_available() * disk.fragment_size() >= NEEDED_BYTES {
        return Ok(());
    }
    Err(EmulatorError::NoSpace { folder: folder.to_owned(), doing: "building the emulator".into() })
}

/// One build, in a folder of its own.
struct Build<'a> {
    arch: Arch,
    cache: &'a Cache,
    work: &'a Path,
    report: &'a dyn Fn(&str),
    cancel: &'a AtomicBool,
}

impl Build<'_> {
    /// Downloads the source; apt verifies it.
    fn fetch(&self) -> Result<PathBuf, EmulatorError> {
        let folder = self.work.join("source");
        self.create(&folder)?;
        (self.report)("downloading the source of QEMU (40 MB)");
        let apt = Apt {
            cache: self.cache.folder.clone(),
            archive: SOURCE,
            cancel: self.cancel,
            report: self.report,
        };
        apt.download_source("qemu", &folder)?;
        let entries = fs::read_dir(&folder).map_err(|e| KernelError::io("read", &folder, e))?;
        let archive = entries
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".orig.tar.")));
        archive.ok_or_else(|| {
            let doing = "downloading the source of QEMU".to_owned();
            EmulatorError::Source(KernelError::Failed { doing, detail: "it has no .orig.tar".into() })
        })
    }

    /// Unpacks and patches it.
    fn unpack(&self, archive: &Path) -> Result<PathBuf, EmulatorError> {
        (self.report)("unpacking the source of QEMU");
        let tree = self.work.join("qemu");
        self.create(&tree)?;
        let mut tar = command("tar");
        tar.args(["-x", "--strip-components=1", "--no-same-owner", "-f"]).arg(archive).arg("-C").arg(&tree);
        self.step(tar, "unpacking the source of QEMU", UNPACK_LIMIT)?;
        for (name, text) in patches(self.arch) {
            let file = self.work.join(name);
            fs::write(&file, text).map_err(|e| KernelError::io("write", &file, e))?;
            let mut patch = command("patch");
            patch.args(["-p1", "--batch", "--fuzz=0", "-d"]).arg(&tree).arg("-i").arg(&file);
            self.step(patch, &format!("applying {name} to {}", archive_name(archive)), UNPACK_LIMIT)?;
        }
        Ok(tree)
    }

    fn compile(&self, tree: &Path, python: &str) -> Result<PathBuf, EmulatorError> {
        let folder = tree.join("build");
        self.create(&folder)?;
        (self.report)("configuring QEMU");
        let mut setup = command("../configure");
        setup.arg(format!("--python={python}")).args(configure(self.arch)).current_dir(&folder);
        self.step(setup, "configuring QEMU", UNPACK_LIMIT)?;
        let mut ninja = command("ninja");
        ninja.args([qemu::program(self.arch), test(self.arch)]).current_dir(&folder);
        self.step(ninja, "compiling QEMU", COMPILE_LIMIT)?;
        Ok(folder.join(qemu::program(self.arch)))
    }

    /// QEMU's own test of the patch.
    fn test(&self, tree: &Path) -> Result<(), EmulatorError> {
        (self.report)("testing QEMU");
        let folder = tree.join("build");
        let mut test = Command::new(folder.join(test(self.arch)));
        test.current_dir(&folder)
            .env("QTEST_QEMU_BINARY", folder.join(qemu::program(self.arch)))
            .stdin(std::process::Stdio::null());
        self.step(test, "testing QEMU", TEST_LIMIT)
    }

    /// Puts it in place as a whole.
    fn install(&self, program: &Path, source: &Path) -> Result<Emulator, EmulatorError> {
        let finished = self.work.join("finished");
        self.create(&finished)?;
        let stripped = finished.join(qemu::program(self.arch));
        let mut strip = command("strip");
        strip.arg("-o").arg(&stripped).arg(program);
        self.step(strip, "stripping QEMU", UNPACK_LIMIT)?;
        let bytes = fs::metadata(&stripped).map_err(|e| KernelError::io("read", &stripped, e))?.len();
        let meta = Meta { source: archive_name(source), program_bytes: bytes };
        let file = finished.join("meta.json");
        let text = serde_json::to_vec_pretty(&meta).unwrap_or_default();
        fs::write(&file, text).map_err(|e| KernelError::io("write", &file, e))?;

        let place = place(&self.cache.folder, self.arch);
        if let Some(parent) = place.parent() {
            self.create(parent)?;
        }
        // A damaged one; a folder cannot be renamed over it.
        let _ = fs::remove_dir_all(&place);
        fs::rename(&finished, &place).map_err(|e| KernelError::io("create", &place, e))?;
        Ok(Emulator { qemu: place.join(qemu::program(self.arch)) })
    }

    fn create(&self, folder: &Path) -> Result<(), EmulatorError> {
        Ok(fs::create_dir_all(folder).map_err(|e| KernelError::io("create", folder, e))?)
    }

    /// Runs a step; what it writes goes into a log that outlives a failure.
    fn step(&self, command: Command, doing: &str, limit: Duration) -> Result<(), EmulatorError> {
        let log = self.work.join("log");
        let mut reported = 0;
        let mut report_tenths = |line: &str| {
            if let Some(tenths) = tenths_done(line).filter(|tenths| *tenths > reported) {
                reported = tenths;
                (self.report)(&format!("{doing}: {tenths}0 %"));
            }
        };
        if run_logged(command, doing, limit, self.cancel, &log, &mut report_tenths)?.success() {
            return Ok(());
        }
        let text = fs::read_to_string(&log).unwrap_or_default();
        let doing = doing.to_owned();
        if text.contains("No space left on device") {
            return Err(EmulatorError::NoSpace { folder: self.cache.folder.clone(), doing });
        }
        let kept = self.cache.folder.join("emulator-build.log");
        let log = if fs::copy(&log, &kept).is_ok() { kept } else { log };
        Err(EmulatorError::Failed { doing, detail: complaint(&text), log })
    }
}

fn archive_name(archive: &Path) -> String {
    archive.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// How far ninja is, which counts as in `[312/1301] Compiling …`.
fn tenths_done(line: &str) -> Option<u32> {
    let (count, _) = line.strip_prefix('[')?.split_once(']')?;
    let (done, of) = count.split_once('/')?;
    (done.parse::<u32>().ok()? * 10).checked_div(of.parse().ok()?)
}

/// The line that most likely names the error.
fn complaint(log: &str) -> String {
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let marks = ["error:", "ERROR", "FAILED", "not ok", "Hunk"];
    lines()
        .find(|line| marks.iter().any(|mark| line.contains(mark)))
        .or_else(|| lines().next_back())
        .unwrap_or("it gave no reason")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_from_ninjas_count() {
        assert_eq!(tenths_done("[312/1301] Compiling x"), Some(2));
        assert_eq!(tenths_done("[1301/1301] Linking"), Some(10));
        for line in ["ok 1", "[1/0] x", "[a/b] x", "[3"] {
            assert_eq!(tenths_done(line), None, "{line}");
        }
    }

    #[test]
    fn the_complaint_is_found() {
        assert_eq!(complaint("[1/2] a\nx.c:1: error: no\n[2/2] b\n"), "x.c:1: error: no");
        assert_eq!(complaint("a\n\nb\n"), "b");
        assert_eq!(complaint(""), "it gave no reason");
    }
}
