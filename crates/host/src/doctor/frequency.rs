//! Whether some CPUs run faster than others at a time, which governor decides this, and how long a
//! CPU takes to reach a high frequency: the conditions under which Smove helps.
use super::{Finding, ok, warning};
use crate::Frequencies;
use flsched_machine::Scaling;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

const CHECK: &str = "frequency";
/// Long enough for a CPU to become slow again.
const IDLE: Duration = Duration::from_millis(300);
/// Longer than any CPU takes to become fast.
const BUSY: Duration = Duration::from_millis(400);
/// The time over which a speed is averaged.
const WINDOW: Duration = Duration::from_millis(1);
/// A CPU counts as fast at this part of its greatest speed.
const FAST: f64 = 0.9;

/// The findings on frequencies.
pub(super) fn findings() -> Vec<Finding> {
    let frequencies = Frequencies::of_this_machine();
    let mut findings = vec![domains(&frequencies)];
    let mut scaled = frequencies.cpus.iter().filter(|(_, scaling)| scaling.is_some()).map(|(cpu, _)| *cpu);
    // The last CPU serves the fewest interrupts.
    if let Some(cpu) = scaled.next_back() {
        findings.push(transition(cpu));
    }
    findings
}

fn domains(frequencies: &Frequencies) -> Finding {
    if let Some(why) = frequencies.why_useless() {
        return warning(
            CHECK,
            format!("smove would change nothing here: {why}"),
            "only smove uses frequencies",
        );
    }
    let known = || frequencies.cpus.values().flatten();
    let list = |of: fn(&Scaling) -> &str| {
        let names: BTreeSet<&str> = known().map(of).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let min = known().map(|scaling| scaling.min_mhz).min().unwrap_or(0);
    let max = known().map(|scaling| scaling.max_mhz).max().unwrap_or(0);
    let (cpus, domains) = (frequencies.cpus.len(), frequencies.count_domains());
    ok(
        CHECK,
        format!(
            "{cpus} CPUs with {domains} independent clocks, {min} to {max} MHz, governor {} of driver {}",
            list(|scaling| &scaling.governor),
            list(|scaling| &scaling.driver)
        ),
    )
}

fn transition(cpu: usize) -> Finding {
    match measure(cpu).map(|samples| Transition::of(&samples)) {
        Ok(Some(Transition { from, after })) => ok(
            CHECK,
            format!(
                "CPU {cpu} begins at {:.0} % of its greatest speed after {} ms of idling and reaches {:.0} % after {:.1} ms",
                100.0 * from,
                IDLE.as_millis(),
                100.0 * FAST,
                after.as_secs_f64() * 1000.0
            ),
        ),
        Ok(None) => warning(
            CHECK,
            format!("how long CPU {cpu} takes to become fast cannot be measured: its speed does not settle"),
            "run doctor again while the machine has nothing else to do",
        ),
        Err(error) => warning(
            CHECK,
            format!("how long CPU {cpu} takes to become fast cannot be measured: {error}"),
            "run doctor where it may use that CPU",
        ),
    }
}

/// When a piece of work began, and how long it took.
type Sample = (Duration, Duration);

/// Keeps an idle CPU busy and measures its speed; restores the calling thread's affinity.
fn measure(cpu: usize) -> nix::Result<Vec<Sample>> {
    let me = Pid::from_raw(0);
    let allowed = sched_getaffinity(me)?;
    let mut only = CpuSet::new();
    only.set(cpu)?;
    sched_setaffinity(me, &only)?;
    sleep(IDLE);
    let began = Instant::now();
    let mut samples = Vec::with_capacity(1 << 16);
    while began.elapsed() < BUSY {
        let at = began.elapsed();
        for step in 0..10_000u64 {
            black_box(step);
        }
        samples.push((at, began.elapsed() - at));
    }
    sched_setaffinity(me, &allowed)?;
    Ok(samples)
}

/// The way from a low to the highest speed.
#[derive(Debug, PartialEq)]
struct Transition {
    /// Speed at first, as a part of the greatest.
    from: f64,
    /// When it was fast.
    after: Duration,
}

impl Transition {
    /// `None`: the speed is not steady at the end.
    fn of(samples: &[Sample]) -> Option<Self> {
        let in_window = |number: u32| {
            let window = WINDOW * number..WINDOW * (number + 1);
            let mut took: Vec<_> =
                samples.iter().filter(|(at, _)| window.contains(at)).map(|(_, took)| *took).collect();
            // The median, as interrupts only make a piece longer.
            took.sort();
            took.get(took.len() / 2).map(|took| 1.0 / took.as_secs_f64().max(1e-9))
        };
        let windows = samples.last()?.0.as_nanos() / WINDOW.as_nanos();
        let speeds: Vec<(u32, f64)> =
            (0..windows as u32).filter_map(|number| Some((number, in_window(number)?))).collect();
        let mut last: Vec<f64> = speeds[speeds.len() * 2 / 3..].iter().map(|(_, speed)| *speed).collect();
        last.sort_by(f64::total_cmp);
        let greatest = *last.get(last.len() / 2)?;
        let steady = last.iter().filter(|speed| **speed >= FAST * greatest).count() * 4 >= last.len() * 3;
        let (number, _) = speeds.iter().find(|(_, speed)| *speed >= FAST * greatest)?;
        let from = speeds.first()?.1 / greatest;
        steady.then_some(Self { from, after: WINDOW * *number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a CPU whose speed is a function of time.
    fn samples(speed: impl Fn(f64) -> f64) -> Vec<Sample> {
        let mut all = Vec::new();
        let mut at = 0.0;
        while at < 0.4 {
            let took = 20e-6 / speed(at);
            all.push((Duration::from_secs_f64(at), Duration::from_secs_f64(took)));
            at += took;
        }
        all
    }

    #[test]
    fn a_ramp_is_timed() {
        // From 1.25 to 3 GHz in 29 ms, as the paper measured it.
        let ramp = samples(|at| (1.25 + 1.75 * (at / 0.029).min(1.0)) / 3.0);
        let found = Transition::of(&ramp).unwrap();
        assert!((found.from - 1.25 / 3.0).abs() < 0.03, "{found:?}");
        // 2.7 GHz after 24 ms.
        assert!((23..=25).contains(&found.after.as_millis()), "{found:?}");
    }

    #[test]
    fn a_constant_speed_has_no_transition_time() {
        let found = Transition::of(&samples(|_| 1.0)).unwrap();
        assert_eq!(found, Transition { from: 1.0, after: Duration::ZERO });
    }

    #[test]
    fn what_does_not_settle_is_no_speed() {
        let restless = samples(|at| if (at * 500.0).fract() < 0.5 { 1.0 } else { 0.5 });
        assert_eq!(Transition::of(&restless), None);
        assert_eq!(Transition::of(&[]), None);
    }

    #[test]
    fn this_machine_is_measured() {
        let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let cpu = (0..CpuSet::count()).find(|cpu| before.is_set(*cpu).unwrap_or(false)).unwrap();
        let samples = measure(cpu).unwrap();
        assert!(samples.len() > 100 && samples.last().unwrap().0 > BUSY / 2);
        assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), before);
    }
}
