//! Reading values.
use super::{Target, scan};
use crate::io::txn::ReadTxn;
use crate::keys::{Key, SINGLE, Table};
use crate::record::{Body, Location, Record};
use esker_types::info::ContainerId;
use esker_types::limits::CHECKSUM_CHUNK;
use esker_types::ops::{Cond, Fetch, ReadAt, View, Wanted};
use esker_types::{Error, ErrorKind, Extent, KeyBuffer as _, ObjectId, Result};
use std::ops::Range;

impl Target {
    /// Reads akeys of one dkey from one consistent state.
    ///
    /// # Errors
    /// `NotFound` where a condition asks for what is not there, `RecordTooBig` where a sink is too
    /// short, `Checksum` where stored bytes are damaged.
    pub fn fetch(
        &self,
        container: ContainerId,
        oid: ObjectId,
        dkey: &[u8],
        cond: Cond,
        fetches: &mut [Fetch<'_>],
        at: ReadAt<'_>,
    ) -> Result<()> {
        let mut prefix = Key::object(Table::Data, container, oid);
        prefix.put_dkey(oid, dkey)?;
        let txn = self.read()?;
        self.mark(at, &txn, container, oid, Some(dkey));
        if cond.has(Cond::DKEY_FETCH) && !exists(&txn, &prefix, at.view)? {
            return Err(missing("dkey"));
        }
        let mut outcome = Ok(());
        for fetch in fetches {
            // All are answered, so that the caller learns all sizes; the first error counts.
            outcome = outcome.and(self.fetch_akey(&txn, &prefix, oid, fetch, at.view));
        }
        outcome
    }

    fn fetch_akey(
        &self,
        txn: &ReadTxn,
        dkey: &Key,
        oid: ObjectId,
        fetch: &mut Fetch<'_>,
        view: View,
    ) -> Result<()> {
        let mut akey = dkey.clone();
        akey.put_akey(oid, fetch.akey)?;
        match fetch.wanted {
            Wanted::Single => {
                akey.put(&[SINGLE]);
                self.fetch_single(txn, &akey, fetch, view)?;
            }
            Wanted::Array(extents) => self.fetch_array(txn, &akey, extents, fetch, view)?,
        }
        let empty = fetch.size == 0 && fetch.cond.has(Cond::AKEY_FETCH);
        let is_missing = empty && !exists(txn, &dkey.akey(oid, fetch.akey)?, view)?;
        if is_missing { Err(missing("akey")) } else { Ok(()) }
    }

    fn fetch_single(
        &self,
        txn: &ReadTxn,
        key: &Key,
        fetch: &mut Fetch<'_>,
        view: View,
    ) -> Result<()> {
        let owned;
        let value = match view {
            View::Latest => txn.get(key)?,
            View::Snapshot(_) => {
                owned = scan::Scan::new(txn, key.clone(), view)?.seek(key)?;
                return match owned {
                    Some(visible) => self.deliver_single(key, visible.record()?, fetch),
                    None => nothing(fetch),
                };
            }
        };
        match value {
            Some(value) => self.deliver_single(key, Record::decode(&key[1..], value)?, fetch),
            None => nothing(fetch),
        }
    }

    fn deliver_single(&self, key: &[u8], record: Record<'_>, fetch: &mut Fetch<'_>) -> Result<()> {
        fetch.size = record.bytes();
        if matches!(fetch.sink, esker_types::ops::Sink::None) {
            return Ok(());
        }
        if fetch.size > fetch.sink.len() {
            let message =
                format!("a value of {} bytes for a buffer of {}", fetch.size, fetch.sink.len());
            return Err(Error::new(ErrorKind::RecordTooBig, message).with_needed(fetch.size));
        }
        fetch.filled_bytes = fetch.size;
        self.copy_out(key, &record, 0..fetch.size, 0, fetch)
    }

    fn fetch_array(
        &self,
        txn: &ReadTxn,
        akey: &Key,
        extents: &[Extent],
        fetch: &mut Fetch<'_>,
        view: View,
    ) -> Result<()> {
        let wanted_size = std::mem::take(&mut fetch.size);
        let mut before = 0;
        for &extent in extents {
            extent.check()?;
            if !self.fetch_whole(txn, akey, extent, before, wanted_size, fetch, view)? {
                for piece in scan::extents(txn, akey, extent, view, usize::MAX)? {
                    let found = Extent::new(piece.start(), piece.record()?.count);
                    let record = piece.record()?;
                    self.deliver_extent(
                        &piece.key,
                        &record,
                        found,
                        extent,
                        before,
                        wanted_size,
                        fetch,
                    )?;
                }
            }
            before = before.saturating_add(extent.count);
        }
        if fetch.size == 0 && !extents.iter().all(|extent| extent.is_empty()) {
            fetch.size = record_size(txn, akey, view)?;
        }
        Ok(())
    }

    /// The common case, without a cursor: one stored extent begins where the wanted one does, and is
    /// at least as long.
    #[allow(clippy::too_many_arguments, reason = "the state of one loop, passed to its two bodies")]
    fn fetch_whole(
        &self,
        txn: &ReadTxn,
        akey: &Key,
        extent: Extent,
        before: u64,
        wanted_size: u64,
        fetch: &mut Fetch<'_>,
        view: View,
    ) -> Result<bool> {
        if view != View::Latest {
            return Ok(false);
        }
        let key = akey.extent(extent.start);
        let Some(value) = txn.get(&key)? else { return Ok(false) };
        let record = Record::decode(&key[1..], value)?;
        if record.count < extent.count {
            return Ok(false);
        }
        let found = Extent::new(extent.start, record.count);
        self.deliver_extent(&key, &record, found, extent, before, wanted_size, fetch)?;
        Ok(true)
    }

    #[allow(clippy::too_many_arguments, reason = "the state of one loop, passed to its two bodies")]
    fn deliver_extent(
        &self,
        key: &[u8],
        record: &Record<'_>,
        found: Extent,
        extent: Extent,
        before: u64,
        wanted_size: u64,
        fetch: &mut Fetch<'_>,
    ) -> Result<()> {
        let size = u64::from(record.record_size);
        fetch.size = size;
        check_record_size(wanted_size, size)?;
        let Some(part) = found.intersect(extent) else { return Ok(()) };
        if fetch.want_filled {
            push_joined(&mut fetch.filled, part);
        }
        if matches!(fetch.sink, esker_types::ops::Sink::None) {
            return Ok(());
        }
        let skipped = before.saturating_add(part.start - extent.start);
        let place = skipped.saturating_mul(size);
        let len = part.count * size;
        if place.saturating_add(len) > fetch.sink.len() {
            let message =
                format!("a buffer of {} bytes for {} records", fetch.sink.len(), extent.count);
            return Err(
                Error::new(ErrorKind::RecordTooBig, message).with_needed(place.saturating_add(len))
            );
        }
        fetch.filled_bytes = fetch.filled_bytes.max(place + len);
        let from = (part.start - found.start) * size;
        self.copy_out(key, record, from..from + len, place, fetch)
    }

    /// Copies bytes `range` of a record to place `place` of the sink, verified.
    fn copy_out(
        &self,
        key: &[u8],
        record: &Record<'_>,
        range: Range<u64>,
        place: u64,
        fetch: &mut Fetch<'_>,
    ) -> Result<()> {
        match record.body {
            Body::Inline(data) => {
                let part = data.get(range.start as usize..range.end as usize);
                let part = part.ok_or_else(|| self.damaged(key, "an inline value"))?;
                fetch.sink.put(place, part);
                Ok(())
            }
            Body::Segment(location) => {
                let mut at = range.start;
                let len = range.end - range.start;
                fetch.sink.visit(place, len, |buffer| {
                    self.read_verified(key, &location, at, buffer)?;
                    at += buffer.len() as u64;
                    Ok(())
                })
            }
        }
    }

    /// Fills `buffer` from byte `skip` of a location on; every chunk it touches is verified.
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
            return Err(self.damaged(key, "the place"));
        }
        let mut at = wanted;
        while at < end {
            let index = at / chunk;
            let from = index * chunk;
            let whole_end = (from + self.data.run() as u64).min(covered);
            let done = (at - wanted) as usize;
            if at == from && (end >= whole_end || end - from >= chunk) {
                let run_end = if end >= whole_end { whole_end } else { end / chunk * chunk };
                let place = &mut buffer[done..done + (run_end - at) as usize];
                self.data.read(base + from, place)?;
                if self.verify(key, location, index, place).is_err() {
                    // Another thread may have changed the caller's buffer, which is no damage.
                    self.reread(key, location, index, place)?;
                }
                at = run_end;
            } else {
                let chunk_end = (from + chunk).min(covered);
                let mut bounce = vec![0; (chunk_end - from) as usize];
                self.data.read(base + from, &mut bounce)?;
                self.verify(key, location, index, &bounce)?;
                let upto = chunk_end.min(end);
                let part = &bounce[(at - from) as usize..(upto - from) as usize];
                buffer[done..done + part.len()].copy_from_slice(part);
                at = upto;
            }
        }
        Ok(())
    }

    /// Reads whole chunks once more, where nobody else can get at them before they are verified.
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

fn check_record_size(wanted: u64, stored: u64) -> Result<()> {
    let kind = match wanted {
        0 => return Ok(()),
        _ if wanted == stored => return Ok(()),
        _ if wanted < stored => ErrorKind::RecordTooBig,
        _ => ErrorKind::Invalid,
    };
    let message = format!("records of {stored} bytes, asked for as {wanted}");
    Err(Error::new(kind, message).with_needed(stored))
}

fn nothing(fetch: &mut Fetch<'_>) -> Result<()> {
    fetch.size = 0;
    Ok(())
}

fn missing(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the {what} does not exist"))
}

/// Appends an extent, or lengthens the last one where they touch.
fn push_joined(list: &mut Vec<Extent>, extent: Extent) {
    match list.last_mut() {
        Some(last) if last.end() == extent.start => last.count += extent.count,
        _ => list.push(extent),
    }
}

/// Record size of an array akey, zero where there is none.
fn record_size(txn: &ReadTxn, akey: &Key, view: View) -> Result<u64> {
    let prefix = akey.clone().push(&[crate::keys::ARRAY]);
    let first = scan::Scan::new(txn, prefix.clone(), view)?.seek(&prefix)?;
    first.map_or(Ok(0), |visible| Ok(u64::from(visible.record()?.record_size)))
}

/// True where a view shows anything under a prefix.
fn exists(txn: &ReadTxn, prefix: &Key, view: View) -> Result<bool> {
    Ok(scan::Scan::new(txn, prefix.clone(), view)?.seek(prefix)?.is_some())
}
