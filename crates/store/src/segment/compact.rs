//! Compaction: moving what is alive out of segments that are mostly dead.
use super::header::{HEADER_MAX, Header, data_offset};
use super::{Append, Placed, State, Writer, collect};
use crate::io::txn::{ReadTxn, Txn};
use crate::keys::{ARRAY, DataKey, Key, Table};
use crate::record::{Body, Record, RecordBytes};
use crate::target::{Target, UNTIL_LEN};
use esker_types::ops::Source;
use esker_types::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Most bytes one step moves.
const STEP_BYTES_MAX: u64 = 16 << 20;

/// A segment is worth compacting while at most so many of its bytes, in eighths, are alive.
const LIVE_EIGHTHS_MAX: u64 = 6;

/// An index entry that lies in the segment.
pub(super) struct Piece {
    /// Its key, in the data or the history table.
    key: Vec<u8>,
    /// Its value as it was read.
    value: Vec<u8>,
}

impl Piece {
    /// Bytes in front of the record: a history value begins with the end of its time.
    fn lead(&self) -> usize {
        if self.key[0] == Table::History as u8 { UNTIL_LEN } else { 0 }
    }

    /// The key the record is sealed with.
    fn sealed_key(&self) -> Result<&[u8]> {
        DataKey::parse(&self.key).map(|parts| parts.body())
    }

    fn record(&self) -> Result<Record<'_>> {
        Record::decode(self.sealed_key()?, &self.value[self.lead()..])
    }
}

/// The headers of a segment, from its beginning to its tail.
pub(super) struct Headers<'t> {
    target: &'t Target,
    segment: u32,
    at: u64,
    tail: u64,
}

impl Headers<'_> {
    pub(super) fn of(target: &Target, segment: u32) -> Headers<'_> {
        let tail = target.words().segment(segment).tail.load(Ordering::Acquire);
        Headers { target, segment, at: 0, tail }
    }
}

impl Iterator for Headers<'_> {
    /// A header and where its data begins.
    type Item = Result<(Header, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.tail {
            return None;
        }
        let mut bytes = vec![0; HEADER_MAX.min((self.tail - self.at) as usize)];
        if let Err(error) =
            self.target.data.read(self.target.segment_offset(self.segment) + self.at, &mut bytes)
        {
            self.at = self.tail;
            return Some(Err(error));
        }
        let Some(header) = Header::decode(&bytes) else {
            let message = format!(
                "segment {} of target {} has a damaged header at {}: run `esker pool scrub`",
                self.segment,
                self.target.number(),
                self.at
            );
            self.at = self.tail;
            return Some(Err(Error::new(ErrorKind::Checksum, message)));
        };
        let data_at = self.at + data_offset(header.key.len());
        self.at += header.footprint();
        Some(Ok((header, data_at)))
    }
}

/// Bytes of a segment that the index names.
pub(crate) fn live_bytes(target: &Target, txn: &ReadTxn, segment: u32) -> Result<u64> {
    let mut sum = 0;
    for header in Headers::of(target, segment) {
        let (header, data_at) = header?;
        for piece in pieces(txn, &header, segment, data_at)? {
            sum += piece.record()?.bytes();
        }
    }
    Ok(sum)
}

/// Index entries that lie in the data behind `header`.
pub(super) fn pieces(txn: &Txn, header: &Header, segment: u32, data_at: u64) -> Result<Vec<Piece>> {
    let data = data_at..data_at + u64::from(header.data_len);
    let mut found = Vec::new();
    for table in [Table::Data, Table::History] {
        let first = Key::table(table).push(&header.key);
        let end = end_of(&first, header)?;
        let mut cursor = txn.cursor()?;
        let mut entry = cursor.seek(&first)?;
        while let Some((key, value)) = entry.filter(|(key, _)| *key < &end[..]) {
            let piece = Piece { key: key.to_vec(), value: value.to_vec() };
            if lies_in(&piece, segment, &data)? {
                found.push(piece);
            }
            entry = cursor.next()?;
        }
    }
    Ok(found)
}

/// First key behind all those under which pieces of the header's extent can stand.
fn end_of(first: &Key, header: &Header) -> Result<Key> {
    let as_data = Key::table(Table::Data).push(&header.key);
    let parts = DataKey::parse(&as_data)?;
    Ok(match parts.start {
        None => first.successor(),
        Some(start) => Key::table(Table::Data)
            .push(&parts.akey_prefix()[1..])
            .push(&[ARRAY])
            .push(&(start + header.count).to_be_bytes())
            .with_table_of(first),
    })
}

fn lies_in(piece: &Piece, segment: u32, data: &Range<u64>) -> Result<bool> {
    Ok(match piece.record()?.body {
        Body::Segment(place) => place.segment == segment && data.contains(&u64::from(place.offset)),
        Body::Inline(_) => false,
    })
}

/// True for damage in one segment, which must not stop the compaction of others.
fn is_local(error: &Error) -> bool {
    error.kind() == ErrorKind::Checksum
}

impl Target {
    /// Compacts until a segment's worth of space is gained; false where nothing is left to gain.
    pub(crate) fn compact_for_space(&self) -> Result<bool> {
        let mut gained = false;
        let mut tried = self.not_full();
        while let Some(victim) = self.victim(&tried)? {
            match self.compact_one(victim) {
                Ok(moved) if moved >= STEP_BYTES_MAX => {}
                Err(error) if !is_local(&error) => return Err(error),
                _ => tried.push(victim),
            }
            gained = true;
            self.collect()?;
            if self.has_free() {
                break;
            }
        }
        Ok(gained)
    }

    /// Segments that are not full: no victims of this run, even if it fills them.
    fn not_full(&self) -> Vec<u32> {
        let words = self.words();
        (0..self.segment_count()).filter(|&s| words.segment(s).load() != State::Sealed).collect()
    }

    fn has_free(&self) -> bool {
        let words = self.words();
        let free = (0..self.segment_count()).filter(|&s| words.segment(s).load() == State::Free);
        free.count() > self.reserve()
    }

    /// Compacts every segment that is worth it, once.
    pub(crate) fn compact_all(&self) -> Result<()> {
        self.collect()?;
        let mut tried = self.not_full();
        while let Some(victim) = self.victim(&tried)? {
            match self.compact_one(victim) {
                Ok(moved) if moved >= STEP_BYTES_MAX => {}
                Err(error) if !is_local(&error) => return Err(error),
                _ => tried.push(victim),
            }
            self.collect()?;
        }
        Ok(())
    }

    /// The full segment with the fewest live bytes, if it is worth moving them and was not `tried`.
    fn victim(&self, tried: &[u32]) -> Result<Option<u32>> {
        let txn = self.read()?;
        let dead = collect::all_dead(&txn)?;
        let words = self.words();
        let live =
            |number: u32| words.segment(number).live(dead.get(&number).copied().unwrap_or(0));
        let limit = self.segment_bytes() / 8 * LIVE_EIGHTHS_MAX;
        Ok((0..self.segment_count())
            .filter(|&number| words.segment(number).load() == State::Sealed)
            .filter(|number| !tried.contains(number))
            .map(|number| (live(number), number))
            .filter(|&(live, _)| live <= limit)
            // Nothing would be gained.
            .filter(|&(_, number)| !self.is_viewed(number))
            .min()
            .map(|(_, number)| number))
    }

    /// Moves live data out of a segment, about [`STEP_BYTES_MAX`] at most; returns how many bytes. None
    /// where somebody else is at it. Where nothing is found that could be moved, it is counted again.
    fn compact_one(&self, victim: u32) -> Result<u64> {
        let words = self.words();
        let words = words.segment(victim);
        if !words.change(State::Sealed, State::Busy(self.process())) {
            return Ok(0);
        }
        match self.move_out(victim) {
            Ok(0) => self.recount(victim).map(|()| 0),
            moved => {
                words.store(State::Sealed);
                moved
            }
        }
    }

    fn move_out(&self, victim: u32) -> Result<u64> {
        let mut moved = 0;
        for header in Headers::of(self, victim) {
            let (header, data_at) = header?;
            let found = {
                let txn = self.read()?;
                pieces(&txn, &header, victim, data_at)?
            };
            moved += self.move_pieces(&found)?;
            if moved >= STEP_BYTES_MAX {
                break;
            }
        }
        Ok(moved)
    }

    /// Copies pieces to another segment and has the index name the copies, unless it changed meanwhile.
    pub(super) fn move_pieces(&self, found: &[Piece]) -> Result<u64> {
        if found.is_empty() {
            return Ok(0);
        }
        let mut writer = Writer::for_compaction(self);
        let copies =
            found.iter().map(|piece| self.copy(piece, &mut writer)).collect::<Result<Vec<_>>>()?;
        if self.is_durable() {
            self.data.sync()?;
        }
        self.change(|change| {
            for (piece, copy) in found.iter().zip(&copies) {
                let old = piece.record()?;
                let moved = Record { body: copy.body(), ..old };
                if change.txn().get(&piece.key)? == Some(&piece.value[..]) {
                    let mut value = RecordBytes::from_slice(&piece.value[..piece.lead()]);
                    moved.encode(piece.sealed_key()?, &mut value);
                    change.put(&piece.key, &value)?;
                    change.bury(&old);
                } else {
                    change.bury(&moved);
                }
            }
            Ok(())
        })?;
        writer.publish();
        found.iter().map(|piece| piece.record().map(|record| record.bytes())).sum()
    }

    fn copy(&self, piece: &Piece, writer: &mut Writer<'_>) -> Result<Placed> {
        let record = piece.record()?;
        let Body::Segment(place) = record.body else {
            return Err(self.damaged(&piece.key, "the place"));
        };
        let mut bytes = vec![0; record.bytes() as usize];
        self.read_verified(&piece.key, &place, 0, &mut bytes)?;
        writer.append(&Append {
            key: piece.sealed_key()?,
            count: record.count,
            source: Source::One(&bytes),
            offset: 0,
            len: bytes.len() as u32,
            checksum: place.checksum,
        })
    }
}
