//! Tables.
use crate::abi::{Bytes, Link, Ptr};
use crate::code::{self, Code, Result};
use crate::edge::guard;
use crate::memory;
use std::ffi::{c_int, c_void};

/// `d_hash_table_ops_t`: the caller's side.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ops {
    /// Whether the record has this key.
    pub key_cmp: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>, *const c_void, u32) -> bool>,
    /// Gives a key to a record.
    pub key_init: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>, *mut c_void)>,
    /// Hash of a key.
    pub key_hash: Option<unsafe extern "C" fn(Ptr<Table>, *const c_void, u32) -> u32>,
    /// Hash of a record.
    pub rec_hash: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>) -> u32>,
    /// Takes a reference.
    pub rec_addref: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>)>,
    /// Gives up a reference; true for the last.
    pub rec_decref: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>) -> bool>,
    /// Gives up several; 1 when none is left.
    pub rec_ndecref: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>, c_int) -> c_int>,
    /// Frees a record.
    pub rec_free: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>)>,
}

/// `struct d_hash_table`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table {
    /// A mutex, in the room of the largest lock.
    lock: [u64; 7],
    bits: u32,
    feats: u32,
    /// The caller's pointer.
    pub private: Bytes,
    ops: Ptr<Ops>,
    buckets: Ptr<Link>,
    locks: Bytes,
}

/// `d_hash_traverse_cb_t`.
pub type Visitor = unsafe extern "C" fn(link: Ptr<Link>, arg: *mut c_void) -> c_int;

const NO_LOCK: u32 = 0x1;
pub(super) const EPHEMERAL: u32 = 0x8;
pub(super) const LRU: u32 = 0x10;
const BITS_MAX: u32 = 30;

const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= 56);

/// A table that is there, with what its structure says.
pub(super) struct Known {
    pub(super) at: Ptr<Table>,
    pub(super) table: Table,
    pub(super) ops: Ops,
}

/// A table that is locked, whole: the same thread may lock it again, so callbacks may use it.
pub(super) struct Locked(Option<*mut libc::pthread_mutex_t>);

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(mutex) = self.0 {
            // SAFETY: this thread locked it.
            unsafe { libc::pthread_mutex_unlock(mutex) };
        }
    }
}

fn mutex_of(at: Ptr<Table>) -> *mut libc::pthread_mutex_t {
    at.raw().cast()
}

impl Known {
    pub(super) fn new(at: Ptr<Table>) -> Result<Self> {
        let table = at.get()?;
        let ops = table.ops.get()?;
        if table.buckets.is_null() { Err(Code::INVAL) } else { Ok(Self { at, table, ops }) }
    }

    pub(super) fn lock(&self) -> Locked {
        if self.has(NO_LOCK) {
            return Locked(None);
        }
        let mutex = mutex_of(self.at);
        // SAFETY: the table was made with a mutex in that place.
        unsafe { libc::pthread_mutex_lock(mutex) };
        Locked(Some(mutex))
    }

    pub(super) fn has(&self, feature: u32) -> bool {
        self.table.feats & feature != 0
    }

    fn buckets(&self) -> impl Iterator<Item = Ptr<Link>> + use<> {
        let (first, count) = (self.table.buckets, 1usize << self.table.bits);
        (0..count).map(move |index| first.at(index))
    }

    pub(super) fn bucket(&self, hash: u32) -> Ptr<Link> {
        let mask = (1usize << self.table.bits) - 1;
        self.table.buckets.at(hash as usize & mask)
    }

    pub(super) fn links(&self) -> impl Iterator<Item = Ptr<Link>> + use<> {
        self.buckets().flat_map(Ptr::links)
    }
}

fn init(feats: u32, bits: u32, private: Bytes, ops: Ptr<Ops>, at: Ptr<Table>) -> Result<()> {
    at.needed()?;
    if bits > BITS_MAX || ops.get()?.key_cmp.is_none() {
        return Err(Code::INVAL);
    }
    let buckets: Ptr<Link> = memory::zeroed(1 << bits)?;
    (0..1usize << bits).for_each(|index| buckets.at(index).reset());
    at.set(Table { lock: [0; 7], bits, feats, private, ops, buckets, locks: Ptr::null() });
    if feats & NO_LOCK == 0 {
        make_mutex(at);
    }
    Ok(())
}

fn make_mutex(at: Ptr<Table>) {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are of this function, the table has room for a mutex.
    unsafe {
        libc::pthread_mutexattr_init(attributes);
        libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_RECURSIVE);
        libc::pthread_mutex_init(mutex_of(at), attributes);
        libc::pthread_mutexattr_destroy(attributes);
    }
}

/// Makes a table in memory of the caller.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_create_inplace(
    feats: u32,
    bits: u32,
    private: Bytes,
    ops: Ptr<Ops>,
    table: Ptr<Table>,
) -> c_int {
    guard(Code::MISC.0, || code::of(init(feats, bits, private, ops, table)))
}

/// Makes a table.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_create(
    feats: u32,
    bits: u32,
    private: Bytes,
    ops: Ptr<Ops>,
    table: Ptr<Ptr<Table>>,
) -> c_int {
    guard(Code::MISC.0, || {
        code::of((|| {
            let (out, made) = (table.needed()?, memory::zeroed(1)?);
            match init(feats, bits, private, ops, made) {
                Ok(()) => out.set(made),
                Err(code) => {
                    memory::free(made);
                    return Err(code);
                }
            }
            Ok(())
        })())
    })
}

/// Visits every record.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_traverse(
    table: Ptr<Table>,
    visit: Option<Visitor>,
    arg: Bytes,
) -> c_int {
    guard(Code::MISC.0, || {
        let (Ok(known), Some(visit)) = (Known::new(table), visit) else { return Code::INVAL.0 };
        let _locked = known.lock();
        // SAFETY: the caller passed the function to be called so.
        let mut answers = known.links().map(|link| unsafe { visit(link, arg.raw()) });
        answers.find(|answer| *answer != 0).unwrap_or(0)
    })
}

fn end(table: Ptr<Table>, force: bool) -> Result<()> {
    let known = Known::new(table)?;
    {
        let _locked = known.lock();
        if !force && known.links().next().is_some() {
            return Err(Code::BUSY);
        }
        known.links().for_each(|link| known.unlink(link));
    }
    if !known.has(NO_LOCK) {
        // SAFETY: the table was made with a mutex in that place, and nobody uses it any more.
        unsafe { libc::pthread_mutex_destroy(mutex_of(table)) };
    }
    memory::free(known.table.buckets);
    table.set(Table { buckets: Ptr::null(), ..known.table });
    Ok(())
}

/// Ends a table in memory of the caller.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_destroy_inplace(table: Ptr<Table>, force: bool) -> c_int {
    guard(Code::MISC.0, || code::of(end(table, force)))
}

/// Ends and frees a table.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_destroy(table: Ptr<Table>, force: bool) -> c_int {
    guard(Code::MISC.0, || code::of(end(table, force).map(|()| memory::free(table))))
}
