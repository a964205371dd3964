//! Garbage collection of PUTs that were never committed, and of tensors that were removed or replaced.
use super::names::all_keys;
use super::records::{now_ms, unless_damaged};
use super::{TensorStore, layout};
use crate::messages::{State, TensorRecord};
use esker::{Access, Wait};
use esker_types::ops::{Anchor, Cond};
use esker_types::{ObjectId, Result, Uuid};
use std::collections::HashSet;
use std::time::Duration;

/// Objects listed at a time.
const BATCH: usize = 4096;

/// Tensors and objects that a collection freed, or would free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// PUTs that were never committed.
    pub puts: u64,
    /// Tensors that were removed or replaced.
    pub removed: u64,
    /// Objects that belong to no tensor: writers wrote to them after their PUT was collected, or a process was killed
    /// while it freed a tensor.
    pub objects: u64,
    /// PUTs and removed tensors that are too young, and removed tensors that a process still reads. Also tensors whose
    /// records or names are damaged: [`TensorStore::check`] reports them, [`TensorStore::remove`] removes them.
    pub kept: u64,
}

/// Decision of a collection about a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    Visible,
    Kept,
    Put,
    Removed,
}

impl TensorStore {
    /// Frees PUTs that began at least `age` ago and were never committed, removed or replaced tensors that no process
    /// reads, and objects that belong to no tensor. If the pool does not show leases of other processes, a tensor
    /// counts as unread when it was removed at least `age` ago. Without `doit`, it only counts them.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn collect(&self, age: Duration, doit: bool) -> Result<Collected> {
        self.check_writable()?;
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        // Lists objects before records: each listed object of a tensor has a record when the records are listed.
        let mut objects = self.objects()?;
        let mut collected = Collected::default();
        for key in all_keys(&self.tensors, Access::Latest)? {
            let Some(uuid) = Uuid::parse(&key) else { continue };
            let Some(record) = self.readable_record(uuid, Access::Latest)? else {
                // A damaged record does not say in which class its objects are.
                if self.has_record(uuid)? {
                    objects.retain(|oid| !layout::belongs_to(*oid, uuid));
                    collected.kept += 1;
                }
                continue;
            };
            objects.remove(&layout::data_oid(uuid, record.object_class));
            objects.remove(&layout::parts_oid(uuid, record.object_class));
            match unless_damaged(self.decide(uuid, &record, age_ms, doit).map(Some))? {
                Some(Decision::Visible) => {}
                Some(Decision::Kept) | None => collected.kept += 1,
                Some(Decision::Put) => collected.puts += 1,
                Some(Decision::Removed) => collected.removed += 1,
            }
        }
        for oid in &objects {
            collected.objects += 1;
            if doit {
                self.container.object(*oid).punch(Cond::NONE, Access::Latest).wait()?;
            }
        }
        Ok(collected)
    }

    /// Decides what a collection does with a tensor, and with `doit` does it. A PUT or a removal is old after `age_ms`
    /// milliseconds.
    fn decide(
        &self,
        uuid: Uuid,
        record: &TensorRecord,
        age_ms: u64,
        doit: bool,
    ) -> Result<Decision> {
        let is_old = |since: u64| now_ms().saturating_sub(since) >= age_ms;
        match record.state() {
            State::Pending if is_old(record.begun_ms) => match !doit || self.free(uuid, record)? {
                true => Ok(Decision::Put),
                // It was committed just now.
                false => Ok(Decision::Kept),
            },
            State::Pending => Ok(Decision::Kept),
            State::Committed if self.is_visible(uuid, record, Access::Latest)? => {
                Ok(Decision::Visible)
            }
            State::Committed if !is_old(record.committed_ms) => Ok(Decision::Kept),
            // A commit without transactions ended before the name referred to the tensor, or another commit replaced it
            // at the same time.
            State::Committed => {
                let is_visible = |access: Access<'_>| self.is_visible_now(uuid, doit, access);
                if self.atomically(is_visible)? {
                    return Ok(Decision::Visible);
                }
                let mut removed = record.clone();
                removed.set_state(State::Removed);
                // It counts as removed only now.
                self.free_removed(uuid, &removed, age_ms == 0, doit)
            }
            State::Removed => self.free_removed(uuid, record, is_old(record.removed_ms), doit),
        }
    }

    /// True if a tensor is visible by its current record: it may have been renamed since an older one was read. With
    /// `doit`, marks it as removed if it is not.
    fn is_visible_now(&self, uuid: Uuid, doit: bool, access: Access<'_>) -> Result<bool> {
        let Some(record) = self.record(uuid, access)? else { return Ok(false) };
        let is_visible = self.is_visible(uuid, &record, access)?;
        // Without transactions, it may be renamed at this moment.
        if !is_visible && self.is_renamed(uuid, &record, access)? {
            return self.is_visible_now(uuid, doit, access);
        }
        if doit && !is_visible {
            self.mark_removed(uuid, access)?;
        }
        Ok(is_visible)
    }

    /// Frees a removed tensor that no process reads. If the pool does not show leases of other processes, it frees the
    /// tensor if the removal is old (`is_old`). Without `doit`, it only decides.
    fn free_removed(
        &self,
        uuid: Uuid,
        record: &TensorRecord,
        is_old: bool,
        doit: bool,
    ) -> Result<Decision> {
        let is_sure = self.container.capabilities().shared_leases;
        match (is_sure || is_old, doit) {
            (false, _) => Ok(Decision::Kept),
            (true, false) => Ok(Decision::Removed),
            (true, true) if self.free_if_unread(uuid, record)? => Ok(Decision::Removed),
            (true, true) => Ok(Decision::Kept),
        }
    }

    /// The objects that are, or were, data and parts of tensors.
    pub(super) fn objects(&self) -> Result<HashSet<ObjectId>> {
        let (mut anchor, mut found) = (Anchor::Start, HashSet::new());
        while !anchor.is_end() {
            let batch = self.container.list_objects(&mut anchor, BATCH, self.access()).wait()?;
            found.extend(batch.into_iter().filter(|oid| layout::is_of_tensor(*oid)));
        }
        Ok(found)
    }
}
