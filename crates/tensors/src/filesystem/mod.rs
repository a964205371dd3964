//! The tensors of a store as a file system: each named tensor is an HDF5 file, which is generated while it is read.
//!
//! [`mount`] returns an ordinary read-only [`Dfs`], so the mount, the interception library and the command line show
//! tensors too. Its container has a separate backend, which answers the reads of directories and files from the store.
//! docs/decisions/0048-tensors-as-files.md gives the reasons.

mod container;
mod fetch;
mod files;
mod ids;
pub mod limits;
mod places;
mod pool;

use crate::TensorStore;
use dfs::{Dfs, MountOptions, NewDfs};
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Pool, Wait};
use esker_backend::memory::Memory;
use files::Files;
use pool::Shown;
use std::sync::Arc;

/// Opens the pool and the container with these names, and mounts its file system or its tensors.
///
/// # Errors
/// The errors of [`Pool::connect`] and [`mount`].
pub fn open(pool: &str, container: &str, options: MountOptions) -> Result<Dfs> {
    mount(&Pool::connect(pool, mode(options))?, container, options)
}

/// Mounts the file system of a container, or its tensors as a read-only file system.
///
/// # Errors
/// The errors of [`Pool::open_container`], [`Dfs::mount`] and [`TensorStore::open`]; [`ErrorKind::Invalid`] if it holds
/// neither.
pub fn mount(pool: &Pool, label: &str, options: MountOptions) -> Result<Dfs> {
    let container = pool.open_container(label, mode(options)).wait()?;
    if !TensorStore::is_in(&container)? {
        return Dfs::mount(container, options).map_err(with_tensor_hint);
    }
    let store = TensorStore::open(pool, label, mode(options))?;
    show(match options.snapshot {
        Some(epoch) => store.at(epoch)?,
        None => store,
    })
}

/// The file system of a tensor store. A `/` in a name makes directories; names that cannot be those of files are not
/// shown.
///
/// # Errors
/// Errors of the backend.
pub fn show(store: TensorStore) -> Result<Dfs> {
    let info = store.container().info().clone();
    let label = Some(info.label.as_str()).filter(|label| !label.is_empty());
    // The file system stores its own data, apart from files, in memory.
    let memory = Memory::new(1);
    let plain = Pool::from_backend(Arc::new(memory.clone()), OpenMode::ReadWrite);
    let new = NewContainer::nameless().with_label(label).with_uuid(info.uuid);
    let made = NewDfs { root_mode: files::DIRECTORY_MODE, ..NewDfs::default() };
    Dfs::create_container(&plain, &new, &made)?;
    let uuid = info.uuid.to_string();
    // This mount only tells the object id of the root.
    let root = Dfs::mount(
        plain.open_container(&uuid, OpenMode::ReadOnly).wait()?,
        MountOptions { read_only: true, snapshot: None },
    )?
    .roots()
    .root;
    let shown = Shown::new(memory, Arc::new(Files::new(store, root)));
    let pool = Pool::from_backend(Arc::new(shown), OpenMode::ReadOnly);
    let container = pool.open_container(&uuid, OpenMode::ReadOnly).wait()?;
    Dfs::mount(container, MountOptions { read_only: true, snapshot: None })
}

/// Mode in which the container is opened.
fn mode(options: MountOptions) -> OpenMode {
    match options.read_only || options.snapshot.is_some() {
        true => OpenMode::ReadOnly,
        false => OpenMode::ReadWrite,
    }
}

/// Adds to the error for a container without a file system how tensors are stored.
fn with_tensor_hint(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Invalid => {
            let text = format!("{}, or store tensors with `esker tensor put`", error.message());
            Error::new(ErrorKind::Invalid, text)
        }
        _ => error,
    }
}
