//! Reading values.
use crate::binding::failure::{self, Doing, Request};
use crate::binding::layout::{ARRAY, DETAIL, RawIod, RawIom, RawIov, RawRecx, RawSgl, SINGLE};
use crate::binding::library::{Ev, Functions};
use crate::binding::object::{Object, flags_of};
use crate::binding::transaction::{Tx, handle_of};
use esker_types::{Extent, Result};
use std::ffi::c_int;
use std::ptr;

/// Number of found extents for which the first call has room, in addition to the number of requested extents.
const FOUND: usize = 16;

/// A request for an akey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AkeyFetch {
    /// The akey.
    pub akey: Vec<u8>,
    /// Records of an array to read; `None` for a single value. Extents are not empty and do not overlap.
    pub extents: Option<Vec<Extent>>,
    /// Bytes per record of an array; 0 for any.
    pub record_size: u64,
    /// Size of the buffer.
    pub room: usize,
    /// `DAOS_COND_AKEY_FETCH` or 0.
    pub cond: u64,
}

/// The result of a request for an akey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Size of the single value, or of a record; 0 if there is no value.
    pub size: u64,
    /// The bytes that fit into the buffer. Missing records are zeros.
    pub data: Vec<u8>,
    /// Records that were found.
    pub found: Vec<Extent>,
}

/// The arguments of a fetch: its data, and the C structures that refer to it.
struct Fetching {
    dkey: Vec<u8>,
    akeys: Vec<AkeyFetch>,
    recxs: Vec<Vec<RawRecx>>,
    found: Vec<Vec<RawRecx>>,
    data: Vec<Vec<u8>>,
    key: RawIov,
    iods: Vec<RawIod>,
    iovs: Vec<RawIov>,
    sgls: Vec<RawSgl>,
    ioms: Vec<RawIom>,
    _keep: (Object, Option<Tx>),
}

// SAFETY: the pointers lead to what the arguments own.
unsafe impl Send for Fetching {}

impl Fetching {
    /// The C form of a fetch, with room for the data and for `found` extents of each array.
    fn new(
        object: &Object,
        tx: Option<&Tx>,
        dkey: &[u8],
        akeys: &[AkeyFetch],
        found: usize,
    ) -> Self {
        let extents = |akey: &AkeyFetch| akey.extents.clone().unwrap_or_default();
        let recxs = akeys.iter().map(|akey| extents(akey).into_iter().map(RawRecx::from).collect());
        let recxs: Vec<Vec<RawRecx>> = recxs.collect();
        let room = |recxs: &Vec<RawRecx>| vec![RawRecx::default(); recxs.len() + found];
        let mut it = Self {
            dkey: dkey.to_vec(),
            akeys: akeys.to_vec(),
            found: recxs.iter().map(room).collect(),
            recxs,
            data: akeys.iter().map(|akey| vec![0; akey.room]).collect(),
            key: RawIov::NULL,
            iods: Vec::new(),
            iovs: Vec::new(),
            sgls: Vec::new(),
            ioms: Vec::new(),
            _keep: (object.clone(), tx.cloned()),
        };
        it.point();
        it
    }

    /// Sets the pointers of the C structures to the data that the arguments own.
    fn point(&mut self) {
        self.key = RawIov::input(&self.dkey);
        self.iovs = self.data.iter_mut().map(|data| RawIov::room(data)).collect();
        self.iods =
            self.akeys.iter().zip(&mut self.recxs).map(|(akey, it)| iod(akey, it)).collect();
        let sgl = |iov: &mut RawIov| RawSgl { count: 1, filled: 0, iovs: ptr::from_mut(iov) };
        self.sgls = self.iovs.iter_mut().map(sgl).collect();
        self.ioms =
            self.iods.iter().zip(&mut self.found).map(|(iod, found)| iom(iod, found)).collect();
    }

    /// True if more extents were found than the list of extents has room for.
    fn is_short(&self) -> bool {
        self.ioms.iter().any(|iom| iom.kind == ARRAY && iom.count > iom.capacity)
    }

    /// The result of the fetch for each akey.
    fn into_fetched(self) -> Vec<Fetched> {
        let arrays = self.iods.iter().zip(&self.ioms).zip(self.found).zip(self.data);
        let fetched = arrays.map(|(((iod, iom), mut found), data)| {
            found.truncate(if iod.kind == ARRAY { iom.count as usize } else { 0 });
            let found = found.into_iter().map(Extent::from).collect();
            Fetched { size: iod.size, data, found }
        });
        fetched.collect()
    }
}

/// The C form of a fetch. It refers to `recxs`.
fn iod(akey: &AkeyFetch, recxs: &mut Vec<RawRecx>) -> RawIod {
    let single = akey.extents.is_none();
    RawIod {
        name: RawIov::input(&akey.akey),
        kind: if single { SINGLE } else { ARRAY },
        size: akey.record_size,
        flags: akey.cond,
        count: if single { 1 } else { recxs.len() as u32 },
        recxs: if single { ptr::null_mut() } else { recxs.as_mut_ptr() },
    }
}

/// The C form in which DAOS reports the extents that it found. It refers to `found`.
fn iom(iod: &RawIod, found: &mut Vec<RawRecx>) -> RawIom {
    RawIom {
        kind: iod.kind,
        capacity: found.len() as u32,
        count: 0,
        flags: DETAIL,
        size: 0,
        first: RawRecx::default(),
        last: RawRecx::default(),
        recxs: found.as_mut_ptr(),
    }
}

impl Object {
    /// Reads akeys of a dkey, in the transaction `tx` if one is given. A missing akey is not an error unless a
    /// condition (`DAOS_COND_*`) requires it to exist. Returns the results in addition to an error: sizes are right
    /// even if the buffer was too small.
    ///
    /// # Errors
    /// `TimedOut`, `NotSupported` in a forked child. Errors of DAOS are returned together with the results.
    pub async fn fetch(
        &self,
        tx: Option<&Tx>,
        dkey: &[u8],
        cond: u64,
        akeys: &[AkeyFetch],
    ) -> Result<(Result<()>, Vec<Fetched>)> {
        let mut found = FOUND;
        loop {
            let (code, fetching) = self.fetch_once(tx, dkey, cond, akeys, found).await?;
            if code == 0 && fetching.is_short() {
                found = fetching.ioms.iter().map(|iom| iom.count as usize).max().unwrap_or(found);
                continue;
            }
            return Ok((failure::check(code, DOING), fetching.into_fetched()));
        }
    }

    /// Makes the fetch with room for `found` extents of each array. Returns the code too, because the caller repeats it
    /// with more room.
    async fn fetch_once(
        &self,
        tx: Option<&Tx>,
        dkey: &[u8],
        cond: u64,
        akeys: &[AkeyFetch],
        found: usize,
    ) -> Result<(c_int, Fetching)> {
        let (handle, th) = (self.0.handle, handle_of(tx));
        let conds: Vec<u64> = akeys.iter().map(|akey| akey.cond).collect();
        let flags = flags_of(cond, &conds);
        let bytes: usize = akeys.iter().map(|akey| akey.room).sum();
        let sizes_only = bytes == 0;
        let owned = Fetching::new(self, tx, dkey, akeys, found);
        // SAFETY: the arguments live until the call is done.
        let launch = |functions: &Functions, it: &mut Fetching, event: Ev| unsafe {
            let (count, iods) = (it.iods.len() as u32, it.iods.as_mut_ptr());
            let (sgls, ioms) = match sizes_only {
                true => (ptr::null_mut(), ptr::null_mut()),
                false => (it.sgls.as_mut_ptr(), it.ioms.as_mut_ptr()),
            };
            let fetch = functions.daos_obj_fetch;
            fetch(handle, th, flags, &raw mut it.key, count, iods, sgls, ioms, event)
        };
        self.0.calls.run(DOING, bytes, owned, launch).await
    }
}

const DOING: Doing<'_> = Request::Read.doing("reading from a DAOS object");
