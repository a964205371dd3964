//! Linearizability of the operations on one register: does an order exist in which each operation takes effect between
//! its begin and its end, and all results are right? The search is that of Wing and Gong ("Testing and verifying
//! concurrent objects", 1993). It stores visited states in bit sets, as Lowe proposed ("Testing for linearizability",
//! 2017), and keeps pending operations in a linked list, as porcupine does. Each register is checked separately.
use std::collections::HashSet;
use std::fmt;

/// An action on a register, with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the value.
    Get(Option<u64>),
    /// Wrote a value.
    Put(u64),
    /// Put on condition that there is a value (`true`) or none (`false`); and whether it was done.
    PutIf(u64, bool, bool),
    /// Removed the value, if there was one.
    Remove,
    /// Remove on condition that there is a value; and whether it was done.
    RemoveIf(bool),
    /// Removed the value if it was this one; and whether it was, if that is known.
    RemoveValue(u64, Option<bool>),
    /// Transaction that read the first value and wrote the second.
    Swap(Option<u64>, u64),
}

/// An operation. Moments are numbers that grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Number of the client.
    pub client: u64,
    /// The action, with its result.
    pub action: Action,
    /// Moment at which it began.
    pub begin: u64,
    /// `None` if its result is unknown: it may take effect at any time, or never.
    pub end: Option<u64>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, action, begin, end } = self;
        let end = end.map_or("unknown".to_owned(), |end| end.to_string());
        write!(f, "client {client:4} from {begin:8} to {end:>8}: {action:?}")
    }
}

impl Operation {
    /// The value after the operation; `None` if its result is wrong for this value before it.
    fn apply(&self, value: Option<u64>) -> Option<Option<u64>> {
        let is_known = self.end.is_some();
        match self.action {
            Action::Get(seen) => (seen == value).then_some(value),
            Action::Put(new) => Some(Some(new)),
            Action::Remove => Some(None),
            Action::PutIf(new, wanted, done) => {
                let holds = value.is_some() == wanted;
                (!is_known || holds == done).then_some(if holds { Some(new) } else { value })
            }
            Action::RemoveIf(done) => (!is_known || value.is_some() == done).then_some(None),
            Action::RemoveValue(expected, done) => {
                let holds = value == Some(expected);
                let is_right = !is_known || done.is_none_or(|done| done == holds);
                is_right.then_some(value.filter(|_| !holds))
            }
            Action::Swap(seen, new) => (seen == value).then_some(Some(new)),
        }
    }

    /// True if it leaves the register as it is.
    fn is_read(&self) -> bool {
        use Action::{Get, PutIf, RemoveIf, RemoveValue};
        let is_read = matches!(
            self.action,
            Get(_) | PutIf(_, _, false) | RemoveIf(false) | RemoveValue(_, Some(false))
        );
        is_read && self.end.is_some()
    }
}

/// A set of operations, one bit each.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Bits(Vec<u64>);

impl Bits {
    /// Adds an operation to the set, or removes it.
    fn flip(&mut self, number: usize) {
        self.0[number / 64] ^= 1 << (number % 64);
    }
}

/// The begins and ends of operations that have no position in the order yet, sorted by time.
struct Events {
    /// For each event, the next one in a linked list, and the previous one.
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The operation of an event, and whether it is the begin.
    events: Vec<(usize, bool)>,
    /// Events of an operation.
    begin: Vec<usize>,
    end: Vec<Option<usize>>,
}

impl Events {
    fn new(operations: &[Operation]) -> Self {
        let mut moments = Vec::new();
        for (number, operation) in operations.iter().enumerate() {
            moments.push((operation.begin, number, true));
            moments.extend(operation.end.map(|end| (end, number, false)));
        }
        moments.sort_unstable();
        let count = moments.len();
        let events: Vec<_> = moments.iter().map(|(_, number, begins)| (*number, *begins)).collect();
        let (mut begin, mut end) = (vec![0; operations.len()], vec![None; operations.len()]);
        for (at, (number, begins)) in events.iter().enumerate() {
            match begins {
                true => begin[*number] = at,
                false => end[*number] = Some(at),
            }
        }
        // The last index is both ends of the list.
        let next = (1..=count).chain([0]).collect();
        let previous = [count].into_iter().chain(0..count).collect();
        Self { next, previous, events, begin, end }
    }

    /// The first event that is left.
    fn first(&self) -> usize {
        self.next[self.events.len()]
    }

    fn unlink(&mut self, at: usize) {
        let (previous, next) = (self.previous[at], self.next[at]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    /// Puts an event back to where it was. Events must be put back in the reverse order of their removal.
    fn relink(&mut self, at: usize) {
        let (previous, next) = (self.previous[at], self.next[at]);
        self.next[previous] = at;
        self.previous[next] = at;
    }

    /// Removes an operation from the list.
    fn take(&mut self, number: usize) {
        self.unlink(self.begin[number]);
        if let Some(end) = self.end[number] {
            self.unlink(end);
        }
    }

    /// Puts the operation back that was removed last.
    fn put_back(&mut self, number: usize) {
        if let Some(end) = self.end[number] {
            self.relink(end);
        }
        self.relink(self.begin[number]);
    }
}

/// True if some order explains all results. The register is empty at first.
///
/// Searches depth-first (Wing and Gong): any operation that begins before the first end that is left may be next in the
/// order. A set of operations that has led to the same value before is not tried again (Lowe).
#[must_use]
pub fn is_linearizable(operations: &[Operation]) -> bool {
    let mut events = Events::new(operations);
    let mut left = operations.iter().filter(|operation| operation.end.is_some()).count();
    let mut done = Bits(vec![0; operations.len().div_ceil(64)]);
    let (mut seen, mut path, mut value) = (HashSet::new(), Vec::new(), None);
    let mut at = events.first();
    while left > 0 {
        let (number, begins) = events.events[at];
        if !begins {
            // This operation has ended without a position in the order: the last choice was wrong.
            let Some((last, before)) = path.pop() else { return false };
            value = before;
            done.flip(last);
            events.put_back(last);
            left += usize::from(operations[last].end.is_some());
            at = events.next[events.begin[last]];
            continue;
        }
        if let Some(after) = operations[number].apply(value) {
            done.flip(number);
            if seen.insert((done.clone(), after)) {
                path.push((number, value));
                value = after;
                events.take(number);
                left -= usize::from(operations[number].end.is_some());
                at = events.first();
                continue;
            }
            done.flip(number);
        }
        at = events.next[at];
    }
    true
}

/// A short part of a history that no order explains: it ends as early as possible, without reads that do not matter.
#[must_use]
pub fn minimize(operations: &[Operation]) -> Vec<Operation> {
    let mut ends: Vec<_> = operations.iter().filter_map(|operation| operation.end).collect();
    ends.sort_unstable();
    let shortest = ends.partition_point(|end| is_linearizable(&cut(operations, *end)));
    let mut left = ends.get(shortest).map_or(operations.to_vec(), |end| cut(operations, *end));
    for at in (0..left.len()).rev().filter(|at| operations.len() > *at) {
        let mut fewer = left.clone();
        if fewer.remove(at).is_read() && !is_linearizable(&fewer) {
            left = fewer;
        }
    }
    left.sort_unstable_by_key(|operation| operation.begin);
    left
}

/// The history up to a moment. An operation that had no result then, and changes nothing, is left out.
fn cut(operations: &[Operation], moment: u64) -> Vec<Operation> {
    let begun = operations.iter().filter(|operation| operation.begin <= moment);
    let cut = begun.map(|operation| {
        let end = operation.end.filter(|end| *end <= moment);
        (operation.is_read(), Operation { end, ..*operation })
    });
    cut.filter(|(is_read, operation)| !is_read || operation.end.is_some())
        .map(|(_, operation)| operation)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, seed};
    use Action::{Get, Put, PutIf, Remove, RemoveIf, RemoveValue, Swap};

    fn operation(&(action, begin, end): &(Action, u64, u64)) -> Operation {
        Operation { client: 0, action, begin, end: (end > 0).then_some(end) }
    }

    /// True if operations are linearizable. Each is an action, its begin and its end, 0 if the result is unknown.
    fn holds(operations: &[(Action, u64, u64)]) -> bool {
        is_linearizable(&operations.iter().map(operation).collect::<Vec<_>>())
    }

    #[test]
    fn operations_one_after_the_other_are_seen_in_this_order() {
        let written = [(Put(1), 1, 2), (Put(2), 3, 4)];
        let then = |action| holds(&[&written[..], &[(action, 5, 6)]].concat());
        assert!(then(Get(Some(2))));
        assert!(!then(Get(Some(1))), "a stale read");
        assert!(!then(Get(None)), "a lost value");
        assert!(!then(Get(Some(3))), "a value that was never written");
        assert!(then(PutIf(3, false, false)) && then(PutIf(3, true, true)));
        assert!(!then(PutIf(3, false, true)) && !then(PutIf(3, true, false)));
        assert!(then(RemoveIf(true)) && !then(RemoveIf(false)));
        assert!(then(RemoveValue(2, Some(true))) && !then(RemoveValue(2, Some(false))));
        assert!(then(RemoveValue(1, Some(false))) && !then(RemoveValue(1, Some(true))));
        let uncertain = |seen| {
            holds(&[&written[..], &[(RemoveValue(2, None), 5, 6), (Get(seen), 7, 8)]].concat())
        };
        assert!(uncertain(None) && !uncertain(Some(2)));
    }

    #[test]
    fn a_lost_update_is_found() {
        let swaps = |first, second| {
            holds(&[(Swap(None, 1), 1, 9), (Swap(first, 2), 2, 8), (Get(second), 10, 11)])
        };
        assert!(swaps(Some(1), Some(2)));
        assert!(!swaps(Some(1), Some(1)), "the second update is lost");
        assert!(!swaps(None, Some(2)), "both have read the same value");
    }

    #[test]
    fn operations_at_the_same_time_have_one_order() {
        let at_once = [(Put(1), 1, 6), (Put(2), 2, 5)];
        for value in [1, 2] {
            assert!(holds(&[&at_once[..], &[(Get(Some(value)), 7, 8)]].concat()));
        }
        let turned = [(Get(Some(1)), 7, 8), (Get(Some(2)), 9, 10)];
        assert!(!holds(&[&at_once[..], &turned].concat()), "readers see two orders");
        let early = [(Put(1), 1, 9), (Get(Some(1)), 2, 3), (Get(None), 4, 5)];
        assert!(!holds(&early), "a value is seen, then not");
    }

    #[test]
    fn an_operation_without_a_result_happens_late_or_never_but_not_twice() {
        let unknown = [(Put(1), 1, 0), (Remove, 2, 3)];
        let then = |gets: &[Option<u64>]| {
            let gets = gets.iter().zip(2..).map(|(get, at)| (Get(*get), 2 * at, 2 * at + 1));
            holds(&unknown.into_iter().chain(gets).collect::<Vec<_>>())
        };
        assert!(then(&[None, None]) && then(&[None, Some(1)]) && then(&[Some(1), Some(1)]));
        assert!(!then(&[Some(1), None]), "it was removed before it began");
        let again = [(Put(1), 1, 0), (Get(Some(1)), 2, 3), (Remove, 4, 5), (Get(Some(1)), 6, 7)];
        assert!(!holds(&again), "it took effect twice");
        let conditional =
            [(PutIf(1, true, true), 1, 0), (RemoveIf(true), 2, 0), (Swap(Some(5), 6), 3, 0)];
        assert!(holds(&[&conditional[..], &[(Get(None), 4, 5)]].concat()));
        assert!(!holds(&[&conditional[..], &[(Get(Some(6)), 4, 5)]].concat()));
    }

    /// Draws a history of a correct register: operations of several clients that overlap.
    fn draw(random: &mut Random, count: u64) -> Vec<Operation> {
        let (mut value, mut operations) = (None, Vec::new());
        for number in 1..=count {
            let action = match random.below(6) {
                0 => Put(number),
                1 => PutIf(number, true, value.is_some()),
                2 => PutIf(number, false, value.is_none()),
                3 => RemoveIf(value.is_some()),
                4 => Swap(value, number),
                _ => Get(value),
            };
            let (begin, end) = (
                10 * number - random.below(50).min(9 * number),
                10 * number + 1 + random.below(50),
            );
            let mut drawn = Operation { client: number % 5, action, begin, end: Some(end) };
            value = drawn.apply(value).expect("a right result");
            drawn.end = drawn.end.filter(|_| drawn.is_read() || !random.one_in(150));
            operations.push(drawn);
        }
        operations
    }

    #[test]
    fn long_histories_of_a_correct_register_are_accepted_and_faults_in_them_found() {
        let mut random = Random::new(seed(), 0x11);
        for _ in 0..10 {
            let mut operations = draw(&mut random, 400);
            assert!(is_linearizable(&operations));
            let last =
                operations.iter().filter_map(|operation| operation.end).max().expect("an end");
            operations.push(operation(&(Get(Some(5000)), last + 1, last + 2)));
            assert!(!is_linearizable(&operations));
        }
    }

    #[test]
    fn the_part_that_cannot_be_explained_is_short() {
        let mut operations = draw(&mut Random::new(seed(), 0x12), 100);
        operations.push(operation(&(Get(Some(5000)), 200, 230)));
        let minimal = minimize(&operations);
        assert!(!is_linearizable(&minimal) && minimal.len() < 40, "{minimal:?}");
        assert_eq!(minimal.iter().filter(|operation| operation.is_read()).count(), 1);
    }
}
