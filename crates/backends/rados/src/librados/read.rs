//! Read operations: all parts see one state of the object.
use crate::librados::library::functions;
use crate::librados::library::{Functions, RawEntries, RawRead};
use crate::librados::write::{Compare, add_comparison, starts};
use esker_types::Result;
use std::ffi::{CString, c_char, c_int, c_uchar};
use std::ptr;

/// An entry of an object's map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key.
    pub key: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

/// The result of a read.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Version of the object.
    pub version: u64,
    /// Entries of its map, ascending by key.
    pub entries: Vec<Entry>,
    /// True if a listing has more entries.
    pub more: bool,
    /// Bytes of its data; fewer than requested at its end.
    pub data: Vec<u8>,
}

/// Outputs that librados fills.
struct Filled {
    entries: *mut RawEntries,
    /// Not zero if a listing has more entries.
    more: c_uchar,
    data: Vec<u8>,
    /// Bytes of `data` that were read.
    data_len: usize,
    /// Codes of the entries and of the data.
    codes: [c_int; 2],
}

/// Parts of a read. At most one of [`ReadOp::keys`] and [`ReadOp::list`], and one [`ReadOp::data`].
pub struct ReadOp {
    functions: &'static Functions,
    raw: *mut RawRead,
    /// librados has pointers into it, so it is neither moved nor accessed until the operation is complete.
    filled: *mut Filled,
}

// SAFETY: an operation may move between threads.
unsafe impl Send for ReadOp {}

impl Drop for ReadOp {
    fn drop(&mut self) {
        // SAFETY: all three were made in `new` or by librados; a pending operation is not dropped.
        unsafe {
            (self.functions.rados_release_read_op)(self.raw);
            let filled = Box::from_raw(self.filled);
            if !filled.entries.is_null() {
                (self.functions.rados_omap_get_end)(filled.entries);
            }
        }
    }
}

impl ReadOp {
    /// An empty read operation.
    ///
    /// # Errors
    /// `NotSupported` if librados is not installed.
    pub fn new() -> Result<Self> {
        let functions = functions()?;
        let filled = Filled {
            entries: ptr::null_mut(),
            more: 0,
            data: Vec::new(),
            data_len: 0,
            codes: [0; 2],
        };
        // SAFETY: it has no arguments.
        let raw = unsafe { (functions.rados_create_read_op)() };
        Ok(Self { functions, raw, filled: Box::into_raw(Box::new(filled)) })
    }

    pub(crate) fn raw(&self) -> *mut RawRead {
        self.raw
    }

    /// Guards the operation: the value under `key` of the object's map must compare as given.
    pub fn add_comparison(&mut self, key: &[u8], compare: Compare, value: &[u8]) -> &mut Self {
        // SAFETY: the operation is valid.
        unsafe {
            add_comparison(self.functions.rados_read_op_omap_cmp2, self.raw, key, compare, value)
        };
        self
    }

    /// Reads the entries with these keys; missing keys are left out.
    pub fn keys(&mut self, keys: &[&[u8]]) -> &mut Self {
        let (starts, lens) = starts(keys);
        let get = self.functions.rados_read_op_omap_get_vals_by_keys2;
        // SAFETY: librados copies the keys; the outputs do not move until it is done.
        unsafe {
            let (entries, code) =
                (&raw mut (*self.filled).entries, &raw mut (*self.filled).codes[0]);
            get(self.raw, starts.as_ptr(), keys.len(), lens.as_ptr(), entries, code);
        }
        self
    }

    /// Lists the first `most` entries with keys after `after` that begin with `prefix`. Both end at their first
    /// zero byte, if they have one.
    pub fn list(&mut self, after: &[u8], prefix: &[u8], most: u64) -> &mut Self {
        let (after, prefix) = (c_text(after), c_text(prefix));
        let list = self.functions.rados_read_op_omap_get_vals2;
        // SAFETY: librados copies the texts; the outputs do not move until it is done.
        unsafe {
            let (entries, more) = (&raw mut (*self.filled).entries, &raw mut (*self.filled).more);
            let code = &raw mut (*self.filled).codes[0];
            list(self.raw, after.as_ptr(), prefix.as_ptr(), most, entries, more, code);
        }
        self
    }

    /// Reads `len` bytes of the object's data, starting at `offset`.
    pub fn data(&mut self, offset: u64, len: usize) -> &mut Self {
        // SAFETY: nothing else uses the outputs yet; the buffer does not move until librados is done.
        unsafe {
            let filled = &mut *self.filled;
            filled.data = Vec::with_capacity(len);
            let buffer = filled.data.as_mut_ptr().cast::<c_char>();
            let (read, code) = (&raw mut (*self.filled).data_len, &raw mut (*self.filled).codes[1]);
            (self.functions.rados_read_op_read)(self.raw, offset, len, buffer, read, code);
        }
        self
    }

    /// The result of an operation that completed without error.
    pub(crate) fn finish(self, version: u64) -> Found {
        // SAFETY: librados is done with the outputs.
        let filled = unsafe { &mut *self.filled };
        let mut data = std::mem::take(&mut filled.data);
        // SAFETY: librados has written this many bytes, never more than the buffer holds.
        unsafe { data.set_len(filled.data_len.min(data.capacity())) };
        Found { version, entries: self.entries(filled.entries), more: filled.more != 0, data }
    }

    /// All entries that an operation has found.
    fn entries(&self, raw: *mut RawEntries) -> Vec<Entry> {
        let mut entries = Vec::new();
        while let Some(entry) = self.next(raw) {
            entries.push(entry);
        }
        entries
    }

    /// The next entry; `None` at the end.
    fn next(&self, raw: *mut RawEntries) -> Option<Entry> {
        if raw.is_null() {
            return None;
        }
        let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
        let (mut key_len, mut value_len) = (0, 0);
        let next = self.functions.rados_omap_get_next2;
        // SAFETY: the iterator is valid until `drop` ends it.
        let code = unsafe {
            next(raw, &raw mut key, &raw mut value, &raw mut key_len, &raw mut value_len)
        };
        if code < 0 || key.is_null() {
            return None;
        }
        // SAFETY: librados keeps these bytes until the iterator is ended.
        unsafe { Some(Entry { key: copy(key, key_len), value: copy(value, value_len) }) }
    }
}

/// Copies bytes of librados.
///
/// # Safety
/// `start` points to `len` bytes; it may be null if `len` is zero.
unsafe fn copy(start: *const c_char, len: usize) -> Vec<u8> {
    match start.is_null() || len == 0 {
        true => Vec::new(),
        // SAFETY: the caller guarantees it.
        false => unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) }.to_vec(),
    }
}

/// The text up to its first zero byte.
fn c_text(text: &[u8]) -> CString {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}
