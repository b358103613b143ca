//! `flsched top`: a [`Moment`] is what is read from the kernel, a [`View`] what happened between two of them, in words and
//! numbers; a view is shown as a line, as JSON, or on the whole terminal (with the feature `top`).
#[cfg(feature = "top")]
mod draw;
mod history;
mod line;
#[cfg(feature = "top")]
mod screen;
mod source;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub use line::line;
#[cfg(feature = "top")]
pub use screen::show;
pub use source::Source;
pub use view::View;
