//! Puts an offered kernel into the cache: downloads, unpacks and checks it.
use super::cache::{DOWNLOADS, Meta};
use super::catalog::Catalog;
use super::error::KernelError;
use super::image::Image;
use super::index::Offer;
use super::subprocess::{command, pipe};
use super::{BtfHealth, config_has_sched_ext};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const UNPACK_LIMIT: Duration = Duration::from_secs(180);

impl Catalog {
    /// Downloads, unpacks and checks a kernel, and caches the result.
    pub(super) fn fetch(&self, offer: &Offer) -> Result<Meta, KernelError> {
        let lock = self.cache.lock("fetching a kernel", DOWNLOADS, &self.cancel, &*self.progress)?;
        if let Some(meta) = self.cache.all().into_iter().find(|meta| meta.release == offer.release) {
            return Ok(meta); // another process has fetched it in the meantime
        }
        let work = self.cache.work_folder(&lock)?;
        let (debs, unpacked, finished) =
            (work.path().join("debs"), work.path().join("unpacked"), work.path().join("finished"));
        for folder in [&debs, &unpacked, &finished] {
            fs::create_dir(folder).map_err(|e| KernelError::io("create", folder, e))?;
        }
        let release = &offer.release;
        (self.progress)(&format!("downloading kernel {release} ({} MB)", offer.bytes().div_ceil(1_000_000)));
        let packages: Vec<_> = std::iter::once(&offer.image).chain(&offer.config).collect();
        self.apt().download(&packages, &debs)?;
        self.unpack(&debs, &unpacked)?;

        let image = find_image(&unpacked, release).ok_or_else(|| KernelError::Failed {
            doing: format!("unpacking {}", offer.image.name),
            detail: format!("it holds no image of {release}"),
        })?;
        (self.progress)(&format!("checking the BTF of kernel {release}"));
        let bytes = fs::read(&image).map_err(|e| KernelError::io("read", &image, e))?;
        let findings = Image::parse(&bytes).and_then(|image| image.inspect_btf());
        let own_config = find_config(&unpacked, release);
        let sched_ext = match (&own_config, &findings) {
            (Some(config), _) => config_has_sched_ext(config),
            (None, Ok(findings)) => Some(findings.kfuncs > 0),
            (None, Err(_)) => None,
        };
        let btf = findings.map_or_else(BtfHealth::Unknown, |findings| findings.health());
        let package = format!("{}={}", offer.image.name, offer.image.version);
        let mut meta = Meta::new(release, package, btf, sched_ext);
        if meta.unfit().is_none() {
            let vmlinuz = finished.join("vmlinuz");
            fs::rename(&image, &vmlinuz).map_err(|e| KernelError::io("create", &vmlinuz, e))?;
            meta.image_bytes = Some(bytes.len() as u64);
            let other = offer.config_of.as_deref();
            if let Some(config) = own_config {
                keep_config(&config, &finished, None)?;
            } else if let Some(of) = other
                && let Some(config) = find_config(&unpacked, of)
            {
                keep_config(&config, &finished, Some((release, of)))?;
                meta.config_of = Some(of.to_owned());
            }
        }
        self.cache.install(&lock, &finished, &meta)?;
        Ok(meta)
    }

    /// Unpacks all packages in a folder, without kernel modules, which are most of their size.
    fn unpack(&self, debs: &Path, into: &Path) -> Result<(), KernelError> {
        let entries = fs::read_dir(debs).map_err(|e| KernelError::io("read", debs, e))?;
        for deb in entries.flatten().map(|entry| entry.path()) {
            self.unpack_deb(&deb, into, &["--exclude=*.ko", "--exclude=*.ko.*"])?;
        }
        Ok(())
    }

    /// Unpacks the files of a package that these arguments of tar choose.
    pub(crate) fn unpack_deb(&self, deb: &Path, into: &Path, choice: &[&str]) -> Result<(), KernelError> {
        let mut open = command("dpkg-deb");
        open.arg("--fsys-tarfile").arg(deb);
        let mut extract = command("tar");
        extract.args(["-x", "--no-same-owner", "-C"]).arg(into).args(choice);
        let doing = format!("unpacking {}", deb.display());
        pipe(open, extract, &doing, UNPACK_LIMIT, &self.cancel).map_err(|error| match error {
            KernelError::Failed { detail, doing } if detail.contains("No space left") => {
                KernelError::NoSpace { folder: self.cache.folder.clone(), detail: doing }
            }
            other => other,
        })
    }
}

/// Finds the image: up to 7.1 in /boot, later beside the modules. Unsigned builds have another name.
fn find_image(unpacked: &Path, release: &str) -> Option<PathBuf> {
    [
        format!("boot/vmlinuz-{release}"),
        format!("usr/lib/modules/{release}/vmlinuz"),
        format!("usr/lib/modules/{release}/vmlinuz.unsigned"),
        format!("boot/vmlinuz-{release}.unsigned"),
    ]
    .iter()
    .map(|path| unpacked.join(path))
    .find(|path| path.is_file())
}

fn find_config(unpacked: &Path, release: &str) -> Option<PathBuf> {
    [format!("boot/config-{release}"), format!("usr/lib/modules/{release}/config")]
        .iter()
        .map(|path| unpacked.join(path))
        .find(|path| path.is_file())
}

/// Copies a build configuration. If it is from another kernel, a comment at its top names that kernel.
fn keep_config(from: &Path, folder: &Path, borrowed: Option<(&str, &str)>) -> Result<(), KernelError> {
    let text = fs::read_to_string(from).map_err(|e| KernelError::io("read", from, e))?;
    let note = borrowed.map_or(String::new(), |(release, of)| {
        format!("# Not the configuration of {release}, which Debian offers no more, but that of {of}.\n")
    });
    let to = folder.join("config");
    fs::write(&to, note + &text).map_err(|e| KernelError::io("write", &to, e))
}
