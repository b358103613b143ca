//! `--metrics FILE`: what a policy does, for the textfile collector of Prometheus's node_exporter.
//!
//! The file is in Prometheus's text format and not in OpenMetrics: the collector reads neither OpenMetrics's names of
//! counters, so that it would lose their types and help texts, nor all of its types, for which it would refuse the file.
use anyhow::{Context, Result};
use flsched_host::{Running, Scope, Waiter};
use flsched_spec::{Policy, PolicySpec};
use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Pause between two writes. Prometheus usually reads every 15 or 60 s.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// The file. It is removed when the policy is detached as its user wants; after a failure it stays and reports that the
/// policy is not attached.
pub struct Metrics {
    file: PathBuf,
    policy: &'static Policy,
    labels: [(&'static str, String); 4],
    ejections: u64,
    /// Whose wait was the reason of the last one.
    waiter: Option<Waiter>,
    is_attached: bool,
    due: Instant,
    /// The last write failed, and a warning was printed.
    is_failing: bool,
    is_removed: bool,
}

impl Metrics {
    /// Writes the file: the policy is not attached yet. An error if that is not possible.
    pub fn start(file: PathBuf, spec: &PolicySpec, scope: Scope) -> Result<Self> {
        let scope = if scope == Scope::Partial { "partial" } else { "machine" };
        let mut metrics = Self {
            file,
            policy: spec.policy,
            labels: [
                ("policy", spec.policy.name.to_owned()),
                ("version", spec.policy.version.to_owned()),
                ("settings", spec.settings()),
                ("scope", scope.to_owned()),
            ],
            ejections: 0,
            waiter: None,
            is_attached: false,
            due: Instant::now(),
            is_failing: false,
            is_removed: false,
        };
        if let Err(error) = metrics.write(None) {
            metrics.is_removed = true; // nothing was written
            return Err(error).with_context(|| metrics.cannot_write());
        }
        Ok(metrics)
    }

    /// Counts an ejection, for which this task had waited. Only the last one is named: users can name tasks at will, and
    /// Prometheus keeps each label that it has ever read.
    pub fn add_ejection(&mut self, waiter: Option<&Waiter>) {
        self.ejections += 1;
        self.waiter = waiter.cloned();
    }

    /// Writes the file if that is due, or if the policy was attached or detached. A failure is a warning.
    pub fn tick(&mut self, running: Option<&Running>) {
        if Instant::now() < self.due && running.is_some() == self.is_attached {
            return;
        }
        match self.write(running) {
            Ok(()) => self.is_failing = false,
            Err(error) if self.is_failing => drop(error),
            Err(error) => {
                self.is_failing = true;
                eprintln!("warning: {}: {error}", self.cannot_write());
            }
        }
    }

    pub fn remove(mut self) {
        self.is_removed = true;
        if let Err(error) = std::fs::remove_file(&self.file) {
            eprintln!("warning: cannot remove {}: {error}", self.file.display());
        }
    }

    fn write(&mut self, running: Option<&Running>) -> io::Result<()> {
        self.is_attached = running.is_some();
        self.due = Instant::now() + WRITE_INTERVAL;
        let statistics = running.and_then(|running| running.stats().ok()).unwrap_or_default();
        flsched_base::files::replace(&self.file, self.text(&statistics).as_bytes())
    }

    fn text(&self, statistics: &[(String, u64)]) -> String {
        let mut registry = Registry::with_prefix("flsched");
        let labels = self.labels.clone().into_iter().map(|(name, value)| (name.into(), value.into()));
        registry.sub_registry_with_labels(labels).register(
            "attached",
            "Whether the policy is attached: 1, or 0",
            ConstGauge::<i64>::new(self.is_attached.into()),
        );
        registry.register(
            "ejections",
            "How often the kernel ejected the policy since flsched was started",
            ConstCounter::new(self.ejections),
        );
        if let Some(Waiter { task, pid, uid, .. }) = &self.waiter {
            let uid = uid.map_or("unknown".into(), |uid| uid.to_string());
            let labels = [("task", task.clone()), ("pid", pid.to_string()), ("uid", uid)];
            let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into()));
            registry.sub_registry_with_labels(labels).register(
                "last_waiter",
                "The task whose wait was the reason of the last ejection, and its user",
                ConstGauge::<i64>::new(1),
            );
        }
        // The policy's name is part of the metric's, as two policies may mean different things by a name.
        let of_policy = registry.sub_registry_with_prefix(self.policy.name);
        for (statistic, (_, count)) in self.policy.statistics.iter().zip(statistics) {
            of_policy.register(&statistic.name, &statistic.doc, ConstCounter::new(*count));
        }
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).expect("a string takes any text");
        text
    }

    fn cannot_write(&self) -> String {
        format!(
            "cannot write the metrics to {} (its folder must exist, have free space, and be writable for flsched; in a \
             systemd unit: ReadWritePaths=)",
            self.file.display()
        )
    }
}

/// After a failure: the policy is no longer attached.
impl Drop for Metrics {
    fn drop(&mut self) {
        if !self.is_removed {
            self.is_attached = true; // so that it is written
            self.tick(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn start(file: PathBuf) -> Result<Metrics> {
        Metrics::start(file, &"flsched:slice_us=5000".parse().unwrap(), Scope::Machine)
    }

    fn waiter() -> Waiter {
        Waiter { task: "sh".into(), pid: 7, uid: Some(1000), user: None }
    }

    #[test]
    fn the_file_has_names_and_help_texts_of_the_policys_statistics() {
        let folder = tempfile::tempdir().unwrap();
        let mut metrics = start(folder.path().join("x.prom")).unwrap();
        let statistics: Vec<_> =
            metrics.policy.statistics.iter().zip(7..).map(|(it, count)| (it.name.clone(), count)).collect();
        metrics.is_attached = true;
        metrics.add_ejection(None);
        let text = metrics.text(&statistics);
        for expected in [
            "# TYPE flsched_attached gauge\n",
            concat!(
                "flsched_attached{policy=\"flsched\",version=\"",
                env!("CARGO_PKG_VERSION"),
                "\",settings=\"slice_us=5000\",scope=\"machine\"} 1\n"
            ),
            "# TYPE flsched_ejections_total counter\nflsched_ejections_total 1\n",
            "# HELP flsched_flsched_idle_own_total woken or new task found its last CPU idle.\n\
             # TYPE flsched_flsched_idle_own_total counter\nflsched_flsched_idle_own_total 7\n",
            "flsched_flsched_idle_near_total 8\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert_eq!(text.matches("# TYPE").count(), 2 + statistics.len());
    }

    /// dist/grafana/flsched.json: a statistic that is new or has another name must be there too.
    #[test]
    fn the_dashboard_shows_each_metric_of_each_policy_and_no_other() {
        let dashboard: serde_json::Value =
            serde_json::from_str(include_str!("../../../dist/grafana/flsched.json")).unwrap();
        let targets =
            dashboard["panels"].as_array().unwrap().iter().flat_map(|it| it["targets"].as_array().unwrap());
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let shown: BTreeSet<String> = targets
            .flat_map(|target| target["expr"].as_str().unwrap().split(|letter| !is_name(letter)))
            .filter(|word| word.starts_with("flsched_"))
            .map(str::to_owned)
            .collect();

        let folder = tempfile::tempdir().unwrap();
        let mut written = BTreeSet::new();
        for policy in Policy::all() {
            let spec = PolicySpec::new(policy);
            let mut metrics = Metrics::start(folder.path().join(policy.name), &spec, Scope::Machine).unwrap();
            metrics.add_ejection(Some(&waiter()));
            let statistics: Vec<_> = policy.statistics.iter().map(|it| (it.name.clone(), 0)).collect();
            let text = metrics.text(&statistics);
            let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
            written.extend(types.filter_map(|line| line.split(' ').next()).map(str::to_owned));
        }
        assert_eq!(shown, written);
    }

    #[test]
    fn after_a_failure_the_file_says_so_and_else_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.prom");
        let mut metrics = start(file.clone()).unwrap();
        metrics.add_ejection(Some(&waiter()));
        drop(metrics);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("flsched_last_waiter{task=\"sh\",pid=\"7\",uid=\"1000\"} 1\n"), "{text}");
        assert!(text.contains("scope=\"machine\"} 0\n") && text.contains("ejections_total 1\n"), "{text}");
        start(file.clone()).unwrap().remove();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn an_unusable_file_is_an_error_with_its_remedy() {
        for file in ["/no/such/folder/x.prom", "/dev/null", "/"] {
            let error = format!("{:#}", start(file.into()).err().expect("an error"));
            assert!(error.contains(file) && error.contains("ReadWritePaths="), "{error}");
        }
    }

    #[test]
    fn later_a_failure_is_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        let mut metrics = start(inside.join("x.prom")).unwrap();
        std::fs::remove_dir_all(&inside).unwrap();
        metrics.due = Instant::now();
        metrics.tick(None);
        assert!(metrics.is_failing);
        std::fs::create_dir(&inside).unwrap();
        metrics.due = Instant::now();
        metrics.tick(None);
        assert!(!metrics.is_failing);
    }
}
