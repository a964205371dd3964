//! Pools: where containers live.
use crate::attributes::{self, Attributes};
use crate::container::Container;
use esker_backend::{self as backend, Capabilities, NewContainer};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker_types::{Error, ErrorKind, Result, check_label};
use std::sync::Arc;

/// A pool that is open. Clones are cheap and share it.
#[derive(Clone)]
pub struct Pool {
    backend: Arc<dyn backend::Pool>,
    mode: OpenMode,
}

impl Pool {
    /// A pool on any backend.
    #[must_use]
    pub fn from_backend(backend: Arc<dyn backend::Pool>, mode: OpenMode) -> Self {
        Self { backend, mode }
    }

    /// Opens the pool of this label, UUID or URL (see [`crate::names`]).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none, [`ErrorKind::Busy`] where exclusive use stands
    /// against it.
    pub fn connect(name: &str, mode: OpenMode) -> Result<Self> {
        Ok(Self::from_backend(crate::names::connect(name, mode)?, mode))
    }

    /// What the backend can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    /// The backend itself.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn backend::Pool> {
        &self.backend
    }

    /// How the pool was opened.
    #[must_use]
    pub fn mode(&self) -> OpenMode {
        self.mode
    }

    /// Name, space and state.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn info(&self) -> Result<PoolInfo> {
        self.backend.info().await
    }

    /// Makes a container.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] where the label or UUID is taken, [`ErrorKind::Invalid`] for a label that
    /// [`check_label`] refuses, [`ErrorKind::NoPermission`] on a pool open for reading only.
    pub async fn create_container(&self, new: &NewContainer<'_>) -> Result<ContainerInfo> {
        self.check_writable("create a container")?;
        new.label.map_or(Ok(()), check_label)?;
        self.backend.create_container(new).await
    }

    /// Opens a container by its label or the text of its UUID.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Busy`] where exclusive use stands against it;
    /// [`ErrorKind::NoPermission`] for writing on a pool open for reading only.
    pub async fn open_container(&self, name: &str, mode: OpenMode) -> Result<Container> {
        if mode != OpenMode::ReadOnly {
            self.check_writable("open a container for writing")?;
        }
        match self.backend.open_container(ContainerRef::parse(name), mode).await {
            Ok(opened) => Ok(Container::new(&self.backend, opened, mode)),
            Err(error) => Err(self.about(name, error).await),
        }
    }

    /// Removes a container, by label or UUID, with all its objects.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Busy`] where it is open and `force` is not set;
    /// [`ErrorKind::NoPermission`] on a pool open for reading only.
    pub async fn destroy_container(&self, name: &str, force: bool) -> Result<()> {
        self.check_writable("destroy a container")?;
        match self.backend.destroy_container(ContainerRef::parse(name), force).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.about(name, error).await),
        }
    }

    /// What a backend said of a container; where there is none, with the name of the pool and what helps.
    async fn about(&self, name: &str, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let pool = self.info().await.map_or_else(|_| String::new(), |info| info.label);
        let message =
            format!("pool {pool} has no container {name:?}: `esker cont list` shows those it has");
        Error::new(ErrorKind::NotFound, message)
    }

    /// All containers, by label.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn containers(&self) -> Result<Vec<ContainerInfo>> {
        self.backend.list_containers().await
    }

    /// The attributes users keep with the pool.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        self.metadata(attributes::USER)
    }

    /// The properties kept with the pool.
    #[must_use]
    pub fn properties(&self) -> Attributes {
        self.metadata(attributes::PROPERTY)
    }

    fn metadata(&self, prefix: &'static str) -> Attributes {
        Attributes::of_pool(&self.backend, prefix, self.mode != OpenMode::ReadOnly)
    }

    fn check_writable(&self, doing: &str) -> Result<()> {
        match self.mode {
            OpenMode::ReadOnly => Err(Error::new(
                ErrorKind::NoPermission,
                format!("cannot {doing}: the pool is open for reading only"),
            )),
            _ => Ok(()),
        }
    }
}
