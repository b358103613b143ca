//! `flsched-manual FOLDER`: writes the manual pages and the completions of bash, zsh and fish, for packages and
//! `make install`.
mod page;

use anyhow::{Context, Result};
use clap::{Command, Parser};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write flsched's manual pages and shell completions
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Folder to write to: man/flsched.1, …, completions/flsched.bash, completions/_flsched, completions/flsched.fish
    folder: PathBuf,
}

fn main() -> ExitCode {
    match write(&flsched_cli::documented(), &Cli::parse().folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flsched-manual: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn write(command: &Command, folder: &Path) -> Result<()> {
    let (pages, completions) = (folder.join("man"), folder.join("completions"));
    for folder in [&pages, &completions] {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    for (name, text) in page::all(command) {
        let path = pages.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command.clone(), "flsched", &completions)
            .with_context(|| format!("cannot write {}", completions.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_every_shell_its_completion() {
        let folder = tempfile::tempdir().unwrap();
        let command = flsched_cli::documented();
        write(&command, folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let commands: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        assert!(commands.contains(&"compare") && !commands.contains(&"measure-agent"), "{commands:?}");
        for name in commands {
            let page = read(&format!("man/flsched-{name}.1"));
            assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH \"SEE ALSO\""), "{page}");
            for completion in ["flsched.bash", "_flsched", "flsched.fish"] {
                assert!(read(&format!("completions/{completion}")).contains(name), "{completion}: {name}");
            }
        }
        assert!(read("man/flsched-attach-flsched.1").contains("slice"));
        assert!(read("completions/flsched.bash").contains("--slice-us"));
    }
}
