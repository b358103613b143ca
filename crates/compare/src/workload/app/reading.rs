//! What an application's output says: figures, its own time, and whether the result is right.
use flsched_spec::app::{AppFile, Check};
use regex::Regex;

/// What was read from an output that is right.
#[derive(Debug, PartialEq)]
pub(super) struct Reading {
    /// Its own time, if the catalogue names its line.
    pub time_s: Option<f64>,
    pub figures: Vec<(String, f64)>,
}

/// Reads the output of a run; the error says what is wrong with it.
pub(super) fn read(app: &AppFile, output: &str) -> Result<Reading, String> {
    app.checks.iter().try_for_each(|check| examine(check, output))?;
    let time_s = app.time.as_ref().map(|pattern| number("its time", pattern, output)).transpose()?;
    let figure = |(name, pattern): (&String, &String)| Ok((name.clone(), number(name, pattern, output)?));
    Ok(Reading { time_s, figures: app.figures.iter().map(figure).collect::<Result<_, String>>()? })
}

fn examine(check: &Check, output: &str) -> Result<(), String> {
    let what = &check.what;
    if last(&check.line, output)?.is_none() {
        return Err(format!("wrong result: {what}: no line of the output is like `{}`", check.line));
    }
    if check.from.is_none() && check.to.is_none() {
        return Ok(());
    }
    let value = number(what, &check.line, output)?;
    let (from, to) = (check.from.unwrap_or(f64::NEG_INFINITY), check.to.unwrap_or(f64::INFINITY));
    // A comparison with NaN is false.
    match (from..=to).contains(&value) {
        true => Ok(()),
        false => Err(format!("wrong result: {what} is {value}, not from {from} to {to}")),
    }
}

/// The number in the first group of the last line of this pattern.
fn number(what: &str, pattern: &str, output: &str) -> Result<f64, String> {
    let other = "does this version of the program print something else?";
    let text = last(pattern, output)?
        .ok_or_else(|| format!("no line of the output has {what}, as in `{pattern}`; {other}"))?;
    text.parse().map_err(|_| format!("{what} is `{text}`, which is no number; {other}"))
}

/// The first group, or the whole, of the last match.
fn last(pattern: &str, output: &str) -> Result<Option<String>, String> {
    let regex = Regex::new(&format!("(?m){pattern}")).map_err(|error| error.to_string())?;
    let found = regex.captures_iter(output).last();
    Ok(found.and_then(|it| it.get(1).or(it.get(0)).map(|text| text.as_str().to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> AppFile {
        AppFile::parse(
            "some",
            "what = ''\nsource = ''\nlicence = ''\npackages = []\nprograms = []\nrun = ''\n\
             time = '^took (\\S+) s'\n\
             [figures]\nper_s = '^rate: (.*)$'\n\
             [[checks]]\nwhat = 'the sum'\nline = '^sum (\\S+)$'\nfrom = 1.0\nto = 2.0\n",
        )
        .unwrap()
    }

    #[test]
    fn a_right_result_has_its_figures() {
        let reading = read(&app(), "sum 9\nsum 1.5\ntook 0.25 s\nrate: 1e3\n").unwrap();
        assert_eq!(reading, Reading { time_s: Some(0.25), figures: vec![("per_s".into(), 1000.0)] });
    }

    #[test]
    fn a_wrong_result_is_no_result() {
        let error = |output: &str| read(&app(), output).unwrap_err();
        assert_eq!(error("sum 2.5\ntook 1 s\nrate: 1\n"), "wrong result: the sum is 2.5, not from 1 to 2");
        assert!(error("sum nan\ntook 1 s\nrate: 1\n").starts_with("wrong result: the sum is NaN"));
        assert!(error("took 1 s\nrate: 1\n").starts_with("wrong result: the sum: no line"));
    }

    #[test]
    fn an_output_of_another_version_is_named() {
        let error = read(&app(), "sum 1\ntook 1 s\n").unwrap_err();
        assert!(error.starts_with("no line of the output has per_s, as in `^rate: (.*)$`"), "{error}");
        let error = read(&app(), "sum 1\ntook 1 s\nrate: fast\n").unwrap_err();
        assert!(error.starts_with("per_s is `fast`, which is no number"), "{error}");
    }

    #[test]
    fn every_pattern_of_the_catalogue_is_valid() {
        for app in AppFile::all() {
            let checked = app.checks.iter().filter(|it| it.from.or(it.to).is_some()).map(|it| &it.line);
            for pattern in app.time.iter().chain(app.figures.values()).chain(checked) {
                let regex = Regex::new(pattern).unwrap_or_else(|error| panic!("{}: {error}", app.name));
                assert!(regex.captures_len() > 1, "{}: `{pattern}` has no group", app.name);
            }
            app.checks.iter().for_each(|it| drop(Regex::new(&it.line).unwrap()));
        }
    }
}
