//! `flsched apps`: the catalogue of applications, and whether this machine has them.
use crate::args;
use anyhow::Result;
use flsched_compare::workload::app::missing;
use flsched_spec::app::{AppFile, Parameter, Values};
use std::io::{self, Write};

pub fn run(args: &args::Apps) -> Result<u8> {
    let apps: Vec<&AppFile> = match &args.name {
        Some(name) => vec![AppFile::find(name)?],
        None => AppFile::all().iter().collect(),
    };
    let mut out = io::stdout().lock();
    if args.json {
        let apps: Vec<_> = apps.into_iter().map(json).collect();
        let report = serde_json::json!({ "version": 1, "apps": apps });
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        return Ok(0);
    }
    for app in apps {
        print(app, &mut out)?;
    }
    Ok(0)
}

fn print(app: &AppFile, out: &mut impl Write) -> io::Result<()> {
    let state = match missing(app) {
        None => "installed".to_owned(),
        Some(missing) => format!("not installed: apt-get install {}", missing.packages),
    };
    writeln!(out, "{}\n    {}", app.form, app.what)?;
    for parameter in &app.parameters {
        writeln!(out, "    {}: {}; {}", parameter.name, parameter.what, values(parameter))?;
    }
    writeln!(out, "    {state}")
}

fn values(parameter: &Parameter) -> String {
    match &parameter.values {
        Values::PerCpu { per_cpu, to } => format!("1 to {to}, by default {per_cpu} for each CPU"),
        Values::Number { default, to } => format!("1 to {to}, by default {default}"),
        Values::Choice { choices } => choices.join(" or "),
    }
}

fn json(app: &AppFile) -> serde_json::Value {
    let missing = missing(app);
    serde_json::json!({
        "name": app.name,
        "form": app.form,
        "what": app.what,
        "source": app.source,
        "licence": app.licence,
        "packages": app.packages,
        "installed": missing.is_none(),
        "missing": missing.map(|it| it.what),
    })
}
