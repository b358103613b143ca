//! Lists of processes that a policy may be given: PID_LIST() of `policies/common.bpf.h`.
use crate::{Description, Error, Options};
use std::fs;

/// A list of processes that the user may name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PidList {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub doc: String,
    /// So many at most.
    pub most: usize,
    /// The knob that decides whether the list matters.
    pub knob: String,
    /// The value with which it does.
    pub value: u64,
}

impl PidList {
    /// From `pids MOST KNOB VALUE DOC`; `None`: it is something else.
    pub(crate) fn parse_tag(tag: &str, name: &str) -> Option<Self> {
        let mut words = tag.strip_prefix("pids ")?.splitn(4, ' ');
        let most = words.next()?.parse().ok()?;
        let knob = words.next()?.to_owned();
        let value = words.next()?.parse().ok()?;
        Some(Self { name: name.to_owned(), doc: words.next()?.to_owned(), most, knob, value })
    }

    /// Reads pids with commas or plus signs between them. Each must be a process that there is.
    pub fn parse(&self, text: &str) -> Result<Vec<u32>, Error> {
        let wrong = |why: String| Error::Pids { name: self.name.clone(), why, doc: self.doc.clone() };
        let pids: Vec<u32> = text
            .split([',', '+'])
            .map(|word| match word.trim().parse() {
                Ok(pid) if pid > 0 => Ok(pid),
                _ => Err(wrong(format!("'{word}' is not a process id, as in 12,34"))),
            })
            .collect::<Result<_, _>>()?;
        if pids.len() > self.most {
            return Err(wrong(format!("{} are too many: at most {}", pids.len(), self.most)));
        }
        for pid in &pids {
            match process_of(*pid) {
                Some(process) if process == *pid => {}
                Some(process) => {
                    return Err(wrong(format!("{pid} is a thread of process {process}: name that")));
                }
                None => return Err(wrong(format!("there is no process {pid}"))),
            }
        }
        Ok(pids)
    }
}

/// The process that a thread is of; `None`: there is no such thread.
fn process_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// A list that is given chooses the value with which it matters; without one that value makes no sense.
pub(crate) fn settle(description: &Description, options: &mut Options) -> Result<(), Error> {
    for list in &description.lists {
        let given = options.pids.get(&list.name).is_some_and(|pids| !pids.is_empty());
        let knob = description.knobs.iter().find(|knob| knob.name == list.knob);
        let show =
            |value| knob.map_or_else(String::new, |knob| format!("{}={}", knob.name, knob.show(value)));
        let wrong = |why: String| Error::Pids { name: list.name.clone(), why, doc: list.doc.clone() };
        match options.knobs.get(&list.knob) {
            Some(value) if given && *value != list.value => {
                return Err(wrong(format!("it does not go with {}", show(*value))));
            }
            Some(value) if !given && *value == list.value => {
                return Err(wrong(format!("{} needs it", show(*value))));
            }
            None if given => {
                options.knobs.insert(list.knob.clone(), list.value);
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn list() -> PidList {
        PidList::parse_tag("pids 2 group_by 2 processes that belong together", "pids").unwrap()
    }

    #[test]
    fn tags() {
        assert_eq!((list().most, list().knob.as_str(), list().value), (2, "group_by", 2));
        assert_eq!(list().doc, "processes that belong together");
        assert!(PidList::parse_tag("knob 1 2 x", "pids").is_none());
    }

    #[test]
    fn only_processes_that_there_are() {
        let me = std::process::id();
        assert_eq!(list().parse(&format!("{me},1")).unwrap(), [me, 1]);
        assert_eq!(list().parse(&format!("{me}+1")).unwrap(), [me, 1]);
        for (wrong, why) in [
            ("", "not a process id"),
            ("1,x", "'x'"),
            ("0", "'0'"),
            ("1,1,1", "at most 2"),
            ("4194305", "there is no process 4194305"),
        ] {
            let error = list().parse(wrong).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn a_thread_is_not_a_process() {
        let (me, tid) = (std::process::id(), nix::unistd::gettid().as_raw() as u32);
        assert_ne!(me, tid, "tests run in threads of their own");
        let error = list().parse(&tid.to_string()).unwrap_err().to_string();
        assert!(error.contains(&format!("thread of process {me}")), "{error}");
    }

    #[test]
    fn a_list_and_its_knob_go_together() {
        let description = Policy::find("rr2").unwrap().describe().unwrap();
        let with = |group_by: Option<u64>, pids: &[u32]| {
            let mut options = Options::default();
            options.knobs.extend(group_by.map(|value| ("group_by".to_owned(), value)));
            options.pids.insert("pids".into(), pids.to_vec());
            settle(&description, &mut options).map(|()| options.knobs.get("group_by").copied())
        };
        assert_eq!(with(None, &[1]).unwrap(), Some(2));
        assert_eq!(with(Some(2), &[1]).unwrap(), Some(2));
        assert_eq!(with(Some(1), &[]).unwrap(), Some(1));
        assert_eq!(with(None, &[]).unwrap(), None);
        assert!(with(Some(1), &[1]).unwrap_err().to_string().contains("group_by=cgroup"));
        assert!(with(Some(2), &[]).unwrap_err().to_string().contains("group_by=pids needs it"));
    }
}
