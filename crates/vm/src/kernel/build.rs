//! Kernels that nobody packages with sched_ext: built from Debian's source of a series, or from a folder with the source.
//!
//! The configuration is that of Debian's cloud kernel of [`CONFIG_OF`], with sched_ext and without what a virtual machine
//! of ours does not use. So all built kernels differ from stock ones in little else.
use super::apt::{Apt, Archive};
use super::cache::{Cache, DOWNLOADS, Meta, check_for_make};
use super::catalog::Catalog;
use super::error::KernelError;
use super::image::Image;
use super::request::BuildSource;
use super::source::{UNKNOWN_PACKAGE, only_file};
use super::subprocess::{command, run, run_logged};
use super::{BtfHealth, Kernel, config_has_sched_ext, version};
use crate::Arch;
use nix::sys::statvfs::statvfs;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The stable suite has the source of its own kernel, and its configurations.
const ARCHIVE: Archive = Archive { folder: "apt-stable", kind: "deb", suites: "trixie", arch: Arch::HOST };
const CONFIG_OF: &str = "6.12";
const CONFIG_FILE: &str = match Arch::HOST {
    Arch::X86 => "config.amd64_none_cloud-amd64.xz",
    Arch::Arm64 => "config.arm64_none_cloud-arm64.xz",
};
/// The image, as make's target and where it is then.
const IMAGE: (&str, &str) = match Arch::HOST {
    Arch::X86 => ("bzImage", "arch/x86/boot/bzImage"),
    Arch::Arm64 => ("Image", "arch/arm64/boot/Image"),
};
/// Options that differ from that configuration. Its modules are left out, too.
const CHANGES: &str = include_str!("build.config");

/// Source and objects.
const NEEDED_BYTES: u64 = 8 << 30;
const UNPACK_LIMIT: Duration = Duration::from_secs(900);
/// 20 minutes of CPU time on a current machine.
const COMPILE_LIMIT: Duration = Duration::from_secs(4 * 3600);
/// All that is done under the lock of builds: download, unpack and configure, too.
const BUILD_LIMIT: Duration = COMPILE_LIMIT.saturating_add(Duration::from_secs(3600));

/// Programs and headers, each with the Debian package that holds it.
const PROGRAMS: [(&str, &str); 9] = [
    ("bc", "bc"),
    ("bison", "bison"),
    ("flex", "flex"),
    ("gcc", "gcc"),
    ("make", "make"),
    ("pahole", "pahole"),
    ("perl", "perl"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];
const HEADERS: [(&str, &str); 2] =
    [("/usr/include/gelf.h", "libelf-dev"), ("/usr/include/zlib.h", "zlib1g-dev")];

impl Catalog {
    /// The kernel of this source, built now unless the cache has it. Of a folder, what has changed since is compiled.
    pub(super) fn built(&self, source: &BuildSource) -> Result<Kernel, KernelError> {
        if self.arch.is_foreign() {
            return Err(KernelError::NoCrossBuild { arch: self.arch });
        }
        let kept = |package: &str| {
            let of_it = |meta: &Meta| meta.package.starts_with(package) && meta.image_bytes.is_some();
            let found = self.cache.all().into_iter().filter(of_it);
            found.max_by_key(|meta| version::order_key(&meta.release))
        };
        if let BuildSource::Series(series) = source
            && let Some(meta) = kept(&package_of(series))
            && let Some(kernel) = self.cache.kernel(&meta)
        {
            return Ok(kernel);
        }
        check_tools()?;
        check_for_make(&self.cache.folder, Cache::OTHER_FOLDER)?;
        if let BuildSource::Folder(folder) = source {
            check_for_make(folder, "move it")?;
        }
        // A lock of its own: other kernels can be fetched meanwhile.
        let own = Cache { folder: self.cache.folder.join("kernel-builds") };
        let lock = own.lock("building a kernel", BUILD_LIMIT, &self.cancel, &*self.progress)?;
        check_space(&own.folder)?;
        match source {
            BuildSource::Series(series) => {
                if let Some(kernel) = kept(&package_of(series)).and_then(|meta| self.cache.kernel(&meta)) {
                    return Ok(kernel); // By another process, while this one waited.
                }
                let work = own.work_folder(&lock)?;
                self.build_series(series, work.path())
            }
            BuildSource::Folder(folder) => {
                let objects = own.folder.join("folders").join(name_of(folder));
                if begin(&objects)? {
                    (self.progress)(
                        "the last build of this folder was broken off: compiling all of it again",
                    );
                }
                let compiled = self.compile(folder, &objects, &folder.display().to_string());
                // A make that ends by itself, for whatever reason, leaves whole objects.
                if !matches!(compiled, Err(KernelError::Interrupted | KernelError::TimedOut { .. })) {
                    end(&objects)?;
                }
                compiled?;
                // The next build of this folder changes the objects.
                self.at_path(&keep(&objects, &own.folder.join("images"))?)
            }
        }
    }

    fn build_series(&self, series: &str, work: &Path) -> Result<Kernel, KernelError> {
        let name = format!("linux-source-{series}");
        let (tree, objects) = (work.join("tree"), work.join("objects"));
        create(&objects)?;
        let unpacked = self.unpack_source(&self.stable(), &name, &[], work, &tree);
        let package = unpacked.map_err(|error| match error {
            KernelError::Failed { detail, .. } if detail.contains(UNKNOWN_PACKAGE) => {
                KernelError::NoSource { series: series.to_owned(), suite: ARCHIVE.suites }
            }
            other => other,
        })?;
        self.compile(&tree, &objects, &name)?;

        let (image, config) = (objects.join(IMAGE.1), objects.join(".config"));
        let bytes = fs::read(&image).map_err(|e| KernelError::io("read", &image, e))?;
        let failed = |detail| KernelError::Failed { doing: format!("building {name}"), detail };
        let parsed = Image::parse(&bytes).map_err(failed)?;
        let btf = parsed.inspect_btf().map_or_else(BtfHealth::Unknown, |found| found.health());
        let finished = work.join("finished");
        create(&finished)?;
        for (from, to) in [(&image, "vmlinuz"), (&config, "config")] {
            fs::copy(from, finished.join(to)).map_err(|e| KernelError::io("copy", from, e))?;
        }
        let mut meta =
            Meta::new(&parsed.release, package_of(series) + &package, btf, config_has_sched_ext(&config));
        meta.image_bytes = Some(bytes.len() as u64);
        let lock = self.cache.lock("fetching a kernel", DOWNLOADS, &self.cancel, &*self.progress)?;
        self.cache.install(&lock, &finished, &meta)?;
        self.cache.kernel(&meta).ok_or_else(|| failed("its image is gone again".into()))
    }

    /// Configures, unless that is done, and compiles.
    fn compile(&self, tree: &Path, objects: &Path, name: &str) -> Result<(), KernelError> {
        let make = || {
            let mut make = command("make");
            make.arg("-C").arg(tree).arg(format!("O={}", objects.display()));
            // Equal sources give equal kernels, wherever and whenever they are built.
            make.env("KBUILD_BUILD_TIMESTAMP", "1970-01-01").env("KBUILD_BUILD_USER", "flsched");
            make.env("KBUILD_BUILD_HOST", "flsched");
            make
        };
        let config = objects.join(".config");
        if !config.is_file() {
            let text = self.base_config(objects)? + CHANGES;
            let unfinished = objects.join("config.new");
            fs::write(&unfinished, text).map_err(|e| KernelError::io("write", &unfinished, e))?;
            fs::rename(&unfinished, &config).map_err(|e| KernelError::io("write", &config, e))?;
        }
        let mut configure = make();
        configure.arg("olddefconfig");
        self.done(configure, &format!("configuring {name}"), UNPACK_LIMIT)?;
        if config_has_sched_ext(&config) != Some(true) {
            return Err(KernelError::NoSchedExtInSource { source_of: name.to_owned() });
        }
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut build = make();
        build.args([&format!("-j{jobs}"), IMAGE.0]);
        let doing = format!("compiling {name}");
        let log = objects.join("flsched-build.log");
        let begun = Instant::now();
        (self.progress)(&format!("{doing}: 20 minutes of one CPU's time"));
        let mut reported = 0;
        let mut each = |line: &str| {
            let minutes = begun.elapsed().as_secs() / 60;
            if minutes > reported {
                reported = minutes;
                let file = line.split_whitespace().last().unwrap_or_default();
                (self.progress)(&format!("{doing}, {minutes} min: {file}"));
            }
        };
        if run_logged(build, &doing, COMPILE_LIMIT, &self.cancel, &log, &mut each)?.success() {
            return Ok(());
        }
        let text = fs::read_to_string(&log).unwrap_or_default();
        if text.contains("No space left on device") {
            return Err(no_space(&self.cache.folder, doing));
        }
        let kept = self.cache.folder.join("kernel-build.log");
        let log = if fs::copy(&log, &kept).is_ok() { kept } else { log };
        let complaint = text.lines().find(|line| line.contains("error") || line.contains("***"));
        let detail = format!("{} (all of it: {})", complaint.unwrap_or("make failed").trim(), log.display());
        Err(KernelError::Failed { doing, detail })
    }

    /// Debian's configuration without the modules: a virtual machine gets none.
    fn base_config(&self, work: &Path) -> Result<String, KernelError> {
        let name = format!("linux-config-{CONFIG_OF}");
        let (debs, unpacked) = (work.join("config-debs"), work.join("config-unpacked"));
        for folder in [&debs, &unpacked] {
            let _ = fs::remove_dir_all(folder);
            create(folder)?;
        }
        self.stable().download_newest(&name, &debs)?;
        let choice = ["--strip-components=4", &format!("./usr/src/{name}/{CONFIG_FILE}")];
        self.unpack_deb(&only_file(&debs, ".deb")?, &unpacked, &choice)?;
        let mut open = command("xz");
        open.args(["-dc"]).arg(unpacked.join(CONFIG_FILE));
        let text = self.done(open, &format!("reading {CONFIG_FILE}"), UNPACK_LIMIT)?;
        for folder in [&debs, &unpacked] {
            let _ = fs::remove_dir_all(folder);
        }
        let kept = text.lines().filter(|line| !line.ends_with("=m"));
        Ok(kept.flat_map(|line| [line, "\n"]).collect())
    }

    fn stable(&self) -> Apt<'_> {
        let cache = self.cache.folder.clone();
        Apt { cache, archive: ARCHIVE, cancel: &self.cancel, report: &*self.progress }
    }

    /// Runs a command that must succeed. Returns its output.
    pub(super) fn done(&self, command: Command, doing: &str, limit: Duration) -> Result<String, KernelError> {
        let done = run(command, doing, limit, &self.cancel)?;
        if done.status.success() {
            return Ok(done.stdout);
        }
        if done.stderr.contains("No space left") {
            return Err(KernelError::NoSpace { folder: self.cache.folder.clone(), detail: doing.to_owned() });
        }
        if done.stderr.contains("source tree is not clean") {
            return Err(KernelError::NotClean { doing: doing.to_owned() });
        }
        let mut lines = done.stderr.lines().filter(|line| line.contains("rror") || line.contains("***"));
        let detail = lines.next().unwrap_or("it gave no reason").trim().to_owned();
        Err(KernelError::Failed { doing: doing.to_owned(), detail })
    }
}

/// How the record of a built kernel names its package.
fn package_of(series: &str) -> String {
    format!("built from linux-source-{series}: ")
}

/// A folder's place among the builds: its name, and what tells folders of the same name apart.
fn name_of(folder: &Path) -> String {
    let path = folder.to_string_lossy();
    let sum = path
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("{name}-{sum:016x}")
}

fn create(folder: &Path) -> Result<(), KernelError> {
    fs::create_dir_all(folder).map_err(|e| KernelError::io("create", folder, e))
}

/// Copies the image and its configuration into a folder of `images` that no other build changes: its name is the digest
/// of both. Returns the image there.
fn keep(objects: &Path, images: &Path) -> Result<PathBuf, KernelError> {
    let read = |path: PathBuf| fs::read(&path).map_err(|e| KernelError::io("read", &path, e));
    let (image, config) = (read(objects.join(IMAGE.1))?, read(objects.join(".config"))?);
    let digest = Sha256::new().chain_update(&image).chain_update(&config).finalize();
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let place = images.join(digest);
    if !place.is_dir() {
        create(images)?;
        let unfinished = images.join("unfinished");
        create(&unfinished)?;
        for (name, bytes) in [("vmlinuz", image), ("config", config)] {
            let path = unfinished.join(name);
            fs::write(&path, bytes).map_err(|e| KernelError::io("write", &path, e))?;
        }
        fs::rename(&unfinished, &place).map_err(|e| KernelError::io("create", &place, e))?;
    }
    Ok(place.join("vmlinuz"))
}

/// This file is there while make works in the folder. It is beside the folder, so that emptying that can be broken off, too.
fn mark_of(objects: &Path) -> PathBuf {
    let mut mark = objects.as_os_str().to_owned();
    mark.push(".building");
    mark.into()
}

/// Marks the folder as one where make works. If the mark is there already, make was killed there, and would take half an
/// object for a whole one: then the folder is emptied, and the answer is `true`.
fn begin(objects: &Path) -> Result<bool, KernelError> {
    let mark = mark_of(objects);
    let broken_off = mark.exists();
    if broken_off && objects.exists() {
        fs::remove_dir_all(objects).map_err(|e| KernelError::io("remove", objects, e))?;
    }
    create(objects)?;
    fs::write(&mark, "").map_err(|e| KernelError::io("create", &mark, e))?;
    Ok(broken_off)
}

/// Removes the mark: the objects are whole.
fn end(objects: &Path) -> Result<(), KernelError> {
    let mark = mark_of(objects);
    fs::remove_file(&mark).map_err(|e| KernelError::io("remove", &mark, e))
}

fn check_tools() -> Result<(), KernelError> {
    let programs = PROGRAMS.iter().filter(|(program, _)| which::which(program).is_err());
    let headers = HEADERS.iter().filter(|(header, _)| !Path::new(header).is_file());
    let missing: Vec<(&str, &str)> = programs.chain(headers).copied().collect();
    if missing.is_empty() { Ok(()) } else { Err(KernelError::NoBuildTools { missing }) }
}

/// Checked before anything is written: a build that ends for lack of space has taken minutes.
fn check_space(folder: &Path) -> Result<(), KernelError> {
    let Ok(disk) = statvfs(folder) else { return Ok(()) };
    if disk.blocks_available() * disk.fragment_size() >= NEEDED_BYTES {
        return Ok(());
    }
    Err(no_space(folder, "building a kernel".into()))
}

fn no_space(folder: &Path, doing: String) -> KernelError {
    KernelError::NoSpaceToBuild { folder: folder.to_owned(), doing, needed_gb: NEEDED_BYTES >> 30 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_same_name_have_places_of_their_own() {
        let (one, other) = (name_of(&PathBuf::from("/a/linux")), name_of(&PathBuf::from("/b/linux")));
        assert!(one.starts_with("linux-") && other.starts_with("linux-") && one != other);
        assert_eq!(one, name_of(&PathBuf::from("/a/linux")));
    }

    #[test]
    fn objects_of_a_build_that_was_broken_off_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let objects = folder.path().join("objects");
        assert!(!begin(&objects).unwrap());
        fs::write(objects.join("whole.o"), "").unwrap();
        end(&objects).unwrap();
        assert!(!begin(&objects).unwrap() && objects.join("whole.o").exists());
        assert!(begin(&objects).unwrap() && !objects.join("whole.o").exists());
        end(&objects).unwrap();
        assert!(!begin(&objects).unwrap());
    }

    #[test]
    fn the_next_build_leaves_an_image_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (objects, images) = (folder.path().join("objects"), folder.path().join("images"));
        let build = |image: &str| {
            create(objects.join(IMAGE.1).parent().unwrap()).unwrap();
            fs::write(objects.join(IMAGE.1), image).unwrap();
            fs::write(objects.join(".config"), "").unwrap();
            keep(&objects, &images).unwrap()
        };
        let one = build("one");
        let other = build("other");
        assert_eq!(fs::read_to_string(&one).unwrap(), "one");
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        assert_eq!(build("one"), one);
        assert!(one.with_file_name("config").is_file());
    }

    #[test]
    fn a_full_disk_asks_for_the_space_of_a_build() {
        let text = no_space(Path::new("/cache"), "compiling x".into()).to_string();
        assert!(text.contains("in /cache for compiling x; free 8 GB there"), "{text}");
    }

    #[test]
    fn the_changes_are_lines_of_a_configuration() {
        for line in CHANGES.lines().filter(|line| !line.is_empty()) {
            let off = line.strip_prefix("# CONFIG_").is_some_and(|rest| rest.ends_with(" is not set"));
            assert!(off || line.starts_with("CONFIG_") || line.starts_with("##"), "{line}");
        }
        assert!(CHANGES.contains("CONFIG_SCHED_CLASS_EXT=y\n"));
    }
}
