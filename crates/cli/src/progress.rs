//! What happens, on standard error: a line that moves on a terminal, lines that stay elsewhere.
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A spinner or, once the length is known, a bar.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
    interactive: bool,
}

impl Progress {
    pub fn start() -> Self {
        let interactive = console::user_attended_stderr();
        let target = if interactive { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("a valid template"));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar, interactive }
    }

    /// Prints the current activity.
    pub fn report(&self, line: &str) {
        if self.interactive {
            self.bar.set_message(line.to_owned());
        } else {
            eprintln!("{line}");
        }
    }

    /// Shows the current activity, only on a terminal.
    pub fn show(&self, line: &str) {
        self.bar.set_message(line.to_owned());
    }

    /// Counts this number of steps from now on.
    pub fn steps(&self, of: u64) {
        let template = "{wide_bar} {pos}/{len}  {eta} left\n{msg}";
        self.bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
        self.bar.set_length(of);
        self.bar.reset_eta();
    }

    /// So many are done.
    pub fn done(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// A line that stays.
    pub fn keep(&self, line: &str) {
        if self.interactive {
            self.bar.println(line);
        } else {
            eprintln!("{line}");
        }
    }

    /// The terminal as it was.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
