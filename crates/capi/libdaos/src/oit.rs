//! Object id tables (`daos/oit.h`): the objects of a snapshot, and marks on them.
//!
//! The store lists the objects of a snapshot. A pool without snapshots has stored tables instead (`object_table.rs`).
//! The marks of each table are stored in an object of the container, whose type users cannot open.
use crate::abi::{Anchor, Event, Handle, Iov, ObjId, Ptr};
use crate::code::{Code, Result};
use crate::handles::{self, Entry, kind};
use crate::list::{self, StoredPositions};
use crate::{boundary, object_table};
use esker::types::ops::{self, Cond, Fetch, Sink, Source, Update, Value};
use esker::types::{Epoch, ObjectClass, ObjectId, ObjectType};
use esker::{Access, Container, Object};
use std::ffi::c_int;

/// `DAOS_OIT_MARKER_MAX_LEN`.
const MARKER_MAX: usize = 32;
const MARK: &[u8] = b"mark";
/// The dkey that says that a table was destroyed; those of marks are object ids, which are longer.
const DESTROYED: &[u8] = b"destroyed";

/// `daos_oit_filter_cb`.
pub type Filter = unsafe extern "C" fn(oid: ObjId, marker: *mut Iov) -> c_int;

/// An open table.
pub(crate) struct Oit {
    container: Container,
    epoch: Epoch,
    positions: StoredPositions,
}

/// The output of a listing: on entry `nr` is the number of entries in `oids`, afterwards that of the listed ids.
#[derive(Clone, Copy)]
struct Page {
    oids: Ptr<ObjId>,
    nr: Ptr<u32>,
    anchor: Ptr<Anchor>,
}

/// The ids a listing returns.
#[derive(Clone, Copy)]
enum Selection {
    All,
    Unmarked,
    Matching(Filter),
}

/// The object that stores the marks of a snapshot.
fn marks(container: &Container, epoch: Epoch) -> Object {
    container.object(ObjectId::generate(0, epoch.0, ObjectType::Oit, ObjectClass::S1))
}

/// Removes all marks of a snapshot.
pub(crate) async fn drop_marks(container: &Container, epoch: Epoch) -> Result<()> {
    Ok(marks(container, epoch).punch(Cond::NONE, Access::Latest).await?)
}

/// Fails unless the pool has a snapshot, or a stored table, of this epoch.
async fn check_epoch(container: &Container, epoch: Epoch) -> Result<()> {
    if container.capabilities().snapshots {
        return Ok(container.at(epoch).await.map(drop)?);
    }
    match object_table::exists(container, epoch).await? {
        true => Ok(()),
        false => Err(Code::NONEXIST),
    }
}

/// Creates a destroyed table again, without marks.
pub(crate) async fn create(container: &Container, epoch: Epoch) -> Result<()> {
    check_epoch(container, epoch).await?;
    let object = marks(container, epoch);
    Ok(object.punch_dkey(DESTROYED, Cond::NONE, Access::Latest).await?)
}

/// Destroys a table: it cannot be opened until it is created again. A mark records that, because the store can list the
/// objects of the snapshot nevertheless.
pub(crate) async fn destroy(container: &Container, epoch: Epoch) -> Result<()> {
    drop_marks(container, epoch).await?;
    let value = Value::Single(Source::One(b"1"));
    let updates = [Update { akey: MARK, value, cond: Cond::NONE }];
    let object = marks(container, epoch);
    Ok(object.update(DESTROYED, Cond::NONE, &updates, Access::Latest).await?)
}

/// Fails unless the table of a snapshot exists.
async fn check_exists(container: &Container, epoch: Epoch) -> Result<()> {
    check_epoch(container, epoch).await?;
    let mut fetch = Fetch::single(MARK, Sink::None);
    let fetches = std::slice::from_mut(&mut fetch);
    marks(container, epoch).fetch(DESTROYED, Cond::NONE, fetches, Access::Latest).await?;
    if fetch.reply.size == 0 { Ok(()) } else { Err(Code::NONEXIST) }
}

impl Oit {
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Marker of an object; `None` if it has none.
    async fn marker(&self, oid: ObjectId) -> Result<Option<Vec<u8>>> {
        let mut marker = [0; MARKER_MAX];
        let mut fetch = Fetch::single(MARK, Sink::One(&mut marker));
        fetch.request.cond = Cond::AKEY_FETCH;
        let object = marks(&self.container, self.epoch);
        let fetches = std::slice::from_mut(&mut fetch);
        let result = object.fetch(&oid.to_bytes(), Cond::NONE, fetches, Access::Latest).await;
        let len = fetch.reply.size as usize;
        match result.map_err(Code::from) {
            Ok(()) => Ok(Some(marker[..len].to_vec())),
            Err(Code::NONEXIST) => Ok(None),
            Err(code) => Err(code),
        }
    }

    /// Sets the marker of an object, or removes it if `marker` is null. The object must exist in the snapshot.
    async fn mark(&self, oid: ObjectId, marker: Ptr<Iov>) -> Result<()> {
        if !self.has(oid).await? {
            return Err(Code::NONEXIST);
        }
        let object = marks(&self.container, self.epoch);
        let dkey = oid.to_bytes();
        if marker.is_null() {
            return Ok(object.punch_dkey(&dkey, Cond::NONE, Access::Latest).await?);
        }
        let marker = marker.get()?;
        if marker.len > MARKER_MAX {
            return Err(Code::INVAL);
        }
        let value = Value::Single(Source::One(marker.buf.read(marker.len as u64)?));
        let updates = [Update { akey: MARK, value, cond: Cond::NONE }];
        Ok(object.update(&dkey, Cond::NONE, &updates, Access::Latest).await?)
    }

    /// True if the object exists in the snapshot.
    async fn has(&self, oid: ObjectId) -> Result<bool> {
        if !self.container.capabilities().snapshots {
            return object_table::has_object(&self.container, self.epoch, oid).await;
        }
        let at = Access::Snapshot(self.epoch);
        Ok(self.container.object(oid).epoch(at).await? != Epoch::default())
    }

    /// At most `count` ids after `at`. Moves `at` past them.
    async fn next(&self, at: &mut ops::Anchor, count: usize) -> Result<Vec<ObjectId>> {
        if !self.container.capabilities().snapshots {
            return object_table::list(&self.container, self.epoch, at, count).await;
        }
        Ok(self.container.list_objects(at, count, Access::Snapshot(self.epoch)).await?)
    }

    /// True if the listing returns this object: any object, one without a mark, or one that the caller's filter
    /// accepts.
    async fn is_selected(&self, oid: ObjectId, selection: Selection) -> Result<bool> {
        match selection {
            Selection::All => Ok(true),
            Selection::Unmarked => Ok(self.marker(oid).await?.is_none()),
            Selection::Matching(filter) => ask(filter, oid, self.marker(oid).await?),
        }
    }

    /// Lists until the page has an entry or the table ends. Leaves out objects of the type that stores tables and
    /// marks.
    async fn list(&self, page: Page, selection: Selection) -> Result<()> {
        let room = page.nr.get()? as usize;
        page.oids.needed()?;
        if room == 0 {
            return Err(Code::INVAL);
        }
        let mut at = list::read_anchor(page.anchor, &self.positions)?;
        let mut found = Vec::new();
        while found.is_empty() && !at.is_end() {
            for oid in self.next(&mut at, room).await? {
                if oid.object_type() != Some(ObjectType::Oit)
                    && self.is_selected(oid, selection).await?
                {
                    found.push(oid);
                }
            }
        }
        for (index, oid) in found.iter().enumerate() {
            page.oids.at(index).set((*oid).into());
        }
        page.nr.set(found.len() as u32);
        list::write_anchor(page.anchor, at, &self.positions);
        Ok(())
    }
}

/// Opens the table of a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oit_open(coh: Handle, epoch: u64, oh: Ptr<Handle>, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let container = handles::container(coh)?;
        Ok(async move {
            oh.needed()?;
            let (container, epoch) = (container.container.clone(), Epoch(epoch));
            check_exists(&container, epoch).await?;
            let table = Oit { container, epoch, positions: StoredPositions::default() };
            oh.set(handles::open(Entry::Oit(table))?);
            Ok(())
        })
    })
}

/// Closes a table.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oit_close(oh: Handle, ev: Ptr<Event>) -> c_int {
    boundary::complete_now(ev, || handles::close(oh.cookie, &[kind::OIT]).map(drop))
}

/// Lists object ids.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oit_list(
    oh: Handle,
    oids: Ptr<ObjId>,
    nr: Ptr<u32>,
    anchor: Ptr<Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    let page = Page { oids, nr, anchor };
    boundary::drive(ev, || {
        let table = handles::oit(oh)?;
        Ok(async move { table.list(page, Selection::All).await })
    })
}

/// Lists the ids of objects without a mark.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oit_list_unmarked(
    oh: Handle,
    oids: Ptr<ObjId>,
    nr: Ptr<u32>,
    anchor: Ptr<Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    let page = Page { oids, nr, anchor };
    boundary::drive(ev, || {
        let table = handles::oit(oh)?;
        Ok(async move { table.list(page, Selection::Unmarked).await })
    })
}

/// Lists the object ids that match a filter.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oit_list_filter(
    oh: Handle,
    oids: Ptr<ObjId>,
    nr: Ptr<u32>,
    anchor: Ptr<Anchor>,
    filter: Option<Filter>,
    ev: Ptr<Event>,
) -> c_int {
    let page = Page { oids, nr, anchor };
    boundary::drive(ev, || {
        let table = handles::oit(oh)?;
        let filter = filter.ok_or(Code::INVAL)?;
        Ok(async move { table.list(page, Selection::Matching(filter)).await })
    })
}

/// Calls the filter. True if it returns a positive number, an error if it returns a negative one. An id without a mark
/// has an empty marker.
fn ask(filter: Filter, oid: ObjectId, marker: Option<Vec<u8>>) -> Result<bool> {
    let mut marker = marker.unwrap_or_default();
    let len = marker.len();
    // SAFETY: the marker outlives the call of the filter.
    let buf = unsafe { Ptr::new(marker.as_mut_ptr().cast()) };
    let mut iov = Iov { buf: if len == 0 { Ptr::null() } else { buf }, buf_len: len, len };
    // SAFETY: the caller passed the function for this purpose.
    match unsafe { filter(oid.into(), &raw mut iov) } {
        error if error < 0 => Err(Code(error)),
        answer => Ok(answer > 0),
    }
}

/// Sets or removes the mark of an object id.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oit_mark(oh: Handle, oid: ObjId, marker: Ptr<Iov>, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let table = handles::oit(oh)?;
        Ok(async move { table.mark(oid.into(), marker).await })
    })
}
