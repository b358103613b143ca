//! Commands that another program has now.
use crate::args::Moved;
use anyhow::Result;
use flsched_spec::UsageError;

/// Where it went, with the words that the user typed.
pub fn refuse(command: &str, args: &Moved) -> Result<u8> {
    let words = args.words.iter().map(|word| word.to_string_lossy());
    let line = shell_words::join(std::iter::once(command.into()).chain(words));
    Err(UsageError(format!(
        "{command} is a command of flsched-lab, which packages do not have. In a checkout of FLSCHED:\n  \
         cargo build --release --locked -p flsched-lab\n  target/release/flsched-lab {line}"
    ))
    .into())
}
