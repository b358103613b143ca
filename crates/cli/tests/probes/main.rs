//! The tools that examine a stock kernel, each in a virtual machine where the answer is known: `flsched locks`,
//! `flsched costs`, `flsched record` and `compare --why`. They share one pool of test threads, so that no CPU of the host waits for the
//! last machine of one tool before the first of the next boots.
//!
//! By default the locks of each policy are measured on one kernel, and FLSCHED on the newest, too; the costs only under FLSCHED.
//! With `FLSCHED_TEST_ALL=1`, which `./test.sh matrix` sets, also those under the other policies.
//! `FLSCHED_TEST_POLICIES=smove` and `FLSCHED_TEST_KERNELS=6.18` pick policies and kernels.
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "the rest is for tests that act inside the machine")]
mod common;
mod overhead;
mod record;
mod why;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut trials = overhead::trials();
    trials.push(Trial::test("why::the_cpu_time_is_broken_down_as_it_was_spent", why::breakdown));
    trials.push(Trial::test("record::a_load_is_recorded_and_replayed", record::replay));
    trials.push(Trial::test("record::a_full_log_ends_the_recording_loudly", record::full));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
