//! Listings of dkeys, akeys and records (`daos_obj.h`).
mod anchor;
mod records;
mod split;

pub(crate) use anchor::{Parked, read as read_anchor, write as write_anchor};
pub use records::daos_obj_list_recx;
pub(crate) use split::find;
pub use split::{daos_obj_anchor_set, daos_obj_anchor_split, daos_obj_key2anchor};

use crate::abi::{self, Event, Handle, Iov, KeyDesc, Ptr, Sgl};
use crate::code::{Code, Result};
use crate::convert;
use crate::handles::{self, Entry};
use crate::{edge, object};
use esker::types::KeyBatch;
use esker::types::ops::{Anchor, ListLimit, Sink};
use esker::{Access, Object};
use std::ffi::c_int;

/// Where the keys of a listing go.
#[derive(Clone, Copy)]
struct Page {
    nr: Ptr<u32>,
    kds: Ptr<KeyDesc>,
    sgl: Ptr<Sgl>,
    anchor: Ptr<abi::Anchor>,
}

/// What a listing goes over.
#[derive(Clone, Copy)]
pub(crate) enum Level<'a> {
    Dkeys,
    Akeys(&'a [u8]),
}

impl Level<'_> {
    pub(crate) async fn list(
        self,
        object: &Object,
        at: &mut Anchor,
        limit: ListLimit,
        access: Access<'_>,
    ) -> Result<KeyBatch> {
        Ok(match self {
            Self::Dkeys => object.list_dkeys(at, limit, access).await?,
            Self::Akeys(dkey) => object.list_akeys(dkey, at, limit, access).await?,
        })
    }
}

/// Lists dkeys.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_list_dkey(
    oh: Handle,
    th: Handle,
    nr: Ptr<u32>,
    kds: Ptr<KeyDesc>,
    sgl: Ptr<Sgl>,
    anchor: Ptr<abi::Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    let page = Page { nr, kds, sgl, anchor };
    edge::drive(ev, || {
        let (entry, via) = (handles::entry(oh)?, handles::via(th)?);
        Ok(async move { page.fill(&entry, Level::Dkeys, via.access()).await })
    })
}

/// Lists the akeys of a dkey.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_list_akey(
    oh: Handle,
    th: Handle,
    dkey: Ptr<Iov>,
    nr: Ptr<u32>,
    kds: Ptr<KeyDesc>,
    sgl: Ptr<Sgl>,
    anchor: Ptr<abi::Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    let page = Page { nr, kds, sgl, anchor };
    edge::drive(ev, || {
        let (entry, via) = (handles::entry(oh)?, handles::via(th)?);
        Ok(async move { page.fill(&entry, Level::Akeys(convert::key(dkey)?), via.access()).await })
    })
}

impl Page {
    async fn fill(self, entry: &Entry, level: Level<'_>, access: Access<'_>) -> Result<()> {
        let (object, parked) = object::listed(entry)?;
        let mut at = anchor::read(self.anchor, parked)?;
        let entries = self.nr.get()? as usize;
        self.kds.needed()?;
        let mut room = convert::room(self.sgl, |iov| iov.buf_len)?;
        if entries == 0 {
            return Err(Code::INVAL);
        }
        let bytes = usize::try_from(room.len()).unwrap_or(usize::MAX);
        let limit = ListLimit { entries, bytes };
        let keys = level.list(object, &mut at, limit, access).await?;
        if keys.byte_len() > bytes {
            return Err(self.too_big(&keys));
        }
        self.put(&keys, &mut room)?;
        anchor::write(self.anchor, at, parked);
        Ok(())
    }

    /// Not even the first key fits.
    #[cold]
    fn too_big(&self, keys: &KeyBatch) -> Code {
        self.kds.set(KeyDesc { key_len: keys.byte_len() as u64, val_type: 0 });
        self.nr.set(0);
        Code::KEY2BIG
    }

    fn put(&self, keys: &KeyBatch, room: &mut Sink<'_>) -> Result<()> {
        let mut offset = 0;
        for (index, key) in keys.iter().enumerate() {
            let key_len = key.len() as u64;
            room.put(offset, key);
            self.kds.at(index).set(KeyDesc { key_len, val_type: 0 });
            offset += key_len;
        }
        self.nr.set(keys.len() as u32);
        convert::set_filled(self.sgl, offset)
    }
}
