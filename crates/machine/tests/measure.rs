//! What is measured here makes a machine's file that loads.
use flsched_machine::Machine;
use flsched_machine::measure::{Cpufreq, calibrate, describe};
use std::collections::BTreeMap;

#[test]
fn the_present_machine_can_be_simulated() {
    let found = calibrate(5).unwrap();
    for (what, sample) in [
        ("syscall", &found.syscall),
        ("make a pipe", &found.pipes.make),
        ("write to a pipe", &found.pipes.write),
        ("read from a pipe", &found.pipes.read),
        ("make a pair of sockets", &found.sockets.make),
        ("write to a socket", &found.sockets.write),
        ("read from a socket", &found.sockets.read),
        ("one way", &found.one_way),
        ("fork", &found.fork),
        ("child", &found.child),
        ("thread", &found.thread_start),
        ("thread's life", &found.thread_life),
    ] {
        assert!(sample.ns() > 1.0, "{what}: {sample:?}");
    }
    // A message is a call with something to do, a way between two tasks is two calls and a switch, a life has
    // its beginning in it: whatever the machine.
    assert!(found.pipes.write.ns() + found.pipes.read.ns() > 2.0 * found.syscall.ns());
    assert!(found.child.quantile(0.0) > found.fork.quantile(0.0));
    assert!(found.thread_life.quantile(0.0) > found.thread_start.quantile(0.0));
    let nothing = Cpufreq { cpus: &BTreeMap::new(), domains: &BTreeMap::new() };
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), describe("here", &found, nothing).to_toml()).unwrap();
    let machine = Machine::find(file.path().to_str().unwrap()).unwrap();
    assert_eq!(*machine.costs.syscall_ns, found.syscall.ns().round() as u64);
    assert!(machine.nr_cpus() >= found.layout.cpus.len());
}
