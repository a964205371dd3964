//! Reading one object.
use super::conflicts::{Conflicts, Watched};
use super::overlay::missing;
use super::records::{Records, Stored};
use super::tree::{AkeyPath, Tree, encode_akey, encode_dkey};
use crate::check::{check_count, check_keys};
use esker_types::info::ContainerId;
use esker_types::limits::{AKEYS_PER_OP_MAX, EXTENTS_PER_OP_MAX};
use esker_types::ops::{Cond, Fetch, ReadMarks, Sink, Wanted};
use esker_types::{Epoch, Error, ErrorKind, Extent, ObjectId, Result};
use std::sync::Arc;

/// An object as a reader sees it.
pub struct Reader<'a, P = Arc<[u8]>> {
    /// The container.
    pub id: ContainerId,
    /// The object.
    pub oid: ObjectId,
    /// Targets that listings go over one by one.
    pub targets: u32,
    /// All akeys of the container.
    pub tree: &'a Tree<P>,
    /// The epoch it sees.
    pub at: Epoch,
    /// Where a transaction notes what it has read.
    pub marks: Option<&'a ReadMarks>,
    /// Versions of everything that was read in a transaction.
    pub conflicts: &'a mut Conflicts,
}

impl<P> Reader<'_, P> {
    /// Tells the transaction what its answer depends on.
    pub fn note(&mut self, watched: Watched) {
        if let Some(marks) = self.marks {
            self.conflicts.note(self.id, watched, marks);
        }
    }

    /// As [`Reader::note`], for an encoded dkey.
    pub fn note_dkey(&mut self, dkey: &[u8]) {
        self.note(Watched::Dkey(self.oid, dkey.to_vec()));
    }

    /// When the object was last changed.
    pub fn epoch(&mut self) -> Epoch {
        self.note(Watched::Object(self.oid));
        self.tree.object(self.oid, self.at).map(|seen| seen.epoch).max().unwrap_or_default()
    }
}

impl Reader<'_> {
    /// Reads akeys of a dkey.
    ///
    /// # Errors
    /// As [`crate::Backend::fetch`].
    pub fn fetch(&mut self, dkey: &[u8], cond: Cond, fetches: &mut [Fetch<'_>]) -> Result<()> {
        check_count("akeys", fetches.len(), AKEYS_PER_OP_MAX)?;
        check_keys(self.oid, dkey, None)?;
        fetches.iter().try_for_each(|fetch| check_keys(self.oid, dkey, Some(fetch.akey)))?;
        let dkey = encode_dkey(self.oid, dkey)?;
        self.note_dkey(&dkey);
        let stored = |fetch: &Fetch<'_>| {
            let akey = encode_akey(self.oid, fetch.akey)?;
            let place = AkeyPath { oid: self.oid, dkey: dkey.clone(), akey };
            Ok(self.tree.get(&place, self.at))
        };
        let stored: Vec<_> = fetches.iter().map(stored).collect::<Result<_>>()?;
        if cond.has(Cond::DKEY_FETCH) && self.tree.dkey(self.oid, &dkey, self.at).next().is_none() {
            return Err(missing("dkey"));
        }
        let lacks = |(fetch, stored): (&Fetch<'_>, &Option<&Stored>)| {
            fetch.cond.has(Cond::AKEY_FETCH) && stored.is_none()
        };
        if fetches.iter().zip(&stored).any(lacks) {
            return Err(missing("akey"));
        }
        fill_all(fetches, &stored)
    }
}

/// Answers every fetch, so that all sizes are known; the first error counts.
fn fill_all(fetches: &mut [Fetch<'_>], stored: &[Option<&Stored>]) -> Result<()> {
    let results = fetches.iter_mut().zip(stored).map(|(fetch, stored)| fill(fetch, *stored));
    results.collect::<Vec<_>>().into_iter().collect()
}

/// A value of the other kind is as good as none.
fn fill(fetch: &mut Fetch<'_>, stored: Option<&Stored>) -> Result<()> {
    fetch.filled.clear();
    fetch.filled_bytes = 0;
    match (fetch.wanted, stored) {
        (Wanted::Single, Some(Stored::Single(value))) => fill_single(fetch, value),
        (Wanted::Array(extents), Some(Stored::Array(records))) => {
            fill_array(fetch, extents, records)
        }
        _ => {
            fetch.size = 0;
            Ok(())
        }
    }
}

/// Puts a single value into the sink of a fetch.
///
/// # Errors
/// [`ErrorKind::RecordTooBig`] where the sink is too short.
pub fn fill_single(fetch: &mut Fetch<'_>, value: &[u8]) -> Result<()> {
    fetch.size = value.len() as u64;
    if matches!(fetch.sink, Sink::None) {
        return Ok(());
    }
    if fetch.sink.len() < fetch.size {
        return Err(too_big("value", fetch.size));
    }
    fetch.sink.put(0, value);
    fetch.filled_bytes = fetch.size;
    Ok(())
}

fn fill_array(fetch: &mut Fetch<'_>, extents: &[Extent], records: &Records) -> Result<()> {
    check_count("extents", extents.len(), EXTENTS_PER_OP_MAX)?;
    extents.iter().try_for_each(|extent| extent.check())?;
    let expected = std::mem::replace(&mut fetch.size, records.record_size);
    let mut offset = 0u64;
    for &extent in extents {
        for run in records.overlapping(extent) {
            let Some(part) = run.intersect(extent) else { continue };
            check_record_size(expected, records.record_size)?;
            let skipped = (part.start - extent.start).saturating_mul(records.record_size);
            let at = offset.saturating_add(skipped);
            fill_records(fetch, part, at, records.bytes(run, part))?;
        }
        let bytes = extent.count.saturating_mul(records.record_size);
        offset = offset.saturating_add(bytes);
    }
    Ok(())
}

/// Only records that are there can be of the wrong size.
pub fn check_record_size(expected: u64, stored: u64) -> Result<()> {
    match expected {
        0 => Ok(()),
        smaller if smaller < stored => Err(too_big("record", stored)),
        larger if larger > stored => Err(Error::new(
            ErrorKind::Invalid,
            format!("records of {larger} bytes wanted, where {stored} are stored"),
        )),
        _ => Ok(()),
    }
}

/// Puts the records `found` at byte `at` of the sink.
fn fill_records(fetch: &mut Fetch<'_>, found: Extent, at: u64, bytes: &[u8]) -> Result<()> {
    if fetch.want_filled {
        fetch.filled.push(found);
    }
    if matches!(fetch.sink, Sink::None) {
        return Ok(());
    }
    let end = at.saturating_add(bytes.len() as u64);
    if end > fetch.sink.len() {
        return Err(too_big("records", end));
    }
    fetch.sink.put(at, bytes);
    fetch.filled_bytes = end;
    Ok(())
}

/// The error for a sink that is too short for `needed` bytes.
pub fn too_big(what: &str, needed: u64) -> Error {
    let message = format!("{what} of {needed} bytes: the buffer is too short");
    Error::new(ErrorKind::RecordTooBig, message).with_needed(needed)
}
