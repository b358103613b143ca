//! Recordings made up, of machines with two CPUs; times in microseconds.
use super::*;
use crate::why::record::Woken;

const US: u64 = 1000;

/// A switch after a run that was all in one mode.
fn switch(at: u64, left: u32, turn: u64, next: u32) -> Switched {
    let mut ns = [0; MODES];
    let own = if left == IDLE_TASK { Mode::Idle } else { Mode::Task };
    ns[own as usize] = (turn * US) as u32;
    Switched { at: at * US, prev: left, next, ns, ..Switched::default() }
}

fn woken(at: u64, task: u32, cpu: u32) -> Woken {
    Woken { at: at * US, task, cpu }
}

fn recording(cpus: [Vec<Switched>; 2], wakes: &[Woken]) -> Recording {
    Recording {
        switches: cpus.to_vec(),
        wakes: wakes.to_vec(),
        open: vec![OpenTurn::default(); 2],
        ..Recording::default()
    }
}

fn why(recording: &Recording, until: u64) -> Why {
    let why = recording.why(0..until * US);
    let idle = why.idle_task_waits + why.idle_nothing;
    let busy = why.user + why.kernel + why.switching + why.wake_ups + why.lock_waits;
    let sum = idle + busy + why.interrupts + why.probe + why.other;
    assert!((sum - 100.0).abs() < 0.01, "{sum}: {why:#?}");
    why
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 0.01, "{value} instead of {expected}");
}

#[test]
fn a_cpu_that_idles_while_a_task_waits_is_lost() {
    // CPU 0 runs 7 until 100. 8 is woken for CPU 0 at 20 and waits; CPU 1 idles until 60 and takes it then.
    let first = vec![switch(100, 7, 100, IDLE_TASK)];
    let second = vec![switch(60, IDLE_TASK, 60, 8), switch(80, 8, 20, IDLE_TASK)];
    let why = why(&recording([first, second], &[woken(20, 8, 0)]), 100);
    close(why.idle_task_waits, 100.0 * 40.0 / 200.0);
    close(why.of_which_late, 0.0);
    close(why.idle_nothing, 100.0 * 40.0 / 200.0);
    close(why.user, 100.0 * 120.0 / 200.0);
    assert_eq!((why.switches, why.woken), (2, 1), "the last one is after the end");
}

#[test]
fn one_waiting_task_costs_one_cpu() {
    // Both idle while 8 waits from 20 to 30.
    let first = vec![switch(30, IDLE_TASK, 30, 8)];
    let why = why(&recording([first, Vec::new()], &[woken(20, 8, 0)]), 100);
    close(why.idle_task_waits, 5.0);
    close(why.of_which_late, 5.0);
    close(why.idle_nothing, 60.0);
}

#[test]
fn a_wake_up_is_late_where_it_was_sent_to() {
    // 8 is sent to CPU 1, which idles until 50; but CPU 0 takes it at 40.
    let first = vec![switch(40, IDLE_TASK, 40, 8)];
    let second = vec![switch(50, IDLE_TASK, 50, 9)];
    let why = why(&recording([first, second], &[woken(20, 8, 1)]), 100);
    close(why.of_which_late, 10.0);
    close(why.idle_task_waits, 10.0);
}

#[test]
fn a_preempted_task_waits_too() {
    // 7 is preempted by 8 at 10 on CPU 0 and continues there at 40; CPU 1 idles.
    let first = vec![switch(10, 7, 10, 8).flagged(true, false), switch(40, 8, 30, 7)];
    let why = why(&recording([first, Vec::new()], &[]), 100);
    close(why.idle_task_waits, 15.0);
    close(why.of_which_late, 0.0);
}

#[test]
fn start_and_tail_are_before_and_after_all_are_busy() {
    // CPU 0 begins at 10 and ends at 90, CPU 1 at 20 and 60, with a break from 30 to 40.
    let first = vec![switch(10, IDLE_TASK, 10, 7), switch(90, 7, 80, IDLE_TASK)];
    let second = vec![
        switch(20, IDLE_TASK, 20, 8),
        switch(30, 8, 10, IDLE_TASK),
        switch(40, IDLE_TASK, 10, 8),
        switch(60, 8, 20, IDLE_TASK),
    ];
    let why = why(&recording([first, second], &[]), 100);
    close(why.idle_nothing, (10.0 + 20.0 + 10.0 + 40.0 + 10.0) / 2.0);
    close(why.of_which_start, 15.0);
    close(why.of_which_tail, 25.0);
}

#[test]
fn without_a_moment_when_all_are_busy_there_is_no_tail() {
    let why = why(&recording([vec![switch(50, 7, 50, IDLE_TASK)], Vec::new()], &[]), 100);
    close(why.of_which_start + why.of_which_tail, 0.0);
    close(why.idle_nothing, 75.0);
}

/// CPUs' clocks differ a little.
#[test]
fn stamps_out_of_order_are_put_right() {
    // CPU 0 wakes 8 while it goes to sleep on CPU 1: the wake-up has the earlier stamp.
    let second = vec![switch(21, 8, 21, IDLE_TASK), switch(50, IDLE_TASK, 29, 8)];
    let first = vec![switch(100, 7, 100, IDLE_TASK)];
    let task_8_runs = vec![switch(0, IDLE_TASK, 0, 8)];
    let both = [task_8_runs, second].concat();
    let put_right = why(&recording([first.clone(), both], &[woken(20, 8, 1)]), 100);
    close(put_right.idle_task_waits, 14.5);
    // The switch to 8 has an earlier stamp than its wake-up, and 8 does not wait when it sleeps again.
    let second = vec![switch(19, IDLE_TASK, 19, 8), switch(24, 8, 5, IDLE_TASK)];
    let put_right = why(&recording([first, second], &[woken(20, 8, 1)]), 100);
    close(put_right.idle_task_waits, 0.0);
    // 8 comes to CPU 0 before it has left CPU 1, where it was preempted.
    let first = vec![switch(29, IDLE_TASK, 29, 8)];
    let second = vec![switch(0, IDLE_TASK, 0, 8), switch(30, 8, 30, IDLE_TASK).flagged(true, false)];
    let put_right = why(&recording([first, second], &[]), 100);
    close(put_right.idle_task_waits, 0.0);
}

#[test]
fn what_was_woken_and_runs_does_not_wait_when_it_sleeps_much_later() {
    let second = vec![switch(0, IDLE_TASK, 0, 8), switch(60, 8, 60, IDLE_TASK)];
    let why = why(&recording([Vec::new(), second], &[woken(20, 8, 1)]), 100);
    close(why.idle_task_waits, 0.0);
}

#[test]
fn the_modes_of_a_turn_are_distinguished() {
    let mut turn = switch(100, 7, 0, IDLE_TASK);
    turn.ns = [10, 20, 5, 15, 10, 20, 15, 0].map(|us| us * US as u32);
    (turn.in_user, turn.in_kernel) = (3, 1);
    let begin = switch(0, IDLE_TASK, 0, 7);
    let why = why(&recording([vec![begin, turn], Vec::new()], &[]), 100);
    let parts =
        [why.user, why.kernel, why.switching, why.wake_ups, why.lock_waits, why.interrupts, why.probe];
    for (part, expected) in parts.into_iter().zip([3.75, 11.25, 2.5, 7.5, 5.0, 10.0, 7.5]) {
        close(part, expected);
    }
    close(why.other, 2.5);
    close(why.idle_nothing, 50.0);
}

#[test]
fn interrupts_of_idle_cpus_are_no_idleness() {
    let mut idle = switch(100, IDLE_TASK, 100, 7);
    idle.ns[Mode::Idle as usize] -= 20 * US as u32;
    idle.ns[Mode::Interrupt as usize] = 20 * US as u32;
    let begin = switch(0, 7, 0, IDLE_TASK);
    let why = why(&recording([vec![begin, idle], Vec::new()], &[]), 100);
    close(why.interrupts, 10.0);
    close(why.idle_nothing, 90.0);
}

#[test]
fn only_the_span_counts() {
    let first = vec![switch(0, IDLE_TASK, 0, 7), switch(100, 7, 100, IDLE_TASK)];
    let recording = recording([first, Vec::new()], &[]);
    let why = recording.why(80 * US..120 * US);
    close(why.user, 25.0);
    close(why.idle_nothing, 75.0);
    assert_eq!((why.switches, why.cpus), (1, 2));
}

#[test]
fn time_after_the_records_are_full_is_not_counted() {
    let mut recording = recording([vec![switch(40, 7, 40, IDLE_TASK)], Vec::new()], &[]);
    recording.full_at = Some(80 * US);
    let why = why(&recording, 100);
    assert!(why.is_cut && (why.span_s - 80e-6).abs() < 1e-12, "{why:?}");
    close(why.user, 25.0);
}

#[test]
fn a_turn_longer_than_four_seconds_is_whole() {
    let seconds = 10_000_000;
    let mut turn = switch(seconds, 7, 0, IDLE_TASK);
    turn.ns[Mode::Task as usize] = (seconds * US) as u32;
    let begin = switch(0, IDLE_TASK, 0, 7);
    let why = why(&recording([vec![begin, turn], Vec::new()], &[]), seconds);
    close(why.user, 50.0);
}

#[test]
fn a_turn_without_an_end_counts_as_far_as_it_was_seen() {
    let mut recording = recording([vec![switch(20, IDLE_TASK, 20, 7)], Vec::new()], &[]);
    recording.open[0].ns[Mode::Kernel as usize] = 40 * US;
    recording.open[0].until = 60 * US;
    let why = why(&recording, 100);
    close(why.kernel, 20.0);
    close(why.user, 20.0);
}

#[test]
fn turns_between_two_yields_are_vain_if_they_are_short() {
    let first = vec![
        switch(0, IDLE_TASK, 0, 7),
        switch(50, 7, 50, 8).flagged(true, true),
        switch(55, 8, 5, 7).flagged(true, true),
        switch(58, 7, 3, 8).flagged(true, true),
        switch(90, 8, 32, 7).flagged(true, true),
    ];
    let why = why(&recording([first, Vec::new()], &[]), 100);
    assert_eq!((why.yield_switches, why.vain_turns), (4, 1));
    close(why.of_which_vain, 1.5);
}
