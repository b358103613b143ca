//! `flsched locks -- CMD`: the locks that scheduling takes, the default scheduler beside a policy.
use crate::args::Overhead;
use crate::overhead;
use anyhow::Result;
use flsched_probes::{locks, render_locks};

pub fn run(args: &Overhead) -> Result<u8> {
    overhead::measure(args, locks, render_locks)
}
