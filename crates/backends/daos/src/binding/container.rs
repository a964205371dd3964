//! Open containers: properties, object ids, snapshots.
use crate::binding::attributes::{Attributes, Owner, Table};
use crate::binding::call::{Calls, End, NewHandle};
use crate::binding::failure::{self, Request};
use crate::binding::layout::{
    ALLOCATED, CHECKSUM, LABEL, LAYOUT_TYPE, RawAnchor, RawContainerInfo, RawEpochs, RawHandle,
};
use crate::binding::library::{Ev, Functions, c_string};
use crate::binding::pool::{Connection, flag};
use crate::binding::property::{Asked, Setting};
use esker_types::info::OpenMode;
use esker_types::{ErrorKind, Result, Uuid};
use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// `DAOS_COO_RO_MDSTATS`: opening leaves the times of the container as they are.
const UNTIMED: u32 = 0x10;

/// Number of snapshots for which the first call of a listing has a buffer.
const SNAPSHOTS: usize = 64;

/// Mode in which a container is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerMode {
    /// The mode of a user.
    Use(OpenMode),
    /// Read-only, without a change of the times of the container.
    Look,
}

/// An open container. It is closed by [`Container::close`], or when its last clone and all objects and transactions in
/// it are dropped.
#[derive(Clone)]
pub struct Container(pub(crate) Arc<ContainerHandle>);

pub(crate) struct ContainerHandle {
    pub(crate) calls: Calls,
    pub(crate) handle: RawHandle,
    closed: AtomicBool,
    pool: Arc<Connection>,
}

impl Owner for ContainerHandle {
    fn handle(&self) -> RawHandle {
        self.handle
    }
}

impl Drop for ContainerHandle {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Acquire) {
            self.calls.leave(self.handle, close, Arc::clone(&self.pool));
        }
    }
}

/// The function of DAOS that closes a container.
fn close(functions: &Functions) -> End {
    functions.daos_cont_close
}

/// The result of a query of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its id.
    pub uuid: Uuid,
    /// Its label, as DAOS stores it.
    pub label: String,
    /// Its checksum (`DAOS_PROP_CO_CSUM_*`).
    pub checksum: u64,
    /// Its layout (`DAOS_PROP_CO_LAYOUT_*`): 1 for files.
    pub layout: u64,
    /// The ids of the first objects of a file system.
    pub roots: Option<[u8; 64]>,
    /// All object numbers below this one are allocated. DAOS may report an older value.
    pub allocated: u64,
    /// Open handles of all clients.
    pub handles: u32,
    /// Epoch of the last change of its metadata.
    pub changed: u64,
}

/// Arguments of opening a container.
struct Opening {
    name: CString,
    handle: NewHandle,
    _pool: Arc<Connection>,
}

/// Arguments of a query.
struct Query {
    info: RawContainerInfo,
    asked: Asked,
    _container: Arc<ContainerHandle>,
}

/// Arguments of listing snapshots.
struct Snapshots {
    epochs: Vec<u64>,
    count: c_int,
    anchor: RawAnchor,
    _container: Arc<ContainerHandle>,
}

/// A number that a call sets, and the container that it needs.
type Number = (u64, Arc<ContainerHandle>);

impl Container {
    /// Opens a container of DAOS. A container that is only looked at is opened read-only, and its times do not change.
    pub(crate) async fn open(
        pool: &Arc<Connection>,
        name: &str,
        mode: ContainerMode,
    ) -> Result<Self> {
        let (calls, parent) = (pool.calls, pool.handle);
        let flags = match mode {
            ContainerMode::Use(mode) => flag(mode),
            ContainerMode::Look => flag(OpenMode::ReadOnly) | UNTIMED,
        };
        let name_text = c_string(name)?;
        let handle = NewHandle::new(calls, close);
        let owned = Opening { name: name_text, handle, _pool: Arc::clone(pool) };
        // SAFETY: the arguments live until the call is done, which sets the handle.
        let launch = |functions: &Functions, it: &mut Opening, event: Ev| unsafe {
            let (open, handle) = (functions.daos_cont_open2, it.handle.as_mut_ptr());
            open(parent, it.name.as_ptr(), flags, handle, ptr::null_mut(), event)
        };
        let doing = format!("opening container {name:?}");
        let opened = calls.run_checked(Request::Open.doing(&doing), owned, launch).await?;
        let (handle, closed) = (opened.handle.take(), AtomicBool::new(false));
        Ok(Self(Arc::new(ContainerHandle { calls, handle, closed, pool: Arc::clone(pool) })))
    }

    /// Closes it. A container that was destroyed meanwhile is closed already. After an error it is still open, and the
    /// last drop closes it.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn close(&self) -> Result<()> {
        if self.0.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let outcome = self.send_close().await;
        if outcome.is_err() {
            self.0.closed.store(false, Ordering::Release);
        }
        outcome
    }

    /// Has DAOS close the handle.
    async fn send_close(&self) -> Result<()> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        // SAFETY: the handle is open.
        let launch = |functions: &Functions, _: &mut Arc<ContainerHandle>, event: Ev| unsafe {
            (functions.daos_cont_close)(handle, event)
        };
        let doing = Request::Query.doing("closing a container");
        let (code, _) = calls.run(doing, 0, Arc::clone(&self.0), launch).await?;
        match failure::kind_of(code, doing.request) {
            ErrorKind::NoHandle | ErrorKind::NotFound => Ok(()),
            _ => failure::check(code, doing),
        }
    }

    /// The properties of the container.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn query(&self) -> Result<Opened> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        let asked = Asked::of_container(calls.functions())?;
        let info = RawContainerInfo::default();
        let owned = Query { info, asked, _container: Arc::clone(&self.0) };
        // SAFETY: the arguments live until the call is done, which fills them.
        let launch = |functions: &Functions, it: &mut Query, event: Ev| unsafe {
            (functions.daos_cont_query)(handle, &raw mut it.info, it.asked.raw, event)
        };
        let Query { info, asked, .. } =
            calls.run_checked(Request::Query.doing("querying a container"), owned, launch).await?;
        Ok(Opened {
            uuid: Uuid(info.uuid),
            label: asked.text(LABEL),
            checksum: asked.number(CHECKSUM),
            layout: asked.number(LAYOUT_TYPE),
            roots: asked.roots(),
            allocated: asked.number(ALLOCATED),
            handles: info.handles,
            changed: info.changed,
        })
    }

    /// The attributes of the container.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        let (calls, owner) = (self.0.calls, Arc::clone(&self.0));
        Attributes { calls, owner, table: Table::of_container(calls.functions()) }
    }

    /// Changes its label.
    ///
    /// # Errors
    /// `Exists`; `NoPermission`.
    pub async fn set_label(&self, label: &str) -> Result<()> {
        self.set(Setting::label(Some(label))?, &format!("giving a container the label {label:?}"))
            .await
    }

    /// Declares it a container of this layout (1 for files), with these ids of its first objects.
    ///
    /// # Errors
    /// `NoPermission` if this release of DAOS allows it only at the creation of a container.
    pub async fn set_layout(&self, layout: u64, roots: &[u8; 64]) -> Result<()> {
        self.set(Setting::layout(layout, roots), "setting the layout of a container").await
    }

    /// Sets a property of the container. `doing` describes the call for error messages.
    async fn set(&self, setting: Setting, doing: &str) -> Result<()> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        let owned = (setting, Arc::clone(&self.0));
        // SAFETY: the list lives until the call is done.
        let launch =
            |functions: &Functions, it: &mut (Setting, Arc<ContainerHandle>), event: Ev| unsafe {
                (functions.daos_cont_set_prop)(handle, it.0.raw(), event)
            };
        calls.run_checked(Request::Set.doing(doing), owned, launch).await.map(drop)
    }

    /// Reserves `count` numbers for object ids, and returns the first.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn allocate(&self, count: u64) -> Result<u64> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        // SAFETY: the number lives until the call is done, which sets it.
        let launch = |functions: &Functions, it: &mut Number, event: Ev| unsafe {
            (functions.daos_cont_alloc_oids)(handle, count, &raw mut it.0, event)
        };
        let owned = (0, Arc::clone(&self.0));
        Ok(calls
            .run_checked(Request::Set.doing("reserving object numbers"), owned, launch)
            .await?
            .0)
    }

    /// Takes a snapshot, and returns its epoch.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn create_snapshot(&self) -> Result<u64> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        // SAFETY: the epoch lives until the call is done, which sets it.
        let launch = |functions: &Functions, it: &mut Number, event: Ev| unsafe {
            (functions.daos_cont_create_snap)(handle, &raw mut it.0, ptr::null_mut(), event)
        };
        let owned = (0, Arc::clone(&self.0));
        Ok(calls.run_checked(Request::Set.doing("taking a snapshot"), owned, launch).await?.0)
    }

    /// Epochs of its snapshots, oldest first.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn snapshots(&self) -> Result<Vec<u64>> {
        let (calls, handle, mut room) = (self.0.calls, self.0.handle, SNAPSHOTS);
        loop {
            let (count, epochs) = (room as c_int, vec![0; room]);
            let _container = Arc::clone(&self.0);
            let owned = Snapshots { epochs, count, anchor: RawAnchor::START, _container };
            // SAFETY: the list lives until the call is done, and has room for `count`.
            let launch = |functions: &Functions, it: &mut Snapshots, event: Ev| unsafe {
                let (count, epochs) = (&raw mut it.count, it.epochs.as_mut_ptr());
                let (list, anchor) = (functions.daos_cont_list_snap, &raw mut it.anchor);
                list(handle, count, epochs, ptr::null_mut(), anchor, event)
            };
            let mut found =
                calls.run_checked(Request::Query.doing("listing snapshots"), owned, launch).await?;
            let count = usize::try_from(found.count).unwrap_or(0);
            if count <= room {
                found.epochs.truncate(count);
                found.epochs.sort_unstable();
                return Ok(found.epochs);
            }
            room = count;
        }
    }

    /// Destroys a snapshot.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn destroy_snapshot(&self, epoch: u64) -> Result<()> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        // SAFETY: the range is passed by value.
        let launch = |functions: &Functions, _: &mut Arc<ContainerHandle>, event: Ev| unsafe {
            let range = RawEpochs { low: epoch, high: epoch };
            (functions.daos_cont_destroy_snap)(handle, range, event)
        };
        calls
            .run_checked(Request::Set.doing("destroying a snapshot"), Arc::clone(&self.0), launch)
            .await
            .map(drop)
    }
}
