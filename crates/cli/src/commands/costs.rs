//! `flsched costs -- CMD`: calls and times of the scheduler's functions, the default scheduler beside
//! a policy.
use crate::args::Overhead;
use crate::overhead;
use anyhow::Result;
use flsched_probes::{costs, render_costs};

pub fn run(args: &Overhead) -> Result<u8> {
    overhead::measure(args, costs, render_costs)
}
