//! The kernel's symbols: `/proc/kallsyms`.
use crate::Error;
use std::collections::HashMap;
use std::ops::Range;

/// Addresses by name, and names by address.
pub(crate) struct Symbols {
    by_address: Vec<(u64, String)>,
    by_name: HashMap<String, u64>,
}

impl Symbols {
    pub(crate) fn of_this_kernel() -> Result<Self, Error> {
        let symbols = Self::parse(&std::fs::read_to_string("/proc/kallsyms")?);
        if symbols.by_address.is_empty() { Err(Error::NoSymbols) } else { Ok(symbols) }
    }

    fn parse(text: &str) -> Self {
        let mut by_address: Vec<(u64, String)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let name = words.nth(1)?;
                // No code runs in the padding before a function.
                (address != 0 && !name.starts_with("__pfx_")).then(|| (address, name.to_owned()))
            })
            .collect();
        by_address.sort();
        let by_name = by_address.iter().rev().map(|(address, name)| (name.clone(), *address)).collect();
        Self { by_address, by_name }
    }

    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }

    /// The symbol that contains an address: name and offset.
    pub(crate) fn at(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.by_address.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.by_address.get(after.checked_sub(1)?)?;
        // Before 6.15 per-CPU variables have addresses from 0 on. All memory without a symbol comes after their end.
        (name != "__per_cpu_end").then(|| (name.as_str(), address - start))
    }

    /// The addresses of a function's text.
    pub(crate) fn text_of(&self, name: &str) -> Option<Range<u64>> {
        let start = self.address(name)?;
        let after = self.by_address.partition_point(|(address, _)| *address <= start);
        Some(start..self.by_address.get(after)?.0)
    }

    /// The name that the compiler gave a function: its own, or a clone's as in `f.isra.0`.
    pub(crate) fn compiled(&self, function: &str) -> Option<String> {
        if self.by_name.contains_key(function) {
            return Some(function.to_owned());
        }
        let clone = |name: &&String| {
            name.strip_prefix(function)
                .is_some_and(|rest| rest.starts_with(".isra") || rest.starts_with(".constprop"))
        };
        self.by_name.keys().filter(clone).min().cloned()
    }

    /// The functions by which the kernel takes spin and rw locks; they have a text section of their own.
    pub(crate) fn lock_functions(&self) -> Vec<String> {
        let (Some(start), Some(end)) = (self.address("__lock_text_start"), self.address("__lock_text_end"))
        else {
            return Vec::new();
        };
        let takes =
            |name: &str| name.starts_with("_raw_") && name.contains("lock") && !name.contains("unlock");
        self.by_address
            .iter()
            .filter(|(address, name)| (start..end).contains(address) && takes(name))
            .map(|(_, name)| name.clone())
            .collect()
    }

    /// Whether this address is in the code that waits for locks.
    pub(crate) fn is_lock_text(&self, address: u64) -> bool {
        let bound = |name| self.address(name).unwrap_or(0);
        (bound("__lock_text_start")..bound("__lock_text_end")).contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000000 T _text
ffffffff81000100 t __pfx_enqueue
ffffffff81000110 t enqueue
ffffffff81000200 t pick.isra.0
ffffffff81000300 T __lock_text_start
ffffffff81000300 T _raw_spin_lock
ffffffff81000340 T _raw_spin_unlock
ffffffff81000380 T __lock_text_end
0000000000000000 T hidden
0000000000001000 D runqueues
0000000000036000 D __per_cpu_end
ffffffffc0000000 t foreign\t[module]
";

    #[test]
    fn finds_both_ways() {
        let symbols = Symbols::parse(TEXT);
        assert_eq!(symbols.address("enqueue"), Some(0xffffffff81000110));
        assert_eq!(symbols.at(0xffffffff81000118), Some(("enqueue", 8)));
        assert_eq!(symbols.text_of("enqueue"), Some(0xffffffff81000110..0xffffffff81000200));
        assert_eq!(symbols.compiled("pick").as_deref(), Some("pick.isra.0"));
        assert_eq!(symbols.compiled("pic"), None);
        assert_eq!(symbols.lock_functions(), ["_raw_spin_lock"]);
        assert_eq!(symbols.at(5), None);
        assert_eq!(symbols.at(0x1008), Some(("runqueues", 8)));
        assert_eq!(symbols.at(0xffff888100000000), None, "memory without a symbol");
        assert_eq!(symbols.address("hidden"), None);
    }
}
