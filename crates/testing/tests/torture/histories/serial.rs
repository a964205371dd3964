//! Strict serializability of transactions that read lists and append unique values to them, as in Elle (Kingsbury and
//! Alvaro, 2020): the longest list of a key is the order of its writes, so every dependency between two transactions is
//! known. Together with the order in real time, they must not form a cycle.
use super::graph::{Cycle, Graph};
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write};

/// State of a transaction that its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Committed,
    Aborted,
    /// The client died or got no answer. The transaction may be committed at any time, or never.
    Unknown,
}

/// A transaction. Its reads do not see its own appends.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) client: u64,
    pub(super) begin: u64,
    /// Moment of the answer; meaningless if there was none.
    pub(super) end: u64,
    pub(super) state: State,
    pub(super) reads: Vec<(u64, Vec<u64>)>,
    pub(super) appends: Vec<(u64, u64)>,
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, begin, end, state, .. } = self;
        write!(f, "client {client} from {begin} to {end}, {state:?}:")?;
        for (key, list) in &self.reads {
            let last = &list[list.len().saturating_sub(3)..];
            write!(f, " read {key}: {} values, last {last:?};", list.len())?;
        }
        self.appends.iter().try_for_each(|(key, value)| write!(f, " append {key}: {value};"))
    }
}

/// The reason why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    /// It ended before the other began.
    RealTime,
    /// The next append to this key is that of the other.
    Ww(u64),
    /// The other read its append to this key.
    Wr(u64),
    /// It read this key without the other's append.
    Rw(u64),
}

/// Checks a history; the text of an error shows what is impossible.
pub(super) fn check(transactions: &[Transaction]) -> Result<(), String> {
    let history = History::new(transactions)?;
    match history.graph().shortest_cycle() {
        Some(cycle) => Err(history.describe(&cycle)),
        None => Ok(()),
    }
}

struct History<'t> {
    transactions: &'t [Transaction],
    /// The transaction that appended a value to a key.
    writers: HashMap<(u64, u64), usize>,
    /// The longest list of each key, with a transaction that read it.
    longest: BTreeMap<u64, (&'t [u64], usize)>,
}

impl<'t> History<'t> {
    fn new(transactions: &'t [Transaction]) -> Result<Self, String> {
        let mut history = Self { transactions, writers: HashMap::new(), longest: BTreeMap::new() };
        for (number, transaction) in transactions.iter().enumerate() {
            for append in &transaction.appends {
                history.writers.insert(*append, number);
            }
            for (key, list) in &transaction.reads {
                let longest = history.longest.entry(*key).or_insert((list, number));
                if list.len() > longest.0.len() {
                    *longest = (list, number);
                }
            }
        }
        history.check_lists()?;
        Ok(history)
    }

    /// Every list is a prefix of the longest one. That one has each value once, appended by a transaction that was not
    /// aborted. This holds for all reads, even those of aborted transactions.
    fn check_lists(&self) -> Result<(), String> {
        for (number, transaction) in self.transactions.iter().enumerate() {
            for (key, list) in &transaction.reads {
                let (longest, other) = self.longest[key];
                if !longest.starts_with(list) {
                    return Err(self.pair("two orders of one key", number, other));
                }
            }
        }
        self.longest
            .iter()
            .try_for_each(|(key, (list, reader))| self.check_values(*key, list, *reader))
    }

    /// Checks the values of a list that the transaction `reader` has read.
    fn check_values(&self, key: u64, list: &[u64], reader: usize) -> Result<(), String> {
        for (at, value) in list.iter().enumerate() {
            let Some(writer) = self.writers.get(&(key, *value)) else {
                let reader = &self.transactions[reader];
                return Err(format!("value {value} of key {key} was never appended: {reader}"));
            };
            if self.transactions[*writer].state == State::Aborted {
                return Err(self.pair("an aborted append was read", *writer, reader));
            }
            if list[..at].contains(value) {
                return Err(self.pair("a value was appended twice", *writer, reader));
            }
        }
        Ok(())
    }

    /// The message about two transactions.
    fn pair(&self, what: &str, first: usize, second: usize) -> String {
        format!("{what}:\n  {}\n  {}", self.transactions[first], self.transactions[second])
    }

    /// True if the transaction took effect: its client knows that, or a reader has seen it.
    fn is_committed(&self, number: usize) -> bool {
        let transaction = &self.transactions[number];
        match transaction.state {
            State::Committed => true,
            State::Aborted => false,
            State::Unknown => transaction.appends.iter().any(|(key, value)| {
                self.longest.get(key).is_some_and(|(list, _)| list.contains(value))
            }),
        }
    }

    /// The graph of the dependencies between all committed transactions.
    fn graph(&self) -> Graph<Edge> {
        let mut graph = Graph::new(self.transactions.len());
        let committed = (0..self.transactions.len()).filter(|number| self.is_committed(*number));
        let committed: Vec<_> = committed.collect();
        self.add_writes(&mut graph, &committed);
        self.add_reads(&mut graph, &committed);
        self.add_real_time(&mut graph, &committed);
        graph
    }

    /// The values of a key in the order of their appends, as far as a read has seen them.
    fn list(&self, key: u64) -> &'t [u64] {
        self.longest.get(&key).map_or(&[], |(list, _)| list)
    }

    /// Committed appends that no read has seen. They come after all appends that were seen, in an unknown order.
    fn unseen<'a>(&'a self, key: u64, committed: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
        let list = self.list(key);
        committed.iter().copied().filter(move |number| {
            let appends = &self.transactions[*number].appends;
            appends.iter().any(|(to, value)| *to == key && !list.contains(value))
        })
    }

    /// Adds an edge from each append to the next one of the same key.
    fn add_writes(&self, graph: &mut Graph<Edge>, committed: &[usize]) {
        for (key, (list, _)) in &self.longest {
            let writers: Vec<_> = list.iter().map(|value| self.writers[&(*key, *value)]).collect();
            writers.windows(2).for_each(|pair| graph.add(pair[0], pair[1], Edge::Ww(*key)));
            if let Some(last) = writers.last() {
                self.unseen(*key, committed)
                    .for_each(|next| graph.add(*last, next, Edge::Ww(*key)));
            }
        }
    }

    /// Adds an edge from the last append that a read has seen to its reader, and from the reader to the next append.
    fn add_reads(&self, graph: &mut Graph<Edge>, committed: &[usize]) {
        for reader in committed {
            for (key, list) in &self.transactions[*reader].reads {
                if let Some(last) = list.last() {
                    graph.add(self.writers[&(*key, *last)], *reader, Edge::Wr(*key));
                }
                match self.list(*key).get(list.len()) {
                    Some(next) => graph.add(*reader, self.writers[&(*key, *next)], Edge::Rw(*key)),
                    None => {
                        let unseen = self.unseen(*key, committed);
                        unseen.for_each(|next| graph.add(*reader, next, Edge::Rw(*key)));
                    }
                }
            }
        }
    }

    /// Adds an edge from each transaction to those that begin after its end, except those that other edges imply.
    fn add_real_time(&self, graph: &mut Graph<Edge>, committed: &[usize]) {
        let mut by_begin = committed.to_vec();
        by_begin.sort_unstable_by_key(|number| self.transactions[*number].begin);
        let is_known = |number: &&usize| self.transactions[**number].state == State::Committed;
        for earlier in committed.iter().filter(is_known) {
            let end = self.transactions[*earlier].end;
            let first = by_begin.partition_point(|later| self.transactions[*later].begin <= end);
            let mut soonest = u64::MAX;
            for later in &by_begin[first..] {
                let next = &self.transactions[*later];
                if next.begin > soonest {
                    break;
                }
                graph.add(*earlier, *later, Edge::RealTime);
                if next.state == State::Committed {
                    soonest = soonest.min(next.end);
                }
            }
        }
    }

    /// The transactions of a cycle, without those that are only between two others in time.
    fn describe(&self, cycle: &Cycle<Edge>) -> String {
        let mut text =
            "a cycle of transactions, each before the next, the last before the first:".to_owned();
        let before = cycle.iter().cycle().skip(cycle.len() - 1);
        for ((number, edge), (_, previous)) in cycle.iter().zip(before) {
            if *edge != Edge::RealTime || *previous != Edge::RealTime {
                let _ =
                    write!(text, "\n  {}\n    before, by {edge:?}:", self.transactions[*number]);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A committed transaction that lasts from `begin` to `end`.
    fn committed(
        (begin, end): (u64, u64),
        reads: &[(u64, &[u64])],
        appends: &[(u64, u64)],
    ) -> Transaction {
        let reads = reads.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        let (client, state) = (begin, State::Committed);
        Transaction { client, begin, end, state, reads, appends: appends.to_vec() }
    }

    fn unknown(transaction: Transaction) -> Transaction {
        Transaction { state: State::Unknown, ..transaction }
    }

    fn aborted(transaction: Transaction) -> Transaction {
        Transaction { state: State::Aborted, ..transaction }
    }

    /// Expects an error that contains this word.
    fn expect_error(word: &str, transactions: &[Transaction]) {
        let error = check(transactions).expect_err("an impossible history");
        assert!(error.contains(word), "{error}");
    }

    #[test]
    fn transactions_one_after_the_other_are_accepted() {
        let history = [
            committed((1, 2), &[(1, &[])], &[(1, 10)]),
            committed((3, 4), &[(1, &[10])], &[(1, 20), (2, 21)]),
            aborted(committed((3, 5), &[(1, &[10])], &[(1, 30)])),
            committed((6, 7), &[(1, &[10, 20]), (2, &[21])], &[]),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn transactions_at_the_same_time_may_have_any_order() {
        for list in [[10, 20], [20, 10]] {
            let history = [
                committed((1, 9), &[], &[(1, 10)]),
                committed((2, 8), &[], &[(1, 20)]),
                committed((10, 11), &[(1, &list)], &[]),
            ];
            assert_eq!(check(&history), Ok(()));
        }
    }

    #[test]
    fn stale_read_is_detected() {
        let write = committed((1, 2), &[], &[(1, 10)]);
        let stale = committed((3, 4), &[(1, &[])], &[]);
        expect_error("RealTime", &[write.clone(), stale, committed((5, 6), &[(1, &[10])], &[])]);
        // The same, if no read has seen the value at all.
        expect_error("Rw(1)", &[write, committed((3, 4), &[(1, &[])], &[])]);
    }

    #[test]
    fn lost_update_is_detected() {
        let both = [
            committed((1, 9), &[(1, &[])], &[(1, 10)]),
            committed((2, 8), &[(1, &[])], &[(1, 20)]),
            committed((10, 11), &[(1, &[20])], &[]),
        ];
        expect_error("cycle", &both);
        let merged = [&both[..2], &[committed((10, 11), &[(1, &[10, 20])], &[])]].concat();
        expect_error("Rw(1)", &merged);
    }

    #[test]
    fn write_skew_is_detected() {
        let skew = [
            committed((1, 9), &[(1, &[]), (2, &[])], &[(1, 10)]),
            committed((2, 8), &[(1, &[]), (2, &[])], &[(2, 20)]),
            committed((10, 11), &[(1, &[10]), (2, &[20])], &[]),
        ];
        expect_error("Rw(2)", &skew);
        let serial = committed((2, 8), &[(1, &[10]), (2, &[])], &[(2, 20)]);
        assert_eq!(check(&[skew[0].clone(), serial, skew[2].clone()]), Ok(()));
    }

    #[test]
    fn partial_transaction_is_detected() {
        let write = |end| committed((1, end), &[], &[(1, 10), (2, 20)]);
        let half = committed((2, 3), &[(1, &[10]), (2, &[])], &[]);
        let whole = committed((100, 101), &[(1, &[10]), (2, &[20])], &[]);
        expect_error("Wr(1)", &[write(9), half.clone(), whole.clone()]);
        expect_error("Wr(1)", &[unknown(write(9)), half.clone(), whole]);
        // The other half is never seen.
        expect_error("Wr(1)", &[unknown(write(9)), half]);
    }

    #[test]
    fn readers_see_one_order() {
        let writes = [committed((1, 20), &[], &[(1, 10)]), committed((1, 20), &[], &[(2, 20)])];
        let readers = [
            committed((2, 19), &[(1, &[10]), (2, &[])], &[]),
            committed((2, 19), &[(1, &[]), (2, &[20])], &[]),
        ];
        expect_error("cycle", &[&writes[..], &readers].concat());
        let two =
            [committed((2, 3), &[(1, &[10, 11])], &[]), committed((2, 3), &[(1, &[11])], &[])];
        let writes = [committed((1, 9), &[], &[(1, 10)]), committed((1, 9), &[], &[(1, 11)])];
        expect_error("two orders", &[&writes[..], &two].concat());
    }

    #[test]
    fn transaction_without_answer_may_commit_late_or_never() {
        let lost = unknown(committed((1, 2), &[(1, &[])], &[(1, 10), (2, 11)]));
        let empty = committed((3, 4), &[(1, &[]), (2, &[])], &[]);
        let late = committed((5, 6), &[(1, &[10]), (2, &[11])], &[]);
        assert_eq!(check(&[lost.clone(), empty.clone()]), Ok(()));
        assert_eq!(check(&[lost.clone(), empty, late.clone()]), Ok(()));
        let again = committed((7, 8), &[(1, &[10, 10]), (2, &[11])], &[]);
        expect_error("twice", &[lost.clone(), late.clone(), again]);
        let gone = committed((7, 8), &[(1, &[]), (2, &[])], &[]);
        expect_error("RealTime", &[lost, late, gone]);
    }

    #[test]
    fn aborted_or_unknown_value_is_detected() {
        let abort = aborted(committed((1, 2), &[], &[(1, 10)]));
        expect_error("aborted", &[abort, committed((3, 4), &[(1, &[10])], &[])]);
        expect_error("never appended", &[committed((3, 4), &[(1, &[10])], &[])]);
    }
}
