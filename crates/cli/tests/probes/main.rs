//! The tools that examine a stock kernel, each in a virtual machine where the answer is known: `flsched record`,
//! `flsched top` and `compare --why`. They share one pool of test threads, so that no CPU of the host waits for the last
//! machine of one tool before the first of the next boots.
//!
//! With `FLSCHED_TEST_ALL=1`, which `./test.sh matrix` sets, `top` runs on more kernels.
mod record;
mod top;
mod why;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

/// They lay out tasks and run queues differently. The first is tried by default.
const TOP_KERNELS: [&str; 3] = ["7.3", "6.18", "6.16"];

fn main() -> ExitCode {
    let mut trials = vec![
        Trial::test("why::the_cpu_time_is_broken_down_as_it_was_spent", why::breakdown),
        Trial::test("record::a_load_is_recorded_and_replayed", record::replay),
        Trial::test("record::a_policys_counters_are_recorded", record::counters),
        Trial::test("record::a_full_log_ends_the_recording_loudly", record::full),
    ];
    let is_whole = std::env::var_os("FLSCHED_TEST_ALL").is_some();
    for kernel in TOP_KERNELS.into_iter().take(if is_whole { TOP_KERNELS.len() } else { 1 }) {
        let name = format!("top::a_busy_machine_is_reported_{kernel}");
        trials.push(Trial::test(name, move || top::report(kernel)));
    }
    #[cfg(feature = "top")]
    trials.push(Trial::test("top::the_screen_follows_keys_and_gives_the_terminal_back", || {
        top::screen("6.18")
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
