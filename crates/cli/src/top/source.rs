//! What a view is made of, from the kernel.
use super::history::History;
use super::view::View;
use anyhow::Result;
use flsched_host::{Attached, cpu_locations, kernel_release, sched_ext, status};
use flsched_probes::watch::{Look, Watcher};
use nix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::Duration;

/// The scheduler in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InForce {
    /// As comparisons name it, with its version if it is a policy of this build: `flsched 0.1.0`, `eevdf`.
    pub name: String,
    /// A policy's knobs that do not have their defaults: `slice_us=5000`.
    pub settings: String,
    /// It schedules only tasks of class SCHED_EXT.
    pub is_partial: bool,
    /// sched_ext's count of attached schedulers since boot.
    pub sequence: u64,
}

/// The machine and its scheduler at one moment.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    pub look: Look,
    pub in_force: InForce,
    /// How long it has been attached, if that is known.
    pub attached_for: Option<Duration>,
    /// What the policy has counted.
    pub statistics: Vec<(String, u64)>,
}

/// Reads one moment after the other.
pub struct Source<'a> {
    watcher: &'a Watcher<'a>,
    caches: BTreeMap<u32, u32>,
    kernel: String,
    attached: Option<Attached>,
    history: History,
    last: Moment,
}

impl<'a> Source<'a> {
    pub fn new(watcher: &'a Watcher<'a>) -> Result<Self> {
        let caches = cpu_locations().iter().map(|cpu| (cpu.cpu as u32, cpu.llc as u32)).collect();
        let history = History::new(status::last_ejection());
        let kernel = kernel_release();
        let mut source = Self { watcher, caches, kernel, attached: None, history, last: Moment::default() };
        source.last = source.moment()?;
        Ok(source)
    }

    /// What has happened since the last view, or since the start.
    pub fn view(&mut self) -> Result<View> {
        let moment = self.moment()?;
        let (from, to) = (&self.last.in_force, &moment.in_force);
        let new_events = if from == to { 0 } else { self.history.note(from, to, status::last_ejection()) };
        let mut view = View::between(&self.last, &moment, &self.caches);
        view.kernel.clone_from(&self.kernel);
        view.ejections = self.history.ejections();
        view.events = self.history.events().to_vec();
        view.new_events = new_events;
        self.last = moment;
        Ok(view)
    }

    fn moment(&mut self) -> Result<Moment> {
        let before = &self.last.in_force;
        let status = sched_ext::status();
        // While one comes or goes, nothing that is read of it belongs together.
        let is_changing = status.as_ref().is_some_and(|now| now.is_active() && now.state != "enabled");
        let is_same = self.attached.is_some()
            && status.as_ref().is_some_and(|now| now.is_active() && now.enable_seq == before.sequence);
        if !is_same && !is_changing {
            self.attached = Attached::find();
        }
        let look = self.watcher.look()?;
        let loaded_at = self.attached.as_ref().map(|it| it.loaded_at);
        Ok(Moment {
            look,
            in_force: match is_changing {
                true if !before.name.is_empty() => before.clone(),
                _ => in_force(status.filter(sched_ext::Status::is_active), self.attached.as_ref()),
            },
            attached_for: loaded_at.and_then(|loaded_at| since_boot().checked_sub(loaded_at)),
            statistics: self.attached.as_ref().map(Attached::statistics).unwrap_or_default(),
        })
    }
}

fn in_force(active: Option<sched_ext::Status>, attached: Option<&Attached>) -> InForce {
    let version = attached.map(|it| it.spec.policy.version);
    let name = match (&active, attached) {
        (_, Some(it)) => it.spec.policy.name.to_owned(),
        (Some(it), None) => it.ops.clone().unwrap_or_else(status::in_force),
        (None, None) => status::in_force(),
    };
    InForce {
        name: version.map_or_else(|| name.clone(), |version| format!("{name} {version}")),
        settings: attached.map(|it| it.spec.settings()).unwrap_or_default(),
        is_partial: active.as_ref().is_some_and(|it| !it.switch_all),
        sequence: active.map_or(0, |it| it.enable_seq),
    }
}

/// On the clock by which the kernel says when a program was loaded.
fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(Duration::ZERO, |time| Duration::new(time.tv_sec() as u64, time.tv_nsec() as u32))
}
