//! The cache: kernels that were fetched before, and the findings about them.
//!
//! Each release has a folder with `vmlinuz`, `config` and `meta.json`. A rename puts a complete folder in place, and it
//! is not changed afterwards. So readers need no lock; writers hold one. A kernel that would refuse sched_ext programs
//! keeps its `meta.json` only, so that it is not downloaded again.
use super::{BtfHealth, Kernel, KernelError};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Raise it when the layout or the BTF check changes: older folders then count as absent.
const SCHEMA: u32 = 1;
/// How long to wait for the lock of a download: longer than the longest one takes.
pub(crate) const DOWNLOADS: Duration = Duration::from_secs(1500);

/// The record of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    schema: u32,
    /// As `uname -r` prints it.
    pub release: String,
    /// Its package: `package=version`.
    pub package: String,
    /// The image's length in bytes, which detects a truncated file; `None`: the image was not kept.
    pub image_bytes: Option<u64>,
    /// The release of the build configuration, if it is not the kernel's own.
    pub config_of: Option<String>,
    /// Whether it is built with sched_ext; `None` if that is not known.
    pub sched_ext: Option<bool>,
    /// Whether sched_ext programs load on it.
    pub btf: BtfHealth,
}

impl Meta {
    pub fn new(release: &str, package: String, btf: BtfHealth, sched_ext: Option<bool>) -> Self {
        let (release, schema) = (release.to_owned(), SCHEMA);
        Self { schema, release, package, image_bytes: None, config_of: None, sched_ext, btf }
    }

    /// Why sched_ext programs cannot run on it, if they cannot.
    pub fn unfit(&self) -> Option<String> {
        match &self.btf {
            BtfHealth::Malformed(kfuncs) => Some(format!("has malformed BTF ({} scx kfuncs)", kfuncs.len())),
            _ if self.sched_ext == Some(false) => Some("is built without sched_ext".into()),
            _ => None,
        }
    }
}

/// The folder for files that can be built or fetched again: `$FLSCHED_CACHE`, else `flsched` in the user's cache
/// folder. The path is absolute, because apt gets it and runs in another folder.
pub fn cache_folder() -> Option<PathBuf> {
    match std::env::var_os("FLSCHED_CACHE").filter(|name| !name.is_empty()) {
        Some(named) => std::path::absolute(named).ok(),
        None => dirs::cache_dir().map(|folder| folder.join("flsched")),
    }
}

/// Refuses a folder in which make cannot build, before anything is downloaded for it.
pub(crate) fn check_for_make(path: &Path, remedy: &'static str) -> Result<(), KernelError> {
    match path.to_str() {
        Some(text) if !text.contains(|c: char| c.is_whitespace() || c == ':') => Ok(()),
        _ => {
            let has = "a space, a colon or something that is no text";
            Err(KernelError::UnfitPath { path: path.to_owned(), tool: "make", has, remedy })
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Cache {
    pub folder: PathBuf,
}

impl Cache {
    /// What the user can do about a cache folder that does not do.
    pub const OTHER_FOLDER: &str = "set FLSCHED_CACHE to another folder";

    /// The [`cache_folder`]. Creates nothing yet.
    pub fn locate() -> Result<Self, KernelError> {
        cache_folder().map(|folder| Self { folder }).ok_or(KernelError::NoCacheFolder)
    }

    /// All releases that have a record.
    pub fn all(&self) -> Vec<Meta> {
        let Ok(entries) = fs::read_dir(self.folder.join("kernels")) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|release| self.meta(&release)).collect()
    }

    fn meta(&self, release: &str) -> Option<Meta> {
        let folder = self.place(release);
        let meta: Meta = serde_json::from_slice(&fs::read(folder.join("meta.json")).ok()?).ok()?;
        let whole = meta
            .image_bytes
            .is_none_or(|bytes| fs::metadata(folder.join("vmlinuz")).is_ok_and(|image| image.len() == bytes));
        (meta.schema == SCHEMA && meta.release == release && whole).then_some(meta)
    }

    fn place(&self, release: &str) -> PathBuf {
        self.folder.join("kernels").join(release)
    }

    /// The kernel itself, if its image was kept.
    pub fn kernel(&self, meta: &Meta) -> Option<Kernel> {
        meta.image_bytes?;
        let folder = self.place(&meta.release);
        Some(Kernel {
            release: meta.release.clone(),
            image: folder.join("vmlinuz"),
            config: Some(folder.join("config")).filter(|config| config.is_file()),
            btf: meta.btf.clone(),
        })
    }

    /// Waits for the write lock, because another process may be `doing` the same ("fetching a kernel"). `limit` is longer
    /// than that takes.
    pub fn lock(
        &self,
        doing: &str,
        limit: Duration,
        cancel: &AtomicBool,
        report: &dyn Fn(&str),
    ) -> Result<Flock<File>, KernelError> {
        let path = self.folder.join("lock");
        fs::create_dir_all(&self.folder).map_err(|e| KernelError::io("create", &self.folder, e))?;
        let mut file = File::create(&path).map_err(|e| KernelError::io("create", &path, e))?;
        let start = Instant::now();
        let mut said = false;
        loop {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((file, nix::errno::Errno::EWOULDBLOCK | nix::errno::Errno::EINTR)) => file,
                Err((_, e)) => return Err(KernelError::io("lock", &path, e.into())),
            };
            if cancel.load(Ordering::Relaxed) {
                return Err(KernelError::Interrupted);
            }
            if start.elapsed() > limit {
                return Err(KernelError::Busy { lock: path, limit });
            }
            if !said && start.elapsed() > Duration::from_millis(500) {
                report(&format!("waiting for another flsched that is {doing}"));
                said = true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Creates an empty work folder. It is on the cache's file system, so that it can be renamed into place. Removes
    /// work folders that killed processes left, which is safe because the caller holds the lock.
    pub fn work_folder(&self, _lock: &Flock<File>) -> Result<tempfile::TempDir, KernelError> {
        let folder = self.folder.join("work");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|e| KernelError::io("create", &folder, e))?;
        tempfile::tempdir_in(&folder).map_err(|e| KernelError::io("create", &folder, e))
    }

    /// Adds a release to the cache. `finished` has its files, except for `meta.json`, which is written here.
    pub fn install(&self, _lock: &Flock<File>, finished: &Path, meta: &Meta) -> Result<(), KernelError> {
        let text = serde_json::to_vec_pretty(meta).unwrap_or_default();
        let path = finished.join("meta.json");
        fs::write(&path, text).map_err(|e| KernelError::io("write", &path, e))?;
        let place = self.place(&meta.release);
        let kernels = self.folder.join("kernels");
        fs::create_dir_all(&kernels).map_err(|e| KernelError::io("create", &kernels, e))?;
        // An older or damaged folder is removed first, as a rename cannot replace it.
        let _ = fs::remove_dir_all(&place);
        fs::rename(finished, &place).map_err(|e| KernelError::io("create", &place, e))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Puts a release with a small image, or only a verdict on it, into a cache.
    pub(in crate::kernel) fn put(cache: &Cache, release: &str, btf: BtfHealth) {
        let lock = cache.lock("testing", DOWNLOADS, &AtomicBool::new(false), &|_| {}).unwrap();
        let work = cache.work_folder(&lock).unwrap();
        let mut meta = Meta::new(release, "p=1".into(), btf, Some(true));
        let folder = work.path().join("kernel");
        fs::create_dir(&folder).unwrap();
        if meta.unfit().is_none() {
            fs::write(folder.join("vmlinuz"), "image").unwrap();
            meta.image_bytes = Some(5);
        }
        cache.install(&lock, &folder, &meta).unwrap();
    }

    fn cache() -> (tempfile::TempDir, Cache) {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache { folder: root.path().join("cache") };
        (root, cache)
    }

    #[test]
    fn what_is_put_in_comes_out() {
        let (_root, cache) = cache();
        assert!(cache.all().is_empty());
        put(&cache, "6.18.15", BtfHealth::Unknown("x".into()));
        put(&cache, "6.18.15", BtfHealth::Good);
        let all = cache.all();
        assert_eq!(all.len(), 1);
        let kernel = cache.kernel(&all[0]).unwrap();
        assert_eq!((kernel.release.as_str(), kernel.config, kernel.btf), ("6.18.15", None, BtfHealth::Good));
        assert_eq!(fs::read_to_string(kernel.image).unwrap(), "image");
    }

    #[test]
    fn a_malformed_one_is_remembered_without_its_image() {
        let (_root, cache) = cache();
        put(&cache, "7.1.13", BtfHealth::Malformed(vec!["scx_bpf_x".into()]));
        let all = cache.all();
        assert!(all[0].unfit().is_some_and(|reason| reason.contains("malformed")));
        assert_eq!(cache.kernel(&all[0]), None);
    }

    #[test]
    fn torn_and_foreign_folders_do_not_count() {
        let (_root, cache) = cache();
        put(&cache, "6.18.15", BtfHealth::Good);
        fs::write(cache.place("6.18.15").join("vmlinuz"), "im").unwrap();
        fs::create_dir(cache.place("junk")).unwrap();
        fs::write(cache.place("junk").join("meta.json"), "{}").unwrap();
        assert!(cache.all().is_empty());
    }

    #[test]
    fn folders_that_make_does_not_take_are_refused() {
        use std::os::unix::ffi::OsStrExt;
        let refused = |path: &[u8]| {
            check_for_make(Path::new(std::ffi::OsStr::from_bytes(path)), Cache::OTHER_FOLDER).err()
        };
        assert!(refused(b"/home/a/.cache/flsched").is_none());
        for path in [&b"/two words"[..], b"/a:b", b"/a\xff"] {
            let error = refused(path).unwrap();
            assert!(error.is_usage() && error.to_string().ends_with("set FLSCHED_CACHE to another folder"));
        }
    }

    #[test]
    fn the_lock_excludes_and_waiting_can_be_cancelled() {
        let (_root, cache) = cache();
        let held = cache.lock("testing", DOWNLOADS, &AtomicBool::new(false), &|_| {}).unwrap();
        let waiting = cache.lock("testing", DOWNLOADS, &AtomicBool::new(true), &|_| {});
        assert!(matches!(waiting, Err(KernelError::Interrupted)));
        let brief = Duration::from_millis(1);
        let waiting = cache.lock("testing", brief, &AtomicBool::new(false), &|_| {});
        assert!(matches!(waiting, Err(KernelError::Busy { limit, .. }) if limit == brief));
        drop(held);
        assert!(cache.lock("testing", DOWNLOADS, &AtomicBool::new(true), &|_| {}).is_ok());
    }
}
