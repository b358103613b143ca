//! A scenario as a workload: another machine and another scheduler can run it.
use super::Scenario;
use crate::Error;
use crate::workload::{Circumstances, Program, Workload, World};
use flsched_machine::Machine;
use flsched_recording::Figures;
use std::fmt;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Play {
    /// Its file, for messages.
    pub path: String,
    pub scenario: Scenario,
    pub tasks: Arc<dyn Workload>,
}

impl Workload for Play {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        self.tasks.main(world)
    }

    fn check(&self, nr_cpus: usize) -> Result<(), Error> {
        let there = Scenario { cpus: nr_cpus, ..self.scenario.clone() };
        there.check().map_err(|what| Error::Usage(format!("{}: {what}", self.path)))?;
        self.tasks.check(nr_cpus)
    }

    fn time_is(&self) -> Option<&'static str> {
        self.tasks.time_is()
    }

    fn fitted(&self, machine: &Machine) -> Option<Arc<dyn Workload>> {
        let tasks = self.tasks.fitted(machine)?;
        Some(Arc::new(Self { path: self.path.clone(), scenario: self.scenario.clone(), tasks }))
    }

    fn circumstances(&self) -> Circumstances {
        Circumstances {
            begin: self.scenario.begin_us * 1000,
            limit: Some(self.scenario.limit_ms * 1_000_000),
            end: Some(self.scenario.end_ms * 1_000_000).filter(|&end| end > 0),
            attach: Some(self.scenario.attach_us * 1000).filter(|&at| at > 0),
            disturbances: self.scenario.disturbances(),
        }
    }

    fn recorded(&self) -> Option<(&str, &Figures)> {
        self.tasks.recorded()
    }
}

impl fmt::Display for Play {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tasks.fmt(out)
    }
}
