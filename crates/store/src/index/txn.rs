//! Transactions and cursors of an index.
#![allow(unsafe_code)]

use super::lmdb::{IdleTxn, Index, Pages};
use crate::format::superblock::PAGE;
use crate::io::turn::TurnWord;
use crate::io::writing::Writing;
use esker_types::{Error, ErrorKind, Result};
use lmdb_master_sys as lmdb;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Common base of read and write transactions: it reads the index.
pub(crate) struct Txn {
    raw: *mut lmdb::MDB_txn,
    /// Index of the transaction. [`ReadTxn`] borrows it, [`WriteTxn`] shares it.
    index: NonNull<Index>,
    /// True if changed pages are copies outside the mapping.
    has_copies: bool,
}

/// Number of LMDB's own database, which lists free pages.
const TREE_OF_FREE_PAGES: lmdb::MDB_dbi = 0;
/// A value with more bytes than this is stored on overflow pages.
const OWN_PAGES_MIN: u64 = 2048;
/// Number of meta pages at the start of the file. They belong to no tree.
const META_PAGES: u64 = 2;

/// Bytes of a page header. Values on overflow pages follow such a header too.
pub(crate) const PAGE_HEADER: usize = 16;
/// Page flag of the first overflow page of a value.
pub(crate) const OVERFLOW: u16 = 0x04;

/// A key and its value.
pub(crate) type Entry<'t> = (&'t [u8], &'t [u8]);

/// Result of an insertion.
pub(crate) enum Inserted<'t> {
    /// The key was inserted between these two entries.
    Between(Option<Entry<'t>>, Option<Entry<'t>>),
    /// The key existed with this value, which is not changed.
    Existed(&'t [u8]),
}

fn val(bytes: &[u8]) -> lmdb::MDB_val {
    lmdb::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

/// First word of a key or value in LMDB's list of free pages: a transaction id or a page count.
fn first_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

fn empty() -> lmdb::MDB_val {
    lmdb::MDB_val { mv_size: 0, mv_data: null_mut() }
}

impl Txn {
    #[inline]
    fn index(&self) -> &Index {
        // SAFETY: the index outlives the transaction: a reader borrows it, a writer shares it.
        unsafe { self.index.as_ref() }
    }

    /// Transaction id. For a reader, it is that of the last commit that the reader sees.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: `raw` is a live transaction.
        unsafe { lmdb::mdb_txn_id(self.raw) as u64 }
    }

    /// Value of a key; `None` if the key does not exist.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        let (mut key, mut value) = (val(key), empty());
        // SAFETY: `raw` is live; LMDB reads the key and points `value` into its mapping.
        let code =
            unsafe { lmdb::mdb_get(self.raw, self.index().dbi, &raw mut key, &raw mut value) };
        if code == lmdb::MDB_NOTFOUND {
            return Ok(None);
        }
        self.index().check(code, "reading")?;
        self.slice(value).map(Some)
    }

    /// Number of the first overflow page of a value; `None` if the key does not exist.
    pub(crate) fn page_of(&self, key: &[u8]) -> Result<Option<u64>> {
        match self.get(key)? {
            Some(value) => self.page_before(val(value)).map(Some),
            None => Ok(None),
        }
    }

    /// Number of the overflow page on which a value begins, from the header before the value.
    fn page_before(&self, value: lmdb::MDB_val) -> Result<u64> {
        let page = match value.mv_size as u64 {
            // SAFETY: a value of this length begins on an overflow page, behind a page header. Both live as long as the
            // transaction.
            len if len > OWN_PAGES_MIN => unsafe { PageHeader::before(value.mv_data) }.number,
            _ => u64::MAX,
        };
        let pages = self.index().bytes as u64 / self.pages()?.bytes.max(1);
        match page < pages {
            true => Ok(page),
            false => Err(Error::new(
                ErrorKind::Corrupt,
                "the index refers to pages that do not exist: run `esker pool check`",
            )),
        }
    }

    /// The bytes that LMDB points to. Fails if they cannot exist, since a damaged page may claim any length.
    fn slice(&self, value: lmdb::MDB_val) -> Result<&[u8]> {
        if value.mv_size == 0 {
            return Ok(&[]);
        }
        if !self.is_inside(value) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the index has a value of an impossible length: run `esker pool check`",
            ));
        }
        // SAFETY: LMDB points into a page of its mapping, and `mv_size` bytes are within it. The page lives as long as
        // the transaction. In a write transaction the next change needs `&mut`, which ends this borrow.
        Ok(unsafe { std::slice::from_raw_parts(value.mv_data.cast(), value.mv_size) })
    }

    /// True if a value is within its page or its overflow pages.
    fn is_inside(&self, value: lmdb::MDB_val) -> bool {
        let at = value.mv_data as usize % PAGE;
        match value.mv_size {
            // Copies of changed pages may be at any address.
            len if self.has_copies => len <= self.index().bytes,
            len if len <= PAGE - at => true,
            _ if at != size_of::<PageHeader>() => false,
            // SAFETY: the header is in the page that the value begins in; it lives as long as the transaction.
            len => unsafe { PageHeader::before(value.mv_data) }.holds(len, self.index().bytes),
        }
    }

    /// Opens a cursor.
    pub(crate) fn cursor(&self) -> Result<Cursor<'_>> {
        self.open_cursor(self.index().dbi)
    }

    /// Opens a cursor over the entries of a tree.
    fn open_cursor(&self, tree: lmdb::MDB_dbi) -> Result<Cursor<'_>> {
        let mut raw = null_mut();
        // SAFETY: `raw` is live; the cursor is closed before the transaction ends, because it borrows the transaction.
        let code = unsafe { lmdb::mdb_cursor_open(self.raw, tree, &raw mut raw) };
        self.index().check(code, "reading")?;
        Ok(Cursor { raw, txn: self })
    }

    /// Number of pages in use and of all pages.
    pub(crate) fn pages(&self) -> Result<Pages> {
        self.page_counts(self.index().dbi)
    }

    /// Number of pages that a tree uses, and of all pages.
    fn page_counts(&self, tree: lmdb::MDB_dbi) -> Result<Pages> {
        // SAFETY: `MDB_stat` is plain data, for which all zeros is a valid value.
        let mut stat: lmdb::MDB_stat = unsafe { std::mem::zeroed() };
        // SAFETY: `raw` is live and `stat` is a local variable that LMDB writes.
        let code = unsafe { lmdb::mdb_stat(self.raw, tree, &raw mut stat) };
        self.index().check(code, "asking")?;
        // A damaged page may claim any number.
        let used = stat
            .ms_branch_pages
            .saturating_add(stat.ms_leaf_pages)
            .saturating_add(stat.ms_overflow_pages);
        let total = self.index().bytes as u64 / u64::from(stat.ms_psize.max(1));
        Ok(Pages { used: used as u64, total, bytes: u64::from(stat.ms_psize) })
    }

    /// Number of free pages that LMDB may reuse if the oldest reader reads the state of transaction `oldest`. The time
    /// grows with the number of transactions before it that freed pages.
    pub(crate) fn free_pages_before(&self, oldest: u64) -> Result<u64> {
        let mut cursor = self.open_cursor(TREE_OF_FREE_PAGES)?;
        let (mut free, mut op) = (0_u64, lmdb::MDB_FIRST);
        while let Some((id, pages)) = cursor.step(empty(), op)? {
            if first_word(id) >= oldest {
                break;
            }
            free = free.saturating_add(first_word(pages));
            op = lmdb::MDB_NEXT;
        }
        Ok(free)
    }

    /// Number of free pages, some of which may not be reusable yet.
    pub(crate) fn free_pages(&self) -> Result<u64> {
        let used = self.pages()?.used.saturating_add(self.page_counts(TREE_OF_FREE_PAGES)?.used);
        Ok(self.index().high_water_pages()?.saturating_sub(used.saturating_add(META_PAGES)))
    }
}

/// A cursor over the entries of an index.
pub(crate) struct Cursor<'t> {
    raw: *mut lmdb::MDB_cursor,
    txn: &'t Txn,
}

impl<'t> Cursor<'t> {
    /// First entry whose key is `key` or greater.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<Option<Entry<'t>>> {
        let found = self.step(val(key), lmdb::MDB_SET_RANGE)?;
        if found.is_some_and(|(found, _)| found < key) {
            // A caller that continues after the key it found would loop forever.
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the keys of the index are out of order: run `esker pool check`",
            ));
        }
        Ok(found)
    }

    /// Last entry whose key is less than `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<Option<Entry<'t>>> {
        self.around(key).map(|(before, _)| before)
    }

    /// Last entry whose key is less than `key`, and first entry whose key is not.
    pub(crate) fn around(&mut self, key: &[u8]) -> Result<(Option<Entry<'t>>, Option<Entry<'t>>)> {
        let after = self.seek(key)?;
        let before = match after {
            Some(_) => self.previous()?,
            None => self.step(empty(), lmdb::MDB_LAST)?,
        };
        Ok((before, after))
    }

    /// Entry after the last one that was returned.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'t>>> {
        self.step(empty(), lmdb::MDB_NEXT)
    }

    /// Entry before the last one that was returned.
    pub(crate) fn previous(&mut self) -> Result<Option<Entry<'t>>> {
        self.step(empty(), lmdb::MDB_PREV)
    }

    /// Moves the cursor as `op` says, from `key` if that needs a key. Returns the entry there; `None` past the first or
    /// the last entry.
    fn step(
        &mut self,
        mut key: lmdb::MDB_val,
        op: lmdb::MDB_cursor_op,
    ) -> Result<Option<Entry<'t>>> {
        let mut value = empty();
        // SAFETY: the cursor is open; LMDB points `key` and `value` into its mapping.
        let code = unsafe { lmdb::mdb_cursor_get(self.raw, &raw mut key, &raw mut value, op) };
        if code == lmdb::MDB_NOTFOUND {
            return Ok(None);
        }
        self.txn.index().check(code, "reading")?;
        Ok(Some((self.txn.slice(key)?, self.txn.slice(value)?)))
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by `Txn::cursor`, closed once, before its transaction ends.
        unsafe { lmdb::mdb_cursor_close(self.raw) };
    }
}

/// A read transaction, which is a consistent view of the index.
pub(crate) struct ReadTxn<'i> {
    txn: Txn,
    _index: PhantomData<&'i Index>,
}

impl<'i> ReadTxn<'i> {
    /// Visits each leaf page with its number and one of its keys.
    pub(crate) fn for_each_page(&self, mut visit: impl FnMut(u64, &[u8])) -> Result<()> {
        let bytes = self.pages()?.bytes as usize;
        let (mut cursor, mut before) = (self.cursor()?, None);
        let mut entry = cursor.seek(&[0])?;
        while let Some((key, _)) = entry {
            let inside = key.as_ptr().addr() % bytes;
            let page = key.as_ptr().wrapping_byte_sub(inside);
            if before.replace(page) != Some(page) {
                // SAFETY: the keys of a read transaction are in LMDB's mapping, which begins at a page boundary. So the
                // complete page is mapped, and its first word is its number.
                visit(unsafe { page.cast::<u64>().read() }, key);
            }
            entry = cursor.next()?;
        }
        Ok(())
    }

    /// Begins a read transaction, which takes a reader slot.
    pub(super) fn begin(index: &'i Index) -> Result<Self> {
        let mut raw = null_mut();
        // SAFETY: the environment is open; `raw` receives the transaction.
        let code =
            unsafe { lmdb::mdb_txn_begin(index.env, null_mut(), lmdb::MDB_RDONLY, &raw mut raw) };
        index.check(code, "reading")?;
        Ok(Self::new(index, raw))
    }

    /// Begins a read transaction that reuses an idle one and its reader slot. If that fails, the idle one is aborted.
    #[inline]
    pub(super) fn renew(index: &'i Index, idle: IdleTxn) -> Result<Self> {
        let raw = idle.0.as_ptr();
        // SAFETY: the transaction is a reset reader of this environment.
        let code = unsafe { lmdb::mdb_txn_renew(raw) };
        if code != 0 {
            // SAFETY: as above; a reader that cannot be renewed is aborted.
            unsafe { lmdb::mdb_txn_abort(raw) };
            index.check(code, "reading")?;
        }
        Ok(Self::new(index, raw))
    }

    fn new(index: &'i Index, raw: *mut lmdb::MDB_txn) -> Self {
        let txn = Txn { raw, index: NonNull::from(index), has_copies: false };
        Self { txn, _index: PhantomData }
    }
}

impl Deref for ReadTxn<'_> {
    type Target = Txn;

    fn deref(&self) -> &Txn {
        &self.txn
    }
}

impl Drop for ReadTxn<'_> {
    fn drop(&mut self) {
        let Some(raw) = NonNull::new(self.txn.raw) else { return };
        // SAFETY: a live reader, whose borrows have ended. It is reset and returned to the pool of idle readers.
        unsafe { lmdb::mdb_txn_reset(raw.as_ptr()) };
        self.txn.index().idle.put(IdleTxn(raw));
    }
}

/// A writer's turn at an index. Dropping it ends the turn.
struct Turn(Arc<Index>);

impl Turn {
    /// Waits for the turn, if writers of the index take turns. `is_alive` tells whether the process with a number is
    /// alive.
    fn take(index: &Arc<Index>, is_alive: impl Fn(u64) -> bool) -> Result<Self> {
        index.turn.iter().try_for_each(|word| word.take(&is_alive))?;
        Ok(Self(Arc::clone(index)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.turn.iter().for_each(TurnWord::end);
    }
}

/// A write transaction. If it is dropped without [`WriteTxn::commit`], nothing changes.
pub(crate) struct WriteTxn {
    txn: Txn,
    /// A cursor at the last entry that was put. The next entry is often adjacent to it, and then needs no descent of
    /// the tree.
    put_cursor: Option<NonNull<lmdb::MDB_cursor>>,
    done: bool,
    /// True if the transaction includes the puts of the write buffer, or notes that it excludes some of them.
    pub(crate) includes_buffer: bool,
    /// Keeps the index alive that `txn` points to. The turn ends after the lock of the index is released.
    _turn: Turn,
    _writing: Writing,
}

// SAFETY: LMDB binds a writer to its thread only through the mutex it holds. The group commit hands
// the transaction to other threads under a lock, and the thread that began it commits it.
unsafe impl Send for WriteTxn {}

impl WriteTxn {
    /// Begins a write transaction after waiting for the turn, if writers of the index take turns. `is_alive` tells
    /// whether the process with a number is alive.
    ///
    /// # Errors
    /// `Busy` on a thread that must not block, if another writer does not finish soon.
    pub(super) fn begin(index: &Arc<Index>, is_alive: impl Fn(u64) -> bool) -> Result<Self> {
        let (mut raw, _writing) = (null_mut(), Writing::begin());
        let turn = Turn::take(index, is_alive)?;
        // SAFETY: the environment is open; `raw` receives the transaction.
        let code = unsafe { lmdb::mdb_txn_begin(index.env, null_mut(), 0, &raw mut raw) };
        index.check(code, "writing")?;
        let txn = Txn { raw, index: NonNull::from(&**index), has_copies: !index.is_mapped() };
        Ok(Self {
            txn,
            put_cursor: None,
            done: false,
            includes_buffer: false,
            _turn: turn,
            _writing,
        })
    }

    /// The cursor at the last entry that was put. LMDB adjusts it when later puts move entries.
    fn put_cursor(&mut self) -> Result<*mut lmdb::MDB_cursor> {
        if let Some(cursor) = self.put_cursor {
            return Ok(cursor.as_ptr());
        }
        // The cursor is closed before the transaction ends.
        let raw = ManuallyDrop::new(self.txn.cursor()?).raw;
        self.put_cursor = NonNull::new(raw);
        Ok(raw)
    }

    /// Closes the cursor at the last entry that was put, before an operation that does not use it.
    fn close_put_cursor(&mut self) {
        if let Some(cursor) = self.put_cursor.take() {
            // SAFETY: opened by `put_cursor`, closed once, before its transaction ends.
            unsafe { lmdb::mdb_cursor_close(cursor.as_ptr()) };
        }
    }

    /// Puts a value at a key, with flags of LMDB. With `MDB_NOOVERWRITE`, returns false if the key exists; then `value`
    /// is set to its value.
    fn put_by(&mut self, key: &[u8], value: &mut lmdb::MDB_val, flags: u32) -> Result<bool> {
        let (mut key, cursor) = (val(key), self.put_cursor()?);
        // SAFETY: the cursor is open; LMDB copies key and value, or points `value` into its mapping.
        let code = unsafe { lmdb::mdb_cursor_put(cursor, &raw mut key, value, flags) };
        if code == lmdb::MDB_KEYEXIST {
            return Ok(false);
        }
        self.txn.index().check(code, "writing").map(|()| true)
    }

    /// Sets the value of a key.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_by(key, &mut val(value), 0).map(drop)
    }

    /// Inserts a key and returns `None`. If the key exists, changes nothing and returns its value.
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<Option<&[u8]>> {
        let mut value = val(value);
        match self.put_by(key, &mut value, lmdb::MDB_NOOVERWRITE)? {
            true => Ok(None),
            false => self.txn.slice(value).map(Some),
        }
    }

    /// Inserts a key in one descent of the tree, and returns the entries before and after it. If the key exists,
    /// changes nothing and returns its value.
    pub(crate) fn insert_between(&mut self, key: &[u8], value: &[u8]) -> Result<Inserted<'_>> {
        let mut value = val(value);
        if !self.put_by(key, &mut value, lmdb::MDB_NOOVERWRITE)? {
            return Ok(Inserted::Existed(self.txn.slice(value)?));
        }
        let raw = self.put_cursor()?;
        let mut cursor = ManuallyDrop::new(Cursor { raw, txn: &self.txn });
        // A step past the end leaves the cursor at its entry; a step before the beginning does not.
        let after = cursor.next()?;
        if after.is_some() {
            cursor.previous()?;
        }
        Ok(Inserted::Between(cursor.previous()?, after))
    }

    /// Sets a key to `len` unspecified bytes on overflow pages; returns the number of the first page.
    pub(crate) fn reserve(&mut self, key: &[u8], len: usize) -> Result<u64> {
        self.close_put_cursor();
        let (mut key, mut value) = (val(key), empty());
        value.mv_size = len;
        // SAFETY: the transaction is live; LMDB copies the key and reserves `len` bytes, which nothing writes to.
        let code = unsafe {
            let flags = lmdb::MDB_RESERVE;
            lmdb::mdb_put(self.txn.raw, self.txn.index().dbi, &raw mut key, &raw mut value, flags)
        };
        self.txn.index().check(code, "writing")?;
        self.txn.page_before(value)
    }

    /// Removes a key; returns false if it did not exist.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.close_put_cursor();
        let mut key = val(key);
        // SAFETY: the transaction is live; LMDB reads the key.
        let code =
            unsafe { lmdb::mdb_del(self.txn.raw, self.txn.index().dbi, &raw mut key, null_mut()) };
        if code == lmdb::MDB_NOTFOUND {
            return Ok(false);
        }
        self.txn.index().check(code, "writing")?;
        Ok(true)
    }

    /// Commits the transaction: all changes become visible at once.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.done = true;
        self.close_put_cursor();
        // SAFETY: the transaction is live and not used after this.
        let code = unsafe { lmdb::mdb_txn_commit(self.txn.raw) };
        self.txn.index().check(code, "committing")
    }
}

impl Deref for WriteTxn {
    type Target = Txn;

    fn deref(&self) -> &Txn {
        &self.txn
    }
}

impl Drop for WriteTxn {
    fn drop(&mut self) {
        if !self.done {
            self.close_put_cursor();
            // SAFETY: the transaction is live and not used after this.
            unsafe { lmdb::mdb_txn_abort(self.txn.raw) };
        }
    }
}

/// Page header, in the layout of LMDB's pages.
#[repr(C)]
struct PageHeader {
    number: u64,
    _unused: u16,
    flags: u16,
    pages: u32,
}

const _: () = assert!(size_of::<PageHeader>() == PAGE_HEADER);

impl PageHeader {
    /// The page header before a value.
    ///
    /// # Safety
    /// `PAGE_HEADER` bytes before the value must be readable.
    unsafe fn before(value: *const c_void) -> Self {
        // SAFETY: the caller guarantees that the bytes are readable, and any bytes are a valid header.
        unsafe { value.byte_sub(PAGE_HEADER).cast::<Self>().read_unaligned() }
    }

    /// True if a value of `len` bytes fits in the pages of the header, and these are within a file of `file` bytes.
    fn holds(&self, len: usize, file: usize) -> bool {
        let bytes = (self.pages as usize).saturating_mul(PAGE);
        let begin = usize::try_from(self.number).unwrap_or(usize::MAX).saturating_mul(PAGE);
        self.flags & OVERFLOW != 0
            && begin.saturating_add(bytes) <= file
            && len.saturating_add(PAGE_HEADER) <= bytes
    }
}
