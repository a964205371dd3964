//! Algorithms 1 and 2: field write and field read.
use super::keys::Key;
use super::session::{Forecast, Session, Store, missing_key_error};
use super::{Event, Field, Mode};
use crate::errors::ensure_intact;
use esker::types::ops::{Cond, Sink, Source};
use esker::{Access, Array, Kv, Wait};
use esker_types::{Extent, ObjectId, Result, Uuid};
use std::rc::Rc;

/// Key under which a forecast's Key-Value keeps the id of the container with its fields: the "special
/// entry" of section IV-B.
const STORE_ENTRY: &[u8] = b"__store__";

/// Bytes of an index entry: the container and the id of an Array, and its length.
pub(crate) const ENTRY_BYTES: usize = 40;

impl Session {
    /// Writes a field under its key. An earlier field with this key stays in the store, but nothing refers to
    /// it any more.
    pub fn write(&mut self, field: Field, data: &[u8]) -> Result<()> {
        let (key, ranges) = (self.key(field), [Extent::new(0, data.len() as u64)]);
        if self.layout.mode == Mode::NoIndex {
            return self.write_named(key.array_bits(), &ranges, data);
        }
        let forecast = match self.look_up_forecast(&key)? {
            Some(uuid) => self.forecast(&key, uuid)?,
            None => self.create_forecast(&key)?,
        };
        let oid = self.new_oid(&forecast.store)?;
        self.transfer(&forecast.store, oid, |array| write(array, &ranges, data))?;
        let entry = entry(forecast.store.uuid, oid, data.len() as u64);
        let least = key.least_significant.as_bytes();
        forecast.index.put(least, &entry, Cond::NONE, Access::Latest).wait()
    }

    /// Writes `data` to `ranges` of an Array in the main container. `bits` are the user's bits of its object id.
    pub(super) fn write_named(
        &mut self,
        bits: ObjectId,
        ranges: &[Extent],
        data: &[u8],
    ) -> Result<()> {
        let main = Rc::clone(self.main());
        let oid = self.array_oid(&main.container, bits)?;
        self.transfer(&main, oid, |array| write(array, ranges, data))
    }

    /// Opens an Array, transfers data, and closes it. Records the times of these events.
    fn transfer<T>(
        &mut self,
        store: &Store,
        oid: ObjectId,
        transfer: impl FnOnce(&Array) -> Result<T>,
    ) -> Result<T> {
        self.stamper.mark(Event::OpenStart);
        let array = self.array(&store.container, oid)?;
        self.stamper.mark(Event::OpenEnd);
        self.stamper.mark(Event::TransferStart);
        let done = transfer(&array)?;
        self.stamper.mark(Event::TransferEnd);
        self.stamper.mark(Event::CloseStart);
        drop(array);
        self.stamper.mark(Event::CloseEnd);
        Ok(done)
    }

    /// The index of a forecast and the container with its fields, to which the main index refers by `uuid`. Only mode
    /// [`Mode::Full`] has such containers; in other modes, both are in the main container. They are opened at the first
    /// call, and stay open.
    pub(super) fn forecast(&mut self, key: &Key, uuid: Uuid) -> Result<Rc<Forecast>> {
        if let Some(forecast) = self.forecasts.get(&uuid) {
            return Ok(Rc::clone(forecast));
        }
        let forecast = match self.layout.mode {
            Mode::Full => {
                let index = self.index_in(&self.open_container(uuid)?, key)?;
                let mut store = [0; 16];
                index.get_into(STORE_ENTRY, &mut store, Access::Latest).wait()?;
                Forecast { index, store: self.store(Uuid(store))? }
            }
            _ => {
                let index = self.index_in(&self.main().container, key)?;
                Forecast { index, store: Rc::clone(self.main()) }
            }
        };
        let forecast = Rc::new(forecast);
        self.forecasts.insert(uuid, Rc::clone(&forecast));
        Ok(forecast)
    }

    /// Creates a forecast: "create forecast index and store containers, register forecast index container in main
    /// Key-Value" of Algorithm 1. Writers that run this at the same time create the same containers and write the same
    /// entries.
    fn create_forecast(&mut self, key: &Key) -> Result<Rc<Forecast>> {
        let index_uuid = key.index_container();
        if self.layout.mode == Mode::Full {
            let store_uuid = key.store_container();
            self.create_container(index_uuid)?;
            self.create_container(store_uuid)?;
            let index = self.index_in(&self.open_container(index_uuid)?, key)?;
            index.put(STORE_ENTRY, &store_uuid.0, Cond::NONE, Access::Latest).wait()?;
        }
        let most = key.most_significant.as_bytes();
        self.main_kv().put(most, &index_uuid.0, Cond::NONE, Access::Latest).wait()?;
        self.forecast(key, index_uuid)
    }

    /// Reads a field, which fills `buffer`.
    pub fn read(&mut self, field: Field, buffer: &mut [u8]) -> Result<()> {
        let (key, ranges) = (self.key(field), [Extent::new(0, buffer.len() as u64)]);
        let short = match self.layout.mode {
            Mode::NoIndex => self.read_named(key.array_bits(), &ranges, buffer)?,
            _ => {
                let (store, oid) = self.find(&key, buffer.len() as u64)?;
                self.transfer(&store, oid, |array| read(array, &ranges, buffer))?
            }
        };
        if short > 0 { Err(missing_key_error(&key, "data")) } else { Ok(()) }
    }

    /// Reads ranges of an Array of the main container, whose id has these user bits. Returns the bytes that are
    /// missing at its end.
    pub(super) fn read_named(
        &mut self,
        bits: ObjectId,
        ranges: &[Extent],
        buffer: &mut [u8],
    ) -> Result<u64> {
        let main = Rc::clone(self.main());
        let oid = self.array_oid(&main.container, bits)?;
        self.transfer(&main, oid, |array| read(array, ranges, buffer))
    }

    /// Finds the Array of a field by Algorithm 2: "query most significant part of field key from Key-Value; if not
    /// found then fail", and so on. Returns its container and id. Fails unless the field has `bytes` bytes.
    fn find(&mut self, key: &Key, bytes: u64) -> Result<(Rc<Store>, ObjectId)> {
        let forecast =
            self.look_up_forecast(key)?.ok_or_else(|| missing_key_error(key, "forecast"))?;
        let forecast = self.forecast(key, forecast)?;
        let (store, oid, len) = look_up(&forecast.index, key)?;
        ensure_intact(len == bytes, || {
            format!("a field has {len} bytes where {bytes} were written")
        })?;
        Ok((self.store(store)?, oid))
    }
}

/// The step "write field data into new Array" of Algorithm 1. `ranges` are in bytes.
fn write(array: &Array, ranges: &[Extent], data: &[u8]) -> Result<()> {
    array.write(ranges, Source::One(data), Access::Latest).wait()
}

/// The step "read field data from Array" of Algorithm 2. Returns the number of bytes that are missing at the end.
fn read(array: &Array, ranges: &[Extent], buffer: &mut [u8]) -> Result<u64> {
    Ok(array.read(ranges, Sink::One(buffer), Access::Latest).wait()?.short_bytes)
}

/// Value of an index entry: the container, object and length of a field.
fn entry(store: Uuid, oid: ObjectId, bytes: u64) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..16].copy_from_slice(&store.0);
    entry[16..32].copy_from_slice(&oid.to_bytes());
    entry[32..].copy_from_slice(&bytes.to_le_bytes());
    entry
}

/// Finds the Array of a field in the index. Returns its container, its object id and its length in bytes.
fn look_up(index: &Kv, key: &Key) -> Result<(Uuid, ObjectId, u64)> {
    let mut entry = [0; ENTRY_BYTES];
    let least = key.least_significant.as_bytes();
    let found = index.get_into(least, &mut entry, Access::Latest).wait()?;
    found.ok_or_else(|| missing_key_error(key, "entry in the forecast's index"))?;
    let (store, rest) = entry.split_at(16);
    let (oid, len) = rest.split_at(16);
    Ok((
        Uuid(store.try_into().unwrap_or_default()),
        ObjectId::from_bytes(oid.try_into().unwrap_or_default()),
        u64::from_le_bytes(len.try_into().unwrap_or_default()),
    ))
}
