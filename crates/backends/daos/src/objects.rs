//! The objects of a container. DAOS lists only the objects of snapshots, so a snapshot is taken to list the latest
//! state.
use super::JOIN_MAX;
use super::container::Opened;
use super::read::Reader;
use super::snapshots;
use crate::binding::{Container, ContainerMode, Tx};
use esker_backend::object::list::after;
use esker_os::ForkLock;
use esker_os::executor::{side_by_side, task};
use esker_types::info::OpenMode;
use esker_types::limits::DAOS_LISTING_BYTES_MAX;
use esker_types::ops::{Anchor, ReadAt, View};
use esker_types::{ErrorKind, ObjectId, ObjectType, Result};
use std::sync::Arc;

/// The objects that the most recent listing of a handle has found, with the state that it lists. Dropped at the end of
/// the listing.
#[derive(Default)]
pub(super) struct Recent(ForkLock<Option<(View, Arc<Vec<ObjectId>>)>>);

impl Recent {
    /// The objects of the most recent listing, if it was of this view.
    fn get(&self, view: View) -> Option<Arc<Vec<ObjectId>>> {
        let recent = self.0.lock();
        recent.as_ref().filter(|(of, _)| *of == view).map(|(_, all)| Arc::clone(all))
    }
}

/// The next objects after `anchor`, which is advanced. An object without keys does not exist, but DAOS may list it.
pub(super) async fn list(
    opened: &Opened,
    anchor: &mut Anchor,
    entries: usize,
    at: ReadAt<'_>,
) -> Result<Vec<ObjectId>> {
    let from = match &*anchor {
        Anchor::End => return Ok(Vec::new()),
        Anchor::Start => None,
        Anchor::After { position, .. } => {
            let bytes = position.as_slice().try_into().map_err(|_| Anchor::foreign())?;
            Some(ObjectId::from_bytes(bytes))
        }
    };
    let recent = from.and_then(|_| opened.objects.get(at.view));
    let all = match recent {
        Some(recent) => recent,
        None => Arc::new(find(opened, at.view).await?),
    };
    *opened.objects.0.lock() = Some((at.view, Arc::clone(&all)));
    let begin = from.map_or(0, |last| all.partition_point(|oid| *oid <= last));
    let tx = opened.view(at.view).await?;
    let mut page = Vec::new();
    for batch in all[begin..].chunks(JOIN_MAX) {
        for (oid, exists) in batch.iter().zip(existing(opened, batch, tx.as_ref(), at.view).await) {
            if !exists? {
                continue;
            }
            if page.len() >= entries {
                return Ok(page);
            }
            page.push(*oid);
            *anchor = after(0, oid.to_bytes().to_vec());
        }
    }
    *anchor = Anchor::End;
    *opened.objects.0.lock() = None;
    Ok(page)
}

/// For each of these objects, whether it has a key.
async fn existing(
    opened: &Opened,
    oids: &[ObjectId],
    tx: Option<&Tx>,
    view: View,
) -> Vec<Result<bool>> {
    let ask = |oid: &ObjectId| {
        let (oid, tx) = (*oid, tx.cloned());
        task(async move {
            let object = opened.container.object(oid, opened.writable)?;
            Reader { opened, object, oid, tx, view, tokens: None }.exists().await
        })
    };
    side_by_side(oids.iter().map(ask).collect(), JOIN_MAX).await
}

/// The objects of a view, sorted. DAOS lists the objects of snapshots only, so the latest state is listed by a snapshot
/// that is made for the listing and removed afterwards.
async fn find(opened: &Opened, view: View) -> Result<Vec<ObjectId>> {
    let container = writable(opened).await?;
    let found = find_in(opened, &container, view).await;
    if !opened.writable {
        // Awaited, so that its connection ends after it. After an error, the drop closes it.
        let _ = container.close().await;
    }
    let mut all = found?;
    all.retain(|oid| !is_table(*oid));
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The objects of a view, by a container that is open for writing.
async fn find_in(opened: &Opened, container: &Container, view: View) -> Result<Vec<ObjectId>> {
    match view {
        View::Snapshot(epoch) => {
            opened.snapshots.expect(&opened.container, epoch).await?;
            container.objects(epoch.0, DAOS_LISTING_BYTES_MAX).await
        }
        View::Latest => {
            let epoch = snapshots::begin_listing(container).await?;
            let all = container.objects(epoch.0, DAOS_LISTING_BYTES_MAX).await;
            // Also after an error of the listing.
            snapshots::remove(container, epoch).await?;
            all
        }
    }
}

/// True for the object tables of DAOS, which are objects themselves.
fn is_table(oid: ObjectId) -> bool {
    matches!(oid.object_type(), Some(ObjectType::Oit | ObjectType::OitV2))
}

/// The container, open for writing, since DAOS writes the object table of a snapshot when it is created.
async fn writable(opened: &Opened) -> Result<Container> {
    if opened.writable {
        return Ok(opened.container.clone());
    }
    let (mode, uuid) = (ContainerMode::Use(OpenMode::ReadWrite), opened.uuid().to_string());
    let opening = async { opened.pool.writable().await?.open(&uuid, mode).await };
    match opening.await {
        Err(error) if error.kind() == ErrorKind::NoPermission => {
            let message = format!(
                "listing the objects of container {uuid} needs the right to write to it: DAOS lists the objects of \
                 snapshots, and makes a table for that ({error})"
            );
            Err(esker_types::Error::new(ErrorKind::NoPermission, message))
        }
        other => other,
    }
}
