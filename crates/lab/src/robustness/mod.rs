//! The test of robustness: what `./test.sh robustness` runs, reports and allows.
//!
//! - [`loads`]: the loads of `loads.toml`, most of them stressors of stress-ng
//! - [`report`]: what was measured, as published under `results/`
//! - [`judge`]: what in a report is a fault
//! - [`known`]: the faults of `known.toml`, each with its reason
pub mod judge;
pub mod known;
pub mod loads;
pub mod report;
