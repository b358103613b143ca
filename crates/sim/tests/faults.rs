//! Faults that policies once had: what showed them then still shows them in a policy that has them, and in no other.
mod common;

use flsched_sim::Error;
use flsched_sim::scenario::Scenario;
use flsched_sim::schedulers::keeps_cpus_busy;

/// The scenario shows `fault` of the policy `careless`, and no policy of this project has it.
fn shows(fault: &str, scenario: &str) {
    common::add("careless");
    let run = |scheduler: &str| {
        let scenario = Scenario::parse(scenario, "it").unwrap();
        let scenario = Scenario { scheduler: scheduler.into(), ..scenario };
        assert!(keeps_cpus_busy(&scenario.scheduler().unwrap()));
        scenario.run()
    };
    for policy in ["flsched", "smove", "rr2", "careless"] {
        run(policy).unwrap_or_else(|error| panic!("{policy}: {error}"));
    }
    let outcome = run(&format!("careless:fault={fault}"));
    assert!(matches!(outcome, Err(Error::Violation(_) | Error::Limit(_))), "{fault}: {outcome:?}");
}

/// Two tasks a CPU, on 24 caches: a CPU that is done finds those that wait far away.
#[test]
fn no_cpu_idles_while_a_task_waits() {
    let text = "seed = 1\nmachine = \"epyc-2s-768t\"\ncpus = 768\nscheduler = \"flsched\"\n\
                limit_ms = 10000\nworkload = \"hogs:1536:50\"\n";
    shows("apart", text);
}

/// Fuzzing once found a task that was enqueued twice as its affinity changed, and had claimed an idle CPU the first time,
/// which then never came to know of it.
#[test]
fn an_idle_cpu_is_found_again_after_an_affinity_has_changed() {
    let text = "seed = 24969\nmachine = \"xeon-e7-8870v4-4s\"\ncpus = 3\nscheduler = \"flsched\"\nlimit_ms = 1000\n\
                [[task]]\ncpus = [0]\nsteps = [{ run_us = 100000 }]\n\
                [[task]]\ncpus = [1]\nsteps = [{ run_us = 100000 }]\n\
                [[task]]\ncpus = [0]\nsteps = [{ run_us = 50000 }]\n\
                [[event]]\nat_us = 5000\naffinity = { task = 3, cpus = [1, 2] }\n";
    shows("forgets", text);
}

/// Found by fuzzing: the kernel kept tasks that exit from the policy's queues, and SCHED_RR2 let two of them
/// interrupt each other for ever.
#[test]
fn tasks_that_exit_do_not_interrupt_each_other() {
    let text = "seed = 14387\nmachine = \"parallel-clock\"\ncpus = 1\nscheduler = \"rr2\"\nlimit_ms = 1000\n\
                [[task]]\ncount = 2\nexit_us = 30000\nsteps = [{ run_us = 1000 }]\n";
    shows("chases", text);
}

/// Found by fuzzing: a CPU that is offline had the place of CPU 0, so a task that had run there took the
/// bit of CPU 0 out of the set of idle CPUs.
#[test]
fn an_idle_cpu_is_found_while_another_is_offline() {
    let text = "seed = 25848\nmachine = \"ryzen-3400g\"\ncpus = 3\nscheduler = \"flsched\"\nlimit_ms = 1000\n\
                [[task]]\nsteps = [{ run_us = 11973 }]\n\
                [[task]]\nstart_us = 6374\nsteps = []\n\
                [[task]]\nstart_us = 26397\nsteps = [{ run_us = 5791 }]\n\
                [[task]]\nstart_us = 28628\nsteps = [{ run_us = 20000 }]\n\
                [[task]]\nstart_us = 37031\nsteps = []\n\
                [[event]]\nat_us = 1303\noffline = 0\n[[event]]\nat_us = 7310\nonline = 0\n\
                [[event]]\nat_us = 7516\noffline = 2\n[[event]]\nat_us = 28818\nonline = 2\n\
                [[event]]\nat_us = 36937\noffline = 1\n";
    shows("claims", text);
}

/// Found by fuzzing: FLSCHED once left it in the waiting room of a CPU that idled.
#[test]
fn a_lone_background_task_that_yields_continues() {
    let text = "seed = 1\nmachine = \"ryzen-3400g\"\ncpus = 6\nscheduler = \"flsched\"\nlimit_ms = 1000\n\
                [[task]]\nnice = 18\ncpus = [5]\nsteps = [{ yields = 1 }]\n";
    shows("strands", text);
}
