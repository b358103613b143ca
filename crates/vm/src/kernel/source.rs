//! The source of a kernel, of which only a folder is kept.
use super::apt::Apt;
use super::cache::DOWNLOADS;
use super::catalog::Catalog;
use super::error::KernelError;
use super::subprocess::command;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const UNPACK_LIMIT: Duration = Duration::from_secs(900);

/// Begins apt's message on a package that no archive has.
pub(super) const UNKNOWN_PACKAGE: &str = "Unable to locate package";

impl Catalog {
    /// A folder with the Makefile and this folder of the newest source that Debian offers for a series, such as `7.3`.
    /// If it is not in the cache, downloads it; apt verifies it.
    pub fn source(&self, series: &str, folder: &str) -> Result<PathBuf, KernelError> {
        let name = format!("linux-source-{series}");
        let place = self.folder().join("sources").join(&name);
        if place.join(folder).is_dir() {
            return Ok(place);
        }
        let lock = self.cache.lock("fetching a kernel", DOWNLOADS, &self.cancel, &*self.progress)?;
        let work = self.cache.work_folder(&lock)?;
        let top = work.path().join("top");
        let parts = [format!("{name}/Makefile"), format!("{name}/{folder}")];
        self.unpack_source(&self.apt(), &name, &parts, work.path(), &top)?;
        let sources = self.folder().join("sources");
        fs::create_dir_all(&sources).map_err(|e| KernelError::io("create", &sources, e))?;
        let _ = fs::remove_dir_all(&place);
        fs::rename(&top, &place).map_err(|e| KernelError::io("create", &place, e))?;
        Ok(place)
    }
}

impl Catalog {
    /// Downloads the newest source of this name into a folder of `work`, and unpacks these parts of it, or all, into `top`.
    /// Returns the package with its version.
    pub(super) fn unpack_source(
        &self,
        apt: &Apt<'_>,
        name: &str,
        parts: &[String],
        work: &Path,
        top: &Path,
    ) -> Result<String, KernelError> {
        let (debs, unpacked) = (work.join("debs"), work.join("unpacked"));
        for new in [&debs, &unpacked, &top.to_path_buf()] {
            fs::create_dir_all(new).map_err(|e| KernelError::io("create", new, e))?;
        }
        (self.progress)(&format!("downloading {name} (150 to 170 MB)"));
        apt.download_newest(name, &debs)?;
        let deb = only_file(&debs, ".deb")?;
        let package = deb.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // For apt a name that is none is a pattern.
        if !package.starts_with(&format!("{name}_")) {
            let detail = format!("{UNKNOWN_PACKAGE} {name}");
            return Err(KernelError::Failed { doing: format!("downloading {name}"), detail });
        }
        (self.progress)(&format!("unpacking {name}"));
        let choice = ["--wildcards", "--strip-components=3", &format!("./usr/src/{name}.tar*")];
        self.unpack_deb(&deb, &unpacked, &choice)?;
        let mut extract = command("tar");
        extract.args(["-x", "--no-same-owner", "--strip-components=1", "-f"]);
        extract.arg(only_file(&unpacked, "")?).arg("-C").arg(top).args(parts);
        self.done(extract, &format!("unpacking {name}"), UNPACK_LIMIT)?;
        Ok(package)
    }
}

/// The file of this ending.
pub(super) fn only_file(folder: &Path, ending: &str) -> Result<PathBuf, KernelError> {
    let entries = fs::read_dir(folder).map_err(|e| KernelError::io("read", folder, e))?;
    let mut files = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    files.find(|path| path.to_string_lossy().ends_with(ending)).ok_or_else(|| KernelError::Failed {
        doing: format!("unpacking into {}", folder.display()),
        detail: format!("there is no file *{ending}"),
    })
}
