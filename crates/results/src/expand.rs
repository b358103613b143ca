//! Numbers that grow with the CPUs: `{cpus}`, `{8*cpus}` and `{cpus/4}` in a workload's name.

/// The text with every `{…}` replaced; or what is wrong with it.
pub(crate) fn expand(text: &str, cpus: u32) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) =
            after.split_once('}').ok_or_else(|| format!("`{text}`: `{{` has no closing `}}`"))?;
        let value = quotient(inside, cpus).ok_or_else(|| {
            format!("`{text}`: `{{{inside}}}` is neither `{{cpus}}` nor like `{{8*cpus}}` or `{{cpus/4}}`")
        })?;
        out.push_str(before);
        out.push_str(&value.to_string());
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// A product, divided if need be and rounded up.
fn quotient(text: &str, cpus: u32) -> Option<u64> {
    let (above, below) = text.split_once('/').unwrap_or((text, "1"));
    let below: u64 = below.trim().parse().ok().filter(|below| *below > 0)?;
    Some(product(above, cpus)?.div_ceil(below))
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
        assert_eq!(expanded("libomp:stencil:{4*cpus}:{150*cpus/4}"), "libomp:stencil:64:600");
        assert_eq!(expanded("x:{cpus/5}"), "x:4");
        assert_eq!(expanded("hackbench:process-pipe:{cpus}:{ 2 * 3 }"), "hackbench:process-pipe:16:6");
        assert_eq!(expanded("requests"), "requests");
    }

    #[test]
    fn names_what_it_does_not_understand() {
        assert!(expand("a:{cpus/0}", 4).is_err());
        assert!(expand("a:{cpu}", 4).unwrap_err().contains("`{cpu}` is neither `{cpus}`"));
        assert!(expand("a:{cpus", 4).unwrap_err().contains("no closing"));
        assert!(expand("a:{}", 4).is_err());
        assert!(expand("a:{99999999999*99999999999}", 4).is_err());
    }
}
