//! The file: a line of JSON, then, compressed, the tasks as a line of JSON and the events as bytes. The sum that ends the
//! compressed part shows whether the file is whole.
use crate::checks;
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
/// The compressed part may be so many times as long when it is unpacked, and so much longer. What is recorded becomes
/// about three times as long; a file that is made to fill the memory, a thousand times.
const MOST_UNPACKED: (u64, u64) = (50, 64 << 20);

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
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        if line.len() as u64 > LONGEST_HEADER {
            let what = format!("its first line has {} bytes; {LONGEST_HEADER} at most", line.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        out.write_all(&line)?;
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
        let mut packed = Vec::new();
        rest.read_to_end(&mut packed).map_err(|cause| Error::File { path: path.to_owned(), cause })?;
        let (times, more) = MOST_UNPACKED;
        let most = packed.len() as u64 * times + more;
        let mut packed = &packed[..];
        let mut bytes = Vec::new();
        let unpacked = GzDecoder::new(&mut packed).take(most + 1).read_to_end(&mut bytes);
        unpacked.map_err(|cause| damaged(cause.to_string()))?;
        if bytes.len() as u64 > most {
            return Err(damaged(format!("unpacked, it is {times} times as long and more")));
        }
        if !packed.is_empty() {
            return Err(damaged("there is more behind its end".into()));
        }
        let line = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
        let mut tasks: Vec<Task> = serde_json::from_slice(&bytes[..line])
            .map_err(|error| damaged(format!("its tasks: {}", escaped(&error))))?;
        checks::tasks(&tasks, &header).map_err(damaged)?;
        checks::make_names_printable(&mut tasks);
        let mut bytes = bytes.get(line + 1..).unwrap_or_default();
        let count = take(&mut bytes).ok_or_else(|| damaged("it has no events".into()))?;
        let mut last = 0;
        let mut checks = checks::Events::new(&header, tasks.len());
        let mut events = Vec::with_capacity(count.min(bytes.len() as u64 / SHORTEST_EVENT) as usize);
        for number in 0..count {
            let wrong = |what: &str| damaged(format!("event {number} of {count}{what}"));
            let event = take_event(&mut bytes, last).ok_or_else(|| wrong(""))?;
            checks.check(&event).map_err(|what| wrong(&format!(": {what}")))?;
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
    let damaged = |what| Error::Damaged { path: path.to_owned(), what: format!("its first line: {what}") };
    let version: Version = serde_json::from_slice(&line).map_err(|error| damaged(escaped(&error)))?;
    if version.flsched_recording != FORMAT {
        let (found, known) = (version.flsched_recording, FORMAT);
        return Err(Error::Version { path: path.to_owned(), found, known });
    }
    let line: Line = serde_json::from_slice(&line).map_err(|error| damaged(escaped(&error)))?;
    let mut header = line.header;
    header.check().map_err(damaged)?;
    header.make_printable();
    Ok((header, file))
}

/// An error can quote what is in the file, which is not for a terminal.
fn escaped(error: &serde_json::Error) -> String {
    error.to_string().escape_debug().to_string()
}

/// The kind, the time, the CPU and a task, each of a byte.
const SHORTEST_EVENT: u64 = 4;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::tests::{recording, task};
    use std::path::Path;

    fn small() -> Recording {
        let at = |at, what| Event { at, cpu: 1, what };
        let calls = Calls { reads: 300, writes: u32::MAX };
        recording(
            vec![task("a"), task("b")],
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
                at(4, What::Fork { child: 1, waits: true }),
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
        assert!(read(&written(&wrong)).unwrap_err().contains("event 0 of 7: task 1 of 1"));
        let error = Recording::read("/no/such/file").unwrap_err().to_string();
        assert!(error.starts_with("/no/such/file: ") && !Path::new("/no/such/file").exists(), "{error}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        use crate::RealTime;
        type Change = fn(&mut Recording);
        let cases: [(&str, Change); 12] = [
            ("its first line: 0 CPUs", |it| it.header.cpus.clear()),
            ("its first line: 4097 CPUs", |it| it.header.cpus = vec![it.header.cpus[0]; 4097]),
            ("its first line: a length of", |it| it.header.length = u64::MAX),
            ("the command is task 2 of 2", |it| it.header.command_task = Some(2)),
            ("task 1: its process is task 9 of 2", |it| it.tasks[1].process = Some(9)),
            ("task 0: it may run on CPU 4096 of 2", |it| it.tasks[0].cpus = Some(vec![0, 4096])),
            ("task 0: it may run on no CPU", |it| it.tasks[0].cpus = Some(vec![])),
            ("task 0: nice 20", |it| it.tasks[0].nice = 20),
            ("task 0: priority 100", |it| {
                it.tasks[0].real_time = Some(RealTime { priority: 100, is_round_robin: true });
            }),
            ("event 6 of 7: at 1000000 ns, after the end at 999999 ns", |it| it.header.length = 999_999),
            ("event 1 of 7: at 900 ns, after one at 1000901 ns on the same CPU", |it| {
                it.header.length = 2_000_000;
                it.events[0].at = 1_000_901;
            }),
            ("event 3 of 7: task 0 is created again", |it| {
                it.events[3].what = What::Fork { child: 0, waits: false };
            }),
        ];
        for (expected, change) in cases {
            let mut wrong = small();
            change(&mut wrong);
            let error = read(&written(&wrong)).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn nothing_that_is_shown_has_control_characters() {
        let mut wrong = small();
        wrong.tasks[1].name = "b\u{1b}[2J".into();
        wrong.header.schedulers[1] = "x\r".into();
        wrong.header.command = Some("make\u{7}".into());
        let read_back = read(&written(&wrong)).unwrap();
        assert_eq!(read_back.tasks[1].name, "b?[2J");
        assert_eq!(read_back.header.schedulers[1], "x?");
        assert_eq!(read_back.header.command.as_deref(), Some("make?"));
        let error = read(b"{\"flsched_recording\":\"\\u001b[2J\"}\n").unwrap_err();
        assert!(error.contains("first line") && !error.contains(char::is_control), "{error}");
    }

    #[test]
    fn a_file_that_fills_the_memory_is_refused() {
        let whole = written(&small());
        let begin = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let mut packer = GzEncoder::new(whole[..begin].to_vec(), Compression::fast());
        let zeros = vec![0; 1 << 20];
        (0..160).for_each(|_| packer.write_all(&zeros).unwrap());
        let error = read(&packer.finish().unwrap()).unwrap_err();
        assert!(error.contains("unpacked, it is 50 times as long and more"), "{error}");
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let mut long = small();
        long.header.command = Some("x".repeat(LONGEST_HEADER as usize));
        let error = long.write_to(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("its first line has 16777"), "{error}");
    }
}
