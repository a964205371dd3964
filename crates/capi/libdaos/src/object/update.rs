//! Writing values below a dkey, and removing them.
use crate::abi::{Event, Handle, IOD_ARRAY, IOD_SINGLE, Iod, Iov, Ptr, Sgl};
use crate::code::{Code, Result};
use crate::convert::{self, Data, Extents};
use crate::{edge, handles};
use esker::types::limits::AKEYS_PER_OP_MAX;
use esker::types::ops::{Cond, Update, Value};
use esker::{Access, Object};
use std::ffi::c_int;

/// Conditions on an akey that is written.
const AKEY_CONDITIONS: Cond = Cond::AKEY_INSERT.union(Cond::AKEY_UPDATE);

/// Refuses counts of akeys that no operation has.
pub(super) fn check_count(nr: u32) -> Result<usize> {
    match nr as usize {
        count @ 1..=AKEYS_PER_OP_MAX => Ok(count),
        _ => Err(Code::INVAL),
    }
}

/// The conditions on one akey.
pub(super) fn akey_cond(flags: u64, iod: &Iod, known: Cond) -> Cond {
    let per_akey = flags & Cond::PER_AKEY.bits() != 0;
    convert::cond(if per_akey { iod.flags } else { flags }, known)
}

/// The ranges of one akey; a single value has none.
pub(super) fn extents(iod: &Iod) -> Result<Extents> {
    match (iod.kind, iod.nr) {
        (IOD_SINGLE, 1) => Ok(Extents::Many(Vec::new())),
        (IOD_ARRAY, 1..) if !iod.recxs.is_null() => {
            Extents::new(iod.recxs, u64::from(iod.nr)).map_err(|_| Code::INVAL)
        }
        _ => Err(Code::INVAL),
    }
}

/// One akey of an update, its arguments read and checked.
struct Part<'a> {
    iod: Iod,
    akey: &'a [u8],
    extents: Extents,
    data: Data<'a>,
}

impl<'a> Part<'a> {
    fn new(iods: Ptr<Iod>, sgls: Ptr<Sgl>, index: usize) -> Result<Self> {
        let iod = iods.needed()?.at(index).get()?;
        let akey = convert::key_in(&iod.name)?;
        let extents = extents(&iod)?;
        let len = match iod.kind {
            IOD_ARRAY => extents.bytes(iod.size)?,
            _ => iod.size,
        };
        let sgl = if sgls.is_null() { sgls } else { sgls.at(index) };
        if iod.kind == IOD_ARRAY && !sgl.is_null() && !extents.are_apart() {
            return Err(Code::INVAL);
        }
        Ok(Self { iod, akey, extents, data: Data::first(sgl, len)? })
    }

    fn update(&self, flags: u64) -> Update<'_> {
        let value = match (self.iod.kind, self.iod.size) {
            (IOD_SINGLE, _) => Value::Single(self.data.source()),
            (_, 0) => Value::PunchExtents(self.extents.as_slice()),
            (_, record_size) => Value::Array {
                record_size,
                extents: self.extents.as_slice(),
                data: self.data.source(),
            },
        };
        Update { akey: self.akey, value, cond: akey_cond(flags, &self.iod, AKEY_CONDITIONS) }
    }
}

/// Writes values below a dkey, all or none.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_update(
    oh: Handle,
    th: Handle,
    flags: u64,
    dkey: Ptr<Iov>,
    nr: u32,
    iods: Ptr<Iod>,
    sgls: Ptr<Sgl>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            let dkey = convert::key(dkey)?;
            update(&object, flags, dkey, check_count(nr)?, iods, sgls, via.access()).await
        })
    })
}

async fn update(
    object: &Object,
    flags: u64,
    dkey: &[u8],
    count: usize,
    iods: Ptr<Iod>,
    sgls: Ptr<Sgl>,
    access: Access<'_>,
) -> Result<()> {
    let cond = convert::cond(flags, Cond::DKEY_INSERT.union(Cond::DKEY_UPDATE));
    if count == 1 {
        let part = Part::new(iods, sgls, 0)?;
        return Ok(object.update(dkey, cond, &[part.update(flags)], access).await?);
    }
    let parts = (0..count).map(|index| Part::new(iods, sgls, index));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let updates: Vec<_> = parts.iter().map(|part| part.update(flags)).collect();
    Ok(object.update(dkey, cond, &updates, access).await?)
}

/// Removes everything in an object.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_punch(oh: Handle, th: Handle, flags: u64, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move { Ok(object.punch(convert::cond(flags, Cond::PUNCH), via.access()).await?) })
    })
}

/// Removes a dkey and all below it.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_punch_dkeys(
    oh: Handle,
    th: Handle,
    flags: u64,
    nr: u32,
    dkeys: Ptr<Iov>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            if nr != 1 {
                return Err(Code::INVAL);
            }
            let cond = convert::cond(flags, Cond::PUNCH);
            Ok(object.punch_dkey(convert::key(dkeys)?, cond, via.access()).await?)
        })
    })
}

/// Removes akeys of a dkey.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_punch_akeys(
    oh: Handle,
    th: Handle,
    flags: u64,
    dkey: Ptr<Iov>,
    nr: u32,
    akeys: Ptr<Iov>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            let dkey = convert::key(dkey)?;
            let akeys = akeys.list(check_count(nr)?)?;
            let akeys = akeys.iter().map(convert::key_in).collect::<Result<Vec<_>>>()?;
            let cond = convert::cond(flags, Cond::PUNCH);
            Ok(object.punch_akeys(dkey, &akeys, cond, via.access()).await?)
        })
    })
}
