//! Checks whether this machine can run the policies. Each finding has its remedy.
pub(crate) mod boot;
mod frequency;

use crate::config::{has_btf, missing_options, of_this_kernel, release};
use crate::error::NO_CONFIG_REMEDY;
use crate::processes;
use crate::supervise::UNGUARDED;
use crate::{Error, Purpose, malformed_kfuncs, partial, sched_ext, try_load};
use flsched_spec::Policy;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The first kernel with sched_ext.
const FIRST_SCHED_EXT: (u32, u32) = (6, 12);
const IN_A_VM: &str = "try it in a virtual machine, on any machine with Debian or Ubuntu: flsched vm -- CMD";

const ONE_AT_A_TIME: &str = "stop it first: one sched_ext scheduler runs a machine at a time";

/// What a finding means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// Something does not work, or not as well as it could.
    Warning,
    Failure,
}

/// One thing that was examined.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// A short name of the check.
    pub check: &'static str,
    pub verdict: Verdict,
    pub found: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// A finding without a problem.
pub fn ok(check: &'static str, found: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Ok, found: found.into(), remedy: None }
}

/// See [`Verdict::Warning`].
pub fn warning(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Warning, found: found.into(), remedy: Some(remedy.into()) }
}

fn failure(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Failure, found: found.into(), remedy: Some(remedy.into()) }
}

/// All findings on this machine. Whether policies load is tried only if nothing else prevents it. A CPU is kept
/// busy for a moment if frequencies change.
pub fn examine() -> Vec<Finding> {
    let mut findings =
        vec![kernel_version(), sched_ext_present(), kernel_config(), kfunc_types(), privileges(), attached()];
    findings.extend(pages(page_bytes()));
    findings.extend(boot::findings());
    if can_run(&findings) {
        findings.extend(Policy::all().into_iter().map(loads));
    }
    if Purpose::ATTACH.lack().is_none() {
        findings.extend(other_privileges());
    }
    findings.push(real_time_tasks());
    findings.push(partial_mode());
    findings.extend(frequency::findings());
    findings.push(cgroup_limits(Path::new("/sys/fs/cgroup")));
    findings
}

/// Whether none of these is a failure.
pub fn can_run(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.verdict != Verdict::Failure)
}

/// Major and minor number of a release.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel_version() -> Finding {
    const CHECK: &str = "kernel";
    let release = release();
    match version_of(&release) {
        Some(version) if version >= FIRST_SCHED_EXT => ok(CHECK, release),
        _ => failure(
            CHECK,
            format!("{release}: older than sched_ext (6.12)"),
            format!("boot 6.12 or newer, or {IN_A_VM}"),
        ),
    }
}

/// In bytes.
const USUAL_PAGE: u64 = 4096;
/// On Debian's 7.3 for aarch64 with such pages, all scenarios of all policies pass.
const LARGER_PAGE: u64 = 16384;

/// Those of the kernel. Some kernels for aarch64 have larger ones.
fn page_bytes() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(USUAL_PAGE as i64)
        as u64
}

fn pages(bytes: u64) -> Option<Finding> {
    (![USUAL_PAGE, LARGER_PAGE].contains(&bytes)).then(|| {
        warning(
            "pages",
            format!("pages of {} KiB: FLSCHED has not been tried on such a kernel", bytes >> 10),
            "please report how it goes; if it fails, boot a kernel with pages of 4 KiB, as most distributions offer",
        )
    })
}

fn sched_ext_present() -> Finding {
    match sched_ext::status() {
        Some(_) => ok("sched_ext", "in this kernel"),
        None => failure(
            "sched_ext",
            "not in this kernel (no /sys/kernel/sched_ext)",
            format!("boot a kernel built with CONFIG_SCHED_CLASS_EXT=y, or {IN_A_VM}"),
        ),
    }
}

fn kernel_config() -> Finding {
    const CHECK: &str = "config";
    let release = release();
    let Some(config) = of_this_kernel() else {
        return failure(
            CHECK,
            format!(
                "this kernel's configuration cannot be read (no /boot/config-{release}, no /proc/config.gz)"
            ),
            NO_CONFIG_REMEDY,
        );
    };
    let needed = Purpose::ATTACH.options();
    let missing = missing_options(&config, needed);
    if missing.is_empty() {
        return ok(CHECK, format!("{} are set", needed.join(", ")));
    }
    failure(
        CHECK,
        format!("not set: {}", missing.join(", ")),
        format!("boot a kernel built with all of these (docs/how-to/install.md lists some), or {IN_A_VM}"),
    )
}

fn kfunc_types() -> Finding {
    const CHECK: &str = "BTF";
    if !has_btf() {
        return failure(
            CHECK,
            "no /sys/kernel/btf/vmlinux",
            format!("boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, or {IN_A_VM}"),
        );
    }
    if sched_ext::status().is_none() {
        return ok(CHECK, "in this kernel, without types of scx kernel functions");
    }
    let malformed = malformed_kfuncs();
    if malformed.is_empty() {
        return ok(CHECK, "types of the scx kernel functions are well formed");
    }
    failure(
        CHECK,
        format!(
            "types of {} scx kernel functions are malformed (first: {}): no scheduler loads",
            malformed.len(),
            malformed[0]
        ),
        format!("this kernel was built with pahole older than 1.26: boot another build of it, or {IN_A_VM}"),
    )
}

fn privileges() -> Finding {
    const CHECK: &str = "privileges";
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return failure(
            CHECK,
            "the kernel is locked down (confidentiality): it refuses BPF programs",
            "boot without lockdown=confidentiality",
        );
    }
    match Purpose::ATTACH.lack() {
        Some(lack) => {
            failure(CHECK, format!("{}, which attaching a scheduler needs", lack.found()), lack.remedy())
        }
        None => ok(CHECK, "CAP_BPF and CAP_PERFMON, which attaching a scheduler needs"),
    }
}

/// Of the commands that need more than attaching does, those that this process may not run.
fn other_privileges() -> Option<Finding> {
    let purposes = [
        (Purpose::RECORD, "flsched record, locks, costs, and compare --why"),
        (Purpose::REAL_TIME, "fifo and rr in comparisons"),
    ];
    let lacks: Vec<_> =
        purposes.into_iter().filter_map(|(purpose, who)| purpose.lack().map(|lack| (lack, who))).collect();
    let (first, _) = lacks.first()?;
    let found = lacks.iter().map(|(lack, who)| format!("{}: {who} will be refused", lack.found()));
    Some(warning("privileges", found.collect::<Vec<_>>().join("; "), first.remedy()))
}

fn attached() -> Finding {
    const CHECK: &str = "attached";
    match sched_ext::status().filter(|status| status.is_active()) {
        None => ok(CHECK, "no other sched_ext scheduler"),
        Some(status) => failure(
            CHECK,
            format!("{} is {}", status.ops.as_deref().unwrap_or("a scheduler"), status.state),
            match sched_ext::why_no_sub_scheduler() {
                Some(why) => format!("{ONE_AT_A_TIME}; {why}"),
                None => ONE_AT_A_TIME.to_owned(),
            },
        ),
    }
}

/// Whether real-time tasks that do not sleep can stop the machine.
fn real_time_tasks() -> Finding {
    const CHECK: &str = "real-time";
    if sched_ext::has_deadline_server() {
        return ok(
            CHECK,
            "real-time tasks that do not sleep leave the scheduler's tasks a twentieth of each CPU",
        );
    }
    match Purpose::GUARD.lack() {
        None if !processes::sees_all() => warning(
            CHECK,
            UNGUARDED,
            "share the host's PID namespace (hostPID: true), or with hidepid give flsched CAP_SYS_PTRACE",
        ),
        None => ok(
            CHECK,
            "sched_ext has no deadline server here; if real-time tasks do not sleep, flsched detaches the scheduler after 1 s",
        ),
        Some(lack) => warning(CHECK, UNGUARDED, lack.remedy()),
    }
}

/// Whether tasks of partial mode get a CPU beside others.
fn partial_mode() -> Finding {
    const CHECK: &str = "--partial";
    if sched_ext::has_deadline_server() {
        return ok(
            CHECK,
            "the kernel has a deadline server for sched_ext, so that no other load stops its tasks",
        );
    }
    match partial::obstacle() {
        Some(obstacle) => warning(CHECK, obstacle.to_string(), partial::REMEDY),
        None => ok(
            CHECK,
            "CPUs are idle now; beside other load its tasks would starve (no deadline server for sched_ext)",
        ),
    }
}

/// Does everything but the last step: the kernel's verifier checks the policy, but nothing is
/// attached.
fn loads(policy: &'static Policy) -> Finding {
    match try_load(policy) {
        Ok(Some(costliest)) => ok(policy.name, format!("loads on this kernel ({costliest})")),
        Ok(None) => ok(policy.name, "loads on this kernel"),
        Err(error @ Error::Load { .. }) => failure(
            policy.name,
            error.to_string(),
            format!("please report this with the text above; meanwhile {IN_A_VM}"),
        ),
        Err(error) => failure(policy.name, error.to_string(), IN_A_VM),
    }
}

/// sched_ext keeps cpusets but none of the CPU controller's weights and limits for its tasks.
fn cgroup_limits(root: &Path) -> Finding {
    const CHECK: &str = "cgroups";
    let limited = limits_below(root, 6);
    if limited.is_empty() {
        return ok(CHECK, "no CPU weights or limits that would be ignored");
    }
    let shown: Vec<&str> = limited.iter().take(3).map(String::as_str).collect();
    let more = limited.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    warning(
        CHECK,
        format!("CPU weights or limits that FLSCHED ignores: {}{more}", shown.join(", ")),
        "use cpusets, which are kept, or flsched run --partial, which leaves all other tasks alone",
    )
}

fn limits_below(dir: &Path, depth: u32) -> Vec<String> {
    let mut found = Vec::new();
    for (file, default) in [("cpu.max", "max"), ("cpu.weight", "100")] {
        let Ok(text) = fs::read_to_string(dir.join(file)) else { continue };
        let value = text.trim();
        if value.split(' ').next() != Some(default) {
            found.push(format!("{}/{file} = {value}", dir.display()));
        }
    }
    if depth > 0 {
        let mut folders: Vec<_> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        folders.sort();
        found.extend(folders.iter().flat_map(|folder| limits_below(folder, depth - 1)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_versions() {
        assert_eq!(version_of("6.18.15+deb13-cloud-amd64"), Some((6, 18)));
        assert_eq!(version_of("7.0-rc1"), Some((7, 0)));
        assert_eq!(version_of("x"), None);
        assert!((6, 9) < FIRST_SCHED_EXT && (7, 0) > FIRST_SCHED_EXT);
    }

    #[test]
    fn large_pages_are_said_to_be_untried() {
        assert!(pages(4096).is_none() && pages(16384).is_none());
        let finding = pages(65536).unwrap();
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.found.contains("64 KiB"), "{}", finding.found);
        assert!(page_bytes().is_power_of_two());
    }

    #[test]
    fn finds_cgroup_limits() {
        let root = std::env::temp_dir().join(format!("flsched-cgroup-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/cpu.max"), "max 100000\n").unwrap();
        fs::write(root.join("a/cpu.weight"), "100\n").unwrap();
        fs::write(root.join("a/b/cpu.max"), "50000 100000\n").unwrap();
        let found = limits_below(&root, 6);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with("a/b/cpu.max = 50000 100000"), "{found:?}");
    }
}
