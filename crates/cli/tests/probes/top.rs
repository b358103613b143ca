//! `flsched top` on a busy virtual machine: what it reports, and its screen on a pseudo-terminal.
use libtest_mimic::Failed;
use serde_json::Value;
use std::process::{Command, Output};

const FLSCHED: &str = env!("CARGO_BIN_EXE_flsched");
const CPUS: usize = 4;
/// Tasks that compute, besides what is measured.
const HOGS: usize = 12;

/// Takes the terminal's other screen, and gives it back.
#[cfg(feature = "top")]
const TAKEN: &str = "\u{1b}[?1049h";
#[cfg(feature = "top")]
const GIVEN_BACK: &str = "\u{1b}[?1049l";

/// A shell script in the machine, while that many tasks compute under FLSCHED.
fn in_machine(kernel: &str, script: &str) -> Output {
    let hogs = format!("for i in $(seq {HOGS}); do (while :; do :; done) & hogs=\"$hogs $!\"; done");
    let script = format!(
        "{FLSCHED} attach flsched --slice-us 50000 2>/tmp/attach & attached=$!
         until {FLSCHED} status | grep -q '^state *enabled'; do sleep 0.1; done
         {hogs}
         {script}
         kill $hogs; kill $attached; wait $attached"
    );
    Command::new(FLSCHED)
        // Seconds of a busy machine take long on every other clock, and no figure here is of speed.
        .args(["vm", "--kernel", kernel, "--cpus", &CPUS.to_string(), "--clock", "wall", "--timeout", "300"])
        .args(["--include", "/usr/bin/script", "--include", "/usr/bin/stty", "--", "sh", "-c", &script])
        .output()
        .expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Each hog runs or waits. Others may, too: kernel threads, and the shell that started the hogs. Ten tasks that wait have names.
fn hogs_run_or_wait(view: &Value, waiting: usize) {
    let is_hog = |name: &Value| name.as_str().is_some_and(|name| name == "sh" || name.starts_with("sh "));
    let list = |name: &str| view[name].as_array().expect("a list");
    let run = list("cpus").iter().filter(|cpu| is_hog(&cpu["running"])).count();
    let named = list("longest_waits");
    let wait = named.iter().filter(|task| is_hog(&task["name"])).count();
    let unnamed = waiting.checked_sub(named.len()).expect("tasks that wait");
    // One may move between two CPUs while they are read.
    assert!(run + wait <= HOGS + 2 && run + wait + unnamed >= HOGS - 1, "{view:#}");
}

/// One view as JSON, then a line each half second, while the policy is detached.
pub fn report(kernel: &str) -> Result<(), Failed> {
    let output = in_machine(
        kernel,
        &format!(
            "{FLSCHED} top --once --json
             {FLSCHED} top --interval 0.5 >/tmp/lines & lines=$!
             until grep -q turn_ended /tmp/lines; do sleep 0.2; done; kill $attached; wait $attached
             until grep -q ^eevdf /tmp/lines; do sleep 0.2; done; kill $lines; wait $lines; echo code $? >&2
             cat /tmp/lines >&2"
        ),
    );
    let said = text(&output.stderr);
    let view: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {said}"))?;
    assert_eq!(view["scheduler"], concat!("flsched ", env!("CARGO_PKG_VERSION")), "{view:#}");
    assert_eq!(view["settings"], "slice_us=50000", "{view:#}");
    let cpus = view["cpus"].as_array().expect("a list");
    assert_eq!(cpus.len(), CPUS);
    let busy = |cpu: &Value| cpu["busy_percent"].as_f64() > Some(90.0) && cpu["running"].is_string();
    assert!(cpus.iter().all(busy), "{view:#}");
    let waiting = view["waiting"].as_u64().expect("a number") as usize;
    hogs_run_or_wait(&view, waiting);
    let queued: u64 = cpus.iter().map(|cpu| cpu["queued"].as_u64().expect("a number")).sum();
    assert_eq!(queued as usize, waiting, "{view:#}");
    let longest = view["longest_wait_ns"].as_u64().expect("a number");
    assert!((1_000_000..20_000_000_000).contains(&longest), "{view:#}");
    assert_eq!(view["longest_waits"][0]["wait_ns"], longest);
    let counter =
        |name: &str| view["counters"].as_array()?.iter().find(|it| it["name"] == name)?["per_s"].as_f64();
    assert!(counter("turn_ended") > Some(0.0) && counter("background") == Some(0.0), "{view:#}");
    let wake_ups = &view["wake_ups"];
    assert!(
        wake_ups["p50_ns"].as_u64() <= wake_ups["p99_ns"].as_u64() && wake_ups["p50_ns"].is_u64(),
        "{view:#}"
    );

    assert!(said.contains("code 0"), "{said}");
    let (before, after) =
        said.split_once(" detached: flsched ").ok_or_else(|| format!("no event: {said}"))?;
    assert!(
        before.contains("flsched 0.1.0 (slice_us=50000) for ") && before.contains("turn_ended "),
        "{said}"
    );
    assert!(after.contains("\neevdf · 4 CPUs ") && !after.contains("turn_ended"), "{said}");
    Ok(())
}

/// Keys, sizes from 5 to 300 columns, and the ends: `q`, Ctrl-C, and a signal.
#[cfg(feature = "top")]
pub fn screen(kernel: &str) -> Result<(), Failed> {
    // Keys are pressed when the screen is there.
    let on_terminal = |keys: &str, command: &str| {
        format!(
            "rm -f /tmp/screen; (until grep -qsa quit /tmp/screen; do sleep 0.2; done; {keys}) | script -qefc 'stty cols 100 rows 40; echo terminal $(stty -g); {command}; echo code $?; echo terminal $(stty -g)' /tmp/screen; echo END;"
        )
    };
    let top = format!("{FLSCHED} top --interval 0.5");
    // A new size has the whole screen drawn again: otherwise only letters that differ are.
    let sizes = "for columns in 5 300 84; do stty -F /dev/pts/0 cols $columns rows 30; sleep 0.5; done";
    let shows = |word: &str| format!("while {sizes}; do grep -qa {word} /tmp/screen && break; done");
    let keys = format!("printf ts; {}; printf '?'; {}; printf q", shows("most"), shows("Keys"));
    let output = in_machine(
        kernel,
        &[
            on_terminal(&keys, &top),
            on_terminal("printf '\\003'", &top),
            on_terminal("kill $(cat /tmp/pid)", &format!("sh -c \"echo \\$\\$ >/tmp/pid; exec {top}\"")),
        ]
        .concat(),
    );
    let shown = text(&output.stdout);
    let parts: Vec<&str> = shown.split("END").collect();
    assert_eq!(parts.len(), 4, "{shown}\n{}", text(&output.stderr));
    let settings = |text: &str| -> Vec<String> {
        text.lines()
            .filter_map(|line| line.trim_end().split_once("terminal "))
            .map(|it| it.1.to_owned())
            .collect()
    };
    for part in &parts[..3] {
        assert!(part.contains(TAKEN) && part.contains(GIVEN_BACK) && part.contains("code 0"), "{part}");
        let settings = settings(part);
        assert!(settings.len() == 2 && settings[0] == settings[1], "the terminal is as it was: {part}");
    }
    // The cursor jumps over blanks.
    let words: String = console::strip_ansi_codes(parts[0]).split_whitespace().collect();
    for expected in ["4CPUs100%busy", "Tasks,mostCPUtimefirst", "Keysandwords", "longesthowlongthefirst"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    Ok(())
}
