//! Records, which are the values of the data table. `docs/format.md` has their layout.
//!
//! A record contains the epoch of a write, and either its data or its location in a segment. The last four bytes are a
//! checksum over key and record, so that damage of the index is detected.
use super::keys::{DataKey, Table};
use super::long_keys::LeftOut;
use crate::io::crc32c;
use esker_types::limits::CHECKSUM_CHUNK;
use esker_types::{Checksum, Epoch, Error, ErrorKind, Extent, Result};
use smallvec::SmallVec;

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'r> {
    /// Epoch of the write.
    pub(crate) epoch: Epoch,
    /// Bytes per array record, or bytes of the single value.
    pub(crate) record_size: u32,
    /// Number of array records; one for a single value.
    pub(crate) count: u64,
    /// Bytes of dkey and akey that the index key omits.
    pub(crate) left_out: LeftOut<'r>,
    /// The data or its location.
    pub(crate) body: Body<'r>,
}

/// The data of a record or its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'r> {
    /// Data in the index.
    Inline(&'r [u8]),
    /// Data in a segment.
    Segment(Location<'r>),
}

/// A location in a segment, with checksums.
///
/// Each checksum covers [`CHECKSUM_CHUNK`] bytes, from `base` on, `covered` bytes in total. If an extent is cut, the
/// remaining part keeps the checksums of all chunks that it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location<'r> {
    pub(crate) segment: u32,
    /// Offset of the first byte in the segment.
    pub(crate) offset: u32,
    /// Offset of the first byte that a checksum covers.
    pub(crate) base: u32,
    /// Number of bytes that the checksums cover.
    pub(crate) covered: u32,
    pub(crate) checksum: Checksum,
    pub(crate) sums: &'r [u8],
}

/// An encoded record. Small ones need no allocation.
pub(crate) type RecordBytes = SmallVec<[u8; 192]>;

const IN_SEGMENT: u8 = 1;
/// Flag: bytes that the key omits follow the fixed fields.
const KEY_OMITS: u8 = 2;
const CHECKSUM_SHIFT: u8 = 4;
pub(crate) const CHECKSUM_LEN: usize = 4;

/// Checksum over the key (without the table byte) and the record.
pub(crate) fn checksum_of(key: &[u8], record: &[u8]) -> [u8; CHECKSUM_LEN] {
    (crc32c(record) ^ crc32c(key).rotate_left(1)).to_le_bytes()
}

fn damaged_error() -> Error {
    Error::new(
        ErrorKind::Checksum,
        "an index record does not match its checksum: run `esker pool check`",
    )
}

impl<'r> Record<'r> {
    /// Number of bytes of the data.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.record_size) * self.count
    }

    /// Appends to `out` the record, encoded for `key` (without the table byte).
    pub(crate) fn encode(&self, key: &[u8], out: &mut RecordBytes) {
        let from = out.len();
        let flags = match self.body {
            Body::Inline(_) => 0,
            Body::Segment(place) => IN_SEGMENT | (place.checksum as u8) << CHECKSUM_SHIFT,
        };
        let cut = if self.left_out.is_empty() { 0 } else { KEY_OMITS };
        let mut fixed = [flags | cut; 1 + 8 + 4 + 8];
        fixed[1..9].copy_from_slice(&self.epoch.0.to_le_bytes());
        fixed[9..13].copy_from_slice(&self.record_size.to_le_bytes());
        fixed[13..].copy_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&fixed);
        if cut != 0 {
            self.left_out.encode(out);
        }
        match self.body {
            Body::Inline(data) => out.extend_from_slice(data),
            Body::Segment(place) => place.encode(out),
        }
        let checksum = checksum_of(key, &out[from..]);
        out.extend_from_slice(&checksum);
    }

    /// Decodes the record of `key` (without the table byte).
    ///
    /// # Errors
    /// [`ErrorKind::Checksum`] if record or key are damaged, or do not match.
    pub(crate) fn decode(key: &[u8], bytes: &'r [u8]) -> Result<Self> {
        let (record, sum) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or_else(damaged_error)?;
        if *sum != checksum_of(key, record) {
            return Err(damaged_error());
        }
        Self::parse(record).ok_or_else(damaged_error)
    }

    /// Parses a record without its checksum; `None` if it is too short or inconsistent.
    fn parse(bytes: &'r [u8]) -> Option<Self> {
        let (flags, rest) = bytes.split_first()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (record_size, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let (left_out, rest) = match flags & KEY_OMITS {
            0 => (LeftOut::default(), rest),
            _ => LeftOut::split(rest)?,
        };
        let body = match flags & IN_SEGMENT {
            0 => Body::Inline(rest),
            _ => Body::Segment(Location::parse(flags >> CHECKSUM_SHIFT, rest)?),
        };
        let record = Self {
            epoch: Epoch(u64::from_le_bytes(*epoch)),
            record_size: u32::from_le_bytes(*record_size),
            count: u64::from_le_bytes(*count),
            left_out,
            body,
        };
        record.is_sound().then_some(record)
    }

    /// True if an encoded record contains its data. The record may be damaged.
    pub(crate) fn is_inline(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|flags| flags & IN_SEGMENT == 0)
    }

    /// Epoch of an encoded record. Its checksum is not verified.
    pub(crate) fn epoch_of(bytes: &[u8]) -> Result<Epoch> {
        let epoch = bytes.split_first().and_then(|(_flags, rest)| rest.first_chunk());
        epoch.map(|epoch| Epoch(u64::from_le_bytes(*epoch))).ok_or_else(damaged_error)
    }

    /// True if sizes, locations and number of checksums are consistent. A valid checksum does not imply that, since
    /// anyone who can write to the files can compute one.
    fn is_sound(&self) -> bool {
        let Some(bytes) = u64::from(self.record_size).checked_mul(self.count) else { return false };
        match self.body {
            Body::Inline(data) => data.len() as u64 == bytes,
            Body::Segment(place) => place.is_sound(bytes),
        }
    }

    /// The array records `part` of this record. `start` is the index of the first array record of this one.
    pub(crate) fn cut(&self, start: u64, part: Extent) -> Self {
        let size = u64::from(self.record_size);
        let (skip, len) = ((part.start - start) * size, part.count * size);
        let body = match self.body {
            Body::Inline(data) => {
                let (skip, end) = (skip as usize, (skip + len) as usize);
                Body::Inline(data.get(skip..end).unwrap_or_default())
            }
            Body::Segment(place) => Body::Segment(place.cut(skip as u32, len as u32)),
        };
        Self { count: part.count, body, ..*self }
    }

    /// Number of the segment that the record refers to, and number of bytes that it keeps live there; `None` for inline
    /// data.
    pub(crate) fn segment_use(&self) -> Option<(u32, u64)> {
        match self.body {
            Body::Inline(_) => None,
            Body::Segment(place) => Some((place.segment, self.bytes())),
        }
    }
}

impl<'r> Location<'r> {
    fn encode(&self, out: &mut RecordBytes) {
        let words = [self.segment, self.offset, self.base, self.covered].map(u32::to_le_bytes);
        out.extend_from_slice(words.as_flattened());
        out.extend_from_slice(self.sums);
    }

    /// Parses a location. `checksum` is the code of the kind of its checksums.
    fn parse(checksum: u8, bytes: &'r [u8]) -> Option<Self> {
        let checksum = Checksum::from_code(checksum)?;
        let (words, sums) = bytes.split_first_chunk::<16>()?;
        let word = |at: usize| {
            u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]])
        };
        let (segment, offset, base, covered) = (word(0), word(4), word(8), word(12));
        Some(Self { segment, offset, base, covered, checksum, sums })
    }

    /// True if all `bytes` bytes are covered and each chunk has a checksum.
    fn is_sound(&self, bytes: u64) -> bool {
        let skipped = self.offset.checked_sub(self.base);
        let chunks = Checksum::chunks(self.covered as usize);
        self.base.checked_add(self.covered).is_some()
            && skipped.is_some_and(|skipped| u64::from(skipped) + bytes <= u64::from(self.covered))
            && self.sums.len() == chunks * self.checksum.width()
    }

    /// True if the checksum of a chunk is this CRC-32C.
    pub(crate) fn has_crc32c(&self, chunk: u64, sum: u32) -> bool {
        let sums = self.sums.as_chunks().0;
        self.checksum == Checksum::Crc32c && sums.get(chunk as usize) == Some(&sum.to_le_bytes())
    }

    /// Location of the `len` bytes from byte `skip` on, with the checksums of the chunks that they touch.
    fn cut(&self, skip: u32, len: u32) -> Self {
        let chunk = CHECKSUM_CHUNK as u32;
        let offset = self.offset + skip;
        let first = (offset - self.base) / chunk;
        let base = self.base + first * chunk;
        let end = (offset + len).next_multiple_of_from(self.base, chunk);
        let covered = end.min(self.base + self.covered) - base;
        let width = self.checksum.width();
        let from = first as usize * width;
        let to = from + Checksum::chunks(covered as usize) * width;
        let sums = self.sums.get(from..to).unwrap_or_default();
        Self { offset, base, covered, sums, ..*self }
    }
}

/// Bytes before a record in the history table: the epoch at which it was replaced.
pub(crate) const UNTIL_LEN: usize = 8;

/// Splits a value of the history table into the epoch at which it was replaced and the record.
pub(crate) fn split_history(value: &[u8]) -> Result<(Epoch, &[u8])> {
    match value.split_first_chunk::<UNTIL_LEN>() {
        Some((until, record)) => Ok((Epoch(u64::from_le_bytes(*until)), record)),
        // An empty record always fails to decode, with the error for a damaged record.
        None => Record::decode(&[], &[]).map(|_| (Epoch(0), value)),
    }
}

/// A record with its key, or an error if it is damaged.
pub(crate) type Found<'r> = Result<(DataKey<'r>, Record<'r>)>;

/// True if `key` is the key of a record.
pub(crate) fn is_record(key: &[u8]) -> bool {
    matches!(Table::of_key(key), Some(Table::Data | Table::History))
}

/// True if a record matches its checksum, which covers the key too.
pub(crate) fn checksum_matches(key: &[u8], value: &[u8]) -> bool {
    Table::of_key(key).is_some_and(|table| parse_entry(table, key, value).is_ok())
}

/// Description of the object of a record, for messages.
pub(crate) fn object_of(key: &[u8]) -> String {
    DataKey::parse(key).map_or_else(
        |_| "unknown object".to_owned(),
        |parts| format!("object {} of container {}", parts.oid, parts.container().0),
    )
}

/// Decodes an entry of the data or the history table.
pub(crate) fn parse_entry<'r>(
    table: Table,
    key: &'r [u8],
    value: &'r [u8],
) -> Result<(DataKey<'r>, Record<'r>)> {
    let parts = DataKey::parse(key)?;
    let bytes = if table == Table::History { split_history(value)?.1 } else { value };
    let record = Record::decode(parts.body(), bytes)?;
    Ok((parts, record))
}

trait NextMultipleFrom {
    fn next_multiple_of_from(self, base: Self, step: Self) -> Self;
}

impl NextMultipleFrom for u32 {
    /// The smallest `base + n * step` that is not less than `self`.
    fn next_multiple_of_from(self, base: u32, step: u32) -> u32 {
        base.saturating_add((self - base).next_multiple_of(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of 10,000 array records of 10 bytes, in a segment. It needs four checksums.
    fn located(sums: &[u8]) -> Record<'_> {
        let body = Body::Segment(Location {
            segment: 3,
            offset: 4096,
            base: 4096,
            covered: 100_000,
            checksum: Checksum::Crc32c,
            sums,
        });
        let left_out = LeftOut::default();
        Record { epoch: Epoch(77), record_size: 10, count: 10_000, left_out, body }
    }

    fn hello() -> Record<'static> {
        let (left_out, body) = (LeftOut::default(), Body::Inline(b"hello"));
        Record { epoch: Epoch(1), record_size: 5, count: 1, left_out, body }
    }

    /// A changed byte, or another key, is detected.
    #[test]
    fn records_round_trip() {
        let sums: Vec<u8> = (0..16).collect();
        let left_out = LeftOut { dkey: b"the end of a dkey", akey: b"" };
        for record in [
            located(&sums),
            hello(),
            Record { left_out, ..located(&sums) },
            Record { left_out: LeftOut { dkey: b"", akey: b"of an akey" }, ..hello() },
        ] {
            let mut bytes = RecordBytes::new();
            record.encode(b"key", &mut bytes);
            assert_eq!(Record::decode(b"key", &bytes), Ok(record));
            assert!(Record::decode(b"kez", &bytes).is_err());
            for at in 0..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 0x10;
                assert!(Record::decode(b"key", &bad).is_err(), "flip at {at} unnoticed");
            }
        }
    }

    #[test]
    fn cut_keeps_the_checksums_it_needs() {
        let sums: Vec<u8> = (0..16).collect();
        let whole = located(&sums);
        let part = whole.cut(100, Extent::new(100 + 4000, 10));
        assert_eq!(part.bytes(), 100);
        let Body::Segment(place) = part.body else { panic!("moved inline") };
        assert_eq!(place.offset, 4096 + 40_000);
        assert_eq!((place.base, place.covered), (4096 + 32_768, 32_768));
        assert_eq!(place.sums, [4, 5, 6, 7]);
        let tail = whole.cut(0, Extent::new(9_999, 1));
        let Body::Segment(place) = tail.body else { panic!("moved inline") };
        assert_eq!((place.base, place.covered), (4096 + 98_304, 100_000 - 98_304));
        assert_eq!(place.sums, [12, 13, 14, 15]);
    }

    /// The records have valid checksums. A user who can write to a pool's files can produce them.
    #[test]
    fn records_with_inconsistent_sizes_are_refused() {
        let sums: Vec<u8> = (0..16).collect();
        let whole = located(&sums);
        let Body::Segment(place) = whole.body else { panic!("moved inline") };
        let at = |place| Record { body: Body::Segment(place), ..whole };
        for record in [
            Record { count: u64::MAX, ..whole },
            Record { count: 10_001, ..whole },
            at(Location { base: place.offset + 1, ..place }),
            at(Location { offset: u32::MAX, ..place }),
            at(Location { offset: u32::MAX, base: u32::MAX, ..place }),
            at(Location { covered: u32::MAX, ..place }),
            at(Location { sums: &sums[..12], ..place }),
            Record { count: 6, record_size: 1, body: Body::Inline(b"hello"), ..whole },
        ] {
            let mut bytes = RecordBytes::new();
            record.encode(b"key", &mut bytes);
            assert_eq!(Record::decode(b"key", &bytes), Err(damaged_error()), "{record:?}");
        }
    }

    /// Damaged records must not cause a panic. Valid ones can be encoded again and cut.
    #[test]
    fn random_records_are_read_or_refused() {
        let mut random = crate::tests::Random::new(2);
        for _ in 0..esker_testing::rounds(20_000) {
            let mut bytes = random.bytes(120);
            let _ = Record::decode(b"key", &bytes);
            // Valid flags, small sizes and a valid checksum, so that some of the random records are consistent.
            if let Some(byte) = bytes.first_mut() {
                *byte &= 0x23;
            }
            bytes.iter_mut().skip(11).take(10).for_each(|byte| *byte = 0);
            let sum = checksum_of(b"key", &bytes);
            bytes.extend_from_slice(&sum);
            if let Ok(record) = Record::decode(b"key", &bytes) {
                let mut again = RecordBytes::new();
                record.encode(b"key", &mut again);
                assert_eq!(Record::decode(b"key", &again), Ok(record));
                let half = Extent::new(7 + record.count / 2, record.count - record.count / 2);
                assert_eq!(record.cut(7, half).bytes(), half.count * u64::from(record.record_size));
            }
        }
    }

    #[test]
    fn fuzz_records() {
        let sums: Vec<u8> = (0..16).collect();
        let cut = Record { left_out: LeftOut { dkey: b"dkey", akey: b"akey" }, ..hello() };
        let bytes = [located(&sums), hello(), cut].map(|record| {
            let mut bytes = RecordBytes::new();
            record.encode(b"key", &mut bytes);
            bytes[..bytes.len() - checksum_of(b"key", b"").len()].to_vec()
        });
        esker_testing::fuzz("records", &bytes, |body| {
            let sealed = [body, &checksum_of(b"key", body)].concat();
            if let Ok(record) = Record::decode(b"key", &sealed) {
                let mut again = RecordBytes::new();
                record.encode(b"key", &mut again);
                assert!(Record::decode(b"key", &again).is_ok());
            }
        });
    }
}
