//! Containers.
use crate::array::{Array, Shape};
use crate::attributes::Attributes;
use crate::call::call;
use crate::errors;
use crate::kv::Kv;
use crate::pool::Pool;
use crate::snapshot::Snapshot;
use crate::text;
use crate::transaction::Transaction;
use crate::view::{At, View};
use dfs::{Dfs, NewDfs};
use esker::Wait;
use esker::backend::NewContainer;
use esker::types::info::{ContainerInfo, OpenMode};
use esker::types::ops::Anchor;
use esker::types::{Epoch, Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Number of objects listed at a time.
const LIST_BATCH: usize = 1024;

/// Name, mode and snapshot for reopening a container.
type Reopening = (String, &'static str, Option<u64>);

/// An open container. `Pool.container` and `Pool.create_container` return it.
///
/// It holds Key-Values and Arrays, each identified by a name or by an object id "HI.LO". A name refers to the same
/// object as in the command line tool.
#[pyclass(frozen, module = "esker")]
pub(crate) struct Container {
    pool: Py<Pool>,
    container: esker::Container,
    view: View,
}

impl Container {
    pub(crate) fn open(
        pool: &Bound<'_, Pool>,
        name: &str,
        mode: OpenMode,
        at: Option<At<'_>>,
    ) -> PyResult<Self> {
        let (py, opened) = (pool.py(), pool.get().opened(pool.py())?);
        let container = call(py, || opened.open_container(name, mode).wait())?;
        let view = View::open(py, &container, at)?;
        Ok(Self { pool: pool.clone().unbind(), container, view })
    }

    /// The same container with another view.
    pub(crate) fn viewing(py: Python<'_>, this: &Py<Self>, view: View) -> Self {
        let this = this.get();
        Self { pool: this.pool.clone_ref(py), container: this.container.clone(), view }
    }

    /// The snapshot it shows, if any.
    pub(crate) fn snapshot(&self) -> Option<Epoch> {
        match self.view {
            View::Snapshot(epoch) => Some(epoch),
            _ => None,
        }
    }

    pub(crate) fn client(&self) -> &esker::Container {
        &self.container
    }

    /// Its label, or its UUID without one.
    pub(crate) fn shown(&self) -> String {
        let info = self.container.info();
        if info.label.is_empty() { info.uuid.to_string() } else { info.label.clone() }
    }

    /// The id of the object with a name. With a class, nothing is read.
    fn find(&self, name: &str, otype: ObjectType, class: Option<ObjectClass>) -> Result<ObjectId> {
        self.container.find_named(name, otype, class, self.view.access()).wait()
    }
}

#[pymethods]
impl Container {
    /// Its pool.
    #[getter]
    fn pool(&self, py: Python<'_>) -> Py<Pool> {
        self.pool.clone_ref(py)
    }

    /// Its label; empty if it has none.
    #[getter]
    fn label(&self) -> &str {
        &self.container.info().label
    }

    /// Its UUID.
    #[getter]
    fn uuid(&self) -> String {
        self.container.info().uuid.to_string()
    }

    /// The mode it was opened with: "r", "rw" or "exclusive".
    #[getter]
    fn mode(&self) -> &'static str {
        text::mode_name(self.container.mode())
    }

    /// Its description: label, uuid, checksum, created (seconds since 1970, None if not known), handles.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        describe(py, &call(py, || self.container.query().wait())?)
    }

    /// Its user attributes.
    #[getter]
    fn attributes(slf: &Bound<'_, Self>) -> Attributes {
        Attributes::new(slf, slf.get().container.attributes())
    }

    /// The same container at a snapshot (a Snapshot, its epoch or its name), read-only, or in a transaction. None
    /// selects the latest state.
    #[pyo3(signature = (at))]
    fn at(slf: &Bound<'_, Self>, at: Option<At<'_>>) -> PyResult<Self> {
        let view = View::open(slf.py(), &slf.get().container, at)?;
        Ok(Self::viewing(slf.py(), slf.as_unbound(), view))
    }

    /// A Key-Value, by name or object id. It exists while it has a key.
    ///
    /// If it is given by name, `keys` determines how its keys compare: "hashed", "lexical" (listed in order on each
    /// target) or "integer"; `oclass` is its object class, such as "S1" or "SX". Without `oclass`, a name refers to
    /// the existing object with that name, whatever its class; with it, nothing is read.
    #[pyo3(signature = (name, *, keys = "hashed", oclass = None))]
    fn kv(slf: &Bound<'_, Self>, name: &str, keys: &str, oclass: Option<&str>) -> PyResult<Kv> {
        let (this, otype) = (slf.get(), text::kv_type(keys)?);
        let class = text::object_class(oclass)?;
        let found = || this.container.kv(this.find(name, otype, class)?);
        Ok(Kv::new(slf, name, call(slf.py(), found)?, this.view.clone()))
    }

    /// An existing Array, by name or object id.
    #[pyo3(signature = (name, *, oclass = None))]
    fn array(slf: &Bound<'_, Self>, name: &str, oclass: Option<&str>) -> PyResult<Array> {
        let (this, class) = (slf.get(), text::object_class(oclass)?);
        let found = || {
            let oid = this.find(name, ObjectType::Array, class)?;
            let array = this.container.open_array(oid, this.view.access()).wait();
            array.map_err(|error| named(name, error))
        };
        Ok(Array::new(slf, name, call(slf.py(), found)?, this.view.clone()))
    }

    /// Creates an Array.
    ///
    /// `cell_size` is in bytes, `chunk_size` in cells (a chunk is on one target; 1 MiB by default). With `exist_ok`
    /// an existing array is opened, whatever its sizes.
    #[pyo3(signature = (name, cell_size = 1, chunk_size = None, *, oclass = None, exist_ok = false))]
    fn create_array(
        slf: &Bound<'_, Self>,
        name: &str,
        cell_size: u64,
        chunk_size: Option<u64>,
        oclass: Option<&str>,
        exist_ok: bool,
    ) -> PyResult<Array> {
        let (this, class) = (slf.get(), text::object_class(oclass)?);
        let shape = Shape { cell_size, chunk_size, exist_ok };
        let made = || {
            // Without a class, `find` also takes an existing array of another class than the default.
            let oid = match exist_ok {
                true => this.find(name, ObjectType::Array, class)?,
                false => this.container.named_oid(name, ObjectType::Array, class)?,
            };
            let array = shape.create(&this.container, oid, this.view.access());
            array.map_err(|error| named(name, error))
        };
        Ok(Array::new(slf, name, call(slf.py(), made)?, this.view.clone()))
    }

    /// Ids of all its objects, in the latest state or its snapshot, without the catalog of names of `esker object
    /// list`.
    fn objects(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        call(py, || {
            let (mut anchor, mut ids) = (Anchor::Start, Vec::new());
            while !anchor.is_end() {
                let access = self.view.access();
                let some = self.container.list_objects(&mut anchor, LIST_BATCH, access).wait()?;
                let some = some.iter().filter(|oid| !esker::is_name_catalog(**oid));
                ids.extend(some.map(ToString::to_string));
            }
            Ok(ids)
        })
    }

    /// Reserves `count` consecutive numbers that no other user of the container gets, for object ids "0.NUMBER".
    /// Returns the first.
    #[pyo3(signature = (count = 1))]
    fn allocate_oids(&self, py: Python<'_>, count: u64) -> PyResult<u64> {
        call(py, || self.container.allocate_oids(count).wait())
    }

    /// Takes a snapshot. The name may be empty.
    #[pyo3(signature = (name = ""))]
    fn create_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<Snapshot> {
        let made = || {
            let epoch = self.container.create_snapshot(name).wait()?;
            Ok(esker::types::info::SnapshotInfo { epoch, name: name.to_owned() })
        };
        call(py, made).map(Snapshot::from_info)
    }

    /// Its snapshots, oldest first.
    fn snapshots(&self, py: Python<'_>) -> PyResult<Vec<Snapshot>> {
        let all = call(py, || self.container.snapshots().wait())?;
        Ok(all.into_iter().map(Snapshot::from_info).collect())
    }

    /// Destroys a snapshot and frees the data that only it referred to.
    fn destroy_snapshot(&self, py: Python<'_>, snapshot: &Snapshot) -> PyResult<()> {
        call(py, || self.container.destroy_snapshot(Epoch(snapshot.epoch)).wait())
    }

    /// A transaction, for use in a `with` statement. The commit of a read-only transaction verifies that everything
    /// it read was consistent.
    #[pyo3(signature = (*, read_only = false))]
    fn transaction(&self, py: Python<'_>, read_only: bool) -> PyResult<Transaction> {
        let transaction = call(py, || match read_only {
            true => self.container.transaction_read_only(),
            false => self.container.transaction(),
        });
        transaction.map(Transaction::new)
    }

    /// Calls `work(tx)` with a transaction, commits, and returns the result of `work`. If the commit conflicts with
    /// another transaction, calls `work` again with a new one, at most `attempts` times.
    #[pyo3(signature = (work, *, attempts = 100))]
    fn transact<'py>(
        &self,
        work: &Bound<'py, PyAny>,
        attempts: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = work.py();
        for _ in 0..attempts {
            match self.attempt(work) {
                Err(error) if errors::is_conflict(py, &error) => py.check_signals()?,
                other => return other,
            }
        }
        let message =
            format!("the transaction conflicted with others {attempts} times: try again later");
        Err(errors::raise(py, ErrorKind::TxRestart, message))
    }

    /// Closes it: all its handles fail from now on. Closing it twice is not an error.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.container.close().wait())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_details))]
    fn __exit__(&self, py: Python<'_>, _details: Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Pickles as URL and UUID, so that other processes can open it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reopening)> {
        let open = self.pool.bind(py).getattr("container")?;
        Ok((open, (self.uuid(), self.mode(), self.view.pickled()?)))
    }

    fn __repr__(&self) -> String {
        format!("<esker.Container {:?} in {:?}>", self.shown(), self.pool.get().name())
    }
}

impl Container {
    /// Calls `work` with a new transaction, and commits it unless `work` has ended it itself.
    fn attempt<'py>(&self, work: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = work.py();
        let transaction = Bound::new(py, self.transaction(py, false)?)?;
        let answer = work.call1((&transaction,))?;
        match transaction.get().shared().is_open() {
            true => transaction.get().commit(py).map(|()| answer),
            false => Ok(answer),
        }
    }
}

/// Creates a container, with a file system if `posix`, and returns its UUID. With `exist_ok`, returns the label if the
/// container exists.
pub(crate) fn create(
    pool: &esker::Pool,
    new: &NewContainer<'_>,
    posix: bool,
    exist_ok: bool,
) -> Result<String> {
    let made = match posix {
        true => Dfs::create_container(pool, new, &NewDfs::default()),
        false => pool.create_container(new).wait(),
    };
    match (made, new.label) {
        (Ok(info), _) => Ok(info.uuid.to_string()),
        (Err(error), Some(label)) if exist_ok && error.kind() == ErrorKind::Exists => {
            Ok(label.to_owned())
        }
        (Err(error), _) => Err(error),
    }
}

/// The description of a container as a dict.
pub(crate) fn describe<'py>(py: Python<'py>, info: &ContainerInfo) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    shown.set_item("label", &info.label)?;
    shown.set_item("uuid", info.uuid.to_string())?;
    shown.set_item("checksum", text::checksum_name(info.checksum))?;
    let created = info.creation().map(|created| created.unix_time().as_secs_f64());
    shown.set_item("created", created)?;
    shown.set_item("handles", info.handles)?;
    Ok(shown)
}

/// An error about an array, with the name that the caller gave instead of the object id derived from it.
fn named(name: &str, error: Error) -> Error {
    let text = match error.kind() {
        ErrorKind::NotFound => format!("array {name:?} does not exist"),
        ErrorKind::Exists => format!("array {name:?} already exists: exist_ok=True opens it"),
        kind => return Error::new(kind, format!("array {name:?}: {}", error.message())),
    };
    Error::new(error.kind(), text)
}
