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
    put(&register(container), &epoch.0.to_be_bytes(), Cond::DKEY_INSERT).await?;
    Ok(epoch)
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
    register(container).punch_dkey(&epoch.0.to_be_bytes(), Cond::PUNCH, Access::Latest).await?;
    Ok(table(container, epoch).punch(Cond::NONE, Access::Latest).await?)
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
