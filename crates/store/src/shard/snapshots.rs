//! Table of snapshots. Every target has the complete list, so that it decides alone which history to keep.
use crate::format::keys::{Key, Table};
use crate::index::entries;
use crate::index::txn::Txn;
use esker_types::info::{ContainerId, SnapshotInfo};
use esker_types::{Epoch, Result};

/// Key of a snapshot.
pub(crate) fn key(container: ContainerId, epoch: Epoch) -> Key {
    Key::container(Table::Snapshot, container).push(&epoch.0.to_be_bytes())
}

/// Epoch of the newest snapshot of a container; `None` if it has no snapshots.
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
pub(crate) fn all(txn: &Txn, container: ContainerId) -> Result<Vec<SnapshotInfo>> {
    let prefix = Key::container(Table::Snapshot, container);
    let mut found = Vec::new();
    entries::each(txn, &prefix, |key, name| {
        if let Some(epoch) = epoch_of(key, &prefix) {
            found.push(SnapshotInfo { epoch, name: String::from_utf8_lossy(name).into_owned() });
        }
        Ok(())
    })?;
    Ok(found)
}

/// Epoch of the newest snapshot of all containers; zero if there is none.
pub(crate) fn last_of_all(txn: &Txn) -> Result<Epoch> {
    let mut last = Epoch(0);
    entries::table(txn, Table::Snapshot, |key, _| {
        last = last.max(epoch_of(key, &key[..key.len().saturating_sub(8)]).unwrap_or_default());
    })?;
    Ok(last)
}

/// True if any container of the target has a snapshot.
pub(crate) fn any(txn: &Txn) -> Result<bool> {
    entries::exists(txn, &Key::table(Table::Snapshot))
}
