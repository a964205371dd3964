//! Logs of flushes: what became visible, for those who watch.
//!
//! A log is a ring of entries with running numbers. Whoever knows the number of the last entry he read finds the
//! later ones without looking at anything else; whoever comes too late for one sees that it is gone.
use super::layout::{self, LOG_ENTRIES, LOG_ENTRY_BYTES, LOGS};
use super::{all_akeys, fetch_many, fetch_up_to, put};
use esker::{Access, Object, Transaction, Wait};
use esker_types::Result;
use esker_types::ops::{Cond, Update};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a running number.
const NUMBER: usize = 8;

/// Akey of the running number of the last entry of a log; those of entries have one byte.
const LAST: &[u8] = b"last";

/// The fields of a flush to one database: by index, their data.
type Flushed<'a> = &'a [(&'a str, Vec<&'a str>)];

/// Running numbers of the last entries, by log.
pub(super) type Marks = BTreeMap<u8, u64>;

/// A log for a new writer. Writers at work at once have different ones, as far as there are enough.
pub(super) fn of_writer() -> u8 {
    static WRITERS: AtomicU32 = AtomicU32::new(0);
    let writer = std::process::id().wrapping_add(WRITERS.fetch_add(1, Ordering::Relaxed));
    (writer % LOGS) as u8
}

/// Enters what a flush makes visible in one database. Writers of the same log are in each other's way: one
/// restarts.
pub(super) fn enter(
    index: &Object,
    log: u8,
    flushed: Flushed<'_>,
    transaction: &Transaction,
) -> Result<()> {
    let (dkey, access) = (layout::log(log), Access::Tx(transaction));
    let last = fetch_many(index, &dkey, &[LAST], access)?.pop().flatten();
    let entries = texts(flushed);
    let first = last.and_then(|last| number_of(&last)).unwrap_or(0) + 1;
    let count = entries.len() as u64;
    // Where they are more than the log keeps, nobody will find all of them: readers list the index.
    let (entries, last) = match count {
        0..=LOG_ENTRIES => (entries, first + count - 1),
        _ => (Vec::new(), first + LOG_ENTRIES),
    };
    let numbered =
        (first..).zip(&entries).map(|(number, text)| (slot(number), entry(number, text)));
    let numbered: Vec<([u8; 1], Vec<u8>)> = numbered.collect();
    let last = last.to_le_bytes();
    let mut updates: Vec<Update<'_>> =
        numbered.iter().map(|(akey, value)| put(akey, value)).collect();
    updates.push(put(LAST, &last));
    index.update(&dkey, Cond::NONE, &updates, access).wait()?;
    index.update(layout::FLUSHES, Cond::NONE, &[put(&[log], &last)], access).wait()
}

/// Running numbers of the last entries of an index.
pub(super) fn marks(index: &Object) -> Result<Marks> {
    let logs = all_akeys(index, layout::FLUSHES)?;
    let akeys: Vec<&[u8]> = logs.iter().map(Vec::as_slice).collect();
    let numbers = fetch_many(index, layout::FLUSHES, &akeys, Access::Latest)?;
    let mark =
        |(akey, value): (&[u8], Option<Vec<u8>>)| Some((*akey.first()?, number_of(&value?)?));
    Ok(akeys.into_iter().zip(numbers).filter_map(mark).collect())
}

/// What became visible since `before`: by index, the data. `None` where some of it is no longer in the logs.
pub(super) fn since(
    index: &Object,
    before: &Marks,
    now: &Marks,
) -> Result<Option<BTreeMap<String, BTreeSet<String>>>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (log, last) in now {
        let read = before.get(log).copied().unwrap_or(0);
        if last.checked_sub(read).is_none_or(|new| new > LOG_ENTRIES) {
            return Ok(None);
        }
        for number in read + 1..=*last {
            let Some(text) = text_of(index, *log, number)? else { return Ok(None) };
            for (index, data) in groups(&text) {
                found.entry(index.to_owned()).or_default().extend(data.map(str::to_owned));
            }
        }
    }
    Ok(Some(found))
}

/// The text of an entry, as long as no later one took its place.
fn text_of(index: &Object, log: u8, number: u64) -> Result<Option<String>> {
    let entry =
        fetch_up_to(LOG_ENTRY_BYTES, index, &layout::log(log), &slot(number), Access::Latest)?;
    let entry = entry.filter(|entry| number_of(entry) == Some(number));
    Ok(entry.and_then(|mut entry| String::from_utf8(entry.split_off(NUMBER)).ok()))
}

/// The akey of an entry.
fn slot(number: u64) -> [u8; 1] {
    [(number % LOG_ENTRIES) as u8]
}

fn entry(number: u64, text: &str) -> Vec<u8> {
    [&number.to_le_bytes(), text.as_bytes()].concat()
}

fn number_of(value: &[u8]) -> Option<u64> {
    value.first_chunk().copied().map(u64::from_le_bytes)
}

/// The texts of the entries of a flush, each as long as an entry may be. Keys have no control characters: a zero
/// byte ends an index, a new line each part of it.
fn texts(flushed: Flushed<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    let mut text = String::new();
    for (index, data) in flushed {
        let mut named = false;
        for datum in data {
            if NUMBER + text.len() + index.len() + datum.len() + 2 > LOG_ENTRY_BYTES {
                texts.push(std::mem::take(&mut text));
                named = false;
            }
            if !named {
                let end = if text.is_empty() { "" } else { "\0" };
                text.extend([end, index]);
                named = true;
            }
            text.extend(["\n", datum]);
        }
    }
    texts.push(text);
    texts
}

/// Each index of a text with its data.
fn groups(text: &str) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
    text.split('\0').filter_map(|group| {
        let mut parts = group.split('\n');
        Some((parts.next()?, parts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_comes_back_in_entries_that_are_short_enough() {
        let long = "x".repeat(900);
        let data: Vec<String> = (0..500).map(|number| format!("step={number},{long}")).collect();
        let data: Vec<&str> = data.iter().map(String::as_str).collect();
        let flushed = [("type=fc", data.clone()), ("", vec![""]), ("type=an", data)];
        let texts = texts(&flushed);
        assert!(texts.iter().all(|text| text.len() + NUMBER <= LOG_ENTRY_BYTES));
        assert!((15..20).contains(&texts.len()), "{}", texts.len());
        let back = texts.iter().flat_map(|text| groups(text));
        let back: Vec<_> =
            back.flat_map(|(index, data)| data.map(move |one| (index, one))).collect();
        let given =
            flushed.iter().flat_map(|(index, data)| data.iter().map(move |one| (*index, *one)));
        assert!(back.into_iter().eq(given));
    }

    #[test]
    fn writers_of_a_process_have_logs_of_their_own() {
        let logs: BTreeSet<u8> = (0..LOGS).map(|_| of_writer()).collect();
        // Other tests take some meanwhile.
        assert!(logs.len() > 32 && logs.iter().all(|log| u32::from(*log) < LOGS));
    }
}
