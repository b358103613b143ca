//! Command lines of `flsched compare`, as readers can copy them.
use crate::patched;
use crate::sets::Comparison;

/// Characters of a line in the documentation.
const WIDTH: usize = 100;

/// The words after `flsched`, without the files that are written.
pub fn arguments(comparison: &Comparison) -> Vec<String> {
    let settings = &comparison.settings;
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let mut words: Vec<String> = vec!["compare".into()];
    for (option, value) in [
        ("--on", settings.on.clone()),
        ("--machine", settings.machine.clone()),
        ("--arch", settings.arch.map(|arch| arch.to_string())),
        ("--kernel", comparison.kernel.clone()),
        ("--cpus", number(settings.cpus.map(u64::from))),
        ("--topology", settings.topology.clone()),
        ("--memory", settings.memory.clone()),
        ("--clock", settings.clock.clone()),
    ] {
        words.extend(value.map(|value| [option.to_string(), value]).into_iter().flatten());
    }
    for name in &settings.patched {
        words.extend(["--policy".into(), patched::file(name).display().to_string()]);
    }
    for (option, value) in [
        ("--schedulers", Some(settings.schedulers.join(","))),
        ("--runs", number(settings.runs.map(u64::from))),
        ("--seed", number(settings.seed)),
        ("--timeout", number(settings.timeout)),
    ] {
        words.extend(value.map(|value| [option.to_string(), value]).into_iter().flatten());
    }
    words.extend(settings.timeline.then(|| "--timeline".to_string()));
    for workload in &comparison.workloads {
        words.extend(["--workload".into(), workload.clone()]);
    }
    words
}

/// For a shell, on one line.
pub fn line(comparison: &Comparison) -> String {
    line_of(&arguments(comparison))
}

/// These words after `flsched`, for a shell, on one line.
pub fn line_of(words: &[String]) -> String {
    format!("flsched {}", shell_words::join(words))
}

/// A command line from a report, without the program's folder and the files that it wrote.
pub fn published(command_line: &str) -> String {
    let Ok(words) = shell_words::split(command_line) else {
        return command_line.to_string();
    };
    let mut kept = vec!["flsched".to_string()];
    let mut words = words.into_iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" | "--html" => drop(words.next()),
            word if word.starts_with("--json=") || word.starts_with("--html=") => {}
            _ => kept.push(word),
        }
    }
    shell_words::join(kept)
}

/// The same over several lines where it is long; a shell reads it alike.
pub fn wrapped(line: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    // Broken before options only, so that an option stays beside its value.
    for part in parts(line) {
        if column > 0 && column + 1 + part.len() > WIDTH {
            text.push_str(" \\\n  ");
            column = 2;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(&part);
        column += part.len();
    }
    text
}

fn parts(line: &str) -> Vec<String> {
    let Ok(words) = shell_words::split(line) else {
        return vec![line.to_string()];
    };
    let mut parts: Vec<String> = Vec::new();
    for word in words {
        let quoted = shell_words::quote(&word).into_owned();
        match parts.last_mut() {
            Some(last) if !word.starts_with("--") => {
                last.push(' ');
                last.push_str(&quoted);
            }
            _ => parts.push(quoted),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_line_names_no_folder_and_no_file() {
        let typed =
            "target/release/flsched compare --json target/x.json --on vm --html=p.html --workload a:1";
        assert_eq!(published(typed), "flsched compare --on vm --workload a:1");
        assert_eq!(published("not 'closed"), "not 'closed");
    }

    #[test]
    fn long_lines_break_before_options_and_mean_the_same() {
        let line = format!("flsched compare --on vm {}", "--workload 'x y:1' ".repeat(12).trim_end());
        let text = wrapped(&line);
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.len() <= WIDTH + 2), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  --")), "{text}");
        assert_eq!(shell_words::split(&text).unwrap(), shell_words::split(&line).unwrap());
    }
}
