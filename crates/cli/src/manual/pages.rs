//! A manual page of each command, and the completions of shells.
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs;
use std::io;
use std::path::Path;

/// Writes them into two folders of this one.
pub fn write(command: &Command, folder: &Path) -> Result<()> {
    let (pages, completions) = (folder.join("man"), folder.join("completions"));
    for folder in [&pages, &completions] {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    for (name, text) in all(command) {
        let path = pages.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command.clone(), "flsched", &completions)
            .with_context(|| format!("cannot write {}", completions.display()))?;
    }
    Ok(())
}

/// File names and texts, of the command and of all below it.
fn all(command: &Command) -> Vec<(String, Vec<u8>)> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let source = format!("{} {}", command.get_name(), command.get_version().unwrap_or_default());
    let mut pages = vec![];
    add(&command, None, &source, &mut pages);
    pages
}

fn add(command: &Command, above: Option<&str>, source: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let text = text(command, above, source).expect("a vector takes all that is written");
    pages.push((format!("{name}.1"), text));
    for below in command.get_subcommands() {
        add(below, Some(name), source, pages);
    }
}

fn text(command: &Command, above: Option<&str>, source: &str) -> io::Result<Vec<u8>> {
    let page = Man::new(command.clone()).source(source).manual("FLSCHED");
    let mut text = vec![];
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::new();
    if let Some(notes) = command.get_after_help() {
        // Its lists keep their lines.
        rest.control("SH", ["NOTES"]).control("nf", []);
        for line in notes.to_string().lines() {
            rest.text([roman(line)]);
        }
        rest.control("fi", []);
    }
    rest.control("SH", ["SEE ALSO"]);
    if let Some(above) = above {
        rest.text([bold(above), roman("(1)")]);
    } else {
        rest.text([roman("The documentation, as in /usr/share/doc/flsched; exit codes are in its docs/reference/exit-codes.md")]);
    }
    rest.to_writer(&mut text)?;
    Ok(text)
}
