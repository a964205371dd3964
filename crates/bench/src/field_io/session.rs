//! Handles that a process keeps open: "Pool and container connections in a process are cached once
//! initialised" (section V-B).
use super::keys::Key;
use super::{Contention, Field, Mode, Stamper, keys};
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use esker::{Access, Array, ArrayAttributes, Container, Kv, Pool, Wait};
use esker_cli::class_of;
use esker_types::{Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result, Uuid};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::rc::Rc;

/// Object ids per allocation.
const OID_BATCH: u64 = 1024;

/// The pool, container and options of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// Pool by name, UUID or URL.
    pub pool: String,
    /// Label of the main container, which is also the name of the experiment in keys.
    pub container: String,
    /// The mode.
    pub mode: Mode,
    /// Contention on forecast indexes.
    pub contention: Contention,
    /// Class of Key-Values.
    pub class_kv: String,
    /// Class of Arrays.
    pub class_array: String,
}

/// The index and the store container of a forecast.
pub(super) struct Forecast {
    pub(super) index: Kv,
    pub(super) store: Rc<Store>,
}

/// A container with fields.
pub(super) struct Store {
    pub(super) container: Container,
    pub(super) uuid: Uuid,
}

/// The pool and containers of one process.
pub struct Session {
    pub(super) layout: Layout,
    pool: Pool,
    main: Rc<Store>,
    main_kv: Kv,
    class_kv: ObjectClass,
    class_array: ObjectClass,
    attributes: ArrayAttributes,
    pub(super) forecasts: HashMap<Uuid, Rc<Forecast>>,
    stores: HashMap<Uuid, Rc<Store>>,
    /// Times of the events of an operation.
    pub(super) stamper: Stamper,
    free_oids: HashMap<Uuid, std::ops::Range<u64>>,
}

impl Session {
    /// True if a read sees either all or nothing of a write to an Array.
    pub fn is_atomic(&self) -> bool {
        self.pool.capabilities().atomic_arrays
    }

    /// Connects to the pool and opens the main container. Arrays of the session have chunks of `chunk_bytes`.
    pub fn open(layout: Layout, chunk_bytes: u64) -> Result<Self> {
        let pool = Pool::connect(&layout.pool, OpenMode::ReadWrite)?;
        Self::within(pool, layout, chunk_bytes)
    }

    /// Opens the session of a process in a pool that is already open.
    pub fn within(pool: Pool, layout: Layout, chunk_bytes: u64) -> Result<Self> {
        let container = pool.open_container(&layout.container, OpenMode::ReadWrite).wait()?;
        let uuid = container.info().uuid;
        let (class_kv, class_array) = (class_of(&layout.class_kv)?, class_of(&layout.class_array)?);
        let main_kv = kv_in(&container, keys::main_bits(), class_kv)?;
        Ok(Self {
            layout,
            pool,
            main: Rc::new(Store { container, uuid }),
            main_kv,
            class_kv,
            class_array,
            attributes: ArrayAttributes { cell_size: 1, chunk_size: chunk_bytes.max(1) },
            forecasts: HashMap::new(),
            stores: HashMap::new(),
            stamper: Stamper::new(0),
            free_oids: HashMap::new(),
        })
    }

    pub(super) fn key(&self, field: Field) -> Key {
        Key::for_field(&self.layout.container, self.layout.contention, field)
    }

    pub(super) fn main(&self) -> &Rc<Store> {
        &self.main
    }

    /// The value of the main Key-Value under the most significant part of a key: the forecast's index
    /// container (or, without containers, the sum that names the index).
    pub(super) fn look_up_forecast(&self, key: &Key) -> Result<Option<Uuid>> {
        let mut value = [0; 16];
        let key = key.most_significant.as_bytes();
        let found = self.main_kv.get_into(key, &mut value, Access::Latest).wait()?;
        Ok(found.map(|_| Uuid(value)))
    }

    pub(super) fn main_kv(&self) -> &Kv {
        &self.main_kv
    }

    /// The Key-Value in `container` that is the index of the forecast of `key`.
    pub(super) fn index_in(&self, container: &Container, key: &Key) -> Result<Kv> {
        kv_in(container, key.index_bits(), self.class_kv)
    }

    /// Returns a container with fields, which the session keeps open.
    pub(super) fn store(&mut self, uuid: Uuid) -> Result<Rc<Store>> {
        if uuid == self.main.uuid {
            return Ok(Rc::clone(&self.main));
        }
        if let Some(store) = self.stores.get(&uuid) {
            return Ok(Rc::clone(store));
        }
        let store = Rc::new(Store { container: self.open_container(uuid)?, uuid });
        self.stores.insert(uuid, Rc::clone(&store));
        Ok(store)
    }

    pub(super) fn open_container(&self, uuid: Uuid) -> Result<Container> {
        self.pool.open_container(&uuid.to_string(), OpenMode::ReadWrite).wait()
    }

    /// Creates a container unless it exists.
    pub(super) fn create_container(&self, uuid: Uuid) -> Result<()> {
        let new = NewContainer::nameless().with_uuid(uuid);
        match self.pool.create_container(&new).wait() {
            Err(error) if error.kind() != ErrorKind::Exists => Err(error),
            _ => Ok(()),
        }
    }

    /// An unused object id of the container.
    pub(super) fn new_oid(&mut self, store: &Store) -> Result<ObjectId> {
        let free = self.free_oids.entry(store.uuid).or_default();
        if free.is_empty() {
            let first = store.container.allocate_oids(OID_BATCH).wait()?;
            *free = first..first + OID_BATCH;
        }
        let lo = free.next().unwrap_or_default();
        self.array_oid(&store.container, ObjectId { hi: 0, lo })
    }

    /// Object id of an Array of the session's class with these user bits.
    pub(super) fn array_oid(&self, container: &Container, bits: ObjectId) -> Result<ObjectId> {
        let class = Some(self.class_array);
        container.generate_oid(bits.hi, bits.lo, ObjectType::ArrayByte, class, 0)
    }

    pub(super) fn array(&self, container: &Container, oid: ObjectId) -> Result<Array> {
        container.open_array_with_attributes(oid, self.attributes)
    }
}

/// The Key-Value of this class with these user bits in its id.
fn kv_in(container: &Container, bits: ObjectId, class: ObjectClass) -> Result<Kv> {
    let otype = ObjectType::KvHashed;
    container.kv(container.generate_oid(bits.hi, bits.lo, otype, Some(class), 0)?)
}

/// Removes everything that processes `0..procs` created under a layout. Missing containers are skipped.
pub fn remove(pool: &Pool, layout: &Layout, procs: u32) -> Result<()> {
    let forecasts = match (layout.mode, layout.contention) {
        (Mode::Full, Contention::Low) => procs,
        (Mode::Full, Contention::High) => 1,
        _ => 0,
    };
    for process in 0..forecasts {
        let key = Key::for_field(&layout.container, layout.contention, Field { process, index: 0 });
        remove_container(pool, &key.index_container().to_string())?;
        remove_container(pool, &key.store_container().to_string())?;
    }
    remove_container(pool, &layout.container)
}

/// Removes a container, if there is one of this name.
fn remove_container(pool: &Pool, name: &str) -> Result<()> {
    match pool.destroy_container(name, true).wait() {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Error for a field of which `what`, such as an index entry, does not exist.
#[cold]
pub(super) fn missing_key_error(key: &Key, what: &str) -> Error {
    let Key { most_significant, least_significant } = key;
    let message = format!("there is no {what} for field {most_significant},{least_significant}");
    Error::new(ErrorKind::NotFound, message)
}
