//! What is published: reports of `flsched compare`, `flsched-lab locks` and `flsched-lab costs`, committed under `results/`.
//!
//! [`sets`] defines what is measured, [`measure`] does it, [`store`] reads the reports, and [`render`] puts
//! [`blocks`] made of them between [`markers`] in the documentation. No figure there is typed in. [`site`] makes pages of
//! all of it. [`mod@format`] keeps the files small and in one form. [`papers`] runs the experiments of the papers and judges
//! their claims. [`program`] is the `flsched` that measures. [`robustness`] is what `./test.sh robustness` runs and allows.
#[macro_use(eprintln)]
extern crate flsched_base;

pub mod blocks;
pub mod command;
mod expand;
pub mod floor;
pub mod format;
pub mod job;
pub mod markers;
pub mod measure;
pub mod overhead;
pub mod papers;
pub mod patched;
pub mod program;
pub mod project;
pub mod render;
pub mod robustness;
pub mod sets;
pub mod site;
pub mod store;
pub mod sweeps;
mod view;
