//! Release names: their order, their series, and which of them a name like `6.18` selects.
use crate::Arch;

/// The suffix of the releases that are used. Their images are the smallest and have the drivers that QEMU needs.
pub(super) const fn flavour(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "-cloud-amd64",
        Arch::Arm64 => "-cloud-arm64",
    }
}

/// Whether a release is one of this processor. Only the names that Debian gives tell; a kernel that was built here has
/// another, and is for this machine.
pub(super) fn is_of(release: &str, arch: Arch) -> bool {
    match Arch::ALL.into_iter().find(|arch| release.ends_with(flavour(*arch))) {
        Some(named) => named == arch,
        None => !arch.is_foreign(),
    }
}

/// The key that sorts releases by age: all numbers before the flavour. So `6.18.9` comes before `6.18.12`, and
/// `7.2.13+deb13` before `7.2.13+deb14`.
pub(super) fn order_key(release: &str) -> Vec<u64> {
    let version = Arch::ALL.iter().find_map(|arch| release.strip_suffix(flavour(*arch))).unwrap_or(release);
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// `6.18` of `6.18.15+deb13-cloud-amd64`; `None` if the name does not start like a version.
pub(super) fn series(release: &str) -> Option<&str> {
    let first = release.find('.')?;
    let rest = &release[first + 1..];
    let second = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    (is_number(&release[..first]) && is_number(&rest[..second])).then(|| &release[..first + 1 + second])
}

/// `6.18.15` of `6.18.15+deb13-cloud-amd64`.
pub(super) fn short(release: &str) -> &str {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    &release[..end]
}

/// Whether `wanted` (a series, version or release) selects `release`. Names end at a boundary: `6.1` selects neither
/// `6.18.15` nor `6.18.1`.
pub(super) fn matches(release: &str, wanted: &str) -> bool {
    release.strip_prefix(wanted).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Whether `wanted` is a series, of which any working build can be used.
pub fn is_series(wanted: &str) -> bool {
    series(wanted) == Some(wanted)
}

/// The known name that is most similar to `wanted`: with one typing error, else the closest version.
pub(super) fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let place = |name: &str| {
        let key = order_key(name);
        let part = |i: usize| key.get(i).copied().unwrap_or(0).min(999);
        part(0) * 1_000_000 + part(1) * 1_000 + part(2)
    };
    known.into_iter().min_by_key(|name| {
        (strsim::damerau_levenshtein(wanted, name).min(2), place(wanted).abs_diff(place(name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_sort_by_number_then_build() {
        let mut releases = vec![
            "7.2.13+deb14-cloud-amd64",
            "6.18.15+deb13-cloud-amd64",
            "6.18.9+deb13-cloud-amd64",
            "7.2.13+deb13-cloud-amd64",
        ];
        releases.sort_by_key(|r| order_key(r));
        assert_eq!(
            releases,
            [
                "6.18.9+deb13-cloud-amd64",
                "6.18.15+deb13-cloud-amd64",
                "7.2.13+deb13-cloud-amd64",
                "7.2.13+deb14-cloud-amd64",
            ]
        );
    }

    #[test]
    fn a_wish_ends_at_a_boundary() {
        let release = "6.18.15+deb13-cloud-amd64";
        for wanted in ["6.18", "6.18.15", "6.18.15+deb13", release] {
            assert!(matches(release, wanted), "{wanted}");
        }
        for wanted in ["6.1", "6.18.1", "6.18.15+deb1", "6.18.15+deb13-cloud-amd64-dbg"] {
            assert!(!matches(release, wanted), "{wanted}");
        }
    }

    #[test]
    fn series_and_short_names() {
        assert_eq!(series("6.18.15+deb13-cloud-amd64"), Some("6.18"));
        assert_eq!(series("6.18"), Some("6.18"));
        assert_eq!(series("6"), None);
        assert_eq!(series("cloud.6"), None);
        assert_eq!(short("7.2.13+deb14-cloud-amd64"), "7.2.13");
        assert!(is_series("6.18") && !is_series("6.18.15"));
    }

    #[test]
    fn nearest_is_a_typing_error_or_a_close_version() {
        let known = ["6.16", "6.17", "6.18", "7.0", "7.2"];
        assert_eq!(nearest("6.81", known), Some("6.18"));
        assert_eq!(nearest("5.4", known), Some("6.16"));
        assert_eq!(nearest("6.18.16", ["6.18.5", "6.18.12", "6.18.15"]), Some("6.18.15"));
        assert_eq!(nearest("6.18", []), None);
    }
}
