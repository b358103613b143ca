//! What can be rendered between two markers. Each kind has a module; to add one, put it into [`KINDS`].
mod conformance;
mod figure;
mod growth;
mod knobs;
mod losses;
mod overhead;
mod page;
mod papers;
mod picture;
mod recordings;
mod robustness;
mod set;
mod sweep;
mod table;
mod timeline;
mod words;

pub(crate) use picture::relative;

use crate::markers::Request;
use crate::sets::Sets;
use crate::store::Store;
use crate::view::{Selection, View};
use flsched_spec::UsageError;
use std::path::{Path, PathBuf};

/// What the documentation is about, unless a marker has `subject=…`.
pub const SUBJECT: &str = "flsched";

/// The reports and settings that blocks are made from.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub store: &'a Store,
    /// What the reports are of.
    pub sets: &'a Sets,
    /// The document, under the project's folder.
    pub document: &'a Path,
}

/// What is put there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Between the markers.
    pub text: String,
    /// Files beside.
    pub pictures: Vec<Picture>,
}

/// A picture that a block shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Under the project's folder.
    pub path: PathBuf,
    pub svg: String,
}

/// A kind of block.
pub struct Kind {
    /// As the marker names it.
    pub name: &'static str,
    /// Parameters that it takes.
    pub keys: &'static [&'static str],
    /// It is within a line of text.
    pub inline: bool,
    render: fn(&Context<'_>, &Request) -> Result<Rendered, String>,
}

pub const KINDS: [Kind; 20] = [
    Kind {
        name: "table",
        keys: &["file", "workloads", "schedulers", "subject", "floor"],
        inline: false,
        render: table::render,
    },
    Kind {
        name: "picture",
        keys: &["file", "out", "workloads", "schedulers", "subject", "floor"],
        inline: false,
        render: picture::render,
    },
    Kind { name: "timeline", keys: &["file", "workload", "out"], inline: false, render: timeline::render },
    Kind { name: "losses", keys: &["sets", "subject"], inline: false, render: losses::render },
    Kind { name: "set", keys: &["name", "level", "pictures", "subject"], inline: false, render: set::render },
    Kind { name: "growth", keys: &["name", "schedulers"], inline: false, render: growth::render },
    Kind {
        name: "locks",
        keys: &["file", "show", "scheduler", "most"],
        inline: false,
        render: overhead::locks,
    },
    Kind { name: "costs", keys: &["file", "show"], inline: false, render: overhead::costs },
    Kind { name: "papers", keys: &["paper", "show", "level"], inline: false, render: papers::render },
    Kind { name: "conformance", keys: &["file", "show"], inline: false, render: conformance::render },
    Kind { name: "sweep", keys: &["file", "out"], inline: false, render: sweep::render },
    Kind { name: "ahead", keys: &["file", "scheduler", "over"], inline: true, render: sweep::ahead },
    Kind { name: "recordings", keys: &["file"], inline: false, render: recordings::render },
    Kind { name: "robustness", keys: &["file", "show"], inline: false, render: robustness::render },
    Kind { name: "page", keys: &["name"], inline: true, render: page::render },
    Kind { name: "knobs", keys: &[], inline: false, render: knobs::render },
    Kind {
        name: "ratio",
        keys: &["file", "workload", "scheduler", "over"],
        inline: true,
        render: figure::ratio,
    },
    Kind { name: "time", keys: &["file", "workload", "scheduler"], inline: true, render: figure::time },
    Kind {
        name: "switches",
        keys: &["file", "workload", "scheduler"],
        inline: true,
        render: figure::switches,
    },
    Kind {
        name: "figure",
        keys: &["file", "workload", "scheduler", "name"],
        inline: true,
        render: figure::own,
    },
];

/// The kind of block that is asked for.
pub fn kind(request: &Request) -> Result<&'static Kind, UsageError> {
    let names: Vec<String> = KINDS.iter().map(|kind| kind.name.to_string()).collect();
    let kind = KINDS.iter().find(|kind| kind.name == request.kind);
    let kind = kind.ok_or_else(|| UsageError::unknown("kind of block", &request.kind, &names))?;
    let keys: Vec<String> = kind.keys.iter().map(|key| key.to_string()).collect();
    match request.keys().find(|key| !kind.keys.contains(key)) {
        Some(key) => Err(UsageError::unknown(&format!("parameter of {}", kind.name), key, &keys)),
        None => Ok(kind),
    }
}

/// The text between the markers, with the line breaks around it.
pub fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let kind = kind(request).map_err(|error| error.to_string())?;
    let mut rendered = (kind.render)(context, request)?;
    if !kind.inline {
        rendered.text = format!("\n{}\n", rendered.text.trim_end());
    }
    Ok(rendered)
}

/// A parameter that the marker must have.
fn required<'a>(request: &'a Request, key: &str) -> Result<&'a str, String> {
    request.required(key).map_err(|error| error.to_string())
}

/// What most kinds show.
fn view(context: &Context<'_>, request: &Request) -> Result<View, String> {
    required(request, "file")?;
    let selection = Selection {
        files: request.list("file").unwrap_or_default(),
        workloads: request.list("workloads").unwrap_or_default(),
        schedulers: request.list("schedulers").unwrap_or_default(),
        floor: request.get("floor"),
        subject: request.get("subject").unwrap_or(SUBJECT),
    };
    let view = View::new(context.store, context.sets, &selection)?;
    match (view.subject, request.get("subject")) {
        (None, Some(subject)) => Err(UsageError::unknown("scheduler", subject, &view.schedulers).to_string()),
        _ => Ok(view),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_kinds_and_parameters_get_a_hint() {
        let error = |text| kind(&Request::parse(text).unwrap()).map(|_| ()).unwrap_err().to_string();
        assert!(error("tabel file=a").contains("did you mean `table`?"));
        assert!(error("table fiel=a").contains("parameter of table `fiel`; did you mean `file`?"));
    }
}
