//! The machine on which a load was recorded: its CPUs are in the recording, what things cost there is not.
use crate::{Error, Machine, MachineFile, Place, Setting};
use flsched_recording::{Cpu, Header, is_recording};
use std::collections::BTreeSet;
use std::io::Read;

/// Whose costs are taken: of a recent server, and, on a clock that counts instructions, of such a machine.
const SERVER: &str = include_str!("../../../machines/epyc-2s-768t.toml");
const INSTRUCTIONS: &str = include_str!("../../../machines/parallel-clock.toml");

impl Machine {
    /// The machine of the recording in this file. All its CPUs are equally fast at all times, as the recorded times have
    /// in them what made them slower.
    pub fn of_recording(path: &str, settings: &[Setting]) -> Result<Self, Error> {
        let header = Header::read(path).map_err(|error| Error::usage(error.to_string()))?;
        let counts_instructions = header
            .clock
            .as_deref()
            .is_some_and(|clock| clock.starts_with("parallel") || clock.starts_with("work"));
        let text = if counts_instructions { INSTRUCTIONS } else { SERVER };
        let mut machine = Self::from(MachineFile::parse_with(text, path, settings)?);
        let costs = std::mem::take(&mut machine.name);
        machine.set_places(places(&header.cpus));
        machine.startup = None;
        let mut machine = machine.even();
        let changed: String = settings.iter().map(|setting| format!(":{setting}")).collect();
        machine.name = format!("{path}{changed}");
        let model = header.cpu_model.map(|model| format!(", {model}")).unwrap_or_default();
        machine.description = format!("{} CPUs as recorded{model}; costs of {costs}", header.cpus.len());
        Ok(machine)
    }

    /// Whether the file is a recording. What cannot be read is none.
    pub fn is_of_recording(path: &str) -> bool {
        let mut begin = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut begin));
        read.is_ok() && is_recording(&begin)
    }
}

/// Numbered from 0 in each kind, without gaps.
fn places(cpus: &[Cpu]) -> Vec<Place> {
    let number = |of: &dyn Fn(&Cpu) -> u32| {
        let all: BTreeSet<u32> = cpus.iter().map(of).collect();
        cpus.iter().map(|cpu| all.range(..of(cpu)).count()).collect::<Vec<usize>>()
    };
    let (cores, caches, nodes) = (number(&|cpu| cpu.core), number(&|cpu| cpu.cache), number(&|cpu| cpu.node));
    let place = |at: usize| Place { core: cores[at], cache: caches[at], node: nodes[at], package: nodes[at] };
    (0..cpus.len()).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flsched_recording::Recording;

    fn recording(clock: Option<&str>) -> Recording {
        let cpu = |id, core, cache, node| Cpu { id, core, cache, node };
        let header = Header {
            flsched: "0.1.0".into(),
            kernel: "6.18.0".into(),
            // CPU 2 is offline.
            cpus: vec![cpu(0, 0, 0, 0), cpu(1, 0, 0, 0), cpu(3, 4, 9, 1), cpu(4, 5, 9, 1)],
            cpu_model: Some("Some CPU".into()),
            governor: None,
            clock: clock.map(Into::into),
            schedulers: ["eevdf".into(), "eevdf".into()],
            command: None,
            command_task: None,
            is_anonymous: false,
            length: 1,
            migrations: 0,
            lost: 0,
            overhead: 0,
            counters: Vec::new(),
        };
        Recording { header, tasks: vec![], events: vec![] }
    }

    #[test]
    fn has_the_recorded_cpus_and_known_costs() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        for (clock, costs) in [(None, "epyc-2s-768t"), (Some("parallel:turn=250"), "parallel-clock")] {
            let mut content = Vec::new();
            recording(clock).write_to(&mut content).unwrap();
            std::fs::write(path, content).unwrap();
            let machine = Machine::find(path).unwrap();
            assert_eq!(machine.threads, [vec![0, 1], vec![2], vec![3]]);
            assert_eq!(machine.places[3], Place { core: 2, cache: 1, node: 1, package: 1 });
            assert_eq!((machine.nr_cpus(), machine.smt_speed(2)), (4, crate::FULL_SPEED));
            assert!(machine.description.ends_with(&format!("Some CPU; costs of {costs}")), "{machine:?}");
            let setting = "costs.switch_ns=3000".parse().unwrap();
            assert_eq!(*Machine::find_with(path, &[setting]).unwrap().costs.switch_ns, 3000);
        }
        std::fs::write(path, "{\"flsched_recording\":1,").unwrap();
        assert!(Machine::find(path).unwrap_err().to_string().contains("cut off or damaged"));
    }
}
