//! Creation and destruction of snapshots.
use super::coordinated;
use super::destroyed::BatchSize;
use crate::format::keys::{DataKey, Key, Table};
use crate::format::record::{Record, split_history};
use crate::index::entries::{self, Entries};
use crate::index::txn::Txn;
use crate::shard::change::Change;
use crate::shard::container::Container;
use crate::shard::open_pool::OpenPool;
use crate::shard::reserved_pages::retry_after_page_reuse;
use crate::shard::snapshots as table;
use crate::shard::{Scope, Target};
use esker_types::info::{ContainerId, SnapshotInfo};
use esker_types::limits::SNAPSHOTS_MAX;
use esker_types::{Epoch, Error, ErrorKind, Result};

impl OpenPool {
    /// Creates a snapshot of a container, at one epoch on all targets.
    ///
    /// # Errors
    /// `Overflow` beyond [`SNAPSHOTS_MAX`].
    pub fn create_snapshot(&self, container: &Container, name: &str) -> Result<Epoch> {
        self.refuse_more_snapshots(container)?;
        let targets: Vec<&Target> = self.targets.iter().map(AsRef::as_ref).collect();
        coordinated(self, &targets, &[], |changes| {
            container.check_alive(self)?;
            changes.iter_mut().try_for_each(|change| {
                change.check_room()?;
                change.target().shared().note_snapshots(true);
                change.put(&table::key(container.id(), change.epoch), name.as_bytes())
            })
        })
    }

    /// Fails with `Overflow` if the container has [`SNAPSHOTS_MAX`] snapshots already.
    pub(crate) fn refuse_more_snapshots(&self, container: &Container) -> Result<()> {
        if self.list_snapshots(container)?.len() < SNAPSHOTS_MAX {
            return Ok(());
        }
        let message = format!("{SNAPSHOTS_MAX} snapshots (SNAPSHOTS_MAX): destroy one first");
        Err(Error::new(ErrorKind::Overflow, message))
    }

    /// Snapshots of a container, oldest first.
    pub fn list_snapshots(&self, container: &Container) -> Result<Vec<SnapshotInfo>> {
        table::all(self.targets[0].view_of(Scope::Committed)?.committed(), container.id())
    }

    /// Destroys a snapshot and the history that no other snapshot shows.
    ///
    /// # Errors
    /// `NotFound` if there is no snapshot at `epoch`.
    pub fn destroy_snapshot(&self, container: &Container, epoch: Epoch) -> Result<()> {
        // Space whose freeing has failed before is freed first.
        crate::commit::destroyed::resume(self);
        let targets: Vec<&Target> = self.targets.iter().map(AsRef::as_ref).collect();
        let remove = |changes: &mut [Change<'_>]| {
            let mut existed = false;
            for change in changes.iter_mut() {
                existed |= change.delete(&table::key(container.id(), epoch))?;
            }
            // If this process dies now, the next process that opens the pool continues the purge.
            changes[0].put(&crate::commit::destroyed::purge_key(container.id()), &[])?;
            let message = || format!("no snapshot at epoch {}", epoch.0);
            if existed { Ok(()) } else { Err(Error::new(ErrorKind::NotFound, message())) }
        };
        retry_after_page_reuse(&targets, || coordinated(self, &targets, &[], remove))?;
        // The snapshot is destroyed even if the purge fails. Then the purge is repeated later.
        crate::commit::destroyed::retry_later(self, self.purge_history(container.id()));
        Ok(())
    }

    /// Removes the history that no snapshot of the container shows.
    pub(crate) fn purge_history(&self, container: ContainerId) -> Result<()> {
        self.targets.iter().try_for_each(|target| purge(target, container))?;
        self.targets[0].change(|change| {
            change.delete(&crate::commit::destroyed::purge_key(container)).map(|_| ())
        })
    }
}

/// Removes the history that no snapshot of the container shows, in bounded batches.
fn purge(target: &Target, container: ContainerId) -> Result<()> {
    let mut from = Some(Key::container(Table::History, container));
    let mut batches = BatchSize::default();
    while let Some(position) = &from {
        let purged = batches.run(target, |entries_max| {
            target.change(|change| purge_batch(change, container, position, entries_max))
        });
        from = purged?;
    }
    target.change(|change| {
        // The write lock is held, so no process creates a snapshot meanwhile.
        if !table::any(change.txn())? {
            target.shared().note_snapshots(false);
        }
        Ok(())
    })
}

/// Purges up to `entries_max` entries from `position` on; returns the position at which to continue, or `None` at the
/// end.
fn purge_batch(
    change: &mut Change<'_>,
    container: ContainerId,
    position: &Key,
    entries_max: usize,
) -> Result<Option<Key>> {
    let prefix = Key::container(Table::History, container);
    let kept: Vec<Epoch> =
        table::all(change.txn(), container)?.iter().map(|info| info.epoch).collect();
    let (entries, next) = history_batch(change.txn(), &prefix, position, entries_max)?;
    for (key, value) in entries {
        let (until, record) = split_history(&value)?;
        let parts = DataKey::parse(&key)?;
        let created = parts.created.unwrap_or_default();
        if !kept.iter().any(|epoch| created <= *epoch && *epoch < until) {
            change.count_dead(&Record::decode(parts.body(), record)?);
            change.delete(&key)?;
        }
    }
    Ok(next)
}

/// Up to `entries_max` history entries from `position` on, and the position after them if there are more.
fn history_batch(
    txn: &Txn,
    prefix: &Key,
    position: &Key,
    entries_max: usize,
) -> Result<(Entries, Option<Key>)> {
    let mut found = entries::take(txn, prefix, position, entries_max + 1)?;
    let next = found.split_off(found.len().min(entries_max));
    let next = next.first().map(|(key, _)| Key::table(Table::History).push(&key[1..]));
    Ok((found, next))
}
