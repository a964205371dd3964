//! Creation and destruction of snapshots.
use super::coordinated;
use super::destroyed::{BatchSize, purge_key};
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
        let targets: Vec<&Target> = self.targets.iter().map(AsRef::as_ref).collect();
        coordinated(self, &targets, &[], |changes| {
            container.check_alive(self)?;
            refuse_more_snapshots(changes, container)?;
            changes.iter_mut().try_for_each(|change| {
                change.check_room()?;
                change.target().shared().note_snapshots(true);
                change.put(&table::key(container.id(), change.epoch), name.as_bytes())
            })
        })
    }

    /// Snapshots of a container, oldest first.
    pub fn list_snapshots(&self, container: &Container) -> Result<Vec<SnapshotInfo>> {
        table::all(self.targets[0].view_of(Scope::Committed)?.committed(), container.id())
    }

    /// True if a container has a snapshot at `epoch`.
    pub fn has_snapshot(&self, container: &Container, epoch: Epoch) -> Result<bool> {
        let view = self.targets[0].view_of(Scope::Committed)?;
        Ok(view.committed().get(&table::key(container.id(), epoch))?.is_some())
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
            let marker = changes[0].epoch.0.to_le_bytes();
            changes[0].put(&purge_key(container.id()), &marker)?;
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
        let marker = self.purge_marker(container)?;
        self.targets.iter().try_for_each(|target| purge(target, container))?;
        self.end_purge(container, marker.as_deref())
    }

    /// Marker of an unfinished purge: the epoch at which the last snapshot was destroyed.
    fn purge_marker(&self, container: ContainerId) -> Result<Option<Vec<u8>>> {
        let view = self.targets[0].view_of(Scope::Committed)?;
        Ok(view.committed().get(&purge_key(container))?.map(<[u8]>::to_vec))
    }

    /// Removes the `marker` that a purge found before it began. If another snapshot was destroyed meanwhile, its marker
    /// stays, since only a purge that began later frees what only that snapshot showed.
    fn end_purge(&self, container: ContainerId, marker: Option<&[u8]>) -> Result<()> {
        let key = purge_key(container);
        self.targets[0].change(|change| {
            if change.txn().get(&key)? == marker {
                change.delete(&key)?;
            }
            Ok(())
        })
    }
}

/// Fails with `Overflow` if the container has [`SNAPSHOTS_MAX`] snapshots already. Call it in the transactions that
/// create the snapshot, since other processes create snapshots, too.
pub(super) fn refuse_more_snapshots(changes: &[Change<'_>], container: &Container) -> Result<()> {
    let [first, ..] = changes else { return Ok(()) };
    if table::all(first.txn(), container.id())?.len() < SNAPSHOTS_MAX {
        return Ok(());
    }
    let message = format!("{SNAPSHOTS_MAX} snapshots (SNAPSHOTS_MAX): destroy one first");
    Err(Error::new(ErrorKind::Overflow, message))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;
    use esker_types::info::{ContainerRef, OpenMode};

    fn container(state: &OpenPool) -> Container {
        let uuid = state.create_container(&Default::default()).unwrap().uuid;
        state.open_container(ContainerRef::Uuid(uuid), OpenMode::ReadWrite).unwrap()
    }

    /// Another process destroys a snapshot while a purge is in progress, and dies.
    #[test]
    fn end_of_purge_keeps_marker_of_later_destruction() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let id = container(&state).id();
        let put = |value: &[u8]| {
            state.targets[0].change(|change| change.put(&purge_key(id), value)).unwrap();
        };
        // An earlier release stores no epoch.
        for (first, second) in [(&b""[..], &b"epoch 2"[..]), (b"epoch 1", b"epoch 2")] {
            put(first);
            let marker = state.purge_marker(id).unwrap();
            put(second);
            state.end_purge(id, marker.as_deref()).unwrap();
            assert_eq!(state.purge_marker(id).unwrap().as_deref(), Some(second));
            state.purge_history(id).unwrap();
            assert_eq!(state.purge_marker(id).unwrap(), None);
        }
    }

    #[test]
    fn threads_create_no_more_snapshots_than_allowed() {
        const THREADS: usize = 8;
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
        let state = pool.opened();
        let container = container(&state);
        let create = || state.create_snapshot(&container, "s");
        (1..SNAPSHOTS_MAX).try_for_each(|_| create().map(|_| ())).unwrap();
        let begin = std::sync::Barrier::new(THREADS);
        let at_once = || {
            begin.wait();
            create()
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(at_once)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let created: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
        assert_eq!(created.len(), 1);
        let refused = results.iter().filter_map(|result| result.as_ref().err());
        refused.for_each(|error| assert_eq!(error.kind(), ErrorKind::Overflow));
        assert!(state.has_snapshot(&container, *created[0]).unwrap());
        assert!(!state.has_snapshot(&container, Epoch(created[0].0 + 1)).unwrap());
    }
}
