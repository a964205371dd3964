//! Anchors made without listing.
use super::{Level, anchor};
use crate::abi::{self, Event, Handle, Iov, Ptr};
use crate::code::{Code, Result};
use crate::handles::{self, Entry};
use crate::{convert, edge, object};
use esker::types::ops::{Anchor, ListLimit};
use esker::{Access, Object};
use std::ffi::c_int;

/// Keys looked at in one step.
const STEP: usize = 1024;

/// Counts the parts of a listing: always one.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_anchor_split(
    oh: Handle,
    nr: Ptr<u32>,
    anchors: Ptr<abi::Anchor>,
) -> c_int {
    edge::now(|| {
        let entry = handles::entry(oh)?;
        let (_, parked) = object::listed(&entry)?;
        if nr.get()? > 0 {
            anchor::write(anchors.needed()?, Anchor::Start, parked);
        }
        nr.set(1);
        Ok(())
    })
}

/// The beginning of a part of a listing.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_anchor_set(oh: Handle, index: u32, anchor: Ptr<abi::Anchor>) -> c_int {
    edge::now(|| {
        let entry = handles::entry(oh)?;
        let (_, parked) = object::listed(&entry)?;
        anchor.needed()?;
        if index > 0 {
            return Err(Code::INVAL);
        }
        anchor::write(anchor, Anchor::Start, parked);
        Ok(())
    })
}

/// An anchor from which a listing goes on at a key.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_key2anchor(
    oh: Handle,
    th: Handle,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    anchor: Ptr<abi::Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let (entry, via) = (handles::entry(oh)?, handles::via(th)?);
        Ok(async move { set_at_key(&entry, via.access(), dkey, akey, anchor).await })
    })
}

async fn set_at_key(
    entry: &Entry,
    access: Access<'_>,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    anchor: Ptr<abi::Anchor>,
) -> Result<()> {
    let (object, parked) = object::listed(entry)?;
    let (dkey, anchor) = (convert::key(dkey)?, anchor.needed()?);
    let at = match akey.is_null() {
        true => find(object, Level::Dkeys, dkey, access).await?,
        false => find(object, Level::Akeys(dkey), convert::key(akey)?, access).await?,
    };
    anchor::write(anchor, at, parked);
    Ok(())
}

/// The position before `key`: that of the page it is on, moved on by the keys before it.
pub(crate) async fn find(
    object: &Object,
    level: Level<'_>,
    key: &[u8],
    access: Access<'_>,
) -> Result<Anchor> {
    let mut at = Anchor::Start;
    while !at.is_end() {
        let mut page = at.clone();
        let keys = level.list(object, &mut at, ListLimit::entries(STEP), access).await?;
        let before = keys.iter().position(|found| found == key);
        match before {
            None => {}
            Some(0) => return Ok(page),
            Some(before) => {
                level.list(object, &mut page, ListLimit::entries(before), access).await?;
                return Ok(page);
            }
        }
    }
    Err(Code::NONEXIST)
}
