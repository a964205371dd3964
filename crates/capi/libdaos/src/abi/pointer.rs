//! Pointers from C callers. They are dereferenced only here.
use crate::code::{Code, Result};
use std::ffi::{CStr, c_char, c_void};

/// A pointer argument of a C function: null, or valid as the C headers demand of that argument until the call, or
/// the event it was given, completes. The caller guarantees this, so dereferencing one is safe here. Only C code,
/// [`Ptr::new`] and pointer fields of structures that C filled in create one. Never create one from an integer: a
/// structure with an integer field that holds an address needs an unsafe constructor like [`Ptr::new`].
#[repr(transparent)]
pub struct Ptr<T>(*mut T);

/// A string that ends in NUL.
pub type Str = Ptr<c_char>;

/// Bytes of any meaning.
pub type Bytes = Ptr<c_void>;

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<T> {}

// SAFETY: the headers oblige callers to keep arguments valid and unchanged until the call or its event completes,
// whichever thread does the work.
unsafe impl<T> Send for Ptr<T> {}

impl<T> Ptr<T> {
    /// A null pointer.
    #[must_use]
    pub const fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    /// A pointer for calling the C functions from Rust.
    ///
    /// # Safety
    /// It must be null, or valid as the C headers demand of the argument it is used for.
    #[must_use]
    pub const unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The raw pointer.
    #[must_use]
    pub fn raw(self) -> *mut T {
        self.0
    }

    /// True for a null pointer.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns the pointer, unless it is null.
    ///
    /// # Errors
    /// [`Code::INVAL`].
    pub fn needed(self) -> Result<Self> {
        if self.is_null() { Err(Code::INVAL) } else { Ok(self) }
    }

    /// A pointer to the entry at `index`; a null pointer stays null.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        match self.is_null() {
            true => self,
            false => Self(self.0.wrapping_add(index)),
        }
    }

    /// Converts it to a pointer of another type.
    #[must_use]
    pub fn cast<U>(self) -> Ptr<U> {
        Ptr(self.0.cast())
    }

    /// Writes a result; does nothing for a null pointer.
    pub fn set(self, value: T) {
        if !self.is_null() {
            // SAFETY: the pointer is not null, and the caller guarantees that it is valid.
            unsafe { self.0.write_unaligned(value) }
        }
    }
}

impl<T: Copy> Ptr<T> {
    /// The value it points to.
    ///
    /// # Errors
    /// [`Code::INVAL`] for a null pointer.
    pub fn get(self) -> Result<T> {
        if self.is_null() {
            return Err(Code::INVAL);
        }
        // SAFETY: the pointer is not null, and the caller guarantees that it is valid.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The `count` entries it points to.
    ///
    /// # Errors
    /// [`Code::INVAL`] for a null pointer unless `count` is 0, and for a `count` beyond any memory.
    pub fn list(self, count: usize) -> Result<Vec<T>> {
        self.bounded(count)?;
        (0..count).map(|index| self.at(index).get()).collect()
    }

    /// Checks that this can point to `count` values: it is not null, and their size in bytes fits into `isize`. Any
    /// pointer will do if they have 0 bytes.
    fn bounded(self, count: usize) -> Result<()> {
        // A type of size 0 counts as 1 byte, so that `count` is limited for it, too.
        let bytes = count.checked_mul(size_of::<T>().max(1));
        match bytes {
            Some(0) => Ok(()),
            Some(bytes) if isize::try_from(bytes).is_ok() && !self.is_null() => Ok(()),
            _ => Err(Code::INVAL),
        }
    }
}

impl Bytes {
    /// `len` bytes to read, valid as long as the pointer is.
    ///
    /// # Errors
    /// [`Code::INVAL`] for a null pointer unless `len` is 0, and for a `len` beyond any memory.
    pub fn read<'a>(self, len: u64) -> Result<&'a [u8]> {
        let len = usize::try_from(len).map_err(|_| Code::INVAL)?;
        let bytes = self.cast::<u8>();
        bytes.bounded(len)?;
        match len {
            0 => Ok(&[]),
            // SAFETY: it is not null, and the caller guarantees `len` bytes that do not change.
            _ => Ok(unsafe { std::slice::from_raw_parts(bytes.0, len) }),
        }
    }

    /// `len` bytes to read. `max` is the longest value that the operation accepts.
    ///
    /// # Errors
    /// `too_long` if `len` exceeds `max`; otherwise as [`Bytes::read`].
    pub fn read_at_most<'a>(self, len: u64, max: u64, too_long: Code) -> Result<&'a [u8]> {
        match len > max && isize::try_from(len).is_ok() {
            // A length that no memory can have is refused by `read`, with its own error.
            true => Err(too_long),
            false => self.read(len),
        }
    }

    /// `len` bytes to write, valid as long as the pointer is.
    ///
    /// # Errors
    /// The errors of [`Bytes::read`].
    pub fn write<'a>(self, len: u64) -> Result<&'a mut [u8]> {
        let len = usize::try_from(len).map_err(|_| Code::INVAL)?;
        let bytes = self.cast::<u8>();
        bytes.bounded(len)?;
        match len {
            0 => Ok(&mut []),
            // SAFETY: it is not null, and the caller guarantees `len` bytes that nothing else accesses.
            _ => Ok(unsafe { std::slice::from_raw_parts_mut(bytes.0, len) }),
        }
    }
}

/// Longest string that is accepted, far longer than any name or key.
const STRING_MAX: usize = 1 << 20;

impl Str {
    /// The bytes before the NUL, valid as long as the pointer is.
    ///
    /// # Errors
    /// [`Code::INVAL`] for a null pointer, and for strings that are longer than any name or key.
    pub fn bytes<'a>(self) -> Result<&'a [u8]> {
        self.needed()?;
        // SAFETY: the caller guarantees a string that ends in NUL.
        let bytes = unsafe { CStr::from_ptr(self.0) }.to_bytes();
        if bytes.len() <= STRING_MAX { Ok(bytes) } else { Err(Code::INVAL) }
    }

    /// The string as UTF-8.
    ///
    /// # Errors
    /// [`Code::INVAL`].
    pub fn text<'a>(self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Code::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_from_a_null_pointer_stay_null() {
        assert_eq!(Ptr::<u64>::null().at(3).get(), Err(Code::INVAL));
        assert!(Bytes::null().cast::<u8>().at(usize::MAX).is_null());
        let mut words = [1u64, 2, 3];
        // SAFETY: the array has three words.
        let first = unsafe { Ptr::new(words.as_mut_ptr()) };
        assert_eq!(first.at(2).get(), Ok(3));
    }
}
