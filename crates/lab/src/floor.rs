//! The floor of a workload: the least time that it can take on a number of CPUs. It is its work on one
//! CPU, divided evenly.
use crate::store::{clock_name, counts_work};
use flsched_compare::Report;
use flsched_compare::report::words::results_of;
use flsched_spec::workload::{Program, SpinBarrier};

/// The workload that has to be measured on one CPU, with all its parameters; `None`: there is no floor.
pub fn one_cpu_workload(workload: &str) -> Option<String> {
    share(workload).map(|(alone, _)| alone.to_string())
}

/// Seconds that `workload` takes at least on `cpus` CPUs. `report` is a comparison on one CPU; the best
/// scheduler there, of those without a failed run, adds least to the work.
///
/// Where the clock counts work, one CPU runs at a time, and more CPUs save nothing.
pub fn floor_s(workload: &str, cpus: u32, report: &Report) -> Option<f64> {
    let (alone, times) = share(workload)?;
    let alone = alone.to_string();
    let of_one = results_of(report, &alone)
        .into_iter()
        .filter(|result| result.failed.is_empty())
        .filter_map(|result| result.time_s)
        .map(|time| time.median)
        .min_by(f64::total_cmp)?;
    let cpus = if counts_work(&clock_name(report)) { 1 } else { cpus.max(1) };
    Some(of_one * times as f64 / f64::from(cpus))
}

/// What to measure on one CPU, and how many times its time is the whole work.
fn share(workload: &str) -> Option<(Program, u64)> {
    match Program::sized(workload, 4).ok()? {
        hackbench @ Program::Hackbench(_) => Some((hackbench, 1)),
        // Each thread does the same work.
        Program::SpinBarrier(spin) => {
            Some((Program::SpinBarrier(SpinBarrier { threads: 1, ..spin }), spin.threads))
        }
        // The threads share the work.
        Program::OpenMp(mut openmp) => {
            openmp.threads = 1;
            Some((Program::OpenMp(openmp), 1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{on_clock, report};

    #[test]
    fn what_is_measured_on_one_cpu() {
        let alone = |text| one_cpu_workload(text);
        assert_eq!(alone("hackbench:thread-pipe:16:100").unwrap(), "hackbench:thread-pipe:16:100");
        assert_eq!(alone("spin-barrier:128").unwrap(), "spin-barrier:1:150:12500");
        assert_eq!(alone("libomp:wavefront:64").unwrap(), "libomp:wavefront:1:40");
        assert_eq!(alone("libgomp:ep:64:9").unwrap(), "libgomp:ep:1:9");
        assert_eq!(alone("make:16"), None);
        assert_eq!(alone("requests"), None);
        assert_eq!(alone("no workload"), None);
    }

    #[test]
    fn the_best_scheduler_counts_and_is_shared_out() {
        let measured = report(&[
            ("hackbench:process-pipe:4:100", &[("eevdf", 2.0), ("batch", 1.0), ("fifo", 1.5)]),
            ("spin-barrier:1:150:12500", &[("eevdf", 0.25), ("batch", 0.5)]),
        ]);
        let measured = on_clock(measured, "wall");
        assert_eq!(floor_s("hackbench:process-pipe:4:100", 4, &measured), Some(0.25));
        assert_eq!(floor_s("spin-barrier:32", 16, &measured), Some(0.5));
        assert_eq!(floor_s("spin-barrier:32:151", 16, &measured), None, "not measured");
        assert_eq!(floor_s("make:16", 16, &measured), None);
    }

    #[test]
    fn a_scheduler_with_a_failed_run_does_not_count() {
        let name = "hackbench:process-pipe:4:100";
        let mut measured = on_clock(report(&[(name, &[("eevdf", 2.0), ("batch", 1.0)])]), "wall");
        crate::view::tests::eject(&mut measured, "batch");
        assert_eq!(floor_s(name, 4, &measured), Some(0.5));
    }

    #[test]
    fn work_is_not_shared_out() {
        let name = "hackbench:process-pipe:4:100";
        let measured = report(&[(name, &[("eevdf", 2.0)])]);
        assert_eq!(floor_s(name, 4, &measured), Some(2.0));
    }
}
