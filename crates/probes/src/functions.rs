//! The functions by which the kernel's core drives a scheduling class. Names differ between kernels:
//! those of all supported ones are listed, and what this kernel lacks is reported as absent.

/// What a class's function does, and its names in the two classes.
pub(crate) struct Function {
    pub(crate) role: &'static str,
    pub(crate) fair: &'static [&'static str],
    pub(crate) scx: &'static [&'static str],
}

/// In the order in which a task's life needs them.
pub(crate) const CLASS_FUNCTIONS: &[Function] = &[
    function("select_task_rq", &["select_task_rq_fair"], &["select_task_rq_scx"]),
    function("migrate_task_rq", &["migrate_task_rq_fair"], &[]),
    function("enqueue_task", &["enqueue_task_fair"], &["enqueue_task_scx"]),
    function(
        "wakeup_preempt",
        &["wakeup_preempt_fair", "check_preempt_wakeup_fair"],
        &["wakeup_preempt_scx"],
    ),
    function("task_woken", &[], &["task_woken_scx"]),
    function("balance", &["balance_fair"], &["balance_scx"]),
    function("newidle balance", &["sched_balance_newidle"], &[]),
    function("load balance", &["sched_balance_rq"], &[]),
    function("pick_next_task", &["pick_next_task_fair"], &["pick_next_task_scx"]),
    function("pick_task", &["pick_task_fair"], &["pick_task_scx"]),
    function("set_next_task", &["set_next_task_fair"], &["set_next_task_scx"]),
    function("put_prev_task", &["put_prev_task_fair"], &["put_prev_task_scx"]),
    function("update_curr", &["update_curr"], &["update_curr_scx"]),
    function("task_tick", &["task_tick_fair"], &["task_tick_scx"]),
    function("yield_task", &["yield_task_fair"], &["yield_task_scx"]),
    function("dequeue_task", &["dequeue_task_fair"], &["dequeue_task_scx"]),
];

/// Functions of the core that take locks themselves, whatever the class. Those that go through the
/// wrapper around run queue locks need not be listed.
pub(crate) const CORE_FUNCTIONS: &[&str] =
    &["try_to_wake_up", "wake_up_new_task", "task_rq_lock", "_task_rq_lock", "sched_tick", "__schedule"];

/// The kernel's wrapper around run queue locks.
pub(crate) const RQ_LOCK_WRAPPER: &str = "raw_spin_rq_lock_nested";

const fn function(
    role: &'static str,
    fair: &'static [&'static str],
    scx: &'static [&'static str],
) -> Function {
    Function { role, fair, scx }
}
