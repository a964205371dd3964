//! Objects (`daos_obj.h`): ids, handles, updates, punches, fetches and queries. [`crate::list`] lists their keys.
use crate::abi::{
    Event, Handle, IOD_ARRAY, IOD_SINGLE, IOMF_DETAIL, Iod, Iom, Iov, ObjId, Ptr, RankList, Recx,
    Sgl,
};
use crate::code::{Code, Result};
use crate::convert::{Data, Extents};
use crate::handles::{Entry, Opened, kind};
use crate::list::StoredPositions;
use crate::strict::akeys::{Change, Content};
use crate::{boundary, conditions, convert, handles, memory, strict};
use esker::types::limits::AKEYS_PER_OP_MAX;
use esker::types::ops::{Cond, Edge, Fetch, FetchReply, KeyFound, KeyQuery, Sink, Update, Value};
use esker::types::{ErrorKind, Extent, KeyKind, ObjectClass, ObjectId, ObjectType};
use esker::{Access, Object};
use std::ffi::{c_int, c_void};

/// The object behind a handle that can be listed, and the positions of its listings.
pub(crate) fn listed(entry: &Entry) -> Result<(&Object, &StoredPositions)> {
    entry.object().zip(entry.positions()).ok_or(Code::NO_HDL)
}

/// Encodes type and class in an object id. A class of 0 leaves the choice to the container, which `hints` guide.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_generate_oid2(
    coh: Handle,
    oid: Ptr<ObjId>,
    otype: u32,
    cid: u32,
    hints: u16,
    _args: u32,
) -> c_int {
    boundary::now(|| {
        let code = u8::try_from(otype).map_err(|_| Code::INVAL)?;
        let otype = ObjectType::from_code(code).ok_or(Code::INVAL)?;
        let user = oid.get()?;
        let container = handles::container(coh)?;
        let class = (cid != 0).then(|| ObjectClass::from_code(cid));
        let made =
            container.container.generate_oid(user.hi, user.lo, otype, class, u32::from(hints))?;
        oid.set(made.into());
        Ok(())
    })
}

/// Older name of [`daos_obj_generate_oid2`].
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_generate_oid(
    coh: Handle,
    oid: Ptr<ObjId>,
    otype: u32,
    cid: u32,
    hints: u16,
    args: u32,
) -> c_int {
    daos_obj_generate_oid2(coh, oid, otype, cid, hints, args)
}

/// Opens an object. Its id must have a class, so it must have been generated.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_open(
    coh: Handle,
    oid: ObjId,
    mode: u32,
    oh: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::complete_now(ev, || {
        let container = handles::container(coh)?;
        oh.needed()?;
        if ObjectId::from(oid).class().code() == 0 {
            return Err(Code::INVAL);
        }
        strict::check_class(&container.container, oid.into())?;
        let object = container.container.object(oid.into());
        let object = if convert::is_read_only(mode) { object.read_only() } else { object };
        oh.set(handles::open(Entry::Object(Opened::new(object)))?);
        Ok(())
    })
}

/// Closes an object, Key-Value or array.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_close(oh: Handle, ev: Ptr<Event>) -> c_int {
    close(oh, &[kind::OBJECT, kind::KV, kind::ARRAY], ev)
}

/// Closes a handle of one of these types.
pub(crate) fn close(oh: Handle, kinds: &[u64], ev: Ptr<Event>) -> c_int {
    boundary::complete_now(ev, || handles::close(oh.cookie, kinds).map(drop))
}

/// Conditional flags of an akey in an update.
const AKEY_CONDITIONS: Cond = Cond::AKEY_INSERT.union(Cond::AKEY_UPDATE);

/// Checks the number of akeys of an operation.
fn check_count(nr: u32) -> Result<usize> {
    match nr as usize {
        count @ 1..=AKEYS_PER_OP_MAX => Ok(count),
        _ => Err(Code::INVAL),
    }
}

/// Returns the conditions of one akey among those in `known`. They come from the flags of its descriptor if the call
/// has the flag for conditions per akey, otherwise from the flags of the call.
fn akey_cond(flags: u64, iod: &Iod, known: Cond) -> Cond {
    let per_akey = flags & Cond::PER_AKEY.bits() != 0;
    convert::cond(if per_akey { iod.flags } else { flags }, known)
}

/// The ranges of one akey; a single value has none.
fn extents(iod: &Iod) -> Result<Extents> {
    match (iod.kind, iod.nr) {
        (IOD_SINGLE, 1) => Ok(Extents::Many(Vec::new())),
        (IOD_ARRAY, 1..) if !iod.recxs.is_null() => Extents::new(iod.recxs, u64::from(iod.nr)),
        _ => Err(Code::INVAL),
    }
}

/// One akey of an update, with validated arguments.
struct UpdatePart<'a> {
    iod: Iod,
    akey: &'a [u8],
    extents: Extents,
    data: Data<'a>,
}

impl<'a> UpdatePart<'a> {
    /// Reads part `index` of an update: an akey and where its data is.
    fn new(iods: Ptr<Iod>, sgls: Ptr<Sgl>, index: usize) -> Result<Self> {
        let iod = iods.needed()?.at(index).get()?;
        let akey = convert::key_in(&iod.name)?;
        let extents = extents(&iod)?;
        let len = match iod.kind {
            IOD_ARRAY => extents.bytes(iod.size)?,
            _ => iod.size,
        };
        let sgl = if sgls.is_null() { sgls } else { sgls.at(index) };
        // Ranges to punch have no buffers and may overlap.
        if iod.kind == IOD_ARRAY && !sgl.is_null() && !extents.are_apart() {
            return Err(Code::INVAL);
        }
        Ok(Self { iod, akey, extents, data: Data::first(sgl, len)? })
    }

    /// Returns the update in the form that the backend trait takes. As in DAOS, a record size of 0 means a punch of the
    /// extents.
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

    /// The change in the form in which strict mode checks it.
    fn change(&self) -> Change<'a> {
        let content = match (self.iod.kind, self.iod.size) {
            (IOD_SINGLE, _) => Content::Single,
            (_, 0) => Content::Punch,
            (_, size) => Content::Records(size),
        };
        Change { akey: self.akey, content }
    }
}

/// Writes values under a dkey, all or none.
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
    boundary::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            let dkey = convert::key(dkey)?;
            update(&object, flags, dkey, check_count(nr)?, iods, sgls, via.access()).await
        })
    })
}

/// Writes `count` akeys of a dkey, all or none.
async fn update(
    object: &Object,
    flags: u64,
    dkey: &[u8],
    count: usize,
    iods: Ptr<Iod>,
    sgls: Ptr<Sgl>,
    access: Access<'_>,
) -> Result<()> {
    convert::check_cond(flags, convert::NOT_OF_UPDATES)?;
    strict::check_conditions(flags, access)?;
    let cond = convert::cond(flags, Cond::DKEY_INSERT.union(Cond::DKEY_UPDATE));
    // The usual case needs no list of parts.
    if count == 1 {
        let part = UpdatePart::new(iods, sgls, 0)?;
        let mut updates = [part.update(flags)];
        let apply = apply(object, dkey, cond, &mut updates, access);
        let changes = strict::if_on(|| vec![part.change()]);
        return strict::update(object, dkey, changes, access, apply).await;
    }
    let parts = (0..count).map(|index| UpdatePart::new(iods, sgls, index));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let mut updates: Vec<_> = parts.iter().map(|part| part.update(flags)).collect();
    let apply = apply(object, dkey, cond, &mut updates, access);
    let changes = strict::if_on(|| parts.iter().map(UpdatePart::change).collect());
    strict::update(object, dkey, changes, access, apply).await
}

/// Writes updates, after checking their conditions.
async fn apply(
    object: &Object,
    dkey: &[u8],
    cond: Cond,
    updates: &mut [Update<'_>],
    access: Access<'_>,
) -> Result<()> {
    let cond = conditions::check_update(object, dkey, cond, updates, access).await?;
    Ok(object.update(dkey, cond, updates, access).await?)
}

/// Punches an object.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_punch(oh: Handle, th: Handle, flags: u64, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        let cond = convert::cond(flags, Cond::PUNCH);
        Ok(async move { strict::punch(&object, cond, via.access()).await })
    })
}

/// Punches a dkey. As in DAOS, `nr` must be 1.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_punch_dkeys(
    oh: Handle,
    th: Handle,
    flags: u64,
    nr: u32,
    dkeys: Ptr<Iov>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            if nr != 1 {
                return Err(Code::INVAL);
            }
            let (cond, dkey) = (convert::cond(flags, Cond::PUNCH), convert::key(dkeys)?);
            let cond = conditions::check_punch(&object, dkey, &[], cond, via.access()).await?;
            strict::akeys::note_punch(&object, Some(dkey), None, via.access());
            Ok(object.punch_dkey(dkey, cond, via.access()).await?)
        })
    })
}

/// Punches akeys of a dkey.
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
    boundary::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            let dkey = convert::key(dkey)?;
            strict::check_akey_punch(object.oid())?;
            let akeys = akeys.list(check_count(nr)?)?;
            let akeys = akeys.iter().map(convert::key_in).collect::<Result<Vec<_>>>()?;
            let cond = convert::cond(flags, Cond::PUNCH);
            let cond = conditions::check_punch(&object, dkey, &akeys, cond, via.access()).await?;
            strict::akeys::note_punch(&object, Some(dkey), Some(&akeys), via.access());
            Ok(object.punch_akeys(dkey, &akeys, cond, via.access()).await?)
        })
    })
}

/// Reads values under a dkey.
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
    let arguments = FetchArguments { flags, iods, sgls, ioms };
    boundary::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            arguments.read(&object, convert::key(dkey)?, check_count(nr)?, via.access()).await
        })
    })
}

/// The arguments of a fetch that are lists.
#[derive(Clone, Copy)]
struct FetchArguments {
    flags: u64,
    iods: Ptr<Iod>,
    sgls: Ptr<Sgl>,
    ioms: Ptr<Iom>,
}

/// One akey of a fetch, with validated arguments.
struct FetchPart {
    iod: Iod,
    extents: Extents,
}

impl FetchPart {
    /// Checks that ranges do not overlap and that a value of the size the caller expects fits the buffers. The expected
    /// size may be wrong: the fetch returns the stored size.
    fn check(&self, room: u64) -> Result<()> {
        let size = match self.iod.kind {
            IOD_ARRAY if !self.extents.are_apart() => return Err(Code::INVAL),
            IOD_ARRAY => self.extents.bytes(self.iod.size)?,
            _ => self.iod.size,
        };
        if size > room { Err(Code::REC2BIG) } else { Ok(()) }
    }
}

impl FetchArguments {
    /// Reads akeys of a dkey into the caller's buffers.
    async fn read(
        self,
        object: &Object,
        dkey: &[u8],
        count: usize,
        access: Access<'_>,
    ) -> Result<()> {
        convert::check_cond(self.flags, convert::NOT_OF_FETCHES)?;
        let cond = convert::cond(self.flags, Cond::DKEY_FETCH);
        // The usual case needs no list of parts.
        if count == 1 {
            let part = self.part(0)?;
            let mut fetch = [self.fetch(&part, 0)?];
            let result = object.fetch(dkey, cond, &mut fetch, access).await;
            if has_sizes(&result) {
                self.write_results(0, &part, &fetch[0], result.is_ok())?;
            }
            return Ok(result?);
        }
        let parts = (0..count).map(|index| self.part(index)).collect::<Result<Vec<_>>>()?;
        let fetches = parts.iter().enumerate().map(|(index, part)| self.fetch(part, index));
        let mut fetches = fetches.collect::<Result<Vec<_>>>()?;
        let result = object.fetch(dkey, cond, &mut fetches, access).await;
        for (index, (part, fetch)) in parts.iter().zip(&fetches).enumerate() {
            if !has_sizes(&result) {
                break;
            }
            self.write_results(index, part, fetch, result.is_ok())?;
        }
        Ok(result?)
    }

    /// Reads and checks the request for the akey at `index`. Its buffers, if any, are checked for enough room.
    fn part(&self, index: usize) -> Result<FetchPart> {
        let iod = self.iods.needed()?.at(index).get()?;
        let part = FetchPart { iod, extents: extents(&iod)? };
        match self.has_buffers(index)? {
            true => part.check(convert::capacity(self.sgls.at(index))?).map(|()| part),
            false => Ok(part),
        }
    }

    /// Whether the caller gave buffers. Without them a fetch only returns sizes.
    fn has_buffers(&self, index: usize) -> Result<bool> {
        Ok(!self.sgls.is_null() && self.sgls.at(index).get()?.nr > 0)
    }

    /// The fetch of akey number `index`, into the buffers that the caller gave for it.
    fn fetch<'a>(&self, part: &'a FetchPart, index: usize) -> Result<Fetch<'a>> {
        let sink = self.sink(index)?;
        let akey = convert::key_in(&part.iod.name)?;
        let mut fetch = match part.iod.kind {
            IOD_ARRAY => Fetch::array(akey, 0, part.extents.as_slice(), sink),
            _ => Fetch::single(akey, sink),
        };
        // Without buffers, only the ranges show whether any record was found.
        let only_size = matches!(fetch.reply.sink, Sink::None);
        fetch.request.want_filled = !self.ioms.is_null() || only_size;
        fetch.request.cond = akey_cond(self.flags, &part.iod, Cond::AKEY_FETCH);
        Ok(fetch)
    }

    /// Returns the caller's buffers for the akey at `index`. `Sink::None` if the caller passed none and only asks for
    /// sizes.
    fn sink<'a>(&self, index: usize) -> Result<Sink<'a>> {
        match self.has_buffers(index)? {
            true => convert::room(self.sgls.at(index), |iov| iov.buf_len),
            false => Ok(Sink::None),
        }
    }

    /// Writes the results of one akey. Sizes are also written if a buffer was too short: they say how large it must be.
    fn write_results(
        &self,
        index: usize,
        part: &FetchPart,
        fetch: &Fetch<'_>,
        is_done: bool,
    ) -> Result<()> {
        let is_hole = is_done && part.iod.kind == IOD_ARRAY && finds_nothing(&fetch.reply);
        let iod = Iod { size: if is_hole { 0 } else { fetch.reply.size }, ..part.iod };
        self.iods.at(index).set(iod);
        if !self.sgls.is_null() {
            let (sgl, filled) = (self.sgls.at(index), fetch.reply.filled_bytes);
            convert::set_filled(sgl, filled, |iov| iov.buf_len)?;
        }
        match self.ioms.is_null() {
            true => Ok(()),
            false => write_found(self.ioms.at(index), &iod, &fetch.reply.filled),
        }
    }
}

/// True if a fetch with this result found the sizes of values. After any other error, the sizes that the caller passed
/// stay as they are: a size of 0 would make an update of an array a punch.
fn has_sizes(result: &esker::types::Result<()>) -> bool {
    result.as_ref().map_or_else(|error| error.kind() == ErrorKind::RecordTooBig, |()| true)
}

/// True if no record of an array was found. DAOS returns 0 then, whatever the size of the array's records.
fn finds_nothing(reply: &FetchReply<'_>) -> bool {
    reply.filled_bytes == 0 && reply.filled.is_empty()
}

/// Writes the ranges that were found to a `daos_iom_t`.
fn write_found(at: Ptr<Iom>, iod: &Iod, filled: &[Extent]) -> Result<()> {
    let mut iom = at.get()?;
    let found = joined(filled);
    iom.kind = iod.kind;
    iom.size = iod.size;
    iom.nr_out = found.len() as u32;
    iom.recx_lo = found.iter().min_by_key(|recx| recx.idx).copied().unwrap_or_default();
    iom.recx_hi = found.iter().max_by_key(|recx| recx.idx).copied().unwrap_or_default();
    if iom.flags & IOMF_DETAIL != 0 {
        list_found(&mut iom, &found)?;
    }
    at.set(iom);
    Ok(())
}

/// Writes the list of ranges. If the caller has no list, one is allocated, which the caller frees.
fn list_found(iom: &mut Iom, found: &[Recx]) -> Result<()> {
    if iom.recxs.is_null() && iom.nr == 0 {
        iom.recxs = memory::copy(found)?;
        iom.nr = found.len() as u32;
        return Ok(());
    }
    iom.recxs.needed()?;
    for (index, recx) in found.iter().take(iom.nr as usize).enumerate() {
        iom.recxs.at(index).set(*recx);
    }
    Ok(())
}

/// Joins adjacent ranges to one, so that the result does not depend on how they are stored.
fn joined(filled: &[Extent]) -> Vec<Recx> {
    let mut found: Vec<Recx> = Vec::new();
    for extent in filled {
        match found.last_mut() {
            Some(last) if last.idx.saturating_add(last.nr) == extent.start => {
                last.nr += extent.count;
            }
            _ => found.push((*extent).into()),
        }
    }
    found
}

/// `DAOS_GET_*`.
const GET_MAX: u64 = 0x1;
const GET_MIN: u64 = 0x2;
const GET_DKEY: u64 = 0x4;
const GET_AKEY: u64 = 0x8;
const GET_RECX: u64 = 0x10;

/// The arguments of a query.
#[derive(Clone, Copy)]
struct QueryArguments {
    flags: u64,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    recx: Ptr<Recx>,
}

/// Finds the largest or smallest dkey, akey or record.
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
    let query = QueryArguments { flags, dkey, akey, recx };
    boundary::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move { query.run(&object, via.access()).await })
    })
}

impl QueryArguments {
    /// Whether the query has one of these flags.
    fn wants(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }

    /// Runs the query, and writes the keys or the extent that it finds. If there is none, nothing is written.
    async fn run(self, object: &Object, access: Access<'_>) -> Result<()> {
        let edge = self.check(object)?;
        let wants_below = self.wants(GET_AKEY | GET_RECX);
        let query = KeyQuery {
            edge,
            dkey: if self.wants(GET_DKEY) { None } else { Some(convert::key(self.dkey)?) },
            after: None,
            akey: match self.wants(GET_AKEY) || !wants_below {
                true => None,
                false => Some(convert::key(self.akey)?),
            },
            want_akey: self.wants(GET_AKEY),
            want_extent: self.wants(GET_RECX),
        };
        match object.query_key(query, access).await? {
            Some(found) => self.write(&found),
            None => Ok(()),
        }
    }

    /// Checks a query, and returns the end that it looks for. `INVAL` unless it asks for one end, for at least one
    /// part, and has room for each.
    fn check(&self, object: &Object) -> Result<Edge> {
        let edge = match self.flags & (GET_MAX | GET_MIN) {
            GET_MAX => Edge::Max,
            GET_MIN => Edge::Min,
            _ => return Err(Code::INVAL),
        };
        let oid = object.oid();
        let is_integer = |kind| kind == KeyKind::Integer;
        let sound = self.wants(GET_DKEY | GET_AKEY | GET_RECX)
            && (!self.wants(GET_DKEY) || is_integer(oid.dkey_kind()) && has_room(self.dkey))
            && (!self.wants(GET_AKEY) || is_integer(oid.akey_kind()) && has_room(self.akey))
            && !(self.wants(GET_RECX) && self.recx.is_null());
        if sound { Ok(edge) } else { Err(Code::INVAL) }
    }

    /// Stores the parts of the result that the caller asked for in the variables of the caller.
    fn write(&self, found: &KeyFound) -> Result<()> {
        if self.wants(GET_DKEY) {
            put_key(self.dkey, &found.dkey)?;
        }
        if self.wants(GET_AKEY) {
            put_key(self.akey, &found.akey)?;
        }
        if let (true, Some(extent)) = (self.wants(GET_RECX), found.extent) {
            self.recx.set(extent.into());
        }
        Ok(())
    }
}

/// Whether a buffer can hold 8 bytes. Only integer keys can be queried, and they have 8.
fn has_room(key: Ptr<Iov>) -> bool {
    key.get().is_ok_and(|iov| !iov.buf.is_null() && iov.buf_len >= 8)
}

/// Copies a key to the buffer of the caller.
fn put_key(at: Ptr<Iov>, key: &[u8]) -> Result<()> {
    let mut iov = at.get()?;
    iov.buf.write(key.len() as u64)?.copy_from_slice(key);
    iov.len = key.len();
    at.set(iov);
    Ok(())
}

/// Returns the epoch of the latest change.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_query_max_epoch(
    oh: Handle,
    th: Handle,
    epoch: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (object, via) = (handles::object(oh)?, handles::via(th)?);
        Ok(async move {
            epoch.needed()?.set(strict::epoch(&object, via.access()).await?.0);
            Ok(())
        })
    })
}

/// Verifies that all replicas of an object agree. Each object has one replica.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_verify(coh: Handle, _oid: ObjId, _epoch: u64) -> c_int {
    boundary::now(|| handles::container(coh).map(drop))
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_query(
    _oh: Handle,
    _oa: Ptr<c_void>,
    _ranks: Ptr<RankList>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::not_offered(ev)
}

/// Not implemented: placement is the backend's. pydaos looks the function up, whether or not it is called.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_layout_get(
    _coh: Handle,
    _oid: ObjId,
    _layout: Ptr<Ptr<c_void>>,
) -> c_int {
    boundary::not_offered(Ptr::null())
}
