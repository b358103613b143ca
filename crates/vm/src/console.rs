//! What the guest's kernel printed on its serial console.
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// How the kernel's panic message begins.
const PANIC: &str = "Kernel panic - not syncing";

/// The most bytes of a log that are read.
const TEXT_LIMIT: u64 = 4 << 20;

/// The file that QEMU writes, watched as it grows.
pub(crate) struct Console {
    file: PathBuf,
    /// What has been searched already.
    seen: u64,
    panic: Option<String>,
}

impl Console {
    pub fn new(file: PathBuf) -> Self {
        Self { file, seen: 0, panic: None }
    }

    /// The kernel's reason to panic, if it has one; cheap as long as nothing is printed.
    pub fn panic(&mut self) -> Option<String> {
        if self.panic.is_none() {
            // Only whole lines count as seen: the rest of a line may still come.
            let text = self.read_from(self.seen);
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            self.seen += whole as u64;
            self.panic = text[..whole].lines().find_map(reason);
        }
        self.panic.clone()
    }

    pub fn text(&self) -> String {
        self.read_from(0)
    }

    fn read_from(&self, place: u64) -> String {
        let read = || {
            let mut file = File::open(&self.file)?;
            let mut bytes = Vec::new();
            if file.metadata()?.len() > place {
                file.seek(SeekFrom::Start(place))?;
                file.take(TEXT_LIMIT).read_to_end(&mut bytes)?;
            }
            // Byte for byte, so that places in the text are places in the file.
            Ok::<_, std::io::Error>(
                bytes.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect(),
            )
        };
        read().unwrap_or_default()
    }
}

/// The first reason counts.
fn reason(line: &str) -> Option<String> {
    Some(line[line.find(PANIC)?..].trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_panic_is_found_when_its_line_is_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut console = Console::new(file.path().into());
        assert_eq!(console.panic(), None);
        file.write_all(b"[    1.0] fine \xff\r\n[    2.0] Kernel panic - not").unwrap();
        assert_eq!(console.panic(), None);
        file.write_all(b" syncing: sysrq triggered crash\r\n").unwrap();
        let expected = "Kernel panic - not syncing: sysrq triggered crash";
        assert_eq!(console.panic().as_deref(), Some(expected));
        file.write_all(b"Kernel panic - not syncing: another\n").unwrap();
        assert_eq!(console.panic().as_deref(), Some(expected));
        assert!(console.text().ends_with("another\n"));
    }
}
