//! Debian's package index and packages, through apt with a configuration of its own.
//!
//! It has its own sources, lists, cache and status, all under one folder, and changes nothing of
//! the user's system. Of the user's configuration it reads only how to reach the network (the proxy
//! settings), which Debian mirror to use, and whether its index may be out of date. apt always
//! verifies the signatures.
use super::KernelError;
use super::cache::Cache;
use super::index::{self, Offer, Package};
use super::subprocess::{Finished, command, last_words, run};
use crate::Arch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The suites with kernels new enough for sched_ext.
pub(super) fn kernels(arch: Arch) -> Archive {
    let folder = match arch {
        _ if !arch.is_foreign() => "apt",
        Arch::X86 => "apt-amd64",
        Arch::Arm64 => "apt-arm64",
    };
    Archive { folder, kind: "deb", suites: "trixie-backports sid", arch }
}
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The variable that names a mirror, for machines whose apt has none.
const MIRROR_VARIABLE: &str = "FLSCHED_DEBIAN_MIRROR";

/// Limit of commands that only work locally.
const QUERY_LIMIT: Duration = Duration::from_secs(60);
/// Limit for fetching the index, of 11 MB.
const UPDATE_LIMIT: Duration = Duration::from_secs(300);
/// Limit of a download of at most 170 MB.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(1200);

/// The archive that a private apt uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Archive {
    /// Its folder in the cache folder.
    pub folder: &'static str,
    /// `deb` or `deb-src`.
    pub kind: &'static str,
    /// Debian's suites, separated by spaces.
    pub suites: &'static str,
    /// The processor that its packages are for.
    pub arch: Arch,
}

/// An apt with its own configuration and state in a folder.
pub(crate) struct Apt<'a> {
    pub cache: PathBuf,
    pub archive: Archive,
    pub cancel: &'a AtomicBool,
    pub report: &'a dyn Fn(&str),
}

impl Apt<'_> {
    /// Fetches the package index and reads the kernels in it. If a part could not be fetched, apt's
    /// old copy of that part is used, and the reason is returned.
    pub fn refresh(&self) -> Result<(Vec<Offer>, Option<KernelError>), KernelError> {
        self.configure()?;
        let unchecked = "Acquire::Check-Valid-Until \"false\"";
        if fs::read_to_string(self.folder().join("apt.conf")).is_ok_and(|text| text.contains(unchecked)) {
            (self.report)("an out-of-date index is accepted, as this machine's apt settings allow it");
        }
        let Some(trouble) = self.update()? else { return Ok((self.offers()?, None)) };
        match self.offers() {
            Ok(offers) if !offers.is_empty() => Ok((offers, Some(trouble))),
            Err(KernelError::Interrupted) => Err(KernelError::Interrupted),
            _ => Err(trouble),
        }
    }

    /// Downloads a source package into a folder; apt checks it against the signed index.
    pub fn download_source(&self, package: &str, into: &Path) -> Result<(), KernelError> {
        self.fetch_newest(&["source", "--download-only", package], package, into)
    }

    /// Downloads the newest version of a package into a folder; apt checks it against the signed index.
    pub fn download_newest(&self, package: &str, into: &Path) -> Result<(), KernelError> {
        self.fetch_newest(&["download", package], package, into)
    }

    /// Downloads the newest versions of packages into a folder; apt checks them against the signed index.
    pub fn download_all(&self, packages: &[&str], into: &Path) -> Result<(), KernelError> {
        self.fetch_newest(&[&["download"], packages].concat(), &packages.join(", "), into)
    }

    fn fetch_newest(&self, arguments: &[&str], package: &str, into: &Path) -> Result<(), KernelError> {
        self.configure()?;
        if let Some(trouble) = self.update()? {
            return Err(trouble);
        }
        self.fetch(arguments, package, into)
    }

    /// Fetches the index. Returns an error as a value, because an older index may serve.
    fn update(&self) -> Result<Option<KernelError>, KernelError> {
        let doing = "fetching the package index";
        let mut update = self.tool("apt-get");
        update.args(["-q", "update"]);
        let updated = run(update, doing, UPDATE_LIMIT, self.cancel).map_err(slow_mirror)?;
        // Older apts exit 0 although a list could not be fetched.
        let failed = !updated.status.success() || updated.stderr.contains("Failed to fetch");
        Ok(failed.then(|| self.explain(doing, &updated)))
    }

    /// Runs apt-get so that it downloads files into a folder.
    fn fetch(&self, arguments: &[&str], package: &str, into: &Path) -> Result<(), KernelError> {
        let doing = format!("downloading {package}");
        let mut download = self.tool("apt-get");
        download.arg("-q").args(arguments).current_dir(into);
        let done = run(download, &doing, DOWNLOAD_LIMIT, self.cancel).map_err(slow_mirror)?;
        if done.status.success() { Ok(()) } else { Err(self.explain(&doing, &done)) }
    }

    fn folder(&self) -> PathBuf {
        self.cache.join(self.archive.folder)
    }

    fn offers(&self) -> Result<Vec<Offer>, KernelError> {
        let doing = "reading the package index";
        let mut names = self.tool("apt-cache");
        names.args(["pkgnames", "linux-"]);
        let names = self.checked(names, doing)?;
        let names: Vec<&str> =
            names.lines().filter(|name| index::is_relevant(name, self.archive.arch)).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut show = self.tool("apt-cache");
        show.args(["--no-all-versions", "show"]).args(names);
        Ok(index::offers(&index::parse(&self.checked(show, doing)?), self.archive.arch))
    }

    /// Downloads packages into a folder; apt checks them against the signed index.
    pub fn download(&self, packages: &[&Package], into: &Path) -> Result<(), KernelError> {
        self.configure()?;
        let names: Vec<_> = packages.iter().map(|p| format!("{}={}", p.name, p.version)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.fetch(&[&["download"], &names[..]].concat(), &packages[0].name, into)
    }

    fn tool(&self, name: &str) -> Command {
        let mut tool = command(name);
        tool.env("APT_CONFIG", self.folder().join("apt.conf"));
        tool
    }

    fn checked(&self, command: Command, doing: &str) -> Result<String, KernelError> {
        let done = run(command, doing, QUERY_LIMIT, self.cancel)?;
        if done.status.success() { Ok(done.stdout) } else { Err(self.explain(doing, &done)) }
    }

    fn explain(&self, doing: &str, done: &Finished) -> KernelError {
        let error = explain(&self.folder(), doing, done);
        if matches!(error, KernelError::NoSpace { .. }) {
            self.drop_pieces();
        }
        error
    }

    /// apt keeps what it has of a file, to go on there. Of a file that did not fit, this would keep the disk full.
    pub fn drop_pieces(&self) {
        for folder in ["lists/partial", "archives/partial"] {
            // The error that the user gets is the full disk; `configure` creates the folder again.
            let _ = fs::remove_dir_all(self.folder().join(folder));
        }
    }

    /// Writes the private configuration. This is done each time, as the user's mirror and proxy may change.
    fn configure(&self) -> Result<(), KernelError> {
        check_quotable(&self.cache)?;
        let mirror = self.mirror()?;
        if !Path::new(KEYRING).is_file() {
            return Err(KernelError::NoKeyring { keyring: KEYRING.into() });
        }
        for folder in ["sources", "none", "lists/partial", "archives/partial", "state", "log"] {
            let folder = self.folder().join(folder);
            fs::create_dir_all(&folder).map_err(|e| KernelError::io("create", &folder, e))?;
        }
        let mut dump = command("apt-config");
        dump.arg("dump");
        let users = run(dump, "reading apt's settings", QUERY_LIMIT, self.cancel)?.stdout;
        let Archive { kind, suites, arch, .. } = self.archive;
        let arch = arch.of_debian();
        let sources = format!(
            "Types: {kind}\nURIs: {mirror}\nSuites: {suites}\nComponents: main\nArchitectures: {arch}\n\
             Signed-By: {KEYRING}\n"
        );
        self.write("status", "")?;
        self.write("sources/debian.sources", &sources)?;
        self.write("apt.conf", &configuration(&self.folder(), arch, &users, nix::unistd::geteuid().is_root()))
    }

    fn write(&self, name: &str, content: &str) -> Result<(), KernelError> {
        let path = self.folder().join(name);
        fs::write(&path, content).map_err(|e| KernelError::io("write", &path, e))
    }

    /// The mirror named by the user, else the one their own apt uses.
    fn mirror(&self) -> Result<String, KernelError> {
        if let Ok(named) = std::env::var(MIRROR_VARIABLE)
            && !named.trim().is_empty()
        {
            return Ok(named.trim().to_owned());
        }
        let ask = |extra: &[&str]| {
            let mut targets = command("apt-get");
            targets
                .arg("indextargets")
                .args(extra)
                .args(["--format", "$(CREATED_BY)|$(COMPONENT)|$(ORIGIN)|$(LABEL)|$(RELEASE)|$(REPO_URI)"]);
            run(targets, "asking apt for a mirror", QUERY_LIMIT, self.cancel).map(|done| done.stdout)
        };
        if let Some(mirror) = main_mirror(&ask(&[])?, None) {
            return Ok(mirror);
        }
        // Before the first `apt-get update` apt has addresses, but not the origins of the
        // archives.
        let about = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let codename = about.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        codename
            .filter(|_| about.lines().any(|line| line == "ID=debian"))
            .map(|codename| Ok(main_mirror(&ask(&["--no-release-info"])?, Some(codename))))
            .transpose()?
            .flatten()
            .ok_or(KernelError::NoMirror)
    }
}

/// Selects Debian's main archive among apt's index targets. Its security archive, other vendors' archives and
/// backports-only archives have other suites. Where the origin is not known yet, the host's own suite
/// (`codename`) identifies the archive.
fn main_mirror(targets: &str, codename: Option<&str>) -> Option<String> {
    targets.lines().find_map(|line| {
        let [created_by, component, origin, label, release, uri] =
            line.split('|').collect::<Vec<_>>().try_into().ok()?;
        let debian = match codename {
            Some(codename) => release == codename,
            None => origin == "Debian" && label == "Debian",
        };
        let main = created_by == "Packages" && component == "main";
        (debian && main && !uri.is_empty()).then(|| uri.to_owned())
    })
}

/// The private configuration. apt reads it before the system's configuration, and it names other folders for that.
fn configuration(folder: &Path, arch: &str, users: &str, root: bool) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    let mut text = format!(
        "Dir::Etc::main \"/dev/null\";\nDir::Etc::parts \"{none}\";\n\
         Dir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"{sources}\";\n\
         Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"{none}\";\n\
         Dir::State \"{state}\";\nDir::State::lists \"{lists}\";\nDir::State::status \"{status}\";\n\
         Dir::Cache \"{cache}\";\nDir::Cache::archives \"{archives}\";\n\
         Dir::Cache::pkgcache \"\";\nDir::Cache::srcpkgcache \"\";\nDir::Log \"{log}\";\n\
         APT::Architecture \"{arch}\";\nAPT::Architectures \"{arch}\";\n\
         APT::Update::Error-Mode \"any\";\nAcquire::Languages \"none\";\n\
         Acquire::GzipIndexes \"true\";\nAcquire::PDiffs \"false\";\n\
         Acquire::Retries \"1\";\nAcquire::http::Timeout \"20\";\nAcquire::https::Timeout \"20\";\n",
        none = at("none"),
        sources = at("sources"),
        state = at("state"),
        lists = at("lists"),
        status = at("status"),
        cache = folder.display(),
        archives = at("archives"),
        log = at("log"),
    );
    if root {
        // apt downloads as an unprivileged user, which cannot enter a folder below root's home.
        text += "APT::Sandbox::User \"root\";\n";
    }
    // Only settings of the network are taken over, and those that accept an out-of-date index: a
    // user of a frozen mirror has set them. Hooks are not taken over, nor settings that make apt
    // accept unsigned packages.
    let taken = [
        "Acquire::http::",
        "Acquire::https::",
        "Acquire::ForceIPv",
        "Acquire::Retries ",
        "Acquire::Check-Valid-Until ",
        "Acquire::Check-Date ",
    ];
    for line in users.lines().filter(|line| taken.iter().any(|prefix| line.starts_with(prefix))) {
        text += line;
        text.push('\n');
    }
    text
}

/// Refuses a cache folder that apt's configuration, which has the paths in quotes, cannot name.
fn check_quotable(cache: &Path) -> Result<(), KernelError> {
    match cache.to_str() {
        Some(text) if !text.contains(['"', '\n']) => Ok(()),
        _ => Err(KernelError::UnfitPath {
            path: cache.to_owned(),
            tool: "apt",
            has: "a quotation mark, a line's end or something that is no text",
            remedy: Cache::OTHER_FOLDER,
        }),
    }
}

/// What keeps a download from ending is the mirror, or the way to it.
fn slow_mirror(error: KernelError) -> KernelError {
    match error {
        KernelError::TimedOut { doing, limit } => KernelError::SlowMirror { doing, limit },
        other => other,
    }
}

/// Finds the cause in apt's messages.
fn explain(folder: &Path, doing: &str, done: &Finished) -> KernelError {
    let Finished { stdout, stderr, .. } = done;
    let detail = last_words(stderr);
    let says = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    let doing = doing.to_owned();
    let full = ["No space left on device", "enough free space", "Disk quota exceeded"];
    // apt 3.0 tells of a full disk among its progress only, and tries another file, which the mirror does not have.
    if says(&full) || full.iter().any(|word| stdout.contains(word)) {
        let folder = folder.parent().unwrap_or(folder).to_owned();
        KernelError::NoSpace { folder, detail: doing }
    } else if says(&[
        "resolving",
        "Could not resolve",
        "Could not connect",
        "Unable to connect",
        "Connection failed",
        "unreachable",
        "timed out",
        "refused",
        "Could not handshake",
        "Connection reset",
    ]) {
        KernelError::NoNetwork { doing, detail, at_hand: Vec::new() }
    } else if says(&[
        "NO_PUBKEY",
        "is not signed",
        "GPG error",
        "Hash Sum mismatch",
        "is not valid yet",
        "expired",
    ]) {
        KernelError::Untrusted { detail }
    } else if says(&["404", "Unable to locate package", "was not found", "Can't find a source"]) {
        KernelError::Gone { package: doing.trim_start_matches("downloading ").to_owned(), detail }
    } else {
        KernelError::Failed { doing, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_archive_is_found() {
        let targets = "\
Packages|main|Debian|Debian-Security|bookworm-security|http://a.invalid/debian-security/
DEP-11|main|Debian|Debian|bookworm|http://wrong.invalid/debian/
Packages|contrib|Debian|Debian|bookworm|http://wrong.invalid/debian/
Packages|main|Docker|Docker CE|bookworm|http://other.invalid/
Packages|main|Debian|Debian|bookworm|http://b.invalid/debian/";
        assert_eq!(main_mirror(targets, None).as_deref(), Some("http://b.invalid/debian/"));
        assert_eq!(main_mirror("", None), None);
        let unread =
            "Packages|main|||bookworm-security|http://a.invalid/\nPackages|main|||bookworm|http://b.invalid/";
        assert_eq!(main_mirror(unread, None), None);
        assert_eq!(main_mirror(unread, Some("bookworm")).as_deref(), Some("http://b.invalid/"));
    }

    #[test]
    fn of_the_users_settings_only_network_and_lag_are_taken() {
        let users = "Acquire::http::Proxy \"http://proxy.invalid:3128\";\n\
                     Acquire::Check-Valid-Until \"false\";\n\
                     Acquire::AllowInsecureRepositories \"1\";\n\
                     APT::Update::Post-Invoke:: \"rm x\";\n\
                     APT::Get::AllowUnauthenticated \"1\";\n";
        let text = configuration(Path::new("/c/apt"), "amd64", users, false);
        assert!(text.contains("Proxy \"http://proxy.invalid:3128\""));
        assert!(text.contains("Check-Valid-Until \"false\""));
        assert!(text.contains("Dir::Etc::parts \"/c/apt/none\""));
        for unwanted in ["Insecure", "Invoke", "Unauthenticated", "Sandbox"] {
            assert!(!text.contains(unwanted), "{unwanted}");
        }
        assert!(configuration(Path::new("/c/apt"), "amd64", users, true).contains("Sandbox"));
    }

    #[test]
    fn cache_folders_that_cannot_be_quoted_are_refused() {
        use std::os::unix::ffi::OsStrExt;
        assert!(check_quotable(Path::new("/two words")).is_ok());
        for path in [&b"/a\"b"[..], b"/a\xff"] {
            let error = check_quotable(Path::new(std::ffi::OsStr::from_bytes(path))).unwrap_err();
            assert!(error.to_string().contains("FLSCHED_CACHE"), "{error}");
        }
    }

    #[test]
    fn only_a_slow_download_advises_another_mirror() {
        let late = || KernelError::TimedOut { doing: "x".into(), limit: DOWNLOAD_LIMIT };
        assert!(late().to_string().contains("less other load"));
        assert!(slow_mirror(late()).to_string().contains("nearer mirror"));
    }

    #[test]
    fn causes_are_distinguished() {
        let explain = |stderr: &str, stdout: &str| {
            let (stderr, stdout) = (stderr.to_owned(), stdout.to_owned());
            explain(
                Path::new("/c/apt"),
                "downloading x",
                &Finished { status: Default::default(), stderr, stdout },
            )
        };
        let cause = |stderr: &str| explain(stderr, "Get:1 http://m.invalid sid InRelease [193 kB]");
        assert!(matches!(
            cause("E: Failed to fetch http://m.invalid/x  Temporary failure resolving 'm.invalid'"),
            KernelError::NoNetwork { .. }
        ));
        assert!(matches!(
            cause("E: You don't have enough free space in /c/apt/"),
            KernelError::NoSpace { folder, .. } if folder == Path::new("/c")
        ));
        assert!(matches!(
            cause("W: GPG error: http://m.invalid sid InRelease: NO_PUBKEY 0E98404D386FA1D9"),
            KernelError::Untrusted { .. }
        ));
        assert!(matches!(
            cause("E: Failed to fetch http://m.invalid/x  404  Not Found"),
            KernelError::Gone { package, .. } if package == "x"
        ));
        assert!(matches!(
            explain(
                "E: Failed to fetch http://m.invalid/x  404  Not Found",
                "Err:1 http://m.invalid sid/main\n  Error writing to file - write (28: No space left on device)"
            ),
            KernelError::NoSpace { .. }
        ));
        assert!(matches!(cause("E: something else"), KernelError::Failed { .. }));
    }
}
