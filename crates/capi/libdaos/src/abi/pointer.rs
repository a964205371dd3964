//! Pointers that come from C callers, and the only places where they are followed.
use crate::code::{Code, Result};
use std::ffi::{CStr, c_char, c_void};

/// A pointer argument of a C function: null, or good for what the C headers say of that argument
/// until the call (or the event it was given) has ended. The caller vouches for that, which is
/// why following one is not unsafe here; only C, [`Ptr::new`] and the words of structures that C
/// filled make one. So it must not be made of a number: a structure whose word is an address is as
/// much of an unsafe promise as [`Ptr::new`].
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

// SAFETY: the headers oblige callers to leave arguments in place and alone until the call or its
// event has ended, whichever thread does the work.
unsafe impl<T> Send for Ptr<T> {}

impl<T> Ptr<T> {
    /// No pointer.
    #[must_use]
    pub const fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    /// A pointer to hand to the C functions from Rust.
    ///
    /// # Safety
    /// It must be null, or good for what the C headers say of the argument it is used for.
    #[must_use]
    pub const unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The pointer itself.
    #[must_use]
    pub fn raw(self) -> *mut T {
        self.0
    }

    /// True for no pointer.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Refuses no pointer.
    ///
    /// # Errors
    /// [`Code::INVAL`].
    pub fn needed(self) -> Result<Self> {
        if self.is_null() { Err(Code::INVAL) } else { Ok(self) }
    }

    /// The entry `index` places on. There is none after no pointer.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        match self.is_null() {
            true => self,
            false => Self(self.0.wrapping_add(index)),
        }
    }

    /// As a pointer to something else.
    #[must_use]
    pub fn cast<U>(self) -> Ptr<U> {
        Ptr(self.0.cast())
    }

    /// Writes a result, where the caller wants it.
    pub fn set(self, value: T) {
        if !self.is_null() {
            // SAFETY: the caller vouches for a pointer that is not null.
            unsafe { self.0.write_unaligned(value) }
        }
    }
}

impl<T: Copy> Ptr<T> {
    /// What it points at.
    ///
    /// # Errors
    /// [`Code::INVAL`] for no pointer.
    pub fn get(self) -> Result<T> {
        if self.is_null() {
            return Err(Code::INVAL);
        }
        // SAFETY: the caller vouches for a pointer that is not null.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The `count` entries it points at.
    ///
    /// # Errors
    /// [`Code::INVAL`] for no pointer with a count, and for counts no memory holds.
    pub fn list(self, count: usize) -> Result<Vec<T>> {
        self.bounded(count)?;
        (0..count).map(|index| self.at(index).get()).collect()
    }

    /// Refuses a count that no memory can hold.
    fn bounded(self, count: usize) -> Result<()> {
        let bytes = count.checked_mul(size_of::<T>().max(1));
        match bytes {
            Some(0) => Ok(()),
            Some(bytes) if isize::try_from(bytes).is_ok() && !self.is_null() => Ok(()),
            _ => Err(Code::INVAL),
        }
    }
}

impl Bytes {
    /// `len` bytes to read, good for as long as the pointer is.
    ///
    /// # Errors
    /// [`Code::INVAL`] for no pointer with a length, and for lengths no memory has.
    pub fn read<'a>(self, len: u64) -> Result<&'a [u8]> {
        let len = usize::try_from(len).map_err(|_| Code::INVAL)?;
        let bytes = self.cast::<u8>();
        bytes.bounded(len)?;
        match len {
            0 => Ok(&[]),
            // SAFETY: the caller vouches for `len` bytes that nobody changes; it is not null.
            _ => Ok(unsafe { std::slice::from_raw_parts(bytes.0, len) }),
        }
    }

    /// `len` bytes to read, where that is no more than anything of this sort may have: nobody vouches for more.
    ///
    /// # Errors
    /// `too_long` for more than `max`; else as [`Bytes::read`].
    pub fn read_at_most<'a>(self, len: u64, max: u64, too_long: Code) -> Result<&'a [u8]> {
        match len > max && isize::try_from(len).is_ok() {
            true => Err(too_long),
            false => self.read(len),
        }
    }

    /// `len` bytes to write, good for as long as the pointer is.
    ///
    /// # Errors
    /// As [`Bytes::read`].
    pub fn write<'a>(self, len: u64) -> Result<&'a mut [u8]> {
        let len = usize::try_from(len).map_err(|_| Code::INVAL)?;
        let bytes = self.cast::<u8>();
        bytes.bounded(len)?;
        match len {
            0 => Ok(&mut []),
            // SAFETY: the caller vouches for `len` bytes that are for this call alone.
            _ => Ok(unsafe { std::slice::from_raw_parts_mut(bytes.0, len) }),
        }
    }
}

/// Longest string that is taken. No name or key of the interface comes near.
const STRING_MAX: usize = 1 << 20;

impl Str {
    /// The bytes before the NUL, good for as long as the pointer is.
    ///
    /// # Errors
    /// [`Code::INVAL`] for no pointer, and for what is longer than any name or key.
    pub fn bytes<'a>(self) -> Result<&'a [u8]> {
        self.needed()?;
        // SAFETY: the caller vouches for a string that ends in NUL.
        let bytes = unsafe { CStr::from_ptr(self.0) }.to_bytes();
        if bytes.len() <= STRING_MAX { Ok(bytes) } else { Err(Code::INVAL) }
    }

    /// The string, where it is UTF-8.
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
    fn nothing_comes_after_no_pointer() {
        assert_eq!(Ptr::<u64>::null().at(3).get(), Err(Code::INVAL));
        assert!(Bytes::null().cast::<u8>().at(usize::MAX).is_null());
        let mut words = [1u64, 2, 3];
        // SAFETY: it is good for three words.
        let first = unsafe { Ptr::new(words.as_mut_ptr()) };
        assert_eq!(first.at(2).get(), Ok(3));
    }
}
