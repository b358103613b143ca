//! Reads `/sys/kernel/sched_ext`.
use crate::loader::LAZY_FLAG;
use std::fs;
use std::path::Path;

const ROOT: &str = "/sys/kernel/sched_ext";

/// A snapshot of the kernel's sched_ext state.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Status {
    /// `disabled`, `enabling`, `enabled`, `disabling`, or a further state of newer kernels.
    pub state: String,
    /// Name in the kernel of the scheduler that is attached.
    pub ops: Option<String>,
    /// How many times a scheduler was enabled since boot.
    pub enable_seq: u64,
    /// Tasks that asked for SCHED_EXT and were refused since boot.
    pub nr_rejected: u64,
    /// True if every normal task is under it (not `--partial`).
    pub switch_all: bool,
}

impl Status {
    /// A scheduler is attached, or is being attached or detached.
    pub fn is_active(&self) -> bool {
        self.state != "disabled"
    }
}

/// Reads the status; `None`: this kernel has no sched_ext.
pub fn status() -> Option<Status> {
    status_in(Path::new(ROOT))
}

fn status_in(root: &Path) -> Option<Status> {
    let read = |file: &str| fs::read_to_string(root.join(file)).ok().map(|s| s.trim().to_owned());
    let number = |file: &str| read(file).and_then(|s| s.parse().ok()).unwrap_or(0);
    Some(Status {
        state: read("state")?,
        ops: read("root/ops").filter(|ops| !ops.is_empty()),
        enable_seq: number("enable_seq"),
        nr_rejected: number("nr_rejected"),
        switch_all: number("switch_all") == 1,
    })
}

/// Whether the kernel gives SCHED_EXT tasks a share of each CPU that other normal tasks keep busy: its
/// deadline server for sched_ext. Without it they run only where no task of the default class is
/// runnable.
pub fn has_deadline_server() -> bool {
    let is_built_in =
        crate::config::has_btf() && scx_utils::compat::struct_has_field("rq", "ext_server").unwrap_or(false);
    is_built_in && !is_off(Path::new("/sys/kernel/debug/sched/ext_server"))
}

/// Whether the kernel ends turns that are over at the tick as lazily as the default class does, for schedulers that ask for it.
pub fn has_lazy_rescheduling() -> bool {
    crate::config::has_btf() && scx_utils::compat::read_enum("scx_ops_flags", LAZY_FLAG).is_ok()
}

/// Why a second scheduler cannot be attached above, below or beside one of ours on this kernel, although it has sub-schedulers
/// (Linux 7.1 and newer); `None`: it has none.
pub(crate) fn why_no_sub_scheduler() -> Option<&'static str> {
    let has_them = crate::config::has_btf()
        && scx_utils::compat::struct_has_field("sched_ext_ops", "sub_attach").unwrap_or(false);
    has_them.then_some(
        "its sub-schedulers do not change that: one runs the tasks of a cgroup below a scheduler that takes children \
         (ops.sub_attach), both in the form of struct sched_ext_ops_cid, and policies of FLSCHED are neither",
    )
}

/// Whether its runtime is 0 on a CPU. Without debugfs the kernel's default is assumed.
fn is_off(servers: &Path) -> bool {
    let runtime = |cpu: fs::DirEntry| fs::read_to_string(cpu.path().join("runtime")).ok();
    let cpus = fs::read_dir(servers).into_iter().flatten().flatten();
    cpus.filter_map(runtime).any(|runtime| runtime.trim() == "0")
}

/// The kernel's hotplug count. A scheduler states it when it attaches, so that the kernel can
/// detect that the scheduler was prepared for other CPUs.
pub(crate) fn hotplug_seq() -> Option<u64> {
    fs::read_to_string(Path::new(ROOT).join("hotplug_seq")).ok()?.trim().parse().ok()
}

/// The process that probably attached the scheduler called `ops`: one whose name begins like it, or
/// a `flsched` that holds one of this build's policies. The kernel itself does not report which.
pub(crate) fn holder(ops: &str) -> Option<String> {
    let me = std::process::id();
    fs::read_dir("/proc").ok()?.filter_map(Result::ok).find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?.trim().to_owned();
        let plain = name.strip_prefix("scx_").unwrap_or(&name);
        let ours = plain == "flsched"
            && flsched_spec::Policy::all().iter().any(|policy| ops.starts_with(policy.name));
        (pid != me && !plain.is_empty() && (ours || ops.starts_with(plain)))
            .then(|| format!("{name}, pid {pid}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_an_attached_scheduler() {
        let root = std::env::temp_dir().join(format!("flsched-sysfs-{}", std::process::id()));
        fs::create_dir_all(root.join("root")).unwrap();
        for (file, text) in
            [("state", "enabled\n"), ("enable_seq", "3\n"), ("switch_all", "1\n"), ("root/ops", "x_1\n")]
        {
            fs::write(root.join(file), text).unwrap();
        }
        let status = status_in(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert!(status.is_active() && status.switch_all);
        assert_eq!((status.ops.as_deref(), status.enable_seq), (Some("x_1"), 3));
    }

    #[test]
    fn a_server_without_time_is_off() {
        let root = std::env::temp_dir().join(format!("flsched-servers-{}", std::process::id()));
        for (cpu, runtime) in [("cpu0", "50000000\n"), ("cpu1", "0\n")] {
            fs::create_dir_all(root.join(cpu)).unwrap();
            fs::write(root.join(cpu).join("runtime"), runtime).unwrap();
        }
        let off = is_off(&root);
        fs::write(root.join("cpu1/runtime"), "50000000\n").unwrap();
        let on = !is_off(&root);
        fs::remove_dir_all(&root).unwrap();
        assert!(off && on && !is_off(Path::new("/nonexistent")));
    }

    #[test]
    fn no_sched_ext_is_none() {
        assert_eq!(status_in(Path::new("/nonexistent")), None);
    }
}
