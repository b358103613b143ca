//! A recording of a real machine, from the text of `perf script`.
use crate::Error;
use crate::core::TaskId;
use crate::perf_script::{Line, What, lines};
use flsched_machine::MAX_CPUS;
use flsched_recording::timeline::Timeline;
use std::collections::BTreeMap;

/// Reads `sched_switch`, wake-ups and `cpu_frequency`. `path` is named in errors. Lengths of run queues are not
/// part of the trace.
pub fn read_perf_script(text: &str, path: &str) -> Result<Timeline, Error> {
    let wrong = |what: String| Error::Usage(format!("{path}: {what}"));
    let all: Vec<Line> = lines(text).collect::<Result<_, _>>().map_err(wrong)?;
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return Err(wrong("it has no event".into()));
    };
    let start = first.at;
    let end = last.at.saturating_sub(start);
    let mut before = start;
    let mut most = 0;
    for line in &all {
        if line.at < before {
            let what = format!("line {}, time: runs backwards by {} ns", line.number, before - line.at);
            return Err(wrong(what));
        }
        before = line.at;
        let named = match line.what {
            What::Frequency { cpu, .. } | What::Wake { to: cpu, .. } => cpu,
            _ => 0,
        };
        most = most.max(line.cpu).max(named);
        if most >= MAX_CPUS {
            return Err(wrong(format!(
                "line {}: CPU {most} is too high: at most {MAX_CPUS} CPUs",
                line.number
            )));
        }
    }
    let mut timeline = Timeline::new((0..=most as u32).collect());
    let mut tasks = Tasks::default();
    let mut is_known = vec![false; most + 1];
    for Line { at, cpu, what, .. } in all {
        let at = at - start;
        match what {
            What::Switch { prev, next, .. } => {
                // The switch to this task was before the recording: the task has run since its
                // start.
                if !std::mem::replace(&mut is_known[cpu], true) {
                    timeline.switched(cpu, tasks.number(prev), 0);
                }
                timeline.switched(cpu, tasks.number(next), at);
            }
            What::Wake { woken, to, .. } => {
                if let Some(task) = tasks.number(woken) {
                    timeline.woken(task, to, at, None);
                }
            }
            What::Frequency { cpu, mhz } => timeline.tuned(cpu, mhz, at),
            What::Other => {}
        }
    }
    timeline.finish(end, tasks.names);
    Ok(timeline)
}

#[derive(Default)]
struct Tasks {
    numbers: BTreeMap<String, TaskId>,
    /// Name and pid.
    names: Vec<(String, i32)>,
}

impl Tasks {
    /// `None`: the idle task.
    fn number(&mut self, task: String) -> Option<TaskId> {
        let (name, pid) = task.rsplit_once(':')?;
        let entry = (name.to_owned(), pid.parse().unwrap_or(0));
        let names = &mut self.names;
        Some(*self.numbers.entry(task).or_insert_with(|| {
            names.push(entry);
            names.len() - 1
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::CpuId;
    use flsched_recording::timeline::{Slice, Tuning};

    const TEXT: &str = "\
        a 7 [001] 5.000000: power:cpu_frequency: state=1200000 cpu_id=1
        a 7 [001] 5.000010: sched:sched_wakeup: comm=b pid=8 prio=120 target_cpu=002
        a 7 [001] 5.000020: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
        swapper 0 [002] 5.000020: sched:sched_switch: prev_comm=swapper/2 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120
        b 8 [002] 5.000050: power:cpu_frequency: state=3000000 cpu_id=2
";

    #[test]
    fn a_real_machines_recording() {
        let timeline = read_perf_script(TEXT, "x.txt").unwrap();
        assert_eq!((timeline.cpus.len(), timeline.end), (3, 50_000));
        let name = |task: usize| timeline.tasks[task].0.as_str();
        let slice = |cpu, task, from, to| Slice { cpu, task, from, to };
        let (a, b) = if name(0) == "a" { (0, 1) } else { (1, 0) };
        assert_eq!(timeline.slices, [slice(1, a, 0, 20_000), slice(2, b, 20_000, 50_000)]);
        assert_eq!(timeline.tasks[b], ("b".into(), 8));
        let tuning = |cpu: CpuId, at, mhz| Tuning { cpu, at, mhz };
        assert_eq!(timeline.tunings, [tuning(1, 0, 1200), tuning(2, 50_000, 3000)]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |text: &str, needed: &str| {
            let error = read_perf_script(text, "x.txt").unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(needed), "{error}");
        };
        refused("", "x.txt: it has no event");
        refused(&TEXT.replace("5.000020", "4.0"), "line 3, time: runs backwards");
        refused(&TEXT.replace("cpu_id=2", "cpu_id=4096"), "line 5: CPU 4096");
    }
}
