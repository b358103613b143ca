//! Messages that found their reader awake.
//!
//! Only the first message after a reader's sleep wakes it; others that it reads before it sleeps again leave no event.
//! Under another scheduler they may: a reader that runs earlier finds no message, and sleeps. So they are put back, as
//! far as the calls of `read` and `write` tell. A reader that another task has woken out of a `read`, and that finishes n
//! calls before it sleeps again, has read n messages. The first one woke it. The others are writes of tasks that wake
//! this reader, between its wake-up and its next sleep; which of their writes is not known, so evenly spread ones are
//! taken. Where there are too few such writes, the reader read something else, and nothing is put back. Of messages
//! between two tasks that write to each other in turn more is known: see [`dialogues`].
use crate::dialogues;
use crate::lives::{Deed, Life};
use crate::{Calls, Ns, TaskId};
use std::collections::BTreeSet;

/// A time in which a task did not leave its CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    pub(crate) since: Ns,
    pub(crate) until: Ns,
    /// For how long the task ran before.
    pub(crate) ran_before: Ns,
    pub(crate) calls: Calls,
    pub(crate) after: After,
}

/// What came before a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum After {
    /// The task lost its CPU, or begins.
    #[default]
    Preemption,
    Sleep,
    /// A sleep in a `read`, which a message of this task ended then.
    Read {
        woken_at: Ns,
        by: TaskId,
    },
}

impl Run {
    fn length(&self) -> Ns {
        self.until.saturating_sub(self.since)
    }

    /// How long after the beginning it called `write` for this time, counted from 0: the calls are taken to be evenly
    /// spread over the run.
    fn wrote_after(&self, number: u32) -> Ns {
        part(self.length(), 2 * u64::from(number) + 1, 2 * u64::from(self.calls.writes))
    }

    /// The first of its calls of `write` after this time, or their number.
    fn first_after(&self, at: Ns) -> u32 {
        let (mut from, mut to) = (0, self.calls.writes);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.since + self.wrote_after(middle) <= at {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        from
    }
}

/// So many of so many parts of a time.
fn part(whole: Ns, number: u64, count: u64) -> Ns {
    (u128::from(whole) * u128::from(number) / u128::from(count)) as Ns
}

/// A deed that belongs where a task has run for so long.
pub(crate) type Insertion = (Ns, Deed);

/// More calls of `write` while a reader is awake are not looked at: the file is made up, or the tasks do nothing else.
const MOST_WRITES: u64 = 1 << 20;
/// More messages are not put back: each takes some memory.
const MOST_MESSAGES: usize = 1 << 24;

/// Puts the messages into the lives of those that wrote and read them; `runs` are theirs, in the order of time.
pub(crate) fn add(lives: &mut [Option<Life>], runs: &[Vec<Run>]) {
    let mut insertions: Vec<Vec<Insertion>> = vec![Vec::new(); lives.len()];
    let partners = dialogues::add(runs, &mut insertions);
    let mut left = MOST_MESSAGES;
    for (reader, of_reader) in runs.iter().enumerate() {
        let writers: BTreeSet<TaskId> = of_reader
            .iter()
            .filter_map(|run| match run.after {
                After::Read { by, .. } => Some(by),
                _ => None,
            })
            .filter(|writer| !partners[reader].contains(writer))
            .collect();
        for awake in of_reader.chunk_by(|_, next| next.after == After::Preemption) {
            let After::Read { woken_at, .. } = awake[0].after else { continue };
            let reads: usize = awake.iter().map(|run| run.calls.reads as usize).sum();
            let Some(more) = reads.checked_sub(1).filter(|&more| more > 0) else { continue };
            let until = awake[awake.len() - 1].until;
            let written = writes(&writers, runs, woken_at, until);
            if written.len() < more || more > left {
                continue;
            }
            left -= more;
            // What is written after the last call cannot be what it reads, unless there is too little before.
            let last = time_of(awake, more, more + 1);
            let before = written.partition_point(|(at, ..)| *at <= last);
            let count = if before < more { written.len() } else { before };
            for number in 0..more {
                let (at, writer, place) = written[(2 * number + 1) * count / (2 * more)];
                insertions[writer as usize].push((place, Deed::Sent(reader as TaskId)));
                insertions[reader].push((place_of_read(awake, number + 1, more + 1, at), Deed::Took));
            }
        }
    }
    for (life, insertions) in lives.iter_mut().zip(insertions) {
        if let Some(life) = life {
            insert(life, insertions);
        }
    }
}

/// The calls of `write` of these tasks in this time, in its order: when, whose, and where in the writer's life. Those of a
/// run are taken to be evenly spread over it. None where there are too many.
pub(crate) fn writes(
    writers: &BTreeSet<TaskId>,
    runs: &[Vec<Run>],
    since: Ns,
    until: Ns,
) -> Vec<(Ns, TaskId, Ns)> {
    let mut found = Vec::new();
    let mut left = MOST_WRITES;
    for &writer in writers {
        let of_writer = &runs[writer as usize];
        let first = of_writer.partition_point(|run| run.until <= since);
        for run in of_writer[first..].iter().take_while(|run| run.since < until) {
            let numbers = run.first_after(since)..run.first_after(until);
            let Some(rest) = left.checked_sub(numbers.len() as u64) else { return Vec::new() };
            left = rest;
            for after in numbers.map(|number| run.wrote_after(number)).filter(|&after| after > 0) {
                found.push((run.since + after, writer, run.ran_before + after));
            }
        }
    }
    found.sort_unstable();
    found
}

/// Where in the life of a task with these runs it runs at this moment, or runs next.
pub(crate) fn place_at(runs: &[Run], at: Ns) -> Option<Ns> {
    let run = runs.get(runs.partition_point(|run| run.until <= at))?;
    Some(run.ran_before + at.saturating_sub(run.since))
}

/// When a reader reads message `number` of `count`, which are evenly spread over its time on a CPU.
fn time_of(awake: &[Run], number: usize, count: usize) -> Ns {
    let ran: Ns = awake.iter().map(Run::length).sum();
    let mut left = part(ran, number as u64, count as u64);
    for run in awake {
        if left <= run.length() {
            return run.since + left;
        }
        left -= run.length();
    }
    awake[awake.len() - 1].until
}

/// Where in its life a reader reads message `number` of `count`: they are evenly spread over its time on a CPU, but none
/// is read before it is written.
fn place_of_read(awake: &[Run], number: usize, count: usize, written_at: Ns) -> Ns {
    let first = awake[0].ran_before;
    let ran: Ns = awake.iter().map(Run::length).sum();
    let even = first + part(ran, number as u64, count as u64);
    let written = place_at(awake, written_at).unwrap_or(first + ran);
    even.max(written).max(first + 1)
}

/// Puts deeds where they belong, each within what the task ran, so that it stays on the same side of sleeps.
fn insert(life: &mut Life, mut insertions: Vec<Insertion>) {
    if insertions.is_empty() {
        return;
    }
    insertions.sort_by_key(|(place, _)| *place);
    let mut insertions = insertions.into_iter().peekable();
    let mut deeds = Vec::with_capacity(life.deeds.len() + 2 * insertions.len());
    let mut ran = 0;
    for deed in &life.deeds {
        let Deed::Ran(ns) = *deed else {
            deeds.push(*deed);
            continue;
        };
        let end = ran + ns;
        while let Some((place, inserted)) = insertions.next_if(|(place, _)| *place <= end) {
            if place > ran {
                deeds.push(Deed::Ran(place - ran));
                ran = place;
            }
            deeds.push(inserted);
        }
        if end > ran {
            deeds.push(Deed::Ran(end - ran));
        }
        ran = end;
    }
    life.deeds = deeds;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::lives::tests::{recording, task};
    use crate::{By, Event, Left, Recording, What};

    const WRITER: TaskId = 0;
    const READER: TaskId = 1;

    pub(crate) fn switch(at: Ns, cpu: u32, prev: TaskId, left: Left, calls: [u32; 2]) -> Event {
        let [reads, writes] = calls;
        let what = What::Switch { prev: Some(prev), left, next: None, calls: Calls { reads, writes } };
        Event { at, cpu, what }
    }

    pub(crate) fn come(at: Ns, cpu: u32, next: TaskId) -> Event {
        let calls = Calls::default();
        Event { at, cpu, what: What::Switch { prev: None, left: Left::Preempted, next: Some(next), calls } }
    }

    /// The writer runs from 0 to 40 µs and writes `writes` messages; the first one, at 10 µs, wakes the reader, which
    /// sleeps in this way, runs from 12 to 36 µs and reads `reads` of them.
    fn pair(left: Left, reads: u32, writes: u32) -> Recording {
        let events = vec![
            come(0, 0, WRITER),
            come(0, 1, READER),
            switch(1_000, 1, READER, left, [0; 2]),
            Event { at: 10_000, cpu: 0, what: What::Wake { woken: READER, by: By::Message } },
            come(12_000, 1, READER),
            switch(36_000, 1, READER, left, [reads, 0]),
            switch(40_000, 0, WRITER, Left::Exited, [0, writes]),
        ];
        recording(vec![task("writer"), task("reader")], events)
    }

    fn deeds(recording: &Recording, of: TaskId) -> Vec<Deed> {
        recording.lives()[of as usize].as_ref().unwrap().deeds.clone()
    }

    use Deed::{Messaged, Ran, Sent, Took, Waited};

    #[test]
    fn a_reader_that_was_awake_has_its_messages_back() {
        let it = pair(Left::Reading, 3, 4);
        // Of the writes at 5, 15, 25 and 35 µs the second and third; it reads after each third of its 24 µs.
        assert_eq!(
            deeds(&it, WRITER),
            [Ran(10_000), Messaged(READER), Ran(5_000), Sent(READER), Ran(10_000), Sent(READER), Ran(15_000)]
        );
        assert_eq!(deeds(&it, READER), [Ran(1_000), Waited, Ran(8_000), Took, Ran(8_000), Took, Ran(8_000)]);
    }

    #[test]
    fn nothing_is_read_before_it_is_written() {
        // Written at 30 µs, not read at 24 µs, after half of the time.
        let it = pair(Left::Reading, 2, 2);
        assert_eq!(
            deeds(&it, WRITER),
            [Ran(10_000), Messaged(READER), Ran(20_000), Sent(READER), Ran(10_000)]
        );
        assert_eq!(deeds(&it, READER), [Ran(1_000), Waited, Ran(18_000), Took, Ran(6_000)]);
    }

    #[test]
    fn nothing_is_put_back_where_there_was_no_message() {
        for (left, reads, writes) in [
            // The one that woke it.
            (Left::Reading, 1, 4),
            // It waited for something else.
            (Left::Blocked, 3, 4),
            // It read more than was written: a file.
            (Left::Reading, 9, 4),
        ] {
            let it = pair(left, reads, writes);
            assert_eq!(deeds(&it, WRITER), [Ran(10_000), Messaged(READER), Ran(30_000)]);
            assert_eq!(deeds(&it, READER), [Ran(1_000), Waited, Ran(24_000)]);
        }
    }

    #[test]
    fn a_preempted_reader_reads_when_it_runs_again() {
        let mut it = pair(Left::Reading, 2, 4);
        // It runs from 12 to 14 µs and from 30 to 36; the message of 25 µs finds it without a CPU.
        it.events.insert(5, switch(14_000, 1, READER, Left::Preempted, [0; 2]));
        it.events.insert(6, come(30_000, 1, READER));
        assert_eq!(
            deeds(&it, READER),
            [Ran(1_000), Waited, Ran(2_000), Deed::Preempted, Ran(2_000), Took, Ran(4_000)]
        );
    }

    #[test]
    fn calls_without_number_take_no_memory() {
        let mut it = pair(Left::Reading, 3, u32::MAX);
        it.header.length = 1_000_000_000_000_000;
        let (last, reader) = (it.events.len() - 1, it.events.len() - 2);
        it.events[last].at = it.header.length;
        it.events[reader].at = it.header.length / 2;
        assert_eq!(deeds(&it, READER), [Ran(1_000), Waited, Ran(it.header.length / 2 - 12_000)]);
    }

    #[test]
    fn only_writes_of_the_time_are_looked_at() {
        let calls = Calls { reads: 0, writes: 4 };
        let runs = [vec![Run { since: 0, until: 40_000, calls, ..Run::default() }]];
        let at = |since, until| -> Vec<Ns> {
            writes(&BTreeSet::from([0]), &runs, since, until).into_iter().map(|(at, ..)| at).collect()
        };
        assert_eq!(at(0, 40_000), [5_000, 15_000, 25_000, 35_000]);
        assert_eq!(at(5_000, 25_000), [15_000, 25_000], "after the beginning, and up to the end");
        assert!(at(36_000, 40_000).is_empty());
    }
}
