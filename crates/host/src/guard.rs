//! Real-time tasks that do not sleep, on a kernel whose sched_ext has no deadline server: nothing that a sched_ext scheduler
//! runs gets a CPU beside them. RCU's threads are among that, so even detaching would wait for them. The default class keeps
//! a twentieth of each CPU, by its own server. So a thread of the highest real-time priority detaches the scheduler before the
//! machine stands still. Detaching waits for RCU and for tasks in the middle of a fork, so these get a real-time priority meanwhile.
//!
//! It is not of SCHED_DEADLINE, which would come before tasks of the same priority, too. Such a task has sched_ext leave a balance
//! callback behind when it is enabled or disabled (a warning in `rq_pin_lock()`), and 6.18 divides by zero in
//! `set_cpus_allowed_dl()` when a CPU goes offline.
use crate::Error;
use crate::processes;
use crate::tasks::{self, Stat};
use nix::errno::Errno;
use nix::libc;
use std::cell::Cell;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Normal tasks may be without a CPU for so long, although they come first among their like …
const LIMIT: Duration = Duration::from_secs(1);
/// … while real-time tasks are runnable at so many checks in a row. Alone, a long wait may be a long queue, which any user
/// can make.
const CHECKS: u32 = 3;
/// How often each of the threads here runs.
const EVERY: Duration = Duration::from_millis(100);
/// Real-time tasks that are runnable at so many looks in a row, one for each CPU, keep all CPUs busy.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// For so long after it the scheduler is not attached again.
pub(crate) const CALM: Duration = Duration::from_secs(5);

/// The threads; they end with it.
pub(crate) struct Guard {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    began: Instant,
    stop: AtomicBool,
    /// When the thread of the default class last ran, in ms.
    normal: AtomicU64,
    /// When real-time tasks last kept it from running.
    late: AtomicU64,
    has_fired: AtomicBool,
    /// What to detach; locked while that is done.
    target: Mutex<Option<Target>>,
}

struct Target {
    link: RawFd,
    /// Threads of the kernel that detaching waits for.
    helpers: Vec<libc::pid_t>,
}

impl Guard {
    /// An error: this process may not have threads of a real-time class, as without CAP_SYS_NICE, or does not see all tasks.
    pub(crate) fn start() -> Result<Self, Errno> {
        if !processes::sees_all() {
            return Err(Errno::EPERM);
        }
        let shared = Arc::new(Shared {
            began: Instant::now(),
            stop: AtomicBool::new(false),
            normal: AtomicU64::new(0),
            late: AtomicU64::new(0),
            has_fired: AtomicBool::new(false),
            target: Mutex::new(None),
        });
        // A page fault could wait for a task that starves. Without CAP_IPC_LOCK this fails, and only memory pressure
        // makes a difference.
        // SAFETY: takes an integer.
        unsafe { libc::mlockall(libc::MCL_CURRENT) };
        let mut guard = Self { shared, threads: Vec::new() };
        guard.spawn(|| enter_class(0, libc::SCHED_FIFO, 99), {
            let in_a_row = Cell::new(0);
            move |shared| shared.check(&in_a_row)
        })?;
        guard.spawn(prefer, |shared| shared.normal.store(shared.now(), Relaxed))?;
        Ok(guard)
    }

    /// A thread that enters its class and then does `each` again and again.
    fn spawn(
        &mut self,
        enter: impl FnOnce() -> Result<(), Errno> + Send + 'static,
        each: impl Fn(&Shared) + Send + 'static,
    ) -> Result<(), Errno> {
        let (entered, outcome) = mpsc::channel();
        let shared = self.shared.clone();
        let thread = thread::Builder::new().spawn(move || {
            let result = enter();
            let may = result.is_ok();
            let _ = entered.send(result);
            while may && !shared.stop.load(Relaxed) {
                each(&shared);
                thread::sleep(EVERY);
            }
        });
        self.threads.push(thread.map_err(|_| Errno::EAGAIN)?);
        outcome.recv().unwrap_or(Err(Errno::EAGAIN))
    }

    /// Lets the calling thread attach the scheduler that is to be watched. Real-time tasks that start as soon as it is attached
    /// would keep that thread from telling which link that is, so it comes before them until the result is dropped.
    pub(crate) fn raise_to_attach(&self) -> Raised {
        Raised::to(99)
    }

    /// Lets the calling thread run before all tasks of the default class, and after the machine's real-time tasks.
    pub(crate) fn raise(&self) -> Raised {
        Raised::to(1)
    }

    /// From now on this link is detached if need be.
    pub(crate) fn watch(&self, link: BorrowedFd<'_>) {
        let now = self.shared.now();
        self.shared.normal.store(now, Relaxed);
        self.shared.has_fired.store(false, Relaxed);
        let target = Target { link: link.as_raw_fd(), helpers: helpers() };
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(target);
    }

    /// Call this before the link is closed. Whether it has been detached.
    pub(crate) fn release(&self) -> bool {
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.has_fired()
    }

    /// Whether it has detached the link.
    pub(crate) fn has_fired(&self) -> bool {
        self.shared.has_fired.load(Relaxed)
    }

    /// Whether real-time tasks have lately kept others waiting.
    pub(crate) fn is_pressed(&self) -> bool {
        let late = self.shared.late.load(Relaxed);
        late > 0 && self.shared.now() - late < CALM.as_millis() as u64
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.release();
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The calling thread has at least this real-time priority until this is dropped.
pub struct Raised {
    before: Option<Class>,
}

impl Raised {
    fn to(priority: libc::c_int) -> Self {
        let is_lower =
            |(class, own): &Class| !is_real_time(class & !libc::SCHED_RESET_ON_FORK) || *own < priority;
        let before = class_of(0).filter(is_lower);
        // The guard's own threads have shown that it may.
        let to = (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority);
        Self { before: before.filter(|_| enter_class(0, to.0, to.1).is_ok()) }
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some((class, priority)) = self.before {
            let _ = enter_class(0, class, priority);
        }
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn check(&self, in_a_row: &Cell<u32>) {
        let now = self.now();
        if now.saturating_sub(self.normal.load(Relaxed)) < LIMIT.as_millis() as u64 {
            in_a_row.set(0);
            return;
        }
        let is_pressed = runnable_tasks().any(|task| is_real_time(task.class));
        in_a_row.set(if is_pressed { in_a_row.get() + 1 } else { 0 });
        if is_pressed {
            self.late.store(now, Relaxed);
        }
        if in_a_row.get() >= CHECKS {
            in_a_row.set(0);
            self.detach();
        }
    }

    fn detach(&self) {
        let Ok(mut target) = self.target.try_lock() else { return };
        let Some(Target { link, helpers }) = &*target else { return };
        let helpers: Vec<_> = helpers.iter().filter_map(|id| Lifted::lift(*id, *id, HELPERS)).collect();
        // Any of them can be in the middle of a fork. What they fork is of the default class again.
        let starved = runnable_tasks().filter(|task| !is_real_time(task.class));
        let starved: Vec<_> =
            starved.filter_map(|task| Lifted::lift(task.id, task.process, STARVED)).collect();
        self.has_fired.store(true, Relaxed);
        // SAFETY: the link is open as long as it is here.
        unsafe { libbpf_rs::libbpf_sys::bpf_link_detach(*link) };
        for task in starved.iter().chain(&helpers) {
            task.put_back();
        }
        *target = None;
    }
}

/// A task's class with its flag, and priority.
type Class = (libc::c_int, libc::c_int);

const HELPERS: Class = (libc::SCHED_FIFO, 99);
const STARVED: Class = (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 98);

/// A task that has another class until it is put back.
struct Lifted {
    id: libc::pid_t,
    process: libc::pid_t,
    before: Class,
    to: Class,
}

impl Lifted {
    /// `None`: the task has ended, or has this class already.
    fn lift(id: libc::pid_t, process: libc::pid_t, to: Class) -> Option<Self> {
        let before = class_of(id).filter(|before| *before != to)?;
        enter_class(id, to.0, to.1).ok()?;
        Some(Self { id, process, before, to })
    }

    /// If another task has the number by now, that task keeps its class. A thread that executes another program gets the
    /// number of its process.
    fn put_back(&self) {
        let id = if class_of(self.id).is_some() { self.id } else { self.process };
        if class_of(id) == Some(self.to) {
            let _ = enter_class(id, self.before.0, self.before.1);
        }
    }
}

/// `None`: it has ended, or is of SCHED_DEADLINE, which has more parameters.
fn class_of(id: libc::pid_t) -> Option<Class> {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: takes an integer.
    let class = Errno::result(unsafe { libc::sched_getscheduler(id) }).ok()?;
    // SAFETY: the parameter outlives the call.
    Errno::result(unsafe { libc::sched_getparam(id, &mut parameters) }).ok()?;
    (class != libc::SCHED_DEADLINE).then_some((class, parameters.sched_priority))
}

/// Refuses to attach beside real-time tasks that do not sleep: the guard watches only what is attached, and the threads
/// that attach are of the default class.
pub(crate) fn check() -> Result<(), Error> {
    // SAFETY: takes an integer.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as usize;
    for look in 0..LOOKS {
        if look > 0 {
            thread::sleep(BETWEEN_LOOKS);
        }
        if runnable_tasks().filter(|task| is_real_time(task.class)).count() < cpus {
            return Ok(());
        }
    }
    Err(Error::RealTimeHogs { cpus })
}

/// A task that runs or waits for a CPU.
struct Runnable {
    id: libc::pid_t,
    process: libc::pid_t,
    class: libc::c_int,
}

/// All but the calling thread, which is of a real-time class itself.
fn runnable_tasks() -> impl Iterator<Item = Runnable> {
    let own = nix::unistd::gettid().as_raw() as u32;
    let task = move |process: u32, id: u32| {
        let stat = Stat::of_task(process, id).filter(|stat| stat.is_runnable && id != own)?;
        Some(Runnable { id: id as _, process: process as _, class: stat.class as _ })
    };
    tasks::all().filter_map(move |(process, id)| task(process, id))
}

fn is_real_time(class: libc::c_int) -> bool {
    [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&class)
}

fn enter_class(task: libc::pid_t, class: libc::c_int, priority: libc::c_int) -> Result<(), Errno> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameter outlives the call.
    Errno::result(unsafe { libc::sched_setscheduler(task, class, &parameters) }).map(drop)
}

/// Puts the calling thread first among those of the default class.
fn prefer() -> Result<(), Errno> {
    // SAFETY: takes integers only; 0 is the calling thread.
    Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }).map(drop)
}

/// RCU's threads and sched_ext's own.
fn helpers() -> Vec<libc::pid_t> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<libc::pid_t>().ok());
    let is_helper = |pid: &libc::pid_t| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        // Only a thread of the kernel has no memory, and any user can use the names.
        is_helpers_name(&read("comm")) && read("statm").starts_with("0 0 ")
    };
    numbers.filter(is_helper).collect()
}

fn is_helpers_name(comm: &str) -> bool {
    let grace_periods = ["rcu_preempt", "rcu_sched", "rcu_exp_", "rcuog/", "rcuop/", "rcuos/"];
    grace_periods.iter().chain(&["sched_ext"]).any(|start| comm.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_thread_may_be_raised_further() {
        let before = class_of(0);
        let low = Raised::to(1);
        let in_low = class_of(0);
        let high = Raised::to(99);
        let in_high = class_of(0);
        drop(high);
        let after_high = class_of(0);
        drop(low);
        assert_eq!((after_high, class_of(0)), (in_low, before));
        // Without the privilege nothing is raised.
        if caps::has_cap(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_NICE).unwrap() {
            assert_eq!([in_low, in_high].map(|class| class.unwrap().1), [1, 99]);
        }
    }

    #[test]
    fn helpers_are_threads_of_the_kernel() {
        for name in ["rcu_preempt\n", "rcu_exp_gp_kthread_worker\n", "rcuog/3\n", "sched_ext_helper\n"] {
            assert!(is_helpers_name(name), "{name}");
        }
        assert!(!is_helpers_name("rcu_tasks_kthread\n") && !is_helpers_name("sh\n"));
    }

    #[test]
    fn sees_which_tasks_are_runnable_and_of_which_class() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let id = child.id() as libc::pid_t;
        let found = (0..200).find_map(|_| {
            thread::sleep(Duration::from_millis(10));
            runnable_tasks().find(|task| task.id == id)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_real_time(found.unwrap().class));
        let own = nix::unistd::gettid().as_raw();
        assert!(runnable_tasks().all(|task| task.id != own));
    }

    #[test]
    fn a_task_gets_its_own_class_back() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = child.id() as libc::pid_t;
        let before: Class = (libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK, 0);
        enter_class(id, before.0, before.1).unwrap();
        let outcome = Lifted::lift(id, id, STARVED).map(|lifted| {
            let meanwhile = class_of(id);
            lifted.put_back();
            // Put back once more, it is somebody else's.
            enter_class(id, libc::SCHED_IDLE, 0).unwrap();
            lifted.put_back();
            (meanwhile, class_of(id))
        });
        let lifted = Lifted::lift(id, id, STARVED);
        if let Some(lifted) = &lifted {
            lifted.put_back();
        }
        let again = class_of(id);
        child.kill().unwrap();
        child.wait().unwrap();
        // Without CAP_SYS_NICE nothing is lifted.
        if let Some(outcome) = outcome {
            assert_eq!(outcome, (Some(STARVED), Some((libc::SCHED_IDLE, 0))));
            assert_eq!(again, Some((libc::SCHED_IDLE, 0)));
        }
    }

    #[test]
    fn tasks_that_sleep_are_no_obstacle() {
        check().unwrap();
    }

    #[test]
    fn a_guard_without_a_target_does_nothing() {
        let Ok(guard) = Guard::start() else { return };
        thread::sleep(Duration::from_millis(300));
        assert!(!guard.release());
    }
}
