//! Fields by key (`esker.h`).
mod axes;
mod view;
mod watch;

pub use axes::{
    esker_field_axes, esker_field_axes_close, esker_field_axis, esker_field_axis_value,
};
pub use view::{esker_field_view, esker_field_view_close};
pub use watch::{esker_field_watch, esker_field_watch_close, esker_field_watch_next};

pub(crate) use axes::OpenAxes;
pub(crate) use watch::OpenWatch;

use super::arguments::{self, Pair};
use super::call::{self, opened};
use super::failure::{Failure, Result};
use super::milliseconds;
use crate::abi::{Bytes, Event, Handle, Ptr, Str};
use crate::code::Code;
use crate::handles;
use esker::types::Error;
use esker_fields::request::Request;
use esker_fields::{
    Date, Field, FieldStore, FieldWriter, Holder, Key, Schema, Selection, bytes_of, read_together,
};
use std::ffi::{c_int, c_uint};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `ESKER_CREATE`: make an empty container a store.
pub(super) const CREATE: c_uint = 1;
/// `ESKER_DISCARD`: close a store although fields wait for a flush.
const DISCARD: c_uint = 2;
/// `ESKER_DOIT`: remove, instead of only counting.
pub(super) const DOIT: c_uint = 4;

/// An open field store, and its writer.
pub(crate) struct OpenFields {
    store: FieldStore,
    writer: Mutex<Writer>,
}

/// The writer of an open store.
struct Writer {
    fields: FieldWriter,
    /// Whether the store was closed. Calls that began before, or whose events wait, may still refer to the writer.
    is_closed: bool,
}

/// Fields that a request selected.
pub(crate) struct Selected(Vec<Field>);

impl OpenFields {
    fn new(store: FieldStore) -> Self {
        let writer = Writer { fields: store.writer(), is_closed: false };
        Self { writer: Mutex::new(writer), store }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a field by `add`. `NO_HDL` once the store is closed, because no call could flush the field.
    fn add(&self, add: impl FnOnce(&mut FieldWriter) -> esker::types::Result<()>) -> Result<()> {
        let mut writer = self.writer();
        match writer.is_closed {
            false => Ok(add(&mut writer.fields)?),
            true => Err(Failure::new(
                Code::NO_HDL,
                "the field store was closed before the field was archived: wait for the event first",
            )),
        }
    }

    /// Closes the writer. Without `discard`, refuses to lose fields that wait for a flush.
    fn close(&self, discard: bool) -> Result<()> {
        let mut writer = self.writer();
        if !discard {
            check_flushed(&writer.fields)?;
        }
        writer.is_closed = true;
        Ok(())
    }

    /// Reads a request of C, and expands it by the schema to the fields that it selects. Relative dates count from
    /// today.
    fn selection(&self, request: Ptr<Pair>, pairs: u32) -> Result<Selection> {
        let request = Request::from_pairs(arguments::pairs(request, pairs, "request")?)?;
        Ok(request.expand(self.store.schema(), Date::today())?)
    }
}

/// Refuses to lose fields that wait for a flush.
fn check_flushed(writer: &FieldWriter) -> Result<()> {
    match writer.pending() {
        (0, _) => Ok(()),
        (fields, _) => {
            let text = format!(
                "{fields} fields wait for a flush: call esker_field_flush, or close with ESKER_DISCARD"
            );
            Err(Failure::new(Code::BUSY, text))
        }
    }
}

/// Opens the field store of a container.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_store_open(
    coh: Handle,
    schema: Str,
    flags: c_uint,
    fsh: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        arguments::flags(flags, CREATE)?;
        arguments::needed(fsh, "fsh")?;
        let container = handles::container(coh)?.container.clone();
        let schema = arguments::optional_text(schema, "schema")?.map(str::to_owned);
        Ok(move || {
            let store = if flags & CREATE == 0 {
                FieldStore::open_in(container)?
            } else {
                FieldStore::open_or_create_in(container, &parsed(schema.as_deref())?)?
            };
            check_schema(&store, schema.as_deref())?;
            call::open(OpenFields::new(store), fsh)
        })
    })
}

/// The schema for a new store: the given one, or that of MARS.
fn parsed(schema: Option<&str>) -> Result<Schema> {
    Ok(schema.map_or_else(Schema::default_mars, |text| Schema::parse(text, "schema"))?)
}

/// Refuses a schema that is given and is not that of the store.
fn check_schema(store: &FieldStore, schema: Option<&str>) -> Result<()> {
    if schema.is_none_or(|schema| schema == store.schema().text()) {
        return Ok(());
    }
    let text = format!(
        "container {} has fields of another schema: pass NULL to use it, or another container",
        store.container().info().label
    );
    Err(Failure::new(Code::MISMATCH, text))
}

/// Closes a field store.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_store_close(fsh: Handle, flags: c_uint, ev: Ptr<Event>) -> c_int {
    call::run(ev, || {
        arguments::flags(flags, DISCARD)?;
        let fields = opened::<OpenFields>(fsh)?;
        Ok(move || {
            fields.close(flags & DISCARD != 0)?;
            drop(call::close_now::<OpenFields>(fsh)?);
            Ok(())
        })
    })
}

/// Copies the text of the schema to `buf`. `size` becomes its length.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_schema(fsh: Handle, buf: Str, size: Ptr<u64>) -> c_int {
    call::now(|| {
        let fields = opened::<OpenFields>(fsh)?;
        let text = fields.store.schema().text().as_bytes();
        arguments::fill(buf.cast(), size, text.len() as u64, |room| {
            room.copy_from_slice(text);
            Ok(())
        })
    })
}

/// Archives a field.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_archive(
    fsh: Handle,
    key: Ptr<Pair>,
    pairs: u32,
    data: Bytes,
    size: u64,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let fields = opened::<OpenFields>(fsh)?;
        let key = Key::from_pairs(arguments::pairs(key, pairs, "key")?)?;
        let data = arguments::bytes(data, size, "data")?;
        Ok(move || fields.add(|writer| writer.archive(&key, data)))
    })
}

/// Adopts `size` bytes of a file from `offset` on as a field: refers to them instead of copying them.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_adopt(
    fsh: Handle,
    key: Ptr<Pair>,
    pairs: u32,
    path: Str,
    offset: u64,
    size: u64,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let fields = opened::<OpenFields>(fsh)?;
        let key = Key::from_pairs(arguments::pairs(key, pairs, "key")?)?;
        let path = PathBuf::from(arguments::text(path, "path")?);
        Ok(move || {
            check_file(&path, offset, size)?;
            fields.add(|writer| writer.adopt(&key, &path, offset, size))
        })
    })
}

/// Fails unless the path is a file that has `size` bytes from `offset` on.
fn check_file(path: &Path, offset: u64, size: u64) -> Result<()> {
    let shown = path.display();
    let metadata = std::fs::metadata(path)
        .map_err(|error| Error::io(format_args!("adopting {shown}"), &error))?;
    let end = offset.checked_add(size);
    match end.is_some_and(|end| metadata.is_file() && end <= metadata.len()) {
        true => Ok(()),
        false => {
            let length = metadata.len();
            Err(Failure::invalid(format!(
                "{shown}: {size} bytes from {offset} on are not in a file of {length} bytes"
            )))
        }
    }
}

/// Counts the fields that wait for a flush, and their bytes.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_pending(fsh: Handle, count: Ptr<u64>, bytes: Ptr<u64>) -> c_int {
    call::now(|| {
        let (fields, sum) = opened::<OpenFields>(fsh)?.writer().fields.pending();
        count.set(fields as u64);
        bytes.set(sum);
        Ok(())
    })
}

/// Makes all archived fields visible.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_flush(fsh: Handle, ev: Ptr<Event>) -> c_int {
    call::run(ev, || {
        let fields = opened::<OpenFields>(fsh)?;
        Ok(move || Ok(fields.writer().fields.flush()?))
    })
}

/// Reads the field of one key.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_retrieve(
    fsh: Handle,
    key: Ptr<Pair>,
    pairs: u32,
    buf: Bytes,
    size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let fields = opened::<OpenFields>(fsh)?;
        let key = Key::from_pairs(arguments::pairs(key, pairs, "key")?)?;
        arguments::needed(size, "size")?;
        Ok(move || {
            let field = fields.store.field(&key)?;
            arguments::fill(buf, size, field.bytes(), |room| Ok(field.read_at(0, room)?))
        })
    })
}

/// Finds the fields of a request. Each must exist.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_select(
    fsh: Handle,
    request: Ptr<Pair>,
    pairs: u32,
    sel: Ptr<Handle>,
    count: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    find(fsh, (request, pairs), (sel, count), ev, FieldStore::retrieve)
}

/// Finds the existing fields of a request.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_list(
    fsh: Handle,
    request: Ptr<Pair>,
    pairs: u32,
    sel: Ptr<Handle>,
    count: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    find(fsh, (request, pairs), (sel, count), ev, |store, selection| {
        let listed = store.list(selection)?.into_iter();
        Ok(listed.map(|listed| store.listed(listed)).collect())
    })
}

/// Finds the fields of a request by `search`. Stores a handle on them in `sel`, and their number in `count`.
fn find(
    fsh: Handle,
    (request, pairs): (Ptr<Pair>, u32),
    (sel, count): (Ptr<Handle>, Ptr<u64>),
    ev: Ptr<Event>,
    search: fn(&FieldStore, &Selection) -> esker::types::Result<Vec<Field>>,
) -> c_int {
    call::run(ev, || {
        let fields = opened::<OpenFields>(fsh)?;
        let selection = fields.selection(request, pairs)?;
        arguments::needed(sel, "sel")?;
        Ok(move || {
            let found = search(&fields.store, &selection)?;
            let number = found.len() as u64;
            call::open(Selected(found), sel)?;
            count.set(number);
            Ok(())
        })
    })
}

impl Selected {
    /// The selected fields from number `first` on, `count` of them. Fails if there are fewer.
    fn range(&self, first: u64, count: u64) -> Result<&[Field]> {
        let range = first
            .checked_add(count)
            .and_then(|end| self.0.get(usize::try_from(first).ok()?..usize::try_from(end).ok()?));
        range.ok_or_else(|| {
            let found = self.0.len();
            Failure::invalid(format!("{count} fields from number {first} on, of {found} selected"))
        })
    }

    /// Returns the selected field with this index. The error gives the number of fields if the index is too large.
    fn entry(&self, index: u64) -> Result<&Field> {
        let field = usize::try_from(index).ok().and_then(|index| self.0.get(index));
        field.ok_or_else(|| {
            Failure::invalid(format!("field number {index} of {} selected", self.0.len()))
        })
    }
}

/// Returns key and size of a selected field.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_entry(
    sel: Handle,
    index: u64,
    key: Str,
    key_size: u64,
    size: Ptr<u64>,
) -> c_int {
    call::now(|| {
        let selected = opened::<Selected>(sel)?;
        let field = selected.entry(index)?;
        arguments::give_text(key, key_size, field.key().as_str(), "key")?;
        size.set(field.bytes());
        Ok(())
    })
}

/// Reads `count` selected fields from number `first` on, one after another.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_read(
    sel: Handle,
    first: u64,
    count: u64,
    buf: Bytes,
    size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let selected = opened::<Selected>(sel)?;
        selected.range(first, count)?;
        arguments::needed(size, "size")?;
        Ok(move || {
            let fields = selected.range(first, count)?;
            arguments::fill(buf, size, bytes_of(fields), |room| Ok(read_together(fields, room)?))
        })
    })
}

/// Reads `size` bytes of the selected field `index` from `offset` on.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_read_at(
    sel: Handle,
    index: u64,
    offset: u64,
    buf: Bytes,
    size: u64,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let selected = opened::<Selected>(sel)?;
        selected.entry(index)?;
        arguments::needed(buf, "buf")?;
        arguments::bytes(buf, size, "buf")?;
        Ok(move || Ok(selected.entry(index)?.read_at(offset, buf.write(size)?)?))
    })
}

/// Returns the time at which a selected field was archived, and the file of an adopted field.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_location(
    sel: Handle,
    index: u64,
    archived_ms: Ptr<u64>,
    path: Str,
    path_size: u64,
    offset: Ptr<u64>,
) -> c_int {
    call::now(|| {
        let selected = opened::<Selected>(sel)?;
        let location = selected.entry(index)?.location();
        let (file, start) = match &location.holder {
            Holder::Array(_) => (String::new(), 0),
            Holder::File { path, offset } => (path.display().to_string(), *offset),
        };
        arguments::give_text(path, path_size, &file, "path")?;
        archived_ms.set(milliseconds(location.archived));
        offset.set(start);
        Ok(())
    })
}

/// Closes a selection.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_select_close(sel: Handle, ev: Ptr<Event>) -> c_int {
    call::close::<Selected>(sel, ev)
}

/// `esker_field_removed_t`: fields that a wipe or purge removed, or would remove.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedCounts {
    /// Fields that readers saw.
    pub fields: u64,
    /// Fields that newer ones with the same key masked.
    pub masked: u64,
    /// Fields that dead writers never flushed, and leftovers of unfinished removals.
    pub leftovers: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Removes the fields of a request, or counts them.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_wipe(
    fsh: Handle,
    request: Ptr<Pair>,
    pairs: u32,
    flags: c_uint,
    counts: Ptr<RemovedCounts>,
    ev: Ptr<Event>,
) -> c_int {
    remove(fsh, (request, pairs), flags, (counts, ev), |store, selection, doit| {
        let wiped = store.wipe(selection, doit, |_| Ok(()))?;
        let (fields, masked, bytes) = (wiped.fields, wiped.masked, wiped.bytes);
        Ok(RemovedCounts { fields, masked, leftovers: 0, bytes })
    })
}

/// Frees masked fields and the leftovers of dead writers, or counts them.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_purge(
    fsh: Handle,
    request: Ptr<Pair>,
    pairs: u32,
    flags: c_uint,
    counts: Ptr<RemovedCounts>,
    ev: Ptr<Event>,
) -> c_int {
    remove(fsh, (request, pairs), flags, (counts, ev), |store, selection, doit| {
        let purged = store.purge(selection, doit, |_| Ok(()))?;
        let leftovers = purged.unflushed + purged.removed;
        let (masked, bytes) = (purged.masked, purged.bytes);
        Ok(RemovedCounts { fields: 0, masked, leftovers, bytes })
    })
}

/// Runs `work`, a wipe or purge, on the fields of a request. Its last argument says whether to remove them or, without
/// `ESKER_DOIT`, only count them.
fn remove(
    fsh: Handle,
    (request, pairs): (Ptr<Pair>, u32),
    flags: c_uint,
    (counts, ev): (Ptr<RemovedCounts>, Ptr<Event>),
    work: fn(&FieldStore, &Selection, bool) -> esker::types::Result<RemovedCounts>,
) -> c_int {
    call::run(ev, || {
        arguments::flags(flags, DOIT)?;
        let fields = opened::<OpenFields>(fsh)?;
        let selection = fields.selection(request, pairs)?;
        Ok(move || {
            counts.set(work(&fields.store, &selection, flags & DOIT != 0)?);
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::daos_init;
    use esker::Pool;
    use esker::types::info::OpenMode;

    #[test]
    fn a_field_is_not_archived_once_its_store_is_closed() {
        assert_eq!(daos_init(), 0);
        let pool = Pool::connect("memory:archived-late", OpenMode::ReadWrite).unwrap();
        let schema = Schema::parse("[run [type [step]]]", "schema").unwrap();
        let store = FieldStore::create(&pool, "fields", &schema).unwrap();
        let mut fsh = Handle { cookie: 0 };
        // SAFETY: the handle stays where it is during the call.
        call::open(OpenFields::new(store), unsafe { Ptr::new(&raw mut fsh) }).unwrap();
        // A call whose event waits for a thread holds the store in this way.
        let fields = opened::<OpenFields>(fsh).unwrap();
        let key = Key::parse("run=a,type=fc,step=1").unwrap();
        fields.add(|writer| writer.archive(&key, b"one")).unwrap();
        assert_eq!(esker_field_store_close(fsh, 0, Ptr::null()), Code::BUSY.0);
        fields.writer().fields.flush().unwrap();
        assert_eq!(esker_field_store_close(fsh, 0, Ptr::null()), 0);
        let late = fields.add(|writer| writer.archive(&key, b"two"));
        assert_eq!(late.map_err(|failure| failure.code), Err(Code::NO_HDL));
        assert_eq!(fields.writer().fields.pending().0, 0);
    }
}
