//! The environment of checks: a pool, an empty container, and helper functions.
use super::Outcome;
use esker::{Access, Container, Object, Pool, Wait};
use esker_backend::{NewContainer, OpenContainer};
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value};
use esker_types::{Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A check, with its name.
pub(super) type Check = (&'static str, fn(&Store) -> Result<()>);

/// Pairs checks with the names of their functions.
macro_rules! checks {
    ($($check:ident),+ $(,)?) => { &[$((stringify!($check), $check)),+] };
}
pub(super) use checks;

/// Runs checks on one pool, each in its own container.
#[track_caller]
pub(super) fn run(
    topic: &str,
    backend: &Arc<dyn esker_backend::Pool>,
    checks: &[Check],
) -> Outcome {
    for (name, check) in checks {
        let outcome = Store::new(backend).and_then(|store| check(&store));
        assert!(outcome.is_ok(), "{topic}: {name}: unexpected error: {outcome:?}");
    }
    Outcome::Passed { checks: checks.len() }
}

/// Fails the test unless the result is an error of this kind. Returns the error.
#[track_caller]
pub(super) fn refused<T>(result: Result<T>, kind: ErrorKind) -> Error {
    let found = result.err().unwrap_or_else(|| Error::new(ErrorKind::Already, "no error at all"));
    assert_eq!(found.kind(), kind, "wrong outcome: {found}");
    found
}

/// A pool with an empty container.
pub(super) struct Store {
    pub(super) pool: Pool,
    pub(super) container: Container,
    next: AtomicU64,
}

impl Store {
    fn new(backend: &Arc<dyn esker_backend::Pool>) -> Result<Self> {
        let pool = Pool::from_backend(Arc::clone(backend), OpenMode::ReadWrite);
        let info = pool.create_container(&NewContainer::default()).wait()?;
        let name = info.uuid.to_string();
        let container = pool.open_container(&name, OpenMode::ReadWrite).wait()?;
        Ok(Self { pool, container, next: AtomicU64::new(1) })
    }

    /// UUID of the container, as text.
    pub(super) fn uuid(&self) -> String {
        self.container.info().uuid.to_string()
    }

    /// A new id of an object that spreads over all targets.
    pub(super) fn oid(&self, otype: ObjectType) -> Result<ObjectId> {
        self.oid_of_class(otype, ObjectClass::SX)
    }

    /// A new id of an object of this class.
    pub(super) fn oid_of_class(&self, otype: ObjectType, class: ObjectClass) -> Result<ObjectId> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.container.generate_oid(0, number, otype, Some(class), 0)
    }

    /// A new object with byte-string keys.
    pub(super) fn object(&self) -> Result<Object> {
        Ok(self.container.object(self.oid(ObjectType::MultiHashed)?))
    }

    /// A new object of type `otype`.
    pub(super) fn object_of(&self, otype: ObjectType) -> Result<Object> {
        Ok(self.container.object(self.oid(otype)?))
    }
}

/// The container as the backend returns it.
pub(super) fn opened(store: &Store) -> Result<Box<dyn OpenContainer>> {
    let name = ContainerRef::Uuid(store.container.info().uuid);
    store.pool.backend().open_container(name, OpenMode::ReadWrite).wait()
}

/// An update of a single value.
pub(super) fn single<'a>(akey: &'a [u8], value: &'a [u8]) -> Update<'a> {
    Update { akey, value: Value::Single(Source::One(value)), cond: Cond::NONE }
}

/// Writes a single value.
pub(super) fn put(object: &Object, dkey: &[u8], akey: &[u8], value: &[u8]) -> Result<()> {
    put_with(object, dkey, akey, value, Access::Latest)
}

/// Writes a single value, in a transaction if `access` is one.
pub(super) fn put_with(
    object: &Object,
    dkey: &[u8],
    akey: &[u8],
    value: &[u8],
    access: Access<'_>,
) -> Result<()> {
    object.update(dkey, Cond::NONE, &[single(akey, value)], access).wait()
}

/// Reads a single value, `None` if there is none.
pub(super) fn get(object: &Object, dkey: &[u8], akey: &[u8]) -> Result<Option<Vec<u8>>> {
    get_with(object, dkey, akey, Access::Latest)
}

/// Reads a single value of the state that `access` names; `None` if there is none. The first fetch asks for its size.
pub(super) fn get_with(
    object: &Object,
    dkey: &[u8],
    akey: &[u8],
    access: Access<'_>,
) -> Result<Option<Vec<u8>>> {
    let mut fetch = Fetch::single(akey, Sink::None);
    fetch.request.cond = Cond::AKEY_FETCH;
    let found = object.fetch(dkey, Cond::NONE, std::slice::from_mut(&mut fetch), access).wait();
    match found {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut value = vec![0; fetch.reply.size as usize];
    let mut fetch = Fetch::single(akey, Sink::One(&mut value));
    object.fetch(dkey, Cond::NONE, std::slice::from_mut(&mut fetch), access).wait()?;
    assert_eq!(fetch.reply.filled_bytes, fetch.reply.size, "bytes filled by a single value");
    Ok(Some(value))
}

/// All dkeys, listed in steps of `entries`, sorted.
pub(super) fn dkeys(object: &Object, entries: usize, access: Access<'_>) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        let limit = ListLimit::entries(entries);
        let batch = object.list_dkeys(&mut anchor, limit, access).wait()?;
        assert!(batch.len() <= entries, "{} keys, requested were at most {entries}", batch.len());
        all.extend(batch.iter().map(<[u8]>::to_vec));
    }
    all.sort();
    Ok(all)
}

/// All akeys of a dkey, listed in steps of `entries`, in the order of the listing.
pub(super) fn akeys(object: &Object, dkey: &[u8], entries: usize) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        let limit = ListLimit::entries(entries);
        let batch = object.list_akeys(dkey, &mut anchor, limit, Access::Latest).wait()?;
        all.extend(batch.iter().map(<[u8]>::to_vec));
    }
    Ok(all)
}

/// All objects of the container, each with the number of times it was listed.
pub(super) fn objects(
    container: &Container,
    entries: usize,
    access: Access<'_>,
) -> Result<BTreeMap<ObjectId, usize>> {
    let mut all = BTreeMap::new();
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        for oid in container.list_objects(&mut anchor, entries, access).wait()? {
            *all.entry(oid).or_default() += 1;
        }
    }
    Ok(all)
}
