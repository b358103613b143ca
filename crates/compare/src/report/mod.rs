//! The report for the user: a table for the terminal, a page for the browser, advice in five lines. Table and page lay
//! out one view, which has all words and numbers.
pub mod advice;
mod chart;
pub mod html;
pub mod table;
mod view;
mod why;
pub mod words;
