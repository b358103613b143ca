//! `flsched locks -- CMD`: the locks that scheduling takes, the default scheduler beside a policy; and
//! `flsched locks --source`: the places in the kernel's source that take them.
use crate::args::Locks;
use crate::exit::Usage;
use crate::machine;
use crate::overhead;
use crate::progress::Progress;
use crate::signals;
use anyhow::Result;
use flsched_probes::source_locks::FOLDER;
use flsched_probes::{SourceLocks, locks, render_locks, render_source_locks};
use flsched_vm::VmError;
use flsched_vm::kernel::is_series;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub fn run(args: &Locks) -> Result<u8> {
    match &args.source {
        None => overhead::measure(&args.overhead, locks, render_locks),
        Some(source) => {
            let counted = count(source, &signals::stop_flag()?)?;
            let json =
                |it: &SourceLocks| Ok(serde_json::to_vec_pretty(it).map(|it| [it, b"\n".to_vec()].concat())?);
            overhead::print(&counted, args.overhead.json.then_some(json), render_source_locks)?;
            Ok(0)
        }
    }
}

/// The places in the source of a kernel, which is a folder or a series.
pub fn count(source: &str, cancel: &Arc<AtomicBool>) -> Result<SourceLocks> {
    let top = if is_series(source) {
        let progress = Progress::start();
        let found = machine::catalog(&progress, cancel)
            .and_then(|catalog| Ok(catalog.source(source, FOLDER).map_err(VmError::from)?));
        progress.end();
        found?
    } else {
        Some(PathBuf::from(source)).filter(|folder| folder.is_dir()).ok_or_else(|| {
            Usage(format!(
                "--source {source}: there is no such folder; name the top folder of a kernel's source, or a series, such as 7.3"
            ))
        })?
    };
    Ok(SourceLocks::count(&top)?)
}
