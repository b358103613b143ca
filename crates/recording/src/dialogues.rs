//! Messages of dialogues that found their reader awake.
//!
//! In a dialogue two tasks write to each other in turn, as a client and its server do. So between two messages of one
//! side that woke the other there is one of the other side. If it left no event, it found its reader awake, and is put
//! back.
use crate::lives::Deed;
use crate::messages::{After, Insertion, Run, place_at, writes};
use crate::{Ns, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// A message that woke its reader.
#[derive(Debug, Clone, Copy)]
struct Message {
    at: Ns,
    from: TaskId,
    to: TaskId,
    /// Where in the life of the task that wrote it.
    place: Ns,
}

/// The messages between two tasks, in the order of time.
type Pairs = BTreeMap<(TaskId, TaskId), Vec<Message>>;

/// Gathers what has to be put into the lives of those that wrote and read such messages. Returns with whom each task has
/// a dialogue.
pub(crate) fn add(runs: &[Vec<Run>], insertions: &mut [Vec<Insertion>]) -> Vec<BTreeSet<TaskId>> {
    let mut pairs = pairs(runs);
    pairs.retain(|_, messages| is_dialogue(messages));
    let mut partners = vec![BTreeSet::new(); runs.len()];
    for message in pairs.values().flatten() {
        partners[message.from as usize].insert(message.to);
        partners[message.to as usize].insert(message.from);
    }
    for two in pairs.values().flat_map(|messages| messages.windows(2)) {
        let [first, second] = [two[0], two[1]];
        if first.from != second.from {
            continue;
        }
        let (reader, writer) = (first.from, first.to);
        let between = writes(&BTreeSet::from([writer]), runs, first.at, second.at.saturating_sub(1));
        let Some(&(at, _, written)) = between.last() else { continue };
        let read = place_at(&runs[reader as usize], at).unwrap_or(0).max(first.place) + 1;
        insertions[writer as usize].push((written, Deed::Sent(reader)));
        insertions[reader as usize].push((read.min(second.place), Deed::Took));
    }
    partners
}

/// In most cases the two sides take turns.
fn is_dialogue(messages: &[Message]) -> bool {
    let turns = messages.windows(2).filter(|two| two[0].from != two[1].from).count();
    turns > 0 && 2 * turns >= messages.len() - 1
}

/// The messages that ended a sleep in a `read`.
fn pairs(runs: &[Vec<Run>]) -> Pairs {
    let mut pairs = Pairs::new();
    for (to, of_reader) in runs.iter().enumerate() {
        let to = to as TaskId;
        for run in of_reader {
            let After::Read { woken_at: at, by: from } = run.after else { continue };
            // The writer's last run may not be over.
            let Some(place) = place_at(&runs[from as usize], at) else { continue };
            pairs.entry((from.min(to), from.max(to))).or_default().push(Message { at, from, to, place });
        }
    }
    pairs.values_mut().for_each(|messages| messages.sort_by_key(|message| message.at));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::tests::{recording, task};
    use crate::messages::tests::{come, switch};
    use crate::{By, Event, Left, What};

    const SERVER: TaskId = 0;
    const CLIENT: TaskId = 1;

    use Deed::{Messaged, Ran, Sent, Took, Waited};

    fn message(at: Ns, cpu: u32, woken: TaskId) -> Event {
        Event { at, cpu, what: What::Wake { woken, by: By::Message } }
    }

    #[test]
    fn a_question_that_found_the_server_awake_is_put_back() {
        let events = vec![
            come(0, 0, SERVER),
            come(0, 1, CLIENT),
            switch(1_000, 0, SERVER, Left::Reading, [1, 0]),
            message(10_000, 1, SERVER),
            come(12_000, 0, SERVER),
            switch(14_000, 1, CLIENT, Left::Reading, [1, 1]),
            message(20_000, 0, CLIENT),
            come(22_000, 1, CLIENT),
            // It asks again after half of its 9 µs; the server does not sleep until it has answered.
            switch(31_000, 1, CLIENT, Left::Reading, [1, 1]),
            message(36_000, 0, CLIENT),
            come(38_000, 1, CLIENT),
            switch(40_000, 0, SERVER, Left::Exited, [1, 2]),
            switch(44_000, 1, CLIENT, Left::Exited, [1, 0]),
        ];
        let lives = recording(vec![task("server"), task("client")], events).lives();
        let deeds = |of: TaskId| lives[of as usize].as_ref().unwrap().deeds.clone();
        assert_eq!(
            deeds(SERVER),
            [
                Ran(1_000),
                Waited,
                Ran(8_000),
                Messaged(CLIENT),
                // From 20 to 26.5 µs.
                Ran(6_501),
                Took,
                Ran(9_499),
                Messaged(CLIENT),
                Ran(4_000)
            ]
        );
        assert_eq!(
            deeds(CLIENT),
            [
                Ran(10_000),
                Messaged(SERVER),
                Ran(4_000),
                Waited,
                Ran(4_500),
                Sent(SERVER),
                Ran(4_500),
                Waited,
                Ran(6_000)
            ]
        );
    }

    #[test]
    fn those_that_do_not_take_turns_have_no_dialogue() {
        let messages = |from: &[TaskId]| -> Vec<Message> {
            let message =
                |(at, from): (usize, &TaskId)| Message { at: at as Ns, from: *from, to: 1 - from, place: 0 };
            from.iter().enumerate().map(message).collect()
        };
        assert!(is_dialogue(&messages(&[0, 1, 0, 0, 1])));
        assert!(!is_dialogue(&messages(&[0, 0, 0, 0, 1])));
        assert!(!is_dialogue(&messages(&[0])));
    }
}
