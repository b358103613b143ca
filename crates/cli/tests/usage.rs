//! What the command says to those who ask for what cannot be; needs neither root nor sched_ext.
use std::process::Command;

fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_flsched")).args(arguments).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn knobs_out_of_range_are_refused_with_range_and_meaning() {
    for (option, value, words) in [
        ("--slice-us", "0", ["1000..=10000000", "longest turn"]),
        ("--slice-us", "10000001", ["1000..=10000000", "longest turn"]),
        ("--max-delay-us", "0", ["1000..=10000000", "longest wait"]),
        ("--max-delay-us", "18446744073709551615", ["1000..=10000000", "longest wait"]),
        ("--reach", "15", ["0..=14", "groups of CPUs"]),
    ] {
        let text = refused(&["attach", "flsched", option, value]);
        for word in words.into_iter().chain([value]) {
            assert!(text.contains(word), "{option} {value} without {word}: {text}");
        }
    }
    let text = refused(&["run", "--policy", "flsched:slice_us=0", "--", "true"]);
    assert!(text.contains("slice_us = 0 is out of range 1000..=10000000"), "{text}");
}

#[test]
fn what_is_no_knob_or_no_number_is_refused() {
    for value in ["-1", "fast", "1e9", "", "18446744073709551616"] {
        let text = refused(&["attach", "flsched", &format!("--slice-us={value}")]);
        assert!(text.contains("--slice-us"), "{value}: {text}");
    }
    assert!(refused(&["attach", "flsched", "--slice", "1000"]).contains("--slice"));
    let text = refused(&["run", "--policy", "flsched:slice=1000", "--", "true"]);
    assert!(text.contains("did you mean slice_us"), "{text}");
    assert!(refused(&["attach", "nosuch"]).contains("valid are flsched"));
}
