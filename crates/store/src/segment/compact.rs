//! Compaction: moving what is alive out of segments that are mostly dead.
use super::header::{HEADER_MAX, Header, data_offset};
use super::victim::Victim;
use super::{Append, Placed, State, Writer};
use crate::io::txn::{ReadTxn, Txn};
use crate::keys::{ARRAY, DataKey, Key, Table};
use crate::record::{Body, Record, RecordBytes};
use crate::target::{Target, UNTIL_LEN};
use esker_types::ops::Source;
use esker_types::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};

/// Most bytes one step moves.
const STEP_BYTES_MAX: u64 = 16 << 20;

/// Pieces and bytes that one commit names anew: few enough that a full index has the pages for it.
const BATCH_PIECES: usize = 16;
const BATCH_BYTES: u64 = 1 << 20;

/// A segment is worth compacting by itself while at most so many of its bytes, in eighths, are alive.
const LIVE_EIGHTHS_MAX: u64 = 6;

/// What compaction did for a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MadeRoom {
    Some,
    None,
    /// Somebody else is compacting.
    ByOthers,
}

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
    pub(super) fn sealed_key(&self) -> Result<&[u8]> {
        DataKey::parse(&self.key).map(|parts| parts.body())
    }

    pub(super) fn record(&self) -> Result<Record<'_>> {
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
pub(super) fn live_bytes(target: &Target, txn: &ReadTxn, segment: u32) -> Result<u64> {
    let mut sum = 0;
    for header in Headers::of(target, segment) {
        let (header, data_at) = header?;
        sum += bytes_of(&pieces(txn, &header, segment, data_at)?)?;
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
            .push(&start.saturating_add(header.count).to_be_bytes())
            .with_table_of(first),
    })
}

fn lies_in(piece: &Piece, segment: u32, data: &Range<u64>) -> Result<bool> {
    Ok(match piece.record()?.body {
        Body::Segment(place) => place.segment == segment && data.contains(&u64::from(place.offset)),
        Body::Inline(_) => false,
    })
}

/// Bytes of data of pieces.
fn bytes_of(pieces: &[Piece]) -> Result<u64> {
    pieces.iter().map(|piece| piece.record().map(|record| record.bytes())).sum()
}

/// True for damage in one segment, which must not stop the compaction of others.
fn is_local(error: &Error) -> bool {
    error.kind() == ErrorKind::Checksum
}

impl Target {
    /// Compacts until there is room for `need` bytes beside the reserve, or nothing is left to gain.
    pub(super) fn make_room(&self, need: u64) -> Result<MadeRoom> {
        let _alone = match self.lanes.compacting.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(MadeRoom::ByOthers),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(alone) => alone,
        };
        let work = || self.compact_while(&mut |_| !self.table().has_room_for(need), need);
        Ok(match self.control.unless_compacting(self.number(), work)? {
            None => MadeRoom::ByOthers,
            Some(true) => MadeRoom::Some,
            Some(false) => MadeRoom::None,
        })
    }

    /// Compacts every segment that is worth it, once.
    pub(crate) fn compact_all(&self) -> Result<()> {
        let _alone = self.lanes.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.segment_bytes() / 8 * LIVE_EIGHTHS_MAX;
        self.collect()?;
        let mut worth = |victim: &Victim| victim.live <= limit;
        let work = || self.compact_while(&mut worth, 0);
        self.control.unless_compacting(self.number(), work).map(drop)
    }

    /// Compacts segment after segment, each once, as long as `wanted` says so; true where that gained
    /// something. There must be nobody else who compacts: two who shared the reserve could fill it up and
    /// free nothing.
    fn compact_while(&self, wanted: &mut dyn FnMut(&Victim) -> bool, need: u64) -> Result<bool> {
        let (mut gained, mut tried) = (false, Vec::new());
        while let Some(victim) = self.victim(&tried, need)?.filter(|victim| wanted(victim)) {
            match self.compact_one(&victim) {
                Ok(moved) if moved >= STEP_BYTES_MAX => gained = true,
                Ok(moved) => {
                    gained |= moved > 0;
                    tried.push(victim.number);
                }
                Err(error) if is_local(&error) => tried.push(victim.number),
                Err(error) if error.kind() == ErrorKind::NoSpace => return Ok(gained),
                Err(error) => return Err(error),
            }
            self.collect()?;
        }
        Ok(gained)
    }

    /// Moves live data out of a segment, about [`STEP_BYTES_MAX`] at most; returns how many bytes. None
    /// where somebody else is at it, or nothing would be gained. Where nothing is found that could be moved,
    /// it is counted again.
    fn compact_one(&self, victim: &Victim) -> Result<u64> {
        let words = self.words();
        let words = words.segment(victim.number);
        if !words.change(victim.state, State::Busy(self.process())) {
            return Ok(0);
        }
        match self.weigh(victim.number) {
            Ok(pieces) if pieces.is_empty() => self.recount(victim.number).map(|()| 0),
            Ok(pieces) if self.is_worth(victim, &pieces) => {
                let moved = self.move_out(victim.number, pieces.iter().sum());
                // Not for who had it before: with more in it, the rest may not fit where the first part went.
                self.table().leave(victim.number);
                moved
            }
            weighed => {
                words.store(victim.state);
                weighed.map(|_| 0)
            }
        }
    }

    /// Moves what is alive in `victim`, which takes `footprint` bytes. Without the reserve it must all go to one
    /// segment, and nobody else may write to that: where this comes to an end half way, the other half has its
    /// room there. Otherwise the reserve could never come back.
    fn move_out(&self, victim: u32, footprint: u64) -> Result<u64> {
        if !self.table().has_reserve() {
            Writer::for_compaction(self).room_for(footprint)?;
        }
        let (mut moved, mut batch) = (0, Vec::new());
        for header in Headers::of(self, victim) {
            let (header, data_at) = header?;
            batch.append(&mut pieces(&*self.read()?, &header, victim, data_at)?);
            if batch.len() >= BATCH_PIECES || bytes_of(&batch)? >= BATCH_BYTES {
                moved += self.move_pieces(&std::mem::take(&mut batch))?;
            }
            if moved >= STEP_BYTES_MAX {
                break;
            }
        }
        Ok(moved + self.move_pieces(&batch)?)
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
        bytes_of(found)
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
