//! Lists of properties.
use super::{Bytes, ObjId, Ptr, Str};

/// `struct daos_prop_entry`.
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
    pub value: PropValue,
}

/// The value of a property: a number, or a pointer kept as one. As with [`Ptr`], following it is not unsafe, because making it
/// of a number is.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PropValue(u64);

impl PropValue {
    /// A value given as a number.
    ///
    /// # Safety
    /// For properties that are no numbers it must be zero, or an address that is good for what the C headers say of the
    /// property.
    #[must_use]
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
        // SAFETY: whoever made it of a number vouched for that.
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
