//! The functions that a scheduler offers to the core; each has a cost and is counted.

/// Named after `struct sched_class`, as far as that has a name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Callback {
    /// `select_task_rq`
    SelectCpu,
    /// `enqueue_task`
    Enqueue,
    /// `dequeue_task`
    Dequeue,
    /// `wakeup_preempt`
    WakeupPreempt,
    /// `balance`
    Balance,
    /// `pick_task`
    Pick,
    /// `put_prev_task`
    PutPrev,
    /// `set_next_task`
    SetNext,
    /// `task_tick`
    Tick,
    /// `yield_task`
    Yield,
    /// A CPU begins or ceases to idle
    UpdateIdle,
    /// `task_fork`
    Fork,
    /// `task_dead`
    Exit,
    /// `set_cpus_allowed`
    SetCpumask,
}

impl Callback {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();
    /// All callbacks, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::SelectCpu,
        Self::Enqueue,
        Self::Dequeue,
        Self::WakeupPreempt,
        Self::Balance,
        Self::Pick,
        Self::PutPrev,
        Self::SetNext,
        Self::Tick,
        Self::Yield,
        Self::UpdateIdle,
        Self::Fork,
        Self::Exit,
        Self::SetCpumask,
    ];

    /// The name in machine files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::SelectCpu => "select_cpu",
            Self::Enqueue => "enqueue",
            Self::Dequeue => "dequeue",
            Self::WakeupPreempt => "wakeup_preempt",
            Self::Balance => "balance",
            Self::Pick => "pick",
            Self::PutPrev => "put_prev",
            Self::SetNext => "set_next",
            Self::Tick => "tick",
            Self::Yield => "yield",
            Self::UpdateIdle => "update_idle",
            Self::Fork => "fork",
            Self::Exit => "exit",
            Self::SetCpumask => "set_cpumask",
        }
    }
}
