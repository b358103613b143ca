//! The functions that a scheduler offers to the core; each has a cost and is counted.
use strum::{IntoStaticStr, VariantArray};

/// Named after `struct sched_class`, as far as that has a name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Callback {
    /// `select_task_rq`
    SelectCpu,
    /// What `select_task_rq` takes more where `ops.select_cpu` finds no idle CPU, and puts the task into no queue
    SelectBusy,
    /// `enqueue_task`
    Enqueue,
    /// What `enqueue_task` takes more for a task that `ops.enqueue` is called for than for one that `ops.select_cpu` has put
    /// into a queue
    OpsEnqueue,
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
    /// `put_prev_task` of a task that waits on, after a yield or a preemption: what it takes more than that of a sleeper
    Requeue,
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
    pub const COUNT: usize = Self::VARIANTS.len();
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// Whether it is a part of another one's price, for policies, that a list may leave out.
    pub(crate) fn is_optional(self) -> bool {
        matches!(self, Self::SelectBusy | Self::OpsEnqueue)
    }

    /// The name in machine files and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
