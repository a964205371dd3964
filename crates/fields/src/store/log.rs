//! Logs of flushes. Watchers read from them which fields became visible.
//!
//! A log is a ring of entries with sequence numbers. A reader that knows the number of the last entry it read finds
//! the later ones directly, and notices if some of them are overwritten.
use super::index::DatabaseIndex;
use super::layout::{self, LOG_ENTRIES, LOG_ENTRY_BYTES, LOGS};
use super::{damaged_catalogue_error, fetch_many, fetch_up_to, list_akeys, put, read_many};
use esker::{Access, Object, Transaction, Wait, side_by_side, task};
use esker_types::Result;
use esker_types::ops::{Cond, Update};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a sequence number.
const NUMBER: usize = 8;

/// Akey of the sequence number of the last entry of a log. The akeys of entries have one byte.
const LAST: &[u8] = b"last";

/// The fields of one flush to a database: by index, their data.
type Entered<'a> = &'a [(&'a str, Vec<&'a str>)];

/// Fields that became visible in a database: by index, their data.
pub(super) type Flushed = BTreeMap<String, BTreeSet<String>>;

/// Sequence numbers of the last entries, by stripe of the index and log.
pub(super) type Marks = BTreeMap<(u8, u8), u64>;

/// The log for a new writer. Concurrent writers get different logs while enough are free.
pub(super) fn of_writer() -> u8 {
    static WRITERS: AtomicU32 = AtomicU32::new(0);
    let writer = std::process::id().wrapping_add(WRITERS.fetch_add(1, Ordering::Relaxed));
    (writer % LOGS) as u8
}

/// Logs the fields that a flush makes visible in one database, in a stripe that the flush changes. Writers of the same
/// log conflict: one restarts.
pub(super) fn enter(
    index: &DatabaseIndex,
    log: u8,
    flushed: Entered<'_>,
    transaction: &Transaction,
) -> Result<()> {
    let first = flushed.iter().find_map(|(_, data)| data.first());
    let index = index.object_of(first.copied().unwrap_or_default().as_bytes());
    let (dkey, access) = (layout::log(log), Access::Tx(transaction));
    let last = fetch_many(index, &dkey, &[LAST], access)?.pop().flatten();
    let entries = texts(flushed);
    let first = last.map_or(Ok(0), |last| mark(&last))? + 1;
    let count = entries.len() as u64;
    // If the flush has more entries than a log can hold, readers do not find all of them and list the index.
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

/// Sequence numbers of the last entries of an index.
pub(super) fn marks(index: &DatabaseIndex, access: Access<'_>) -> Result<Marks> {
    let marks = index.stripes().map(|(stripe, object)| task(marks_of(stripe, object, access)));
    let marks: Vec<_> = side_by_side(marks.collect(), index.count()).wait();
    let marks = marks.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(marks.into_iter().flatten().collect())
}

/// Sequence number of the last entry of each log of a stripe.
async fn marks_of(stripe: u8, object: &Object, access: Access<'_>) -> Result<Vec<((u8, u8), u64)>> {
    let logs = list_akeys(object, layout::FLUSHES, access).await?;
    let akeys: Vec<&[u8]> = logs.iter().map(Vec::as_slice).collect();
    let numbers = read_many(object, layout::FLUSHES, &akeys, access).await?;
    let known = akeys.into_iter().zip(numbers);
    let known = known.filter_map(|(akey, value)| Some((akey.first()?, value?)));
    known.map(|(log, value)| Ok(((stripe, *log), mark(&value)?))).collect()
}

/// The sequence number of the last entry of a log.
fn mark(value: &[u8]) -> Result<u64> {
    number_of(value).ok_or_else(damaged_catalogue_error)
}

/// The fields that became visible since `before`: by index, their data. `None` if the logs no longer have all entries.
pub(super) fn since(index: &DatabaseIndex, before: &Marks, now: &Marks) -> Result<Option<Flushed>> {
    let mut found = Flushed::new();
    for ((stripe, log), last) in now {
        let object = index.stripe(*stripe)?;
        let read = before.get(&(*stripe, *log)).copied().unwrap_or(0);
        if last.checked_sub(read).is_none_or(|new| new > LOG_ENTRIES) {
            return Ok(None);
        }
        for number in read + 1..=*last {
            let Some(text) = text_of(object, *log, number)? else { return Ok(None) };
            let Some(groups) = groups(&text) else { return Ok(None) };
            for (index, data) in groups {
                found.entry(index.to_owned()).or_default().extend(data);
            }
        }
    }
    Ok(Some(found))
}

/// The text of an entry, unless a later one replaced it.
fn text_of(object: &Object, log: u8, number: u64) -> Result<Option<String>> {
    let entry =
        fetch_up_to(LOG_ENTRY_BYTES, object, &layout::log(log), &slot(number), Access::Latest)?;
    let entry = entry.filter(|entry| number_of(entry) == Some(number));
    Ok(entry.and_then(|mut entry| String::from_utf8(entry.split_off(NUMBER)).ok()))
}

/// The akey of log entry `number`. A log is a ring of [`LOG_ENTRIES`] akeys, so an entry overwrites an older one.
fn slot(number: u64) -> [u8; 1] {
    [(number % LOG_ENTRIES) as u8]
}

/// Stored form of an entry: its sequence number, then its text.
fn entry(number: u64, text: &str) -> Vec<u8> {
    [&number.to_le_bytes(), text.as_bytes()].concat()
}

/// The sequence number at the beginning of a value; `None` if the value is too short.
fn number_of(value: &[u8]) -> Option<u64> {
    value.first_chunk().copied().map(u64::from_le_bytes)
}

/// The texts of the entries of a flush, each at most as long as an entry may be. Keys have no control characters, so a
/// zero byte separates indexes and a newline precedes each datum. A datum is stored as the length of the prefix that it
/// shares with the previous datum, and the rest.
fn texts(flushed: Entered<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    let mut text = String::new();
    for (index, data) in flushed {
        let mut before = None;
        for datum in data {
            // The three bytes are the zero byte, the newline, and the length of the prefix.
            if NUMBER + text.len() + index.len() + datum.len() + 3 > LOG_ENTRY_BYTES {
                texts.push(std::mem::take(&mut text));
                before = None;
            }
            if before.is_none() {
                let end = if text.is_empty() { "" } else { "\0" };
                text.extend([end, index]);
            }
            let common = common(before.unwrap_or_default(), datum);
            text.extend(['\n', char::from(COMMON_ZERO + common)]);
            text.push_str(&datum[usize::from(common)..]);
            before = Some(*datum);
        }
    }
    texts.push(text);
    texts
}

/// The character for a shared prefix of length zero, and the number of characters after it.
const COMMON_ZERO: u8 = b' ';
const COMMON_MAX: u8 = b'~' - COMMON_ZERO;

/// Length in bytes of the common prefix of two texts, up to the longest that can be stored. It ends between characters.
fn common(a: &str, b: &str) -> u8 {
    let bytes =
        a.bytes().zip(b.bytes()).take(COMMON_MAX.into()).take_while(|(a, b)| a == b).count();
    let whole = (0..=bytes).rev().find(|end| b.is_char_boundary(*end));
    whole.and_then(|bytes| u8::try_from(bytes).ok()).unwrap_or(0)
}

/// The indexes in the text of an entry, with their data; `None` if the text is invalid.
fn groups(text: &str) -> Option<Vec<(&str, Vec<String>)>> {
    let groups = text.split('\0').map(|group| {
        let mut parts = group.split('\n');
        Some((parts.next()?, data(parts)?))
    });
    groups.collect()
}

/// Data of a log entry: each shares its beginning with the one before.
fn data<'a>(parts: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
    let mut before = String::new();
    let whole = parts.map(|part| {
        let common = part.bytes().next()?.checked_sub(COMMON_ZERO)?;
        let datum = [before.get(..common.into())?, part.get(1..)?].concat();
        before.clone_from(&datum);
        Some(datum)
    });
    whole.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(texts: &[String]) -> Vec<(&str, String)> {
        let all = texts.iter().flat_map(|text| groups(text).unwrap());
        all.flat_map(|(index, data)| data.into_iter().map(move |one| (index, one))).collect()
    }

    #[test]
    fn entries_are_short_enough_and_decode_to_their_fields() {
        let long = "x".repeat(900);
        let data: Vec<String> = (0..500).map(|number| format!("{number},{long}")).collect();
        let data: Vec<&str> = data.iter().map(String::as_str).collect();
        let flushed = [("type=fc", data.clone()), ("", vec![""]), ("type=an", data)];
        let texts = texts(&flushed);
        assert!(texts.iter().all(|text| text.len() + NUMBER <= LOG_ENTRY_BYTES));
        assert!((12..20).contains(&texts.len()), "{}", texts.len());
        let given = flushed
            .iter()
            .flat_map(|(index, data)| data.iter().map(|one| (*index, (*one).to_owned())));
        assert!(back(&texts).into_iter().eq(given));
    }

    #[test]
    fn prefix_shared_with_previous_datum_is_stored_as_length() {
        let data = vec!["step=0,name=\u{e9}a", "step=0,name=\u{e8}b", "step=0,name=\u{e8}b2", "x"];
        let texts = texts(&[("type=fc", data.clone())]);
        assert_eq!(texts, ["type=fc\n step=0,name=\u{e9}a\n,\u{e8}b\n/2\n x"]);
        let given: Vec<_> = data.iter().map(|one| ("type=fc", (*one).to_owned())).collect();
        assert_eq!(back(&texts), given);
    }

    #[test]
    fn writers_of_a_process_have_logs_of_their_own() {
        let logs: BTreeSet<u8> = (0..LOGS).map(|_| of_writer()).collect();
        // Other tests take some logs meanwhile.
        assert!(logs.len() > 32 && logs.iter().all(|log| u32::from(*log) < LOGS));
    }
}
