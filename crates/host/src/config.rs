//! What the running kernel is and was built with.
use std::fs;
use std::io::Read;

/// `uname -r`.
pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map(|s| s.trim().to_owned()).unwrap_or_default()
}

/// The kernel's configuration, from where libbpf searches, too; `None`: it cannot be read.
pub(crate) fn of_this_kernel() -> Option<String> {
    fs::read_to_string(format!("/boot/config-{}", release())).ok().or_else(|| {
        let packed = fs::File::open("/proc/config.gz").ok()?;
        std::io::read_to_string(flate2::read::GzDecoder::new(packed)).ok()
    })
}

/// Which of these options this configuration does not set.
pub(crate) fn missing_options(config: &str, wanted: &[&'static str]) -> Vec<&'static str> {
    let is_set = |option: &str| config.lines().any(|line| line == format!("{option}=y"));
    wanted.iter().copied().filter(|option| !is_set(option)).collect()
}

/// The kernel's type information.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Whether the kernel shows its type information. scx_utils panics without it, so ask this first. A container may hide
/// the file behind an empty one.
pub(crate) fn has_btf() -> bool {
    const MAGIC: u16 = 0xeb9f;
    let mut start = [0; 2];
    let read = fs::File::open(BTF).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && u16::from_ne_bytes(start) == MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_missing_options() {
        let config =
            "CONFIG_BPF_SYSCALL=y\nCONFIG_BPF_JIT=y\n# CONFIG_SCHED_CLASS_EXT is not set\nCONFIG_FPROBE=m\n";
        let wanted = ["CONFIG_SCHED_CLASS_EXT", "CONFIG_BPF_SYSCALL", "CONFIG_BPF_JIT", "CONFIG_FPROBE"];
        assert_eq!(missing_options(config, &wanted), ["CONFIG_SCHED_CLASS_EXT", "CONFIG_FPROBE"]);
    }

    #[test]
    fn knows_the_type_information_where_libbpf_reads_it() {
        assert_eq!(has_btf(), libbpf_rs::btf::Btf::from_vmlinux().is_ok());
    }
}
