//! What is published: reports of `flsched compare`, `flsched locks` and `flsched costs`, committed under `results/`.
//!
//! [`sets`] defines what is measured, [`measure`] does it, [`store`] reads the reports, and [`render`] puts
//! [`blocks`] made of them between [`markers`] in the documentation. No figure there is typed in. [`mod@format`] keeps the
//! files small and in one form.
pub mod blocks;
pub mod command;
mod expand;
pub mod floor;
pub mod format;
pub mod job;
pub mod markers;
pub mod measure;
pub mod overhead;
pub mod patched;
pub mod render;
pub mod sets;
pub mod store;
pub mod sweeps;
mod view;
