//! The kernels that Debian's package index offers: parses package records into kernel releases.
use super::version::{flavour, order_key};
use crate::Arch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One version of one package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Package {
    pub name: String,
    pub version: String,
    pub bytes: u64,
}

/// A kernel that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub release: String,
    /// The package with the image.
    pub image: Package,
    /// The package with the build configuration, if the image's package does not have it.
    pub config: Option<Package>,
    /// The release of that configuration, where the kernel's own is no longer offered.
    pub config_of: Option<String>,
}

impl Offer {
    /// The size of the download, in bytes.
    pub fn bytes(&self) -> u64 {
        self.image.bytes + self.config.as_ref().map_or(0, |package| package.bytes)
    }
}

/// Packages that can have the image, in order of preference. Up to 6.18, `linux-image` has everything. Later it is
/// empty and depends on the others, and the newest build may be available unsigned only.
const IMAGE_PACKAGES: [&str; 3] = ["linux-binary-", "linux-binary-unsigned-", "linux-image-"];
/// The package with the configuration where `linux-image` does not have it.
const CONFIG_PACKAGE: &str = "linux-base-";
/// A smaller package has no image: it is one of the empty `linux-image` packages.
const SHELL_BYTES: u64 = 1 << 20;

/// Whether a package may belong to a kernel that can be used.
pub(super) fn is_relevant(package: &str, arch: Arch) -> bool {
    IMAGE_PACKAGES.iter().chain([&CONFIG_PACKAGE]).any(|prefix| release_in(package, prefix, arch).is_some())
}

/// The release in a package's name; `None` for other packages, metapackages and other flavours.
fn release_in<'a>(package: &'a str, prefix: &str, arch: Arch) -> Option<&'a str> {
    let release = package.strip_prefix(prefix)?;
    (release.ends_with(flavour(arch)) && release.starts_with(|c: char| c.is_ascii_digit())).then_some(release)
}

/// Reads package records (`Package:`, `Version:`, `Size:`, an empty line between two).
pub(super) fn parse(records: &str) -> Vec<Package> {
    let mut packages = Vec::new();
    for record in records.split("\n\n") {
        let field = |name: &str| {
            record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::trim)
        };
        if let (Some(name), Some(version), Some(Ok(bytes))) =
            (field("Package"), field("Version"), field("Size").map(str::parse))
        {
            packages.push(Package { name: name.into(), version: version.into(), bytes });
        }
    }
    packages
}

/// Combines packages into kernels, oldest first.
pub(super) fn offers(packages: &[Package], arch: Arch) -> Vec<Offer> {
    let configs: BTreeMap<Vec<u64>, (&str, &Package)> = packages
        .iter()
        .filter_map(|p| release_in(&p.name, CONFIG_PACKAGE, arch).map(|r| (order_key(r), (r, p))))
        .collect();
    let mut images: BTreeMap<Vec<u64>, (&str, &Package)> = BTreeMap::new();
    for prefix in IMAGE_PACKAGES {
        for package in packages.iter().filter(|p| p.bytes >= SHELL_BYTES) {
            if let Some(release) = release_in(&package.name, prefix, arch) {
                images.entry(order_key(release)).or_insert((release, package));
            }
        }
    }
    images
        .into_iter()
        .map(|(key, (release, image))| {
            let own = configs.get(&key).copied();
            let complete = image.name.starts_with("linux-image-");
            // Debian removes `linux-base` of a superseded kernel before its image, but scx programs
            // need a configuration. That of the next newer kernel, or else of the newest, is similar.
            let borrowed = || configs.range(key.clone()..).next().or(configs.iter().next_back());
            let found = match own {
                _ if complete => None,
                Some(own) => Some(own),
                None => borrowed().map(|(_, other)| *other),
            };
            Offer {
                release: release.to_owned(),
                image: image.clone(),
                config: found.map(|(_, package)| package.clone()),
                config_of: found.map(|(of, _)| of.to_owned()).filter(|of| of != release),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: &str = "\
Package: linux-image-6.18.15+deb13-cloud-amd64
Source: linux-signed-amd64 (6.18.15+1)
Version: 6.18.15-1~bpo13+1
Size: 49146196
Description: Linux
 Size: not a field

Package: linux-image-7.0.13+deb13-cloud-amd64
Version: 7.0.13-1
Size: 1920

Package: linux-binary-7.0.13+deb13-cloud-amd64
Version: 7.0.13-1
Size: 13149508

Package: linux-binary-unsigned-7.2.13+deb14-cloud-amd64
Version: 7.2.13-1
Size: 13000000

Package: linux-binary-7.2.13+deb14-cloud-amd64
Version: 7.2.13-1
Size: 13717736

Package: linux-base-7.2.13+deb14-cloud-amd64
Version: 7.2.13-1
Size: 417436

Package: linux-binary-unsigned-7.3.4+deb13-cloud-amd64
Version: 7.3.4-1
Size: 13602692

Package: linux-image-cloud-amd64
Version: 7.2.13-1
Size: 1500

Package: linux-image-7.2.13+deb14-amd64
Version: 7.2.13-1
Size: 60000000
";

    #[test]
    fn packages_become_kernels() {
        let offers = offers(&parse(RECORDS), Arch::X86);
        let summaries: Vec<_> = offers
            .iter()
            .map(|o| {
                let config = o.config.as_ref().map(|p| p.name.as_str());
                (o.release.as_str(), o.image.name.as_str(), config, o.config_of.as_deref())
            })
            .collect();
        let base = Some("linux-base-7.2.13+deb14-cloud-amd64");
        let of = Some("7.2.13+deb14-cloud-amd64");
        assert_eq!(
            summaries,
            [
                ("6.18.15+deb13-cloud-amd64", "linux-image-6.18.15+deb13-cloud-amd64", None, None),
                ("7.0.13+deb13-cloud-amd64", "linux-binary-7.0.13+deb13-cloud-amd64", base, of),
                ("7.2.13+deb14-cloud-amd64", "linux-binary-7.2.13+deb14-cloud-amd64", base, None),
                ("7.3.4+deb13-cloud-amd64", "linux-binary-unsigned-7.3.4+deb13-cloud-amd64", base, of),
            ]
        );
        assert_eq!(offers[2].bytes(), 13717736 + 417436);
    }

    #[test]
    fn only_kernel_packages_matter() {
        let is_relevant = |name| is_relevant(name, Arch::X86);
        assert!(is_relevant("linux-image-6.18.15+deb13-cloud-amd64"));
        assert!(is_relevant("linux-base-7.2.13+deb14-cloud-amd64"));
        for other in [
            "linux-image-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64-dbg",
            "linux-image-6.18.15+deb13-cloud-arm64",
            "linux-base",
        ] {
            assert!(!is_relevant(other), "{other}");
        }
    }
}
