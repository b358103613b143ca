//! CPU hotplug, affinities and cpusets.
use super::{EVERYWHERE, Scenario, hogs_beside, is_control, scenario};
use crate::guest::policy;
use crate::load::*;
use crate::machine::Machine;
use crate::scheduler::*;
use nix::sched::sched_getcpu;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Instant;

pub const SCENARIOS: &[Scenario] = &[
    // This one is first: it needs the CPUs that are offline since boot.
    scenario!(attaches_while_cpus_are_offline_from_boot, &[Machine::Odd]),
    scenario!(affinity_changes_under_load, EVERYWHERE),
    scenario!(cpuset_shrinks_and_grows, EVERYWHERE),
    scenario!(hotplug_under_load, EVERYWHERE),
    scenario!(hotplug_storm, EVERYWHERE),
    scenario!(all_but_one_cpu_offline, EVERYWHERE),
];

/// CPUs that were offline when the policy was attached come online later.
fn attaches_while_cpus_are_offline_from_boot() {
    let (possible, online) = (cpus_in("possible"), cpus_in("online"));
    assert!(online.len() < possible.len(), "{online:?} of {possible:?}");
    let mut attached = Attached::with(&[]);
    let hogs = Hogs::part_time(6);
    Hackbench::start("-p -g 1 -l 50").finish();
    for cpu in possible.iter().filter(|cpu| !online.contains(cpu)) {
        let attached_before = sched_ext("enable_seq");
        set_online(*cpu, true);
        // Not all at once: a CPU needs new kernel threads when it comes online for the first time. Before 7.1 the kernel
        // never runs a task that is forked while it detaches a scheduler (`task_should_scx`), and detaching waits
        // until the CPU is online.
        wait_until("the policy is attached again", || {
            sched_ext("enable_seq") != attached_before && is_attached()
        });
    }
    hogs.stop();
    for cpu in possible.iter().filter(|cpu| !online.contains(cpu)) {
        set_online(*cpu, false);
    }
    wait_until("the policy is attached again", is_attached);
    assert!(attached.is_alive());
    assert!(attached.interrupt().success());
}

/// 200 changes a second for half a second, to tasks that exchange messages.
fn affinity_changes_under_load() {
    let held = Held::start();
    let bench = Hackbench::start("-p -g 2 -l 250");
    let hogs = hogs_beside(2, None);
    let online = cpus_in("online");
    let began = Instant::now();
    for change in 0usize..100 {
        let due = began + millis(5) * change as u32;
        sleep(due.saturating_duration_since(Instant::now()));
        let tasks = bench.tasks();
        let cpu = |number: usize| online[number % online.len()];
        if let Some(task) = tasks.get(change % tasks.len().max(1)) {
            match change % 3 {
                0 => allow(*task, [cpu(change)]),
                1 => allow(*task, [cpu(change), cpu(change + 1)]),
                _ => allow(*task, online.iter().copied()),
            }
        }
    }
    bench.finish();
    hogs.stop();
    held.stop();
}

/// Changes the cpuset of all tasks of a cgroup at once, as a container manager does.
fn cpuset_shrinks_and_grows() {
    let held = Held::start();
    let group = Group::enter("narrow");
    let bench = Hackbench::start("-p -g 1 -l 400");
    let strays = Arc::new(AtomicU64::new(0));
    let only = Arc::new(AtomicUsize::new(ANY));
    let hogs = {
        let (strays, only) = (strays.clone(), only.clone());
        // A control promises nothing about tasks that never block.
        let rests = is_control(policy().name);
        Hogs::repeating(4, None, move |_| {
            let before = only.load(Ordering::SeqCst);
            let on = sched_getcpu().expect("it runs somewhere");
            if before != ANY && on != before && only.load(Ordering::SeqCst) == before {
                strays.fetch_add(1, Ordering::SeqCst);
            }
            work();
            if rests {
                sleep(millis(1));
            }
        })
    };
    let online = cpus_in("online");
    let all = fs::read_to_string("/sys/devices/system/cpu/online").expect("readable");
    for cpu in [online[1], online[2], online[1], online[0]] {
        group.set("cpuset.cpus", &cpu.to_string());
        only.store(cpu, Ordering::SeqCst);
        sleep(millis(40));
        only.store(ANY, Ordering::SeqCst);
        group.set("cpuset.cpus", all.trim());
        sleep(millis(20));
    }
    bench.finish();
    hogs.stop();
    drop(group);
    held.stop();
    assert_eq!(strays.load(Ordering::SeqCst), 0, "tasks ran outside their cpuset");
}

const ANY: usize = usize::MAX;

/// A new cgroup for this process and its children. It is left and removed in the end.
pub(super) struct Group {
    folder: PathBuf,
    before: PathBuf,
}

impl Group {
    pub(super) fn enter(name: &str) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let own = fs::read_to_string("/proc/self/cgroup").expect("readable");
        let own = own.trim().strip_prefix("0::/").expect("cgroup v2").to_owned();
        let group = Self { folder: root.join(name), before: root.join(own) };
        fs::create_dir(&group.folder).expect("a new group");
        group.set("cgroup.procs", "0");
        group
    }

    /// Moves this process back to its old cgroup; its children stay.
    pub(super) fn leave(&self) {
        let _ = fs::write(self.before.join("cgroup.procs"), "0");
    }

    fn set(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap_or_else(|e| panic!("{file} = {text}: {e}"));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.leave();
        // A process that has just ended may be in the cgroup for a moment.
        wait_until("the group is empty", || fs::remove_dir(&self.folder).is_ok());
    }
}

/// The kernel ends a scheduler when CPUs come or go; flsched must attach it again each time.
fn hotplug_under_load() {
    let mut attached = Attached::with(&[]);
    let bench = Hackbench::start("-p -g 2 -l 100");
    let hogs = Hogs::part_time(4);
    for online in [false, true] {
        set_online(2, online);
        wait_until("the policy is attached again", is_attached);
    }
    bench.finish();
    hogs.stop();
    assert!(attached.is_alive());
    assert!(attached.interrupt().success());
}

/// Hotplug in random order, mostly faster than a scheduler can be attached.
fn hotplug_storm() {
    const CHANGES: u32 = 24;
    let mut random = ChaCha8Rng::seed_from_u64(seed());
    let cpus: Vec<usize> = cpus_in("online").into_iter().filter(|cpu| *cpu > 0).collect();
    let mut offline = vec![];
    let mut attached = Attached::with(&[]);
    let bench = Hackbench::start("-p -g 1 -l 200");
    let hogs = Hogs::part_time(3);
    let pinned = hogs_beside(1, Some(a_cpu()));
    pinned.go_on();
    for change in 1..=CHANGES {
        let cpu = cpus[random.random_range(0..cpus.len())];
        match offline.iter().position(|off| *off == cpu) {
            Some(at) => {
                offline.remove(at);
            }
            None => offline.push(cpu),
        }
        set_online(cpu, !offline.contains(&cpu));
        sleep(millis(random.random_range(0..30)));
        if change == CHANGES / 2 {
            wait_until("the policy is attached in a lull", is_attached);
        }
    }
    for cpu in offline {
        set_online(cpu, true);
    }
    wait_until("the policy is attached after the storm", is_attached);
    bench.finish();
    pinned.stop();
    hogs.stop();
    assert!(attached.is_alive());
    assert!(attached.interrupt().success());
}

/// The seed of random numbers. `FLSCHED_TEST_SEED` sets it, to repeat a run.
fn seed() -> u64 {
    let given = std::env::var("FLSCHED_TEST_SEED").ok();
    let seed = given.map_or_else(rand::random, |text| text.parse().expect("FLSCHED_TEST_SEED is a number"));
    eprintln!("FLSCHED_TEST_SEED={seed}");
    seed
}

/// All CPUs but one go offline, as before a suspend.
fn all_but_one_cpu_offline() {
    let cpus: Vec<usize> = cpus_in("online").into_iter().filter(|cpu| *cpu > 0).collect();
    let mut attached = Attached::with(&[]);
    let bench = Hackbench::start("-p -g 1 -l 100");
    let hogs = Hogs::part_time(4);
    for cpu in cpus.iter().rev() {
        set_online(*cpu, false);
    }
    wait_until("the policy is attached to the one CPU", is_attached);
    hogs.go_on();
    sleep(millis(100));
    // The thread that brings a CPU up must not wait for work elsewhere to end. With SCX_OPS_ENQ_LAST the kernel puts it
    // into the local queue when its slice ends, and the CPU, not active yet, idles beside it: that took up to 45 s. A few
    // seconds pass under a control.
    for cpu in &cpus {
        let began = Instant::now();
        set_online(*cpu, true);
        let took = began.elapsed();
        assert!(took < millis(15_000), "CPU {cpu} came online in {took:.1?}");
    }
    bench.finish();
    wait_until("the policy is attached again", is_attached);
    hogs.stop();
    assert!(attached.is_alive());
    assert!(attached.interrupt().success());
}
