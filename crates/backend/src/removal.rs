//! Removes objects that no process uses, by means of the other operations.
use crate::container::OpenContainer;
use esker_types::ops::{
    Change, Cond, FIRST_CHUNK, LAST_OF_FIRST, ReadAt, Removal, STRIPE_MARK, Write, WriteOp,
};
use esker_types::{ObjectId, Result};

/// Removes an object whose last lease has ended. An error is ignored: the next check finds the object.
pub async fn remove_unlinked<C: OpenContainer + ?Sized>(container: &C, oid: ObjectId) {
    let writes = [Write { oid, op: WriteOp::PunchObject { cond: Cond::NONE } }];
    let _ = container.write(Change::from_writes(&writes)).await;
}

/// Ends leases on `oids` that were taken before one on another object failed. Removes objects that were unlinked
/// meanwhile and have no other lease. Errors are ignored, because the caller gets that of the lease that failed.
pub async fn undo_leases<C: OpenContainer + ?Sized>(container: &C, oids: &[ObjectId]) {
    let ended = container.release_each(oids).await.unwrap_or_default();
    for (oid, _) in oids.iter().zip(ended).filter(|(_, was_last)| *was_last) {
        remove_unlinked(container, *oid).await;
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::{NewContainer, Pool};
    use esker_os::executor::block_on;
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::ops::{Anchor, Source, Update, Value};
    use esker_types::{ObjectClass, ObjectType};

    #[test]
    fn undone_lease_removes_the_object_that_was_unlinked_meanwhile() {
        let pool = Memory::new(1);
        block_on(pool.create_container(&NewContainer::named("leases"))).unwrap();
        let opened = pool.open_container(ContainerRef::Label("leases"), OpenMode::ReadWrite);
        let container = block_on(opened).unwrap();
        let oids =
            [1, 2, 3].map(|lo| ObjectId::generate(0, lo, ObjectType::MultiHashed, ObjectClass::S1));
        let updates = [Update {
            akey: b"akey",
            value: Value::Single(Source::One(b"value")),
            cond: Cond::NONE,
        }];
        for oid in oids {
            let op = WriteOp::Update { dkey: b"dkey", cond: Cond::NONE, updates: &updates };
            block_on(container.write(Change::from_writes(&[Write { oid, op }]))).unwrap();
            block_on(container.lease(oid)).unwrap();
        }
        let [unlinked, shared, in_use] = oids;
        block_on(container.lease(shared)).unwrap();
        for oid in [unlinked, shared] {
            assert!(block_on(container.unlink_on_last_close(oid)).unwrap());
        }
        block_on(undo_leases(&*container, &oids));
        let mut left =
            block_on(container.list_objects(&mut Anchor::Start, 10, ReadAt::LATEST)).unwrap();
        left.sort();
        assert_eq!(left, [shared, in_use]);
        assert!(block_on(container.release(shared)).unwrap());
    }
}
