//! What is accessed in each barrier interval. It is the same for all shapes of a block, and is
//! found once.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use super::accesses::SharedAccess;
use super::affine::Term;
use super::instructions::InstructionId;
use super::intervals::{Interval, Orders};

/// An interval in which two accesses may meet.
pub struct AccessedInterval {
    /// What is executed.
    pub interval: Interval,
    /// The accesses, each with the node that it is in.
    pub accesses: Vec<(usize, SharedAccess)>,
}

/// The intervals of a function.
pub struct AccessedIntervals<'c, 'm, 'a> {
    orders: &'c Orders<'c, 'm, 'a>,
    accesses: &'c [SharedAccess],
    starts: Vec<Start>,
    /// How many more nodes are kept.
    room: Cell<usize>,
}

struct Start {
    behind: Option<InstructionId>,
    /// `None` where no two accesses can meet.
    known: OnceCell<Option<Rc<AccessedInterval>>>,
}

/// So many nodes of intervals are kept in memory.
const NODES: usize = 20_000;

impl<'c, 'm, 'a> AccessedIntervals<'c, 'm, 'a> {
    /// With these accesses of the function.
    pub fn new(orders: &'c Orders<'c, 'm, 'a>, accesses: &'c [SharedAccess]) -> Self {
        let starts = orders.starts().map(|behind| Start {
            behind,
            known: OnceCell::new(),
        });
        AccessedIntervals {
            orders,
            accesses,
            starts: starts.collect(),
            room: Cell::new(NODES),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// One of them; `None` where it is too large, or no two accesses can meet.
    pub fn get(&self, number: usize) -> Option<Rc<AccessedInterval>> {
        let start = self.starts.get(number)?;
        if let Some(known) = start.known.get() {
            return known.clone();
        }
        let found = self.find(start).map(Rc::new);
        let nodes = found.as_ref().map_or(0, |found| found.interval.nodes.len());
        if let Some(room) = self.room.get().checked_sub(nodes) {
            self.room.set(room);
            // It was not known.
            let _ = start.known.set(found.clone());
        }
        found
    }

    fn find(&self, start: &Start) -> Option<AccessedInterval> {
        let interval = self.orders.interval(start.behind)?;
        let accesses = self.executed(&interval);
        (!accesses.is_empty()).then_some(AccessedInterval { interval, accesses })
    }

    /// The accesses in an interval, by node; none if no two of them can meet.
    fn executed(&self, interval: &Interval) -> Vec<(usize, SharedAccess)> {
        let mut executed = Vec::new();
        for (at, node) in interval
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.proven)
        {
            let first = self.accesses.partition_point(|of| of.id.0 < node.start);
            let within = self.accesses[first..]
                .iter()
                .take_while(|of| of.id.0 < node.end);
            executed.extend(within.map(|of| (at, *of)));
        }
        // An access of an unknown base may meet any.
        if executed.iter().all(|(_, of)| of.base.is_some()) {
            let mut written: Vec<Option<Term>> = executed
                .iter()
                .filter(|(_, of)| of.writes())
                .map(|(_, of)| of.base)
                .collect();
            written.sort_unstable();
            written.dedup();
            executed.retain(|(_, of)| written.binary_search(&of.base).is_ok());
        }
        if executed.iter().any(|(_, of)| of.writes()) {
            executed
        } else {
            Vec::new()
        }
    }
}
