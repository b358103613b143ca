//! Lines of `perf script` and `perf sched script`: task switches, wake-ups and changes of frequency.
//! Tasks are called `NAME:PID`; the idle task has no name.
use crate::core::CpuId;
use crate::engine::Ns;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) at: Ns,
    /// On which it happened.
    pub(crate) cpu: CpuId,
    pub(crate) what: What,
}

/// What a line reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// `sched_switch`; `state`: `R` if `prev` can go on.
    Switch {
        prev: String,
        state: char,
        next: String,
    },
    /// `sched_wakeup` and its kin.
    Wake {
        waker: String,
        woken: String,
        to: CpuId,
    },
    /// `cpu_frequency`: what was set, for that CPU.
    Frequency {
        cpu: CpuId,
        mhz: u32,
    },
    Other,
}

/// All lines but empty ones, comments and call chains; of a bad one, its number and what was expected.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Result<Line, String>> {
    let numbered = (1..).zip(text.lines());
    let events_only = numbered
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#') && !is_of_a_call_chain(line));
    events_only.map(|(number, line)| read(number, line))
}

/// Where in the line the name of its event begins, after a colon and a blank.
fn event_in(line: &str) -> Option<usize> {
    let events = [": sched:sched_", ": sched_", ": power:", ": cpu_frequency"];
    events.iter().filter_map(|event| line.find(event)).min()
}

/// `\tADDRESS SYMBOL+OFFSET (FILE)`: a caller, in a recording with `-g`.
fn is_of_a_call_chain(line: &str) -> bool {
    let address = line.split_whitespace().next().unwrap_or_default();
    line.starts_with(char::is_whitespace)
        && event_in(line).is_none()
        && u64::from_str_radix(address, 16).is_ok()
}

fn read(number: usize, line: &str) -> Result<Line, String> {
    let expected = |what: &str| format!("line {number}: expected {what}");
    let (head, rest) = event_in(line).map(|at| (&line[..at], &line[at + 2..])).ok_or_else(|| {
        let text: String = line.trim().chars().take(60).collect();
        expected(&format!("a line of perf script with an event of sched or power, not \"{text}\""))
    })?;
    let (event, fields) =
        rest.trim_start_matches("sched:").trim_start_matches("power:").split_once(':').unwrap_or((rest, ""));
    let (before, time) = head.trim().rsplit_once(char::is_whitespace).unwrap_or(("", head.trim()));
    let at = ns(time, 1_000_000_000).ok_or(format!("line {number}, time: {time} is not a time"))?;
    let cpu = before.rsplit_once('[').and_then(|(_, cpu)| cpu.trim().strip_suffix(']')?.parse().ok());
    let cpu = cpu.ok_or_else(|| expected("a CPU, as in [003], before the time"))?;
    let missing = |what: &str| format!("line {number}, {event}: no {what}");
    let what = match event {
        "sched_switch" => {
            let (prev, next) =
                fields.split_once("==>").ok_or(format!("line {number}, {event}: expected … ==> …"))?;
            What::Switch {
                state: state(prev).ok_or_else(|| missing("prev_state"))?,
                prev: task_of(prev, "prev_").ok_or_else(|| missing("prev task"))?,
                next: task_of(next, "next_").ok_or_else(|| missing("next task"))?,
            }
        }
        "sched_wakeup" | "sched_waking" | "sched_wakeup_new" => What::Wake {
            woken: task_of(fields, "").ok_or_else(|| missing("task"))?,
            waker: waker_of(before).ok_or_else(|| expected("a task before the CPU"))?,
            to: number_in(fields, "target_cpu=").or_else(|| number_in(fields, "CPU:")).unwrap_or(cpu),
        },
        "cpu_frequency" => {
            let khz: u32 = number_in(fields, "state=").ok_or_else(|| missing("state"))?;
            What::Frequency {
                cpu: number_in(fields, "cpu_id=").ok_or_else(|| missing("cpu_id"))?,
                mhz: khz / 1000,
            }
        }
        _ => What::Other,
    };
    Ok(Line { number, at, cpu, what })
}

/// A decimal number of a unit as ns; `None` if it is too large.
pub(crate) fn ns(text: &str, unit_ns: u64) -> Option<Ns> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut value = whole.parse::<u64>().ok()?.checked_mul(unit_ns)?;
    let mut unit = unit_ns;
    for digit in fraction.chars() {
        unit /= 10;
        value = value.checked_add(u64::from(digit.to_digit(10)?) * unit)?;
    }
    Some(value)
}

fn number_in<T: std::str::FromStr>(fields: &str, name: &str) -> Option<T> {
    fields.split_once(name)?.1.split_whitespace().next()?.parse().ok()
}

/// The state in `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S` or `a:1 [120] S`.
fn state(prev: &str) -> Option<char> {
    match prev.split_once("prev_state=") {
        Some((_, state)) => state.chars().next(),
        None => prev.trim().rsplit_once("] ").and_then(|(_, state)| state.chars().next()),
    }
}

/// `NAME:PID` of `prev_comm=NAME prev_pid=PID …` or `NAME:PID [PRIO] …`; empty for the idle task.
fn task_of(fields: &str, prefix: &str) -> Option<String> {
    let between = |from: &str, to: &str| {
        let rest = fields.split_once(from)?.1;
        Some(rest.split_once(to).map_or(rest, |(inside, _)| inside).trim().to_owned())
    };
    let (comm, pid) = (format!("{prefix}comm="), format!("{prefix}pid="));
    let (name, pid) = match fields.contains(&comm) {
        true => (between(&comm, &format!(" {pid}"))?, between(&pid, " ")?),
        false => {
            let inside = fields.split_once(" [").map_or(fields, |(inside, _)| inside).trim();
            let (name, pid) = inside.rsplit_once(':')?;
            (name.to_owned(), pid.to_owned())
        }
    };
    let pid: u64 = pid.parse().ok()?;
    Some(if pid == 0 { String::new() } else { format!("{name}:{pid}") })
}

/// `NAME:PID` of `  NAME  PID [CPU]` or `NAME PID/TID [CPU]`; empty for the idle task.
fn waker_of(head: &str) -> Option<String> {
    let before = head.rsplit_once(" [").map(|(before, _)| before.trim())?;
    let (name, pid) = before.rsplit_once(char::is_whitespace)?;
    let pid: u64 = pid.rsplit('/').next()?.parse().ok()?;
    Some(if pid == 0 { String::new() } else { format!("{}:{pid}", name.trim()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<(Ns, CpuId, What), String> {
        let line = lines(line).next().unwrap()?;
        Ok((line.at, line.cpu, line.what))
    }

    #[test]
    fn a_line_says_one_thing() {
        let switch =
            |prev: &str, state, next: &str| What::Switch { prev: prev.into(), state, next: next.into() };
        assert_eq!(
            one("  a [b 7/8 [003]  1.000002: sched:sched_switch: prev_comm=a [b prev_pid=8 prev_prio=120 \
                 prev_state=R+ ==> next_comm=swapper/3 next_pid=0 next_prio=120"),
            Ok((1_000_002_000, 3, switch("a [b:8", 'R', "")))
        );
        assert_eq!(
            one("  a 7 [003]  1.5: sched_switch: a:7 [120] S ==> c:9 [120]"),
            Ok((1_500_000_000, 3, switch("a:7", 'S', "c:9")))
        );
        assert_eq!(
            one("  a 7 [003]  1.5: sched:sched_wakeup: comm=c pid=9 prio=120 target_cpu=011"),
            Ok((1_500_000_000, 3, What::Wake { waker: "a:7".into(), woken: "c:9".into(), to: 11 }))
        );
        assert_eq!(
            one(" kworker/1:2 7 [001]  1.5: power:cpu_frequency: state=1200000 cpu_id=12"),
            Ok((1_500_000_000, 1, What::Frequency { cpu: 12, mhz: 1200 }))
        );
        assert_eq!(
            one(" a 7 [001]  1.5: power:cpu_idle: state=2 cpu_id=1"),
            Ok((1_500_000_000, 1, What::Other))
        );
    }

    #[test]
    fn options_of_perf_change_the_form() {
        let text = "\
perf   132 [000]     2.385087230: sched:sched_wakeup: comm=migration/0 pid=18 prio=0 target_cpu=000
\tffffffffb19a19a3 ttwu_do_activate+0x183 ([kernel.kallsyms])
\t           ee137 sched_setaffinity+0x7 (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t          146f7c [unknown] (/usr/bin/perf)

cafe   132 [000]     2.385099: sched:sched_switch: prev_comm=cafe prev_pid=132 prev_prio=120 prev_state=R+ ==> next_comm=migration/0 next_pid=18 next_prio=0
\tffffffffb267d278 std::sched_x::f(int) const+0x8e8 (inlined)

";
        let lines = lines(text).collect::<Result<Vec<_>, _>>().unwrap();
        let seen: Vec<_> = lines.iter().map(|line| (line.number, line.at)).collect();
        assert_eq!(seen, [(1, 2_385_087_230), (6, 2_385_099_000)]);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (line, expected) in [
            (
                " hello",
                "line 1: expected a line of perf script with an event of sched or power, not \"hello\"",
            ),
            ("a 7 [x] 1.5: power:cpu_frequency: state=1 cpu_id=1", "line 1: expected a CPU"),
            ("a 7 [1] 1.5: power:cpu_frequency: cpu_id=1", "line 1, cpu_frequency: no state"),
            ("a 7 [1] 1,5: power:cpu_frequency: state=1 cpu_id=1", "line 1, time: 1,5"),
            ("a 7 [1] 1.5: sched:sched_switch: a:7 [120] S", "line 1, sched_switch: expected"),
        ] {
            let error = one(line).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
