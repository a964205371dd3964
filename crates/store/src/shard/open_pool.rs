//! An open pool of one process: its targets, and the state that its handles share.
use super::Target;
use super::change::headroom_pages;
use super::container::Uses;
use crate::format::superblock::Superblock;
use crate::index::lmdb::read_only_error;
use crate::shared::control::Control;
use crate::shared::leases::Leases;
use esker_types::info::{OpenMode, PoolInfo, Space};
use esker_types::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An open pool of this process. All handles of the process share it, and it is closed with the last of them.
pub struct OpenPool {
    pub(crate) path: PathBuf,
    /// Superblock of the pool.
    pub superblock: Superblock,
    pub(crate) control: Arc<Control>,
    /// Targets of the pool.
    pub targets: Vec<Arc<Target>>,
    pub(crate) uses: Mutex<Uses>,
    pub(crate) handles: Mutex<Handles>,
    pub(crate) leases: Leases,
    /// True if space of destroyed containers or snapshots could not be freed, because of a commit over several nodes.
    pub(crate) has_unfreed_space: AtomicBool,
    /// Maximum number of stored decisions about commits over several nodes. Tests set a lower value than
    /// [`DECISIONS_MAX`](esker_types::limits::DECISIONS_MAX).
    pub(crate) decisions_max: AtomicU64,
    pub(crate) generation: u64,
    /// The last stamp of the indexes that this process recorded.
    pub(crate) stamped: AtomicU64,
    /// Flag that is set last when the pool is dropped.
    pub(crate) closed: Closed,
}

/// Handles of this process on the pool.
#[derive(Default)]
pub(crate) struct Handles {
    shared: u32,
    exclusive: bool,
}

/// Sets its flag when it is dropped, after all fields that are declared before it.
#[derive(Default)]
pub(crate) struct Closed(pub(crate) Arc<AtomicBool>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl OpenPool {
    /// Adds a handle on the pool.
    ///
    /// # Errors
    /// `Busy` if exclusive use conflicts.
    pub fn connect(&self, mode: OpenMode) -> Result<()> {
        if self.control.read_only && mode != OpenMode::ReadOnly {
            return Err(read_only_error(&self.path));
        }
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let exclusive = mode == OpenMode::Exclusive;
        let blocked = handles.exclusive || (exclusive && handles.shared > 0);
        if blocked || (handles.shared == 0 && !self.control.use_pool(Some(mode))?) {
            let message = format!("pool {} is in use, or in exclusive use", self.superblock.label);
            return Err(Error::new(ErrorKind::Busy, message));
        }
        handles.shared += 1;
        handles.exclusive = exclusive;
        Ok(())
    }

    /// Removes a handle on the pool.
    pub fn disconnect(&self) -> Result<()> {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.shared = handles.shared.saturating_sub(1);
        if handles.shared == 0 {
            handles.exclusive = false;
            self.control.use_pool(None)?;
        }
        Ok(())
    }

    /// Fails with `NoHandle` if the pool was destroyed since it was opened.
    ///
    /// # Errors
    /// `NoHandle`.
    pub fn check_alive(&self) -> Result<()> {
        self.control.expect_pool()
    }

    /// Label, space and properties of the pool.
    pub fn info(&self) -> Result<PoolInfo> {
        Ok(PoolInfo {
            uuid: self.superblock.uuid,
            label: self.superblock.label.clone(),
            url: format!("esker:{}", self.path.display()),
            targets: self.targets.iter().map(|target| self.space(target)).collect::<Result<_>>()?,
            medium: self.superblock.medium,
            durability: self.superblock.durability,
        })
    }

    fn space(&self, target: &Target) -> Result<Space> {
        let txn = target.index.read()?;
        let (used, total) = target.pages_counted(&txn)?;
        let bytes = txn.pages()?.bytes;
        Ok(Space {
            data_total: target.data_bytes(),
            data_free: target.free_data_bytes()?,
            index_total: total * bytes,
            index_free: total.saturating_sub(used + headroom_pages(total)) * bytes,
            is_shared: target.index_space.is_some(),
        })
    }

    /// Path of the pool.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
