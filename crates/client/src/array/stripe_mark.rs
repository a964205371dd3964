//! Stripe mark: shows, over nodes, whether an array of bytes may have chunks after its first one.
//!
//! The size of an array depends on all its chunks, and those of a striped array are on all nodes. But most files have
//! one chunk. So a writer sets a mark next to the first chunk before it writes any other one. An array without the mark
//! ends in its first chunk, and one request to the node of that chunk returns its size. The mark stays as long as the
//! array exists, also if the array is emptied: a writer that has set it need not look again.
use super::{Array, LAST_CELL};
use crate::access::Access;
use crate::container::Container;
use crate::limits::REMOVED_CHUNKS_MAX;
use crate::proof::Proof;
use esker_types::ops::{
    Cond, FIRST_CHUNK, KeyFound, LAST_OF_FIRST, Removal, STRIPE_MARK, Source, Take, Taken,
    TakenWithArray, Update, Value, Write, WriteOp,
};
use esker_types::{ErrorKind, Extent, FLAT_AKEY, ObjectId, ObjectType, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Property of a container whose arrays of bytes all have stripe marks if they need them.
pub const STRIPE_MARKS: &str = "stripe_marks";
/// The record of the mark.
const MARK_EXTENT: [Extent; 1] = [Extent::new(0, 1)];

/// Stripe mark of an array, as far as the handles of this process know.
#[derive(Clone, Default)]
pub(super) struct StripeMark {
    /// The mark is stored.
    is_set: Arc<AtomicBool>,
    /// Each array of the container has a mark if it needs one.
    is_reliable: bool,
}

impl StripeMark {
    /// The mark of an array of bytes that is striped over nodes. Other arrays have none.
    pub(super) fn of_array(container: &Container, oid: ObjectId) -> Option<Self> {
        let capabilities = container.capabilities();
        // Only pools over nodes have read leases.
        let is_striped =
            capabilities.read_leases && oid.class().groups_on(capabilities.targets) > 1;
        (is_striped && oid.object_type() == Some(ObjectType::ArrayByte)).then(Self::default)
    }

    /// True if a query of the first chunk tells whether the array ends there: marks are reliable, and this process has
    /// not seen the mark.
    fn tells(&self) -> bool {
        self.is_reliable && !self.is_set.load(Ordering::Acquire)
    }

    /// Records that the mark is stored.
    fn note_set(&self) {
        self.is_set.store(true, Ordering::Release);
    }
}

/// True if the result of [`LAST_OF_FIRST`] is the mark.
fn is_mark(found: Option<&KeyFound>) -> bool {
    found.is_some_and(|found| found.akey == STRIPE_MARK)
}

impl Array {
    /// Declares that the container has the property [`STRIPE_MARKS`], so that a missing mark proves that there is only
    /// one chunk. A request for the size then asks only the node of the first chunk, unless the mark is set.
    #[must_use]
    pub fn with_reliable_marks(mut self) -> Self {
        if let Some(mark) = &mut self.mark {
            mark.is_reliable = true;
        }
        self
    }

    /// Sets the mark, if it is missing, before a write of cells up to `end`. A write does so itself. A caller that
    /// writes several chunks at the same time calls this before.
    ///
    /// # Errors
    /// The errors of [`Array::write`].
    pub async fn prepare_write(&self, end: u64, access: Access<'_>) -> Result<()> {
        let Some(mark) = &self.mark else { return Ok(()) };
        if end <= self.layout.0.chunk_size || mark.is_set.load(Ordering::Acquire) {
            return Ok(());
        }
        let data = Source::One(&[1]);
        let value = Value::Array { record_size: 1, extents: &MARK_EXTENT, data };
        let updates = [Update { akey: STRIPE_MARK, value, cond: Cond::NONE }];
        let write = [self.write_op(&FIRST_CHUNK, &updates)];
        self.object.container().write(&write, access).await?;
        // The write of a transaction may be discarded.
        if matches!(access, Access::Latest) {
            mark.note_set();
        }
        Ok(())
    }

    /// True if a query of the first chunk may tell the size, so that other nodes need not be asked.
    pub(super) fn first_chunk_tells(&self) -> bool {
        self.mark.as_ref().is_some_and(StripeMark::tells)
    }

    /// The size of the array in cells, if `found`, the result of [`LAST_OF_FIRST`], tells it. `None` if `found` is the
    /// stripe mark: then other chunks may exist.
    pub(super) fn size_by_first(&self, found: Option<&KeyFound>) -> Result<Option<u64>> {
        if !is_mark(found) {
            return self.size_of(found).map(Some);
        }
        if let Some(mark) = &self.mark {
            mark.note_set();
        }
        Ok(None)
    }

    /// Records that the stripe mark is gone, after the array was removed. The next write beyond the first chunk stores
    /// it again.
    pub(super) fn forget_mark(&self) {
        if let Some(mark) = &self.mark {
            mark.is_set.store(false, Ordering::Release);
        }
    }

    /// Removes all cells of the first chunk, but not the mark.
    pub(super) fn empty_first_chunk(&self) -> Write<'static> {
        let op = WriteOp::PunchAkeys { dkey: &FIRST_CHUNK, akeys: &[FLAT_AKEY], cond: Cond::NONE };
        Write { oid: self.oid(), op }
    }

    /// True if a removal of all chunks must spare the mark.
    pub(super) fn has_mark(&self) -> bool {
        self.mark.is_some()
    }

    /// Removes the array, unless a process has a lease on it: then returns false, and the last process removes it. One
    /// request is enough if the array ends in its first chunk.
    ///
    /// # Errors
    /// The errors of [`Array::destroy`].
    pub async fn remove_unused(&self) -> Result<bool> {
        self.object.check_writable()?;
        if !self.first_chunk_tells() {
            return self.remove_striped().await;
        }
        let removal = self.object.container().writable()?.remove_unused(self.oid()).await?;
        self.complete(removal).await
    }

    /// Completes a removal that the node of the first chunk has answered. False if a process has a lease.
    async fn complete(&self, removal: Removal) -> Result<bool> {
        match removal {
            Removal::InUse => Ok(false),
            Removal::Removed => Ok(true),
            // There may be chunks on other nodes.
            Removal::Striped => self.destroy(Access::Latest).await.map(|()| true),
        }
    }

    /// Removes several arrays of one container as [`Array::remove_unused`] does: over nodes with one request to each of
    /// the nodes that have their first chunks, on a local pool in few commits. The call may be repeated.
    ///
    /// # Errors
    /// The errors of [`Array::destroy`].
    pub async fn remove_unused_each(arrays: &[Self]) -> Result<Vec<bool>> {
        let Some(first) = arrays.first() else { return Ok(Vec::new()) };
        first.object.check_writable()?;
        if !arrays.iter().all(Self::first_chunk_tells) {
            return Self::remove_striped_each(arrays, first.object.container()).await;
        }
        let mut is_removed = Vec::with_capacity(arrays.len());
        let oids: Vec<ObjectId> = arrays.iter().map(Self::oid).collect();
        let removals = first.object.container().writable()?.remove_unused_each(&oids).await?;
        for (array, removal) in std::iter::zip(arrays, removals) {
            is_removed.push(array.complete(removal).await?);
        }
        Ok(is_removed)
    }

    /// Removes a dkey of an object as [`crate::Object::take`] does, and then the array as [`Array::remove_unused`] does, if
    /// one node has both: a directory entry and the file that it refers to. Returns `None` if nothing was changed;
    /// otherwise the content of the dkey, and the result of [`Array::remove_unused`]. The second is `None` if two nodes have
    /// them: then only the dkey was removed, and the caller removes the array. With a proof, nothing is removed unless its
    /// reads hold at one moment after the call.
    ///
    /// # Errors
    /// The errors of [`crate::Object::take`]; [`ErrorKind::TxRestart`] if the proof is not valid, or if not all of the data
    /// is on one node.
    pub async fn remove_unused_with(
        &self,
        dkey: Take<'_>,
        proof: Option<&Proof>,
    ) -> Result<Option<(Taken, Option<Result<bool>>)>> {
        self.object.check_writable()?;
        let opened = self.object.container().writable()?;
        if !self.first_chunk_tells() {
            return match proof {
                None => Ok(opened.take(dkey).await?.map(|taken| (taken, None))),
                Some(_) => Err(ErrorKind::TxRestart.into()),
            };
        }
        let both = opened.take_with_array(dkey, self.oid(), proof.map(Proof::tokens)).await?;
        let Some(TakenWithArray { taken, removal }) = both else { return Ok(None) };
        let Some(removal) = removal else { return Ok(Some((taken, None))) };
        Ok(Some((taken, Some(self.complete(removal).await))))
    }

    /// Removes an array that no process uses. If the array ends in its first chunk, this asks only one node.
    ///
    /// # Errors
    /// The errors of [`Array::destroy`].
    pub async fn remove(&self) -> Result<()> {
        let Some(mark) = &self.mark else { return self.remove_stored().await };
        let found = self.object.query_key(LAST_OF_FIRST, Access::Latest).await?;
        match found {
            _ if is_mark(found.as_ref()) => self.destroy(Access::Latest).await,
            _ if !mark.is_reliable => self.remove_stored().await,
            // From here on, the missing mark proves that there are no other chunks.
            None => Ok(()),
            Some(_) => self.object.punch_dkey(&FIRST_CHUNK, Cond::NONE, Access::Latest).await,
        }
    }

    /// Removes the array by the write of [`Array::removal`]; does nothing if the array is empty.
    async fn remove_stored(&self) -> Result<()> {
        match self.removal().await? {
            None => Ok(()),
            Some((removal, _)) => {
                let container = self.object.container();
                container.write_by_node(&[removal], Access::Latest).await?;
                self.forget_mark();
                Ok(())
            }
        }
    }

    /// The write that removes the array, and the number of its chunks; `None` if it is empty. Most removed arrays are
    /// empty or have one chunk. Reading the size is cheaper than a write, and removing a chunk is cheaper than removing
    /// an object on all its targets.
    async fn removal(&self) -> Result<Option<(Write<'static>, u64)>> {
        let Some(last) = self.object.query_key(LAST_CELL, Access::Latest).await? else {
            return Ok(None);
        };
        let op = match self.ends_with_chunk(&last.dkey)? {
            true => WriteOp::PunchDkey { dkey: &FIRST_CHUNK, cond: Cond::NONE },
            false => WriteOp::PunchObject { cond: Cond::NONE },
        };
        let chunks = self.size_of(Some(&last))?.div_ceil(self.layout.0.chunk_size);
        Ok(Some((Write { oid: self.oid(), op }, chunks)))
    }

    /// Variant of [`Array::remove_unused_each`] for arrays that may have several chunks. On a local pool, a commit
    /// removes several arrays.
    async fn remove_striped_each(arrays: &[Self], container: &Container) -> Result<Vec<bool>> {
        let mut is_removed = Vec::with_capacity(arrays.len());
        if !container.opened()?.is_empty_without_dkeys() {
            for array in arrays {
                is_removed.push(array.remove_unused().await?);
            }
            return Ok(is_removed);
        }
        let (mut batch, mut chunks) = (Vec::new(), 0_u64);
        for array in arrays {
            let is_used = array.object.unlink_on_last_close().await?;
            is_removed.push(!is_used);
            let removal = if is_used { None } else { array.removal().await? };
            let Some((removal, count)) = removal else { continue };
            batch.push(removal);
            chunks = chunks.saturating_add(count);
            if chunks >= REMOVED_CHUNKS_MAX {
                container.write(&std::mem::take(&mut batch), Access::Latest).await?;
                chunks = 0;
            }
        }
        if !batch.is_empty() {
            container.write(&batch, Access::Latest).await?;
        }
        Ok(is_removed)
    }

    /// True if nothing is left of the array once its first chunk is removed: the dkey `last` of its last chunk is the
    /// first one, and the backend keeps nothing else of an object.
    fn ends_with_chunk(&self, last: &[u8]) -> Result<bool> {
        let is_alone = last == FIRST_CHUNK && self.bytes;
        Ok(is_alone && self.object.container().opened()?.is_empty_without_dkeys())
    }

    /// Removes the array, or, if a process has it open, leaves that to the last close. Returns whether it was removed
    /// now.
    async fn remove_striped(&self) -> Result<bool> {
        if self.object.unlink_on_last_close().await? {
            return Ok(false);
        }
        self.remove().await.map(|()| true)
    }
}
