//! Algorithm 1: field write.
use super::keys::Key;
use super::session::{Forecast, Session, Store};
use super::{Event, Field, Mode, Stamper};
use esker::types::ops::{Cond, Source};
use esker::{Access, Wait};
use esker_types::{Extent, ObjectId, Result, Uuid};
use std::rc::Rc;

/// Key under which a forecast's Key-Value keeps the id of the container with its fields: the "special
/// entry" of section IV-B.
pub(super) const STORE_ENTRY: &[u8] = b"__store__";

/// Bytes of an index entry: the container and the id of an Array, and its length.
pub(super) const ENTRY_BYTES: usize = 40;

impl Session {
    /// Writes a field under its key. An earlier field with this key stays in the store, but nothing refers to
    /// it any more.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn write(&mut self, field: Field, data: &[u8], stamper: &mut Stamper) -> Result<()> {
        stamper.mark(Event::IoStart);
        let key = self.key(field);
        if self.layout.mode == Mode::NoIndex {
            let store = Rc::clone(self.main());
            let oid = self.array_oid(&store.container, key.array_bits())?;
            self.write_array(&store, oid, data, stamper)?;
        } else {
            self.write_indexed(&key, data, stamper)?;
        }
        stamper.mark(Event::IoEnd);
        Ok(())
    }

    fn write_indexed(&mut self, key: &Key, data: &[u8], stamper: &mut Stamper) -> Result<()> {
        let forecast = match self.look_up_forecast(key)? {
            Some(uuid) => self.forecast(key, uuid)?,
            None => self.create_forecast(key)?,
        };
        let oid = self.new_oid(&forecast.store)?;
        self.write_array(&forecast.store, oid, data, stamper)?;
        let entry = entry(forecast.store.uuid, oid, data.len() as u64);
        let least = key.least_significant.as_bytes();
        forecast.index.put(least, &entry, Cond::NONE, Access::Latest).wait()
    }

    /// "write field data into new Array"
    fn write_array(
        &self,
        store: &Store,
        oid: ObjectId,
        data: &[u8],
        stamper: &mut Stamper,
    ) -> Result<()> {
        self.write_ranges(store, oid, &[Extent::new(0, data.len() as u64)], data, stamper)
    }

    pub(super) fn write_ranges(
        &self,
        store: &Store,
        oid: ObjectId,
        ranges: &[Extent],
        data: &[u8],
        stamper: &mut Stamper,
    ) -> Result<()> {
        stamper.mark(Event::OpenStart);
        let array = self.array(&store.container, oid)?;
        stamper.mark(Event::OpenEnd);
        stamper.mark(Event::TransferStart);
        array.write(ranges, Source::One(data), Access::Latest).wait()?;
        stamper.mark(Event::TransferEnd);
        stamper.mark(Event::CloseStart);
        drop(array);
        stamper.mark(Event::CloseEnd);
        Ok(())
    }

    /// Opens the containers that the main index refers to; once, then they stay open.
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

    /// "create forecast index and store containers, register forecast index container in main
    /// Key-Value". Writers that run this at the same time create the same containers and write the same entries.
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
}

fn entry(store: Uuid, oid: ObjectId, bytes: u64) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..16].copy_from_slice(&store.0);
    entry[16..32].copy_from_slice(&oid.to_bytes());
    entry[32..].copy_from_slice(&bytes.to_le_bytes());
    entry
}
