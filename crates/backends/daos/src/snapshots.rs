//! Snapshots of DAOS. DAOS does not store names for them, so their names are attributes of the container.
use super::container::Opened;
use super::names;
use crate::binding::Container;
use esker_os::ForkLock;
use esker_types::info::SnapshotInfo;
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// Time for which a list of snapshots is considered current. Meanwhile, a read of a snapshot that another process has
/// destroyed may find nothing.
const FRESH: Duration = Duration::from_secs(1);

/// The snapshots of a container, as this handle has last seen them.
#[derive(Default)]
pub(super) struct Snapshots(ForkLock<Option<(Instant, Vec<u64>)>>);

impl Snapshots {
    /// Fails if there is no snapshot at `epoch`. DAOS would allow reads at that epoch nevertheless.
    pub(super) async fn expect(&self, container: &Container, epoch: Epoch) -> Result<()> {
        let is_known = |seen: &(Instant, Vec<u64>)| {
            seen.0.elapsed() < FRESH && seen.1.binary_search(&epoch.0).is_ok()
        };
        if self.0.lock().as_ref().is_some_and(is_known) {
            return Ok(());
        }
        let now = Instant::now();
        let epochs = container.snapshots().await?;
        let found = epochs.binary_search(&epoch.0).is_ok();
        *self.0.lock() = Some((now, epochs));
        if found { Ok(()) } else { Err(missing_error(epoch)) }
    }

    /// Has the next check list the snapshots again.
    fn forget(&self) {
        *self.0.lock() = None;
    }
}

#[cold]
fn missing_error(epoch: Epoch) -> Error {
    let message = format!(
        "no snapshot at epoch {}: `esker cont snapshot list POOL CONT` lists those that there are",
        epoch.0
    );
    Error::new(ErrorKind::NotFound, message)
}

/// Name of a snapshot that is taken to list the objects of the latest state.
const LISTING: &str = "esker: listing of objects";

/// Age from which on a snapshot with the name [`LISTING`] is considered a leftover of a killed process.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// Creates a snapshot. Its name is kept in an attribute.
pub(super) async fn create(container: &Container, name: &str) -> Result<Epoch> {
    let epoch = Epoch(container.create_snapshot().await?);
    if !name.is_empty() {
        let value = (names::snapshot(epoch), name.as_bytes().to_vec());
        if let Err(error) = container.attributes().set(&[value]).await {
            // Nobody would know what a snapshot without its name is for, and it would hold space.
            let _ = remove(container, epoch).await;
            return Err(error);
        }
    }
    Ok(epoch)
}

/// Takes a temporary snapshot from which objects are listed. Destroys such snapshots of processes that were killed.
pub(super) async fn begin_listing(container: &Container) -> Result<Epoch> {
    for snapshot in list(container).await? {
        if is_left(&snapshot, Epoch::now()) {
            crate::or_empty(remove(container, snapshot.epoch).await)?;
        }
    }
    create(container, LISTING).await
}

/// True for a snapshot that a killed process has taken to list objects.
fn is_left(snapshot: &SnapshotInfo, now: Epoch) -> bool {
    let age = now.unix_time().saturating_sub(snapshot.epoch.unix_time());
    snapshot.name == LISTING && age > LEFT
}

/// Lists the snapshots with their names.
pub(super) async fn list(container: &Container) -> Result<Vec<SnapshotInfo>> {
    let epochs = container.snapshots().await?;
    let names = match epochs.is_empty() {
        true => Vec::new(),
        false => container.attributes().list().await?,
    };
    let mut all = Vec::new();
    for epoch in epochs.into_iter().map(Epoch) {
        let attribute = names::snapshot(epoch);
        let name = match names.contains(&attribute) {
            true => container.attributes().get(&attribute).await?.unwrap_or_default(),
            false => Vec::new(),
        };
        all.push(SnapshotInfo { epoch, name: String::from_utf8_lossy(&name).into_owned() });
    }
    Ok(all)
}

/// Removes a snapshot. Fails if there is none at `epoch`.
pub(super) async fn destroy(opened: &Opened, epoch: Epoch) -> Result<()> {
    opened.snapshots.forget();
    opened.snapshots.expect(&opened.container, epoch).await?;
    opened.snapshots.forget();
    remove(&opened.container, epoch).await
}

/// Destroys a snapshot that exists, with its name.
pub(super) async fn remove(container: &Container, epoch: Epoch) -> Result<()> {
    container.destroy_snapshot(epoch.0).await?;
    container.attributes().remove(&[names::snapshot(epoch)]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_snapshots_of_listings_were_left() {
        let now = Epoch::now();
        let earlier = |time: Duration| Epoch::at(now.unix_time() - time);
        let named = |name: &str, epoch| SnapshotInfo { epoch, name: name.to_owned() };
        assert!(is_left(&named(LISTING, earlier(2 * LEFT)), now));
        assert!(!is_left(&named(LISTING, earlier(LEFT / 2)), now));
        assert!(!is_left(&named("monday", earlier(2 * LEFT)), now));
    }
}
