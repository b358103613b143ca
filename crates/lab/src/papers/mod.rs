//! What the papers report, beside what is measured here: every table, figure and number that is a claim.
//!
//! [`paper`] reads `results/papers/*.toml`: rows with the paper's figures or their [`order`], the commands that are run,
//! and the [`reading`]s that take figures from the [`results`]. [`mod@assess`] applies the rules of [`verdict`], [`page`] shows
//! it, and [`plan`] lists what remains to be run. `flsched-lab reproduce` [`run`]s it; `flsched-lab render` puts the page
//! into the documentation.
pub mod assess;
pub mod order;
pub mod page;
pub mod paper;
pub mod plan;
pub mod reading;
pub mod results;
pub mod run;
pub mod text;
pub mod verdict;
