//! Reads of values.
use super::{ReadView, Scope, Target, scan};
use crate::data::Reader;
use crate::format::keys::{Key, SINGLE, Table};
use crate::format::record::{Body, Location, Record};
use crate::io::pin::{Mapped, Pin};
use esker_types::checksum::crc32c_of_chunks;
use esker_types::info::ContainerId;
use esker_types::limits::CHECKSUM_CHUNK;
use esker_types::ops::{
    AkeyRef, Cond, Fetch, FetchReply, FetchRequest, ReadAt, Sink, View, Wanted,
};
use esker_types::{Checksum, Error, ErrorKind, Extent, KeyBuffer as _, ObjectId, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// State of reading one extent of a fetch.
struct Run<'r, 'q, 'b> {
    request: &'r FetchRequest<'q>,
    reply: &'r mut FetchReply<'b>,
    extent: Extent,
    /// Number of requested records in the extents before this one.
    before: u64,
}

impl Run<'_, '_, '_> {
    /// Offset in the sink for a part of the extent.
    fn sink_offset(&self, part: Extent, record_size: u64) -> u64 {
        let skipped = self.before.saturating_add(part.start - self.extent.start);
        skipped.saturating_mul(record_size)
    }
}

impl Target {
    /// Reads akeys of one dkey, all from one consistent state.
    ///
    /// # Errors
    /// `NotFound` if a condition requires a key that does not exist, `RecordTooBig` if a sink is too short, `Checksum`
    /// if stored data is damaged.
    pub fn fetch(
        &self,
        container: ContainerId,
        oid: ObjectId,
        dkey: &[u8],
        cond: Cond,
        fetches: &mut [Fetch<'_>],
        at: ReadAt<'_>,
    ) -> Result<()> {
        let mut key = Key::object(Table::Data, container, oid);
        key.put_dkey(oid, dkey)?;
        match fetches {
            // The common case, without lists of keys.
            [fetch] if !cond.has(Cond::DKEY_FETCH) => {
                key.put_akey(oid, fetch.request.akey)?;
                key.put(&[SINGLE]);
                let scope = scope_of(oid, &key, &fetch.request);
                let view = self.view_of_object(scope, at, container, oid, Some(dkey))?;
                self.fetch_akey(&view, &key, fetch, at.view)
            }
            _ => self.fetch_all((container, oid, dkey), &key, cond, fetches, at),
        }
    }

    /// Reads any number of akeys of the dkey with this prefix. With `Cond::DKEY_FETCH` in `cond`, the dkey must exist.
    fn fetch_all(
        &self,
        (container, oid, dkey): (ContainerId, ObjectId, &[u8]),
        prefix: &Key,
        cond: Cond,
        fetches: &mut [Fetch<'_>],
        at: ReadAt<'_>,
    ) -> Result<()> {
        let akeys = fetches.iter().map(|fetch| prefix.akey(oid, fetch.request.akey));
        let singles = akeys.map(|akey| Ok(akey?.single())).collect::<Result<Vec<Key>>>()?;
        let needs_dkey = cond.has(Cond::DKEY_FETCH);
        let scope = if needs_dkey { Scope::Under(prefix) } else { Scope::Akeys(oid, &singles) };
        let view = self.view_of_object(scope, at, container, oid, Some(dkey))?;
        if needs_dkey && !exists(&view, prefix, at.view)? {
            return Err(missing_key_error("dkey"));
        }
        let mut outcome = Ok(());
        for (fetch, single) in fetches.iter_mut().zip(&singles) {
            // All akeys are read, so that the caller gets all sizes. The first error is returned.
            outcome = outcome.and(self.fetch_akey(&view, single, fetch, at.view));
        }
        outcome
    }

    /// Reads one akey into the reply. `single` is the key of its single value. Fails if the request requires that the
    /// akey exists, and it does not.
    fn fetch_akey(
        &self,
        from: &ReadView<'_>,
        single: &Key,
        Fetch { request, reply }: &mut Fetch<'_>,
        view: View,
    ) -> Result<()> {
        reply.reset();
        match request.wanted {
            Wanted::Single => self.fetch_single(from, single, reply, view)?,
            Wanted::Array(extents) => {
                self.fetch_array(from, &single.akey_of_single(), extents, (request, reply), view)?;
            }
        }
        let empty = reply.size == 0 && request.cond.has(Cond::AKEY_FETCH);
        let is_missing = empty && !exists(from, &single.akey_of_single(), view)?;
        if is_missing { Err(missing_key_error("akey")) } else { Ok(()) }
    }

    /// Reads a single value into the reply. Without a value, the size in the reply remains zero.
    fn fetch_single(
        &self,
        from: &ReadView<'_>,
        key: &Key,
        reply: &mut FetchReply<'_>,
        view: View,
    ) -> Result<()> {
        match view {
            View::Latest => match from.get(key)? {
                Some(value) => self.deliver_single(key, Record::decode(&key[1..], value)?, reply),
                None => Ok(()),
            },
            View::Snapshot(_) => match scan::Scan::new(from, key.clone(), view)?.seek(key)? {
                Some(visible) => self.deliver_single(key, visible.record()?, reply),
                None => Ok(()),
            },
        }
    }

    /// Copies a single value to the sink. The reply has its size even if it does not fit.
    fn deliver_single(
        &self,
        key: &[u8],
        record: Record<'_>,
        reply: &mut FetchReply<'_>,
    ) -> Result<()> {
        reply.size = record.bytes();
        if matches!(reply.sink, Sink::None) {
            return Ok(());
        }
        if reply.size > reply.sink.len() {
            let message = format!(
                "a value of {} bytes for a buffer of {}: pass a buffer of that size",
                reply.size,
                reply.sink.len()
            );
            return Err(Error::new(ErrorKind::RecordTooBig, message).with_needed(reply.size));
        }
        reply.filled_bytes = reply.size;
        self.copy_out(key, &record, 0..reply.size, 0, &mut reply.sink)
    }

    /// Reads extents of an array, which follow each other in the sink.
    fn fetch_array(
        &self,
        from: &ReadView<'_>,
        akey: &Key,
        extents: &[Extent],
        (request, reply): (&FetchRequest<'_>, &mut FetchReply<'_>),
        view: View,
    ) -> Result<()> {
        let mut before = 0;
        for &extent in extents {
            extent.check()?;
            let mut run = Run { request, reply, extent, before };
            if !self.fetch_whole(from, akey, &mut run, view)? {
                for piece in scan::extents(from, akey, extent, view, usize::MAX)? {
                    let record = piece.record()?;
                    let found = Extent::new(piece.start(), record.count);
                    self.deliver_extent(&piece.key, &record, found, &mut run)?;
                }
            }
            before = before.saturating_add(extent.count);
        }
        if reply.size == 0 && !extents.iter().all(|extent| extent.is_empty()) {
            reply.size = record_size(from, akey, view)?;
        }
        Ok(())
    }

    /// Handles the common case without a cursor: a stored extent begins at the same record as the requested one, and is
    /// at least as long. Returns false, without reading, in all other cases.
    fn fetch_whole(
        &self,
        from: &ReadView<'_>,
        akey: &Key,
        run: &mut Run<'_, '_, '_>,
        view: View,
    ) -> Result<bool> {
        if view != View::Latest {
            return Ok(false);
        }
        let key = akey.extent(run.extent.start);
        let Some(value) = from.get(&key)? else { return Ok(false) };
        let record = Record::decode(&key[1..], value)?;
        if record.count < run.extent.count {
            return Ok(false);
        }
        let found = Extent::new(run.extent.start, record.count);
        self.deliver_extent(&key, &record, found, run)?;
        Ok(true)
    }

    /// Copies the requested part of a stored extent `found` to its place in the sink.
    fn deliver_extent(
        &self,
        key: &[u8],
        record: &Record<'_>,
        found: Extent,
        run: &mut Run<'_, '_, '_>,
    ) -> Result<()> {
        let size = u64::from(record.record_size);
        run.reply.size = size;
        check_record_size(run.request.record_size, size)?;
        let Some(part) = found.intersect(run.extent) else { return Ok(()) };
        if run.request.want_filled {
            push_joined(&mut run.reply.filled, part);
        }
        if matches!(run.reply.sink, Sink::None) {
            return Ok(());
        }
        let (place, len) = (run.sink_offset(part, size), part.count * size);
        let end = place.saturating_add(len);
        if end > run.reply.sink.len() {
            let (bytes, count) = (run.reply.sink.len(), run.extent.count);
            let message = format!("a buffer of {bytes} bytes for {count} records");
            return Err(Error::new(ErrorKind::RecordTooBig, message).with_needed(end));
        }
        run.reply.filled_bytes = run.reply.filled_bytes.max(end);
        let from = (part.start - found.start) * size;
        self.copy_out(key, record, from..from + len, place, &mut run.reply.sink)
    }

    /// Copies the verified bytes `range` of a record to offset `place` of the sink.
    fn copy_out(
        &self,
        key: &[u8],
        record: &Record<'_>,
        range: Range<u64>,
        place: u64,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        match record.body {
            Body::Inline(data) => {
                let part = data.get(range.start as usize..range.end as usize);
                let part = part.ok_or_else(|| self.damaged(key, "an inline value"))?;
                sink.put(place, part);
                Ok(())
            }
            Body::Segment(location) => {
                let mut at = range.start;
                let len = range.end - range.start;
                sink.visit(place, len, |buffer| {
                    self.read_verified(key, &location, at, buffer)?;
                    at += buffer.len() as u64;
                    Ok(())
                })
            }
        }
    }

    /// Fills `buffer` with the bytes of a location from byte `skip` on. Verifies every chunk that it touches.
    pub(crate) fn read_verified(
        &self,
        key: &[u8],
        location: &Location<'_>,
        skip: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        let begin = self.segment_offset(location.segment);
        let chunk = CHECKSUM_CHUNK as u64;
        let wanted = u64::from(location.offset) - u64::from(location.base) + skip;
        let end = wanted + buffer.len() as u64;
        let base = begin + u64::from(location.base);
        let covered = u64::from(location.covered);
        if end > covered {
            return Err(self.damaged(key, "the location"));
        }
        let verified = wanted / chunk * chunk..end.next_multiple_of(chunk).min(covered);
        let data = self.data.reader(base + verified.start, verified.end - verified.start);
        let mut at = wanted;
        while at < end {
            let index = at / chunk;
            let from = index * chunk;
            let whole_end = (from + data.step() as u64).min(covered);
            let done = (at - wanted) as usize;
            // Complete chunks are read into the buffer. Other chunks are verified in a copy, since their checksums
            // cover bytes that are not wanted.
            if at == from && (end >= whole_end || end - from >= chunk) {
                let run_end = if end >= whole_end { whole_end } else { end / chunk * chunk };
                let place = &mut buffer[done..done + (run_end - at) as usize];
                self.read_chunks((&data, base + from), key, location, index, place)?;
                at = run_end;
            } else {
                let chunk_end = (from + chunk).min(covered);
                let mut bounce = vec![0; (chunk_end - from) as usize];
                self.read_chunks((&data, base + from), key, location, index, &mut bounce)?;
                let upto = chunk_end.min(end);
                let part = &bounce[(at - from) as usize..(upto - from) as usize];
                buffer[done..done + part.len()].copy_from_slice(part);
                at = upto;
            }
        }
        Ok(())
    }

    /// Reads complete checksum chunks at `offset` of the data file into `place`, and verifies them. They begin at chunk
    /// `first` of the location. One chunk with a CRC-32C is read and verified in one pass if possible.
    fn read_chunks(
        &self,
        (data, offset): (&Reader<'_>, u64),
        key: &[u8],
        location: &Location<'_>,
        first: u64,
        place: &mut [u8],
    ) -> Result<()> {
        let summed = match location.checksum {
            Checksum::Crc32c if place.len() <= CHECKSUM_CHUNK => data.read_summed(offset, place)?,
            _ => None,
        };
        if let Some(sum) = summed {
            let sound = location.has_crc32c(first, sum);
            return sound.then_some(()).ok_or_else(|| self.damaged(key, "data"));
        }
        data.read(offset, place)?;
        match self.verify(key, location, first, place) {
            Ok(()) => Ok(()),
            // Another thread may have changed the buffer of the caller, which is not damage.
            Err(_) => self.reread(key, location, first, place),
        }
    }

    /// Reads complete chunks again, after their checksums did not match, into memory that no other thread can change.
    /// Copies them to `place` if they match now. Otherwise they are damaged, and it fails.
    #[cold]
    fn reread(
        &self,
        key: &[u8],
        location: &Location<'_>,
        first: u64,
        place: &mut [u8],
    ) -> Result<()> {
        let mut bytes = vec![0; place.len()];
        let base = self.segment_offset(location.segment) + u64::from(location.base);
        self.data.read(base + first * CHECKSUM_CHUNK as u64, &mut bytes)?;
        self.verify(key, location, first, &bytes)?;
        place.copy_from_slice(&bytes);
        Ok(())
    }

    /// Fails unless `bytes`, which begin at chunk `first` of a location, match their checksums.
    pub(super) fn verify(
        &self,
        key: &[u8],
        location: &Location<'_>,
        first: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let sound = bytes.chunks(CHECKSUM_CHUNK).enumerate().all(|(index, chunk)| {
            location.checksum.matches(chunk, location.sums, first as usize + index)
        });
        if sound { Ok(()) } else { Err(self.damaged(key, "data")) }
    }
}

/// Buffered puts that a fetch needs, for an akey given by the key of its single value. Only a condition depends on a
/// value of the other kind.
fn scope_of<'k>(oid: ObjectId, single: &'k Key, request: &FetchRequest<'_>) -> Scope<'k> {
    match request.wanted {
        Wanted::Array(_) if !request.cond.has(Cond::AKEY_FETCH) => Scope::Extents(oid, single),
        _ => Scope::Akeys(oid, std::slice::from_ref(single)),
    }
}

/// Fails if records of `stored` bytes do not have the size `wanted` that the caller states. 0 accepts any size.
fn check_record_size(wanted: u64, stored: u64) -> Result<()> {
    let kind = match wanted {
        0 => return Ok(()),
        _ if wanted == stored => return Ok(()),
        _ if wanted < stored => ErrorKind::RecordTooBig,
        _ => ErrorKind::Invalid,
    };
    let message = format!("records have {stored} bytes, not {wanted}");
    Err(Error::new(kind, message).with_needed(stored))
}

fn missing_key_error(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the {what} does not exist"))
}

/// Appends an extent, or extends the last one if they are adjacent.
fn push_joined(list: &mut Vec<Extent>, extent: Extent) {
    match list.last_mut() {
        Some(last) if last.end() == extent.start => last.count += extent.count,
        _ => list.push(extent),
    }
}

/// Record size of an array akey; zero if it has no records.
fn record_size(from: &ReadView<'_>, akey: &Key, view: View) -> Result<u64> {
    let prefix = akey.clone().push(&[crate::format::keys::ARRAY]);
    let first = scan::Scan::new(from, prefix.clone(), view)?.seek(&prefix)?;
    first.map_or(Ok(0), |visible| Ok(u64::from(visible.record()?.record_size)))
}

/// True if a view shows a record under a prefix.
fn exists(from: &ReadView<'_>, prefix: &Key, view: View) -> Result<bool> {
    Ok(scan::Scan::new(from, prefix.clone(), view)?.seek(prefix)?.is_some())
}

/// Segments that views of this process pin, by number. Views of the same segment share a pin.
pub(crate) struct Pins(Vec<Mutex<Weak<Pin>>>);

impl Pins {
    /// Creates the list for `segments` segments, none of which is pinned.
    pub(super) fn new(segments: u32) -> Self {
        Self((0..segments).map(|_| Mutex::default()).collect())
    }

    /// The pin of a segment: the pin of an existing view or, without one, a new pin from `pin`. `None` if `pin` returns
    /// none.
    fn share(
        &self,
        segment: u32,
        pin: impl FnOnce() -> Result<Option<Pin>>,
    ) -> Result<Option<Arc<Pin>>> {
        let Some(known) = self.0.get(segment as usize) else {
            return pin().map(|pin| pin.map(Arc::new));
        };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pin) = known.upgrade() {
            return Ok(Some(pin));
        }
        let pin = pin()?.map(Arc::new);
        *known = pin.as_ref().map_or_else(Weak::new, Arc::downgrade);
        Ok(pin)
    }
}

impl Target {
    /// A verified view of the value of an akey, or of one extent of its array. Returns `None` if there is no such
    /// value, or if it cannot be used in place. That is the case if it is not contiguous in a segment, or if the data
    /// file is not in memory. Then the caller must fetch it.
    ///
    /// # Errors
    /// `Checksum` if stored bytes are damaged, `Overflow` if this process has too many views.
    pub fn view(
        &self,
        container: ContainerId,
        oid: ObjectId,
        key: AkeyRef<'_>,
        wanted: Wanted<'_>,
        at: ReadAt<'_>,
    ) -> Result<Option<Mapped>> {
        if !self.data.is_mapped() {
            return Ok(None);
        }
        let akey = Key::dkey(Table::Data, container, oid, key.dkey)?.akey(oid, key.akey)?;
        let single = akey.single();
        let scope = Scope::Akeys(oid, std::slice::from_ref(&single));
        // The view is kept until the segment is pinned, so that the segment is not freed before.
        let from = self.view_of_object(scope, at, container, oid, Some(key.dkey))?;
        let Some(found) = only_record(&from, &akey, wanted, at.view)? else { return Ok(None) };
        let record = match wanted {
            Wanted::Array(&[extent]) => found.record()?.cut(found.start(), extent),
            _ => found.record()?,
        };
        self.map(&found.key, &record)
    }

    /// Pins the segment of a record, and verifies all bytes that its checksums cover. `None` if the record itself
    /// contains the value, or if the segment cannot be pinned because it is on a disk.
    fn map(&self, key: &[u8], record: &Record<'_>) -> Result<Option<Mapped>> {
        let Body::Segment(location) = record.body else { return Ok(None) };
        let begin = self.segment_offset(location.segment);
        let pin = || self.data.pin(begin, self.segment_bytes());
        let Some(pin) = self.pins.share(location.segment, pin)? else { return Ok(None) };
        let (base, offset) = (location.base as usize, location.offset as usize);
        // Ranges in the segment: the bytes that the checksums cover, and those of the value.
        let (summed, value) =
            (base..base + location.covered as usize, offset..offset + record.bytes() as usize);
        let bytes =
            pin.bytes(summed.clone()).filter(|_| value.start >= base && value.end <= summed.end);
        let bytes = bytes.ok_or_else(|| self.damaged(key, "the location"))?;
        let first_chunk = 0;
        self.verify(key, &location, first_chunk, bytes)?;
        let is_whole = value == summed && location.checksum == Checksum::Crc32c;
        let sum = is_whole.then(|| crc32c_of_chunks(location.sums, summed.len())).flatten();
        Mapped::new(pin, value, sum).map(Some)
    }

    /// True if a view of any process pins the segment.
    pub(crate) fn is_viewed(&self, segment: u32) -> bool {
        self.data.is_pinned(self.segment_offset(segment))
    }
}

/// The record that contains everything that is requested, if there is one.
fn only_record(
    from: &ReadView<'_>,
    akey: &Key,
    wanted: Wanted<'_>,
    view: View,
) -> Result<Option<scan::Visible>> {
    let has_all = |found: &scan::Visible, extent: Extent| -> Result<bool> {
        let stored = Extent::new(found.start(), found.record()?.count);
        Ok(stored.start <= extent.start && extent.end() <= stored.end())
    };
    match wanted {
        Wanted::Single => {
            let key = akey.single();
            scan::Scan::new(from, key.clone(), view)?.seek(&key)
        }
        Wanted::Array(&[extent]) if !extent.is_empty() => {
            let found = scan::extents(from, akey, extent, view, 1)?.pop();
            match found {
                Some(found) if has_all(&found, extent)? => Ok(Some(found)),
                _ => Ok(None),
            }
        }
        Wanted::Array(_) => Ok(None),
    }
}
