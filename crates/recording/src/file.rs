//! The file: a line of JSON, then, compressed, the tasks as a line of JSON and the events as bytes. The sum that ends the
//! compressed part shows whether the file is whole.
use crate::coding::{put, put_signed, take, take_signed};
use crate::{By, Calls, Error, Event, Header, Left, Ns, Recording, Task, What};
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// With which the file begins.
const MAGIC: &[u8] = b"{\"flsched_recording\":";
/// The format that is written.
const FORMAT: u64 = 3;
/// A longer first line is none of ours.
const LONGEST_HEADER: u64 = 16 << 20;
/// The longest recording: about 11 days. Sums of many times do not overflow.
const MOST_NS: Ns = 1_000_000_000_000_000;

#[derive(Serialize, Deserialize)]
struct Line {
    flsched_recording: u64,
    #[serde(flatten)]
    header: Header,
}

/// Only the format, whatever else is in the line.
#[derive(Deserialize)]
struct Version {
    flsched_recording: u64,
}

/// Whether a file begins like a recording.
pub fn is_recording(begin: &[u8]) -> bool {
    begin.starts_with(MAGIC)
}

impl Recording {
    /// Writes the file's content.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let line = Line { flsched_recording: FORMAT, header: self.header.clone() };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
        let mut packed = GzEncoder::new(out, Compression::fast());
        serde_json::to_writer(&mut packed, &self.tasks)?;
        packed.write_all(b"\n")?;
        let mut bytes = Vec::new();
        put(&mut bytes, self.events.len() as u64);
        let mut last = 0;
        for event in &self.events {
            put_event(&mut bytes, event, last);
            last = event.at;
            if bytes.len() > 1 << 16 {
                packed.write_all(&bytes)?;
                bytes.clear();
            }
        }
        packed.write_all(&bytes)?;
        packed.finish()?;
        Ok(())
    }

    /// Reads a file; its path is for messages, too.
    pub fn read(path: &str) -> Result<Self, Error> {
        Self::read_from(open(path)?, path)
    }

    /// The same from what the file contains. `path` is named in errors.
    pub fn read_from(content: impl BufRead, path: &str) -> Result<Self, Error> {
        let (header, mut rest) = begin(content, path)?;
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        let mut bytes = Vec::new();
        GzDecoder::new(&mut rest).read_to_end(&mut bytes).map_err(|cause| damaged(cause.to_string()))?;
        if rest.read(&mut [0]).is_ok_and(|read| read > 0) {
            return Err(damaged("there is more behind its end".into()));
        }
        let line = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
        let tasks: Vec<Task> =
            serde_json::from_slice(&bytes[..line]).map_err(|error| damaged(format!("its tasks: {error}")))?;
        let mut bytes = bytes.get(line + 1..).unwrap_or_default();
        let count = take(&mut bytes).ok_or_else(|| damaged("it has no events".into()))?;
        let mut last = 0;
        let mut events = Vec::with_capacity(count.min(bytes.len() as u64) as usize);
        for number in 0..count {
            let event = take_event(&mut bytes, last)
                .filter(|event| is_sound(event, header.cpus.len(), tasks.len()))
                .ok_or_else(|| damaged(format!("event {number} of {count}")))?;
            last = event.at;
            events.push(event);
        }
        Ok(Self { header, tasks, events })
    }
}

impl Header {
    /// Reads the first line only.
    pub fn read(path: &str) -> Result<Self, Error> {
        begin(open(path)?, path).map(|(header, _)| header)
    }
}

fn open(path: &str) -> Result<impl BufRead + use<>, Error> {
    let failed = |cause| Error::File { path: path.to_owned(), cause };
    Ok(io::BufReader::new(std::fs::File::open(path).map_err(failed)?))
}

fn begin<R: BufRead>(mut file: R, path: &str) -> Result<(Header, R), Error> {
    let failed = |cause| Error::File { path: path.to_owned(), cause };
    let mut line = Vec::new();
    file.by_ref().take(LONGEST_HEADER).read_until(b'\n', &mut line).map_err(failed)?;
    if !is_recording(&line) {
        return Err(Error::Foreign { path: path.to_owned() });
    }
    let damaged = |error| Error::Damaged { path: path.to_owned(), what: format!("its first line: {error}") };
    let version: Version = serde_json::from_slice(&line).map_err(damaged)?;
    if version.flsched_recording != FORMAT {
        let (found, known) = (version.flsched_recording, FORMAT);
        return Err(Error::Version { path: path.to_owned(), found, known });
    }
    let line: Line = serde_json::from_slice(&line).map_err(damaged)?;
    let (cpus, length) = (line.header.cpus.len(), line.header.length);
    if cpus == 0 || length > MOST_NS {
        let what = format!("its first line: {cpus} CPUs, {length} ns");
        return Err(Error::Damaged { path: path.to_owned(), what });
    }
    Ok((line.header, file))
}

/// A task is stored as its number from 1; 0 is the idle task.
fn put_event(out: &mut Vec<u8>, event: &Event, last: Ns) {
    let idle_or = |task: Option<u32>| task.map_or(0, |task| u64::from(task) + 1);
    let (kind, first, rest) = match event.what {
        What::Switch { prev, left, next, calls } => {
            let kind = match left {
                Left::Blocked => 0,
                Left::Reading => 1,
                Left::Preempted => 2,
                Left::Yielded => 3,
                Left::Exited => 4,
                // Recordings made before 29 November 2026 do not have it.
                Left::InFutex => 11,
            };
            (kind, idle_or(prev), Some([idle_or(next), calls.reads.into(), calls.writes.into()]))
        }
        What::Wake { woken, by } => {
            let kind = match by {
                By::Task => 5,
                By::Message => 6,
                By::Interrupt => 7,
                By::End => 8,
            };
            (kind, woken.into(), None)
        }
        What::Fork { child, waits } => (9 + u8::from(waits), child.into(), None),
    };
    out.push(kind);
    put_signed(out, event.at as i64 - last as i64);
    put(out, event.cpu.into());
    put(out, first);
    rest.into_iter().flatten().for_each(|number| put(out, number));
}

fn take_event(from: &mut &[u8], last: Ns) -> Option<Event> {
    let (&kind, rest) = from.split_first()?;
    *from = rest;
    let at = last.checked_add_signed(take_signed(from)?)?;
    let cpu = take(from)?.try_into().ok()?;
    let first: u32 = take(from)?.try_into().ok()?;
    let what = match kind {
        0..5 | 11 => What::Switch {
            prev: first.checked_sub(1),
            left: match kind {
                0 => Left::Blocked,
                1 => Left::Reading,
                2 => Left::Preempted,
                3 => Left::Yielded,
                4 => Left::Exited,
                _ => Left::InFutex,
            },
            next: u32::try_from(take(from)?).ok()?.checked_sub(1),
            calls: Calls { reads: take(from)?.try_into().ok()?, writes: take(from)?.try_into().ok()? },
        },
        5..9 => What::Wake {
            woken: first,
            by: [By::Task, By::Message, By::Interrupt, By::End][usize::from(kind) - 5],
        },
        9 | 10 => What::Fork { child: first, waits: kind == 10 },
        _ => return None,
    };
    Some(Event { at, cpu, what })
}

fn is_sound(event: &Event, cpus: usize, tasks: usize) -> bool {
    let is_task = |task: u32| (task as usize) < tasks;
    let known = match event.what {
        What::Switch { prev, next, .. } => prev.is_none_or(is_task) && next.is_none_or(is_task),
        What::Wake { woken, .. } => is_task(woken),
        What::Fork { child, .. } => is_task(child),
    };
    known && (event.cpu as usize) < cpus && event.at <= MOST_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::tests::{recording, task};
    use std::path::Path;

    fn small() -> Recording {
        let at = |at, what| Event { at, cpu: 1, what };
        let calls = Calls { reads: 300, writes: u32::MAX };
        recording(
            vec![task("a"), task("b\n")],
            vec![
                at(
                    5,
                    What::Switch {
                        prev: None,
                        left: Left::Preempted,
                        next: Some(1),
                        calls: Calls::default(),
                    },
                ),
                at(900, What::Wake { woken: 0, by: By::Message }),
                at(3, What::Fork { child: 0, waits: false }),
                at(4, What::Fork { child: 0, waits: true }),
                at(5, What::Wake { woken: 1, by: By::End }),
                at(6, What::Switch { prev: Some(1), left: Left::InFutex, next: None, calls }),
                at(1_000_000, What::Switch { prev: Some(1), left: Left::Exited, next: None, calls }),
            ],
        )
    }

    fn written(recording: &Recording) -> Vec<u8> {
        let mut bytes = Vec::new();
        recording.write_to(&mut bytes).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Recording, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.trace");
        std::fs::write(&path, bytes).unwrap();
        Recording::read(path.to_str().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn comes_back_as_it_was() {
        assert_eq!(read(&written(&small())), Ok(small()));
    }

    #[test]
    fn a_file_that_is_cut_off_anywhere_is_refused() {
        let whole = written(&small());
        assert!(is_recording(&whole));
        for length in 0..whole.len() {
            let error = read(&whole[..length]).unwrap_err();
            let expected =
                if is_recording(&whole[..length]) { "is cut off or damaged" } else { "is not a recording" };
            assert!(error.contains(expected), "{length} bytes: {error}");
        }
    }

    #[test]
    fn a_file_with_a_changed_byte_is_refused() {
        let whole = written(&small());
        let packed = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        // The header of the compressed part has bytes that mean nothing: a time and a system.
        for at in packed + 10..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(read(&bytes).is_err(), "byte {at}");
        }
        assert!(read(&[&whole[..], b"x"].concat()).unwrap_err().contains("more behind its end"));
    }

    #[test]
    fn names_what_it_cannot_read() {
        assert!(read(b"").unwrap_err().contains("is not a recording"));
        assert!(read(&[0xff; 100]).unwrap_err().contains("is not a recording"));
        let later = b"{\"flsched_recording\":4,\"other\":true}\n";
        assert!(read(later).unwrap_err().contains("of format 4, and this flsched reads format 3"));
        let mut wrong = small();
        wrong.tasks.pop();
        assert!(read(&written(&wrong)).unwrap_err().contains("event 0 of 7"), "a task that is not there");
        let error = Recording::read("/no/such/file").unwrap_err().to_string();
        assert!(error.starts_with("/no/such/file: ") && !Path::new("/no/such/file").exists(), "{error}");
    }
}
