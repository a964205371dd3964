//! The tensor store on objects of Esker: one container, in it a Key-Value of tensors, one of names, and for each
//! tensor an Array with its chunks.
mod check;
mod collect;
mod layout;
mod names;
mod pieces;
mod put;
mod read;
mod records;
mod tensor;
mod threads;
mod write;

pub use check::Checked;
pub use collect::Collected;
pub use names::{Listed, Located};
pub use put::{NewTensor, Put};
pub use tensor::Tensor;

use crate::limits::RESTARTS_MAX;
use esker::backend::NewContainer;
use esker::{Access, Container, Kv, Pool, Wait};
use esker_types::info::OpenMode;
use esker_types::{Epoch, Error, ErrorKind, Result};

/// A tensor store: tensors in a container of their own. Clones are cheap. Many threads may use one handle at a time,
/// and so may forked children.
#[derive(Clone)]
pub struct TensorStore {
    container: Container,
    tensors: Kv,
    names: Kv,
    /// The snapshot to read; `None` for the latest state.
    snapshot: Option<Epoch>,
}

impl TensorStore {
    /// Makes a store in a new container of `pool`.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if `label` is taken; errors of the backend.
    pub fn create(pool: &Pool, label: &str) -> Result<Self> {
        let metadata: [(&str, &[u8]); 1] =
            [(layout::FULL_VERSION, layout::LAYOUT_VERSION.as_bytes())];
        let new = NewContainer::named(label).with_metadata(&metadata);
        pool.create_container(&new).wait()?;
        Self::from_container(pool.open_container(label, OpenMode::ReadWrite).wait()?)
    }

    /// Opens a store.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the container does not exist, [`ErrorKind::Invalid`] if it holds no tensors,
    /// [`ErrorKind::Incompatible`] if a later release made it.
    pub fn open(pool: &Pool, label: &str, mode: OpenMode) -> Result<Self> {
        Self::open_in(pool.open_container(label, mode).wait().map_err(with_creation_hint)?)
    }

    /// Opens the store in an open container.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the container holds no tensors, [`ErrorKind::Incompatible`] if a later release made
    /// it.
    pub fn open_in(container: Container) -> Result<Self> {
        let label = &container.info().label;
        match container.properties().get(layout::VERSION).wait()? {
            Some(version) if version == layout::LAYOUT_VERSION.as_bytes() => {
                Self::from_container(container)
            }
            Some(_) => {
                let text = format!("container {label} holds tensors of a later release: use that");
                Err(Error::new(ErrorKind::Incompatible, text))
            }
            None => {
                let text = format!(
                    "container {label} holds no tensors: name an empty container, or a new one, which `esker tensor put` makes"
                );
                Err(Error::new(ErrorKind::Invalid, text))
            }
        }
    }

    /// Opens the store in an open container, or makes the container a store if it is empty. Concurrent callers write
    /// the same.
    ///
    /// # Errors
    /// The errors of [`TensorStore::open_in`]; errors of the backend.
    pub fn open_or_create_in(container: Container) -> Result<Self> {
        match Self::open_in(container.clone()) {
            Err(error) if error.kind() == ErrorKind::Invalid => {
                if container.holds_nothing().wait()? {
                    Self::begin_in(container)
                } else {
                    Err(error)
                }
            }
            other => other,
        }
    }

    /// True if a container holds tensors, of this or a later release.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn is_in(container: &Container) -> Result<bool> {
        Ok(container.properties().get(layout::VERSION).wait()?.is_some())
    }

    /// Opens a store, or creates it, also in an empty container. Safe to call concurrently: one caller creates it.
    ///
    /// # Errors
    /// The errors of [`TensorStore::open`] and [`TensorStore::create`].
    pub fn open_or_create(pool: &Pool, label: &str) -> Result<Self> {
        match Self::open(pool, label, OpenMode::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::Invalid => {
                return Self::open_or_create_in(
                    pool.open_container(label, OpenMode::ReadWrite).wait()?,
                );
            }
            other => return other,
        }
        match Self::create(pool, label) {
            Err(error) if error.kind() == ErrorKind::Exists => {
                Self::open(pool, label, OpenMode::ReadWrite)
            }
            other => other,
        }
    }

    /// Makes an empty container a store. Concurrent callers write the same.
    fn begin_in(container: Container) -> Result<Self> {
        let version = layout::LAYOUT_VERSION.as_bytes();
        container.properties().set(layout::VERSION, version).wait()?;
        Self::from_container(container)
    }

    fn from_container(container: Container) -> Result<Self> {
        let (tensors, names) = (layout::tensors(&container)?, layout::names(&container)?);
        Ok(Self { container, tensors, names, snapshot: None })
    }

    /// The store in the state of a snapshot of its container, for reading.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the container has no snapshot at `epoch`.
    pub fn at(&self, epoch: Epoch) -> Result<Self> {
        self.container.at(epoch).wait()?;
        Ok(Self { snapshot: Some(epoch), ..self.clone() })
    }

    /// The container it is in.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// The state that reads see: the snapshot, or the latest state.
    fn access(&self) -> Access<'static> {
        self.snapshot.map_or(Access::Latest, Access::Snapshot)
    }

    /// Runs `work` and applies its changes atomically; restarts on conflicts. Without transactions the changes are
    /// applied one by one. So `work` orders them such that a single one makes a tensor visible or invisible.
    fn atomically<T>(&self, work: impl Fn(Access<'_>) -> Result<T>) -> Result<T> {
        if !self.container.capabilities().transactions {
            return work(Access::Latest);
        }
        self.container.transact(RESTARTS_MAX, |transaction| work(Access::Tx(transaction)))
    }

    /// Fails with `NoPermission` on a snapshot.
    fn check_writable(&self) -> Result<()> {
        match self.snapshot {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::NoPermission,
                "a snapshot is read-only: change the latest state of the store",
            )),
        }
    }
}

/// Adds a hint on creating a store to the error for a missing container.
fn with_creation_hint(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => {
            let text = format!("{}; `esker tensor put` makes one with tensors", error.message());
            Error::new(ErrorKind::NotFound, text)
        }
        _ => error,
    }
}
