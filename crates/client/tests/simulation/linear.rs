//! Linearizability of the history of one register: is there an order of its operations in which each takes effect between
//! its begin and its end, and each result is right? The search is that of Wing and Gong ("Testing and verifying concurrent
//! objects", 1993), which remembers the states it has been in, as Lowe proposed ("Testing for linearizability", 2017).
use std::collections::HashSet;

/// What an operation did, and what it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Wrote a value.
    Put(u64),
    /// Wrote a value if there was none. True if it did; of no meaning if the result is unknown.
    Insert(u64, bool),
    /// Removed the value, if there was one.
    Remove,
    /// Read the value.
    Get(Option<u64>),
}

/// An operation. Moments are numbers that grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) client: u64,
    pub(crate) action: Action,
    pub(crate) begin: u64,
    /// `None` if the client does not know whether it took effect: it may, at any time, or never.
    pub(crate) end: Option<u64>,
}

/// All operations on one register, which is empty at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) name: String,
    pub(crate) operations: Vec<Operation>,
}

/// The value after an action, if its result is right before it.
fn after(value: Option<u64>, operation: &Operation) -> Option<Option<u64>> {
    match operation.action {
        Action::Put(new) => Some(Some(new)),
        Action::Remove => Some(None),
        Action::Get(seen) => (seen == value).then_some(value),
        Action::Insert(new, _) if operation.end.is_none() => Some(value.or(Some(new))),
        Action::Insert(new, true) => value.is_none().then_some(Some(new)),
        Action::Insert(_, false) => value.is_some().then_some(value),
    }
}

/// A set of operations, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Set(Vec<u64>);

impl Set {
    fn of(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    fn with(&self, number: usize) -> Self {
        let mut set = self.clone();
        set.0[number / 64] |= 1 << (number % 64);
        set
    }
}

impl Register {
    /// True if some order explains all results.
    pub(crate) fn is_linearizable(&self) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![(Set::of(self.operations.len()), None)];
        while let Some((done, value)) = open.pop() {
            let Some(deadline) = self.deadline(&done) else { return true };
            for next in self.steps(&done, value, deadline) {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        false
    }

    /// The first end of an operation that is not done; whatever comes next has begun before. `None` if all are done
    /// whose result is known.
    fn deadline(&self, done: &Set) -> Option<u64> {
        let left = self.operations.iter().enumerate().filter(|(number, _)| !done.has(*number));
        left.filter_map(|(_, operation)| operation.end).min()
    }

    /// The states after each operation that may come next.
    fn steps(
        &self,
        done: &Set,
        value: Option<u64>,
        deadline: u64,
    ) -> impl Iterator<Item = (Set, Option<u64>)> {
        let all = self.operations.iter().enumerate();
        let next = all
            .filter(move |(number, operation)| !done.has(*number) && operation.begin <= deadline);
        next.filter_map(move |(number, operation)| {
            after(value, operation).map(|value| (done.with(number), value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(operations: &[(Action, u64, Option<u64>)]) -> Register {
        let operation = |&(action, begin, end)| Operation { client: 0, action, begin, end };
        Register { name: String::new(), operations: operations.iter().map(operation).collect() }
    }

    fn is_linearizable(operations: &[(Action, u64, Option<u64>)]) -> bool {
        register(operations).is_linearizable()
    }

    use Action::{Get, Insert, Put, Remove};

    #[test]
    fn what_happened_one_after_the_other_is_seen_in_this_order() {
        let written = [(Put(1), 0, Some(1)), (Put(2), 2, Some(3))];
        let then = |action| [&written[..], &[(action, 4, Some(5))]].concat();
        assert!(is_linearizable(&then(Get(Some(2)))));
        assert!(!is_linearizable(&then(Get(Some(1)))), "an old value");
        assert!(!is_linearizable(&then(Get(None))), "a lost value");
        assert!(!is_linearizable(&then(Get(Some(3)))), "a value that nobody wrote");
        assert!(is_linearizable(&then(Insert(3, false))));
        assert!(!is_linearizable(&then(Insert(3, true))), "there was a value");
    }

    #[test]
    fn what_happened_at_the_same_time_may_be_seen_in_any_order() {
        let at_once = [(Put(1), 0, Some(5)), (Put(2), 1, Some(4))];
        for value in [1, 2] {
            let read = [&at_once[..], &[(Get(Some(value)), 6, Some(7))]].concat();
            assert!(is_linearizable(&read));
        }
        // But all readers see the same order.
        let turned = [(Get(Some(1)), 6, Some(7)), (Get(Some(2)), 8, Some(9))];
        assert!(!is_linearizable(&[&at_once[..], &turned].concat()));
    }

    #[test]
    fn what_has_no_result_may_take_effect_late_or_never() {
        let lost = [(Put(1), 0, None), (Remove, 1, Some(2))];
        let then = |actions: &[(Action, u64, Option<u64>)]| [&lost[..], actions].concat();
        assert!(is_linearizable(&then(&[(Get(None), 3, Some(4)), (Get(Some(1)), 5, Some(6))])));
        assert!(is_linearizable(&then(&[(Get(None), 3, Some(4)), (Get(None), 5, Some(6))])));
        let twice = [(Get(Some(1)), 3, Some(4)), (Remove, 5, Some(6)), (Get(Some(1)), 7, Some(8))];
        assert!(!is_linearizable(&then(&twice)), "it took effect twice");
    }
}
