//! Write operations: all parts are applied, or none.
use crate::librados::library::functions;
use crate::librados::library::{Bytes, CompareFunction, Functions, RawWrite};
use esker_types::Result;
use std::ffi::{c_char, c_int};
use std::ptr;

/// Makes an operation on a full pool fail instead of waiting for space (`LIBRADOS_OPERATION_FULL_TRY`).
const FULL_TRY: c_int = 64;

/// Makes an operation succeed even if the pool is full (`LIBRADOS_OPERATION_FULL_FORCE`).
const FULL_FORCE: c_int = 128;

/// Comparison operators for values of an object's map. A missing value counts as empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compare {
    /// Equal (`LIBRADOS_CMPXATTR_OP_EQ`).
    Equal = 1,
    /// Greater, byte by byte (`LIBRADOS_CMPXATTR_OP_GT`).
    Greater = 3,
    /// Less, byte by byte (`LIBRADOS_CMPXATTR_OP_LT`).
    Less = 5,
}

/// Parts of a write, applied in the order they were added. The first guard that fails aborts it.
pub struct WriteOp {
    functions: &'static Functions,
    raw: *mut RawWrite,
    flags: c_int,
}

// SAFETY: an operation may move between threads.
unsafe impl Send for WriteOp {}

impl Drop for WriteOp {
    fn drop(&mut self) {
        // SAFETY: `rados_create_write_op` made it; librados keeps copies for pending operations.
        unsafe { (self.functions.rados_release_write_op)(self.raw) }
    }
}

/// The start of bytes, as a C pointer.
pub(crate) fn start(bytes: &[u8]) -> Bytes {
    bytes.as_ptr().cast::<c_char>()
}

/// The start and the length of each byte string.
pub(crate) fn starts(bytes: &[&[u8]]) -> (Vec<Bytes>, Vec<usize>) {
    bytes.iter().map(|bytes| (start(bytes), bytes.len())).unzip()
}

/// Adds a comparison to an operation. The operation changes nothing, and fails with `-ECANCELED`, if the value of `key`
/// in the object's map does not compare as given.
///
/// # Safety
/// `op` is a valid operation of the kind that `function` takes.
pub(crate) unsafe fn add_comparison<Op>(
    function: CompareFunction<Op>,
    op: *mut Op,
    key: &[u8],
    compare: Compare,
    value: &[u8],
) {
    let (key_start, value_start) = (start(key), start(value));
    let compare = compare as u8;
    // SAFETY: the caller guarantees it; librados copies key and value.
    unsafe {
        function(op, key_start, compare, value_start, key.len(), value.len(), ptr::null_mut());
    }
}

impl WriteOp {
    /// An empty write operation.
    ///
    /// # Errors
    /// `NotSupported` if librados is not installed.
    pub fn new() -> Result<Self> {
        let functions = functions()?;
        // SAFETY: it has no arguments.
        let raw = unsafe { (functions.rados_create_write_op)() };
        Ok(Self { functions, raw, flags: FULL_TRY })
    }

    pub(crate) fn raw(&self) -> *mut RawWrite {
        self.raw
    }

    /// Flags of the operation for librados.
    pub(crate) fn flags(&self) -> c_int {
        self.flags
    }

    /// Makes the operation succeed even if the pool is full. Only for steps of a change that frees space.
    pub fn force_if_full(&mut self) -> &mut Self {
        self.flags |= FULL_FORCE;
        self
    }

    /// Creates the object if it does not exist.
    pub fn create(&mut self) -> &mut Self {
        self.make(0)
    }

    /// Creates the object; `-EEXIST` if it exists.
    pub fn create_new(&mut self) -> &mut Self {
        self.make(1)
    }

    /// Adds the creation of the object. With 1 as `exclusive`, a present object makes the operation fail; with 0, it
    /// does not.
    fn make(&mut self, exclusive: c_int) -> &mut Self {
        // SAFETY: the operation is valid; librados does not use the last argument.
        unsafe { (self.functions.rados_write_op_create)(self.raw, exclusive, ptr::null()) };
        self
    }

    /// Guards the operation: the value under `key` of the object's map must compare as given.
    /// The object must exist, if only by [`WriteOp::create`].
    pub fn add_comparison(&mut self, key: &[u8], compare: Compare, value: &[u8]) -> &mut Self {
        // SAFETY: the operation is valid.
        unsafe {
            add_comparison(self.functions.rados_write_op_omap_cmp2, self.raw, key, compare, value)
        };
        self
    }

    /// Guards the operation: the object must have this version.
    pub fn assert_version(&mut self, version: u64) -> &mut Self {
        // SAFETY: the operation is valid.
        unsafe { (self.functions.rados_write_op_assert_version)(self.raw, version) };
        self
    }

    /// Adds to the operation that these entries of the object's map are set.
    pub fn set<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> &mut Self {
        let (keys, values): (Vec<&[u8]>, Vec<&[u8]>) = entries.into_iter().unzip();
        let ((keys, key_lens), (values, value_lens)) = (starts(&keys), starts(&values));
        let set = self.functions.rados_write_op_omap_set2;
        // SAFETY: librados copies keys and values.
        unsafe {
            set(
                self.raw,
                keys.as_ptr(),
                values.as_ptr(),
                key_lens.as_ptr(),
                value_lens.as_ptr(),
                keys.len(),
            );
        }
        self
    }

    /// Removes entries of the object's map.
    pub fn unset(&mut self, keys: &[&[u8]]) -> &mut Self {
        let (starts, lens) = starts(keys);
        let remove = self.functions.rados_write_op_omap_rm_keys2;
        // SAFETY: librados copies the keys.
        unsafe { remove(self.raw, starts.as_ptr(), lens.as_ptr(), keys.len()) };
        self
    }

    /// Writes bytes at `offset` of the object's data.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> &mut Self {
        // SAFETY: librados copies the data.
        unsafe {
            (self.functions.rados_write_op_write)(self.raw, start(data), data.len(), offset);
        }
        self
    }

    /// Replaces the object's data.
    pub fn write_full(&mut self, data: &[u8]) -> &mut Self {
        // SAFETY: librados copies the data.
        unsafe { (self.functions.rados_write_op_write_full)(self.raw, start(data), data.len()) };
        self
    }

    /// Removes the object.
    pub fn remove(&mut self) -> &mut Self {
        // SAFETY: the operation is valid.
        unsafe { (self.functions.rados_write_op_remove)(self.raw) };
        self
    }
}
