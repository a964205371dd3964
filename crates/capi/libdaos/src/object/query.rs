//! Asking for the ends of orders, for epochs, for places.
use crate::abi::{Event, Handle, Iov, ObjId, Ptr, RankList, Recx};
use crate::code::{Code, Result};
use crate::{convert, edge, handles};
use esker::types::KeyKind;
use esker::types::ops::{Edge, KeyFound, KeyQuery};
use esker::{Access, Object};
use std::ffi::{c_int, c_void};

/// `DAOS_GET_*`.
const MAX: u64 = 0x1;
const MIN: u64 = 0x2;
const DKEY: u64 = 0x4;
const AKEY: u64 = 0x8;
const RECX: u64 = 0x10;

/// The arguments of a query.
#[derive(Clone, Copy)]
struct Query {
    flags: u64,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    recx: Ptr<Recx>,
}

/// Finds the largest or smallest dkey, akey or range.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_query_key(
    oh: Handle,
    th: Handle,
    flags: u64,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    recx: Ptr<Recx>,
    ev: Ptr<Event>,
) -> c_int {
    let query = Query { flags, dkey, akey, recx };
    edge::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move { query.run(&object, via.access()).await })
    })
}

impl Query {
    fn asks(&self, what: u64) -> bool {
        self.flags & what != 0
    }

    async fn run(self, object: &Object, access: Access<'_>) -> Result<()> {
        let edge = self.check(object)?;
        let wants_below = self.asks(AKEY | RECX);
        let query = KeyQuery {
            edge,
            dkey: if self.asks(DKEY) { None } else { Some(convert::key(self.dkey)?) },
            after: None,
            akey: match self.asks(AKEY) || !wants_below {
                true => None,
                false => Some(convert::key(self.akey)?),
            },
            want_akey: self.asks(AKEY),
            want_extent: self.asks(RECX),
        };
        match object.query_key(query, access).await? {
            Some(found) => self.tell(&found),
            None => Ok(()),
        }
    }

    fn check(&self, object: &Object) -> Result<Edge> {
        let edge = match self.flags & (MAX | MIN) {
            MAX => Edge::Max,
            MIN => Edge::Min,
            _ => return Err(Code::INVAL),
        };
        let oid = object.oid();
        let is_integer = |kind| kind == KeyKind::Integer;
        let sound = self.asks(DKEY | AKEY | RECX)
            && (!self.asks(DKEY) || is_integer(oid.dkey_kind()) && has_room(self.dkey))
            && (!self.asks(AKEY) || is_integer(oid.akey_kind()) && has_room(self.akey))
            && !(self.asks(RECX) && self.recx.is_null());
        if sound { Ok(edge) } else { Err(Code::INVAL) }
    }

    fn tell(&self, found: &KeyFound) -> Result<()> {
        if self.asks(DKEY) {
            put_key(self.dkey, &found.dkey)?;
        }
        if self.asks(AKEY) {
            put_key(self.akey, &found.akey)?;
        }
        if let (true, Some(extent)) = (self.asks(RECX), found.extent) {
            self.recx.set(extent.into());
        }
        Ok(())
    }
}

/// Keys that are asked for are integers.
fn has_room(key: Ptr<Iov>) -> bool {
    key.get().is_ok_and(|iov| !iov.buf.is_null() && iov.buf_len >= 8)
}

fn put_key(at: Ptr<Iov>, key: &[u8]) -> Result<()> {
    let mut iov = at.get()?;
    iov.buf.write(key.len() as u64)?.copy_from_slice(key);
    iov.len = key.len();
    at.set(iov);
    Ok(())
}

/// The epoch of the latest change.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_query_max_epoch(
    oh: Handle,
    th: Handle,
    epoch: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            epoch.needed()?.set(object.epoch(via.access()).await?.0);
            Ok(())
        })
    })
}

/// Compares the copies of an object. There is one of each, so they agree.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_verify(coh: Handle, _oid: ObjId, _epoch: u64) -> c_int {
    edge::now(|| handles::container(coh).map(drop))
}

/// Not offered.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_query(
    _oh: Handle,
    _oa: Ptr<c_void>,
    _ranks: Ptr<RankList>,
    ev: Ptr<Event>,
) -> c_int {
    edge::not_offered(ev)
}
