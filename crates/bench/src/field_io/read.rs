//! Algorithm 2: field read.
use super::keys::Key;
use super::session::{Session, Store, missing_key_error};
use super::write::ENTRY_BYTES;
use super::{Event, Field, Mode, Stamper};
use esker::types::ops::Sink;
use esker::{Access, Kv, Wait};
use esker_types::{Error, ErrorKind, Extent, ObjectId, Result, Uuid};
use std::rc::Rc;

impl Session {
    /// Reads a field, which fills `buffer`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it does not exist, [`ErrorKind::Corrupt`] if it has another length; errors of the
    /// store.
    pub fn read(&mut self, field: Field, buffer: &mut [u8], stamper: &mut Stamper) -> Result<()> {
        stamper.mark(Event::IoStart);
        let key = self.key(field);
        let (store, oid) = match self.layout.mode {
            Mode::NoIndex => {
                let store = Rc::clone(self.main());
                let oid = self.array_oid(&store.container, key.array_bits())?;
                (store, oid)
            }
            _ => self.find(&key, buffer.len() as u64)?,
        };
        let extent = [Extent::new(0, buffer.len() as u64)];
        if self.read_ranges(&store, oid, &extent, buffer, stamper)? > 0 {
            return Err(missing_key_error(&key, "data"));
        }
        stamper.mark(Event::IoEnd);
        Ok(())
    }

    /// "query most significant part of field key from Key-Value; if not found then fail", and so on down
    /// to the Array.
    fn find(&mut self, key: &Key, bytes: u64) -> Result<(Rc<Store>, ObjectId)> {
        let forecast =
            self.look_up_forecast(key)?.ok_or_else(|| missing_key_error(key, "forecast"))?;
        let forecast = self.forecast(key, forecast)?;
        let (store, oid, len) = look_up(&forecast.index, key)?;
        if len != bytes {
            let message = format!("a field has {len} bytes where {bytes} were written");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok((self.store(store)?, oid))
    }

    /// "read field data from Array"; the bytes that are missing at its end.
    pub(super) fn read_ranges(
        &self,
        store: &Store,
        oid: ObjectId,
        ranges: &[Extent],
        buffer: &mut [u8],
        stamper: &mut Stamper,
    ) -> Result<u64> {
        stamper.mark(Event::OpenStart);
        let array = self.array(&store.container, oid)?;
        stamper.mark(Event::OpenEnd);
        stamper.mark(Event::TransferStart);
        let read = array.read(ranges, Sink::One(buffer), Access::Latest).wait()?;
        stamper.mark(Event::TransferEnd);
        stamper.mark(Event::CloseStart);
        drop(array);
        stamper.mark(Event::CloseEnd);
        Ok(read.short_bytes)
    }
}

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
