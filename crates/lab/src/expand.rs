//! Numbers that grow with the CPUs: `{cpus}` and `{8*cpus}` in a workload's name.

/// The text with every `{…}` replaced; or what is wrong with it.
pub(crate) fn expand(text: &str, cpus: u32) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) =
            after.split_once('}').ok_or_else(|| format!("`{text}`: `{{` has no closing `}}`"))?;
        let value = product(inside, cpus)
            .ok_or_else(|| format!("`{text}`: `{{{inside}}}` is neither `{{cpus}}` nor like `{{8*cpus}}`"))?;
        out.push_str(before);
        out.push_str(&value.to_string());
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Of `cpus` and whole numbers.
fn product(text: &str, cpus: u32) -> Option<u64> {
    let factor = |word: &str| match word.trim() {
        "cpus" => Some(u64::from(cpus)),
        number => number.parse().ok(),
    };
    text.split('*').map(factor).try_fold(1u64, |all, one| all.checked_mul(one?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_products() {
        let expanded = |text| expand(text, 16).unwrap();
        assert_eq!(expanded("libomp:sparse:{8*cpus}"), "libomp:sparse:128");
        assert_eq!(expanded("hackbench:process-pipe:{cpus}:{ 2 * 3 }"), "hackbench:process-pipe:16:6");
        assert_eq!(expanded("requests"), "requests");
    }

    #[test]
    fn names_what_it_does_not_understand() {
        assert!(expand("a:{cpus/2}", 4).is_err());
        assert!(expand("a:{cpu}", 4).unwrap_err().contains("`{cpu}` is neither `{cpus}`"));
        assert!(expand("a:{cpus", 4).unwrap_err().contains("no closing"));
        assert!(expand("a:{}", 4).is_err());
        assert!(expand("a:{99999999999*99999999999}", 4).is_err());
    }
}
