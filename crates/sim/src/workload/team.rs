//! The first task of most workloads: it starts the others, waits for them and reports their results.
use super::{Child, Mark, Program, Step, View};
use std::collections::VecDeque;

pub(super) struct Team<F> {
    children: VecDeque<Child>,
    /// Whether it measures the time, from before the first of its children until the last one has ended.
    measures: bool,
    /// What to report when all have ended.
    figures: Option<F>,
    said: VecDeque<Step>,
    phase: Phase,
}

enum Phase {
    Start,
    Fork,
    Wait,
    Stop,
    Say,
}

impl<F: FnOnce() -> Vec<Step>> Team<F> {
    /// `figures` are asked for at the end.
    pub(super) fn new(children: impl IntoIterator<Item = Child>, figures: F) -> Self {
        let children = children.into_iter().collect();
        Self { children, measures: true, figures: Some(figures), said: VecDeque::new(), phase: Phase::Start }
    }

    /// Leaves it to one of its children to measure the time.
    pub(super) fn untimed(self) -> Self {
        Self { measures: false, phase: Phase::Fork, ..self }
    }
}

impl<F: FnOnce() -> Vec<Step>> Program for Team<F> {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        match self.phase {
            Phase::Start => {
                self.phase = Phase::Fork;
                Step::Mark(Mark::Start)
            }
            Phase::Fork => match self.children.pop_front() {
                Some(child) => Step::fork(child),
                None => {
                    self.phase = Phase::Wait;
                    Step::WaitChildren { at_most: 0 }
                }
            },
            Phase::Wait if self.measures => {
                self.phase = Phase::Stop;
                Step::Mark(Mark::Stop)
            }
            Phase::Wait | Phase::Stop => {
                self.phase = Phase::Say;
                self.said = self.figures.take().map(|figures| figures().into()).unwrap_or_default();
                self.said.pop_front().unwrap_or(Step::Exit)
            }
            Phase::Say => self.said.pop_front().unwrap_or(Step::Exit),
        }
    }
}
