//! Stores of fields.
mod archive;
mod ask;
mod field;
pub(crate) mod grib;
mod request;
mod watch;

pub(crate) use archive::finish_fields;
pub(crate) use field::{Field, Fields};
pub(crate) use watch::Watch;

use crate::call::call;
use crate::errors;
use crate::pool::Pool;
use crate::text;
use archive::{Archiver, Source, unflushed};
use ask::Counts;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::Schema;
use pyo3::exceptions::{PyResourceWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use request::Wanted;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

/// A store of weather and climate fields by key: FieldStore(store, mode="rw", label=None, schema=None,
/// create=True, flush_on_close=False).
///
/// `store` is "POOL/CONTAINER", or a Pool with the `label` of a container in it. It is made where it is not
/// there, unless `create` is False or `mode` "r"; a new one has the keys of `schema`, a text in FDB's schema
/// language, else those of MARS. What is archived becomes visible at `flush`, all at one moment. What is not flushed
/// when the store is closed or the interpreter ends is lost, with a warning, unless `flush_on_close`. In a `with`
/// statement it is flushed at a clean end and discarded where an exception leaves it; then it is closed.
///
/// A request is a dict such as {"class": "od", "step": [0, 6], "levelist": "850/to/500/by/50"}, or a text in
/// the MARS language; names it leaves out may have any value. A store may be used by many threads, and in
/// children made by fork: what the parent archived and did not flush is the parent's alone.
#[pyclass(frozen, module = "esker")]
pub(crate) struct FieldStore {
    name: String,
    mode: OpenMode,
    flush_on_close: bool,
    /// None once it is closed.
    open: Mutex<Option<Open>>,
}

/// The arguments that open it again.
type Reduced = (String, &'static str, Option<String>, Option<String>, bool, bool);

#[derive(Clone)]
struct Open {
    store: esker_fields::FieldStore,
    archiver: Arc<Archiver>,
}

impl FieldStore {
    /// What is open. The lock is never held without that of the interpreter, so no fork finds it taken.
    fn opened(&self, py: Python<'_>) -> PyResult<Open> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.as_mut().ok_or_else(|| {
            let message = format!("field store {} is closed: open it anew", self.name);
            errors::raise(py, ErrorKind::NoHandle, message)
        })?;
        if open.archiver.is_inherited() {
            open.archiver = open.archiver.anew();
        }
        Ok(open.clone())
    }

    fn store(&self, py: Python<'_>) -> PyResult<esker_fields::FieldStore> {
        Ok(self.opened(py)?.store)
    }

    /// Ends this use of it; how much of it was not flushed.
    fn end(&self, py: Python<'_>) -> PyResult<(usize, u64)> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        call(py, || {
            let lost = open.as_ref().map_or(Ok((0, 0)), |open| open.archiver.finish());
            drop(open);
            lost
        })
    }

    /// As [`FieldStore::end`], with a warning where something is lost.
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
    /// Nobody can be told but by a warning.
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
    #[pyo3(signature = (store, mode = "rw", label = None, schema = None, create = true, flush_on_close = false))]
    fn new(
        store: &Bound<'_, PyAny>,
        mode: &str,
        label: Option<&str>,
        schema: Option<&str>,
        create: bool,
        flush_on_close: bool,
    ) -> PyResult<Self> {
        let (py, mode) = (store.py(), text::open_mode(mode)?);
        let create = create && mode != OpenMode::ReadOnly;
        let (name, pool) = match store.cast::<Pool>() {
            Ok(pool) => {
                (format!("{}/{}", pool.get().name(), wanted(label)?), Some(pool.get().opened(py)?))
            }
            Err(_) => (named(store, label)?, None),
        };
        let store = call(py, || open(&name, pool, mode, schema, create))?;
        let archiver = Archiver::new(&store, flush_on_close);
        Ok(Self { name, mode, flush_on_close, open: Mutex::new(Some(Open { store, archiver })) })
    }

    /// Its name, "POOL/CONTAINER".
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// How it was opened: "r", "rw" or "exclusive".
    #[getter]
    fn mode(&self) -> &'static str {
        text::mode_name(self.mode)
    }

    /// What its keys must look like, in FDB's schema language.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.store(py)?.schema().text().to_owned())
    }

    /// Archives fields and returns how many. Their bytes are stored when it returns; `flush` shows them.
    ///
    /// With a `key` (a dict, or a text such as "class=od,date=20240610,...") `data` is one field: bytes or
    /// any buffer, a path, or a file open for reading. Without one it is GRIB, and each field of each
    /// message is archived under the key that ecCodes tells; fields without MARS labels are filed under
    /// class=unknown, expver=0001, stream=unknown and type=unknown. Damaged messages are left out: all
    /// others are archived, then the first damage is raised as an exception that names message and byte.
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

    /// Makes visible what was archived since the last flush: all of it at one moment, or nothing.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let archiver = self.opened(py)?.archiver;
        call(py, || archiver.flush())
    }

    /// Forgets what was archived since the last flush.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        let archiver = self.opened(py)?.archiver;
        call(py, || archiver.discard())
    }

    /// Fields archived since the last flush, and their bytes.
    #[getter]
    fn pending(&self, py: Python<'_>) -> PyResult<(usize, u64)> {
        let archiver = self.opened(py)?.archiver;
        call(py, || archiver.pending())
    }

    /// The fields of a request, in its order: its last name changes fastest.
    ///
    /// NotFound, which is a KeyError, names fields that are missing; with `partial` those that are there
    /// come, and `.missing` names others. Nothing is read before the field is asked for it.
    #[pyo3(signature = (request, *, partial = false))]
    fn retrieve(
        slf: &Bound<'_, Self>,
        request: &Bound<'_, PyAny>,
        partial: bool,
    ) -> PyResult<Fields> {
        let (py, store, wanted) = asked(slf, Some(request))?;
        let found = call(py, || ask::find(&store, wanted, partial))?;
        Ok(Fields::new(slf, found))
    }

    /// The fields that match a request, all where there is none, by key. With `masked`, those that later
    /// ones took the place of.
    #[pyo3(signature = (request = None, *, masked = false))]
    fn list(
        slf: &Bound<'_, Self>,
        request: Option<&Bound<'_, PyAny>>,
        masked: bool,
    ) -> PyResult<Fields> {
        let (py, store, wanted) = asked(slf, request)?;
        let found = call(py, || ask::list(&store, wanted, masked))?;
        Ok(Fields::new(slf, found))
    }

    /// What the store has of a request: as `retrieve` with `partial`, but something must be there.
    fn inspect(slf: &Bound<'_, Self>, request: &Bound<'_, PyAny>) -> PyResult<Fields> {
        let found = Self::retrieve(slf, request, true)?;
        match found.is_empty() {
            true => Self::retrieve(slf, request, false),
            false => Ok(found),
        }
    }

    /// The values that the fields of a request have, by name, each sorted by its type.
    #[pyo3(signature = (request = None))]
    fn axes<'py>(
        slf: &Bound<'py, Self>,
        request: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, request)?;
        let axes = call(py, || ask::axes(&store, wanted))?;
        let shown = PyDict::new(py);
        axes.into_iter().try_for_each(|(name, values)| shown.set_item(name, values))?;
        Ok(shown)
    }

    /// What the fields of a request come to: databases, indexes, fields, bytes, and what is adopted from
    /// files or masked by later fields.
    #[pyo3(signature = (request = None))]
    fn stats<'py>(
        slf: &Bound<'py, Self>,
        request: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, request)?;
        counted(py, &call(py, || ask::stats(&store, wanted))?)
    }

    /// Removes the fields of a request, masked ones too, and says how many and of how many bytes. Without
    /// `doit` it only says so. The request must name the databases it means.
    #[pyo3(signature = (request, doit = false))]
    fn wipe<'py>(
        slf: &Bound<'py, Self>,
        request: &Bound<'py, PyAny>,
        doit: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, Some(request))?;
        counted(py, &call(py, || ask::wipe(&store, wanted, doit))?)
    }

    /// Gives back the room of fields that later ones mask, and of what writers left that are gone; says how
    /// many and of how many bytes. Without `doit` it only says so.
    #[pyo3(signature = (request = None, doit = false))]
    fn purge<'py>(
        slf: &Bound<'py, Self>,
        request: Option<&Bound<'py, PyAny>>,
        doit: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, store, wanted) = asked(slf, request)?;
        counted(py, &call(py, || ask::purge(&store, wanted, doit))?)
    }

    /// Yields each field of a request once it is flushed, by any process, and again where it is archived
    /// anew; with `existing` those that are there come first. It ends where none comes for `timeout` seconds.
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

    /// Closes it. What was not flushed is flushed with `flush_on_close`, else lost, with a ResourceWarning; `discard`
    /// first says that it is meant so. Fields that were retrieved can still be read.
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

    /// Found again by name, in another process too; what was not flushed stays here.
    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, Reduced) {
        let this = slf.get();
        let arguments = (this.name.clone(), this.mode(), None, None, false, this.flush_on_close);
        (slf.get_type().into_any().unbind(), arguments)
    }

    fn __repr__(&self) -> String {
        format!("FieldStore({:?}, {:?})", self.name, self.mode())
    }
}

/// What every question needs.
fn asked<'py>(
    store: &Bound<'py, FieldStore>,
    request: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Python<'py>, esker_fields::FieldStore, Wanted)> {
    let py = store.py();
    Ok((py, store.get().store(py)?, Wanted::of(request)?))
}

fn counted<'py>(py: Python<'py>, rows: &Counts) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    rows.iter().try_for_each(|(name, count)| shown.set_item(name, count))?;
    Ok(shown)
}

fn wanted(label: Option<&str>) -> PyResult<&str> {
    label.ok_or_else(|| PyTypeError::new_err("which container of the pool? give its label="))
}

fn named(store: &Bound<'_, PyAny>, label: Option<&str>) -> PyResult<String> {
    let name: String = store
        .extract()
        .map_err(|_| PyTypeError::new_err("a store is \"POOL/CONTAINER\", or a Pool and label="))?;
    Ok(label.map_or(name.clone(), |label| format!("{name}/{label}")))
}

/// Opens a store by its name, in a pool that is open already or not.
fn open(
    name: &str,
    pool: Option<esker::Pool>,
    mode: OpenMode,
    schema: Option<&str>,
    create: bool,
) -> Result<esker_fields::FieldStore> {
    let Some((place, label)) =
        name.rsplit_once('/').filter(|(pool, label)| !pool.is_empty() && !label.is_empty())
    else {
        let text = format!("{name:?} names no container: give POOL/CONTAINER, as in tank/fields");
        return Err(Error::new(ErrorKind::Invalid, text));
    };
    let pool = pool.map_or_else(|| esker::Pool::connect(place, mode), Ok)?;
    match create {
        true => {
            let schema =
                schema.map_or_else(Schema::default_mars, |text| Schema::parse(text, "schema"))?;
            esker_fields::FieldStore::open_or_create(&pool, label, &schema)
        }
        false => esker_fields::FieldStore::open(&pool, label, mode),
    }
}
