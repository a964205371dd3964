//! Properties of pools and containers, as lists of libdaos.
use crate::binding::layout::{
    ALLOCATED, CHECKSUM, LABEL, LAYOUT_TYPE, POOL_LABEL, ROOTS, RawProperties, RawProperty,
    RawValue,
};
use crate::binding::library::{Functions, c_string};
use esker_types::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString};
use std::ptr;

/// Bytes of `struct daos_prop_co_roots`: four object ids.
const ROOTS_BYTES: usize = 64;

/// Properties of a new container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewContainer {
    /// Its label; `None` leaves it without one.
    pub label: Option<String>,
    /// Its checksum (`DAOS_PROP_CO_CSUM_*`).
    pub checksum: u64,
    /// The first number for object ids; 0 for the default of DAOS.
    pub first_oid: u64,
    /// Type of the layout and roots of the file system that it will hold.
    pub layout: Option<(u64, [u8; ROOTS_BYTES])>,
}

/// A list of properties to set. It owns what its entries refer to.
pub(crate) struct Setting {
    head: RawProperties,
    entries: Vec<RawProperty>,
    _text: Option<CString>,
    roots: Vec<u64>,
}

// SAFETY: the pointers lead to what the list owns.
unsafe impl Send for Setting {}

impl Setting {
    /// The properties of a new container.
    pub(crate) fn for_new_container(new: &NewContainer) -> Result<Self> {
        let mut setting = Self::label(new.label.as_deref())?;
        setting.add(CHECKSUM, RawValue { number: new.checksum });
        if new.first_oid > 0 {
            setting.add(ALLOCATED, RawValue { number: new.first_oid });
        }
        if let Some((kind, roots)) = &new.layout {
            setting.add_layout(*kind, roots);
        }
        Ok(setting)
    }

    /// Creates a list of properties that has the label, or is empty without one.
    pub(crate) fn label(label: Option<&str>) -> Result<Self> {
        let text = label.map(c_string).transpose()?;
        let head = RawProperties { count: 0, reserved: 0, entries: ptr::null_mut() };
        let mut setting = Self { head, entries: Vec::new(), _text: None, roots: Vec::new() };
        if let Some(text) = text {
            setting.add(LABEL, RawValue { text: text.as_ptr().cast_mut() });
            setting._text = Some(text);
        }
        Ok(setting)
    }

    /// The type of the layout and the roots of a file system.
    pub(crate) fn layout(kind: u64, roots: &[u8; ROOTS_BYTES]) -> Self {
        let head = RawProperties { count: 0, reserved: 0, entries: ptr::null_mut() };
        let mut setting = Self { head, entries: Vec::new(), _text: None, roots: Vec::new() };
        setting.add_layout(kind, roots);
        setting
    }

    /// Adds the layout of a container: its kind, and the objects of its roots.
    fn add_layout(&mut self, kind: u64, roots: &[u8; ROOTS_BYTES]) {
        let words = roots.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        self.roots = words.collect();
        let text = self.roots.as_mut_ptr().cast();
        self.add(LAYOUT_TYPE, RawValue { number: kind });
        self.add(ROOTS, RawValue { text });
    }

    /// Adds a property with a value.
    fn add(&mut self, kind: u32, value: RawValue) {
        self.entries.push(RawProperty { kind, flags: 0, reserved: 0, value });
    }

    /// The list, as long as this is neither moved nor dropped.
    pub(crate) fn raw(&mut self) -> *mut RawProperties {
        self.head.count = self.entries.len() as u32;
        self.head.entries = self.entries.as_mut_ptr();
        &raw mut self.head
    }
}

/// A list of requested properties, which the library fills and frees.
pub(crate) struct Asked {
    pub(crate) raw: *mut RawProperties,
    functions: &'static Functions,
}

// SAFETY: the list belongs to this value alone.
unsafe impl Send for Asked {}

impl Drop for Asked {
    fn drop(&mut self) {
        // SAFETY: the list was made by the library, and nothing refers to it any more.
        unsafe { (self.functions.daos_prop_free)(self.raw) }
    }
}

impl Asked {
    /// A list that requests properties of these kinds.
    fn new(functions: &'static Functions, kinds: &[u32]) -> Result<Self> {
        // SAFETY: the call takes a number.
        let raw = unsafe { (functions.daos_prop_alloc)(kinds.len() as u32) };
        if raw.is_null() {
            let text = "libdaos is out of memory for properties: free some, and try again";
            return Err(Error::new(ErrorKind::NoMemory, text));
        }
        let asked = Self { raw, functions };
        for (index, kind) in kinds.iter().enumerate() {
            // SAFETY: the list has as many entries.
            unsafe { (*(*raw).entries.add(index)).kind = *kind };
        }
        Ok(asked)
    }

    /// Creates a list of properties to query from a pool: its label.
    pub(crate) fn of_pool(functions: &'static Functions) -> Result<Self> {
        Self::new(functions, &[POOL_LABEL])
    }

    /// Requests the properties of a container that Esker uses.
    pub(crate) fn of_container(functions: &'static Functions) -> Result<Self> {
        Self::new(functions, &[LABEL, CHECKSUM, LAYOUT_TYPE, ROOTS, ALLOCATED])
    }

    /// Value of a property; `None` if the list does not have it.
    fn value(&self, kind: u32) -> Option<RawValue> {
        // SAFETY: the list is valid, and its entries are as many as it says.
        let entries = unsafe {
            let head = &*self.raw;
            std::slice::from_raw_parts(head.entries, head.count as usize)
        };
        entries.iter().find(|entry| entry.kind == kind).map(|entry| entry.value)
    }

    /// The value of a property that is a number; 0 if it is missing.
    pub(crate) fn number(&self, kind: u32) -> u64 {
        // SAFETY: all callers request properties whose values are numbers.
        self.value(kind).map_or(0, |value| unsafe { value.number })
    }

    /// A label; empty if there is none.
    pub(crate) fn text(&self, kind: u32) -> String {
        // SAFETY: all callers request properties whose values are texts or null.
        let text = self.value(kind).map_or(ptr::null_mut(), |value| unsafe { value.text });
        if text.is_null() {
            return String::new();
        }
        // SAFETY: a text ends with a zero byte, and lives as long as the list.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Returns the object ids of the roots of a file system. None if the container has no such property.
    pub(crate) fn roots(&self) -> Option<[u8; ROOTS_BYTES]> {
        // SAFETY: the value of this property is a pointer or null.
        let roots = self.value(ROOTS).map_or(ptr::null_mut(), |value| unsafe { value.text });
        // SAFETY: the pointer is to four object ids, which live as long as the list.
        (!roots.is_null()).then(|| unsafe { roots.cast::<[u8; ROOTS_BYTES]>().read() })
    }
}
