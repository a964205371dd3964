//! The parts of tensor stores that do not need numpy; `esker/_tensors.py` adds the rest.
mod types;

use crate::buffer::{Readable, Writable};
use crate::call::call;
use crate::errors;
use crate::pool;
use crate::store_name::{self, OpenPool};
use crate::text;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_tensors::hdf5::{self, Source};
use esker_tensors::{NewTensor, Put, Slab, Strided};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// A store of immutable n-dimensional arrays, by name and UUID: TensorStore(store, mode="rw", label=None, create=True,
/// snapshot=None).
///
/// `store` is "POOL/CONTAINER", or a Pool with the `label` of one of its containers. A missing store is created unless
/// `create` is False or `mode` is "r". With `snapshot` (a name or an epoch), the store shows that state, for reading.
///
/// `put` stores a complete numpy array, `begin` starts a tensor whose parts many processes write, and `store[name]`
/// opens a tensor for reading. A store may be used by several threads, and in children made by fork.
#[pyclass(frozen, module = "esker")]
pub(crate) struct TensorStore {
    name: String,
    /// The name by which other processes find it.
    url: String,
    mode: OpenMode,
    snapshot: Option<String>,
    open: Mutex<Option<esker_tensors::TensorStore>>,
}

impl TensorStore {
    /// The open store. Its lock is only taken while the GIL is held, so it is never held during a fork.
    fn store(&self, py: Python<'_>) -> PyResult<esker_tensors::TensorStore> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| {
            let message = format!("tensor store {} is closed: open it again", self.name);
            errors::raise(py, ErrorKind::NoHandle, message)
        })
    }
}

/// The memory of an array: its bytes, the offset of the first element in them, and the strides.
type Memory = (Readable, u64, Vec<i64>);

/// The arguments that open a store again.
type Reduced = (String, &'static str, Option<String>, bool, Option<String>);

#[pymethods]
impl TensorStore {
    #[new]
    #[pyo3(signature = (store, mode = "rw", label = None, create = true, snapshot = None))]
    fn new(
        store: &Bound<'_, PyAny>,
        mode: &str,
        label: Option<&str>,
        create: bool,
        snapshot: Option<String>,
    ) -> PyResult<Self> {
        let (py, mode) = (store.py(), text::open_mode(mode)?);
        let create = create && mode != OpenMode::ReadOnly && snapshot.is_none();
        let (name, pool) = store_name::parse(store, label)?;
        let (store, url) = call(py, || open(&name, pool, mode, create, snapshot.as_deref()))?;
        Ok(Self { name, url, mode, snapshot, open: Mutex::new(Some(store)) })
    }

    /// Its name, "POOL/CONTAINER".
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The mode it was opened with: "r", "rw" or "exclusive".
    #[getter]
    fn mode(&self) -> &'static str {
        text::mode_name(self.mode)
    }

    /// Opens a tensor by its name or UUID. An open tensor does not change. Raises NotFound, which is a KeyError.
    fn open(slf: &Bound<'_, Self>, name: &str) -> PyResult<Tensor> {
        let (py, store) = (slf.py(), slf.get().store(slf.py())?);
        let tensor = call(py, || store.open_tensor(name))?;
        Ok(Tensor { store: slf.clone().unbind(), tensor })
    }

    /// The PUT with a token that `TensorPut.token` returned, in this or another process.
    fn resume(slf: &Bound<'_, Self>, token: &str) -> PyResult<TensorPut> {
        let (py, store) = (slf.py(), slf.get().store(slf.py())?);
        let put = call(py, || store.resume(token))?;
        Ok(TensorPut { store: slf.clone().unbind(), put })
    }

    /// Begins to store a tensor that is written in parts.
    #[pyo3(name = "_begin")]
    fn begin(
        slf: &Bound<'_, Self>,
        data_type: &Bound<'_, PyAny>,
        shape: Vec<u64>,
        chunks: Option<Vec<u64>>,
        attributes: &Bound<'_, PyDict>,
    ) -> PyResult<TensorPut> {
        let (py, store) = (slf.py(), slf.get().store(slf.py())?);
        let new = new_tensor(data_type, shape, chunks, attributes)?;
        let put = call(py, || store.begin(&new?))?;
        Ok(TensorPut { store: slf.clone().unbind(), put })
    }

    /// Stores a complete tensor from memory, which may have strides, and returns its UUID.
    #[pyo3(name = "_put")]
    fn put(
        slf: &Bound<'_, Self>,
        data_type: &Bound<'_, PyAny>,
        shape: Vec<u64>,
        chunks: Option<Vec<u64>>,
        attributes: &Bound<'_, PyDict>,
        memory: Memory,
        name: Option<&str>,
    ) -> PyResult<String> {
        let (py, store) = (slf.py(), slf.get().store(slf.py())?);
        let (memory, first, strides) = memory;
        let (new, bytes) = (new_tensor(data_type, shape, chunks, attributes)?, memory.bytes());
        let uuid = call(py, || {
            let new = new?;
            let item = new.data_type.size()?;
            let data = Strided::new(bytes, first, &new.shape, &strides, item)?;
            store.put(&new, &data, name)
        })?;
        Ok(uuid.to_string())
    }

    /// Stores a dataset of an HDF5 file; returns its UUID, and remarks about attributes.
    #[pyo3(name = "_put_hdf5")]
    fn put_hdf5(
        &self,
        py: Python<'_>,
        path: PathBuf,
        name: Option<&str>,
        dataset: Option<&str>,
        chunks: Option<Vec<u64>>,
    ) -> PyResult<(String, Vec<String>)> {
        let store = self.store(py)?;
        call(py, || {
            let source = Source::open(&path, dataset)?;
            let mut new = source.describe().clone();
            new.chunks = chunks.or(new.chunks);
            let uuid = source.store(&store, &new, name, &mut |_| {})?;
            let remarks = source.remarks().iter().map(ToString::to_string).collect();
            Ok((uuid.to_string(), remarks))
        })
    }

    /// All tensors, those with names first: a list of dicts with `uuid`, `name`, `shape`, `nbytes` and `stored`, the
    /// time in seconds since 1970. A warning names tensors that are not in it because they are damaged.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let store = self.store(py)?;
        let (listed, damaged) = call(py, || store.list_with_damaged())?;
        warn_of_damage(py, &damaged)?;
        let shown = listed.into_iter().map(|one| {
            let shown = PyDict::new(py);
            shown.set_item("uuid", one.uuid.to_string())?;
            shown.set_item("name", one.name)?;
            shown.set_item("shape", PyTuple::new(py, &one.shape)?)?;
            shown.set_item("nbytes", one.bytes)?;
            let since = one.committed.duration_since(UNIX_EPOCH).unwrap_or_default();
            shown.set_item("stored", since.as_secs_f64())?;
            Ok(shown)
        });
        shown.collect()
    }

    /// Gives a tensor another name, or its first. It replaces a tensor with that name.
    fn rename(&self, py: Python<'_>, name: &str, new_name: &str) -> PyResult<()> {
        let store = self.store(py)?;
        call(py, || store.rename(name, new_name))
    }

    /// Removes a tensor by its name or UUID. Processes that have it open can still read it.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let store = self.store(py)?;
        call(py, || store.remove(name).map(drop))
    }

    /// Frees PUTs that began at least `age` seconds ago and were never committed, and removed tensors that no process
    /// reads; returns their numbers. Without `doit`, only counts them.
    #[pyo3(signature = (age = 86400.0, doit = true))]
    fn collect<'py>(&self, py: Python<'py>, age: f64, doit: bool) -> PyResult<Bound<'py, PyDict>> {
        let store = self.store(py)?;
        let collected = call(py, || {
            let age = Duration::try_from_secs_f64(age).map_err(|error| {
                Error::new(ErrorKind::Invalid, format!("{age} is not an age in seconds: {error}"))
            })?;
            store.collect(age, doit)
        })?;
        let shown = PyDict::new(py);
        shown.set_item("puts", collected.puts)?;
        shown.set_item("removed", collected.removed)?;
        shown.set_item("objects", collected.objects)?;
        shown.set_item("kept", collected.kept)?;
        Ok(shown)
    }

    /// Checks the store and returns its problems, each in a sentence. With `data`, all elements are read.
    #[pyo3(signature = (data = false))]
    fn check(&self, py: Python<'_>, data: bool) -> PyResult<Vec<String>> {
        let store = self.store(py)?;
        Ok(call(py, || store.check(data))?.problems)
    }

    /// Closes it. Open tensors stay open.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        call(py, || {
            drop(open);
            Ok(())
        })
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        let store = self.store(py)?;
        call(py, || match store.open_tensor(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        })
    }

    fn __getitem__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Tensor> {
        Self::open(slf, name)
    }

    fn __delitem__(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.remove(py, name)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_details))]
    fn __exit__(&self, py: Python<'_>, _details: Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Pickles as the URL of its pool and its UUID, so that other processes can open it.
    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, Reduced) {
        let this = slf.get();
        let arguments = (this.url.clone(), this.mode(), None, false, this.snapshot.clone());
        (slf.get_type().into_any().unbind(), arguments)
    }

    fn __repr__(&self) -> String {
        format!("TensorStore({:?}, {:?})", self.name, self.mode())
    }
}

/// Warns of tensors that a listing lacks.
fn warn_of_damage(py: Python<'_>, damaged: &[String]) -> PyResult<()> {
    if damaged.is_empty() {
        return Ok(());
    }
    let text = format!("damaged tensors are not listed: {damaged:?}: run `esker tensor check`");
    let warning = py.get_type::<PyUserWarning>();
    PyErr::warn(py, &warning, &CString::new(text).unwrap_or_default(), 1)
}

/// The description of a tensor to store; the inner result is evaluated without the GIL.
fn new_tensor(
    data_type: &Bound<'_, PyAny>,
    shape: Vec<u64>,
    chunks: Option<Vec<u64>>,
    attributes: &Bound<'_, PyDict>,
) -> PyResult<Result<NewTensor>> {
    let data_type = types::data_type(data_type)?;
    let attributes = types::attributes(attributes)?;
    Ok(data_type.map(|data_type| NewTensor { data_type, shape, chunks, attributes }))
}

/// Opens a store by its name, in a pool that is already open or not. Also returns the name by which other processes find
/// it.
fn open(
    name: &str,
    pool: Option<OpenPool>,
    mode: OpenMode,
    create: bool,
    snapshot: Option<&str>,
) -> Result<(esker_tensors::TensorStore, String)> {
    use esker::Wait;
    let (at, label) = store_name::split(name, "tank/tensors")?;
    let (pool, url) = pool.map_or_else(|| pool::connect(at, mode), Ok)?;
    let store = match create {
        true => esker_tensors::TensorStore::open_or_create(&pool, label)?,
        false => esker_tensors::TensorStore::open(&pool, label, mode)?,
    };
    let url = store_name::everywhere(&url, store.container());
    match snapshot {
        Some(name) => Ok((store.at(store.container().find_snapshot(name).wait()?)?, url)),
        None => Ok((store, url)),
    }
}

/// A tensor, open for reading: `TensorStore.open`, or `store[name]`. It does not change.
///
/// It is indexed like a numpy array, with integers, slices (also with steps), `...` and None, and reads only the
/// selected elements: `tensor[10:20, ::2]`, `tensor[...]`. `numpy.asarray(tensor)` reads all of it.
#[pyclass(frozen, module = "esker")]
pub(crate) struct Tensor {
    store: Py<TensorStore>,
    tensor: esker_tensors::Tensor,
}

#[pymethods]
impl Tensor {
    /// Its store.
    #[getter]
    fn store(&self, py: Python<'_>) -> Py<TensorStore> {
        self.store.clone_ref(py)
    }

    /// Its UUID.
    #[getter]
    fn uuid(&self) -> String {
        self.tensor.uuid().to_string()
    }

    /// The name it had when it was opened, or None.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.tensor.name()
    }

    /// Its shape.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.grid().shape())
    }

    /// The shape of its chunks.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.grid().chunks())
    }

    /// Its attributes: a new dict.
    #[getter]
    fn attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        types::shown_attributes(py, self.tensor.attributes())
    }

    /// Bytes of its elements.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.tensor.grid().bytes()
    }

    /// The object id of the Array with its chunks, "HI.LO".
    #[getter]
    fn oid(&self) -> String {
        self.tensor.array().oid().to_string()
    }

    /// Writes the tensor to an HDF5 file, which has one dataset with its name, attributes and chunks. h5py, netCDF4 and
    /// other programs with HDF5 1.10 or later read it. It may be larger than the memory.
    ///
    /// With `virtual`, each chunk gets a file in the directory PATH.chunks, and the file at `path` a virtual dataset
    /// over them. Raises NotSupported if HDF5 cannot represent its type or an attribute.
    #[pyo3(signature = (path, r#virtual = false))]
    fn to_hdf5(&self, py: Python<'_>, path: PathBuf, r#virtual: bool) -> PyResult<()> {
        call(py, || match r#virtual {
            true => hdf5::write_virtual(&self.tensor, &path, &mut |_, _| {}).map(drop),
            false => hdf5::write(&self.tensor, &path, &mut |_, _| {}),
        })
    }

    #[pyo3(name = "_data_type")]
    fn data_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        types::shown_data_type(py, self.tensor.data_type())
    }

    /// Fills `buffer` with the elements of (start, step, count) of each dimension.
    #[pyo3(name = "_read_into")]
    fn read_into(
        &self,
        py: Python<'_>,
        slabs: Vec<(u64, u64, u64)>,
        mut buffer: Writable,
    ) -> PyResult<()> {
        let target = buffer.bytes();
        let slab = |(start, step, count)| Slab { start, step, count };
        let slabs: Vec<Slab> = slabs.into_iter().map(slab).collect();
        call(py, || self.tensor.read(&slabs, target))
    }

    /// Pickles as its store and UUID, so that other processes can open it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((self.store.bind(py).getattr("open")?, (self.uuid(),)))
    }

    fn __repr__(&self) -> String {
        let (grid, code) = (self.tensor.grid(), &self.tensor.data_type().code);
        let name = self.name().map_or_else(|| self.uuid(), |name| format!("{name:?}"));
        format!(
            "<esker.Tensor {name} of {code}, shape {:?}, chunks {:?}>",
            grid.shape(),
            grid.chunks()
        )
    }
}

/// A tensor that is being written: `TensorStore.begin` or `TensorStore.resume`. No reader sees it before `commit`.
///
/// It can be pickled, and children made by fork have it as well: any process may write parts.
#[pyclass(frozen, module = "esker")]
pub(crate) struct TensorPut {
    store: Py<TensorStore>,
    put: Put,
}

#[pymethods]
impl TensorPut {
    /// Its store.
    #[getter]
    fn store(&self, py: Python<'_>) -> Py<TensorStore> {
        self.store.clone_ref(py)
    }

    /// The UUID of the tensor.
    #[getter]
    fn uuid(&self) -> String {
        self.put.uuid().to_string()
    }

    /// A text for `TensorStore.resume`, in this or another process.
    #[getter]
    fn token(&self) -> String {
        self.put.token()
    }

    /// The shape of the tensor.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.put.grid().shape())
    }

    /// The shape of its chunks.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.put.grid().chunks())
    }

    #[pyo3(name = "_data_type")]
    fn data_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let data_type = call(py, || self.put.data_type())?;
        types::shown_data_type(py, data_type)
    }

    /// Writes a part of the tensor, of this shape at this offset, from memory that may have strides.
    #[pyo3(name = "_write")]
    fn write(
        &self,
        py: Python<'_>,
        offset: Vec<u64>,
        shape: Vec<u64>,
        memory: Memory,
    ) -> PyResult<()> {
        let (memory, first, strides) = memory;
        let bytes = memory.bytes();
        call(py, || {
            let item = self.put.grid().item();
            self.put.write(&offset, &Strided::new(bytes, first, &shape, &strides, item)?)
        })
    }

    /// Makes the tensor visible under `name`, or by its UUID only, and returns the UUID. It replaces a tensor with that
    /// name. Raises Invalid if parts overlap or are missing, each of which is named.
    #[pyo3(signature = (name = None))]
    fn commit(&self, py: Python<'_>, name: Option<&str>) -> PyResult<String> {
        Ok(call(py, || self.put.commit(name))?.to_string())
    }

    /// Aborts it and frees the written elements. All writers must be finished.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.put.abort())
    }

    /// Pickles as its store and token.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((self.store.bind(py).getattr("resume")?, (self.token(),)))
    }

    fn __repr__(&self) -> String {
        let grid = self.put.grid();
        format!(
            "<esker.TensorPut {}, shape {:?}, chunks {:?}>",
            self.uuid(),
            grid.shape(),
            grid.chunks()
        )
    }
}
