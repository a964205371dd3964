//! A file system whose calls to the pool tests count, or let fail.
use crate::abi::{Dfs, DfsObj, Handle, Iov, Ptr, Sgl, Str};
use crate::container::daos_cont_open2;
use crate::dfs::mount::{dfs_mount, dfs_umount};
use crate::dfs::open::dfs_open;
use crate::handles::{self, Entry, OpenPool};
use crate::init::daos_init;
use ::dfs::NewDfs;
use esker::Pool;
use esker::backend::{NewContainer, OpenContainer, Reply};
use esker::types::info::OpenMode;
use esker::types::ops::Change;
use esker::types::{Epoch, ErrorKind};
use esker_conformance::between::{Interceptor, PoolBetween};
use std::ffi::{CStr, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// `DAOS_COO_RW`.
const RW: u32 = 2;

/// Counts calls to a pool, and lets all of them fail while it is set to do so.
#[derive(Default)]
pub(crate) struct Calls {
    fails: AtomicBool,
    writes: AtomicUsize,
    listings: AtomicUsize,
}

impl Calls {
    /// Chooses whether calls fail, with `NoSpace`.
    pub(crate) fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Number of writes since the last call of this function.
    pub(crate) fn take_writes(&self) -> usize {
        self.writes.swap(0, Ordering::SeqCst)
    }

    /// Number of listings since the last call of this function.
    pub(crate) fn take_listings(&self) -> usize {
        self.listings.swap(0, Ordering::SeqCst)
    }
}

impl Interceptor for Calls {
    fn pass<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
    ) -> Reply<'a, T> {
        match self.fails.load(Ordering::SeqCst) {
            true => Reply::Ready(Err(ErrorKind::NoSpace.into())),
            false => call(),
        }
    }

    fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.pass(move || to.write(change))
    }

    fn list<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
        _len: fn(&T) -> usize,
    ) -> Reply<'a, T> {
        self.listings.fetch_add(1, Ordering::SeqCst);
        self.pass(call)
    }
}

/// A pointer to a value of the test.
pub(crate) fn at<T>(value: &mut T) -> Ptr<T> {
    // SAFETY: tests keep their values in place while the library uses them.
    unsafe { Ptr::new(value) }
}

/// A pointer to a string.
pub(crate) fn text(text: &CStr) -> Str {
    // SAFETY: the library only reads it.
    unsafe { Ptr::new(text.as_ptr().cast_mut()) }
}

/// A buffer that contains `bytes`.
pub(crate) fn iov(bytes: &mut [u8]) -> Iov {
    // SAFETY: tests keep their values in place while the library uses them.
    let buf = unsafe { Ptr::new(bytes.as_mut_ptr()) };
    Iov { buf: buf.cast(), buf_len: bytes.len(), len: bytes.len() }
}

/// A list of one buffer.
pub(crate) fn sgl(iov: &mut Iov) -> Sgl {
    Sgl { nr: 1, nr_out: 0, iovs: at(iov) }
}

/// A mounted file system in a pool in memory, behind an interceptor.
pub(crate) struct Mounted {
    pub(crate) calls: Arc<Calls>,
    pub(crate) coh: Handle,
    pub(crate) dfs: Ptr<Dfs>,
}

impl Mounted {
    /// Mounts a new file system in the pool `memory:NAME`.
    pub(crate) fn new(name: &str) -> Self {
        assert_eq!(daos_init(), 0);
        let (url, calls) = (format!("memory:{name}"), Arc::<Calls>::default());
        let pool = Pool::connect(&url, OpenMode::ReadWrite).unwrap();
        let between = PoolBetween::before(Arc::clone(pool.backend()), &calls);
        let pool = Pool::from_backend(Arc::new(between), OpenMode::ReadWrite);
        let new = NewContainer::named("fs");
        ::dfs::Dfs::create_container(&pool, &new, &NewDfs::default()).unwrap();
        let poh = handles::open(Entry::Pool(OpenPool::new(pool, &url))).unwrap();
        let (mut coh, mut dfs) = (Handle { cookie: 0 }, Ptr::null());
        let opened = daos_cont_open2(poh, text(c"fs"), RW, at(&mut coh), Ptr::null(), Ptr::null());
        assert_eq!(opened, 0);
        assert_eq!(dfs_mount(poh, coh, libc::O_RDWR, at(&mut dfs)), 0);
        Self { calls, coh, dfs }
    }

    /// Creates and opens an entry of the root with this mode.
    pub(crate) fn create(&self, name: &CStr, mode: u32) -> Ptr<DfsObj> {
        let (root, link, mut obj) = (Ptr::null(), Ptr::null(), Ptr::null());
        let flags: c_int = libc::O_RDWR | libc::O_CREAT;
        let opened = dfs_open(self.dfs, root, text(name), mode, flags, 0, 0, link, at(&mut obj));
        assert_eq!(opened, 0);
        obj
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        dfs_umount(self.dfs);
    }
}
