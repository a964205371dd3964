//! Lists of properties.
use super::{Bytes, ObjId, Ptr, Str};

/// `struct daos_prop_entry`: a number, or a pointer kept as one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PropEntry {
    /// Which property.
    pub kind: u32,
    /// `DAOS_PROP_ENTRY_*`.
    pub flags: u16,
    /// Nothing.
    pub reserved: u16,
    /// The value.
    pub value: u64,
}

impl PropEntry {
    /// The value as a string.
    #[must_use]
    pub fn string(self) -> Str {
        // SAFETY: for properties that are strings the caller vouches for the pointer.
        unsafe { Ptr::new(self.value as *mut _) }
    }

    /// The value as a pointer.
    #[must_use]
    pub fn pointer<T>(self) -> Ptr<T> {
        // SAFETY: for properties that are pointers the caller vouches for it.
        unsafe { Ptr::new(self.value as *mut _) }
    }
}

/// `daos_prop_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Prop {
    /// Entries.
    pub nr: u32,
    /// Nothing.
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
    /// How many.
    pub len: usize,
}

/// `struct daos_prop_co_roots`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// The objects.
    pub oids: [ObjId; 4],
}
