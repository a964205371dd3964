//! Pools, which hold containers.
use crate::attributes::{self, Attributes};
use crate::container::{Container, generate_oid};
use esker_backend::{self as backend, Capabilities, NewContainer};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker_types::{Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result, check_label};
use std::sync::Arc;

/// An open pool. Clones are cheap and share it.
#[derive(Clone)]
pub struct Pool {
    backend: Arc<dyn backend::Pool>,
    mode: OpenMode,
    /// The name by which it was opened, for commands in messages.
    name: Option<Arc<str>>,
}

impl Pool {
    /// Wraps a pool of any backend.
    #[must_use]
    pub fn from_backend(backend: Arc<dyn backend::Pool>, mode: OpenMode) -> Self {
        Self { backend, mode, name: None }
    }

    /// The pool of a container, open for writing if the container is.
    pub(crate) fn from_container(container: &Container) -> Self {
        let writable = container.is_writable();
        let mode = if writable { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        Self::from_backend(Arc::clone(container.pool()), mode)
    }

    /// Opens the pool with this label, UUID or URL (see [`crate::names`]).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is none, [`ErrorKind::Busy`] if exclusive use conflicts.
    pub fn connect(name: &str, mode: OpenMode) -> Result<Self> {
        let backend = crate::names::connect(name, mode)?;
        Ok(Self { name: Some(name.into()), ..Self::from_backend(backend, mode) })
    }

    /// Generates an object ID like [`Container::generate_oid`], for a container that does not exist yet.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the class does not fit the pool.
    pub fn generate_oid(
        &self,
        hi: u64,
        lo: u64,
        otype: ObjectType,
        class: Option<ObjectClass>,
        hints: u32,
    ) -> Result<ObjectId> {
        generate_oid(self.capabilities(), (hi, lo), otype, class, hints)
    }

    /// Capabilities of the backend.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    /// Number of nodes that store its objects; 1 unless it is a pool over nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.backend.nodes()
    }

    /// The backend's pool.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn backend::Pool> {
        &self.backend
    }

    /// The mode in which the pool was opened.
    #[must_use]
    pub fn mode(&self) -> OpenMode {
        self.mode
    }

    /// Name, space and state.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn info(&self) -> Result<PoolInfo> {
        self.backend.info().await
    }

    /// Creates a container.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the label or UUID is in use, [`ErrorKind::Invalid`] for a label that [`check_label`]
    /// rejects, [`ErrorKind::NoPermission`] if the pool is open read-only.
    pub async fn create_container(&self, new: &NewContainer<'_>) -> Result<ContainerInfo> {
        self.check_writable("create a container")?;
        new.label.map_or(Ok(()), check_label)?;
        self.backend.create_container(new).await
    }

    /// Opens a container by its label or UUID.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Busy`] if exclusive use conflicts; [`ErrorKind::NoPermission`] for
    /// writing if the pool is open read-only.
    pub async fn open_container(&self, name: &str, mode: OpenMode) -> Result<Container> {
        if mode != OpenMode::ReadOnly {
            self.check_writable("open a container for writing")?;
        }
        match self.backend.open_container(ContainerRef::parse(name), mode).await {
            Ok(opened) => Ok(Container::new(&self.backend, opened, mode)),
            Err(error) => Err(self.explain_error(name, error).await),
        }
    }

    /// Destroys a container, given by its label or UUID, with all its objects.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Busy`] if it is open and `force` is false; [`ErrorKind::NoPermission`]
    /// if the pool is open read-only.
    pub async fn destroy_container(&self, name: &str, force: bool) -> Result<()> {
        self.check_writable("destroy a container")?;
        match self.backend.destroy_container(ContainerRef::parse(name), force).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.explain_error(name, error).await),
        }
    }

    /// Explains the backend's error for a container. If the container does not exist, the message names the pool and a
    /// remedy.
    async fn explain_error(&self, name: &str, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let pool = self.name().await;
        let message = format!(
            "pool {pool} has no container {name:?}: `esker cont list {pool}` lists its containers"
        );
        Error::new(ErrorKind::NotFound, message)
    }

    /// The name that opens it on the command line, or its label if it was opened in another way.
    pub(crate) async fn name(&self) -> String {
        match &self.name {
            Some(name) => name.to_string(),
            None => self.info().await.map_or_else(|_| "POOL".to_owned(), |info| info.label),
        }
    }

    /// All containers, sorted by label.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn containers(&self) -> Result<Vec<ContainerInfo>> {
        self.backend.list_containers().await
    }

    /// The user attributes of the pool.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        self.metadata(attributes::USER)
    }

    /// The properties of the pool.
    #[must_use]
    pub fn properties(&self) -> Attributes {
        self.metadata(attributes::PROPERTY)
    }

    /// The attributes with this prefix, which can be changed unless the pool is open read-only.
    fn metadata(&self, prefix: &'static str) -> Attributes {
        Attributes::of_pool(&self.backend, prefix, self.mode != OpenMode::ReadOnly)
    }

    /// Fails with `NoPermission` if the pool is open read-only. `doing` names the action in the message.
    fn check_writable(&self, doing: &str) -> Result<()> {
        match self.mode {
            OpenMode::ReadOnly => Err(Error::new(
                ErrorKind::NoPermission,
                format!("cannot {doing}: the pool is open read-only"),
            )),
            _ => Ok(()),
        }
    }
}
