//! The manual pages and the completions of shells, which `flsched-manual` writes.
#[path = "../src/manual/pages.rs"]
mod pages;

use std::fs;

#[test]
fn every_command_has_a_page_and_every_shell_its_completion() {
    let folder = tempfile::tempdir().unwrap();
    let command = flsched_cli::documented();
    pages::write(&command, folder.path()).unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let commands: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
    assert!(commands.contains(&"compare"), "{commands:?}");
    for hidden in ["measure-agent", "locks"] {
        assert!(!commands.contains(&hidden), "{commands:?}");
    }
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
