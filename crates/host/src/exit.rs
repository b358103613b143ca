//! How a scheduler was ended, as the kernel reports it.
use crate::object::variables;
use libbpf_rs::btf::Btf;
use libbpf_rs::{MapCore, MapFlags, Object};
use scx_utils::ScxExitKind;
use std::fmt;
use std::fs;
use std::ops::Range;

/// Why the guard detaches a scheduler.
const BY_GUARD: &str = "real-time tasks kept every other task from running for 1 s, on a kernel whose sched_ext has no \
                        deadline server";

/// From `struct user_exit_info`, which UEI_RECORD() fills in a policy's `exit` callback.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ExitReport {
    /// The reason in one line.
    pub reason: String,
    /// The kernel ejected it (stall, error, SysRq): not a normal end.
    pub ejected: bool,
    /// The kernel requests a restart (CPU hotplug).
    pub restart: bool,
    /// It was detached by [`Supervisor`](crate::Supervisor), as real-time tasks kept all others waiting.
    pub by_guard: bool,
    /// The task whose wait was the reason.
    pub waiter: Option<Waiter>,
    /// The kernel's debug dump, if it made one.
    pub dump: Option<String>,
}

impl ExitReport {
    /// It was flsched that detached it.
    pub(crate) fn set_by_guard(&mut self) {
        self.by_guard = true;
        self.ejected = true;
        self.reason = BY_GUARD.into();
    }
}

/// A task that waited until the kernel's watchdog ejected the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Waiter {
    /// Its name, in printable characters: any user can give it any name.
    pub task: String,
    pub pid: u32,
    /// Whose it is; `None`: it has ended.
    pub uid: Option<u32>,
    pub user: Option<String>,
}

impl Waiter {
    /// From the watchdog's text, `NAME[PID] failed to run for 30.012s`.
    pub(crate) fn read(message: &str) -> Option<Self> {
        let (task, _) = message.split_once("] failed to run for ")?;
        let (name, pid) = task.rsplit_once('[')?;
        Some(Self::named(pid.parse().ok()?, name))
    }

    pub(crate) fn named(pid: u32, name: &str) -> Self {
        let uid = uid_of(pid, name);
        let user = uid.and_then(|uid| nix::unistd::User::from_uid(uid.into()).ok()?).map(|user| user.name);
        Self { task: printable(name), pid, uid, user }
    }
}

impl fmt::Display for Waiter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (pid {}) of ", self.task, self.pid)?;
        match (&self.user, self.uid) {
            (Some(user), Some(uid)) => write!(out, "user {user} ({uid})"),
            (None, Some(uid)) => write!(out, "user {uid}"),
            (_, None) => out.write_str("an unknown user (it has ended)"),
        }
    }
}

/// The user of this task, unless its number belongs to another one by now.
fn uid_of(pid: u32, name: &str) -> Option<u32> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    if printable(read("comm")?.trim_end_matches('\n')) != printable(name) {
        return None;
    }
    let status = read("status")?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().next()?.parse().ok()
}

/// For logs, terminals and the labels of metrics.
fn printable(text: &str) -> String {
    let is_plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !['"', '\\'].contains(&c);
    text.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Bit of the exit code by which the kernel requests a restart (SCX_ECODE_ACT_RESTART).
const ACT_RESTART: i64 = 1 << 48;

// Offsets of struct user_exit_info in scx's user_exit_info_common.h.
const KIND: usize = 0;
const EXIT_CODE: usize = 8;
const REASON: Range<usize> = 16..144;
const MSG: Range<usize> = 144..1168;

/// Where a policy's data have the report. The search takes long, and the report is read several times a second: search once.
pub(crate) fn place(btf: &Btf<'_>) -> Option<Range<usize>> {
    let (_, offset, size) = variables(btf, ".data").into_iter().find(|(name, _, _)| *name == "uei")?;
    Some(offset..offset + size)
}

/// Reads the report at its place; `None` while the scheduler is attached.
pub(crate) fn read(object: &Object, place: Range<usize>) -> Option<ExitReport> {
    let data = value_of(object, ".data")?;
    let dump =
        || value_of(object, ".data.uei_dump").map(|bytes| text(&bytes)).filter(|dump| !dump.is_empty());
    parse(data.get(place)?, dump)
}

fn parse(info: &[u8], dump: impl FnOnce() -> Option<String>) -> Option<ExitReport> {
    let kind = i32::from_ne_bytes(info.get(KIND..KIND + 4)?.try_into().ok()?);
    if kind == 0 {
        return None;
    }
    let code = i64::from_ne_bytes(info.get(EXIT_CODE..EXIT_CODE + 8)?.try_into().ok()?);
    let reason = text(info.get(REASON)?);
    let message = text(info.get(MSG)?);
    let waiter = (kind == ScxExitKind::ErrorStall as i32).then(|| Waiter::read(&message)).flatten();
    let message = printable(&message);
    let asked = kind == ScxExitKind::UnregBPF as i32 || kind == ScxExitKind::UnregKern as i32;
    Some(ExitReport {
        reason: if message.is_empty() { reason } else { format!("{reason}: {message}") },
        ejected: kind > ScxExitKind::UnregKern as i32,
        restart: asked && code & ACT_RESTART != 0,
        by_guard: false,
        waiter,
        dump: dump(),
    })
}

fn value_of(object: &Object, map: &str) -> Option<Vec<u8>> {
    let map = object.maps().find(|m| m.name().to_string_lossy().ends_with(map))?;
    map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()?
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kind: ScxExitKind, code: i64, reason: &str, msg: &str) -> Vec<u8> {
        let mut bytes = vec![0u8; 1168];
        bytes[KIND..KIND + 4].copy_from_slice(&(kind as i32).to_ne_bytes());
        bytes[EXIT_CODE..EXIT_CODE + 8].copy_from_slice(&code.to_ne_bytes());
        bytes[REASON][..reason.len()].copy_from_slice(reason.as_bytes());
        bytes[MSG][..msg.len()].copy_from_slice(msg.as_bytes());
        bytes
    }

    #[test]
    fn running_has_no_report() {
        assert_eq!(parse(&info(ScxExitKind::None, 0, "", ""), || None), None);
    }

    #[test]
    fn a_stall_is_an_ejection() {
        let stall = info(ScxExitKind::ErrorStall, 0, "runnable task stall", "sh[7] failed to run");
        let report = parse(&stall, || Some("dump".into())).unwrap();
        assert!(report.ejected && !report.restart);
        assert_eq!(report.reason, "runnable task stall: sh[7] failed to run");
        assert_eq!(report.dump.as_deref(), Some("dump"));
    }

    #[test]
    fn a_stall_names_the_task_and_its_user() {
        let own = fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_owned();
        let waiter = |name: &str, pid: u32| Waiter::read(&format!("{name}[{pid}] failed to run for 30.012s"));
        let found = waiter(&own, std::process::id()).unwrap();
        assert_eq!(found.uid, Some(nix::unistd::getuid().as_raw()), "{found}");
        let other = waiter("another", std::process::id()).unwrap();
        assert_eq!(other.uid, None, "the number is another task's by now");
        assert_eq!(
            other.to_string(),
            format!("another (pid {}) of an unknown user (it has ended)", other.pid)
        );
        assert_eq!(waiter("a[1] \"\n", u32::MAX).unwrap().task, "a[1] __");
        assert_eq!(Waiter::read("CPU 3 did not respond"), None);
    }

    #[test]
    fn hotplug_asks_for_a_restart() {
        let hotplug =
            info(ScxExitKind::UnregKern, ACT_RESTART | 1 << 32, "unregistered from the main kernel", "");
        let report = parse(&hotplug, || None).unwrap();
        assert!(report.restart && !report.ejected);
    }

    #[test]
    fn detaching_is_neither() {
        let report =
            parse(&info(ScxExitKind::Unreg, 0, "unregistered from user space", ""), || None).unwrap();
        assert!(!report.restart && !report.ejected);
    }
}
