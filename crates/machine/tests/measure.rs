//! What is measured here goes into a machine's file, and the simulator runs on it.
use flsched_machine::Machine;
use flsched_machine::measure::{calibrate, fragment};

/// A machine's file with these sections in place of its own.
fn with_fragment(text: &str, fragment: &str) -> String {
    let mut file: toml::Table = toml::from_str(text).unwrap();
    let new: toml::Table = toml::from_str(fragment).unwrap();
    for (section, fields) in new {
        let fields = fields.as_table().unwrap().clone();
        let section = file.entry(section).or_insert_with(|| toml::Table::new().into());
        section.as_table_mut().unwrap().extend(fields);
    }
    toml::to_string(&file).unwrap()
}

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
    let fragment = fragment::render(&found);
    assert!(fragment.starts_with("# Measured by flsched calibrate on "), "{fragment}");
    let text = with_fragment(include_str!("../../../machines/ryzen-3400g.toml"), &fragment);
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let machine = Machine::find(file.path().to_str().unwrap()).unwrap();
    assert_eq!(*machine.costs.syscall_ns, found.syscall.ns().round() as u64);
}
