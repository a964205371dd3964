//! Records of tensors, and freeing of tensors.
//!
//! A tensor is visible if its record is committed, and it has no names or one of them refers to it. So one change of
//! one key makes it visible or invisible, also on pools without transactions.
use super::{TensorStore, layout};
use crate::grid::Grid;
use crate::messages::{State, TensorRecord};
use esker::{Access, Kv, Wait};
use esker_types::ops::Cond;
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `None` in place of the error for damage, which [`TensorStore::check`] reports.
pub(super) fn unless_damaged<T>(found: Result<Option<T>>) -> Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        found => found,
    }
}

impl TensorRecord {
    /// The shape and the chunks of the tensor.
    pub(super) fn grid(&self) -> Result<Grid> {
        let item = self.data_type()?.size()?;
        Grid::new(&self.shape, Some(&self.chunks), item)
    }

    /// Type of the elements. An error if the record has none.
    pub(super) fn data_type(&self) -> Result<&crate::DataType> {
        self.data_type.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "a tensor has no type: run `esker tensor check`")
        })
    }
}

impl TensorStore {
    /// The record of a tensor, visible or not.
    pub(super) fn record(&self, uuid: Uuid, access: Access<'_>) -> Result<Option<TensorRecord>> {
        let key = uuid.to_string();
        let bytes = self.tensors.get(key.as_bytes(), access).wait()?;
        bytes.map(|bytes| TensorRecord::parse(&key, &bytes)).transpose()
    }

    /// The record of a tensor, `None` also if it is damaged. [`TensorStore::check`] reports damaged records.
    pub(super) fn readable_record(
        &self,
        uuid: Uuid,
        access: Access<'_>,
    ) -> Result<Option<TensorRecord>> {
        unless_damaged(self.record(uuid, access))
    }

    /// Stores the record of a tensor.
    pub(super) fn put_record(
        &self,
        uuid: Uuid,
        record: &TensorRecord,
        access: Access<'_>,
    ) -> Result<()> {
        let (key, bytes) = (uuid.to_string(), record.bytes()?);
        self.tensors.put(key.as_bytes(), &bytes, Cond::NONE, access).wait()
    }

    /// True if the record of a tensor exists. Then its data exist too.
    pub(super) fn has_record(&self, uuid: Uuid) -> Result<bool> {
        let found = self.tensors.size(uuid.to_string().as_bytes(), self.access()).wait()?;
        Ok(found.is_some())
    }

    /// The tensor to which a name refers.
    pub(super) fn named(&self, name: &str, access: Access<'_>) -> Result<Option<Uuid>> {
        let Some(text) = self.names.get(name.as_bytes(), access).wait()? else { return Ok(None) };
        let uuid = std::str::from_utf8(&text).ok().and_then(Uuid::parse);
        uuid.map(Some).ok_or_else(|| {
            let text = format!("the name {name:?} has no valid UUID: run `esker tensor check`");
            Error::new(ErrorKind::Corrupt, text)
        })
    }

    /// The tensor to which a name refers, `None` also if the name is damaged. [`TensorStore::check`] reports damaged
    /// names.
    pub(super) fn readable_name(&self, name: &str, access: Access<'_>) -> Result<Option<Uuid>> {
        unless_damaged(self.named(name, access))
    }

    /// True if a tensor with this record is visible.
    pub(super) fn is_visible(
        &self,
        uuid: Uuid,
        record: &TensorRecord,
        access: Access<'_>,
    ) -> Result<bool> {
        Ok(record.state() == State::Committed
            && (record.names.is_empty() || self.name_of(uuid, record, access)?.is_some()))
    }

    /// True if the names in the stored record of a tensor differ from those in `record`.
    pub(super) fn is_renamed(
        &self,
        uuid: Uuid,
        record: &TensorRecord,
        access: Access<'_>,
    ) -> Result<bool> {
        let current = self.record(uuid, access)?;
        Ok(current.is_some_and(|current| current.names != record.names))
    }

    /// A name of a tensor with this record that refers to it. Without transactions, a rename stores the new name before
    /// it removes the old one, which is the last of the record. So the last name is examined first.
    pub(super) fn name_of(
        &self,
        uuid: Uuid,
        record: &TensorRecord,
        access: Access<'_>,
    ) -> Result<Option<String>> {
        for name in record.names.iter().rev() {
            if self.named(name, access)? == Some(uuid) {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    /// Records that a tensor is no longer visible. Removes a damaged record: the next collection frees the elements.
    pub(super) fn mark_removed(&self, uuid: Uuid, access: Access<'_>) -> Result<()> {
        let Some(mut record) = self.readable_record(uuid, access)? else {
            return self.tensors.remove(uuid.to_string().as_bytes(), Cond::NONE, access).wait();
        };
        record.set_state(State::Removed);
        record.removed_ms = now_ms();
        self.put_record(uuid, &record, access)
    }

    /// Frees a removed tensor, unless a process may still read it. If the pool does not show leases of other processes,
    /// a collection frees it later. Returns true if it was freed.
    pub(super) fn retire(&self, uuid: Uuid) -> Result<bool> {
        if !self.container.capabilities().shared_leases {
            return Ok(false);
        }
        let Some(record) = self.record(uuid, Access::Latest)? else { return Ok(false) };
        self.free_if_unread(uuid, &record)
    }

    /// Frees a removed tensor whose last lease has ended.
    pub(super) fn free_unread(&self, uuid: Uuid) -> Result<()> {
        match self.record(uuid, Access::Latest)? {
            Some(record) if record.state() == State::Removed => self.free(uuid, &record).map(drop),
            _ => Ok(()),
        }
    }

    /// Frees a removed tensor, and returns true. If a process has a lease on it, returns false: the last process with a
    /// lease frees the tensor.
    pub(super) fn free_if_unread(&self, uuid: Uuid, record: &TensorRecord) -> Result<bool> {
        let data = self.container.object(layout::data_oid(uuid, record.object_class));
        match data.unlink_on_last_close().wait()? {
            true => Ok(false),
            false => self.free(uuid, record),
        }
    }

    /// Frees a tensor, unless its record has changed its state: then returns false. Removes the record first, so that
    /// readers notice.
    pub(super) fn free(&self, uuid: Uuid, record: &TensorRecord) -> Result<bool> {
        let is_removed = self.atomically(|access| {
            let current = self.record(uuid, access)?;
            let is_same = current.is_none_or(|current| current.state == record.state);
            if is_same {
                self.tensors.remove(uuid.to_string().as_bytes(), Cond::NONE, access).wait()?;
            }
            Ok(is_same)
        })?;
        if is_removed {
            self.parts(uuid, record)?.destroy(Access::Latest).wait()?;
            // An Array is destroyed completely, so its chunk size does not matter here.
            let grid = Grid::new(&[], None, 1)?;
            let data = layout::data(&self.container, uuid, record.object_class, &grid)?;
            data.destroy(Access::Latest).wait()?;
        }
        Ok(is_removed)
    }

    /// The Key-Value that records which parts of a tensor were written.
    pub(super) fn parts(&self, uuid: Uuid, record: &TensorRecord) -> Result<Kv> {
        layout::parts(&self.container, uuid, record.object_class)
    }
}
