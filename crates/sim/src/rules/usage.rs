//! What a CPU's time went to while tasks of nice 0 wanted it, how many tasks were there, and when it was taken away
//! from all of them.
use crate::engine::Ns;

/// What a task is for the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// It has nice 0, or less, and does not yield in vain.
    Normal,
    /// Nice 1 to 19, or `SCHED_IDLE`.
    Background,
    /// It yields again and again, and does little between.
    Yielder,
    /// Of a class above.
    Above,
}

const GROUPS: usize = 4;

/// For how long a CPU is watched before its shares are judged.
pub(super) const WINDOW: Ns = 2_000_000_000;
/// Time is kept in pieces of this length for questions about any stretch of it.
const BUCKET: Ns = 100_000_000;

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// The most tasks that were there at the same time.
    peak: u32,
    /// How long tasks of a class above ran, or the CPU was offline.
    unavailable: Ns,
}

/// What a CPU's time went to while at least one task of nice 0 was there all the time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shares {
    /// How long, without the time of tasks of a class above.
    pub total: Ns,
    /// Of background tasks.
    pub background: Ns,
    /// Of tasks that yield in vain.
    pub yielders: Ns,
    /// The most background tasks that were there.
    pub most_background: u32,
}

#[derive(Debug)]
pub(crate) struct Usage {
    /// Until when it has been accounted for.
    at: Ns,
    running: Option<Group>,
    is_online: bool,
    queued: [u32; GROUPS],
    /// Since when a task of nice 0 has been there, and this has not been judged.
    contended_since: Option<Ns>,
    /// What ran since then.
    ran: [Ns; GROUPS],
    most_background: u32,
    /// Since when it has run background tasks, and nothing else.
    background_since: Option<Ns>,
    buckets: Vec<Bucket>,
}

impl Usage {
    pub(super) fn new() -> Self {
        Self {
            at: 0,
            running: None,
            is_online: true,
            queued: [0; GROUPS],
            contended_since: None,
            ran: [0; GROUPS],
            most_background: 0,
            background_since: None,
            buckets: vec![Bucket::default()],
        }
    }

    fn tasks(&self) -> u32 {
        self.queued.iter().sum()
    }

    /// Accounts for the time until `now`. Returns what there is to judge.
    fn advance(&mut self, now: Ns) -> Option<Shares> {
        let tasks = self.tasks();
        let last = (now / BUCKET) as usize;
        if self.buckets.len() <= last {
            self.buckets.resize(last + 1, Bucket { peak: tasks, unavailable: 0 });
        }
        if now <= self.at {
            return None;
        }
        if self.running == Some(Group::Above) || !self.is_online {
            let mut from = self.at;
            while from < now {
                let to = now.min((from / BUCKET + 1) * BUCKET);
                self.buckets[(from / BUCKET) as usize].unavailable += to - from;
                from = to;
            }
        }
        if let Some(group) = self.running {
            self.ran[group as usize] += now - self.at;
        }
        self.at = now;
        let since = self.contended_since.filter(|&since| now - since >= WINDOW)?;
        let shares = self.shares(since);
        self.start_window(Some(now));
        Some(shares)
    }

    fn shares(&self, since: Ns) -> Shares {
        Shares {
            total: (self.at - since).saturating_sub(self.ran[Group::Above as usize]),
            background: self.ran[Group::Background as usize],
            yielders: self.ran[Group::Yielder as usize],
            most_background: self.most_background,
        }
    }

    fn start_window(&mut self, since: Option<Ns>) {
        self.contended_since = since;
        self.ran = [0; GROUPS];
        self.most_background = self.queued[Group::Background as usize];
    }

    /// A task enters its run queue, or leaves it.
    pub(super) fn queued(&mut self, group: Group, is_queued: bool, now: Ns) -> Option<Shares> {
        let shares = self.advance(now);
        let count = &mut self.queued[group as usize];
        *count = if is_queued { *count + 1 } else { count.saturating_sub(1) };
        let has_normal = self.queued[Group::Normal as usize] > 0;
        if has_normal != self.contended_since.is_some() {
            self.start_window(has_normal.then_some(self.at));
        }
        self.most_background = self.most_background.max(self.queued[Group::Background as usize]);
        let tasks = self.tasks();
        let last = (now.max(self.at) / BUCKET) as usize;
        if let Some(bucket) = self.buckets.get_mut(last) {
            bucket.peak = bucket.peak.max(tasks);
        }
        shares
    }

    /// A task of this group runs from now on, or none.
    pub(super) fn runs(&mut self, group: Option<Group>, now: Ns) -> Option<Shares> {
        let shares = self.advance(now);
        self.running = group;
        self.background_since = match group {
            Some(Group::Background) => self.background_since.or(Some(self.at)),
            _ => None,
        };
        shares
    }

    /// No task runs for the moment of a switch.
    pub(super) fn switches(&mut self, now: Ns) -> Option<Shares> {
        let shares = self.advance(now);
        self.running = None;
        shares
    }

    /// It goes on- or offline.
    pub(super) fn goes_online(&mut self, is_online: bool, now: Ns) {
        self.advance(now);
        self.is_online = is_online;
        self.start_window(None);
        if self.queued[Group::Normal as usize] > 0 {
            self.start_window(Some(self.at));
        }
    }

    /// Begins anew with what is to be judged.
    pub(super) fn forget(&mut self, now: Ns) {
        self.advance(now);
        let since = self.contended_since.map(|_| self.at);
        self.start_window(since);
        self.background_since = self.background_since.map(|_| self.at);
    }

    /// What has not been judged yet.
    pub(super) fn rest(&mut self, now: Ns) -> Option<Shares> {
        if let Some(shares) = self.advance(now) {
            return Some(shares);
        }
        let since = self.contended_since?;
        Some(self.shares(since))
    }

    /// Since when it has run background tasks, and nothing else.
    pub(super) fn background_since(&self) -> Option<Ns> {
        self.background_since
    }

    /// The most tasks that were there at a time, from then on until `to`.
    pub(super) fn peak(&self, from: Ns, to: Ns) -> u32 {
        let of = |at: Ns| ((at / BUCKET) as usize).min(self.buckets.len() - 1);
        self.buckets[of(from)..=of(to)].iter().map(|bucket| bucket.peak).max().unwrap_or(0)
    }

    /// How long no task below could have run there.
    pub(super) fn unavailable(&self, from: Ns, to: Ns) -> Ns {
        let of = |at: Ns| ((at / BUCKET) as usize).min(self.buckets.len() - 1);
        let known: Ns = self.buckets[of(from)..=of(to)].iter().map(|bucket| bucket.unavailable).sum();
        let is_taken = self.running == Some(Group::Above) || !self.is_online;
        let since = if is_taken { to.saturating_sub(self.at.max(from)) } else { 0 };
        (known + since).min(to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    #[test]
    fn shares_count_while_a_task_of_nice_0_is_there() {
        let mut cpu = Usage::new();
        cpu.queued(Group::Background, true, 0);
        cpu.runs(Some(Group::Background), 0);
        cpu.queued(Group::Normal, true, 500 * MS);
        assert!(cpu.runs(Some(Group::Normal), 1_500 * MS).is_none());
        let shares = cpu.runs(Some(Group::Above), 2_500 * MS).unwrap();
        assert_eq!((shares.total, shares.background, shares.most_background), (2_000 * MS, 1_000 * MS, 1));
        let shares = cpu.rest(3_500 * MS).unwrap();
        assert_eq!((shares.total, shares.background), (0, 0), "a class above has had all of it");
        cpu.queued(Group::Normal, false, 3_600 * MS);
        assert!(cpu.rest(9_000 * MS).is_none());
    }

    #[test]
    fn peaks_and_times_of_higher_classes_are_known_for_any_stretch() {
        let mut cpu = Usage::new();
        for _ in 0..5 {
            cpu.queued(Group::Normal, true, 150 * MS);
        }
        for _ in 0..4 {
            cpu.queued(Group::Normal, false, 250 * MS);
        }
        cpu.runs(Some(Group::Above), 300 * MS);
        cpu.runs(None, 450 * MS);
        cpu.queued(Group::Normal, true, 1_050 * MS);
        assert_eq!([cpu.peak(0, 90 * MS), cpu.peak(0, 120 * MS), cpu.peak(500 * MS, 900 * MS)], [0, 5, 1]);
        assert_eq!(cpu.peak(500 * MS, 1_060 * MS), 2);
        assert_eq!(cpu.unavailable(0, 1_000 * MS), 150 * MS);
        assert_eq!(cpu.unavailable(500 * MS, 1_000 * MS), 0);
    }
}
