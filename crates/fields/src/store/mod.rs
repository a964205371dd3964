//! The field store on objects of Esker: one container, in it a catalogue of databases, an index for each, and
//! an array for each field (after section IV of the 2023 paper on Field I/O, without a container per forecast).
mod ahead;
mod batch;
mod check;
mod create;
mod index;
mod layout;
mod list;
mod location;
mod log;
mod moment;
mod moves;
mod names;
mod purge;
mod removal;
mod repeated;
mod retrieve;
mod stats;
mod together;
mod watch;
mod wipe;
mod writer;

pub use ahead::read_ahead;
pub use check::{Checked, Lost};
pub use create::NewFields;
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
use esker::{Access, Container, Object, Pool, Transaction, Wait};
use esker_os::PerProcess;
use esker_types::info::OpenMode;
use esker_types::ops::{Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value};
use esker_types::{Error, ErrorKind, KeyBatch, Result};
use index::DatabaseIndex;
use layout::Version;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys requested at a time.
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
    /// Stripes of new indexes.
    stripes: u32,
    catalogue: Object,
    /// A forked child starts with empty caches, since a thread of its parent may hold their locks.
    caches: PerProcess<Caches>,
}

/// State of a store that this process has read.
#[derive(Default)]
struct Caches {
    /// Known databases. An index is never reused for another database.
    known: Mutex<HashMap<String, DatabaseIndex>>,
    /// The names of fields of known databases.
    names: Mutex<HashMap<String, names::Names>>,
}

impl FieldStore {
    /// Opens a store.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the container does not exist, [`ErrorKind::Invalid`] if it is not a field
    /// store, [`ErrorKind::Incompatible`] if a later release made it.
    pub fn open(pool: &Pool, label: &str, mode: OpenMode) -> Result<Self> {
        Self::open_in(pool.open_container(label, mode).wait().map_err(with_creation_hint)?)
    }

    /// Opens the store in an open container.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the container is not a field store, [`ErrorKind::Incompatible`] if a later release
    /// made it.
    pub fn open_in(container: Container) -> Result<Self> {
        let label = container.info().label.clone();
        let about = |name: &str| {
            let value = container.properties().get(create::property(name)).wait()?;
            let text = value.and_then(|value| String::from_utf8(value).ok());
            text.ok_or_else(|| no_fields_error(&label))
        };
        let version = Version::parse(&about(layout::VERSION)?).ok_or_else(|| {
            let text = format!("container {label} holds fields of a later release: use that");
            Error::new(ErrorKind::Incompatible, text)
        })?;
        let text = about(layout::SCHEMA)?;
        let schema = Schema::of_store(&text, &format!("of container {label}"))
            .map_err(|error| Error::new(error.kind(), format!("schema {}", error.message())))?;
        let stripes = match version {
            Version::One | Version::Two => 1,
            Version::Three => create::parse_stripes(&about(layout::STRIPES)?)?,
        };
        Self::from_container(container, version, stripes, schema)
    }

    /// The store in `container`, whose version, stripes and schema have been read.
    fn from_container(
        container: Container,
        version: Version,
        stripes: u32,
        schema: Schema,
    ) -> Result<Self> {
        let catalogue = version.catalogue(&container)?;
        let caches = PerProcess::empty();
        let inner = Inner { container, schema, version, stripes, catalogue, caches };
        Ok(Self(Arc::new(inner)))
    }

    /// Number of stripes of the index of each new database.
    #[must_use]
    pub fn stripes(&self) -> u32 {
        self.0.stripes
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

    /// The object that lists databases, batches of writers, and unfinished removals.
    fn catalogue(&self) -> &Object {
        &self.0.catalogue
    }

    /// The marker of the batch of fields that begins with `first`.
    fn marker(&self, first: u64) -> Result<Object> {
        self.0.version.marker(&self.0.container, first)
    }

    /// The index of a database, if it has one.
    fn index_of(&self, database: &str) -> Result<Option<DatabaseIndex>> {
        self.index_at(database, Access::Latest)
    }

    /// Index of a database, as `access` reads the catalogue; `None` if there is no such database. A known index is not
    /// read again: it never changes.
    fn index_at(&self, database: &str, access: Access<'_>) -> Result<Option<DatabaseIndex>> {
        let known = self.lock_databases().get(database).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let found = fetch_long(self.catalogue(), layout::DATABASES, database.as_bytes(), access)?;
        let Some(found) = found else { return Ok(None) };
        let index = DatabaseIndex::decode(&self.0.container, &found)?;
        self.lock_databases().insert(database.to_owned(), index.clone());
        Ok(Some(index))
    }

    /// The index of a database, created if it has none.
    fn index_for(&self, database: &str) -> Result<DatabaseIndex> {
        if let Some(index) = self.index_of(database)? {
            return Ok(index);
        }
        let Inner { container, version, stripes, catalogue, .. } = &*self.0;
        let oids = index::encode(&index::new_stripes(container, *version, *stripes)?);
        let insert = [Update { cond: Cond::AKEY_INSERT, ..put(database.as_bytes(), &oids) }];
        match catalogue.update(layout::DATABASES, Cond::NONE, &insert, Access::Latest).wait() {
            Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
            _ => {}
        }
        self.index_of(database)?.ok_or_else(damaged_catalogue_error)
    }

    /// The caches of this process.
    fn caches(&self) -> &Caches {
        self.0.caches.get_or_create(Caches::default)
    }

    /// Locks the known databases.
    fn lock_databases(&self) -> MutexGuard<'_, HashMap<String, DatabaseIndex>> {
        self.caches().known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the names of fields of known databases.
    fn names(&self) -> MutexGuard<'_, HashMap<String, names::Names>> {
        self.caches().names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All databases, by their keys.
    fn databases(&self) -> Result<Vec<String>> {
        self.databases_at(Access::Latest)
    }

    /// Names of all databases.
    fn databases_at(&self, access: Access<'_>) -> Result<Vec<String>> {
        let names = list_akeys(self.catalogue(), layout::DATABASES, access).wait()?;
        names
            .into_iter()
            .map(|name| String::from_utf8(name).map_err(|_| damaged_catalogue_error()))
            .collect()
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

fn no_fields_error(label: &str) -> Error {
    let text = format!(
        "container {label} holds no fields: name an empty container, or a new one, which `esker fields archive` makes"
    );
    Error::new(ErrorKind::Invalid, text)
}

/// Adds a hint on creating a store to the error for a missing container.
fn with_creation_hint(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => {
            let text = format!("{}; `esker fields archive` makes one with fields", error.message());
            Error::new(ErrorKind::NotFound, text)
        }
        _ => error,
    }
}

fn damaged_catalogue_error() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the catalogue of the field store is damaged: run `esker pool check`",
    )
}

/// An update of a single value.
fn put<'a>(akey: &'a [u8], value: &'a [u8]) -> Update<'a> {
    Update { akey, value: Value::Single(Source::One(value)), cond: Cond::NONE }
}

/// Reads a value of the latest state, of at most the size of a location. `None` if there is none.
fn fetch(object: &Object, dkey: &[u8], akey: &[u8]) -> Result<Option<Vec<u8>>> {
    fetch_long(object, dkey, akey, Access::Latest)
}

/// Reads a value of at most the size of a location. `None` if there is none.
fn fetch_long(
    object: &Object,
    dkey: &[u8],
    akey: &[u8],
    access: Access<'_>,
) -> Result<Option<Vec<u8>>> {
    fetch_up_to(location::LOCATION_BYTES_MAX, object, dkey, akey, access)
}

/// Reads a value of at most `bytes` bytes. `None` if there is none.
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
    mut visit: impl FnMut(&KeyBatch) -> Result<()>,
) -> Result<()> {
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        let limit = ListLimit::entries(BATCH);
        visit(&object.list_akeys(dkey, &mut anchor, limit, Access::Latest).wait()?)?;
    }
    Ok(())
}

/// Short values of many akeys of one dkey, in one consistent read.
fn fetch_many(
    object: &Object,
    dkey: &[u8],
    akeys: &[&[u8]],
    access: Access<'_>,
) -> Result<Vec<Option<Vec<u8>>>> {
    read_many(object, dkey, akeys, access).wait()
}

/// Reads the values of `akeys` under one dkey with one call, or with a second one if a value is longer than expected.
/// Either call reads all values, so that they are from one state.
async fn read_many(
    object: &Object,
    dkey: &[u8],
    akeys: &[&[u8]],
    access: Access<'_>,
) -> Result<Vec<Option<Vec<u8>>>> {
    match read_short(object, dkey, akeys, SHORT, access).await {
        // Locations in files are longer than the expected length, but rare.
        Err(error) if error.kind() == ErrorKind::RecordTooBig => {}
        result => return result,
    }
    read_short(object, dkey, akeys, location::LOCATION_BYTES_MAX, access).await
}

/// Expected length of a location.
const SHORT: usize = 64;

/// Reads the values of `akeys` under one dkey; `None` for a missing one. Fails with `RecordTooBig` if one is longer
/// than `room` bytes.
async fn read_short(
    object: &Object,
    dkey: &[u8],
    akeys: &[&[u8]],
    room: usize,
    access: Access<'_>,
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut buffer = vec![0; akeys.len() * room];
    let sinks = buffer.chunks_mut(room);
    let mut fetches: Vec<_> =
        akeys.iter().zip(sinks).map(|(akey, sink)| Fetch::single(akey, Sink::One(sink))).collect();
    object.fetch(dkey, Cond::NONE, &mut fetches, access).await?;
    let sizes: Vec<usize> = fetches.iter().map(|fetch| fetch.reply.size as usize).collect();
    let values = buffer.chunks(room).zip(sizes);
    Ok(values.map(|(value, size)| (size > 0).then(|| value[..size].to_vec())).collect())
}

/// All akeys of a dkey that has few, in the latest state.
fn all_akeys(object: &Object, dkey: &[u8]) -> Result<Vec<Vec<u8>>> {
    list_akeys(object, dkey, Access::Latest).wait()
}

/// All akeys of a dkey that has few.
async fn list_akeys(object: &Object, dkey: &[u8], access: Access<'_>) -> Result<Vec<Vec<u8>>> {
    let (mut anchor, mut found) = (Anchor::Start, Vec::new());
    while !anchor.is_end() {
        let limit = ListLimit::entries(BATCH);
        let batch = object.list_akeys(dkey, &mut anchor, limit, access).await?;
        found.extend(batch.iter().map(<[u8]>::to_vec));
    }
    Ok(found)
}
