//! `timeline`: what ran where, under one scheduler after the other, as SVG.
use super::picture::{out, relative};
use super::words::header;
use super::{Context, Picture, Rendered, required};
use crate::markers::Request;
use crate::view::full_name;
use flsched_compare::Report;
use flsched_recording::timeline::Beside;
use flsched_spec::UsageError;
use std::slice;

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let path = out(request)?;
    let report = context.store.get(required(request, "file")?)?;
    let (workload, beside) = of_workload(&report, required(request, "workload")?)?;
    let what = beside.coloured.word();
    let title = format!("{workload}: a row is a CPU, a colour a {what}, white where the CPU idles");
    let alt = format!("{title}. {}", beside.in_words()).replace(['[', ']'], "");
    let text = format!(
        "![{alt}]({})\n\nRecorded in one more run of each scheduler. {}.",
        relative(context.document, &path).display(),
        header(slice::from_ref(&report)),
    );
    Ok(Rendered { text, pictures: vec![Picture { svg: beside.svg(&title), path }] })
}

fn of_workload<'a>(report: &'a Report, named: &str) -> Result<(&'a String, &'a Beside), String> {
    let found = [named.to_string(), full_name(named)];
    let found = found.iter().find_map(|name| report.timelines.get_key_value(name));
    let names: Vec<String> = report.timelines.keys().cloned().collect();
    match (found, names.is_empty()) {
        (Some(found), _) => Ok(found),
        (None, true) => Err("it has no timelines: measure it with `timeline = true`".into()),
        (None, false) => Err(UsageError::unknown("workload", named, &names).to_string()),
    }
}
