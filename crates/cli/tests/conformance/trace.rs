//! The kernel's own record of who ran, and what of it concerns a scenario.
use crate::guest::{mount, write};
use crate::judge::Tally;
use crate::player::{FIRST, TASK};
use flsched_sim::scenario::Scenario;
use std::collections::BTreeMap;
use std::fs;

const FOLDER: &str = "/sys/kernel/tracing";

/// While it lasts, everything is recorded.
pub struct Trace;

impl Trace {
    /// Before the first one.
    pub fn set_up() {
        mount("tracefs", FOLDER);
        write(&format!("{FOLDER}/tracing_on"), "0");
        write(&format!("{FOLDER}/buffer_size_kb"), "16384");
        for event in ["sched_switch", "sched_migrate_task"] {
            write(&format!("{FOLDER}/events/sched/{event}/enable"), "1");
        }
    }

    pub fn start() -> Self {
        write(&format!("{FOLDER}/trace"), "");
        write(&format!("{FOLDER}/tracing_on"), "1");
        Self
    }

    /// What the scenario's tasks did; `first`: their first process.
    pub fn end(self, scenario: &Scenario, first: u32) -> Tally {
        write(&format!("{FOLDER}/tracing_on"), "0");
        let text = fs::read_to_string(format!("{FOLDER}/trace")).expect("root may");
        // The first process of a program takes part in its work; the player's only makes the others.
        match &scenario.workload {
            Some(_) => tally(&text, &["hackbench", "flsched"], "none"),
            None => tally(&text, &[FIRST, TASK], &first.to_string()),
        }
    }
}

/// Switches away from tasks of these names but `other`, and their migrations. Threads of the kernel and
/// whatever else runs between two tasks do not count, as the simulator has none: only the idle task, and
/// `other`.
fn tally(text: &str, names: &[&str], other: &str) -> Tally {
    let mut tally = Tally { switches: 0, migrations: 0 };
    // By CPU: who could have gone on when it was interrupted.
    let mut interrupted: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines() {
        let field = |name: &str| {
            let rest = &line[line.find(name)? + name.len()..];
            Some(rest.split(' ').next().unwrap_or(rest))
        };
        let is_counted = |name: &str, pid: &str| {
            field(name).is_some_and(|comm| names.contains(&comm)) && field(pid) != Some(other)
        };
        if line.contains(" sched_migrate_task: ") {
            tally.migrations += u64::from(is_counted(" comm=", " pid="));
        }
        let (Some(cpu), Some(prev), Some(state), Some(next)) =
            (field(" ["), field("prev_pid="), field("prev_state="), field("next_pid="))
        else {
            continue;
        };
        if is_counted("prev_comm=", "prev_pid=") {
            if state.starts_with('R') {
                interrupted.insert(cpu, prev);
            } else {
                tally.switches += 1;
            }
        }
        if (is_counted("next_comm=", "next_pid=") || next == other || next == "0")
            && let Some(left) = interrupted.remove(cpu)
        {
            tally.switches += u64::from(left != next);
        }
    }
    tally
}
