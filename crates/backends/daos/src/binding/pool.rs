//! Connections to pools.
use crate::binding::attributes::{Attributes, Owner, Table};
use crate::binding::call::{Calls, End, NewHandle};
use crate::binding::container::{Container, ContainerMode};
use crate::binding::failure::{self, Request};
use crate::binding::layout::{
    POOL_LABEL, RawContainerInfo, RawHandle, RawListed, RawNamed, RawPoolInfo, WITH_SPACE,
};
use crate::binding::library;
use crate::binding::library::{Ev, Functions, c_string};
use crate::binding::property::{Asked, NewContainer, Setting};
use esker_types::info::OpenMode;
use esker_types::{ErrorKind, Result, Uuid};
use std::ffi::{CString, c_int, c_uint};
use std::ptr;
use std::sync::Arc;

/// Number of containers for which the first call of a listing has a buffer.
const LISTED: usize = 64;

/// A connection to a pool. It ends when the last clone and the last container are dropped.
#[derive(Clone)]
pub struct Pool(pub(crate) Arc<Connection>);

pub(crate) struct Connection {
    pub(crate) calls: Calls,
    pub(crate) handle: RawHandle,
}

impl Owner for Connection {
    fn handle(&self) -> RawHandle {
        self.handle
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.calls.leave(self.handle, disconnect, ());
        self.calls.counts_connection(false);
    }
}

/// The function of DAOS that ends a connection.
fn disconnect(functions: &Functions) -> End {
    functions.daos_pool_disconnect
}

/// The result of a query of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolState {
    /// Its id.
    pub uuid: Uuid,
    /// Its label; empty if it has none.
    pub label: String,
    /// Number of targets.
    pub targets: u32,
    /// Number of engines.
    pub nodes: u32,
    /// Capacity in bytes, over all targets and media.
    pub total: u64,
    /// Free bytes.
    pub free: u64,
}

/// A container in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub uuid: Uuid,
    /// Its label, as DAOS stores it.
    pub label: String,
    /// Open handles of all clients.
    pub handles: u32,
    /// Epoch of the last change of its metadata.
    pub changed: u64,
}

/// Returns DAOS's flag for an open mode, which is the same for pools and containers.
pub(crate) fn flag(mode: OpenMode) -> c_uint {
    match mode {
        OpenMode::ReadOnly => 1,
        OpenMode::ReadWrite => 2,
        OpenMode::Exclusive => 4,
    }
}

/// Arguments of connecting to a pool.
struct Connecting {
    name: CString,
    system: Option<CString>,
    handle: NewHandle,
}

/// Arguments of a query.
struct Query {
    info: RawPoolInfo,
    asked: Asked,
    _pool: Arc<Connection>,
}

/// Arguments of listing containers.
struct Listing<T> {
    entries: Vec<T>,
    count: u64,
    _pool: Arc<Connection>,
}

/// Arguments of creating a container.
struct Creating {
    setting: Setting,
    uuid: [u8; 16],
    _pool: Arc<Connection>,
}

impl Pool {
    /// Connects to a pool by its label or UUID. `system` is the name of its DAOS system; `None` for the usual one.
    /// `seconds` is the time that each operation may take.
    ///
    /// # Errors
    /// `NotSupported` if libdaos is not there; `NotFound` if the pool is not; `NoPermission`; `TimedOut`; `Busy` if
    /// exclusive use conflicts.
    pub async fn connect(
        name: &str,
        system: Option<&str>,
        mode: OpenMode,
        seconds: Option<u32>,
    ) -> Result<Self> {
        let calls = Calls::new(seconds)?;
        let of_system = system.map(|system| format!(" of system {system:?}")).unwrap_or_default();
        let (flags, system) = (flag(mode), system.map(c_string).transpose()?);
        let handle = NewHandle::new(calls, disconnect);
        let owned = Connecting { name: c_string(name)?, system, handle };
        // SAFETY: the arguments live until the call is done, which sets the handle.
        let launch = move |functions: &Functions, it: &mut Connecting, event: Ev| unsafe {
            let system = it.system.as_ref().map_or(ptr::null(), |system| system.as_ptr());
            let connect = functions.daos_pool_connect2;
            let handle = it.handle.as_mut_ptr();
            connect(it.name.as_ptr(), system, flags, handle, ptr::null_mut(), event)
        };
        let doing = format!("connecting to the DAOS pool {name:?}{of_system}");
        let connected = calls.run_apart((Request::Connect, &doing), owned, launch).await?;
        calls.counts_connection(true);
        Ok(Self(Arc::new(Connection { calls, handle: connected.handle.take() })))
    }

    /// The state of the pool.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn query(&self) -> Result<PoolState> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        let asked = Asked::of_pool(calls.functions())?;
        let mut info = RawPoolInfo::default();
        info.bits = WITH_SPACE;
        let owned = Query { info, asked, _pool: Arc::clone(&self.0) };
        // SAFETY: the arguments live until the call is done, which fills them.
        let launch = |functions: &Functions, it: &mut Query, event: Ev| unsafe {
            let query = functions.daos_pool_query;
            query(handle, ptr::null_mut(), &raw mut it.info, it.asked.raw, event)
        };
        let Query { info, asked, .. } =
            calls.run_checked(Request::Pool.doing("querying a DAOS pool"), owned, launch).await?;
        Ok(PoolState {
            uuid: Uuid(info.uuid),
            label: asked.text(POOL_LABEL),
            targets: info.targets,
            nodes: info.nodes,
            total: info.space.total.iter().sum(),
            free: info.space.free.iter().sum(),
        })
    }

    /// The attributes of the pool.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        let (calls, owner) = (self.0.calls, Arc::clone(&self.0));
        Attributes { calls, owner, table: Table::of_pool(calls.functions()) }
    }

    /// All its containers.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn containers(&self) -> Result<Vec<Listed>> {
        let names = self.list(RawNamed::EMPTY, |functions, handle, count, entries, event| {
            // SAFETY: as the caller of this closure promises.
            unsafe { (functions.daos_pool_list_cont)(handle, count, entries, event) }
        });
        let details = self.list(RawListed::EMPTY, |functions, handle, count, entries, event| {
            let all = ptr::null_mut();
            // SAFETY: as the caller of this closure promises.
            unsafe { (functions.daos_pool_filter_cont)(handle, all, count, entries, event) }
        });
        // A user may have the right to list containers but not to query them.
        let (names, details) = (names.await?, details.await.unwrap_or_default());
        let about = |named: &RawNamed| details.iter().find(|it| it.named.uuid == named.uuid);
        Ok(names.iter().map(|named| listed(named, about(named))).collect())
    }

    /// A list that `fill` fills; it is repeated with more room if the list is longer. Its arguments are a handle, the
    /// capacity, the entries and an event, which live until the call is done.
    async fn list<T: Copy + Send + 'static>(
        &self,
        empty: T,
        fill: impl Fn(&Functions, RawHandle, *mut u64, *mut T, Ev) -> c_int,
    ) -> Result<Vec<T>> {
        let (calls, handle, mut room) = (self.0.calls, self.0.handle, LISTED);
        loop {
            let entries = vec![empty; room];
            let owned = Listing { entries, count: room as u64, _pool: Arc::clone(&self.0) };
            let launch = |functions: &Functions, it: &mut Listing<T>, event: Ev| {
                fill(functions, handle, &raw mut it.count, it.entries.as_mut_ptr(), event)
            };
            let doing = Request::Pool.doing("listing the containers of a DAOS pool");
            let (code, mut listing) = calls.run(doing, 0, owned, launch).await?;
            let count = usize::try_from(listing.count).unwrap_or(usize::MAX);
            if failure::kind_of(code, Request::Pool) == ErrorKind::Truncated || count > room {
                room = count.max(room * 2);
                continue;
            }
            failure::check(code, doing)?;
            listing.entries.truncate(count);
            return Ok(listing.entries);
        }
    }

    /// Creates a container. Returns its id, which DAOS chooses.
    ///
    /// # Errors
    /// `Exists` if the label is in use; errors of DAOS.
    pub async fn create(&self, new: &NewContainer) -> Result<Uuid> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        let setting = Setting::for_new_container(new)?;
        let owned = Creating { setting, uuid: [0; 16], _pool: Arc::clone(&self.0) };
        // SAFETY: the arguments live until the call is done, which sets the id.
        let launch = |functions: &Functions, it: &mut Creating, event: Ev| unsafe {
            (functions.daos_cont_create2)(handle, &raw mut it.uuid, it.setting.raw(), event)
        };
        let label = new.label.as_deref().map(|label| format!(" {label:?}")).unwrap_or_default();
        let doing = format!("creating container{label}");
        Ok(Uuid(calls.run_checked(Request::Create.doing(&doing), owned, launch).await?.uuid))
    }

    /// Opens a container by its label or UUID.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if exclusive use conflicts; `NoPermission`.
    pub async fn open(&self, name: &str, mode: ContainerMode) -> Result<Container> {
        Container::open(&self.0, name, mode).await
    }

    /// Destroys a container by its label or UUID, even if it is open if `force` is set.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if it is open; `NoPermission`.
    pub async fn destroy(&self, name: &str, force: bool) -> Result<()> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        let owned = (library::c_string(name)?, Arc::clone(&self.0));
        // SAFETY: the name lives until the call is done.
        let launch = |functions: &Functions, it: &mut (CString, Arc<Connection>), event: Ev| unsafe {
            (functions.daos_cont_destroy2)(handle, it.0.as_ptr(), force.into(), event)
        };
        let doing = format!("destroying container {name:?}");
        calls.run_checked(Request::Destroy.doing(&doing), owned, launch).await.map(drop)
    }
}

/// Converts a listed container. Without `about`, its handles and the epoch of its last change are 0.
fn listed(named: &RawNamed, about: Option<&RawListed>) -> Listed {
    let RawContainerInfo { handles, changed, .. } = about.map(|it| it.info).unwrap_or_default();
    let len = named.label.iter().position(|byte| *byte == 0).unwrap_or(named.label.len());
    let label = String::from_utf8_lossy(&named.label[..len]).into_owned();
    Listed { uuid: Uuid(named.uuid), label, handles, changed }
}
