//! Listings: keys of an object, extents of an akey, objects of a snapshot. Each reads all entries, page by page, up to
//! a limit of the caller.
use crate::binding::container::{Container, ContainerHandle};
use crate::binding::failure::{self, Request};
use crate::binding::layout::{
    RawAnchor, RawEpochs, RawHandle, RawIov, RawKeyDescription, RawOid, RawRecx, RawSgl,
};
use crate::binding::library;
use crate::binding::library::{Ev, Functions};
use crate::binding::limits::{EXTENTS_PAGE, OIDS_PAGE, PAGE, PAGE_BYTES};
use crate::binding::object::Object;
use crate::binding::transaction::{Tx, handle_of};
use esker_types::limits::KEY_MAX;
use esker_types::{Error, ErrorKind, Extent, ObjectId, Result};
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

/// Largest buffer that is tried for one key.
const KEY_ROOM_MAX: usize = 4 * KEY_MAX;

/// Keys of an object, in the order of DAOS.
pub type Keys = Vec<Vec<u8>>;

/// An extent of an array, as DAOS stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedExtent {
    /// Range of records.
    pub extent: Extent,
    /// Bytes per record.
    pub record_size: u64,
    /// Epoch at which they were written; 0 if DAOS does not report it.
    pub epoch: u64,
}

/// The arguments of a listing of keys.
struct KeyPage {
    dkey: Option<Vec<u8>>,
    key: RawIov,
    count: u32,
    descriptions: Vec<RawKeyDescription>,
    buffer: Vec<u8>,
    iov: RawIov,
    sgl: RawSgl,
    anchor: RawAnchor,
    _keep: (Object, Option<Tx>),
}

// SAFETY: the pointers lead to what the arguments own.
unsafe impl Send for KeyPage {}

impl KeyPage {
    /// Splits the buffer of a page into its keys.
    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.descriptions.iter().take(self.count as usize).map_while(move |key| {
            let from = at;
            at += key.len as usize;
            self.buffer.get(from..at)
        })
    }
}

/// The arguments of a listing of extents.
struct ExtentPage {
    keys: [Vec<u8>; 2],
    iovs: [RawIov; 2],
    size: u64,
    count: u32,
    recxs: Vec<RawRecx>,
    epochs: Vec<RawEpochs>,
    anchor: RawAnchor,
    _keep: (Object, Option<Tx>),
}

// SAFETY: the pointers lead to what the arguments own.
unsafe impl Send for ExtentPage {}

/// The arguments of a listing of objects.
struct OidPage {
    oids: Vec<RawOid>,
    count: u32,
    anchor: RawAnchor,
    _table: Arc<Table>,
}

/// The open object id table of a snapshot.
struct Table {
    calls: crate::binding::call::Calls,
    handle: RawHandle,
    container: Arc<ContainerHandle>,
}

impl Drop for Table {
    fn drop(&mut self) {
        let close = |functions: &Functions| functions.daos_oit_close as crate::binding::call::End;
        self.calls.leave(self.handle, close, Arc::clone(&self.container));
    }
}

/// A handle that a call sets, and the container that it needs.
type Number = (RawHandle, Arc<ContainerHandle>);

#[cold]
fn listing_too_long_error(what: &str, most: usize) -> Error {
    let message = format!(
        "{what}: a listing holds at most {most} bytes (DAOS_LISTING_BYTES_MAX): use objects with fewer entries"
    );
    Error::new(ErrorKind::Overflow, message)
}

impl Object {
    /// Keys of the object: its dkeys, or the akeys of `dkey`. All of them, or only the first page if `first`.
    ///
    /// # Errors
    /// `Overflow` if they take more than `most` bytes; errors of DAOS.
    pub async fn keys(
        &self,
        tx: Option<&Tx>,
        dkey: Option<&[u8]>,
        first: bool,
        most: usize,
    ) -> Result<Keys> {
        let (mut all, mut bytes, mut anchor) = (Keys::new(), 0, RawAnchor::START);
        while !anchor.is_end() {
            let page = self.key_page(tx, dkey, anchor).await?;
            bytes += page.keys().map(<[u8]>::len).sum::<usize>();
            if bytes > most {
                return Err(listing_too_long_error("keys of a DAOS object", most));
            }
            all.extend(page.keys().map(<[u8]>::to_vec));
            anchor = page.anchor;
            if first && !all.is_empty() {
                break;
            }
        }
        Ok(all)
    }

    /// True if the dkey has an akey that `is_wanted` accepts. Lists pages until one is found.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn has_akey(
        &self,
        tx: Option<&Tx>,
        dkey: &[u8],
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<bool> {
        let mut anchor = RawAnchor::START;
        while !anchor.is_end() {
            let page = self.key_page(tx, Some(dkey), anchor).await?;
            if page.keys().any(&is_wanted) {
                return Ok(true);
            }
            anchor = page.anchor;
        }
        Ok(false)
    }

    /// Lists a page of dkeys, or of the akeys of `dkey`, after `anchor`. If a key is longer than the buffer, the page is
    /// read again with a longer one.
    async fn key_page(
        &self,
        tx: Option<&Tx>,
        dkey: Option<&[u8]>,
        anchor: RawAnchor,
    ) -> Result<KeyPage> {
        let mut room = PAGE_BYTES;
        loop {
            let (code, page) = self.try_key_page(tx, dkey, anchor, room).await?;
            if failure::kind_of(code, Request::List) != ErrorKind::KeyTooBig || room >= KEY_ROOM_MAX
            {
                let doing = Request::List.doing("listing keys of a DAOS object");
                return failure::check(code, doing).map(|()| page);
            }
            let needed = page.descriptions.first().map_or(0, |key| key.len as usize);
            room = needed.max(room.saturating_mul(2));
        }
    }

    /// Lists a page of keys into a buffer of `room` bytes. DAOS's code is returned, because one of them asks for more
    /// room.
    async fn try_key_page(
        &self,
        tx: Option<&Tx>,
        dkey: Option<&[u8]>,
        anchor: RawAnchor,
        room: usize,
    ) -> Result<(c_int, KeyPage)> {
        let (handle, th) = (self.0.handle, handle_of(tx));
        let mut owned = KeyPage {
            dkey: dkey.map(<[u8]>::to_vec),
            key: RawIov::NULL,
            count: PAGE as u32,
            descriptions: vec![RawKeyDescription::default(); PAGE],
            buffer: vec![0; room],
            iov: RawIov::NULL,
            sgl: RawSgl { count: 1, filled: 0, iovs: ptr::null_mut() },
            anchor,
            _keep: (self.clone(), tx.cloned()),
        };
        owned.iov = RawIov::room(&mut owned.buffer);
        owned.key = owned.dkey.as_deref().map_or(RawIov::NULL, RawIov::input);
        // SAFETY: the arguments live until the call is done, where they are now.
        let launch = |functions: &Functions, it: &mut KeyPage, event: Ev| unsafe {
            it.sgl.iovs = &raw mut it.iov;
            let (count, keys) = (&raw mut it.count, it.descriptions.as_mut_ptr());
            let (sgl, anchor) = (&raw mut it.sgl, &raw mut it.anchor);
            match it.dkey {
                None => (functions.daos_obj_list_dkey)(handle, th, count, keys, sgl, anchor, event),
                Some(_) => {
                    let list = functions.daos_obj_list_akey;
                    list(handle, th, &raw mut it.key, count, keys, sgl, anchor, event)
                }
            }
        };
        self.0
            .calls
            .run(Request::List.doing("listing keys of a DAOS object"), room, owned, launch)
            .await
    }

    /// The extents of an array, sorted: all of them, or only the first page if `first`.
    ///
    /// # Errors
    /// `Overflow` if they take more than `most` bytes; errors of DAOS.
    pub async fn extents(
        &self,
        tx: Option<&Tx>,
        (dkey, akey): (&[u8], &[u8]),
        first: bool,
        most: usize,
    ) -> Result<Vec<ListedExtent>> {
        let (mut all, mut anchor) = (Vec::new(), RawAnchor::START);
        while !anchor.is_end() {
            let page = self.extent_page(tx, dkey, akey, anchor).await?;
            let found = page.recxs.iter().zip(&page.epochs).take(page.count as usize);
            all.extend(found.map(|(recx, epochs)| ListedExtent {
                extent: (*recx).into(),
                record_size: page.size,
                epoch: epochs.low.max(epochs.high),
            }));
            if all.len() * size_of::<ListedExtent>() > most {
                return Err(listing_too_long_error("extents of an array", most));
            }
            anchor = page.anchor;
            if first && !all.is_empty() {
                break;
            }
        }
        all.sort_unstable_by_key(|listed: &ListedExtent| listed.extent);
        Ok(all)
    }

    /// True if an array has an extent that `is_wanted` accepts.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn has_extent(
        &self,
        tx: Option<&Tx>,
        (dkey, akey): (&[u8], &[u8]),
        is_wanted: impl Fn(Extent) -> bool,
    ) -> Result<bool> {
        let mut anchor = RawAnchor::START;
        while !anchor.is_end() {
            let page = self.extent_page(tx, dkey, akey, anchor).await?;
            let mut found = page.recxs.iter().take(page.count as usize);
            if found.any(|recx| is_wanted((*recx).into())) {
                return Ok(true);
            }
            anchor = page.anchor;
        }
        Ok(false)
    }

    /// Lists a page of the extents of an akey after `anchor`.
    async fn extent_page(
        &self,
        tx: Option<&Tx>,
        dkey: &[u8],
        akey: &[u8],
        anchor: RawAnchor,
    ) -> Result<ExtentPage> {
        let (handle, th) = (self.0.handle, handle_of(tx));
        let keys = [dkey.to_vec(), akey.to_vec()];
        let owned = ExtentPage {
            iovs: [RawIov::input(&keys[0]), RawIov::input(&keys[1])],
            keys,
            size: 0,
            count: EXTENTS_PAGE as u32,
            recxs: vec![RawRecx::default(); EXTENTS_PAGE],
            epochs: vec![RawEpochs::default(); EXTENTS_PAGE],
            anchor,
            _keep: (self.clone(), tx.cloned()),
        };
        // SAFETY: the arguments live until the call is done.
        let launch = |functions: &Functions, it: &mut ExtentPage, event: Ev| unsafe {
            let [dkey, akey] = &mut it.iovs;
            let (list, anchor) = (functions.daos_obj_list_recx, &raw mut it.anchor);
            let (size, count) = (&raw mut it.size, &raw mut it.count);
            let (recxs, epochs) = (it.recxs.as_mut_ptr(), it.epochs.as_mut_ptr());
            list(handle, th, dkey, akey, size, count, recxs, epochs, anchor, true, event)
        };
        let page = self
            .0
            .calls
            .run_checked(Request::List.doing("listing extents of an array"), owned, launch)
            .await?;
        debug_assert!(!page.keys[0].is_empty());
        Ok(page)
    }
}

impl Container {
    /// All objects of a snapshot. The container must be open for writing, since the table of the objects may have to be
    /// created first.
    ///
    /// # Errors
    /// `Overflow` if their ids take more than `most` bytes; `NoPermission`; errors of DAOS.
    pub async fn objects(&self, epoch: u64, most: usize) -> Result<Vec<ObjectId>> {
        let table = Arc::new(self.object_table(epoch).await?);
        let (mut all, mut anchor) = (Vec::new(), RawAnchor::START);
        while !anchor.is_end() {
            let page = self.object_page(&table, anchor).await?;
            let found = page.oids.iter().take(page.count as usize);
            all.extend(found.map(|oid| ObjectId { hi: oid.hi, lo: oid.lo }));
            if all.len() * size_of::<ObjectId>() > most {
                return Err(listing_too_long_error("objects of a container", most));
            }
            anchor = page.anchor;
        }
        Ok(all)
    }

    /// Opens the table of the objects of a snapshot, and creates it if it is missing.
    async fn object_table(&self, epoch: u64) -> Result<Table> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        // SAFETY: the arguments are passed by value.
        let make = |functions: &Functions, _: &mut Arc<ContainerHandle>, event: Ev| unsafe {
            (functions.daos_cont_snap_oit_create)(handle, epoch, ptr::null_mut(), event)
        };
        let doing = Request::Set.doing("making the table of the objects of a snapshot");
        let (code, _) = calls.run(doing, 0, Arc::clone(&self.0), make).await?;
        if failure::kind_of(code, doing.request) != ErrorKind::Exists {
            failure::check(code, doing)?;
        }
        // SAFETY: the handle lives until the call is done, which sets it.
        let open = |functions: &Functions, it: &mut Number, event: library::Ev| unsafe {
            (functions.daos_oit_open)(handle, epoch, &raw mut it.0, event)
        };
        let owned = (RawHandle::NONE, Arc::clone(&self.0));
        let (handle, container) = calls
            .run_checked(
                Request::List.doing("opening the table of the objects of a snapshot"),
                owned,
                open,
            )
            .await?;
        Ok(Table { calls, handle, container })
    }

    /// Lists a page of the objects of a snapshot.
    async fn object_page(&self, table: &Arc<Table>, anchor: RawAnchor) -> Result<OidPage> {
        let (oids, count) = (vec![RawOid::default(); OIDS_PAGE], OIDS_PAGE as u32);
        let (handle, _table) = (table.handle, Arc::clone(table));
        let owned = OidPage { oids, count, anchor, _table };
        // SAFETY: the arguments live until the call is done.
        let launch = |functions: &Functions, it: &mut OidPage, event: Ev| unsafe {
            let (oids, count) = (it.oids.as_mut_ptr(), &raw mut it.count);
            (functions.daos_oit_list)(handle, oids, count, &raw mut it.anchor, event)
        };
        self.0
            .calls
            .run_checked(Request::List.doing("listing the objects of a snapshot"), owned, launch)
            .await
    }
}
