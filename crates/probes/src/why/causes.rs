//! The breakdown.
use serde::{Deserialize, Serialize};

/// Where the time of all CPUs went, in percent. The fields from `user` to `other` add up to 100; those that
/// begin with `of_which` are parts of the field before.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Why {
    /// Seconds that were broken down: the time at the end of the run that the workload measures, or the
    /// whole run.
    pub span_s: f64,
    pub cpus: usize,
    /// Tasks in user space. Their share of the tasks' time was sampled.
    pub user: f64,
    /// Tasks in the kernel, except for the causes below; kernel threads, too.
    pub kernel: f64,
    /// Of both: in runs of less than 10 µs that began after a `sched_yield` and ended with one.
    pub of_which_vain: f64,
    pub wake_ups: f64,
    /// In the scheduler, from its call until the next task runs.
    pub switching: f64,
    /// Spinning for locks of the kernel.
    pub lock_waits: f64,
    /// Interrupts, in idle CPUs too.
    pub interrupts: f64,
    pub probe: f64,
    /// CPUs idle while tasks waited for a CPU: at most as many CPUs as tasks.
    pub idle_task_waits: f64,
    /// Of which: the CPU to which a waiting task had been sent when it was woken.
    pub of_which_late: f64,
    /// Further idle CPUs, for which there was no task.
    pub idle_nothing: f64,
    /// Of which: before all CPUs were busy for the first time.
    pub of_which_start: f64,
    /// Of which: after all CPUs were busy for the last time.
    pub of_which_tail: f64,
    /// Not seen.
    pub other: f64,
    /// Switches of tasks.
    pub switches: u64,
    /// Of which: after `sched_yield` of a task.
    pub yield_switches: u64,
    /// Runs of less than 10 µs that began after a `sched_yield` and ended with one.
    pub vain_turns: u64,
    /// Wake-ups of tasks that had slept.
    pub woken: u64,
    /// Calls of `sched_yield` in the whole run, including those after which the task continued.
    pub yields: u64,
    /// The recording is not complete: its end is missing.
    pub is_cut: bool,
}
