//! The field store on objects of Esker: one container, in it a catalogue of databases, an index for each, and
//! an array for each field (after section IV of the 2023 paper on Field I/O, without a container per forecast).
mod ahead;
mod check;
mod layout;
mod list;
mod location;
mod log;
mod moment;
mod moves;
mod names;
mod purge;
mod removal;
mod retrieve;
mod stats;
mod together;
mod watch;
mod wipe;
mod writer;

pub use ahead::read_ahead;
pub use check::{Checked, Lost};
pub use list::Listed;
pub use location::{FieldLocation, Holder};
pub use moves::{Moved, Moving};
pub use purge::Purged;
pub use retrieve::{Field, Found};
pub use stats::{Counted, Stats};
pub use together::{bytes_of, read_together};
pub use watch::Watch;
pub use wipe::Wiped;
pub use writer::FieldWriter;

use crate::limits::RESTARTS_MAX;
use crate::request::Selection;
use crate::schema::Schema;
use esker::backend::{Capabilities, NewContainer};
use esker::{Access, Container, Kv, Object, Pool, Transaction, Wait};
use esker_types::info::OpenMode;
use esker_types::ops::{Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value};
use esker_types::{Error, ErrorKind, KeyBatch, ObjectId, Result};
use layout::Version;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Keys asked for at a time.
pub(crate) const BATCH: usize = 4096;

/// A field store: fields in a container of their own.
///
/// A [`FieldWriter`] archives; all other functions read. Clones are cheap and share caches. Many threads may use one
/// handle at a time, and so may forked children.
#[derive(Clone)]
pub struct FieldStore(Arc<Inner>);

struct Inner {
    container: Container,
    schema: Schema,
    version: Version,
    catalogue: Object,
    /// Known databases. An index is never reused for another database.
    known: Mutex<HashMap<String, ObjectId>>,
    /// The names of fields of known databases.
    names: Mutex<HashMap<String, names::Names>>,
}

impl FieldStore {
    /// Makes a store in a new container of `pool`.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if `label` is taken, [`ErrorKind::NotSupported`] if the pool has no
    /// transactions, [`ErrorKind::Invalid`] if fields would be lost under the schema.
    pub fn create(pool: &Pool, label: &str, schema: &Schema) -> Result<Self> {
        check_new(pool.capabilities(), schema)?;
        let version = Version::NEW;
        let metadata: [(&str, &[u8]); 2] = [
            (layout::VERSION, version.text().as_bytes()),
            (layout::SCHEMA, schema.text().as_bytes()),
        ];
        let new = NewContainer::named(label).with_metadata(&metadata);
        pool.create_container(&new).wait()?;
        let container = pool.open_container(label, OpenMode::ReadWrite).wait()?;
        Self::from_container(container, version, schema.clone())
    }

    /// Opens a store.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the container does not exist, [`ErrorKind::Invalid`] if it is not a field
    /// store, [`ErrorKind::Incompatible`] if a later release made it.
    pub fn open(pool: &Pool, label: &str, mode: OpenMode) -> Result<Self> {
        Self::open_in(pool.open_container(label, mode).wait().map_err(remedy)?)
    }

    /// Opens the store in an open container.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the container is not a field store, [`ErrorKind::Incompatible`] if a later release
    /// made it.
    pub fn open_in(container: Container) -> Result<Self> {
        let label = container.info().label.clone();
        let about = |name: &str| {
            let value =
                container.properties().get(name.trim_start_matches(layout::PROPERTY)).wait()?;
            let text = value.and_then(|value| String::from_utf8(value).ok());
            text.ok_or_else(|| no_fields(&label))
        };
        let version = Version::parse(&about(layout::VERSION)?).ok_or_else(|| {
            let text = format!("container {label} holds fields of a later release: use that");
            Error::new(ErrorKind::Incompatible, text)
        })?;
        let text = about(layout::SCHEMA)?;
        let schema = Schema::of_store(&text, &format!("of container {label}"))
            .map_err(|error| Error::new(error.kind(), format!("schema {}", error.message())))?;
        Self::from_container(container, version, schema)
    }

    /// Opens the store in an open container, or makes the container a store with `schema` if it is empty. Safe to call
    /// concurrently: one caller makes it.
    ///
    /// # Errors
    /// The errors of [`FieldStore::open_in`] and [`FieldStore::create`].
    pub fn open_or_create_in(container: Container, schema: &Schema) -> Result<Self> {
        match Self::open_in(container.clone()) {
            Err(error) if error.kind() == ErrorKind::Invalid => {
                Self::begin_in(container, schema)?.ok_or(error)
            }
            other => other,
        }
    }

    /// Opens a store, or creates it with `schema`, also in an empty container. Safe to call concurrently: one caller
    /// creates it.
    ///
    /// # Errors
    /// The errors of [`FieldStore::open`] and [`FieldStore::create`].
    pub fn open_or_create(pool: &Pool, label: &str, schema: &Schema) -> Result<Self> {
        match Self::open(pool, label, OpenMode::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::Invalid => {
                let container = pool.open_container(label, OpenMode::ReadWrite).wait()?;
                return Self::begin_in(container, schema)?.ok_or(error);
            }
            other => return other,
        }
        match Self::create(pool, label, schema) {
            Err(error) if error.kind() == ErrorKind::Exists => {
                Self::open(pool, label, OpenMode::ReadWrite)
            }
            other => other,
        }
    }

    /// Makes an empty container a store; `None` if it holds something. If several callers do so at the same time, the
    /// store gets the schema of the caller that stores it first in [`layout::beginning`].
    fn begin_in(container: Container, schema: &Schema) -> Result<Option<Self>> {
        let beginning = layout::beginning(&container)?;
        let begun = || beginning.get(layout::BEGUN, Access::Latest).wait();
        if begun()?.is_none() {
            // The container may hold the schema that another caller has just stored.
            if !container.holds_nothing().wait()? && begun()?.is_none() {
                return Ok(None);
            }
            check_new(container.capabilities(), schema)?;
            let (text, cond) = (schema.text().as_bytes(), Kv::INSERT);
            match beginning.put(layout::BEGUN, text, cond, Access::Latest).wait() {
                Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
                _ => {}
            }
        }
        let Some(text) = begun()? else { return Ok(None) };
        let version = Version::NEW.text().as_bytes();
        let values = [(layout::VERSION, version), (layout::SCHEMA, &text)];
        let name = |name: &'static str| name.trim_start_matches(layout::PROPERTY);
        let changes = values.map(|(property, value)| (name(property), Some(value)));
        container.properties().change(&changes).wait()?;
        Self::open_in(container).map(Some)
    }

    fn from_container(container: Container, version: Version, schema: Schema) -> Result<Self> {
        let catalogue = version.catalogue(&container)?;
        let (known, names) = (Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Inner { container, schema, version, catalogue, known, names })))
    }

    /// The schema of its keys.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// The container it is in.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.0.container
    }

    fn catalogue(&self) -> &Object {
        &self.0.catalogue
    }

    /// The marker of the batch of fields that begins with `first`.
    fn marker(&self, first: u64) -> Result<Object> {
        self.0.version.marker(&self.0.container, first)
    }

    /// The index of a database, if it has one.
    fn index_of(&self, database: &str) -> Result<Option<Object>> {
        let known = self.lock_databases().get(database).copied();
        if let Some(oid) = known {
            return Ok(Some(self.0.container.object(oid)));
        }
        let found = fetch(self.catalogue(), layout::DATABASES, database.as_bytes())?;
        found.map(|oid| self.remember(database, &oid)).transpose()
    }

    /// The index of a database, created if it has none.
    fn index_for(&self, database: &str) -> Result<Object> {
        if let Some(index) = self.index_of(database)? {
            return Ok(index);
        }
        let number = self.0.container.allocate_oids(1).wait()?;
        let oid = self.0.version.index_oid(&self.0.container, number)?.to_bytes();
        let insert = [Update { cond: Cond::AKEY_INSERT, ..put(database.as_bytes(), &oid) }];
        let catalogue = self.catalogue();
        match catalogue.update(layout::DATABASES, Cond::NONE, &insert, Access::Latest).wait() {
            Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
            _ => {}
        }
        self.index_of(database)?.ok_or_else(damaged)
    }

    fn remember(&self, database: &str, oid: &[u8]) -> Result<Object> {
        let oid = ObjectId::from_bytes(oid.try_into().map_err(|_| damaged())?);
        self.lock_databases().insert(database.to_owned(), oid);
        Ok(self.0.container.object(oid))
    }

    fn lock_databases(&self) -> std::sync::MutexGuard<'_, HashMap<String, ObjectId>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> std::sync::MutexGuard<'_, HashMap<String, names::Names>> {
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All databases, by their keys.
    fn databases(&self) -> Result<Vec<String>> {
        self.databases_at(Access::Latest)
    }

    fn databases_at(&self, access: Access<'_>) -> Result<Vec<String>> {
        let names = all_akeys_at(self.catalogue(), layout::DATABASES, access)?;
        names.into_iter().map(|name| String::from_utf8(name).map_err(|_| damaged())).collect()
    }

    /// Selects all fields.
    fn everything(&self) -> Selection {
        Selection::everything(self.schema())
    }
}

impl FieldStore {
    /// Runs `work` in a transaction and commits it; retries on conflicts.
    fn atomically<T>(&self, work: impl Fn(&Transaction) -> Result<T>) -> Result<T> {
        self.container().transact(RESTARTS_MAX, work)
    }
}

fn no_fields(label: &str) -> Error {
    let text = format!(
        "container {label} holds no fields: name an empty container, or a new one, which `esker fields archive` makes"
    );
    Error::new(ErrorKind::Invalid, text)
}

/// Checks that a new store can have this schema.
fn check_new(capabilities: Capabilities, schema: &Schema) -> Result<()> {
    if !capabilities.transactions {
        let text = "fields need a pool with transactions, and this one has none: use one made with `esker \
                    pool create`, or one on Ceph";
        return Err(Error::new(ErrorKind::NotSupported, text));
    }
    schema.refuse_loss()
}

/// Adds a hint on creating a store to the error for a missing container.
fn remedy(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => {
            let text = format!("{}; `esker fields archive` makes one with fields", error.message());
            Error::new(ErrorKind::NotFound, text)
        }
        _ => error,
    }
}

fn damaged() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the catalogue of the field store is damaged: run `esker pool check`",
    )
}

/// An update of a single value.
fn put<'a>(akey: &'a [u8], value: &'a [u8]) -> Update<'a> {
    Update { akey, value: Value::Single(Source::One(value)), cond: Cond::NONE }
}

/// A single value of any length.
fn fetch(object: &Object, dkey: &[u8], akey: &[u8]) -> Result<Option<Vec<u8>>> {
    fetch_long(object, dkey, akey, Access::Latest)
}

fn fetch_long(
    object: &Object,
    dkey: &[u8],
    akey: &[u8],
    access: Access<'_>,
) -> Result<Option<Vec<u8>>> {
    fetch_up_to(location::LOCATION_BYTES_MAX, object, dkey, akey, access)
}

fn fetch_up_to(
    bytes: usize,
    object: &Object,
    dkey: &[u8],
    akey: &[u8],
    access: Access<'_>,
) -> Result<Option<Vec<u8>>> {
    let mut value = vec![0; bytes];
    let mut fetches = [Fetch::single(akey, Sink::One(&mut value))];
    object.fetch(dkey, Cond::NONE, &mut fetches, access).wait()?;
    let len = fetches[0].reply.size as usize;
    value.truncate(len);
    Ok((len > 0).then_some(value))
}

/// Calls `visit` with all akeys of a dkey, in batches.
fn each_akey(
    object: &Object,
    dkey: &[u8],
    visit: impl FnMut(&KeyBatch) -> Result<()>,
) -> Result<()> {
    each_akey_at(object, dkey, Access::Latest, visit)
}

fn each_akey_at(
    object: &Object,
    dkey: &[u8],
    access: Access<'_>,
    mut visit: impl FnMut(&KeyBatch) -> Result<()>,
) -> Result<()> {
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        let limit = ListLimit::entries(BATCH);
        visit(&object.list_akeys(dkey, &mut anchor, limit, access).wait()?)?;
    }
    Ok(())
}

/// All dkeys of an object.
fn all_dkeys(object: &Object) -> Result<Vec<Vec<u8>>> {
    let (mut anchor, mut found) = (Anchor::Start, Vec::new());
    while !anchor.is_end() {
        let limit = ListLimit::entries(BATCH);
        let batch = object.list_dkeys(&mut anchor, limit, Access::Latest).wait()?;
        found.extend(batch.iter().map(<[u8]>::to_vec));
    }
    Ok(found)
}

/// Short values of many akeys of one dkey, in one consistent read.
fn fetch_many(
    object: &Object,
    dkey: &[u8],
    akeys: &[&[u8]],
    access: Access<'_>,
) -> Result<Vec<Option<Vec<u8>>>> {
    const ROOM: usize = 64;
    let mut room = vec![0; akeys.len() * ROOM];
    let mut fetches: Vec<_> = akeys
        .iter()
        .zip(room.chunks_mut(ROOM))
        .map(|(akey, sink)| Fetch::single(akey, Sink::One(sink)))
        .collect();
    match object.fetch(dkey, Cond::NONE, &mut fetches, access).wait() {
        // Locations in files are longer than the expected length, but rare.
        Err(error) if error.kind() == ErrorKind::RecordTooBig => {
            drop(fetches);
            return akeys.iter().map(|akey| fetch_long(object, dkey, akey, access)).collect();
        }
        result => result?,
    }
    let sizes: Vec<usize> = fetches.iter().map(|fetch| fetch.reply.size as usize).collect();
    let values = room.chunks(ROOM).zip(sizes);
    Ok(values.map(|(value, size)| (size > 0).then(|| value[..size].to_vec())).collect())
}

/// All akeys of a dkey that has few.
fn all_akeys(object: &Object, dkey: &[u8]) -> Result<Vec<Vec<u8>>> {
    all_akeys_at(object, dkey, Access::Latest)
}

fn all_akeys_at(object: &Object, dkey: &[u8], access: Access<'_>) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    each_akey_at(object, dkey, access, |batch| {
        found.extend(batch.iter().map(<[u8]>::to_vec));
        Ok(())
    })?;
    Ok(found)
}
