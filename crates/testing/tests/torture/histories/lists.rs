//! Clients that read lists and append to them: in transactions over several keys, in single reads and in snapshots.
use super::client::{Client, Outcome};
use super::journal::Entry;
use super::serial::{self, State, Transaction};
use esker::{Access, Container, Kv, Wait};
use esker_types::ops::Cond;
use esker_types::{ObjectClass, ObjectType, Result};
use std::fmt::Write;

/// Lists, one in each object.
const LISTS: u64 = 5;

/// The objects with the lists.
pub(super) struct Lists {
    container: Container,
    objects: Vec<Kv>,
}

/// Lists that one transaction has read, each with its key.
type Reads = Vec<(u64, Vec<u64>)>;

impl Lists {
    pub(super) fn open(container: Container) -> Result<Self> {
        let object = |number| {
            let (otype, class) = (ObjectType::KvHashed, Some(ObjectClass::S1));
            container.kv(container.generate_oid(0, number, otype, class, 0)?)
        };
        let objects = (10..10 + LISTS).map(object).collect::<Result<_>>()?;
        Ok(Self { container, objects })
    }

    fn get(&self, key: u64, access: Access<'_>) -> Result<Vec<u64>> {
        let bytes = self.objects[key as usize].get(b"list", access).wait()?.unwrap_or_default();
        let values = bytes.chunks(8);
        Ok(values
            .map(|value| u64::from_le_bytes(value.try_into().expect("a whole value")))
            .collect())
    }

    fn put(&self, key: u64, list: &[u64], access: Access<'_>) -> Result<()> {
        let bytes: Vec<_> = list.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.objects[key as usize].put(b"list", &bytes, Cond::NONE, access).wait()
    }

    fn get_all(&self, keys: &[u64], access: Access<'_>) -> Result<Reads> {
        keys.iter().map(|key| self.get(*key, access).map(|list| (*key, list))).collect()
    }

    /// Performs one operation that is drawn.
    pub(super) fn work(&self, client: &mut Client<'_>) {
        match client.random.below(100) {
            0..60 => self.append(client),
            60..75 => self.read_together(client),
            75..98 => {
                let key = client.random.below(LISTS);
                let begin = client.journal.begin();
                let read = self.get_all(&[key], Access::Latest);
                note_reads(client, begin, read);
            }
            _ => self.read_snapshot(client),
        }
    }

    /// Reads every list, in a transaction and at a moment when no other client works.
    pub(super) fn read_all(&self, client: &mut Client<'_>) {
        let begin = client.journal.begin();
        let keys: Vec<_> = (0..LISTS).collect();
        let read = self
            .container
            .transact(100, |transaction| self.get_all(&keys, Access::Tx(transaction)));
        assert!(read.is_ok(), "the last read: {read:?}");
        note_reads(client, begin, read);
    }

    /// Reads one to three keys, and appends values to some of them.
    fn append(&self, client: &mut Client<'_>) {
        let begin = client.journal.begin();
        let keys = draw_keys(client, 3);
        let written = client.random.within(1..keys.len() as u64 + 1) as usize;
        let transaction = self.container.transaction().expect("a transaction");
        let access = Access::Tx(&transaction);
        let Outcome::Done(reads) = client.classify(self.get_all(&keys, access)) else { return };
        client.hesitate(4);
        let appends: Vec<_> =
            keys[..written].iter().map(|key| (*key, client.next_value())).collect();
        client.journal.note_request(begin, &text_of(&reads, &appends));
        let puts = reads.iter().zip(&appends).try_for_each(|((key, list), (_, value))| {
            self.put(*key, &[list, &[*value][..]].concat(), access)
        });
        match client.classify(puts.and_then(|()| transaction.commit().wait())) {
            Outcome::Done(()) => client.journal.note_answer("ok"),
            Outcome::Aborted => client.journal.note_answer("aborted"),
            Outcome::Unknown => {}
        }
    }

    /// Reads several lists in a read-only transaction.
    fn read_together(&self, client: &mut Client<'_>) {
        let begin = client.journal.begin();
        let keys = draw_keys(client, LISTS);
        let transaction = self.container.transaction_read_only().expect("a transaction");
        let reads = self.get_all(&keys, Access::Tx(&transaction));
        client.hesitate(4);
        note_reads(
            client,
            begin,
            reads.and_then(|reads| transaction.commit().wait().map(|()| reads)),
        );
    }

    /// Takes a snapshot, which shows the moment at which it was taken whenever it is read.
    fn read_snapshot(&self, client: &mut Client<'_>) {
        let begin = client.journal.begin();
        let taken = self.container.create_snapshot("").wait();
        let Outcome::Done(epoch) = client.classify(taken) else { return };
        let end = client.journal.begin();
        client.hesitate(4);
        let keys: Vec<_> = (0..LISTS).collect();
        let reads = self.get_all(&keys, Access::Snapshot(epoch));
        if let Outcome::Done(reads) = client.classify(reads) {
            client.journal.note_request(begin, &format!("until {end} {}", text_of(&reads, &[])));
            client.journal.note_answer("ok");
        }
        client.classify(self.container.destroy_snapshot(epoch).wait());
    }
}

/// Different keys in random order: one at least, `most` at most.
fn draw_keys(client: &mut Client<'_>, most: u64) -> Vec<u64> {
    let mut keys: Vec<_> = (0..LISTS).collect();
    let count = client.random.within(1..most + 1) as usize;
    for at in 0..count {
        let other = client.random.within(at as u64..LISTS) as usize;
        keys.swap(at, other);
    }
    keys.truncate(count);
    keys
}

/// Notes the reads. Reads without a result prove nothing and are not noted.
fn note_reads(client: &mut Client<'_>, begin: u64, reads: Result<Reads>) {
    if let Outcome::Done(reads) = client.classify(reads) {
        client.journal.note_request(begin, &text_of(&reads, &[]));
        client.journal.note_answer("ok");
    }
}

/// Formats a transaction, such as `read 3:1,2 append 3:5`.
fn text_of(reads: &Reads, appends: &[(u64, u64)]) -> String {
    let mut text = "read".to_owned();
    for (key, list) in reads {
        let list: Vec<_> = list.iter().map(u64::to_string).collect();
        let _ = write!(text, " {key}:{}", list.join(","));
    }
    text.push_str(" append");
    for (key, value) in appends {
        let _ = write!(text, " {key}:{value}");
    }
    text
}

/// The transaction that an entry of a journal describes.
fn transaction_of(entry: &Entry) -> Transaction {
    let (mut until, mut text) = (None, entry.request.as_str());
    if let Some(rest) = text.strip_prefix("until ") {
        let (moment, rest) = rest.split_once(' ').expect("a moment");
        (until, text) = (moment.parse().ok(), rest);
    }
    let (reads, appends) = text.split_once(" append").expect("appends");
    let reads = lists_of(reads.strip_prefix("read").expect("reads"));
    let single = |(key, list): (u64, Vec<u64>)| (key, list[0]);
    let appends = lists_of(appends).into_iter().map(single).collect();
    let state = match &entry.answer {
        Some((_, answer)) if answer == "ok" => State::Committed,
        Some(_) => State::Aborted,
        None => State::Unknown,
    };
    let end = until.or(entry.answer.as_ref().map(|(end, _)| *end)).unwrap_or(u64::MAX);
    Transaction { client: entry.client, begin: entry.begin, end, state, reads, appends }
}

/// Parses `3:1,2 4:`.
fn lists_of(text: &str) -> Reads {
    let pairs = text.split_whitespace().filter_map(|pair| pair.split_once(':'));
    let parse = |(key, list): (&str, &str)| {
        let values = list.split(',').filter(|value| !value.is_empty());
        let values = values.map(|value| value.parse().expect("a value"));
        (key.parse().expect("a key"), values.collect())
    };
    pairs.map(parse).collect()
}

/// Checks the history. Returns the number of transactions, and of those with an unknown result.
pub(super) fn check(entries: &[Entry]) -> std::result::Result<(u64, u64), String> {
    let transactions: Vec<_> = entries.iter().map(transaction_of).collect();
    serial::check(&transactions)?;
    let unknown = transactions.iter().filter(|transaction| transaction.state == State::Unknown);
    Ok((transactions.len() as u64, unknown.count() as u64))
}
