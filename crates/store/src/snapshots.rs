//! Snapshots of containers. Every target has the whole list, so that it decides alone what to keep.
use crate::catalog::Container;
use crate::commit::{Change, coordinated};
use crate::destroyed::BatchSize;
use crate::io::txn::Txn;
use crate::keys::{DataKey, Key, Table};
use crate::pool::OpenPool;
use crate::record::{Record, split_history};
use crate::reserved_pages::with_aged_pages;
use crate::target::{Scope, Target};
use esker_types::info::{ContainerId, SnapshotInfo};
use esker_types::limits::SNAPSHOTS_MAX;
use esker_types::{Epoch, Error, ErrorKind, Result};

pub(crate) fn key(container: ContainerId, epoch: Epoch) -> Key {
    Key::container(Table::Snapshot, container).push(&epoch.0.to_be_bytes())
}

/// Newest snapshot of a container.
pub(crate) fn newest(txn: &Txn, container: ContainerId) -> Result<Option<Epoch>> {
    let prefix = Key::container(Table::Snapshot, container);
    let last = txn.cursor()?.seek_before(&prefix.successor())?;
    Ok(last.filter(|(key, _)| key.starts_with(&prefix)).and_then(|(key, _)| epoch_of(key, &prefix)))
}

fn epoch_of(key: &[u8], prefix: &[u8]) -> Option<Epoch> {
    let bytes = key.get(prefix.len()..)?.try_into().ok()?;
    Some(Epoch(u64::from_be_bytes(bytes)))
}

/// Snapshots of a container, oldest first.
fn all(txn: &Txn, container: ContainerId) -> Result<Vec<SnapshotInfo>> {
    let prefix = Key::container(Table::Snapshot, container);
    let mut found = Vec::new();
    let mut cursor = txn.cursor()?;
    let mut entry = cursor.seek(&prefix)?;
    while let Some((key, name)) = entry.filter(|(key, _)| key.starts_with(&prefix)) {
        if let Some(epoch) = epoch_of(key, &prefix) {
            found.push(SnapshotInfo { epoch, name: String::from_utf8_lossy(name).into_owned() });
        }
        entry = cursor.next()?;
    }
    Ok(found)
}

/// Newest snapshot of all containers; zero if there is none.
pub(crate) fn last_of_all(txn: &Txn) -> Result<Epoch> {
    let prefix = Key::table(Table::Snapshot);
    let mut last = Epoch(0);
    crate::catalog::each(txn, &prefix, |key, _| {
        last = last.max(epoch_of(key, &key[..key.len().saturating_sub(8)]).unwrap_or_default());
        Ok(())
    })?;
    Ok(last)
}

/// True if any container of the target has a snapshot.
pub(crate) fn any(txn: &Txn) -> Result<bool> {
    let prefix = Key::table(Table::Snapshot);
    let first = txn.cursor()?.seek(&prefix)?;
    Ok(first.is_some_and(|(key, _)| key.starts_with(&prefix)))
}

impl OpenPool {
    /// Takes a snapshot of a container, at one epoch on all targets.
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
                change.put(&key(container.id(), change.epoch), name.as_bytes())
            })
        })
    }

    pub(crate) fn refuse_more_snapshots(&self, container: &Container) -> Result<()> {
        if self.list_snapshots(container)?.len() < SNAPSHOTS_MAX {
            return Ok(());
        }
        let message = format!("{SNAPSHOTS_MAX} snapshots (SNAPSHOTS_MAX): destroy one first");
        Err(Error::new(ErrorKind::Overflow, message))
    }

    /// Snapshots of a container, oldest first.
    pub fn list_snapshots(&self, container: &Container) -> Result<Vec<SnapshotInfo>> {
        all(self.targets[0].view_of(Scope::Committed)?.committed(), container.id())
    }

    /// Destroys a snapshot and the history that no other snapshot shows.
    ///
    /// # Errors
    /// `NotFound` if there is none at `epoch`.
    pub fn destroy_snapshot(&self, container: &Container, epoch: Epoch) -> Result<()> {
        crate::destroyed::resume(self);
        let targets: Vec<&Target> = self.targets.iter().map(AsRef::as_ref).collect();
        let remove = |changes: &mut [Change<'_>]| {
            let mut there = false;
            for change in changes.iter_mut() {
                there |= change.delete(&key(container.id(), epoch))?;
            }
            // If this process dies, the next one that opens the pool continues the purge.
            changes[0].put(&crate::destroyed::purge_key(container.id()), &[])?;
            let message = || format!("no snapshot at epoch {}", epoch.0);
            if there { Ok(()) } else { Err(Error::new(ErrorKind::NotFound, message())) }
        };
        with_aged_pages(&targets, || coordinated(self, &targets, &[], remove))?;
        crate::destroyed::or_later(self, self.purge_history(container.id()));
        Ok(())
    }

    /// Removes the history that no snapshot of the container shows.
    pub(crate) fn purge_history(&self, container: ContainerId) -> Result<()> {
        self.targets.iter().try_for_each(|target| purge(target, container))?;
        self.targets[0]
            .change(|change| change.delete(&crate::destroyed::purge_key(container)).map(|_| ()))
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
        if !any(change.txn())? {
            target.shared().note_snapshots(false);
        }
        Ok(())
    })
}

/// Visits one batch from `position` on; returns where to continue.
fn purge_batch(
    change: &mut Change<'_>,
    container: ContainerId,
    position: &Key,
    entries_max: usize,
) -> Result<Option<Key>> {
    let prefix = Key::container(Table::History, container);
    let kept: Vec<Epoch> = all(change.txn(), container)?.iter().map(|info| info.epoch).collect();
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

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn history_batch(
    txn: &Txn,
    prefix: &Key,
    position: &Key,
    entries_max: usize,
) -> Result<(Entries, Option<Key>)> {
    let mut cursor = txn.cursor()?;
    let mut entries = Vec::new();
    let mut entry = cursor.seek(position)?;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(prefix)) {
        if entries.len() == entries_max {
            return Ok((entries, Some(Key::table(Table::History).push(&key[1..]))));
        }
        entries.push((key.to_vec(), value.to_vec()));
        entry = cursor.next()?;
    }
    Ok((entries, None))
}
