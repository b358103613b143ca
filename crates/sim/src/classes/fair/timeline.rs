//! Waiting tasks in the order of a virtual time, like the kernel's red-black tree: of equal ones
//! the first to be added comes first.
use crate::core::TaskId;
use std::collections::VecDeque;

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub key: i64,
    /// A copy, so that a search does not have to access the task.
    pub vruntime: i64,
    pub task: TaskId,
}

#[derive(Debug, Default)]
pub(super) struct Timeline(VecDeque<Slot>);

impl Timeline {
    pub(super) fn insert(&mut self, slot: Slot) {
        let index = self.0.partition_point(|other| other.key <= slot.key);
        self.0.insert(index, slot);
    }

    pub(super) fn remove(&mut self, key: i64, task: TaskId) {
        let from = self.0.partition_point(|other| other.key < key);
        if let Some(index) = (from..self.0.len()).find(|&index| self.0[index].task == task) {
            self.0.remove(index);
        }
    }

    pub(super) fn first(&self) -> Option<&Slot> {
        self.0.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
