//! Redo log of a target: the puts in its write buffer, on the medium.
//!
//! In a pool with durability `commit`, a put into the write buffer is acknowledged once its entry in the redo log is
//! synced. After a restart of the machine, the write buffer is loaded from the log (decision 0076).
//!
//! The log is a part of the data file, so one sync stores the data of puts and their entries. Entries that are synced
//! together are a *batch*. Each write buffer begins the log anew. Its entries have the id of the last transaction before
//! the buffer (`from`). `docs/format.md` has the layout.
use crate::format::superblock::REDO_LOG_BYTES;
use crate::io::crc32c;
use crate::shared::write_buffer::{BUFFER_LEN, PUT_LEN_MIN, Put};
use std::ops::RangeInclusive;

/// Bytes of an entry before its put: base, end of the previous batch, checksum.
const HEAD: usize = 16;
/// Entries begin at multiples of this number of bytes.
const ALIGN: usize = 8;
/// Follows the entries of a batch, in place of the base of an entry. Entries of an earlier batch may be behind it, whose
/// process died or whose sync failed: they must not count as entries of this one.
const END: [u8; 8] = [0xff; 8];

/// The entries of a full write buffer fit: each has one word more than its put in the buffer.
const _: () = assert!((BUFFER_LEN + BUFFER_LEN / PUT_LEN_MIN) * 8 <= REDO_LOG_BYTES as usize);

/// Entries of one batch.
pub(crate) struct Batch {
    base: u64,
    /// Position of the batch in the log. All before it is on the medium.
    begin: usize,
    bytes: Vec<u8>,
}

impl Batch {
    /// A batch of a write buffer on top of state `base`, behind a number of puts that take a number of words in the
    /// buffer. Each entry of the log has one word more than its put.
    pub(crate) fn behind(base: u64, (puts, words): (u64, usize)) -> Self {
        let begin = (puts as usize + words) * size_of::<u64>();
        Self { base, begin, bytes: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Position in the log at which the entries begin, and the encoded entries with the end mark, if it fits.
    pub(super) fn into_part(mut self) -> (u64, Vec<u8>) {
        if self.begin + self.bytes.len() + END.len() <= REDO_LOG_BYTES as usize {
            self.bytes.extend_from_slice(&END);
        }
        (self.begin as u64, self.bytes)
    }

    /// Appends an entry.
    pub(crate) fn add(&mut self, put: &Put<'_>) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&self.base.to_le_bytes());
        self.bytes.extend_from_slice(&(self.begin as u32).to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        put.encode(&mut self.bytes);
        let sum = checksum(self.begin + at, &self.bytes[at..]);
        self.bytes[at + HEAD - 4..at + HEAD].copy_from_slice(&sum);
    }
}

/// Checksum of an entry and its position in the log. The checksum itself is not covered.
fn checksum(at: usize, entry: &[u8]) -> [u8; 4] {
    let (head, put) = entry.split_at(HEAD);
    let position = crc32c(&(at as u64).to_le_bytes());
    (crc32c(&head[..HEAD - 4]) ^ crc32c(put).rotate_left(1) ^ position.rotate_left(2)).to_le_bytes()
}

/// An entry of a log.
#[derive(Clone, Copy)]
struct Entry<'l> {
    base: u64,
    /// Position of its batch.
    batch: usize,
    put: Put<'l>,
    len: usize,
}

impl<'l> Entry<'l> {
    /// The entry at a position; `None` if there is none with one of the `bases`.
    fn parse(log: &'l [u8], at: usize, bases: &RangeInclusive<u64>) -> Option<Self> {
        let entry = log.get(at..)?;
        let base = u64::from_le_bytes(*entry.first_chunk()?);
        if !bases.contains(&base) {
            return None;
        }
        let (put, len) = Put::decode(entry.get(HEAD..)?)?;
        let (entry, sum) = (&entry[..HEAD + len], entry.get(HEAD - 4..HEAD)?);
        let batch = u32::from_le_bytes(*entry[8..].first_chunk()?) as usize;
        let is_sound = checksum(at, entry) == sum && put.is_intact();
        is_sound.then_some(Self { base, batch, put, len: entry.len() })
    }
}

/// Puts of a log that no commit includes.
#[derive(Default)]
pub(crate) struct Log<'l> {
    /// State of the index that they are on top of.
    pub(crate) base: u64,
    entries: Vec<Entry<'l>>,
    /// True if entries are damaged that were on the medium. Then the entries are those that are left.
    pub(crate) is_damaged: bool,
    /// True if the log has other entries than these, which were not acknowledged.
    pub(crate) has_dropped: bool,
}

impl<'l> Log<'l> {
    /// Parses a log of puts on top of one of the states `bases`. The puts have the newest base among them: entries with
    /// an older one are left from a process that died before it published its puts.
    ///
    /// The last batch may be incomplete, since it was not acknowledged if the machine stopped during its sync. Then the
    /// log ends before the first entry that is missing. Any other missing entry is damage.
    pub(crate) fn parse(log: &'l [u8], bases: &RangeInclusive<u64>) -> Self {
        let all = entries_in(log, bases);
        let Some(base) = all.iter().map(|(_, entry)| entry.base).max() else {
            return Self::default();
        };
        let (mut found, mut gap, mut end) = (Self { base, ..Self::default() }, None, 0);
        for (at, entry) in all.iter().filter(|(_, entry)| entry.base == base) {
            if *at > end {
                gap.get_or_insert((end, found.entries.len()));
            }
            // A batch behind the gap shows that the missing entry was on the medium.
            found.is_damaged |= gap.is_some_and(|(gap, _)| entry.batch > gap);
            found.entries.push(*entry);
            end = at + entry.len;
        }
        if let Some((_, count)) = gap.filter(|_| !found.is_damaged) {
            found.entries.truncate(count);
        }
        found.has_dropped = found.entries.len() < all.len();
        found
    }

    /// Position behind the entries, which begin at the start of the log.
    pub(crate) fn end(&self) -> usize {
        self.entries.iter().map(|entry| entry.len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn puts(&self) -> impl Iterator<Item = Put<'l>> {
        self.entries.iter().map(|entry| entry.put)
    }

    /// Drops the puts of the last batch from the first one on that is not `complete`: its entry is on the medium, but
    /// its data is not.
    pub(crate) fn cut(&mut self, complete: impl Fn(&Put<'l>) -> bool) {
        let Some(last) = self.entries.last().map(|entry| entry.batch) else { return };
        let of_last = self.entries.partition_point(|entry| entry.batch < last);
        let is_incomplete = |entry: &Entry<'l>| !complete(&entry.put);
        if let Some(first) = self.entries[of_last..].iter().position(is_incomplete) {
            self.entries.truncate(of_last + first);
            self.has_dropped = true;
        }
    }
}

/// The entries of a log with one of the `bases`, with their positions. Everything else is skipped.
fn entries_in<'l>(log: &'l [u8], bases: &RangeInclusive<u64>) -> Vec<(usize, Entry<'l>)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < log.len() {
        match Entry::parse(log, at, bases) {
            Some(entry) => {
                found.push((at, entry));
                at += entry.len;
            }
            None => at += ALIGN,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::keys::{Key, Table};
    use crate::format::long_keys::LeftOut;
    use crate::format::record::{Body, Record, RecordBytes};
    use esker_types::info::ContainerId;
    use esker_types::{Epoch, ObjectClass, ObjectId, ObjectType};

    /// Keys and records of puts.
    struct Puts(Vec<(Key, RecordBytes)>);

    impl Puts {
        fn new() -> Self {
            let oid = ObjectId::generate(0, 1, ObjectType::KvHashed, ObjectClass::S1);
            let put = |length: usize| {
                let dkey = Key::dkey(Table::Data, ContainerId(1), oid, &b"long dkey"[..length]);
                let key = dkey.unwrap().akey(oid, b"a").unwrap().single();
                let (body, mut bytes) = (Body::Inline(&key[..3 * length]), RecordBytes::new());
                let left_out = LeftOut::default();
                let record = Record {
                    epoch: Epoch(9),
                    record_size: 3 * length as u32,
                    count: 1,
                    left_out,
                    body,
                };
                record.encode(&key[1..], &mut bytes);
                (key.clone(), bytes)
            };
            Self([3, 9, 1, 4].map(put).into())
        }

        fn get(&self, number: usize) -> Put<'_> {
            let (key, record) = &self.0[number];
            Put { key, record, count: 0 }
        }
    }

    /// A log of batches with a number of entries each, and the ends of its entries.
    fn log(base: u64, batches: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let (mut log, mut ends, mut number) = (Vec::new(), Vec::new(), 0);
        let (mut size, puts) = ((0, 0), Puts::new());
        for count in batches {
            let mut batch = Batch::behind(base, size);
            for _ in 0..*count {
                let before = batch.bytes.len();
                batch.add(&puts.get(number));
                // An entry has one word more than its put in a buffer.
                size = (size.0 + 1, size.1 + (batch.bytes.len() - before) / 8 - 1);
                ends.push(batch.begin + batch.bytes.len());
                number += 1;
            }
            assert_eq!(batch.begin, log.len());
            log.extend_from_slice(&batch.bytes);
        }
        log.resize(2048, 0);
        (log, ends)
    }

    /// Number of entries that are found in a log, and true if the log is damaged.
    fn found(log: &[u8], bases: RangeInclusive<u64>) -> (usize, bool) {
        let (log, puts) = (Log::parse(log, &bases), Puts::new());
        let is_right = |(number, put): (usize, Put<'_>)| put == puts.get(number);
        assert!(log.is_damaged || log.puts().enumerate().all(is_right));
        (log.entries.len(), log.is_damaged)
    }

    #[test]
    fn entries_of_other_buffers_are_ignored() {
        let (log, _) = log(7, &[1, 2, 1]);
        assert_eq!(found(&log, 6..=9), (4, false));
        for bases in [8..=9, 0..=6] {
            assert_eq!(found(&log, bases), (0, false));
        }
    }

    /// A new log overwrites an old one.
    #[test]
    fn rest_of_older_log_is_ignored() {
        let (old, _) = log(7, &[4]);
        for count in 0..4 {
            let (new, ends) = log(8, &[count]);
            let len = ends.last().copied().unwrap_or(0);
            let both = [&new[..len], &old[len..]].concat();
            assert_eq!(found(&both, 8..=9), (count, false));
        }
    }

    /// An entry of the last batch may be missing, but no other one.
    #[test]
    fn any_damaged_byte_ends_last_batch_or_is_reported() {
        let (sound, ends) = log(7, &[2, 2]);
        for at in 0..ends[3] {
            let mut log = sound.clone();
            log[at] ^= 1 << (at % 8);
            let number = ends.iter().position(|end| at < *end).unwrap();
            let expected = if number < 2 { (3, true) } else { (number, false) };
            assert_eq!(found(&log, 6..=9), expected, "byte {at}");
        }
    }

    /// The write of a batch is interrupted by a power failure. The sector in which it begins also has entries of the
    /// batch before, which are written again with the same bytes.
    #[test]
    fn torn_batch_leaves_previous_batches_intact() {
        let (first, ends) = log(7, &[2]);
        let (second, all) = log(7, &[2, 2]);
        let older = log(6, &[1, 1, 1, 1]).0;
        let begin = ends[1];
        let mut before = [&first[..begin], &END, &older[begin + END.len()..]].concat();
        before.truncate(second.len());
        for cut in 0..=all[3] {
            let new_first = [&second[..cut], &before[cut..]].concat();
            let old_first = [&before[..cut], &second[cut..]].concat();
            for torn in [new_first, old_first] {
                let (count, is_damaged) = found(&torn, 7..=9);
                assert!(count >= 2 && !is_damaged, "{count} entries, torn at {cut}");
            }
        }
    }

    #[test]
    fn last_batch_is_cut_where_its_data_is_missing() {
        let ((log, _), puts) = (log(7, &[1, 3]), Puts::new());
        for (missing, left) in [(0, 4), (1, 1), (2, 2), (3, 3)] {
            let mut log = Log::parse(&log, &(6..=9));
            log.cut(|put| *put != puts.get(missing));
            assert_eq!(log.entries.len(), left, "without the data of put {missing}");
        }
    }

    #[test]
    fn fuzz_redo_logs() {
        let (log, _) = log(7, &[2, 2]);
        esker_testing::fuzz("redo-log", &[log], |bytes| {
            let log = Log::parse(bytes, &(1..=u64::MAX));
            assert!(log.puts().all(|put| put.is_intact()));
        });
    }
}
