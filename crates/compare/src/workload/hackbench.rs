//! hackbench of rt-tests: every group has 20 senders and 20 receivers, each sender writes LOOPS
//! messages to each receiver. It measures wake-ups and context switches.
use super::{Needs, Runnable};
use flsched_spec::UsageError;
use flsched_spec::workload::{Channel, Hackbench, Task};
use std::ffi::OsString;
use std::path::Path;

impl Runnable for Hackbench {
    /// Processes and sockets are hackbench's defaults.
    fn argv(&self, _helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec!["hackbench".into()];
        if self.task == Task::Thread {
            argv.push("--threads".into());
        }
        if self.channel == Channel::Pipe {
            argv.push("--pipe".into());
        }
        argv.extend(["--groups".into(), self.groups.to_string().into()]);
        argv.extend(["--loops".into(), self.loops.to_string().into()]);
        argv
    }

    fn needs(&self) -> Result<Needs, UsageError> {
        let program = which::which("hackbench").map_err(|_| {
            UsageError("hackbench is not in PATH; on Debian or Ubuntu: apt-get install rt-tests".into())
        });
        Ok(Needs::programs(vec![program?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flsched_spec::workload::Program;

    #[test]
    fn command_lines() {
        let line = |text| {
            let program = Program::sized(text, 4).unwrap();
            let argv = super::super::runnable(&program).argv(&[], Path::new(""));
            argv.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(line("hackbench:process-pipe:4:100"), "hackbench --pipe --groups 4 --loops 100");
        assert_eq!(line("hackbench:thread-socket:2:9"), "hackbench --threads --groups 2 --loops 9");
    }
}
