//! Creating a store: in a new container, or in an empty one.
use super::layout::{self, Version};
use super::{FieldStore, damaged_catalogue_error};
use crate::limits::{INDEX_STRIPES_DEFAULT_MAX, INDEX_STRIPES_MAX};
use crate::schema::Schema;
use esker::backend::{Capabilities, NewContainer};
use esker::{Access, Container, Kv, Pool, Wait};
use esker_types::info::OpenMode;
use esker_types::limits::ATTR_VALUE_MAX;
use esker_types::{Error, ErrorKind, Result};

/// Options of a new store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewFields {
    /// Stripes of the index of each database, 1 to [`INDEX_STRIPES_MAX`]. By default one for each node of
    /// the pool, at most [`INDEX_STRIPES_DEFAULT_MAX`].
    pub stripes: Option<u32>,
}

impl NewFields {
    /// Stripes of the indexes of a store in a pool over this many nodes.
    fn stripes_on(self, nodes: u32) -> Result<u32> {
        let stripes = self.stripes.unwrap_or_else(|| nodes.clamp(1, INDEX_STRIPES_DEFAULT_MAX));
        if (1..=INDEX_STRIPES_MAX).contains(&stripes) {
            return Ok(stripes);
        }
        let text = format!(
            "an index has 1 to {INDEX_STRIPES_MAX} stripes (INDEX_STRIPES_MAX), not {stripes}"
        );
        Err(Error::new(ErrorKind::Invalid, text))
    }
}

/// The number of stripes in the metadata of a store.
pub(super) fn parse_stripes(text: &str) -> Result<u32> {
    let stripes = text.parse().ok().filter(|stripes| (1..=INDEX_STRIPES_MAX).contains(stripes));
    stripes.ok_or_else(damaged_catalogue_error)
}

/// Metadata of a store, by name.
struct Description {
    values: Vec<(&'static str, Vec<u8>)>,
}

impl Description {
    /// The metadata of an empty store: its version, its schema and, if they are not the usual number, its stripes.
    fn new(schema: &[u8], stripes: u32) -> Self {
        let version = Version::for_stripes(stripes);
        let mut values = vec![
            (layout::VERSION, version.text().as_bytes().to_vec()),
            (layout::SCHEMA, schema.to_vec()),
        ];
        if version == Version::Three {
            values.push((layout::STRIPES, stripes.to_string().into_bytes()));
        }
        Self { values }
    }

    /// The metadata in the form that a new container takes.
    fn metadata(&self) -> Vec<(&str, &[u8])> {
        self.values.iter().map(|(name, value)| (*name, value.as_slice())).collect()
    }

    /// Stores the schema and the number of stripes as properties of a container that exists already.
    fn set(&self, container: &Container) -> Result<()> {
        let change = |(name, value)| (property(name), Some(value));
        let changes: Vec<_> = self.metadata().into_iter().map(change).collect();
        container.properties().change(&changes).wait()
    }
}

/// The name of a property, from that of its metadata.
pub(super) fn property(name: &str) -> &str {
    name.trim_start_matches(layout::PROPERTY)
}

impl FieldStore {
    /// Makes a store in a new container of `pool`.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if `label` is taken, [`ErrorKind::NotSupported`] if the pool has no
    /// transactions, [`ErrorKind::Invalid`] if fields would be lost under the schema, [`ErrorKind::Overflow`] for a
    /// schema beyond [`ATTR_VALUE_MAX`].
    pub fn create(pool: &Pool, label: &str, schema: &Schema) -> Result<Self> {
        Self::create_with(pool, label, schema, NewFields::default())
    }

    /// Makes a store in a new container of `pool`, with options.
    ///
    /// # Errors
    /// The errors of [`FieldStore::create`]; [`ErrorKind::Invalid`] for an option beyond its limits.
    pub fn create_with(pool: &Pool, label: &str, schema: &Schema, new: NewFields) -> Result<Self> {
        check_new(pool.capabilities(), schema)?;
        let description = Description::new(schema.text().as_bytes(), new.stripes_on(pool.nodes())?);
        let metadata = description.metadata();
        pool.create_container(&NewContainer::named(label).with_metadata(&metadata)).wait()?;
        Self::open_in(pool.open_container(label, OpenMode::ReadWrite).wait()?)
    }

    /// Opens the store in an open container, or makes the container a store with `schema` if it is empty. Safe to call
    /// concurrently: one caller makes it, the others open it.
    ///
    /// # Errors
    /// The errors of [`FieldStore::open_in`] and [`FieldStore::create`].
    pub fn open_or_create_in(container: Container, schema: &Schema) -> Result<Self> {
        match Self::open_in(container.clone()) {
            // `Invalid`: the container does not hold a store. It can become one only if it is empty.
            Err(error) if error.kind() == ErrorKind::Invalid => {
                begin_in(container, schema, NewFields::default())?.ok_or(error)
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
        Self::open_or_create_with(pool, label, schema, NewFields::default())
    }

    /// Opens a store, or creates it with options, like [`FieldStore::open_or_create`]. The options do not change a
    /// store that exists.
    ///
    /// # Errors
    /// The errors of [`FieldStore::open`] and [`FieldStore::create_with`].
    pub fn open_or_create_with(
        pool: &Pool,
        label: &str,
        schema: &Schema,
        new: NewFields,
    ) -> Result<Self> {
        match Self::open(pool, label, OpenMode::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::Invalid => {
                let container = pool.open_container(label, OpenMode::ReadWrite).wait()?;
                return begin_in(container, schema, new)?.ok_or(error);
            }
            other => return other,
        }
        match Self::create_with(pool, label, schema, new) {
            Err(error) if error.kind() == ErrorKind::Exists => {
                Self::open(pool, label, OpenMode::ReadWrite)
            }
            other => other,
        }
    }
}

/// Turns an empty container into a field store; `None` if the container has other content. If several callers do so at
/// the same time, the store gets the schema and the stripes that were stored first in [`layout::beginning`].
fn begin_in(container: Container, schema: &Schema, new: NewFields) -> Result<Option<FieldStore>> {
    let beginning = layout::beginning(&container)?;
    let stored = |key| beginning.get(key, Access::Latest).wait();
    if stored(layout::BEGUN)?.is_none() {
        // The container may hold the schema that another caller has just stored.
        if !container.holds_nothing().wait()? && stored(layout::BEGUN)?.is_none() {
            return Ok(None);
        }
        check_new(container.capabilities(), schema)?;
        put_if_absent(&beginning, layout::BEGUN, schema.text().as_bytes())?;
    }
    let stripes = new.stripes_on(container.nodes())?.to_string();
    put_if_absent(&beginning, layout::BEGUN_STRIPES, stripes.as_bytes())?;
    let Some(text) = stored(layout::BEGUN)? else { return Ok(None) };
    let stripes = stored(layout::BEGUN_STRIPES)?.and_then(|text| String::from_utf8(text).ok());
    let stripes = parse_stripes(&stripes.ok_or_else(damaged_catalogue_error)?)?;
    Description::new(&text, stripes).set(&container)?;
    FieldStore::open_in(container).map(Some)
}

/// Stores `value` under `key`, unless another caller has stored one before: the first caller wins, and that is not an
/// error.
fn put_if_absent(beginning: &Kv, key: &[u8], value: &[u8]) -> Result<()> {
    match beginning.put(key, value, Kv::INSERT, Access::Latest).wait() {
        Err(error) if error.kind() != ErrorKind::Exists => Err(error),
        _ => Ok(()),
    }
}

/// Checks that a new store can have this schema.
fn check_new(capabilities: Capabilities, schema: &Schema) -> Result<()> {
    if !capabilities.transactions {
        let text = "fields need a pool with transactions, and this one has none: use one made with `esker \
                    pool create`, or one on Ceph";
        return Err(Error::new(ErrorKind::NotSupported, text));
    }
    let bytes = schema.text().len();
    if bytes > ATTR_VALUE_MAX {
        // A property of the container stores it.
        let text = format!(
            "a schema of {bytes} bytes: that of a store has at most {ATTR_VALUE_MAX} (ATTR_VALUE_MAX); remove \
             comments or rules"
        );
        return Err(Error::new(ErrorKind::Overflow, text));
    }
    schema.refuse_loss()
}
