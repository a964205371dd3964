//! Creation, mount, flush and unmount of file systems.
use crate::entry;
use crate::inode::Kind;
use crate::mount::{Dfs, MountOptions, Mounted};
use crate::orphans;
use crate::superblock::{self, FileRules, NewDfs, RELAXED, ROOT_NAME, Roots, Superblock};
use esker::backend::NewContainer;
use esker::types::info::{ContainerInfo, OpenMode};
use esker::types::{Error, ErrorKind, Result};
use esker::{Access, Container, Pool, Wait, check_label};

/// Creates the container. If the backend has fixed layouts (`fixed_layouts`), the container is created with the
/// properties of a file system, since they cannot be set later.
fn declare(pool: &Pool, container: &NewContainer<'_>, new: &NewDfs) -> Result<ContainerInfo> {
    if !pool.capabilities().fixed_layouts {
        return pool.create_container(container).wait();
    }
    let properties = superblock::properties(Roots::for_new_container(pool, &new.superblock()?)?);
    let properties = properties.map(|(name, value)| (format!("prop:{name}"), value));
    let mut metadata = container.metadata.to_vec();
    metadata.extend(properties.iter().map(|(name, value)| (name.as_str(), value.as_slice())));
    pool.create_container(&container.clone().with_metadata(&metadata)).wait()
}

/// Formats a new container and then gives it its label, by which other processes find it.
fn complete(pool: &Pool, name: &str, label: Option<&str>, new: &NewDfs) -> Result<()> {
    let container = pool.open_container(name, OpenMode::ReadWrite).wait()?;
    Dfs::format(&container, new)?;
    if label.is_some() {
        container.rename(label).wait()?;
    }
    container.close().wait()
}

/// Fails with `Exists` if a container has the label, before anything is created.
fn check_unused(pool: &Pool, label: &str) -> Result<()> {
    check_label(label)?;
    match pool.containers().wait()?.iter().any(|info| info.label == label) {
        true => Err(Error::new(ErrorKind::Exists, format!("container {label} already exists"))),
        false => Ok(()),
    }
}

/// On a backend with fixed layouts, fails unless the container was created with the properties of this file system.
fn check_declared(container: &Container, new: &NewDfs) -> Result<()> {
    if !container.capabilities().fixed_layouts {
        return Ok(());
    }
    let roots = Roots::from_superblock(container, &new.superblock()?)?;
    for (name, value) in superblock::properties(roots) {
        if container.properties().get(name).wait()?.as_deref() != Some(&value) {
            return Err(fixed_layout_error(container));
        }
    }
    Ok(())
}

impl Dfs {
    /// Creates a container with a file system (DAOS: `dfs_cont_create`). It gets its label at the end, so a process that
    /// finds it by its label can mount it. If this process is killed before, a container without a label is left.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the label is taken, [`ErrorKind::Invalid`] for invalid sizes or
    /// classes, [`ErrorKind::NotSupported`] if the pool has no transactions.
    pub fn create_container(
        pool: &Pool,
        container: &NewContainer<'_>,
        new: &NewDfs,
    ) -> Result<ContainerInfo> {
        let label = container.label;
        label.map_or(Ok(()), |label| check_unused(pool, label))?;
        let info = declare(pool, &container.clone().with_label(None), new)?;
        let name = info.uuid.to_string();
        match complete(pool, &name, label, new) {
            Ok(()) => Ok(ContainerInfo { label: label.unwrap_or_default().to_owned(), ..info }),
            Err(error) => {
                // The caller gets the first error: it says why the file system could not be created. If the reply to the
                // change of the label was lost, others may use the container, so it is not destroyed by force.
                let _ = pool.destroy_container(&name, false).wait();
                Err(error)
            }
        }
    }

    /// Creates a file system in a container that has none.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is one: of racing callers one wins; [`ErrorKind::NotSupported`] if the pool takes
    /// the layout of a container only when it creates it; else as [`Dfs::create_container`].
    pub fn format(container: &Container, new: &NewDfs) -> Result<()> {
        // Beginning a transaction shows whether the pool has them.
        container.transaction().map(drop).map_err(explain_no_transactions)?;
        check_declared(container, new)?;
        let has_marks = superblock::can_rely_on_stripe_marks(container)?;
        let roots = superblock::format(container, new)?;
        let properties = superblock::properties(roots);
        let mut changes: Vec<_> =
            properties.iter().map(|(name, value)| (*name, Some(value.as_slice()))).collect();
        if has_marks {
            changes.push((esker::STRIPE_MARKS, Some(&[1])));
        }
        if new.relaxed {
            changes.push((RELAXED, Some(&[1])));
        }
        container.properties().change(&changes).wait()
    }

    /// Opens the pool and the container with these names and mounts its file system.
    ///
    /// # Errors
    /// The errors of [`Pool::connect`], [`Pool::open_container`] and [`Dfs::mount`].
    pub fn open(pool: &str, container: &str, options: MountOptions) -> Result<Self> {
        let read_only = options.read_only || options.snapshot.is_some();
        let mode = if read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let container = Pool::connect(pool, mode)?.open_container(container, mode).wait()?;
        Self::mount(container, options)
    }

    /// Mounts the file system of an open container (DAOS: `dfs_mount`).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the container holds none, [`ErrorKind::NotFound`] for an unknown snapshot, or if its
    /// superblock or the entry of the root was removed, [`ErrorKind::NotSupported`] if the backend has no transactions.
    pub fn mount(container: Container, options: MountOptions) -> Result<Self> {
        container.transaction_read_only().map(drop).map_err(explain_no_transactions)?;
        let view = match options.snapshot {
            Some(epoch) => container.at(epoch).wait()?,
            None => Access::Latest,
        };
        let superblock = Superblock::read(&container, view)?;
        let roots = Roots::from_superblock(&container, &superblock)?;
        let root = entry::fetch(&container.object(roots.superblock), ROOT_NAME, view).wait()?;
        let root = root.filter(|root| root.kind == Kind::Directory).ok_or_else(no_root_error)?;
        let roots = roots.with_root(root.oid);
        let rules = FileRules::read(&container)?;
        let read_only = options.read_only
            || options.snapshot.is_some()
            || container.mode() == OpenMode::ReadOnly;
        let mut mounted = Mounted::new(container, (superblock, roots), (view, read_only), root);
        mounted.rules = rules;
        let fs = Self::new(mounted);
        if !read_only {
            orphans::sweep(&fs)?;
        }
        Ok(fs)
    }

    /// Stores the pending times of files and directories, and releases the leases of closed files. A few errors do not
    /// stop it, and the first one is returned at the end. After
    /// [`DEFERRED_FAILURES_MAX`](crate::limits::DEFERRED_FAILURES_MAX), the times of the other files or directories stay
    /// pending.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn flush(&self) -> Result<()> {
        let mounted = self.mounted();
        let results = [
            mounted.release_closed(),
            mounted.free_removed(),
            mounted.open_files.store_times(mounted.container()),
            mounted.times.store_all(mounted.container()),
        ];
        results.into_iter().collect()
    }
}

impl Drop for Mounted {
    /// Pending times are lost only if storing them fails, which a drop cannot report.
    fn drop(&mut self) {
        let _ = self.release_closed();
        let _ = self.free_removed();
        let _ = self.times.store_all(self.container());
    }
}

/// Explains the error of a pool that has no transactions.
fn explain_no_transactions(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotSupported => Error::new(
            ErrorKind::NotSupported,
            "a file system needs transactions, which this pool does not have; use a native pool",
        ),
        _ => error,
    }
}

/// The error for a container that cannot become a file system any more.
#[cold]
fn fixed_layout_error(container: &Container) -> Error {
    let info = container.info();
    let name = if info.label.is_empty() { info.uuid.to_string() } else { info.label.clone() };
    let message = format!(
        "container {name:?} was not created as this file system, and the layout of a container of DAOS cannot be set \
         later: create another with `esker cont create --type posix`"
    );
    Error::new(ErrorKind::NotSupported, message)
}

#[cold]
fn no_root_error() -> Error {
    let message = "the file system has no root directory; run `esker fs check --repair`";
    Error::new(ErrorKind::NotFound, message)
}
