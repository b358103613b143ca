//! Lists of CPUs, as the kernel writes them.

/// No kernel has so many CPUs; a list from elsewhere must not fill the memory.
const MOST: usize = 1 << 16;

/// The numbers in a list of sysfs, which has commas, as in `0-2,5`, or spaces, as in `0 1 2 5`. An empty text has no
/// numbers. `None`: the text is not a list.
pub fn read_cpu_list(text: &str) -> Option<Vec<usize>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    let mut numbers = Vec::new();
    for part in text.trim().split([',', ' ']) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST || numbers.len() > MOST {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// The reverse: ascending numbers as the kernel would list them.
pub fn write_cpu_list(numbers: impl IntoIterator<Item = usize>) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if number == *last + 1 => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
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
        for bad in ["x", "0-", "1,,2", "5-3", "-1", "0-99999999999", "0-3:1/2", "+1-x"] {
            assert_eq!(read_cpu_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for text in ["", "7", "0-3,8", "0-5,192-197", "0,2,4"] {
            assert_eq!(write_cpu_list(read_cpu_list(text).unwrap()), text);
        }
    }
}
