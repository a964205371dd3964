//! Reading one object.
use super::conflicts::{Conflicts, Watched};
use super::overlay::missing_key_error;
use super::records::{Records, Stored};
use super::tree::{AkeyPath, Seen, Tree, encode_akey, encode_dkey};
use crate::check::{check_count, check_keys};
use esker_types::info::ContainerId;
use esker_types::limits::{AKEYS_PER_OP_MAX, EXTENTS_PER_OP_MAX};
use esker_types::ops::{Cond, Fetch, FetchReply, FetchRequest, ReadTokens, Sink, Wanted};
use esker_types::{Epoch, Error, ErrorKind, Extent, ObjectId, Result};
use std::sync::Arc;

/// An object as a reader sees it.
pub struct Reader<'a, P = Arc<[u8]>> {
    /// The container.
    pub id: ContainerId,
    /// The object.
    pub oid: ObjectId,
    /// Number of targets that listings go through one by one.
    pub targets: u32,
    /// All akeys of the container.
    pub tree: &'a Tree<P>,
    /// The epoch that the reader sees.
    pub at: Epoch,
    /// Read tokens of the transaction.
    pub tokens: Option<&'a ReadTokens>,
    /// Versions of the data that transactions have read.
    pub conflicts: &'a mut Conflicts,
}

impl<P> Reader<'_, P> {
    /// Records for the transaction the data that its answer depends on.
    pub fn note(&mut self, watched: Watched) {
        if let Some(tokens) = self.tokens {
            self.conflicts.note(self.id, watched, tokens);
        }
    }

    /// Records that the answer depends on an encoded dkey.
    pub fn note_dkey(&mut self, dkey: &[u8]) {
        self.note(Watched::Dkey(self.oid, dkey.to_vec()));
    }

    /// The epoch of the last modification of the object, or of what is under a dkey.
    ///
    /// # Errors
    /// The errors of [`crate::OpenContainer::last_epoch`].
    pub fn epoch(&mut self, dkey: Option<&[u8]>) -> Result<Epoch> {
        let Some(dkey) = dkey else {
            self.note(Watched::Object(self.oid));
            return Ok(last(self.tree.object(self.oid, self.at)));
        };
        let dkey = encode_dkey(self.oid, dkey)?;
        self.note_dkey(&dkey);
        Ok(last(self.tree.dkey(self.oid, &dkey, self.at)))
    }
}

/// The latest epoch of these akeys; zero if there are none.
fn last<'a, P: 'a>(seen: impl Iterator<Item = Seen<'a, P>>) -> Epoch {
    seen.map(|seen| seen.epoch).max().unwrap_or_default()
}

impl Reader<'_> {
    /// Reads akeys of a dkey into their sinks, and notes the dkey as read. Wrong keys and too many akeys are refused
    /// before anything is read.
    ///
    /// # Errors
    /// The errors of [`crate::OpenContainer::fetch`].
    pub fn fetch(&mut self, dkey: &[u8], cond: Cond, fetches: &mut [Fetch<'_>]) -> Result<()> {
        check_count("akeys", fetches.len(), AKEYS_PER_OP_MAX)?;
        check_keys(self.oid, dkey, None)?;
        fetches
            .iter()
            .try_for_each(|fetch| check_keys(self.oid, dkey, Some(fetch.request.akey)))?;
        let dkey = encode_dkey(self.oid, dkey)?;
        self.note_dkey(&dkey);
        let stored = |fetch: &Fetch<'_>| {
            let akey = encode_akey(self.oid, fetch.request.akey)?;
            let path = AkeyPath { oid: self.oid, dkey: dkey.clone(), akey };
            Ok(self.tree.get(&path, self.at))
        };
        let stored: Vec<_> = fetches.iter().map(stored).collect::<Result<_>>()?;
        if cond.has(Cond::DKEY_FETCH) && self.tree.dkey(self.oid, &dkey, self.at).next().is_none() {
            return Err(missing_key_error("dkey"));
        }
        let lacks = |(fetch, stored): (&Fetch<'_>, &Option<&Stored>)| {
            fetch.request.cond.has(Cond::AKEY_FETCH) && stored.is_none()
        };
        if fetches.iter().zip(&stored).any(lacks) {
            return Err(missing_key_error("akey"));
        }
        fill_all(fetches, &stored)
    }
}

/// Answers every fetch, so that all sizes are known; returns the first error.
fn fill_all(fetches: &mut [Fetch<'_>], stored: &[Option<&Stored>]) -> Result<()> {
    let results = fetches
        .iter_mut()
        .zip(stored)
        .map(|(fetch, stored)| fill(&fetch.request, &mut fetch.reply, *stored));
    results.collect::<Vec<_>>().into_iter().collect()
}

/// Copies the stored value to the sink of a fetch, and sets the size in its reply. An akey that holds the other kind of
/// value (single value or array) counts as missing.
fn fill(
    request: &FetchRequest<'_>,
    reply: &mut FetchReply<'_>,
    stored: Option<&Stored>,
) -> Result<()> {
    reply.reset();
    match (request.wanted, stored) {
        (Wanted::Single, Some(Stored::Single(value))) => fill_single(reply, value),
        (Wanted::Array(extents), Some(Stored::Array(records))) => {
            fill_array(request, reply, extents, records)
        }
        _ => Ok(()),
    }
}

/// Copies a single value into the sink of a reply.
///
/// # Errors
/// [`ErrorKind::RecordTooBig`] if the sink is too short.
pub fn fill_single(reply: &mut FetchReply<'_>, value: &[u8]) -> Result<()> {
    reply.size = value.len() as u64;
    if matches!(reply.sink, Sink::None) {
        return Ok(());
    }
    if reply.sink.len() < reply.size {
        return Err(too_big("value", reply.size));
    }
    reply.sink.put(0, value);
    reply.filled_bytes = reply.size;
    Ok(())
}

/// Copies the records within `extents` to the sink of a fetch. The bytes of the sink for records that are not stored
/// stay as they are.
fn fill_array(
    request: &FetchRequest<'_>,
    reply: &mut FetchReply<'_>,
    extents: &[Extent],
    records: &Records,
) -> Result<()> {
    check_count("extents", extents.len(), EXTENTS_PER_OP_MAX)?;
    extents.iter().try_for_each(|extent| extent.check())?;
    reply.size = records.record_size;
    let mut offset = 0u64;
    for &extent in extents {
        for run in records.overlapping(extent) {
            let Some(part) = run.intersect(extent) else { continue };
            check_record_size(request.record_size, records.record_size)?;
            let skipped = (part.start - extent.start).saturating_mul(records.record_size);
            let at = offset.saturating_add(skipped);
            note_found(request, reply, part);
            put_records(reply, at, records.bytes(run, part))?;
        }
        let bytes = extent.count.saturating_mul(records.record_size);
        offset = offset.saturating_add(bytes);
    }
    Ok(())
}

/// Fails unless stored records have the size that a reader expects; 0 stands for any. It is called only if there are
/// records.
pub fn check_record_size(expected: u64, stored: u64) -> Result<()> {
    match expected {
        0 => Ok(()),
        smaller if smaller < stored => Err(too_big("record", stored)),
        larger if larger > stored => Err(Error::new(
            ErrorKind::Invalid,
            format!("requested record size {larger} differs from the stored size {stored}"),
        )),
        _ => Ok(()),
    }
}

/// Adds an extent of stored records to the reply, if the request asks for those extents.
pub fn note_found(request: &FetchRequest<'_>, reply: &mut FetchReply<'_>, found: Extent) {
    if request.want_filled {
        reply.filled.push(found);
    }
}

/// Copies records into the sink, starting at byte `at`.
fn put_records(reply: &mut FetchReply<'_>, at: u64, bytes: &[u8]) -> Result<()> {
    if matches!(reply.sink, Sink::None) {
        return Ok(());
    }
    let end = at.saturating_add(bytes.len() as u64);
    if end > reply.sink.len() {
        return Err(too_big("records", end));
    }
    reply.sink.put(at, bytes);
    reply.filled_bytes = end;
    Ok(())
}

/// The error for a sink that is too short for `needed` bytes.
pub fn too_big(what: &str, needed: u64) -> Error {
    let message = format!("{what} of {needed} bytes does not fit in the buffer: use a larger one");
    Error::new(ErrorKind::RecordTooBig, message).with_needed(needed)
}
