//! Views of machines that nobody here has, and every size of a terminal.
use super::line;
use super::source::{InForce, Moment};
use super::view::{Bar, View};
use flsched_probes::watch::{CpuCount, Look, Runnable, bucket_from_ns};
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// A machine on which every second CPU idles; the others run one task each, and have two that wait for 20 and 40 ms.
fn moment(cpus: u32, at_s: u64) -> Moment {
    let count =
        |cpu: u32| CpuCount { cpu, switches: 100 * at_s, idle_ns: u64::from(cpu % 2) * at_s * SECOND };
    let task = |pid: u32| {
        let (cpu, place) = (pid / 3 * 2, pid % 3);
        Runnable {
            pid: 1000 + pid,
            tgid: 1000,
            name: "worker\u{7}".into(),
            cpu,
            runs: place == 0,
            wait_ns: u64::from(place) * 20_000_000,
            runtime_ns: if place == 0 { at_s * SECOND } else { 0 },
            policy: 0,
            static_prio: 100 + (pid % 40) as i32,
            nr_cpus_allowed: cpus,
        }
    };
    let mut wake_ups = vec![0; 320];
    (wake_ups[0], wake_ups[70], wake_ups[100]) = (at_s, 98 * at_s, at_s);
    Moment {
        look: Look {
            at_ns: at_s * SECOND,
            cpus: (0..cpus).map(count).collect(),
            wake_ups,
            runnable: (0..cpus / 2 * 3).map(task).collect(),
        },
        in_force: InForce {
            name: "flsched 0.1.0".into(),
            settings: "slice_us=5000".into(),
            is_partial: false,
            sequence: 1,
        },
        attached_for: Some(Duration::from_secs(at_s)),
        statistics: vec![("pulled".into(), 7 * at_s), ("yielded".into(), 0)],
    }
}

/// From one second to three.
fn view(cpus: u32) -> View {
    let caches: BTreeMap<u32, u32> = (0..cpus).map(|cpu| (cpu, cpu / 8)).collect();
    View::between(&moment(cpus, 1), &moment(cpus, 3), &caches)
}

#[test]
fn a_view_is_the_difference_of_two_moments() {
    let view = view(4);
    assert_eq!((view.interval_s, view.busy_percent, view.switches_per_s), (2.0, 50.0, 400.0));
    assert_eq!((view.waiting, view.longest_wait_ns), (4, 40_000_000));
    assert_eq!(view.counters.iter().map(|it| it.per_s).collect::<Vec<_>>(), [7.0, 0.0]);
    let cpu = &view.cpus[2];
    assert_eq!(
        (cpu.queued, cpu.longest_wait_ns, cpu.running.as_deref()),
        (2, 40_000_000, Some("worker? 1003"))
    );
    assert_eq!(view.cpus[3].running, None);
    let running: Vec<_> = view.tasks.iter().filter(|task| task.runs).map(|task| task.cpu_percent).collect();
    assert_eq!(running, [Some(100.0); 2]);
    assert_eq!(view.longest_waits[0].pid, 1002);
}

#[test]
fn the_99th_percentile_is_not_the_longest_latency() {
    let wake_ups = view(4).wake_ups;
    let middle = u64::midpoint(bucket_from_ns(70), bucket_from_ns(71));
    assert_eq!((wake_ups.per_s, wake_ups.p50_ns, wake_ups.p99_ns), (100.0, Some(middle), Some(middle)));
    assert_eq!(wake_ups.histogram.first(), Some(&Bar { from_ns: 0, count: 2 }));
    assert_eq!(wake_ups.histogram.iter().map(|bar| bar.count).sum::<u64>(), 200);
    let from: Vec<_> = wake_ups.histogram.iter().map(|bar| bar.from_ns).collect();
    assert_eq!(from, [0, 1024, 2048, 4096, 8192, 16384]);
}

#[test]
fn a_policy_that_has_just_been_attached_counts_from_0() {
    let mut before = moment(4, 1);
    before.in_force.sequence = 0;
    let view = View::between(&before, &moment(4, 3), &BTreeMap::new());
    assert_eq!(view.counters[0].per_s, 10.5);
}

#[test]
fn no_time_between_two_moments_is_no_division_by_zero() {
    let view = View::between(&moment(4, 1), &moment(4, 1), &BTreeMap::new());
    assert!(view.busy_percent.is_finite() && view.switches_per_s == 0.0);
    assert_eq!((view.wake_ups.p50_ns, view.wake_ups.histogram.len()), (None, 0));
}

#[test]
fn a_line_has_what_matters_most() {
    assert_eq!(
        line(&view(4)),
        "flsched 0.1.0 (slice_us=5000) for 3 s · 4 CPUs 50 % busy · 400 switches/s · 4 wait, the first for 40 ms · \
         wake-up p50 1.9 µs p99 1.9 µs · pulled 7.0/s"
    );
}

#[cfg(feature = "top")]
mod screen {
    use super::super::draw::{Choice, draw};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(view: &View, choice: &Choice, (columns, rows): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal
            .draw(|frame| {
                draw(frame, view, choice);
            })
            .unwrap();
        terminal.backend().to_string()
    }

    fn choices() -> impl Iterator<Item = Choice> + Clone {
        (0..16).map(|bits: usize| Choice {
            is_per_task: bits & 1 > 0,
            is_regrouped: bits & 2 > 0,
            shows_help: bits & 4 > 0,
            first_row: if bits & 8 > 0 { 100_000 } else { 0 },
            ..Choice::default()
        })
    }

    #[test]
    fn every_size_is_drawn() {
        let views = [view(2), view(1024)];
        for (columns, choice) in (5..=300).zip(choices().cycle()) {
            // Each choice comes with both machines.
            let view = &views[usize::from(columns / 16 % 2)];
            drop(drawn(view, &choice, (columns, 1 + columns % 60)));
        }
        choices().for_each(|choice| drop(drawn(&views[1], &choice, (1, 1))));
    }

    #[test]
    fn many_cpus_are_shown_by_cache() {
        let text = drawn(&view(1024), &Choice::default(), (120, 50));
        for expected in
            ["Caches", "(1–", "of 128)", "8, 4 idle now", "flsched 0.1.0 (slice_us=5000) for 3 s", "pulled"]
        {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        let regrouped = Choice { is_regrouped: true, ..Choice::default() };
        assert!(drawn(&view(1024), &regrouped, (120, 50)).contains(" CPUs (1–"));
        assert!(drawn(&view(64), &regrouped, (120, 50)).contains("Caches"));
        let text = drawn(&view(64), &Choice::default(), (120, 50));
        assert!(text.contains(" CPUs (1–") && text.contains("worker? 1000"), "{text}");
    }

    #[test]
    fn the_last_rows_can_be_reached() {
        let choice = Choice { is_regrouped: true, first_row: 100_000, ..Choice::default() };
        let text = drawn(&view(1024), &choice, (120, 50));
        assert!(text.contains("of 1024)") && text.contains("1023 "), "{text}");
    }

    #[test]
    fn pressing_down_at_the_end_is_not_counted() {
        let mut terminal = Terminal::new(TestBackend::new(120, 50)).unwrap();
        let mut choice = Choice { is_regrouped: true, first_row: 100_000, ..Choice::default() };
        terminal.draw(|frame| choice.first_row = draw(frame, &view(1024), &choice)).unwrap();
        assert!((900..1024).contains(&choice.first_row), "{}", choice.first_row);
    }

    #[test]
    fn a_narrow_terminal_has_the_tables_only() {
        let text = drawn(&view(4), &Choice::default(), (60, 30));
        assert!(text.contains("Longest waits") && !text.contains("From wake-up"), "{text}");
    }
}
