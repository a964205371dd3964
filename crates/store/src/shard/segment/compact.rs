//! Compaction, which moves live data out of segments that are mostly dead.
use super::{Append, ExtentLocation, Writer, collect};
use crate::data::header::{self, Header, data_offset};
use crate::data::table::SegmentState;
use crate::format::keys::{ARRAY, DataKey, Key, Table};
use crate::format::record::{Body, Record, RecordBytes, UNTIL_LEN};
use crate::index::txn::Txn;
use crate::shard::{Scope, Target};
use esker_types::ops::Source;
use esker_types::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::{PoisonError, TryLockError};

/// Maximum number of bytes that one step moves.
const STEP_BYTES_MAX: u64 = 16 << 20;

/// Maximum number of pieces and bytes per commit. Even a full index has enough pages for them.
const BATCH_PIECES: usize = 16;
const BATCH_BYTES: u64 = 1 << 20;

/// Maximum number of live bytes, in eighths, of a segment that is worth compacting by itself.
const LIVE_EIGHTHS_MAX: u64 = 6;

/// Result of a compaction for a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MadeRoom {
    Some,
    None,
    /// Another thread or process is compacting.
    ByOthers,
}

/// An index entry that refers to data of a segment. A partly overwritten extent may have several.
pub(super) struct Piece {
    /// Key in the data or the history table.
    key: Vec<u8>,
    /// Value that was read.
    value: Vec<u8>,
}

impl Piece {
    /// Bytes before the record. A value of the history table begins with an epoch.
    fn lead(&self) -> usize {
        if self.key[0] == Table::History as u8 { UNTIL_LEN } else { 0 }
    }

    /// Key that the checksum of the record covers.
    pub(super) fn checksummed_key(&self) -> Result<&[u8]> {
        DataKey::parse(&self.key).map(|parts| parts.body())
    }

    pub(super) fn record(&self) -> Result<Record<'_>> {
        Record::decode(self.checksummed_key()?, &self.value[self.lead()..])
    }
}

/// Iterates over the headers of a segment, up to its tail.
pub(super) struct Headers<'t> {
    target: &'t Target,
    segment: u32,
    at: u64,
    tail: u64,
}

impl Headers<'_> {
    pub(super) fn for_segment(target: &Target, segment: u32) -> Headers<'_> {
        let tail = target.shared().segment(segment).tail_in(target.segment_bytes());
        Headers { target, segment, at: 0, tail }
    }

    /// The header at `at` is not one, or its extent ends behind the tail: then the tail is wrong, and extents may begin
    /// inside this one. Compaction must not free such a segment.
    #[cold]
    fn damaged_header_error(&self, at: u64) -> Error {
        let (segment, target) = (self.segment, self.target.number());
        let message = format!(
            "segment {segment} of target {target} has a damaged header at {at}: run `esker pool scrub`"
        );
        Error::new(ErrorKind::Checksum, message)
    }
}

impl Iterator for Headers<'_> {
    /// The next header and the offset of its data.
    type Item = Result<(Header, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.tail {
            return None;
        }
        // After an error, the walk ends.
        let at = std::mem::replace(&mut self.at, self.tail);
        let offset = self.target.segment_offset(self.segment) + at;
        let header = match self.target.data.header(offset, self.tail - at) {
            Ok(Some(header)) if header.footprint() <= self.tail - at => header,
            Ok(_) => return Some(Err(self.damaged_header_error(at))),
            Err(error) => return Some(Err(error)),
        };
        self.at = at + header.footprint();
        let data_at = at + data_offset(header.key.len());
        Some(Ok((header, data_at)))
    }
}

/// Number of bytes of a segment to which the index refers.
pub(super) fn live_bytes(target: &Target, txn: &Txn, segment: u32) -> Result<u64> {
    let mut sum = 0;
    for header in Headers::for_segment(target, segment) {
        let (header, data_at) = header?;
        sum += bytes_of(&pieces(txn, &header, segment, data_at)?)?;
    }
    Ok(sum)
}

/// Index entries that refer to the data after `header`, which is at `data_at` in a segment.
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
            if is_stored_in(&piece, segment, &data)? {
                found.push(piece);
            }
            entry = cursor.next()?;
        }
    }
    Ok(found)
}

/// Upper bound (exclusive) of the index keys that can refer to the data of `header`. `first` is the lowest of them: the
/// key of the value or extent as it was written, in the table to search (data or history).
fn end_of(first: &Key, header: &Header) -> Result<Key> {
    let as_data = Key::table(Table::Data).push(&header.key);
    let parts = DataKey::parse(&as_data)?;
    Ok(match parts.start {
        // A single value. Its key in the history table has an epoch at the end.
        None => first.successor(),
        // An extent. Its pieces begin at later records if its first ones were overwritten.
        Some(start) => Key::table(Table::Data)
            .push(&parts.akey_prefix()[1..])
            .push(&[ARRAY])
            .push(&start.saturating_add(header.count).to_be_bytes())
            .with_table_of(first),
    })
}

/// True if the data of a piece begins in the range `data` of a segment.
fn is_stored_in(piece: &Piece, segment: u32, data: &Range<u64>) -> Result<bool> {
    Ok(match piece.record()?.body {
        Body::Segment(place) => place.segment == segment && data.contains(&u64::from(place.offset)),
        Body::Inline(_) => false,
    })
}

/// Number of bytes of data of pieces.
fn bytes_of(pieces: &[Piece]) -> Result<u64> {
    pieces.iter().map(|piece| piece.record().map(|record| record.bytes())).sum()
}

/// True for damage of one segment, which must not stop the compaction of others.
fn is_local(error: &Error) -> bool {
    error.kind() == ErrorKind::Checksum
}

impl Target {
    /// Compacts until there are `need` bytes of space in addition to the reserve, or nothing more can be gained.
    pub(super) fn make_room(&self, need: u64) -> Result<MadeRoom> {
        let _alone = match self.append_slots.compacting.try_lock() {
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

    /// Compacts each segment once, if at most six eighths of it are live.
    pub(crate) fn compact_all(&self) -> Result<()> {
        let _alone = self.append_slots.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.segment_bytes() / 8 * LIVE_EIGHTHS_MAX;
        self.collect()?;
        let mut worth = |victim: &Victim| victim.live <= limit;
        let work = || self.compact_while(&mut worth, 0);
        self.control.unless_compacting(self.number(), work).map(drop)
    }

    /// Compacts segments, each once, while `wanted` returns true. Returns true if space was gained. Stops early if all
    /// segments together cannot free `need` bytes. The caller excludes other compactions: two that share the reserve
    /// could fill it without freeing a segment.
    fn compact_while(&self, wanted: &mut dyn FnMut(&Victim) -> bool, need: u64) -> Result<bool> {
        let (mut gained, mut tried) = (false, Vec::new());
        while let Some(victim) = self.victim(&tried, need)?.filter(|victim| wanted(victim)) {
            match self.compact_one(&victim) {
                // The segment may have more data, so it may be chosen again.
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

    /// Moves live data out of a segment, at most about [`STEP_BYTES_MAX`] bytes, and returns their number. It is zero
    /// if another thread or process has the segment, or nothing would be gained. If no data could be moved, the segment
    /// is recounted.
    fn compact_one(&self, victim: &Victim) -> Result<u64> {
        let atomics = self.shared();
        let atomics = atomics.segment(victim.number);
        if !atomics.change(victim.state, SegmentState::Busy(self.process())) {
            return Ok(0);
        }
        match self.piece_footprints(victim.number) {
            Ok(pieces) if pieces.is_empty() => self.recount(victim.number).map(|()| 0),
            Ok(pieces) if self.is_worth(victim, &pieces) => {
                let moved = self.move_out(victim.number, pieces.iter().sum());
                // The segment is not returned to its previous owner. With more data in it, the rest might not fit into
                // the destination of the first part.
                self.table().release(victim.number);
                moved
            }
            footprints => {
                atomics.store(victim.state);
                match footprints {
                    // The disk cannot read a header: other segments can be compacted.
                    Err(error) if error.kind() == ErrorKind::Io => Ok(0),
                    footprints => footprints.map(|_| 0),
                }
            }
        }
    }

    /// Moves the live data of `victim`, which needs `footprint` bytes, and returns the number of moved bytes. Without
    /// the reserve, all of it must go to one segment to which no other process writes. If the move is interrupted, the
    /// remaining data has space there. Otherwise the reserve could never become free again.
    fn move_out(&self, victim: u32, footprint: u64) -> Result<u64> {
        if !self.table().has_reserve() {
            Writer::for_compaction(self).room_for(footprint)?;
        }
        let (mut moved, mut batch) = (0, Vec::new());
        for header in Headers::for_segment(self, victim) {
            let (header, data_at) = header?;
            batch.append(&mut pieces(
                self.view_of(Scope::Committed)?.committed(),
                &header,
                victim,
                data_at,
            )?);
            if batch.len() >= BATCH_PIECES || bytes_of(&batch)? >= BATCH_BYTES {
                moved += self.move_pieces(&std::mem::take(&mut batch))?;
            }
            if moved >= STEP_BYTES_MAX {
                break;
            }
        }
        Ok(moved + self.move_pieces(&batch)?)
    }

    /// Copies pieces to another segment and makes the index refer to the copies. Entries that have changed meanwhile
    /// are left. Returns the number of copied bytes.
    pub(super) fn move_pieces(&self, found: &[Piece]) -> Result<u64> {
        if found.is_empty() {
            return Ok(0);
        }
        let mut writer = Writer::for_compaction(self);
        let copies =
            found.iter().map(|piece| self.copy(piece, &mut writer)).collect::<Result<Vec<_>>>()?;
        // The copies must be on the medium before the index refers to them.
        if self.is_durable() {
            self.data.sync()?;
        }
        self.change(|change| {
            for (piece, copy) in found.iter().zip(&copies) {
                let old = piece.record()?;
                let moved = Record { body: copy.body(), ..old };
                if change.txn().get(&piece.key)? == Some(&piece.value[..]) {
                    let mut value = RecordBytes::from_slice(&piece.value[..piece.lead()]);
                    moved.encode(piece.checksummed_key()?, &mut value);
                    change.put(&piece.key, &value)?;
                    change.count_dead(&old);
                } else {
                    // No entry refers to the copy.
                    change.count_dead(&moved);
                }
            }
            Ok(())
        })?;
        writer.publish();
        bytes_of(found)
    }

    /// Appends the data of a piece to another segment.
    fn copy(&self, piece: &Piece, writer: &mut Writer<'_>) -> Result<ExtentLocation> {
        let record = piece.record()?;
        let Body::Segment(place) = record.body else {
            return Err(self.damaged(&piece.key, "the location"));
        };
        let mut bytes = vec![0; record.bytes() as usize];
        self.read_verified(&piece.key, &place, 0, &mut bytes)?;
        writer.append(&Append {
            key: piece.checksummed_key()?,
            count: record.count,
            source: Source::One(&bytes),
            offset: 0,
            len: bytes.len() as u32,
            checksum: place.checksum,
        })
    }
}

/// A segment that could be compacted.
#[derive(Clone, Copy, Debug)]
struct Victim {
    number: u32,
    state: SegmentState,
    /// Number of live bytes of data.
    live: u64,
    /// Number of dead bytes of data.
    dead: u64,
    /// Estimated bytes of its live data with headers.
    footprint: u64,
}

impl Target {
    /// The segment that costs least to free, among those where space is gained and that were not `tried`. `None` if all
    /// of them together do not free `need` bytes.
    fn victim(&self, tried: &[u32], need: u64) -> Result<Option<Victim>> {
        let mut found = self.victims(tried)?;
        let gain = |victim: &Victim| self.segment_bytes().saturating_sub(victim.live);
        let is_hopeless = found.iter().map(gain).sum::<u64>() + self.open_room() < need;
        // If the reserve is in use, freeing it has priority.
        if is_hopeless && self.table().has_reserve() {
            return Ok(None);
        }
        // The destination of earlier moves is compacted last, and before it the segments without dead data.
        let destination = self.append_slots.compaction_segment();
        found.sort_unstable_by_key(|victim| {
            let is_destination = destination == Some(victim.number);
            (is_destination, victim.dead == 0, victim.footprint, victim.number)
        });
        // Compacting a segment that a view pins gains nothing.
        Ok(found.into_iter().find(|victim| !self.is_viewed(victim.number)))
    }

    /// All segments that could be compacted, except those that were `tried`.
    fn victims(&self, tried: &[u32]) -> Result<Vec<Victim>> {
        let dead = collect::all_dead(self.view_of(Scope::Committed)?.committed())?;
        let candidates = (0..self.segment_count())
            .filter(|number| !tried.contains(number))
            .filter_map(|number| self.as_victim(number, dead.get(&number).copied().unwrap_or(0)));
        Ok(candidates.collect())
    }

    /// Examines whether a segment is worth compacting. `None` if it is empty, or neither sealed nor open, or if it has
    /// no dead data and its live data fills more than half of it.
    fn as_victim(&self, number: u32, dead: u64) -> Option<Victim> {
        let atomics = self.shared();
        let segment = atomics.segment(number);
        let state = segment.load();
        let live = segment.live(dead);
        let tail = segment.tail_in(self.segment_bytes());
        let data = u128::from(live) + u128::from(dead);
        let footprint = (u128::from(tail) * u128::from(live) / data.max(1)) as u64;
        let may_gain = dead > 0 || footprint * 2 <= self.segment_bytes();
        let is_left = matches!(state, SegmentState::Sealed | SegmentState::Open(_));
        (is_left && tail > 0 && may_gain).then_some(Victim { number, state, live, dead, footprint })
    }

    /// Bytes that each piece of a segment needs when it is moved. A partly overwritten extent consists of several
    /// pieces, which get a header each.
    fn piece_footprints(&self, segment: u32) -> Result<Vec<u64>> {
        // The segment is busy, so from now on no process buffers a put that refers to it.
        self.flush_if_fits()?;
        let mut footprints = Vec::new();
        for header in Headers::for_segment(self, segment) {
            let (header, data_at) = header?;
            for piece in
                pieces(self.view_of(Scope::Committed)?.committed(), &header, segment, data_at)?
            {
                let (key, bytes) = (piece.checksummed_key()?.len(), piece.record()?.bytes());
                footprints.push(header::footprint(key, bytes));
            }
        }
        Ok(footprints)
    }

    /// True if the pieces fit elsewhere, and more space becomes free than they need. Without the reserve they must fit
    /// into one segment, since after a partial move the rest would have no space.
    fn is_worth(&self, victim: &Victim, footprints: &[u64]) -> bool {
        let sum: u64 = footprints.iter().sum();
        let mut rooms = self.rooms();
        match victim.dead {
            _ if !self.table().has_reserve() => rooms.iter().any(|&room| room >= sum),
            0 => fits(footprints, &mut rooms),
            _ => sum < self.segment_bytes(),
        }
    }

    /// Bytes of space in all open segments together.
    fn open_room(&self) -> u64 {
        self.rooms().iter().sum()
    }

    /// Bytes of space in each open segment.
    fn rooms(&self) -> Vec<u64> {
        let atomics = self.shared();
        let room = |number: u32| {
            let segment = atomics.segment(number);
            let is_open = matches!(segment.load(), SegmentState::Open(_));
            is_open.then(|| self.segment_bytes() - segment.tail_in(self.segment_bytes()))
        };
        (0..self.segment_count()).filter_map(room).collect()
    }
}

/// True if all `footprints` fit, each into the first segment with enough space.
fn fits(footprints: &[u64], rooms: &mut [u64]) -> bool {
    footprints.iter().all(|&footprint| {
        let room = rooms.iter_mut().find(|room| **room >= footprint);
        room.map(|room| *room -= footprint).is_some()
    })
}
