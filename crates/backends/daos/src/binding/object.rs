//! Objects: opening them, and changes.
use crate::binding::call::Calls;
use crate::binding::container::{Container, ContainerHandle};
use crate::binding::failure::{self, Request};
use crate::binding::layout::{ARRAY, RawHandle, RawIod, RawIov, RawRecx, RawSgl, SINGLE};
use crate::binding::library::{Ev, Functions};
use crate::binding::start::check_process;
use crate::binding::transaction::{Tx, handle_of};
use esker_types::{Extent, ObjectId, Result};
use std::ptr;
use std::sync::Arc;

/// `DAOS_OO_RO`, `DAOS_OO_RW`.
const READ: u32 = 2;
const WRITE: u32 = 4;

/// `DAOS_COND_PER_AKEY`.
pub(crate) const PER_AKEY: u64 = 0x80;

/// An open object.
#[derive(Clone)]
pub struct Object(pub(crate) Arc<ObjectHandle>);

pub(crate) struct ObjectHandle {
    pub(crate) calls: Calls,
    pub(crate) handle: RawHandle,
    _container: Arc<ContainerHandle>,
}

impl Drop for ObjectHandle {
    fn drop(&mut self) {
        if check_process().is_ok() {
            // SAFETY: nothing uses the handle any more. Closing is local.
            unsafe { (self.calls.functions().daos_obj_close)(self.handle, ptr::null_mut()) };
        }
    }
}

impl Container {
    /// Opens an object, which need not exist.
    ///
    /// # Errors
    /// `Invalid` for an id that is reserved or whose class does not fit the pool; `NoHandle`.
    pub fn object(&self, oid: ObjectId, writable: bool) -> Result<Object> {
        check_process()?;
        let (calls, parent, mut handle) = (self.0.calls, self.0.handle, RawHandle::NONE);
        let mode = if writable { WRITE } else { READ };
        let open = calls.functions().daos_obj_open;
        // SAFETY: opening is local; it sets the handle.
        let code = unsafe { open(parent, oid.into(), mode, &raw mut handle, ptr::null_mut()) };
        failure::check(code, Request::Object.doing(&format!("opening object {oid}")))?;
        Ok(Object(Arc::new(ObjectHandle { calls, handle, _container: Arc::clone(&self.0) })))
    }
}

/// New content of an akey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A single value.
    Single(Vec<u8>),
    /// Records of an array: the bytes of all extents, concatenated. Extents are not empty and do not overlap.
    Array {
        /// Bytes per record.
        record_size: u64,
        /// Records to write.
        extents: Vec<Extent>,
        /// Bytes of the records.
        data: Vec<u8>,
    },
    /// Removes records of an array.
    Punch(Vec<Extent>),
}

/// A change to an akey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AkeyUpdate {
    /// The akey.
    pub akey: Vec<u8>,
    /// Its new content.
    pub content: Content,
    /// `DAOS_COND_AKEY_INSERT`, `DAOS_COND_AKEY_UPDATE`, or 0.
    pub cond: u64,
}

impl AkeyUpdate {
    /// Returns the extents that an update of an array writes or punches. A single value has none.
    fn extents(&self) -> &[Extent] {
        match &self.content {
            Content::Single(_) => &[],
            Content::Array { extents, .. } | Content::Punch(extents) => extents,
        }
    }

    /// Returns the bytes that an update writes. A punch has none.
    fn data(&self) -> &[u8] {
        match &self.content {
            Content::Single(data) | Content::Array { data, .. } => data,
            Content::Punch(_) => &[],
        }
    }

    /// DAOS's type of the value, and the size of its records.
    fn kind_and_size(&self) -> (i32, u64) {
        match &self.content {
            Content::Single(data) => (SINGLE, data.len() as u64),
            Content::Array { record_size, .. } => (ARRAY, *record_size),
            Content::Punch(_) => (ARRAY, 0),
        }
    }
}

/// Flags for conditions on akeys: the condition that all akeys share, or `DAOS_COND_PER_AKEY`.
pub(crate) fn flags_of(cond: u64, akeys: &[u64]) -> u64 {
    match akeys {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => cond | first,
        [] => cond,
        _ => cond | PER_AKEY,
    }
}

/// The arguments of an update.
struct Updating {
    dkey: Vec<u8>,
    updates: Vec<AkeyUpdate>,
    recxs: Vec<Vec<RawRecx>>,
    key: RawIov,
    iods: Vec<RawIod>,
    iovs: Vec<RawIov>,
    sgls: Vec<RawSgl>,
    _keep: (Object, Option<Tx>),
}

// SAFETY: the pointers lead to what the arguments own.
unsafe impl Send for Updating {}

impl Updating {
    /// The C form of an update. A punch of records has no data.
    fn new(object: &Object, tx: Option<&Tx>, dkey: &[u8], updates: Vec<AkeyUpdate>) -> Self {
        let recxs = updates
            .iter()
            .map(|update| update.extents().iter().copied().map(RawRecx::from).collect::<Vec<_>>());
        let mut it = Self {
            dkey: dkey.to_vec(),
            recxs: recxs.collect(),
            updates,
            key: RawIov::NULL,
            iods: Vec::new(),
            iovs: Vec::new(),
            sgls: Vec::new(),
            _keep: (object.clone(), tx.cloned()),
        };
        it.key = RawIov::input(&it.dkey);
        it.iovs = it.updates.iter().map(|update| RawIov::input(update.data())).collect();
        it.iods = it
            .updates
            .iter()
            .zip(&mut it.recxs)
            .map(|(update, recxs)| iod(update, recxs))
            .collect();
        let sgl = |iov: &mut RawIov| RawSgl { count: 1, filled: 0, iovs: ptr::from_mut(iov) };
        it.sgls = it.iovs.iter_mut().map(sgl).collect();
        for (update, sgl) in it.updates.iter().zip(&mut it.sgls) {
            if matches!(update.content, Content::Punch(_)) {
                *sgl = RawSgl { count: 0, filled: 0, iovs: ptr::null_mut() };
            }
        }
        it
    }
}

/// The C form of an update. It refers to `recxs`.
fn iod(update: &AkeyUpdate, recxs: &mut Vec<RawRecx>) -> RawIod {
    let (kind, size) = update.kind_and_size();
    let single = kind == SINGLE;
    RawIod {
        name: RawIov::input(&update.akey),
        kind,
        size,
        flags: update.cond,
        count: if single { 1 } else { recxs.len() as u32 },
        recxs: if single { ptr::null_mut() } else { recxs.as_mut_ptr() },
    }
}

/// The arguments of a punch.
struct Punching {
    dkey: Vec<u8>,
    akeys: Vec<Vec<u8>>,
    key: RawIov,
    iovs: Vec<RawIov>,
    _keep: (Object, Option<Tx>),
}

// SAFETY: the pointers lead to what the arguments own.
unsafe impl Send for Punching {}

impl Punching {
    /// The C form of a punch.
    fn new(object: &Object, tx: Option<&Tx>, dkey: &[u8], akeys: Vec<Vec<u8>>) -> Self {
        let (dkey, _keep) = (dkey.to_vec(), (object.clone(), tx.cloned()));
        let mut it = Self { dkey, akeys, key: RawIov::NULL, iovs: Vec::new(), _keep };
        it.key = RawIov::input(&it.dkey);
        it.iovs = it.akeys.iter().map(|akey| RawIov::input(akey)).collect();
        it
    }
}

impl Object {
    /// Changes akeys of a dkey, all or none. In a transaction, the change waits for the commit.
    ///
    /// # Errors
    /// `Exists` and `NotFound` if a condition (`DAOS_COND_*`) fails; `NoSpace`; `NoPermission`.
    pub async fn update(
        &self,
        tx: Option<&Tx>,
        dkey: &[u8],
        cond: u64,
        updates: Vec<AkeyUpdate>,
    ) -> Result<()> {
        let (calls, handle, th) = (self.0.calls, self.0.handle, handle_of(tx));
        let conds: Vec<u64> = updates.iter().map(|update| update.cond).collect();
        let flags = flags_of(cond, &conds);
        let bytes = updates.iter().map(|update| update.data().len() + update.akey.len()).sum();
        let owned = Updating::new(self, tx, dkey, updates);
        // SAFETY: the arguments live until the call is done; within a transaction, libdaos copies them.
        let launch = |functions: &Functions, it: &mut Updating, event: Ev| unsafe {
            let (count, iods, sgls) =
                (it.iods.len() as u32, it.iods.as_mut_ptr(), it.sgls.as_mut_ptr());
            let update = functions.daos_obj_update;
            update(handle, th, flags, &raw mut it.key, count, iods, sgls, event)
        };
        let doing = Request::Write.doing("writing to a DAOS object");
        let (code, _) = calls.run(doing, bytes, owned, launch).await?;
        failure::check(code, doing)
    }

    /// Removes everything in the object.
    ///
    /// # Errors
    /// `NotFound` if the condition fails.
    pub async fn punch(&self, tx: Option<&Tx>, cond: u64) -> Result<()> {
        let (handle, th) = (self.0.handle, handle_of(tx));
        let owned = (self.clone(), tx.cloned());
        // SAFETY: the handles are open.
        let launch = |functions: &Functions, _: &mut (Object, Option<Tx>), event: Ev| unsafe {
            (functions.daos_obj_punch)(handle, th, cond, event)
        };
        self.0
            .calls
            .run_checked(Request::Punch.doing("removing a DAOS object"), owned, launch)
            .await
            .map(drop)
    }

    /// Removes a dkey.
    ///
    /// # Errors
    /// `NotFound` if the condition fails.
    pub async fn punch_dkey(&self, tx: Option<&Tx>, dkey: &[u8], cond: u64) -> Result<()> {
        let (handle, th) = (self.0.handle, handle_of(tx));
        let owned = Punching::new(self, tx, dkey, Vec::new());
        // SAFETY: the arguments live until the call is done.
        let launch = |functions: &Functions, it: &mut Punching, event: Ev| unsafe {
            (functions.daos_obj_punch_dkeys)(handle, th, cond, 1, &raw mut it.key, event)
        };
        self.0
            .calls
            .run_checked(Request::Punch.doing("removing a key of a DAOS object"), owned, launch)
            .await
            .map(drop)
    }

    /// Removes akeys of a dkey, all or none.
    ///
    /// # Errors
    /// `NotFound` if the condition fails.
    pub async fn punch_akeys(
        &self,
        tx: Option<&Tx>,
        dkey: &[u8],
        akeys: Vec<Vec<u8>>,
        cond: u64,
    ) -> Result<()> {
        let (handle, th) = (self.0.handle, handle_of(tx));
        let owned = Punching::new(self, tx, dkey, akeys);
        // SAFETY: the arguments live until the call is done.
        let launch = |functions: &Functions, it: &mut Punching, event: Ev| unsafe {
            let (count, akeys) = (it.iovs.len() as u32, it.iovs.as_mut_ptr());
            (functions.daos_obj_punch_akeys)(handle, th, cond, &raw mut it.key, count, akeys, event)
        };
        self.0
            .calls
            .run_checked(Request::Punch.doing("removing keys of a DAOS object"), owned, launch)
            .await
            .map(drop)
    }
}
