//! The source of a kernel, of which only a folder is kept.
use super::catalog::Catalog;
use super::error::KernelError;
use super::subprocess::{command, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const UNPACK_LIMIT: Duration = Duration::from_secs(600);

impl Catalog {
    /// A folder with the Makefile and this folder of the newest source that Debian offers for a series, such as `7.3`.
    /// If it is not in the cache, downloads it; apt verifies it.
    pub fn source(&self, series: &str, folder: &str) -> Result<PathBuf, KernelError> {
        let name = format!("linux-source-{series}");
        let place = self.folder().join("sources").join(&name);
        if place.join(folder).is_dir() {
            return Ok(place);
        }
        let lock = self.cache.lock("fetching a kernel", &self.cancel, &*self.progress)?;
        let work = self.cache.work_folder(&lock)?;
        (self.progress)(&format!("downloading {name} (170 MB)"));
        self.apt().download_newest(&name, work.path())?;
        (self.progress)(&format!("unpacking {folder} of {name}"));
        let deb = only_file(work.path(), ".deb")?;
        let unpacked = work.path().join("unpacked");
        let top = work.path().join("top");
        for new in [&unpacked, &top] {
            fs::create_dir(new).map_err(|e| KernelError::io("create", new, e))?;
        }
        let choice = ["--wildcards", "--strip-components=3", &format!("./usr/src/{name}.tar*")];
        self.unpack_deb(&deb, &unpacked, &choice)?;
        let archive = only_file(&unpacked, "")?;
        let mut extract = command("tar");
        extract
            .args(["-x", "--no-same-owner", "--strip-components=1", "-f"])
            .arg(&archive)
            .arg("-C")
            .arg(&top);
        extract.args([format!("{name}/Makefile"), format!("{name}/{folder}")]);
        let doing = format!("unpacking {}", archive.display());
        let done = run(extract, &doing, UNPACK_LIMIT, &self.cancel)?;
        if !done.status.success() {
            return Err(KernelError::Failed { doing, detail: done.stderr.trim().into() });
        }
        let sources = self.folder().join("sources");
        fs::create_dir_all(&sources).map_err(|e| KernelError::io("create", &sources, e))?;
        let _ = fs::remove_dir_all(&place);
        fs::rename(&top, &place).map_err(|e| KernelError::io("create", &place, e))?;
        Ok(place)
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
