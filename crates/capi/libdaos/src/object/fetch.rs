//! Reading values below a dkey.
use super::found;
use super::update::{akey_cond, check_count, extents};
use crate::abi::{Event, Handle, IOD_ARRAY, Iod, Iom, Iov, Ptr, Sgl};
use crate::code::{Code, Result};
use crate::convert::{self, Extents};
use crate::{edge, handles};
use esker::types::ops::{Cond, Fetch, Sink};
use esker::{Access, Object};
use std::ffi::c_int;

/// Reads values below a dkey.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_fetch(
    oh: Handle,
    th: Handle,
    flags: u64,
    dkey: Ptr<Iov>,
    nr: u32,
    iods: Ptr<Iod>,
    sgls: Ptr<Sgl>,
    ioms: Ptr<Iom>,
    ev: Ptr<Event>,
) -> c_int {
    let wanted = Wanted { flags, iods, sgls, ioms };
    edge::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            wanted.read(&object, convert::key(dkey)?, check_count(nr)?, via.access()).await
        })
    })
}

/// The arguments of a fetch that come in lists.
#[derive(Clone, Copy)]
struct Wanted {
    flags: u64,
    iods: Ptr<Iod>,
    sgls: Ptr<Sgl>,
    ioms: Ptr<Iom>,
}

/// One akey of a fetch, its arguments read and checked.
struct Part {
    iod: Iod,
    extents: Extents,
}

impl Part {
    /// Whether the ranges go together, and the size that the caller believes in fits the room. What is
    /// stored counts: a size that is not its own is told.
    fn check(&self, room: u64) -> Result<()> {
        let size = match self.iod.kind {
            IOD_ARRAY if !self.extents.are_apart() => return Err(Code::INVAL),
            IOD_ARRAY => self.extents.bytes(self.iod.size)?,
            _ => self.iod.size,
        };
        if size > room { Err(Code::REC2BIG) } else { Ok(()) }
    }
}

impl Wanted {
    async fn read(
        self,
        object: &Object,
        dkey: &[u8],
        count: usize,
        access: Access<'_>,
    ) -> Result<()> {
        let cond = convert::cond(self.flags, Cond::DKEY_FETCH);
        if count == 1 {
            let part = self.part(0)?;
            let mut fetch = [self.fetch(&part, 0)?];
            let result = object.fetch(dkey, cond, &mut fetch, access).await;
            self.answer(0, &part, &fetch[0])?;
            return Ok(result?);
        }
        let parts = (0..count).map(|index| self.part(index)).collect::<Result<Vec<_>>>()?;
        let fetches = parts.iter().enumerate().map(|(index, part)| self.fetch(part, index));
        let mut fetches = fetches.collect::<Result<Vec<_>>>()?;
        let result = object.fetch(dkey, cond, &mut fetches, access).await;
        for (index, (part, fetch)) in parts.iter().zip(&fetches).enumerate() {
            self.answer(index, part, fetch)?;
        }
        Ok(result?)
    }

    fn part(&self, index: usize) -> Result<Part> {
        let iod = self.iods.needed()?.at(index).get()?;
        let part = Part { iod, extents: extents(&iod)? };
        match self.has_buffers(index)? {
            true => part.check(convert::room_in(self.sgls.at(index))?).map(|()| part),
            false => Ok(part),
        }
    }

    /// A list without buffers asks for the size only.
    fn has_buffers(&self, index: usize) -> Result<bool> {
        Ok(!self.sgls.is_null() && self.sgls.at(index).get()?.nr > 0)
    }

    fn fetch<'a>(&self, part: &'a Part, index: usize) -> Result<Fetch<'a>> {
        let sink = self.sink(index)?;
        let akey = convert::key_in(&part.iod.name)?;
        let mut fetch = match part.iod.kind {
            IOD_ARRAY => Fetch::array(akey, 0, part.extents.as_slice(), sink),
            _ => Fetch::single(akey, sink),
        };
        fetch.request.want_filled = !self.ioms.is_null();
        fetch.request.cond = akey_cond(self.flags, &part.iod, Cond::AKEY_FETCH);
        Ok(fetch)
    }

    fn sink<'a>(&self, index: usize) -> Result<Sink<'a>> {
        match self.has_buffers(index)? {
            true => convert::room(self.sgls.at(index), |iov| iov.buf_len),
            false => Ok(Sink::None),
        }
    }

    /// Sizes are told of failures too: they say how large a buffer must be.
    fn answer(&self, index: usize, part: &Part, fetch: &Fetch<'_>) -> Result<()> {
        let iod = Iod { size: fetch.reply.size, ..part.iod };
        self.iods.at(index).set(iod);
        if !self.sgls.is_null() {
            convert::set_filled(self.sgls.at(index), fetch.reply.filled_bytes)?;
        }
        match self.ioms.is_null() {
            true => Ok(()),
            false => found::tell(self.ioms.at(index), &iod, &fetch.reply.filled),
        }
    }
}
