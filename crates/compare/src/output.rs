//! Where a report goes. It is written as runs end, so that an interrupted comparison loses
//! nothing, and each time as a whole, so that a reader never gets half a report.
use crate::report::html;
use crate::result::Report;
use flsched_base::files::{check, replace};
use flsched_base::reports;
use flsched_recording::timeline::packed_trace;
use std::io;
use std::path::{Path, PathBuf};

/// The files a comparison writes.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// The report as data.
    pub json: Option<PathBuf>,
    /// The report as a page.
    pub html: Option<PathBuf>,
}

/// A report that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct OutputError {
    path: PathBuf,
    source: io::Error,
}

impl Outputs {
    /// Whether nothing is written.
    pub fn is_none(&self) -> bool {
        self.json.is_none() && self.html.is_none()
    }

    /// Whether the files can be written, before anything is started for them.
    pub fn check(&self) -> Result<(), OutputError> {
        let mut paths = self.json.iter().chain(&self.html);
        paths.try_for_each(|path| check(path).map_err(named(path)))
    }

    /// Writes the files that were requested.
    pub fn write(&self, report: &Report) -> Result<(), OutputError> {
        if let Some(path) = &self.json {
            reports::bytes(report).and_then(|bytes| replace(path, &bytes)).map_err(named(path))?;
        }
        if let Some(path) = &self.html {
            let common = path.file_stem().unwrap_or_default().to_string_lossy();
            for result in &report.results {
                let Some(timeline) = &result.timeline else { continue };
                let trace = path.with_file_name(html::trace_name(&common, result));
                let title = format!("{} on {}", result.scheduler, result.workload);
                packed_trace(timeline, &title)
                    .and_then(|packed| replace(&trace, &packed))
                    .map_err(named(&trace))?;
            }
            replace(path, html::page(report, &common).as_bytes()).map_err(named(path))?;
        }
        Ok(())
    }
}

/// Adds the file's name to an error.
fn named(path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    let path = path.to_path_buf();
    move |source| OutputError { path, source }
}
