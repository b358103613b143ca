//! The report for the user: a table for the terminal, a page for the browser, advice in five lines.
pub mod advice;
mod chart;
pub mod html;
pub mod table;
mod why;
pub mod words;
