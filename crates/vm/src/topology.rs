//! CPU topologies as code.
use std::fmt;
use std::str::FromStr;

/// QEMU's interrupt controller addresses 255 CPUs unless an IOMMU remaps interrupts, which its
/// emulation of x86 does not do.
pub const MAX_CPUS: u32 = 255;

/// NUMA nodes × sockets in a node × cores in a socket × SMT threads in a core.
///
/// Each socket has a last-level cache of its own, shared by its cores. As text: `2s4c2t`,
/// `2n1s4c2t`, `sockets=2,cores=4,threads=2`, or only a number of CPUs for one flat socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Topology {
    /// NUMA nodes; the memory is split evenly between them.
    pub nodes: u32,
    /// Packages in a node; each has a last-level cache of its own.
    pub sockets: u32,
    /// Cores in a socket.
    pub cores: u32,
    /// Hardware threads in a core.
    pub threads: u32,
}

/// Why there is no machine with such CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// It is not written as topologies are.
    #[error(
        "cannot read the topology `{text}`: {why}; write `2s4c2t` (2 sockets, 4 cores each, 2 threads each), \
         `sockets=2,cores=4,threads=2`, or a number of CPUs"
    )]
    Unreadable {
        /// What the user wrote.
        text: String,
        /// What is wrong there.
        why: String,
    },
    /// A part of it is 0.
    #[error("topology `{topology}`: {part} must be at least 1")]
    Without {
        topology: Topology,
        /// `cores`, for example.
        part: &'static str,
    },
    /// QEMU has no room for so many CPUs.
    #[error("topology `{0}` has {cpus} CPUs; a VM can have at most {MAX_CPUS}", cpus = .0.cpus())]
    TooManyCpus(Topology),
    /// The machine whose memory is modelled has no such part.
    #[error(
        "{cpus} CPUs: {machine} has caches that {cores_per_cache} cores share, {caches_per_node} of them in a node; \
         give at most {cores_per_cache}, a multiple that divides evenly, or --topology"
    )]
    Uneven {
        /// How many are wanted.
        cpus: u32,
        /// The modelled machine's name.
        machine: &'static str,
        /// Of the modelled machine.
        cores_per_cache: u32,
        /// Of the modelled machine.
        caches_per_node: u32,
    },
    /// The model of memory has no room for so many cores or caches.
    #[error(
        "topology `{topology}` has {cores} cores and {caches} last-level caches; the parallel clock's model of memory \
         takes {max_cores} and {max_caches} at most: use fewer, or the clock without memory"
    )]
    BeyondModel {
        topology: Topology,
        /// In all nodes.
        cores: u32,
        /// In all nodes.
        caches: u32,
        /// The model's limit.
        max_cores: u32,
        /// The model's limit.
        max_caches: u32,
    },
}

impl Topology {
    /// One socket of `cpus` single-threaded cores.
    pub fn flat(cpus: u32) -> Self {
        Self { nodes: 1, sockets: 1, cores: cpus, threads: 1 }
    }

    pub fn cpus(&self) -> u32 {
        // Saturating, so that an absurd request is refused by `check` and not by an overflow.
        [self.sockets, self.cores, self.threads].iter().fold(self.nodes, |n, &f| n.saturating_mul(f))
    }

    /// Refuses what QEMU cannot build.
    pub fn check(&self) -> Result<(), TopologyError> {
        if let Some((part, _)) = self.parts().into_iter().find(|(_, count)| *count == 0) {
            return Err(TopologyError::Without { topology: *self, part });
        }
        match self.cpus() {
            1..=MAX_CPUS => Ok(()),
            _ => Err(TopologyError::TooManyCpus(*self)),
        }
    }

    fn parts(&self) -> [(&'static str, u32); 4] {
        [("nodes", self.nodes), ("sockets", self.sockets), ("cores", self.cores), ("threads", self.threads)]
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes != 1 {
            write!(f, "{}n", self.nodes)?;
        }
        write!(f, "{}s{}c{}t", self.sockets, self.cores, self.threads)
    }
}

impl FromStr for Topology {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let text = text.trim();
        let topology = if let Ok(cpus) = text.parse() {
            Self::flat(cpus)
        } else {
            let parts = if text.contains('=') { words(text)? } else { letters(text)? };
            assemble(text, &parts)?
        };
        topology.check()?;
        Ok(topology)
    }
}

fn unreadable(text: &str, why: &str) -> TopologyError {
    TopologyError::Unreadable { text: text.into(), why: why.into() }
}

/// `2s4c2t` → (`s`, 2), (`c`, 4), (`t`, 2).
fn letters(text: &str) -> Result<Vec<(String, u32)>, TopologyError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let count = rest[..end]
            .parse()
            .map_err(|_| unreadable(text, &format!("a number is expected before `{}`", &rest[end..])))?;
        let letter = rest[end..]
            .chars()
            .next()
            .ok_or_else(|| unreadable(text, &format!("a letter is expected after `{}`", &rest[..end])))?;
        parts.push((letter.to_ascii_lowercase().to_string(), count));
        rest = &rest[end + letter.len_utf8()..];
    }
    Ok(parts)
}

/// `sockets=2,cores=4` → (`sockets`, 2), (`cores`, 4).
fn words(text: &str) -> Result<Vec<(String, u32)>, TopologyError> {
    text.split(',')
        .map(|pair| {
            let (name, count) =
                pair.split_once('=').ok_or_else(|| unreadable(text, &format!("`{pair}` has no `=`")))?;
            let count = count
                .trim()
                .parse()
                .map_err(|_| unreadable(text, &format!("`{}` is not a number", count.trim())))?;
            Ok((name.trim().to_ascii_lowercase(), count))
        })
        .collect()
}

/// What is not named is 1.
fn assemble(text: &str, parts: &[(String, u32)]) -> Result<Topology, TopologyError> {
    let mut counts = [None; 4];
    for (name, count) in parts {
        let slot = match name.as_str() {
            "n" | "node" | "nodes" => 0,
            "s" | "socket" | "sockets" => 1,
            "c" | "core" | "cores" => 2,
            "t" | "thread" | "threads" => 3,
            _ => {
                let why = format!("unknown part `{name}` (valid: nodes, sockets, cores, threads)");
                return Err(unreadable(text, &why));
            }
        };
        if counts[slot].replace(*count).is_some() {
            return Err(unreadable(text, &format!("`{name}` appears twice")));
        }
    }
    if parts.is_empty() {
        return Err(unreadable(text, "it is empty"));
    }
    let [nodes, sockets, cores, threads] = counts.map(|count| count.unwrap_or(1));
    Ok(Topology { nodes, sockets, cores, threads })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_spellings() {
        let big = Topology { nodes: 1, sockets: 2, cores: 4, threads: 2 };
        for text in
            ["2s4c2t", "2S4C2T", "4c2t2s", "sockets=2,cores=4,threads=2", "threads=2, sockets=2,cores=4"]
        {
            assert_eq!(text.parse(), Ok(big), "{text}");
        }
        assert_eq!(big.cpus(), 16);
        assert_eq!("8".parse(), Ok(Topology::flat(8)));
        assert_eq!("4c".parse(), Ok(Topology::flat(4)));
        assert_eq!("2n1s4c2t".parse(), Ok(Topology { nodes: 2, sockets: 1, cores: 4, threads: 2 }));
        assert_eq!("nodes=2,cores=4,threads=2".parse::<Topology>().unwrap().cpus(), 16);
    }

    #[test]
    fn writes_what_it_reads() {
        for text in ["2s4c2t", "2n1s4c2t", "1s8c1t"] {
            assert_eq!(text.parse::<Topology>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, word) in [
            ("", "empty"),
            ("0", "at least 1"),
            ("2s0c", "cores must be at least 1"),
            ("256", "at most 255"),
            ("16s16c1t", "at most 255"),
            ("4294967295s4294967295c2t", "at most 255"),
            ("2x", "unknown part `x`"),
            ("2s2s", "twice"),
            ("s2", "a number is expected"),
            ("2s4", "a letter is expected"),
            ("sockets=two", "`two` is not a number"),
            ("sockets=2,4", "no `=`"),
            ("-4", "a number is expected"),
        ] {
            let error = text.parse::<Topology>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
