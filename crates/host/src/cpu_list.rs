//! Lists of CPUs, as the kernel writes them.

/// The numbers in a list of sysfs, which has commas, as in `0-2,5`, or spaces, as in `0 1 2 5`. An empty text has no
/// numbers. `None`: the text is not a list.
pub fn read_cpu_list(text: &str) -> Option<Vec<usize>> {
    let commas = text.split_whitespace().collect::<Vec<_>>().join(",");
    if commas.is_empty() {
        return Some(Vec::new());
    }
    scx_utils::read_cpulist(&commas).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_commas_and_spaces() {
        for (text, cpus) in
            [("0-3,8\n", vec![0, 1, 2, 3, 8]), ("0 1 2 5", vec![0, 1, 2, 5]), ("7", vec![7]), ("\n", vec![])]
        {
            assert_eq!(read_cpu_list(text), Some(cpus), "{text}");
        }
        for bad in ["x", "0-", "1,,2"] {
            assert_eq!(read_cpu_list(bad), None, "{bad}");
        }
    }
}
