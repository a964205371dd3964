//! Snapshots are DAOS's. Their names, which it does not keep, are attributes.
use super::container::Opened;
use super::names;
use esker_daos_binding::Container;
use esker_os::ForkLock;
use esker_types::info::SnapshotInfo;
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// How long a list of snapshots counts as up to date: a read of one that another process has destroyed meanwhile may find
/// nothing.
const FRESH: Duration = Duration::from_secs(1);

/// The snapshots of a container, as this handle has last seen them.
#[derive(Default)]
pub(super) struct Snapshots(ForkLock<Option<(Instant, Vec<u64>)>>);

impl Snapshots {
    /// Fails if there is no snapshot at `epoch`: DAOS would read there all the same.
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
        if found { Ok(()) } else { Err(missing(epoch)) }
    }

    fn forget(&self) {
        *self.0.lock() = None;
    }
}

#[cold]
fn missing(epoch: Epoch) -> Error {
    let message = format!(
        "no snapshot at epoch {}: `esker cont snapshot list` lists those that there are",
        epoch.0
    );
    Error::new(ErrorKind::NotFound, message)
}

pub(super) async fn create(opened: &Opened, name: &str) -> Result<Epoch> {
    let epoch = Epoch(opened.container.create_snapshot().await?);
    if !name.is_empty() {
        let value = (names::snapshot(epoch), name.as_bytes().to_vec());
        opened.container.attributes().set(&[value]).await?;
    }
    Ok(epoch)
}

pub(super) async fn list(opened: &Opened) -> Result<Vec<SnapshotInfo>> {
    let epochs = opened.container.snapshots().await?;
    let names = match epochs.is_empty() {
        true => Vec::new(),
        false => opened.container.attributes().list().await?,
    };
    let mut all = Vec::new();
    for epoch in epochs.into_iter().map(Epoch) {
        let attribute = names::snapshot(epoch);
        let name = match names.contains(&attribute) {
            true => opened.container.attributes().get(&attribute).await?.unwrap_or_default(),
            false => Vec::new(),
        };
        all.push(SnapshotInfo { epoch, name: String::from_utf8_lossy(&name).into_owned() });
    }
    Ok(all)
}

pub(super) async fn destroy(opened: &Opened, epoch: Epoch) -> Result<()> {
    opened.snapshots.forget();
    opened.snapshots.expect(&opened.container, epoch).await?;
    opened.snapshots.forget();
    opened.container.destroy_snapshot(epoch.0).await?;
    opened.container.attributes().remove(&[names::snapshot(epoch)]).await
}
