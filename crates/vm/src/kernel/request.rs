//! The argument of `--kernel`.
use super::version;
use std::path::PathBuf;
use std::str::FromStr;

/// The kernel that the user requested with `--kernel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelRequest {
    /// The host's own kernel if it can run sched_ext and its image is readable, else the default series.
    Default,
    /// The host's own kernel, or an error.
    Host,
    /// A series (`6.18`), a version (`6.18.15`) or a whole release (`6.18.15+deb13-cloud-amd64`).
    Version(String),
    /// An image file (contains a `/`).
    Path(PathBuf),
    /// A kernel that is built here.
    Build(BuildSource),
}

/// What a kernel is built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildSource {
    /// Debian's source of a series, such as `6.12`.
    Series(String),
    /// A folder with a kernel's source. Its path is absolute.
    Folder(PathBuf),
}

/// What follows `build:`.
fn build_source(s: &str) -> Result<BuildSource, String> {
    if version::is_series(s) {
        return Ok(BuildSource::Series(s.to_owned()));
    }
    if !s.contains('/') {
        return Err(format!(
            "`build:{s}`: expected a series (build:6.12) or the path of a kernel's source, with a `/`"
        ));
    }
    let folder = PathBuf::from(s);
    let absolute = std::fs::canonicalize(&folder).map_err(|e| format!("cannot read {s}: {e}"))?;
    if !absolute.join("kernel/sched").is_dir() || !absolute.join("Makefile").is_file() {
        return Err(format!("{s} is not the source of a kernel: it has no Makefile or no kernel/sched"));
    }
    Ok(BuildSource::Folder(absolute))
}

impl FromStr for KernelRequest {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let forms = "a series (6.18), a version (6.18.15), a release as `uname -r` prints it, \
                     the path of an image (with a `/`), `host`, `default`, or what to build one from \
                     (build:6.12, build:/path/to/source)";
        match s {
            "" => return Err(format!("no kernel named; possible: {forms}")),
            "default" => return Ok(Self::Default),
            "host" => return Ok(Self::Host),
            _ => {}
        }
        if let Some(source) = s.strip_prefix("build:") {
            return build_source(source).map(Self::Build);
        }
        if s.contains('/') {
            let path = PathBuf::from(s);
            return match std::fs::metadata(&path) {
                Ok(about) if about.is_file() => Ok(Self::Path(path)),
                Ok(_) => Err(format!("{s} is not a file; give the path of a kernel image")),
                Err(e) => Err(format!("cannot read {s}: {e}")),
            };
        }
        let like_a_version = version::series(s).is_some()
            && s.chars().all(|c| c.is_ascii_alphanumeric() || ".+-~_".contains(c))
            && !s.ends_with(['.', '+', '-', '~']);
        if like_a_version {
            return Ok(Self::Version(s.to_owned()));
        }
        let meant = if let Some(version) = s.strip_prefix(['v', 'V'])
            && version::series(version).is_some()
        {
            format!("; did you mean `{version}`?")
        } else if std::path::Path::new(s).is_file() {
            format!("; for the file of that name write `./{s}`")
        } else {
            ["default", "host"]
                .into_iter()
                .find(|word| strsim::damerau_levenshtein(s, word) <= 2)
                .map(|word| format!("; did you mean `{word}`?"))
                .unwrap_or_default()
        };
        Err(format!("`{s}` names no kernel{meant} (possible: {forms})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(s: &str) -> Result<KernelRequest, String> {
        s.parse()
    }

    #[test]
    fn words_and_versions() {
        assert_eq!(parse("default"), Ok(KernelRequest::Default));
        assert_eq!(parse("host"), Ok(KernelRequest::Host));
        for version in ["6.18", "6.18.15", "6.18.15+deb13", "6.18.15+deb13-cloud-amd64"] {
            assert_eq!(parse(version), Ok(KernelRequest::Version(version.into())));
        }
    }

    #[test]
    fn paths_must_be_files() {
        let image = tempfile::NamedTempFile::new().unwrap();
        let path = image.path().to_str().unwrap();
        assert_eq!(parse(path), Ok(KernelRequest::Path(path.into())));
        assert!(parse("/").unwrap_err().contains("not a file"));
        assert!(parse("./no/such/image").unwrap_err().contains("cannot read"));
    }

    #[test]
    fn kernels_to_build() {
        assert_eq!(parse("build:6.12"), Ok(KernelRequest::Build(BuildSource::Series("6.12".into()))));
        for nonsense in ["build:", "build:6", "build:6.12.1", "build:newest", "build:/", "build:./no/such"] {
            assert!(parse(nonsense).is_err(), "{nonsense}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert!(parse(&format!("build:{path}")).unwrap_err().contains("not the source of a kernel"));
        std::fs::create_dir_all(folder.path().join("kernel/sched")).unwrap();
        std::fs::write(folder.path().join("Makefile"), "").unwrap();
        let expected = std::fs::canonicalize(path).unwrap();
        assert_eq!(parse(&format!("build:{path}")), Ok(KernelRequest::Build(BuildSource::Folder(expected))));
    }

    #[test]
    fn nonsense_is_rejected_with_a_hint() {
        for nonsense in ["", "6", "newest", "6.", "6.18.", "6.18 ", "6.18;id", ".6", "6..18", "-6.18"] {
            assert!(parse(nonsense).is_err(), "{nonsense:?}");
        }
        assert!(parse("v6.18").unwrap_err().contains("`6.18`?"));
        assert!(parse("defualt").unwrap_err().contains("`default`?"));
        assert!(parse("hots").unwrap_err().contains("`host`?"));
    }
}
