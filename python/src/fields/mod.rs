//! Field stores.
mod archive;
mod field;
pub(crate) mod grib;
mod queries;
mod request;
mod watch;

pub(crate) use archive::finish_fields;
pub(crate) use field::{Field, Fields};
pub(crate) use watch::Watch;

use crate::call::call;
use crate::errors;
use crate::pool;
use crate::store_name::{self, OpenPool};
use crate::text;
use archive::{Archiver, Source, unflushed};
use esker::config::config;
use esker::types::info::OpenMode;
use esker::types::{ErrorKind, Result};
use esker_fields::{Moving, NewFields, Schema};
use pyo3::exceptions::{PyResourceWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use queries::Counts;
use request::Wanted;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The store that the configuration file names by `fields`, or None.
#[pyfunction]
pub(crate) fn configured_fields(py: Python<'_>) -> PyResult<Option<&'static str>> {
    Ok(call(py, config)?.get("fields"))
}

/// A store of weather and climate fields, identified by keys: FieldStore(store, mode="rw", label=None, schema=None,
/// create=True, flush_on_close=False, stripes=None).
///
/// `store` is "POOL/CONTAINER", or a Pool with the `label` of one of its containers. A missing store is created unless
/// `create` is False or `mode` is "r"; its keys follow `schema`, a text in FDB's schema language, or by default those
/// of MARS. In a new store, the index of each database is divided into `stripes`, each on another target; the default is
/// one for each node of the pool. Archived fields become visible at `flush`, all at the same time. Fields not flushed when the store is
/// closed or the interpreter exits are lost, with a warning, unless `flush_on_close`. In a `with` statement the store
/// is flushed at a normal end, discarded if an exception is raised, and then closed.
///
/// A request is a dict such as {"class": "od", "step": [0, 6], "levelist": "850/to/500/by/50"}, or a text in the MARS
/// language; names that it omits match any value. A store may be used by several threads, and in children made by
/// fork: fields that the parent archived and did not flush belong to the parent only.
#[pyclass(frozen, module = "esker")]
pub(crate) struct FieldStore {
    name: String,
    url: String,
    mode: OpenMode,
    flush_on_close: bool,
    /// None once it is closed.
    open: Mutex<Option<Open>>,
}

/// The arguments that open it again.
type Reduced = (String, &'static str, Option<String>, Option<String>, bool, bool);

/// An open store, and the archiver of this process.
#[derive(Clone)]
struct Open {
    store: esker_fields::FieldStore,
    archiver: Arc<Archiver>,
}

impl FieldStore {
    /// The open store. Its lock is only taken while the GIL is held, so it is never held during a fork.
    fn opened(&self, py: Python<'_>) -> PyResult<Open> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.as_mut().ok_or_else(|| {
            let message = format!("field store {} is closed: open it again", self.name);
            errors::raise(py, ErrorKind::NoHandle, message)
        })?;
        // After a fork, the child archives with its own writer.
        if open.archiver.is_inherited() {
            open.archiver = open.archiver.anew();
        }
        Ok(open.clone())
    }

    fn store(&self, py: Python<'_>) -> PyResult<esker_fields::FieldStore> {
        Ok(self.opened(py)?.store)
    }

    /// Closes it. Returns the number of fields that were not flushed and are lost, and their bytes.
    fn end(&self, py: Python<'_>) -> PyResult<(usize, u64)> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        call(py, || {
            let lost = open.as_ref().map_or(Ok((0, 0)), |open| open.archiver.close());
            drop(open);
            lost
        })
    }

    /// Closes the store like [`FieldStore::end`], with a warning if unflushed fields are lost.
    fn end_and_warn(&self, py: Python<'_>) -> PyResult<()> {
        match self.end(py)? {
            (0, _) => Ok(()),
            lost => {
                let text = format!("field store {}: {}", self.name, unflushed(lost));
                let warning = py.get_type::<PyResourceWarning>();
                PyErr::warn(py, &warning, &CString::new(text).unwrap_or_default(), 1)
            }
        }
    }

    fn is_open(&self) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Drop for FieldStore {
    /// A destructor cannot raise an exception, so it warns.
    fn drop(&mut self) {
        Python::try_attach(|py| {
            if let Err(error) = self.end_and_warn(py) {
                error.write_unraisable(py, None);
            }
        });
    }
}

#[pymethods]
impl FieldStore {
    #[new]
    #[pyo3(signature = (store, mode = "rw", label = None, schema = None, create = true, flush_on_close = false, stripes = None))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new(
        store: &Bound<'_, PyAny>,
        mode: &str,
        label: Option<&str>,
        schema: Option<&str>,
        create: bool,
        flush_on_close: bool,
        stripes: Option<u32>,
    ) -> PyResult<Self> {
        let (py, mode) = (store.py(), text::open_mode(mode)?);
        let create = create && mode != OpenMode::ReadOnly;
        let (name, pool) = store_name::parse(store, label)?;
        let new = create.then_some(NewFields { stripes });
        let (store, url) = call(py, || open(&name, pool, mode, schema, new))?;
        let archiver = Archiver::new(&store, flush_on_close);
        let open = Mutex::new(Some(Open { store, archiver }));
        Ok(Self { name, url, mode, flush_on_close, open })
    }

    /// Its name, "POOL/CONTAINER".
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The name by which other processes find it: the URL of its pool, and the UUID of its container.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// The mode it was opened with: "r", "rw" or "exclusive".
    #[getter]
    fn mode(&self) -> &'static str {
        text::mode_name(self.mode)
    }

    /// The schema of its keys, in FDB's schema language.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.store(py)?.schema().text().to_owned())
    }

    /// Archives fields and returns their number. Their bytes are stored when it returns; `flush` makes them visible.
    ///
    /// With a `key` (a dict, or a text such as "class=od,date=20240610,..."), `data` is one field: bytes or any
    /// buffer, a path, or a file open for reading. Without a key it is GRIB, and each field of each message is
    /// archived under the key that ecCodes reports; fields without MARS labels get class=unknown, expver=0001,
    /// stream=unknown and type=unknown. Damaged messages are skipped: all others are archived, then an exception that
    /// names the message and the byte is raised for the first damage.
    #[pyo3(signature = (data, key = None))]
    fn archive(
        &self,
        py: Python<'_>,
        data: Source,
        key: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let archiver = self.opened(py)?.archiver;
        match key.map(request::key).transpose()? {
            Some(key) => call(py, || archiver.field(&key?, &data).map(|()| 1)),
            None => call(py, || archiver.messages(&data)),
        }
    }

    /// Adopts the fields of a GRIB file and returns their number: their keys are stored, their bytes stay in the file,
    /// which must not be moved or changed. `flush` makes them visible. The names and values of `set` replace those of
    /// the messages. Damaged messages are skipped, as by `archive`.
    #[pyo3(signature = (path, *, set = None))]
    fn adopt(
        &self,
        py: Python<'_>,
        path: PathBuf,
        set: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let archiver = self.opened(py)?.archiver;
        let set = set.map(request::key).transpose()?;
        call(py, || archiver.adopt(&path, set.transpose()?.as_ref()))
    }

    /// The keys under which `archive` would archive the fields of GRIB data, as dicts; nothing is archived.
    fn keys<'py>(&self, py: Python<'py>, data: Source) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let archiver = self.opened(py)?.archiver;
        let keys = call(py, || archiver.keys(&data))?;
        keys.iter().map(|key| request::shown(py, key)).collect()
    }

    /// Splits a key by the schema: a dict of the `rule` that matches it, its `line` in the schema, and the pairs of the
    /// `database`, the `index` and the `datum`.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (store, key) = (self.store(py)?, request::key(key)?);
        let split = call(py, || store.schema().split_strictly(&key?))?;
        let (rule, explained) = (&store.schema().rules()[split.rule], PyDict::new(py));
        explained.set_item("rule", rule.to_string())?;
        explained.set_item("line", rule.line())?;
        explained.set_item("database", request::shown(py, &split.database)?)?;
        explained.set_item("index", request::shown(py, &split.index)?)?;
        explained.set_item("datum", request::shown(py, &split.datum)?)?;
        Ok(explained)
    }

    /// The values that a request lists for each of its names, canonical and in its order, with ranges expanded; None
    /// for a name with all values. The store is not searched.
    fn expand<'py>(
        slf: &Bound<'py, Self>,
        request: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, Some(request))?;
        let selections = call(py, || wanted.expand(&store))?;
        let [selection] = &selections[..] else {
            let message = format!("one request was expected, not {}", selections.len());
            return Err(PyValueError::new_err(message));
        };
        let expanded = PyDict::new(py);
        let mut names = selection.names();
        names.try_for_each(|name| expanded.set_item(name, selection.values(name)))?;
        Ok(expanded)
    }

    /// Atomically makes all fields archived since the last flush visible.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let archiver = self.opened(py)?.archiver;
        call(py, || archiver.flush())
    }

    /// Discards everything archived since the last flush.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        let archiver = self.opened(py)?.archiver;
        call(py, || archiver.discard())
    }

    /// Number of fields archived since the last flush, and their size in bytes.
    #[getter]
    fn pending(&self, py: Python<'_>) -> PyResult<(usize, u64)> {
        let archiver = self.opened(py)?.archiver;
        call(py, || archiver.pending())
    }

    /// The fields of a request, in its order: the last name varies fastest.
    ///
    /// If fields are missing, raises NotFound, which is a KeyError; with `partial`, returns the existing fields and
    /// lists others in `.missing`. The bytes of a field are read only when they are needed.
    #[pyo3(signature = (request, *, partial = false))]
    fn retrieve(
        slf: &Bound<'_, Self>,
        request: &Bound<'_, PyAny>,
        partial: bool,
    ) -> PyResult<Fields> {
        let (py, store, wanted) = asked(slf, Some(request))?;
        let found = call(py, || queries::find(&store, wanted, partial))?;
        Ok(Fields::new(slf, found, false))
    }

    /// Raises NotFound if the request lists a value that no field has, unless it says `expect=any`.
    fn _expect_each_value(slf: &Bound<'_, Self>, request: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, store, wanted) = asked(slf, Some(request))?;
        call(py, || wanted.each(&store, |selection| store.expect_each_value(selection)).map(drop))
    }

    /// The fields that match a request, sorted by key; without a request, all fields. With `masked`, those that later
    /// fields replaced.
    #[pyo3(signature = (request = None, *, masked = false))]
    fn list(
        slf: &Bound<'_, Self>,
        request: Option<&Bound<'_, PyAny>>,
        masked: bool,
    ) -> PyResult<Fields> {
        let (py, store, wanted) = asked(slf, request)?;
        let found = call(py, || queries::list(&store, wanted, masked))?;
        Ok(Fields::new(slf, found, masked))
    }

    /// The fields of a request that the store has: as `retrieve` with `partial`, but at least one must exist.
    fn inspect(slf: &Bound<'_, Self>, request: &Bound<'_, PyAny>) -> PyResult<Fields> {
        let found = Self::retrieve(slf, request, true)?;
        match found.is_empty() {
            true => Self::retrieve(slf, request, false),
            false => Ok(found),
        }
    }

    /// The values in the fields of a request, by name, sorted by their type. With `empty`, a name that the schema
    /// allows on its innermost level and a field lacks has the empty value too, as in FDB.
    #[pyo3(signature = (request = None, *, empty = false))]
    fn axes<'py>(
        slf: &Bound<'py, Self>,
        request: Option<&Bound<'py, PyAny>>,
        empty: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, request)?;
        let axes = call(py, || queries::axes(&store, wanted, empty))?;
        let shown = PyDict::new(py);
        axes.into_iter().try_for_each(|(name, values)| shown.set_item(name, values))?;
        Ok(shown)
    }

    /// Statistics of the fields of a request: databases, indexes, fields, bytes, and how much is adopted from files
    /// or masked by later fields.
    #[pyo3(signature = (request = None))]
    fn stats<'py>(
        slf: &Bound<'py, Self>,
        request: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, request)?;
        counted(py, &call(py, || queries::stats(&store, wanted))?)
    }

    /// The databases of a request: dicts of the `database` key and the number of `fields` and `bytes` in it. With
    /// `indexes`, one dict per index, with the `index` key as well.
    #[pyo3(signature = (request = None, *, indexes = false))]
    fn status<'py>(
        slf: &Bound<'py, Self>,
        request: Option<&Bound<'py, PyAny>>,
        indexes: bool,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let (py, store, wanted) = asked(slf, request)?;
        let rows = call(py, || match indexes {
            true => queries::indexes(&store, wanted),
            false => queries::databases(&store, wanted),
        })?;
        rows.iter().map(|row| counted_row(py, row)).collect()
    }

    /// Every entry of a request: a dict of the `current` and the `masked` fields.
    #[pyo3(signature = (request = None))]
    fn dump<'py>(
        slf: &Bound<'py, Self>,
        request: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let shown = PyDict::new(slf.py());
        shown.set_item("current", Self::list(slf, request, false)?)?;
        shown.set_item("masked", Self::list(slf, request, true)?)?;
        Ok(shown)
    }

    /// Moves the fields of a request to another store. Returns their number and size in bytes, how many the other store
    /// already had (`there`), and how many are `left` because they were archived again meanwhile. Without `doit`, only
    /// reports them.
    ///
    /// `to` is "POOL/CONTAINER", created with the schema of this store if it does not exist, or a FieldStore. Fields
    /// are copied by `workers` threads, read back and compared, and then removed here with those that they mask, unless
    /// `keep`. The request must name the databases it applies to, unless `keep`. Calling it again continues an
    /// interrupted move.
    #[pyo3(name = "move", signature = (request, to, *, doit = false, keep = false, workers = 4))]
    fn move_to<'py>(
        slf: &Bound<'py, Self>,
        request: &Bound<'py, PyAny>,
        to: &Bound<'py, PyAny>,
        doit: bool,
        keep: bool,
        workers: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, Some(request))?;
        // `Err` is a store that is already open, `Ok` the name of one to open.
        let other = match to.cast::<Self>() {
            Ok(to) => Err(to.get().store(py)?),
            Err(_) => Ok(store_name::named(to, None)?),
        };
        let how = Moving { workers, keep };
        let to = || match (doit, other) {
            (false, _) => Ok(None),
            (true, Err(open)) => Ok(Some(open)),
            (true, Ok(name)) => {
                let (to, _) = open_or_create(&name, None, store.schema(), NewFields::default())?;
                Ok(Some(to))
            }
        };
        let moved = call(py, || queries::move_fields(&store, wanted, to, how))?;
        counted(py, &moved)
    }

    /// Removes the fields of a request, including masked ones, and returns their number and size in bytes. Without
    /// `doit`, only reports them. The request must name the databases it applies to.
    #[pyo3(signature = (request, doit = false))]
    fn wipe<'py>(
        slf: &Bound<'py, Self>,
        request: &Bound<'py, PyAny>,
        doit: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, Some(request))?;
        counted(py, &call(py, || queries::wipe(&store, wanted, doit))?)
    }

    /// Frees the space of masked fields and of unflushed fields of dead writers; returns their number and size in
    /// bytes. Without `doit`, only reports them.
    #[pyo3(signature = (request = None, doit = false))]
    fn purge<'py>(
        slf: &Bound<'py, Self>,
        request: Option<&Bound<'py, PyAny>>,
        doit: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, request)?;
        counted(py, &call(py, || queries::purge(&store, wanted, doit))?)
    }

    /// Yields each field of a request when any process flushes it, and again when it is archived again; with
    /// `existing`, existing fields first. Ends if no field arrives for `timeout` seconds.
    #[pyo3(signature = (request = None, timeout = None, existing = false))]
    fn watch(
        slf: &Bound<'_, Self>,
        request: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        existing: bool,
    ) -> PyResult<Watch> {
        let (py, store, wanted) = asked(slf, request)?;
        let watches = call(py, || wanted.each(&store, |one| store.watch(one, existing)))?;
        Watch::new(slf, watches, timeout)
    }

    /// Closes it. Unflushed fields are flushed with `flush_on_close`, otherwise lost with a ResourceWarning; call
    /// `discard` first to lose them on purpose. Retrieved fields remain readable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end_and_warn(py)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*details))]
    fn __exit__(&self, py: Python<'_>, details: Bound<'_, PyTuple>) -> PyResult<()> {
        let clean = details.get_item(0).is_ok_and(|kind| kind.is_none());
        match self.is_open() {
            true if clean => self.flush(py)?,
            true => self.discard(py)?,
            false => {}
        }
        self.end(py).map(drop)
    }

    /// Pickles as its URL, so that other processes can open it; unflushed fields stay in this process.
    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, Reduced) {
        let this = slf.get();
        let arguments = (this.url.clone(), this.mode(), None, None, false, this.flush_on_close);
        (slf.get_type().into_any().unbind(), arguments)
    }

    fn __repr__(&self) -> String {
        format!("FieldStore({:?}, {:?})", self.name, self.mode())
    }
}

/// The interpreter, the open store and the parsed request, which every query needs.
fn asked<'py>(
    store: &Bound<'py, FieldStore>,
    request: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Python<'py>, esker_fields::FieldStore, Wanted)> {
    let py = store.py();
    Ok((py, store.get().store(py)?, Wanted::parse(request)?))
}

/// Counts as a dict.
fn counted<'py>(py: Python<'py>, rows: &Counts) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    rows.iter().try_for_each(|(name, count)| shown.set_item(name, count))?;
    Ok(shown)
}

/// A database or an index with its counts, as a dict.
fn counted_row<'py>(py: Python<'py>, row: &queries::Row) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    shown.set_item("database", request::shown(py, &row.database)?)?;
    if let Some(index) = &row.index {
        shown.set_item("index", request::shown(py, index)?)?;
    }
    shown.set_item("fields", row.fields)?;
    shown.set_item("bytes", row.bytes)?;
    Ok(shown)
}

/// Opens a store by its name, in `pool` if that is open already. With `new`, creates the store if it does not exist.
fn open(
    name: &str,
    pool: Option<OpenPool>,
    mode: OpenMode,
    schema: Option<&str>,
    new: Option<NewFields>,
) -> Result<(esker_fields::FieldStore, String)> {
    if let Some(new) = new {
        let schema =
            schema.map_or_else(Schema::default_mars, |text| Schema::parse(text, "schema"))?;
        return open_or_create(name, pool, &schema, new);
    }
    let (at, label) = store_name::split(name, "tank/fields")?;
    let (pool, url) = pool.map_or_else(|| pool::connect(at, mode), Ok)?;
    let store = esker_fields::FieldStore::open(&pool, label, mode)?;
    let url = store_name::everywhere(&url, store.container());
    Ok((store, url))
}

/// Opens a store by its name, or creates it with this schema. `pool` is its pool, if that is open already.
fn open_or_create(
    name: &str,
    pool: Option<OpenPool>,
    schema: &Schema,
    new: NewFields,
) -> Result<(esker_fields::FieldStore, String)> {
    let (at, label) = store_name::split(name, "tank/fields")?;
    let (pool, url) = pool.map_or_else(|| pool::connect(at, OpenMode::ReadWrite), Ok)?;
    let store = esker_fields::FieldStore::open_or_create_with(&pool, label, schema, new)?;
    let url = store_name::everywhere(&url, store.container());
    Ok((store, url))
}
