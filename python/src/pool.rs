//! Pools.
use crate::attributes::Attributes;
use crate::call::call;
use crate::container::{self, Container};
use crate::errors;
use crate::text;
use crate::view::At;
use esker::backend::NewContainer;
use esker::names::{self, Named};
use esker::types::info::{OpenMode, PoolInfo, Space};
use esker::types::{Error, ErrorKind, Result};
use esker::{PosixPool, PosixUrl, Wait};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// An open pool: Pool(name, mode="rw").
///
/// `name` is a label, a UUID, or a URL: `esker:/path/to/pool`, `posix:/path/to/pool` (plain files, in any file
/// system), `memory:name` (in this process only, created on first use). `mode` is "r", "rw" or "exclusive".
#[pyclass(frozen, module = "esker")]
pub(crate) struct Pool {
    name: String,
    /// Its URL, since another process may find another pool by a label.
    url: String,
    mode: OpenMode,
    /// None once it is closed.
    pool: Mutex<Option<esker::Pool>>,
}

/// The properties of a new pool, except its name.
#[derive(Default)]
struct Wanted {
    size: Option<u64>,
    directory: Option<PathBuf>,
    targets: Option<u32>,
    durability: Option<esker::types::info::Durability>,
    huge_pages: bool,
}

impl Pool {
    /// The pool. Its lock is only taken while the GIL is held, so it is never held during a fork.
    pub(crate) fn opened(&self, py: Python<'_>) -> PyResult<esker::Pool> {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.clone().ok_or_else(|| {
            let message = format!("pool {} is closed: open it again", self.name);
            errors::raise(py, ErrorKind::NoHandle, message)
        })
    }

    pub(crate) fn connect(py: Python<'_>, name: String, mode: OpenMode) -> PyResult<Self> {
        let (pool, url) = call(py, || connect(&name, mode))?;
        Ok(Self { name, url, mode, pool: Mutex::new(Some(pool)) })
    }
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (name, mode = "rw"))]
    fn new(py: Python<'_>, name: String, mode: &str) -> PyResult<Self> {
        Self::connect(py, name, text::open_mode(mode)?)
    }

    /// Creates a pool, reserves its space, and opens it.
    ///
    /// `size` is in bytes and includes its index; `dir` is its parent directory (by default the first of ESKER_POOLS,
    /// otherwise the user's data directory); `targets` defaults to one per core; `durability` is "process" or
    /// "commit"; with `huge_pages` all data is in huge pages, however long the kernel takes to provide them (in
    /// memory only). A name `posix:/path/NAME` creates a pool of plain files, which accepts only durability.
    #[staticmethod]
    #[pyo3(signature = (name, size = None, *, dir = None, targets = None, durability = None, huge_pages = false))]
    fn create(
        py: Python<'_>,
        name: &str,
        size: Option<u64>,
        dir: Option<PathBuf>,
        targets: Option<u32>,
        durability: Option<&str>,
        huge_pages: bool,
    ) -> PyResult<Self> {
        let durability = durability.map(text::durability).transpose()?;
        let wanted = Wanted { size, directory: dir, targets, durability, huge_pages };
        let url = call(py, || create(name, wanted))?;
        Self::connect(py, url, OpenMode::ReadWrite)
    }

    /// URLs of the pools in the pool directories (see ESKER_POOLS), sorted by path.
    #[staticmethod]
    fn list(py: Python<'_>) -> PyResult<Vec<String>> {
        call(py, || {
            let native =
                names::list().into_iter().map(|(path, _)| format!("esker:{}", path.display()));
            let files = names::list_posix().into_iter();
            let files = files.map(|(path, _)| format!("posix:{}", path.display()));
            let nodes = names::list_nodes().into_iter();
            let nodes = nodes.map(|(path, _)| format!("nodes:{}", path.display()));
            Ok(native.chain(files).chain(nodes).collect())
        })
    }

    /// Removes a pool with its content; with `force`, even if processes use it.
    #[staticmethod]
    #[pyo3(signature = (name, *, force = false))]
    fn destroy(py: Python<'_>, name: &str, force: bool) -> PyResult<()> {
        call(py, || match names::resolve(name)? {
            Named::Posix(url) => PosixPool::destroy(&url.path),
            Named::Native(path) => esker_store::Pool::destroy(&path, force),
            Named::Nodes(path) => {
                let message = format!(
                    "{} is the map of a pool over nodes: `esker pool destroy` destroys it on all of them",
                    path.display()
                );
                Err(Error::new(ErrorKind::NotSupported, message))
            }
        })
    }

    /// The name it was opened by.
    #[getter]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The URL by which other processes can open it.
    #[getter]
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The mode it was opened with: "r", "rw" or "exclusive".
    #[getter]
    fn mode(&self) -> &'static str {
        text::mode_name(self.mode)
    }

    /// Its description: label, uuid, url, medium, durability, targets, and its space in bytes.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pool = self.opened(py)?;
        describe(py, &call(py, || pool.info().wait())?)
    }

    /// Its user attributes.
    #[getter]
    fn attributes(slf: &Bound<'_, Self>) -> PyResult<Attributes> {
        Ok(Attributes::new(slf, slf.get().opened(slf.py())?.attributes()))
    }

    /// Opens a container by its label or UUID.
    ///
    /// `mode` is that of the pool by default; `at` (a Snapshot, its epoch or its name) shows that state instead of
    /// the latest.
    #[pyo3(signature = (name, mode = None, at = None))]
    fn container<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
        mode: Option<&str>,
        at: Option<At<'py>>,
    ) -> PyResult<Container> {
        let mode = mode.map_or(Ok(slf.get().mode), text::open_mode)?;
        Container::open(slf, name, mode, at)
    }

    /// Creates a container and opens it.
    ///
    /// Without a label it is identified by its UUID. `checksum` is "crc32c", "crc64" or "off"; with `exist_ok` an
    /// existing container is opened; with `posix` it holds a file system (see FileSystem).
    #[pyo3(signature = (label = None, *, checksum = "crc32c", posix = false, exist_ok = false))]
    fn create_container(
        slf: &Bound<'_, Self>,
        label: Option<&str>,
        checksum: &str,
        posix: bool,
        exist_ok: bool,
    ) -> PyResult<Container> {
        let new =
            NewContainer::nameless().with_label(label).with_checksum(text::checksum(checksum)?);
        let (py, pool) = (slf.py(), slf.get().opened(slf.py())?);
        let name = call(py, || container::create(&pool, &new, posix, exist_ok))?;
        Container::open(slf, &name, pool.mode(), None)
    }

    /// Descriptions of its containers, sorted by label.
    fn containers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let pool = self.opened(py)?;
        let all = call(py, || pool.containers().wait())?;
        all.iter().map(|info| container::describe(py, info)).collect()
    }

    /// Destroys a container with all its objects; with `force`, even if it is open.
    #[pyo3(signature = (name, *, force = false))]
    fn destroy_container(&self, py: Python<'_>, name: &str, force: bool) -> PyResult<()> {
        let pool = self.opened(py)?;
        call(py, || pool.destroy_container(name, force).wait())
    }

    /// Closes it. Open containers stay open.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner).take();
        call(py, || {
            drop(pool);
            Ok(())
        })
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_details))]
    fn __exit__(&self, py: Python<'_>, _details: Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Pickles as its URL.
    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, (String, &'static str)) {
        let this = slf.get();
        (slf.get_type().into_any().unbind(), (this.url.clone(), this.mode()))
    }

    fn __repr__(&self) -> String {
        format!("Pool({:?}, {:?})", self.name, self.mode())
    }
}

/// Opens the pool with a name, and returns it with its URL.
pub(crate) fn connect(name: &str, mode: OpenMode) -> Result<(esker::Pool, String)> {
    let url = url_of(name)?;
    Ok((esker::Pool::connect(&url, mode)?, url))
}

/// The URL of the pool with a name. A name that is a URL may have options, which stay.
fn url_of(name: &str) -> Result<String> {
    if name.contains(':') {
        return Ok(name.to_owned());
    }
    let (scheme, path) = match names::resolve(name)? {
        Named::Posix(url) => ("posix", url.path),
        Named::Native(path) => ("esker", path),
        Named::Nodes(path) => ("nodes", path),
    };
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(format!("{scheme}:{}", path.display()))
}

/// Creates a pool and returns its URL.
fn create(name: &str, wanted: Wanted) -> Result<String> {
    match PosixUrl::parse(name)? {
        Some(url) => create_files(&url, &wanted),
        None => reserve(name, wanted),
    }
}

/// Creates a pool of plain files and returns its URL.
fn create_files(url: &PosixUrl, wanted: &Wanted) -> Result<String> {
    let given = [wanted.size.is_some(), wanted.directory.is_some(), wanted.targets.is_some()];
    if given.contains(&true) || wanted.huge_pages {
        let message = "a posix pool has no size, directory, targets or huge pages, because it reserves nothing: \
             omit them";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let durable = wanted.durability == Some(esker::types::info::Durability::Commit);
    PosixPool::create(&url.path, durable || url.fsync == Some(true))?;
    Ok(format!("posix:{}", url.path.canonicalize().unwrap_or_else(|_| url.path.clone()).display()))
}

/// Creates a pool that reserves its space, and returns its URL.
fn reserve(label: &str, wanted: Wanted) -> Result<String> {
    let Some(size) = wanted.size else {
        let message = "the size of the pool is missing: pass a size in bytes, for example 4 << 30";
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let spec = esker_store::PoolSpec {
        targets: wanted.targets,
        durability: wanted.durability,
        huge_pages: wanted.huge_pages,
        ..esker_store::PoolSpec::new(label, size)
    };
    let directory = wanted.directory.map_or_else(names::new_pool_directory, Ok)?;
    let pool = esker_store::Pool::create(&directory, &spec, &mut |_, _| {})?;
    let directory = directory.canonicalize().unwrap_or(directory);
    Ok(format!("esker:{}", directory.join(pool.label).display()))
}

fn describe<'py>(py: Python<'py>, info: &PoolInfo) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    shown.set_item("label", &info.label)?;
    shown.set_item("uuid", info.uuid.to_string())?;
    shown.set_item("url", &info.url)?;
    shown.set_item("medium", text::medium_name(info.medium))?;
    shown.set_item("durability", text::durability_name(info.durability))?;
    shown.set_item("targets", info.targets.len())?;
    let sum = |of: fn(&Space) -> u64| info.targets.iter().map(of).sum::<u64>();
    shown.set_item("data_total_bytes", sum(|space| space.data_total))?;
    shown.set_item("data_free_bytes", sum(|space| space.data_free))?;
    shown.set_item("index_total_bytes", sum(|space| space.index_total))?;
    shown.set_item("index_free_bytes", sum(|space| space.index_free))?;
    Ok(shown)
}
