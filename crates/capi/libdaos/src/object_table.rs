//! Tables of objects in pools without snapshots: lists that are written when `daos_cont_create_snap_opt` asks for a
//! table.
//!
//! Programs use such a table to find the objects that they remove, as FDB's `fdb-wipe` does. Objects that are created
//! meanwhile may be in it or not. The data of the objects cannot be read as of its epoch.
//!
//! A table is an object whose dkeys are object ids. One object lists the epochs of all tables, as dkeys.
use crate::code::{Code, Result};
use esker::types::ops::{Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value};
use esker::types::{Epoch, ObjectClass, ObjectId, ObjectType};
use esker::{Access, Container, Object, side_by_side, task};

const AKEY: &[u8] = b"object";
/// Object ids that are listed at once, and written side by side.
const BATCH: usize = 64;

/// The object that stores the table of an epoch. [`crate::oit`] uses the id with zero for marks.
fn table(container: &Container, epoch: Epoch) -> Object {
    container.object(ObjectId::generate(1, epoch.0, ObjectType::Oit, ObjectClass::S1))
}

/// The object that lists the epochs of tables.
fn register(container: &Container) -> Object {
    container.object(ObjectId::generate(2, 0, ObjectType::Oit, ObjectClass::S1))
}

/// True if an object table was created at `epoch`.
pub(crate) async fn exists(container: &Container, epoch: Epoch) -> Result<bool> {
    has_dkey(&register(container), &epoch.0.to_be_bytes()).await
}

/// True if a table has an object.
pub(crate) async fn has_object(container: &Container, epoch: Epoch, oid: ObjectId) -> Result<bool> {
    has_dkey(&table(container, epoch), &oid.to_bytes()).await
}

/// The epochs of all tables, oldest first.
pub(crate) async fn epochs(container: &Container) -> Result<Vec<Epoch>> {
    let (register, mut at, mut epochs) = (register(container), Anchor::default(), Vec::new());
    while !at.is_end() {
        let keys = register.list_dkeys(&mut at, ListLimit::entries(BATCH), Access::Latest).await?;
        epochs.extend(
            keys.iter().filter_map(|key| Some(Epoch(u64::from_be_bytes(key.try_into().ok()?)))),
        );
    }
    epochs.sort_unstable();
    Ok(epochs)
}

/// Writes a table of all objects, and returns its epoch. The table does not exist before it is complete.
pub(crate) async fn create(container: &Container) -> Result<Epoch> {
    let last = epochs(container).await?.last().copied().unwrap_or_default();
    let epoch = Epoch::after(last);
    if let Err(code) = fill(container, epoch).await {
        // With `EXIST`, another caller has a table of this epoch. The caller gets the first error.
        if code != Code::EXIST {
            let _ = table(container, epoch).punch(Cond::NONE, Access::Latest).await;
        }
        return Err(code);
    }
    Ok(epoch)
}

/// Writes the entries of a table, and then registers it.
async fn fill(container: &Container, epoch: Epoch) -> Result<()> {
    let (table, mut at) = (table(container, epoch), Anchor::default());
    while !at.is_end() {
        let oids = container.list_objects(&mut at, BATCH, Access::Latest).await?;
        let users = oids.iter().filter(|oid| oid.object_type() != Some(ObjectType::Oit));
        let written = users.map(|oid| {
            let table = &table;
            task(async move { put(table, &oid.to_bytes(), Cond::NONE).await })
        });
        side_by_side(written.collect(), BATCH).await.into_iter().collect::<Result<()>>()?;
    }
    put(&register(container), &epoch.0.to_be_bytes(), Cond::DKEY_INSERT).await
}

/// The next object ids of the table of this epoch, at most `count`. Moves `at` past them.
pub(crate) async fn list(
    container: &Container,
    epoch: Epoch,
    at: &mut Anchor,
    count: usize,
) -> Result<Vec<ObjectId>> {
    let keys =
        table(container, epoch).list_dkeys(at, ListLimit::entries(count), Access::Latest).await?;
    let oids = keys.iter().map(|key| Some(ObjectId::from_bytes(key.try_into().ok()?)));
    oids.collect::<Option<_>>().ok_or(Code::MISC)
}

/// Removes a table; `NONEXIST` if there is none.
pub(crate) async fn destroy(container: &Container, epoch: Epoch) -> Result<()> {
    // The entry in the register is removed last: without it, a repeated call would not find what is left of the table.
    table(container, epoch).punch(Cond::NONE, Access::Latest).await?;
    let dkey = epoch.0.to_be_bytes();
    Ok(register(container).punch_dkey(&dkey, Cond::PUNCH, Access::Latest).await?)
}

/// Stores a dkey in the object: the entry of an object in a table, or of a table in the register.
async fn put(object: &Object, dkey: &[u8], cond: Cond) -> Result<()> {
    let updates =
        [Update { akey: AKEY, value: Value::Single(Source::One(b"1")), cond: Cond::NONE }];
    Ok(object.update(dkey, cond, &updates, Access::Latest).await?)
}

/// True if the object has this dkey, which is an entry of a table or of the register.
async fn has_dkey(object: &Object, dkey: &[u8]) -> Result<bool> {
    let mut fetch = Fetch::single(AKEY, Sink::None);
    object.fetch(dkey, Cond::NONE, std::slice::from_mut(&mut fetch), Access::Latest).await?;
    Ok(fetch.reply.size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::backend::memory::Memory;
    use esker::backend::{Capabilities, NewContainer, OpenContainer, Reply};
    use esker::types::ErrorKind;
    use esker::types::info::OpenMode;
    use esker::types::ops::{self, WriteOp};
    use esker::{Pool, Wait};
    use esker_conformance::between::{Interceptor, PoolBetween};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A pool without snapshots. While a flag is set, new entries of the register fail, or punches of objects.
    #[derive(Default)]
    struct Failing {
        of_register: AtomicBool,
        of_punches: AtomicBool,
    }

    impl Interceptor for Failing {
        fn capabilities(&self, of: Capabilities) -> Capabilities {
            Capabilities { snapshots: false, ..of }
        }

        fn write<'a>(
            &'a self,
            to: &'a dyn OpenContainer,
            change: ops::Change<'a>,
        ) -> Reply<'a, Epoch> {
            let is_on = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            let fails = change.writes.iter().any(|write| match write.op {
                WriteOp::Update { cond, .. } => {
                    cond.has(Cond::DKEY_INSERT) && is_on(&self.of_register)
                }
                WriteOp::PunchObject { .. } => is_on(&self.of_punches),
                _ => false,
            });
            if fails { Reply::Ready(Err(ErrorKind::Io.into())) } else { to.write(change) }
        }
    }

    /// A container with an object, in a pool that fails some changes.
    fn container() -> (Arc<Failing>, Container) {
        let failing = Arc::<Failing>::default();
        let pool = PoolBetween::before(Arc::new(Memory::new(2)), &failing);
        let pool = Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite);
        pool.create_container(&NewContainer::named("test")).wait().unwrap();
        let container = pool.open_container("test", OpenMode::ReadWrite).wait().unwrap();
        let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
        put(&container.object(oid), b"dkey", Cond::NONE).wait().unwrap();
        (failing, container)
    }

    /// Number of objects in the container.
    fn objects(container: &Container) -> usize {
        let mut at = Anchor::default();
        container.list_objects(&mut at, BATCH, Access::Latest).wait().unwrap().len()
    }

    #[test]
    fn failed_creation_leaves_no_entries() {
        let (failing, container) = container();
        failing.of_register.store(true, Ordering::Relaxed);
        assert!(create(&container).wait().is_err());
        assert_eq!(objects(&container), 1);
        failing.of_register.store(false, Ordering::Relaxed);
        create(&container).wait().unwrap();
        assert_eq!(objects(&container), 3, "with a table and the register");
    }

    #[test]
    fn failed_destruction_is_repeated() {
        let (failing, container) = container();
        let epoch = create(&container).wait().unwrap();
        failing.of_punches.store(true, Ordering::Relaxed);
        assert!(destroy(&container, epoch).wait().is_err());
        failing.of_punches.store(false, Ordering::Relaxed);
        destroy(&container, epoch).wait().unwrap();
        assert_eq!(objects(&container), 1);
        assert_eq!(destroy(&container, epoch).wait(), Err(Code::NONEXIST));
    }
}
