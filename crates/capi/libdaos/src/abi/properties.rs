//! Lists of properties.
use super::{Bytes, ObjId, Ptr, Str};

/// `struct daos_prop_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PropEntry {
    /// Number of the property.
    pub kind: u32,
    /// `DAOS_PROP_ENTRY_*`.
    pub flags: u16,
    /// Unused.
    pub reserved: u16,
    /// The value.
    pub value: PropValue,
}

/// The value of a property: a number, or a pointer stored as one. As with [`Ptr`], dereferencing it is safe because
/// creating it from a number is unsafe.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PropValue(u64);

impl PropValue {
    /// A value given as a number.
    ///
    /// # Safety
    /// For properties that are not numbers it must be zero, or an address that is valid as the C headers demand of the
    /// property.
    pub const unsafe fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value as a number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The value as a string.
    #[must_use]
    pub fn string(self) -> Str {
        self.pointer()
    }

    /// The value as a pointer.
    #[must_use]
    pub fn pointer<T>(self) -> Ptr<T> {
        // SAFETY: the caller of `new` guaranteed that the pointer is valid.
        unsafe { Ptr::new(self.0 as *mut _) }
    }
}

impl<T> From<Ptr<T>> for PropValue {
    fn from(pointer: Ptr<T>) -> Self {
        Self(pointer.raw() as u64)
    }
}

/// `daos_prop_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Prop {
    /// Number of entries.
    pub nr: u32,
    /// Unused.
    pub reserved: u32,
    /// The entries.
    pub entries: Ptr<PropEntry>,
}

/// `struct daos_prop_byteval`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ByteVal {
    /// The bytes.
    pub data: Bytes,
    /// Number of bytes.
    pub len: usize,
}

/// `struct daos_prop_co_roots`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// The ids of the objects.
    pub oids: [ObjId; 4],
}
