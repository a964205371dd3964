//! Walks over a container in strides, recording the progress after each.
use super::Options;
use super::batch::Batch;
use super::load::Loader;
use super::marks::Marks;
use super::progress::{Progress, add};
use super::state::{CopyPosition, CopyState};
use super::store::Storer;
use crate::access::Access;
use crate::container::Container;
use esker_os::executor::Wait;
use esker_types::ops::{Anchor, Cond, ListLimit};
use esker_types::{Error, ErrorKind, KeyBatch, ObjectId, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Objects to list at a time.
pub(super) const OBJECTS: usize = 1024;

/// Estimated bytes of a stride: per chunk of an array, per key of any other object, and at least per part.
const CHUNK_COST: u64 = 1 << 20;
const KEY_COST: u64 = 1 << 10;
const PART_COST: u64 = 64 << 10;

/// Dkeys per part; few for arrays, whose dkeys are long.
const CHUNKS: usize = 4;
const KEYS: usize = 256;

/// Some dkeys of an object.
pub(super) struct Part {
    pub(super) oid: ObjectId,
    pub(super) dkeys: KeyBatch,
}

/// A container that is being copied to another.
pub(super) struct Walk<'a> {
    pub(super) from: &'a Container,
    pub(super) to: &'a Container,
    pub(super) options: &'a Options,
    pub(super) progress: &'a Progress,
    pub(super) marks: Marks,
    pub(super) access: Access<'a>,
}

/// Parts to be copied, and their estimated size.
#[derive(Default)]
pub(super) struct Stride {
    parts: Vec<Part>,
    cost: u64,
}

impl Walk<'_> {
    /// Copies everything that `state` marks as not yet copied.
    pub(super) fn run(&self, state: &mut CopyState) -> Result<()> {
        let (mut anchor, mut after) = match state.position.clone() {
            CopyPosition::Start => (Anchor::Start, None),
            CopyPosition::After { objects, oid } => (objects, Some(oid)),
            CopyPosition::End => return Ok(()),
        };
        let mut stride = Stride::default();
        while !anchor.is_end() {
            let before = anchor.clone();
            let objects = self.from.list_objects(&mut anchor, OBJECTS, self.access).wait()?;
            for oid in rest(&objects, after.take()) {
                self.remove_partial_copy(*oid, state)?;
                self.add(*oid, &mut stride)?;
                if stride.cost >= self.options.stride {
                    self.copy(&mut stride)?;
                    // A later run lists this batch again, and skips the objects up to `oid`.
                    let position = CopyPosition::After { objects: before.clone(), oid: *oid };
                    state.save_position(self.to, self.from, position)?;
                }
            }
        }
        self.copy(&mut stride)?;
        state.save_position(self.to, self.from, CopyPosition::End)
    }

    /// Removes the data that a stopped copy has written of an object. Without a snapshot, that data may come from an
    /// older state of the source than the data still to be copied.
    fn remove_partial_copy(&self, oid: ObjectId, state: &CopyState) -> Result<()> {
        if !state.resumed || state.epoch.is_some() {
            return Ok(());
        }
        // A run that has taken over may have copied the object already.
        state.check_run(self.to)?;
        self.to.object(oid).punch(Cond::NONE, Access::Latest).wait()
    }

    /// Adds the parts of an object. An object longer than a stride is copied while it is listed; if the copy is
    /// stopped in the middle of it, the object is copied again from its start.
    pub(super) fn add(&self, oid: ObjectId, stride: &mut Stride) -> Result<()> {
        add(&self.progress.objects, 1);
        let object = self.from.object(oid);
        let is_array = oid.object_type().is_some_and(|otype| otype.is_array());
        let (entries, key_cost) = if is_array { (CHUNKS, CHUNK_COST) } else { (KEYS, KEY_COST) };
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            let limit = ListLimit::entries(entries);
            let dkeys = object.list_dkeys(&mut anchor, limit, self.access).wait()?;
            stride.cost += (key_cost * dkeys.len() as u64).max(PART_COST);
            stride.parts.push(Part { oid, dkeys });
            if !anchor.is_end() {
                self.copy_if_long(stride)?;
            }
        }
        Ok(())
    }

    /// Copies the collected objects if they cost at least `options.stride`. Fewer are not worth waking all workers.
    pub(super) fn copy_if_long(&self, stride: &mut Stride) -> Result<()> {
        if stride.cost >= self.options.stride { self.copy(stride) } else { Ok(()) }
    }

    /// Copies a stride with all workers, and empties it.
    pub(super) fn copy(&self, stride: &mut Stride) -> Result<()> {
        let parts = std::mem::take(stride).parts;
        let (next, stop, failure) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
        let work = || {
            let mut buffers = (Batch::default(), Vec::new());
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                if let Err(error) = self.copy_part(part, &mut buffers) {
                    stop.store(true, Ordering::Relaxed);
                    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    failure.get_or_insert(with_object(part.oid, &error));
                }
            }
        };
        std::thread::scope(|scope| {
            let others = self.options.threads().min(parts.len());
            (1..others).for_each(|_| {
                // Without memory for another thread, this one does it all.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            });
            work();
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), Err)
    }

    /// Copies the dkeys of a part of an object. `batch` and the byte buffer are memory for reuse.
    fn copy_part(&self, part: &Part, (batch, scratch): &mut (Batch, Vec<u8>)) -> Result<()> {
        let (oid, verify, progress) = (part.oid, self.options.verify, self.progress);
        let storer = Storer { to: self.to, oid, verify, progress, marks: self.marks };
        let object = self.from.object(oid);
        let loader = Loader { object: &object, access: self.access, marks: self.marks };
        batch.clear();
        for dkey in part.dkeys.iter() {
            loader.load_dkey(dkey, batch, &mut |batch| storer.store(batch, scratch))?;
            add(&progress.keys, 1);
        }
        storer.store(batch, scratch)
    }
}

/// The objects that are listed after `after`; all of them if `after` is `None` or not listed.
fn rest(objects: &[ObjectId], after: Option<ObjectId>) -> &[ObjectId] {
    let done = after.and_then(|oid| objects.iter().position(|listed| *listed == oid));
    done.map_or(objects, |index| &objects[index + 1..])
}

/// Adds the object to an error's message.
#[cold]
fn with_object(oid: ObjectId, error: &Error) -> Error {
    match error.kind() {
        ErrorKind::Checksum => error.clone(),
        kind => Error::new(kind, format!("copying object {oid}: {}", error.message())),
    }
}
