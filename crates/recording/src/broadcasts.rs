//! Calls of `write` that woke several tasks, as one to a pipe that all of them poll.
//!
//! The task does not leave its CPU before the call has woken all. Where a task has woken more tasks by messages, before it
//! left its CPU, than it has finished calls of `write`, some of them were woken by the same call: those with the shortest
//! times in between.
use crate::Ns;
use crate::lives::{self, Begin, Deed, Life};
use crate::messages::Run;

/// Puts together what was woken by the same call; `runs` are those of this life.
pub(crate) fn join(life: &mut Life, runs: &[Run]) {
    // Between two of these the task does not leave its CPU. A task that slept at the beginning comes after the first one.
    let ends_run = |deed: &Deed| {
        matches!(deed, Deed::Preempted | Deed::Yielded | Deed::Slept(_) | Deed::Waited | Deed::Vforked(_))
    };
    let before = usize::from(life.begin == Begin::Asleep);
    let mut joined = Vec::with_capacity(life.deeds.len());
    for (number, deeds) in life.deeds.split_inclusive(ends_run).enumerate() {
        let calls = number.checked_sub(before).and_then(|run| runs.get(run)).map(|run| run.calls.writes);
        joined.extend(of_run(deeds, calls.map_or(usize::MAX, |calls| calls.max(1) as usize)));
    }
    life.deeds = joined;
}

/// The deeds of a run in which so many calls sent messages.
fn of_run(deeds: &[Deed], calls: usize) -> Vec<Deed> {
    // For how long the task had run at each message.
    let mut ran = 0;
    let mut sent = Vec::new();
    for deed in deeds {
        match deed {
            Deed::Ran(ns) => ran += ns,
            Deed::Messaged(_) => sent.push(ran),
            _ => {}
        }
    }
    if sent.len() <= calls {
        return deeds.to_vec();
    }
    let mut pauses: Vec<(Ns, usize)> =
        sent.windows(2).enumerate().map(|(before, two)| (two[1] - two[0], before + 1)).collect();
    pauses.sort_unstable_by_key(|&(pause, _)| std::cmp::Reverse(pause));
    let mut begins_call = vec![false; sent.len()];
    begins_call[0] = true;
    pauses[..calls - 1].iter().for_each(|&(_, message)| begins_call[message] = true);

    let mut joined: Vec<Deed> = Vec::with_capacity(deeds.len());
    let mut begins_call = begins_call.into_iter();
    // Behind the last message of the current call.
    let mut behind = 0;
    for &deed in deeds {
        match deed {
            Deed::Messaged(task) if begins_call.next() == Some(false) => {
                joined.insert(behind, Deed::MessagedToo(task));
                behind += 1;
            }
            Deed::Messaged(_) => {
                joined.push(deed);
                behind = joined.len();
            }
            _ => lives::push(&mut joined, deed),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::Deed::{Forked, Messaged, MessagedToo, Preempted, Ran, Waited};
    use super::*;
    use crate::Calls;

    fn run(writes: u32) -> Run {
        Run { calls: Calls { reads: 0, writes }, ..Run::default() }
    }

    fn joined(begin: Begin, deeds: &[Deed], writes: &[u32]) -> Vec<Deed> {
        let mut life = Life { begin, deeds: deeds.to_vec(), has_exited: false };
        join(&mut life, &writes.iter().copied().map(run).collect::<Vec<_>>());
        life.deeds
    }

    #[test]
    fn one_call_wakes_all() {
        let deeds = [Ran(9), Messaged(1), Ran(5), Messaged(2), Ran(5), Messaged(3), Ran(1)];
        let one = [Ran(9), Messaged(1), MessagedToo(2), MessagedToo(3), Ran(11)];
        assert_eq!(joined(Begin::Ready, &deeds, &[1]), one);
        // It had not finished when the task left its CPU.
        assert_eq!(joined(Begin::Ready, &deeds, &[0]), one);
        assert_eq!(joined(Begin::Ready, &deeds, &[3]), deeds);
    }

    #[test]
    fn the_longest_pauses_are_between_calls() {
        let deeds =
            [Messaged(1), Ran(5), Messaged(2), Ran(30), Messaged(3), Ran(4), Forked(7), Ran(1), Messaged(4)];
        let two =
            [Messaged(1), MessagedToo(2), Ran(35), Messaged(3), MessagedToo(4), Ran(4), Forked(7), Ran(1)];
        assert_eq!(joined(Begin::Ready, &deeds, &[2]), two);
    }

    #[test]
    fn each_run_has_its_calls() {
        let deeds = [Messaged(1), Ran(5), Messaged(2), Preempted, Messaged(3), Ran(5), Messaged(4), Ran(1)];
        let second = [Messaged(1), Ran(5), Messaged(2), Preempted, Messaged(3), MessagedToo(4), Ran(6)];
        assert_eq!(joined(Begin::Ready, &deeds, &[2, 1]), second);
        // The first run comes after a sleep.
        let deeds = [&[Waited], &deeds[..]].concat();
        assert_eq!(joined(Begin::Asleep, &deeds, &[2, 1]), [&[Waited], &second[..]].concat());
    }
}
