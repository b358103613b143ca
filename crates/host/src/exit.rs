//! How a scheduler was ended, as the kernel reports it.
use crate::object::variables;
use libbpf_rs::btf::Btf;
use libbpf_rs::{MapCore, MapFlags, Object};
use scx_utils::ScxExitKind;

/// From `struct user_exit_info`, which UEI_RECORD() fills in a policy's `exit` callback.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ExitReport {
    /// The reason in one line.
    pub reason: String,
    /// The kernel ejected it (stall, error, SysRq): not a normal end.
    pub ejected: bool,
    /// The kernel requests a restart (CPU hotplug).
    pub restart: bool,
    /// The kernel's debug dump, if it made one.
    pub dump: Option<String>,
}

/// Bit of the exit code by which the kernel requests a restart (SCX_ECODE_ACT_RESTART).
const ACT_RESTART: i64 = 1 << 48;

// Offsets of struct user_exit_info in scx's user_exit_info_common.h.
const KIND: usize = 0;
const EXIT_CODE: usize = 8;
const REASON: std::ops::Range<usize> = 16..144;
const MSG: std::ops::Range<usize> = 144..1168;

/// Reads the report; `None` while the scheduler is attached.
pub(crate) fn read(object: &Object, btf: &Btf<'_>) -> Option<ExitReport> {
    let (_, offset, size) = variables(btf, ".data").into_iter().find(|(name, _, _)| *name == "uei")?;
    let data = value_of(object, ".data")?;
    let dump =
        || value_of(object, ".data.uei_dump").map(|bytes| text(&bytes)).filter(|dump| !dump.is_empty());
    parse(data.get(offset..offset + size)?, dump)
}

fn parse(info: &[u8], dump: impl FnOnce() -> Option<String>) -> Option<ExitReport> {
    let kind = i32::from_ne_bytes(info.get(KIND..KIND + 4)?.try_into().ok()?);
    if kind == 0 {
        return None;
    }
    let code = i64::from_ne_bytes(info.get(EXIT_CODE..EXIT_CODE + 8)?.try_into().ok()?);
    let reason = text(info.get(REASON)?);
    let message = text(info.get(MSG)?);
    let asked = kind == ScxExitKind::UnregBPF as i32 || kind == ScxExitKind::UnregKern as i32;
    Some(ExitReport {
        reason: if message.is_empty() { reason } else { format!("{reason}: {message}") },
        ejected: kind > ScxExitKind::UnregKern as i32,
        restart: asked && code & ACT_RESTART != 0,
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
