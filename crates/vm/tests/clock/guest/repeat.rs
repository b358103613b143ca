//! What two machines of the same seed have in common: everything.
use std::fs::read_to_string;
use std::process::Command;

pub fn measure(_: usize) {
    let hackbench = Command::new("hackbench").args(["-p", "-g", "1", "-l", "20"]).output();
    let hackbench = hackbench.expect("hackbench is in this machine");
    print!("repeat hackbench: {}", String::from_utf8_lossy(&hackbench.stdout).replace('\n', ", "));
    println!();
    line("/proc/stat", "ctxt");
    line("/proc/timer_list", "now at");
    line("/proc/uptime", "");
    let interrupts = read_to_string("/proc/interrupts").expect("there is one");
    interrupts.lines().for_each(|line| println!("repeat {line}"));
}

/// The first one in that file that begins so.
fn line(file: &str, begin: &str) {
    let text = read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let line = text.lines().find(|line| line.starts_with(begin));
    println!("repeat {file}: {}", line.unwrap_or_else(|| panic!("{file} has no line {begin}")));
}
