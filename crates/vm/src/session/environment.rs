//! The command's environment variables in the guest.
use super::{GuestCommand, VmSpec};
use std::ffi::{OsStr, OsString};
use std::path::Path;

const SYSTEM_PATH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Variables that every guest has.
const DEFAULTS: [(&str, &str); 5] =
    [("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root"), ("SHELL", "/bin/sh"), ("LANG", "C.UTF-8")];

/// Variables from the host: the paths of libraries, which are copied to the same paths, and the type of the terminal
/// that shows the output.
const PASSED_ON: [&str; 2] = ["LD_LIBRARY_PATH", "TERM"];

/// The whole environment; the command's own variables take precedence.
pub(super) fn of(spec: &VmSpec, command: &GuestCommand) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> =
        DEFAULTS.iter().map(|(name, value)| (name.into(), value.into())).collect();
    env.push(("PATH".into(), path(spec)));
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            env.push((name.into(), value));
        }
    }
    for (name, value) in &command.env {
        env.retain(|(known, _)| known != name);
        env.push((name.clone(), value.clone()));
    }
    env
}

/// PATH for the guest. First come the folders of the host's PATH from which programs were copied, so that a name finds
/// the same program inside. The usual folders, which have the tools, follow.
fn path(spec: &VmSpec) -> OsString {
    let host = std::env::var_os("PATH").unwrap_or_default();
    let packed = |folder: &Path| spec.programs.iter().any(|program| program.parent() == Some(folder));
    let mut folders: Vec<_> = std::env::split_paths(&host).filter(|folder| packed(folder)).collect();
    folders.extend(SYSTEM_PATH.map(Into::into));
    let mut seen = std::collections::BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    std::env::join_paths(folders).unwrap_or_else(|_| OsStr::new("/usr/bin:/usr/sbin").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BtfHealth, Kernel, Topology};

    #[test]
    fn the_folder_of_a_packed_program_comes_first_and_the_commands_own_values_win() {
        let program = which::which("ls").unwrap();
        let kernel =
            Kernel { release: String::new(), image: "/x".into(), config: None, btf: BtfHealth::Good };
        let mut spec = VmSpec::new(kernel, Topology::flat(1));
        spec.programs = vec![program.clone()];
        let command = GuestCommand { argv: vec![], env: vec![("HOME".into(), "/home".into())] };
        let env = of(&spec, &command);
        let get = |wanted: &str| {
            let mut values = env.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.clone());
            let value = values.next().unwrap();
            assert_eq!(values.next(), None, "{wanted} twice");
            value
        };
        assert_eq!(get("HOME"), "/home");
        let path = get("PATH");
        let folders: Vec<_> = std::env::split_paths(&path).collect();
        assert_eq!(folders[0], program.parent().unwrap());
        assert!(folders.contains(&"/usr/bin".into()));
    }
}
