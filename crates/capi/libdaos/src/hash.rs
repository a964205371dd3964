//! A chained hash table with links inside the caller's records (`gurt/hash.h`), and hash functions.
use crate::abi::{Bytes, Link, Ptr, Str};
use crate::boundary::{self, guard};
use crate::code::{self, Code, Result};
use crate::memory;
use std::ffi::{c_int, c_void};

/// `d_hash_table_ops_t`: the caller's functions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ops {
    /// Compares the key of a record.
    pub key_cmp: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>, *const c_void, u32) -> bool>,
    /// Assigns a key to a record.
    pub key_init: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>, *mut c_void)>,
    /// Hashes a key.
    pub key_hash: Option<unsafe extern "C" fn(Ptr<Table>, *const c_void, u32) -> u32>,
    /// Hashes a record.
    pub rec_hash: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>) -> u32>,
    /// Takes a reference.
    pub rec_addref: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>)>,
    /// Releases a reference; true for the last one.
    pub rec_decref: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>) -> bool>,
    /// Releases several references; 1 if none is left.
    pub rec_ndecref: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>, c_int) -> c_int>,
    /// Frees a record.
    pub rec_free: Option<unsafe extern "C" fn(Ptr<Table>, Ptr<Link>)>,
}

/// `struct d_hash_table`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table {
    /// A mutex, in the space of the largest lock type of DAOS.
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

/// `D_HASH_FT_NOLOCK`: the caller locks the table itself.
const NO_LOCK: u32 = 0x1;
/// `D_HASH_FT_EPHEMERAL`: the table holds no references. A record leaves the table with its last reference.
const EPHEMERAL: u32 = 0x8;
/// `D_HASH_FT_LRU`: each bucket is sorted by last use, the latest first.
const LRU: u32 = 0x10;
/// Most bits of the number of buckets.
const BITS_MAX: u32 = 30;

const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= 56);

/// An initialised table and the contents of its structure.
struct OpenTable {
    at: Ptr<Table>,
    table: Table,
    ops: Ops,
}

/// A lock on the table. The lock is recursive, so callbacks may use the table.
struct Locked(Option<*mut libc::pthread_mutex_t>);

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(mutex) = self.0 {
            // SAFETY: this thread locked it.
            unsafe { libc::pthread_mutex_unlock(mutex) };
        }
    }
}

/// The mutex, which is the first field of the table.
fn mutex_of(at: Ptr<Table>) -> *mut libc::pthread_mutex_t {
    at.raw().cast()
}

impl OpenTable {
    /// Reads the table of the caller, and checks that it has buckets.
    fn new(at: Ptr<Table>) -> Result<Self> {
        let table = at.get()?;
        let ops = table.ops.get()?;
        if table.buckets.is_null() { Err(Code::INVAL) } else { Ok(Self { at, table, ops }) }
    }

    /// Locks the table, unless its creator chose to lock it outside (`NO_LOCK`).
    fn lock(&self) -> Locked {
        if self.has(NO_LOCK) {
            return Locked(None);
        }
        let mutex = mutex_of(self.at);
        // SAFETY: `make_mutex` initialised the mutex.
        unsafe { libc::pthread_mutex_lock(mutex) };
        Locked(Some(mutex))
    }

    fn has(&self, feature: u32) -> bool {
        self.table.feats & feature != 0
    }

    /// The buckets, each the head of a list of records.
    fn buckets(&self) -> impl Iterator<Item = Ptr<Link>> + use<> {
        let (first, count) = (self.table.buckets, 1usize << self.table.bits);
        (0..count).map(move |index| first.at(index))
    }

    /// The bucket of a hash: its lower bits are the index.
    fn bucket(&self, hash: u32) -> Ptr<Link> {
        let mask = (1usize << self.table.bits) - 1;
        self.table.buckets.at(hash as usize & mask)
    }

    /// All records.
    fn links(&self) -> impl Iterator<Item = Ptr<Link>> + use<> {
        self.buckets().flat_map(Ptr::links)
    }
}

/// Makes a table of 2^`bits` buckets in the memory of the caller. `feats` are `D_HASH_FT_*`, `private` is a pointer of
/// the caller.
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

/// Initialises the lock of the table. It is recursive: a thread that holds it may take it again.
fn make_mutex(at: Ptr<Table>) {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are local, and the table has space for a mutex.
    unsafe {
        libc::pthread_mutexattr_init(attributes);
        libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_RECURSIVE);
        libc::pthread_mutex_init(mutex_of(at), attributes);
        libc::pthread_mutexattr_destroy(attributes);
    }
}

/// Creates a table in memory of the caller.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_create_inplace(
    feats: u32,
    bits: u32,
    private: Bytes,
    ops: Ptr<Ops>,
    table: Ptr<Table>,
) -> c_int {
    boundary::always(|| init(feats, bits, private, ops, table))
}

/// Creates a table.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_create(
    feats: u32,
    bits: u32,
    private: Bytes,
    ops: Ptr<Ops>,
    table: Ptr<Ptr<Table>>,
) -> c_int {
    boundary::always(|| {
        let (out, made) = (table.needed()?, memory::zeroed(1)?);
        init(feats, bits, private, ops, made).inspect_err(|_| memory::free(made))?;
        out.set(made);
        Ok(())
    })
}

/// Calls `visit` for each record until it returns something other than 0, and returns that.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_traverse(
    table: Ptr<Table>,
    visit: Option<Visitor>,
    arg: Bytes,
) -> c_int {
    guard(Code::MISC.0, || {
        let (Ok(open), Some(visit)) = (OpenTable::new(table), visit) else { return Code::INVAL.0 };
        let _locked = open.lock();
        // SAFETY: the caller passed the function for this purpose.
        let mut answers = open.links().map(|link| unsafe { visit(link, arg.raw()) });
        answers.find(|answer| *answer != 0).unwrap_or(0)
    })
}

/// Destroys a table. Without `force`, it must be empty.
fn destroy(table: Ptr<Table>, force: bool) -> Result<()> {
    let open = OpenTable::new(table)?;
    {
        let _locked = open.lock();
        if !force && open.links().next().is_some() {
            return Err(Code::BUSY);
        }
        open.links().for_each(|link| open.unlink(link));
    }
    if !open.has(NO_LOCK) {
        // SAFETY: `make_mutex` initialised the mutex, and nothing uses it any more.
        unsafe { libc::pthread_mutex_destroy(mutex_of(table)) };
    }
    memory::free(open.table.buckets);
    table.set(Table { buckets: Ptr::null(), ..open.table });
    Ok(())
}

/// Destroys a table in memory of the caller.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_destroy_inplace(table: Ptr<Table>, force: bool) -> c_int {
    boundary::always(|| destroy(table, force))
}

/// Destroys and frees a table.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_table_destroy(table: Ptr<Table>, force: bool) -> c_int {
    boundary::always(|| destroy(table, force).map(|()| memory::free(table)))
}

impl OpenTable {
    /// Returns the bucket of a key, chosen by the hash function of the caller, or by `djb2` if the caller has none.
    fn bucket_of(&self, key: Bytes, len: u32) -> Result<Ptr<Link>> {
        let hash = match self.ops.key_hash {
            // SAFETY: the caller's own function and key.
            Some(hash) => unsafe { hash(self.at, key.raw(), len) },
            None => djb2(key.read(len.into())?),
        };
        Ok(self.bucket(hash))
    }

    /// Finds a record by its key.
    fn find(&self, key: Bytes, len: u32) -> Result<Option<Ptr<Link>>> {
        let compare = self.ops.key_cmp.ok_or(Code::INVAL)?;
        let bucket = self.bucket_of(key, len)?;
        // SAFETY: the caller's own function, record and key.
        let is_it = |link: &Ptr<Link>| unsafe { compare(self.at, *link, key.raw(), len) };
        Ok(bucket.links().find(is_it))
    }

    /// Calls the caller's function that counts one more reference to the record.
    fn add_reference(&self, link: Ptr<Link>) {
        if let Some(add) = self.ops.rec_addref {
            // SAFETY: the caller's own function and record.
            unsafe { add(self.at, link) }
        }
    }

    /// Calls the caller's function that counts one reference to the record less. True if that was the last one.
    fn drop_reference(&self, link: Ptr<Link>) -> bool {
        // SAFETY: the caller's own function and record.
        self.ops.rec_decref.is_some_and(|drop| unsafe { drop(self.at, link) })
    }

    /// Frees a record by the owner's function.
    fn free(&self, link: Ptr<Link>) {
        if let Some(free) = self.ops.rec_free {
            // SAFETY: the caller's own function, and a record without references.
            unsafe { free(self.at, link) }
        }
    }

    /// Inserts a record. The table holds a reference, unless the table is ephemeral.
    fn link(&self, bucket: Ptr<Link>, link: Ptr<Link>) {
        if !self.has(EPHEMERAL) {
            self.add_reference(link);
        }
        bucket.insert_after(link);
    }

    /// Removes a record from the table. Unless the table is ephemeral, it holds a reference to each record: releases
    /// that, and frees the record if it was the last one.
    fn unlink(&self, link: Ptr<Link>) {
        link.remove();
        if !self.has(EPHEMERAL) && self.drop_reference(link) {
            self.free(link);
        }
    }

    /// Frees a record whose last reference was released.
    fn free_unreferenced(&self, link: Ptr<Link>) {
        if self.has(EPHEMERAL) && !link.is_alone() {
            link.remove();
        }
        self.free(link);
    }

    /// Adds a reference to a record that was found, for the caller. In an LRU table, the record becomes the most
    /// recently used.
    fn hand_out(&self, bucket: Ptr<Link>, link: Ptr<Link>) -> Ptr<Link> {
        self.add_reference(link);
        if self.has(LRU) {
            link.remove();
            bucket.insert_after(link);
        }
        link
    }
}

/// Runs `work` on the locked table. Returns `failed` if that fails or panics.
fn with<T>(table: Ptr<Table>, failed: T, work: impl FnOnce(&OpenTable) -> Result<T>) -> T {
    let work = || {
        let open = OpenTable::new(table)?;
        let _locked = open.lock();
        work(&open)
    };
    guard(Err(Code::MISC), work).unwrap_or(failed)
}

/// Runs `work` on the locked table, and returns its code. `INVAL` if the table is not valid.
fn status(table: Ptr<Table>, work: impl FnOnce(&OpenTable) -> Result<()>) -> c_int {
    with(table, Code::INVAL.0, |open| Ok(code::from_result(work(open))))
}

/// Finds the record with this key; returns a null pointer if none has it.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_find(table: Ptr<Table>, key: Bytes, len: u32) -> Ptr<Link> {
    with(table, Ptr::null(), |open| {
        let found = open.find(key, len)?.ok_or(Code::NONEXIST)?;
        Ok(open.hand_out(open.bucket_of(key, len)?, found))
    })
}

/// Finds the record with this key, or inserts the given one.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_find_insert(
    table: Ptr<Table>,
    key: Bytes,
    len: u32,
    link: Ptr<Link>,
) -> Ptr<Link> {
    with(table, Ptr::null(), |open| {
        let bucket = open.bucket_of(key, len)?;
        if let Some(found) = open.find(key, len)? {
            return Ok(open.hand_out(bucket, found));
        }
        open.link(bucket, link.needed()?);
        Ok(link)
    })
}

/// Inserts a record. With `exclusive`, fails with `EXIST` if one has the key already.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_insert(
    table: Ptr<Table>,
    key: Bytes,
    len: u32,
    link: Ptr<Link>,
    exclusive: bool,
) -> c_int {
    status(table, |open| {
        if len == 0 {
            return Err(Code::INVAL);
        }
        let (_, link) = (key.needed()?, link.needed()?);
        if exclusive && open.find(key, len)?.is_some() {
            return Err(Code::EXIST);
        }
        open.link(open.bucket_of(key, len)?, link);
        Ok(())
    })
}

/// Inserts a record and assigns its key.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_insert_anonym(
    table: Ptr<Table>,
    link: Ptr<Link>,
    arg: Bytes,
) -> c_int {
    status(table, |open| {
        let init = open.ops.key_init.ok_or(Code::INVAL)?;
        let hash = open.ops.rec_hash.ok_or(Code::INVAL)?;
        let link = link.needed()?;
        // SAFETY: the caller's own functions and record.
        let hash = unsafe {
            init(open.at, link, arg.raw());
            hash(open.at, link)
        };
        open.link(open.bucket(hash), link);
        Ok(())
    })
}

/// Removes the record with this key. True if there was one.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_delete(table: Ptr<Table>, key: Bytes, len: u32) -> bool {
    with(table, false, |open| {
        let found = open.find(key, len)?;
        found.into_iter().for_each(|link| open.unlink(link));
        Ok(found.is_some())
    })
}

/// Removes this record. True if it was in a table.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_delete_at(table: Ptr<Table>, link: Ptr<Link>) -> bool {
    with(table, false, |open| {
        let linked = !link.is_alone();
        if linked {
            open.unlink(link);
        }
        Ok(linked)
    })
}

/// Moves a record to the end of its bucket, which makes it the least recently used. False if the table is not an LRU
/// table, or the record is in none.
fn evict(open: &OpenTable, link: Ptr<Link>, bucket: Ptr<Link>) -> bool {
    let may = open.has(LRU) && !link.is_alone();
    if may {
        link.remove();
        bucket.insert_before(link);
    }
    may
}

/// Makes the record with this key the least recently used of its bucket. True if it was moved.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_evict(table: Ptr<Table>, key: Bytes, len: u32) -> bool {
    with(table, false, |open| {
        let found = open.find(key, len)?.ok_or(Code::NONEXIST)?;
        Ok(evict(open, found, open.bucket_of(key, len)?))
    })
}

/// Makes this record the least recently used of its bucket. True if it was moved.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_evict_at(table: Ptr<Table>, link: Ptr<Link>) -> bool {
    with(table, false, |open| {
        let hash = open.ops.rec_hash.ok_or(Code::INVAL)?;
        // SAFETY: the caller's own function and record.
        let hash = unsafe { hash(open.at, link.needed()?) };
        Ok(evict(open, link, open.bucket(hash)))
    })
}

/// Takes a reference.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_addref(table: Ptr<Table>, link: Ptr<Link>) {
    with(table, (), |open| {
        open.add_reference(link.needed()?);
        Ok(())
    });
}

/// Releases a reference. The last one frees the record.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_decref(table: Ptr<Table>, link: Ptr<Link>) {
    with(table, (), |open| {
        if open.drop_reference(link.needed()?) {
            open.free_unreferenced(link);
        }
        Ok(())
    });
}

/// Releases `count` references. The last one frees the record.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_ndecref(table: Ptr<Table>, count: c_int, link: Ptr<Link>) -> c_int {
    status(table, |open| {
        let left = drop_references(open, link.needed()?, count)?;
        if !left {
            open.free_unreferenced(link);
        }
        Ok(())
    })
}

/// Releases `count` references to a record. True if others remain.
fn drop_references(open: &OpenTable, link: Ptr<Link>, count: c_int) -> Result<bool> {
    if let Some(drop) = open.ops.rec_ndecref {
        // SAFETY: the caller's own function and record.
        return match unsafe { drop(open.at, link, count) } {
            0 => Ok(true),
            error if error < 0 => Err(Code(error)),
            // A positive result says that none are left.
            _ => Ok(false),
        };
    }
    for dropped in 1..=count {
        if open.drop_reference(link) {
            return if dropped == count { Ok(false) } else { Err(Code::INVAL) };
        }
    }
    Ok(true)
}

/// Whether the record is in no table.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_unlinked(link: Ptr<Link>) -> bool {
    link.is_alone()
}

/// Returns any record.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_rec_first(table: Ptr<Table>) -> Ptr<Link> {
    with(table, Ptr::null(), |open| open.links().next().ok_or(Code::NONEXIST))
}

/// First value and factor of the DJB2 hash.
const DJB2_START: u32 = 5381;
const DJB2_FACTOR: u32 = 33;

/// DJB2 hash of bytes.
fn djb2(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(DJB2_FACTOR).wrapping_add(u32::from(*byte));
    bytes.iter().fold(DJB2_START, step)
}

/// DJB2 hash of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_string_u32(text: Str, len: u32) -> u32 {
    guard(0, || text.cast::<c_void>().read(len.into()).map_or(0, djb2))
}

/// Factor and shift of MurmurHash64A.
const MURMUR_FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const MURMUR_SHIFT: u32 = 47;

/// `MurmurHash64A` of some bytes.
fn murmur(bytes: &[u8], seed: u64) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let start = seed ^ (bytes.len() as u64).wrapping_mul(MURMUR_FACTOR);
    let mut hash = words.fold(start, |hash, word| {
        let mixed = little_endian(word).wrapping_mul(MURMUR_FACTOR);
        let mixed = (mixed ^ mixed >> MURMUR_SHIFT).wrapping_mul(MURMUR_FACTOR);
        (hash ^ mixed).wrapping_mul(MURMUR_FACTOR)
    });
    if !rest.is_empty() {
        hash = (hash ^ little_endian(rest)).wrapping_mul(MURMUR_FACTOR);
    }
    hash = (hash ^ hash >> MURMUR_SHIFT).wrapping_mul(MURMUR_FACTOR);
    hash ^ hash >> MURMUR_SHIFT
}

/// The number in up to 8 bytes, the lowest first.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// MurmurHash64A of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_murmur64(key: Bytes, len: u32, seed: u32) -> u64 {
    guard(0, || key.read(len.into()).map_or(0, |bytes| murmur(bytes, seed.into())))
}
