//! The catalogue of kernels: the host's own, the cache, and Debian's packages.
use super::apt::{self, Apt};
use super::cache::{Cache, DOWNLOADS, Meta};
use super::choice::Candidates;
use super::error::KernelError;
use super::image::Image;
use super::index::Offer;
use super::version;
use super::{BtfHealth, DEFAULT_SERIES, Kernel, KernelRequest, config_has_sched_ext, host};
use crate::Arch;
use nix::fcntl::Flock;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An index of this age is fetched again. Debian publishes several times a day, and stock kernels every few days.
const INDEX_MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// The same, where the index lacks the requested kernel or the last fetch failed.
const INDEX_RETRY_AGE: Duration = Duration::from_secs(600);

/// The kernels that Debian offered at some time. The cache keeps it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Index {
    /// When the offers were fetched, in seconds since 1970.
    fetched: u64,
    /// When a fetch was last tried, in seconds since 1970.
    tried: u64,
    offers: Vec<Offer>,
}

/// Where a listed kernel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The kernel that this machine runs.
    Host,
    /// In the cache.
    Cached,
    /// Offered by Debian.
    Available,
    /// Neither in the cache nor offered any more; only its record is kept.
    Gone,
}

/// One line of `flsched vm --list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedKernel {
    /// As `uname -r` prints it; `--kernel` takes it.
    pub release: String,
    /// The short version, `6.18.15`; `--kernel` takes it too.
    pub version: String,
    /// `6.18`; as `--kernel` it means the series' default.
    pub series: String,
    pub place: Place,
    /// The size of the download, in bytes; `None`: it needs none, or it is not available.
    pub download_bytes: Option<u64>,
    /// Whether sched_ext programs load on it; `None`: not checked yet.
    pub btf: Option<BtfHealth>,
    /// The release whose build configuration it gets, if its own is not available.
    pub config_of: Option<String>,
    /// Whether the name of its series selects it, as far as is known now.
    pub series_default: bool,
    /// Whether `default` selects it.
    pub default: bool,
}

/// All kernels that this machine has or can download.
pub struct Catalog {
    pub(crate) progress: Box<dyn Fn(&str)>,
    pub(crate) cancel: Arc<AtomicBool>,
    pub(crate) cache: Cache,
    /// Of which processor the kernels are.
    pub(crate) arch: Arch,
    /// The root folder under which the host's own kernel is searched; tests use another folder.
    root: PathBuf,
}

impl Catalog {
    /// Opens the catalogue. `progress` gets a line before each step that takes long.
    pub fn open(progress: Box<dyn Fn(&str)>) -> Result<Self, KernelError> {
        let cache = Cache::locate()?;
        Ok(Self { progress, cancel: Arc::default(), cache, arch: Arch::HOST, root: PathBuf::from("/") })
    }

    /// Kernels of this processor, instead of this machine's.
    pub fn of(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// This machine's own kernel, if a machine of the wanted processor can have it.
    fn host(&self) -> Result<Kernel, String> {
        if self.arch.is_foreign() {
            return Err(format!("it is not one for {}", self.arch));
        }
        host::kernel(&self.root, &host::release())
    }

    /// The records in the cache, of this processor's kernels.
    fn cached(&self) -> Vec<Meta> {
        self.cache.all().into_iter().filter(|meta| version::is_of(&meta.release, self.arch)).collect()
    }

    /// Once `cancel` is set, the current operation ends with [`KernelError::Interrupted`].
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = cancel;
        self
    }

    /// The folder with the fetched kernels.
    pub fn folder(&self) -> &Path {
        &self.cache.folder
    }

    /// Finds the requested kernel. If it is not in the cache, downloads it; apt verifies it.
    pub fn resolve(&self, request: &KernelRequest) -> Result<Kernel, KernelError> {
        match request {
            KernelRequest::Path(path) => self.at_path(path),
            KernelRequest::Build(source) => self.built(source),
            KernelRequest::Host => {
                self.host().map_err(|reason| KernelError::NoHostKernel { release: host::release(), reason })
            }
            KernelRequest::Default => match self.host() {
                Ok(kernel) => Ok(kernel),
                Err(_) => self.in_series_or_any(),
            },
            KernelRequest::Version(wanted) => match self.host() {
                Ok(kernel) if kernel.release == *wanted => Ok(kernel),
                _ => self.by_name(wanted),
            },
        }
    }

    /// All known kernels, oldest first; the host's own comes last, if it can be used. Without a network, the list is
    /// made from the last index.
    pub fn list(&self) -> Result<Vec<ListedKernel>, KernelError> {
        let host = self.host().ok();
        let (index, trouble) = self.index(INDEX_MAX_AGE)?;
        let all = Candidates::new(self.cached(), &index.offers);
        if let (None, true, Some(trouble)) = (&host, all.0.is_empty(), trouble) {
            return Err(trouble);
        }
        let mut list: Vec<ListedKernel> = all
            .0
            .iter()
            .rev()
            .map(|known| {
                let kept = known.cached.as_ref().filter(|meta| meta.image_bytes.is_some());
                let place = match (kept, &known.offer) {
                    (Some(_), _) => Place::Cached,
                    (None, Some(_)) => Place::Available,
                    (None, None) => Place::Gone,
                };
                let offer = known.offer.as_ref().filter(|_| place == Place::Available);
                let series_default = all.is_series_default(&known.release);
                ListedKernel {
                    release: known.release.clone(),
                    version: version::short(&known.release).to_owned(),
                    series: version::series(&known.release).unwrap_or_default().to_owned(),
                    place,
                    download_bytes: offer.map(Offer::bytes),
                    btf: known.cached.as_ref().map(|meta| meta.btf.clone()),
                    config_of: match kept {
                        Some(meta) => meta.config_of.clone(),
                        None => offer.and_then(|offer| offer.config_of.clone()),
                    },
                    series_default,
                    default: host.is_none()
                        && series_default
                        && version::matches(&known.release, DEFAULT_SERIES),
                }
            })
            .collect();
        list.extend(host.map(|kernel| ListedKernel {
            version: version::short(&kernel.release).to_owned(),
            series: version::series(&kernel.release).unwrap_or_default().to_owned(),
            release: kernel.release,
            place: Place::Host,
            download_bytes: None,
            btf: Some(kernel.btf),
            config_of: None,
            series_default: false,
            default: true,
        }));
        Ok(list)
    }

    pub(super) fn at_path(&self, path: &Path) -> Result<Kernel, KernelError> {
        let not_an_image = |reason| KernelError::NotAnImage { path: path.to_owned(), reason };
        let bytes = fs::read(path).map_err(|e| not_an_image(e.to_string()))?;
        let image = Image::parse(&bytes).map_err(not_an_image)?;
        if image.arch != self.arch {
            let path = path.to_owned();
            return Err(KernelError::OtherProcessor { path, is: image.arch, wanted: self.arch });
        }
        let release = image.release.clone();
        let beside = path.parent().unwrap_or(Path::new("."));
        let config = [format!("config-{release}"), "config".into(), "../config".into()]
            .into_iter()
            // In a kernel's own build tree it is arch/…/boot/…Image and .config at the top.
            .chain(["../../../.config".to_owned()])
            .map(|name| beside.join(name))
            .find(|config| config.is_file());
        let btf = image.inspect_btf().map_or_else(BtfHealth::Unknown, |found| found.health());
        let meta =
            Meta::new(&release, String::new(), btf.clone(), config.as_deref().and_then(config_has_sched_ext));
        if meta.unfit().is_some() {
            // A path cannot be proposed, and the index is not fetched for a hint alone.
            let known = Candidates::new(self.cached(), &self.stored_index().offers);
            let proposal = known.proposal(&release).or(Some(DEFAULT_SERIES.to_owned()));
            return Err(match btf {
                BtfHealth::Malformed(kfuncs) => KernelError::MalformedBtf { release, kfuncs, proposal },
                _ => KernelError::NoSchedExt { release, proposal },
            });
        }
        Ok(Kernel { release, image: path.to_owned(), config, btf })
    }

    fn in_series_or_any(&self) -> Result<Kernel, KernelError> {
        match self.by_name(DEFAULT_SERIES) {
            // Mirrors remove old series at some time.
            Err(KernelError::Unknown { known, .. }) if !known.is_empty() => {
                let newest = &known[known.len() - 1];
                (self.progress)(&format!("no kernel {DEFAULT_SERIES} is offered any more; taking {newest}"));
                self.by_name(newest)
            }
            result => result,
        }
    }

    fn by_name(&self, wanted: &str) -> Result<Kernel, KernelError> {
        // A kernel in the cache that is named exactly needs no index.
        if !version::is_series(wanted) {
            let known = Candidates::new(self.cached(), &[]);
            let exact =
                known.matching(wanted).into_iter().find_map(|known| self.cache.kernel(&known.cached?));
            if let Some(kernel) = exact {
                return Ok(kernel);
            }
        }
        let (mut index, mut trouble) = self.index(INDEX_MAX_AGE)?;
        let mut all = Candidates::new(self.cached(), &index.offers);
        if all.matching(wanted).is_empty() && trouble.is_none() {
            (index, trouble) = self.index(INDEX_RETRY_AGE)?;
            all = Candidates::new(self.cached(), &index.offers);
        }
        if all.matching(wanted).is_empty() {
            let error = trouble.unwrap_or_else(|| all.unknown(wanted));
            return Err(with_at_hand(error, &all));
        }
        let report = &*self.progress;
        let mut chosen = all.choose(wanted, report, &mut |offer| self.fetch(offer));
        if matches!(chosen, Err(KernelError::Gone { .. })) {
            // The mirror has changed since the index was fetched.
            (index, _) = self.index(Duration::ZERO)?;
            all = Candidates::new(self.cached(), &index.offers);
            chosen = all.choose(wanted, report, &mut |offer| self.fetch(offer));
        }
        let meta = chosen.map_err(|error| with_at_hand(error, &all))?;
        self.cache.kernel(&meta).ok_or_else(|| KernelError::Failed {
            doing: format!("caching kernel {}", meta.release),
            detail: "its image is gone again; was the cache emptied meanwhile?".into(),
        })
    }

    /// The index, which is fetched again if it is older than `max_age`. If that fails: the last index, and the
    /// reason.
    fn index(&self, max_age: Duration) -> Result<(Index, Option<KernelError>), KernelError> {
        let stored = self.stored_index();
        // Without a network, not every command must wait for a time-out.
        let just_tried = max_age == INDEX_MAX_AGE && age(stored.tried) <= INDEX_RETRY_AGE;
        if age(stored.fetched) <= max_age || (just_tried && !stored.offers.is_empty()) {
            return Ok((stored, None));
        }
        let known_for = age(stored.fetched).as_secs() / 3600;
        let (index, trouble) = match self.refresh(max_age) {
            Ok((index, None)) => return Ok((index, None)),
            Ok((index, Some(trouble))) => (index, trouble),
            Err(KernelError::Interrupted) => return Err(KernelError::Interrupted),
            Err(trouble) => (stored, trouble),
        };
        if index.offers.is_empty() && self.cached().is_empty() {
            return Ok((index, Some(trouble)));
        }
        let fallback = match (index.offers.is_empty(), index.fetched) {
            (true, _) => "only downloaded kernels are listed".to_owned(),
            (false, 0) => "taking the part that could be fetched".to_owned(),
            (false, _) => format!("taking what was known {known_for} h ago"),
        };
        let reason = trouble.brief();
        (self.progress)(&format!("the index could not be refreshed; {fallback} ({reason})"));
        Ok((index, Some(trouble)))
    }

    fn refresh(&self, max_age: Duration) -> Result<(Index, Option<KernelError>), KernelError> {
        let lock = self.cache.lock("fetching a kernel", DOWNLOADS, &self.cancel, &*self.progress)?;
        let mut index = self.stored_index();
        if !max_age.is_zero() && age(index.fetched) <= max_age {
            return Ok((index, None)); // another process has fetched it in the meantime
        }
        (self.progress)("fetching the index of Debian's kernels");
        index.tried = now();
        let (offers, trouble) = match self.apt().refresh() {
            Ok(refreshed) => refreshed,
            Err(trouble) => {
                let stored = self.store_index(&lock, &index);
                // On a full disk apt may also end by its time limit or be interrupted: it tries again and again.
                if matches!(stored, Err(KernelError::NoSpace { .. })) {
                    self.apt().drop_pieces();
                }
                if !matches!(trouble, KernelError::Interrupted) {
                    stored?;
                }
                return Err(trouble);
            }
        };
        index.offers = offers;
        if trouble.is_none() {
            index.fetched = index.tried;
        }
        self.store_index(&lock, &index)?;
        Ok((index, trouble))
    }

    fn index_path(&self) -> PathBuf {
        let name =
            if self.arch.is_foreign() { format!("index-{}.json", self.arch) } else { "index.json".into() };
        self.cache.folder.join(name)
    }

    fn stored_index(&self) -> Index {
        let text = fs::read(self.index_path()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn store_index(&self, _lock: &Flock<File>, index: &Index) -> Result<(), KernelError> {
        let path = self.index_path();
        let new = path.with_extension("new");
        let text = serde_json::to_vec(index).unwrap_or_default();
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|e| KernelError::io("write", &path, e))
    }

    pub(super) fn apt(&self) -> Apt<'_> {
        Apt {
            cache: self.cache.folder.clone(),
            archive: apt::kernels(self.arch),
            cancel: &self.cancel,
            report: &*self.progress,
        }
    }
}

fn with_at_hand(error: KernelError, all: &Candidates) -> KernelError {
    match error {
        KernelError::NoNetwork { doing, detail, .. } => {
            KernelError::NoNetwork { doing, detail, at_hand: all.at_hand() }
        }
        other => other,
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time since `moment`. A moment in the future, as after a change of the clock, counts as infinitely old.
fn age(moment: u64) -> Duration {
    now().checked_sub(moment).map_or(Duration::MAX, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::super::btf::tests::blob;
    use super::super::cache::tests::put;
    use super::super::image::tests::bz_image;
    use super::super::index::Package;
    use super::*;

    const GOOD: &str = "6.18.15+deb13-cloud-amd64";
    const BAD: &str = "7.1.13+deb13-cloud-amd64";
    const OFFERED: &str = "7.2.13+deb14-cloud-amd64";

    /// A catalogue without the host's kernel and with a new index, so that no test needs the network.
    fn catalog() -> (tempfile::TempDir, Catalog) {
        let root = tempfile::tempdir().unwrap();
        let catalog = Catalog {
            progress: Box::new(|_| {}),
            cancel: Arc::default(),
            cache: Cache { folder: root.path().join("cache") },
            arch: Arch::X86,
            root: root.path().to_owned(),
        };
        put(&catalog.cache, GOOD, BtfHealth::Good);
        put(&catalog.cache, BAD, BtfHealth::Malformed(vec!["scx_bpf_x".into()]));
        let image =
            Package { name: format!("linux-binary-{OFFERED}"), version: "1".into(), bytes: 14_000_000 };
        let offers = vec![Offer { release: OFFERED.into(), image, config: None, config_of: None }];
        let lock = catalog.cache.lock("testing", DOWNLOADS, &AtomicBool::new(false), &|_| {}).unwrap();
        catalog.store_index(&lock, &Index { fetched: now(), tried: now(), offers }).unwrap();
        drop(lock);
        (root, catalog)
    }

    fn version(name: &str) -> KernelRequest {
        KernelRequest::Version(name.into())
    }

    #[test]
    fn what_is_cached_is_found_by_every_name() {
        let (_root, catalog) = catalog();
        for request in [version("6.18"), version("6.18.15"), version(GOOD), KernelRequest::Default] {
            assert_eq!(catalog.resolve(&request).unwrap().release, GOOD);
        }
    }

    #[test]
    fn what_cannot_be_had_is_explained() {
        let (_root, catalog) = catalog();
        let error = catalog.resolve(&version("7.1")).unwrap_err();
        assert!(
            matches!(&error, KernelError::MalformedBtf { proposal: Some(p), .. } if p == "6.18"),
            "{error}"
        );
        let error = catalog.resolve(&version("6.81")).unwrap_err();
        assert!(matches!(&error, KernelError::Unknown { nearest: Some(n), .. } if n == "6.18"), "{error}");
        let error = catalog.resolve(&KernelRequest::Host).unwrap_err();
        assert!(matches!(error, KernelError::NoHostKernel { .. }));
    }

    #[test]
    fn the_list_has_place_size_and_health() {
        let (_root, catalog) = catalog();
        let list = catalog.list().unwrap();
        let summaries: Vec<_> = list
            .iter()
            .map(|k| (k.version.as_str(), k.place, k.download_bytes, k.series_default, k.default))
            .collect();
        assert_eq!(
            summaries,
            [
                ("6.18.15", Place::Cached, None, true, true),
                ("7.1.13", Place::Gone, None, false, false),
                ("7.2.13", Place::Available, Some(14_000_000), true, false),
            ]
        );
        assert_eq!(list[2].btf, None);
    }

    #[test]
    fn an_image_by_path_brings_the_config_beside_it() {
        let (root, catalog) = catalog();
        let image = root.path().join("vmlinuz-mine");
        fs::write(&image, bz_image("6.19.0-mine", &blob(false))).unwrap();
        let request = KernelRequest::Path(image.clone());
        let kernel = catalog.resolve(&request).unwrap();
        assert_eq!(
            (kernel.release.as_str(), kernel.config, kernel.btf),
            ("6.19.0-mine", None, BtfHealth::Good)
        );

        let config = root.path().join("config-6.19.0-mine");
        fs::write(&config, "CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
        assert_eq!(catalog.resolve(&request).unwrap().config.as_deref(), Some(&*config));
        fs::write(&config, "# CONFIG_SCHED_CLASS_EXT is not set\n").unwrap();
        assert!(matches!(catalog.resolve(&request), Err(KernelError::NoSchedExt { .. })));

        fs::write(&image, bz_image("6.19.0-mine", &blob(true))).unwrap();
        assert!(matches!(catalog.resolve(&request), Err(KernelError::MalformedBtf { .. })));
        fs::write(&image, "#!/bin/sh").unwrap();
        let error = catalog.resolve(&request).unwrap_err();
        assert!(matches!(error, KernelError::NotAnImage { .. }) && error.is_usage());
    }
}
