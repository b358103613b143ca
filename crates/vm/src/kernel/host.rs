//! The kernel that this machine runs, and whether it can be a guest's kernel.
use super::image::Image;
use super::{BtfHealth, Kernel, config_has_sched_ext, running_kernel_btf};
use std::path::{Path, PathBuf};

/// The running kernel's release, as `uname -r` prints it.
pub(super) fn release() -> String {
    nix::sys::utsname::uname().map(|names| names.release().to_string_lossy().into_owned()).unwrap_or_default()
}

/// The host's kernel as a guest kernel, or why it cannot be used.
pub(super) fn kernel(root: &Path, release: &str) -> Result<Kernel, String> {
    let config = config(root, release);
    let built_in = config.as_deref().and_then(config_has_sched_ext) == Some(true);
    if !built_in && !root.join("sys/kernel/sched_ext").exists() {
        return Err("it is built without sched_ext".into());
    }
    let image = image(root, release)?;
    // The image is that of the running kernel, which exports its BTF.
    let btf = running_kernel_btf();
    if let BtfHealth::Malformed(kfuncs) = &btf {
        return Err(format!("its BTF is malformed ({} scx kfuncs)", kfuncs.len()));
    }
    Ok(Kernel { release: release.to_owned(), image, config, btf })
}

fn config(root: &Path, release: &str) -> Option<PathBuf> {
    [
        format!("boot/config-{release}"),
        format!("usr/lib/modules/{release}/config"),
        format!("lib/modules/{release}/config"),
    ]
    .into_iter()
    .map(|path| root.join(path))
    .find(|path| std::fs::File::open(path).is_ok())
}

fn image(root: &Path, release: &str) -> Result<PathBuf, String> {
    let mut reason = "there is no image of it in /boot or /usr/lib/modules".to_owned();
    for path in [format!("boot/vmlinuz-{release}"), format!("usr/lib/modules/{release}/vmlinuz")] {
        let path = root.join(path);
        match std::fs::read(&path) {
            Ok(bytes) => match Image::parse(&bytes) {
                Ok(image) if image.release == release => return Ok(path),
                Ok(image) => reason = format!("{} is {}", path.display(), image.release),
                Err(why) => reason = format!("{}: {why}", path.display()),
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => reason = format!("{}: {e}", path.display()),
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::super::btf::tests::blob;
    use super::super::image::tests::bz_image;
    use super::*;

    const RELEASE: &str = "6.18.15+deb13-amd64";

    fn root(config: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("boot")).unwrap();
        std::fs::write(root.path().join(format!("boot/config-{RELEASE}")), config).unwrap();
        root
    }

    #[test]
    fn sched_ext_and_a_matching_image_are_needed() {
        let without = root("# CONFIG_SCHED_CLASS_EXT is not set\n");
        assert!(kernel(without.path(), RELEASE).unwrap_err().contains("without sched_ext"));

        let with = root("CONFIG_SCHED_CLASS_EXT=y\n");
        assert!(kernel(with.path(), RELEASE).unwrap_err().contains("no image"));
        let image = with.path().join(format!("boot/vmlinuz-{RELEASE}"));
        std::fs::write(&image, bz_image("6.1.0", &blob(false))).unwrap();
        assert!(kernel(with.path(), RELEASE).unwrap_err().contains("is 6.1.0"));
        std::fs::write(&image, bz_image(RELEASE, &blob(false))).unwrap();
        assert_eq!(super::image(with.path(), RELEASE), Ok(image));
    }
}
