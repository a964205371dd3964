//! Frees the space of destroyed containers and snapshots, in bounded batches. If a process dies before the end, the
//! next process that opens the pool continues.
use crate::format::keys::{DataKey, Key, Table};
use crate::format::record::{Record, split_history};
use crate::index::entries;
use crate::shard::change::Change;
use crate::shard::open_pool::OpenPool;
use crate::shard::reserved_pages::retry_after_page_reuse;
use crate::shard::{Scope, Target};
use esker_types::info::ContainerId;
use esker_types::{ErrorKind, Result};
use std::sync::atomic::Ordering;

/// Maximum number of entries removed per transaction.
const BATCH_MAX: usize = 4096;

/// Number of entries that one transaction removes. A removal copies the pages that it changes, so a large batch needs
/// more than the headroom of a full index.
pub(crate) struct BatchSize(usize);

impl Default for BatchSize {
    fn default() -> Self {
        Self(BATCH_MAX)
    }
}

impl BatchSize {
    /// Removes one batch. If the index is full, retries with smaller batches.
    pub(crate) fn run<T>(
        &mut self,
        target: &Target,
        mut remove: impl FnMut(usize) -> Result<T>,
    ) -> Result<T> {
        loop {
            match retry_after_page_reuse(&[target], || remove(self.0)) {
                Err(error) if error.kind() == ErrorKind::NoSpace && self.0 > 1 => self.0 /= 4,
                removed => return removed,
            }
        }
    }
}

/// Key of the marker for a container whose history must be purged after a snapshot was destroyed.
pub(crate) fn purge_key(container: ContainerId) -> Key {
    Key::container(Table::Destroyed, container).push(b"S")
}

/// Frees the space of all destroyed containers and snapshots.
pub(crate) fn free_all(pool: &OpenPool) -> Result<()> {
    let prefix = Key::table(Table::Destroyed);
    let mut destroyed = Vec::new();
    entries::each(pool.targets[0].view_of(Scope::Committed)?.committed(), &prefix, |key, _| {
        // The marker of a container is only its number. That of a destroyed snapshot has another byte.
        if let Some((number, rest)) = key[prefix.len()..].split_first_chunk() {
            destroyed.push((ContainerId(u32::from_be_bytes(*number)), rest.is_empty()));
        }
        Ok(())
    })?;
    destroyed.into_iter().try_for_each(|(container, whole)| match whole {
        true => free_container(pool, container),
        false => pool.purge_history(container),
    })
}

/// Marks the pool if freeing has failed. The destruction itself is committed, so the failure is not an error of it.
/// [`resume`] or the next process that opens the pool frees the rest.
pub(crate) fn retry_later(pool: &OpenPool, emptied: Result<()>) {
    if emptied.is_err() {
        pool.has_unfreed_space.store(true, Ordering::Release);
    }
}

/// Frees the space whose freeing has failed before.
pub(crate) fn resume(pool: &OpenPool) {
    if pool.has_unfreed_space.swap(false, Ordering::AcqRel) {
        retry_later(pool, free_all(pool));
    }
}

/// Frees the space of a destroyed container. Open handles of it are invalidated first.
pub(crate) fn free_container(pool: &OpenPool, container: ContainerId) -> Result<()> {
    pool.end_removal()?;
    for target in &pool.targets {
        for table in [Table::Data, Table::History, Table::Snapshot, Table::Attribute, Table::Oid] {
            let prefix = Key::container(table, container);
            let mut batches = BatchSize::default();
            let mut remove = |entries_max| {
                target.change(|change| remove_batch(change, table, &prefix, entries_max))
            };
            while batches.run(target, &mut remove)? {}
        }
    }
    // The marker is removed last: it tells the next process to continue if this one dies before.
    pool.targets[0]
        .change(|change| change.delete(&Key::container(Table::Destroyed, container)).map(|_| ()))
}

/// Removes up to `entries_max` entries; returns true if there may be more.
fn remove_batch(
    change: &mut Change<'_>,
    table: Table,
    prefix: &Key,
    entries_max: usize,
) -> Result<bool> {
    let batch = entries::take(change.txn(), prefix, prefix, entries_max)?;
    for (key, value) in &batch {
        if matches!(table, Table::Data | Table::History) {
            change.count_dead(&record_of(table, key, value)?);
        }
        change.delete(key)?;
    }
    Ok(batch.len() == entries_max)
}

/// Record in an entry of the data or the history table.
fn record_of<'v>(table: Table, key: &[u8], value: &'v [u8]) -> Result<Record<'v>> {
    let record = match table {
        Table::History => split_history(value)?.1,
        _ => value,
    };
    Record::decode(DataKey::parse(key)?.body(), record)
}
