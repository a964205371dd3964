//! Removes arrays of bytes that no process uses, by means of the other operations.
use crate::container::OpenContainer;
use esker_types::ops::{
    Change, Cond, FIRST_CHUNK, LAST_OF_FIRST, ReadAt, Removal, STRIPE_MARK, Write, WriteOp,
};
use esker_types::{ObjectId, Result};

/// Answers [`OpenContainer::remove_unused_each`]. All arrays that are removed change at once.
///
/// # Errors
/// Errors of reads and writes.
pub(crate) async fn remove_unused<C: OpenContainer + ?Sized>(
    container: &C,
    oids: &[ObjectId],
) -> Result<Vec<Removal>> {
    let (mut removals, mut writes) = (Vec::with_capacity(oids.len()), Vec::new());
    for oid in oids {
        let found = find(container, *oid).await?;
        if found.is_none() {
            let op = WriteOp::PunchDkey { dkey: &FIRST_CHUNK, cond: Cond::NONE };
            writes.push(Write { oid: *oid, op });
        }
        removals.push(found.unwrap_or(Removal::Removed));
    }
    if !writes.is_empty() {
        container.write(Change::from_writes(&writes)).await?;
    }
    Ok(removals)
}

/// The result of the removal of an array; `None` if its first chunk must be removed first.
async fn find<C: OpenContainer + ?Sized>(container: &C, oid: ObjectId) -> Result<Option<Removal>> {
    if container.unlink_on_last_close(oid).await? {
        return Ok(Some(Removal::InUse));
    }
    // Most removed files are empty, and a read is cheaper than a write. The stripe mark is the last akey, if there is
    // one.
    Ok(match container.query_key(oid, LAST_OF_FIRST, ReadAt::LATEST).await? {
        None => Some(Removal::Removed),
        Some(found) if found.akey == STRIPE_MARK => Some(Removal::Striped),
        Some(_) => None,
    })
}
