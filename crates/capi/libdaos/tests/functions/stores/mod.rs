//! The stores of `esker.h` through the C functions.
mod arguments;
mod events;
mod fields;
mod found;
mod tensors;

use crate::common::*;
use daos::abi::{Handle, Ptr};
use daos::event::*;
use daos::stores::Pair;
use daos::stores::fields::*;
use daos::stores::tensors::*;
use daos::stores::texts::*;
use std::ffi::{CString, c_int};

pub(crate) const CREATE: u32 = 1;
pub(crate) const DISCARD: u32 = 2;
pub(crate) const DOIT: u32 = 4;

/// Checks that a call failed with a code, and with a text that contains `part`.
pub(crate) fn fails(code: c_int, part: &str, rc: c_int) {
    let told = last_text();
    assert_eq!(rc, code, "{told}");
    assert!(told.contains(part), "{told:?} does not contain {part:?}");
}

/// The text of this thread's last failure.
pub(crate) fn last_text() -> String {
    // SAFETY: the library returns a string.
    read(unsafe { Ptr::new(esker_error_text().cast_mut()) })
}

/// Checks that a call succeeded.
pub(crate) fn ok(rc: c_int) {
    assert_eq!(rc, 0, "{}", last_text());
}

/// Pairs of a key or request, and their strings.
pub(crate) struct Pairs {
    pub(crate) entries: Vec<Pair>,
    _strings: Vec<CString>,
}

impl Pairs {
    /// Reads `class=rd,step=0`.
    pub(crate) fn new(key: &str) -> Self {
        let parts = key.split(',').filter(|part| !part.is_empty());
        let strings: Vec<CString> = parts
            .flat_map(|part| part.split('='))
            .map(|word| CString::new(word).unwrap())
            .collect();
        let pair = |both: &[CString]| Pair { name: text(&both[0]), value: text(&both[1]) };
        Self { entries: strings.chunks(2).map(pair).collect(), _strings: strings }
    }

    pub(crate) fn at(&mut self) -> Ptr<Pair> {
        list(&mut self.entries)
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len() as u32
    }
}

/// A field store in a new pool.
pub(crate) struct Fields {
    pub(crate) store: Store,
    pub(crate) fsh: Handle,
}

pub(crate) const SCHEMA: &std::ffi::CStr = c"[run [type [step: Integer]]]";

impl Fields {
    pub(crate) fn new() -> Self {
        let (store, mut fsh) = (Store::new(), NONE);
        ok(esker_field_store_open(store.coh, text(SCHEMA), CREATE, at(&mut fsh), WAIT));
        Self { store, fsh }
    }

    pub(crate) fn archive(&self, key: &str, data: &[u8]) -> c_int {
        let mut key = Pairs::new(key);
        let size = data.len() as u64;
        esker_field_archive(self.fsh, key.at(), key.len(), bytes(data), size, WAIT)
    }

    /// Archives and flushes steps 0 to 2, whose bytes are their numbers.
    pub(crate) fn fill(&self) {
        for step in 0..3 {
            ok(self
                .archive(&format!("run=a,type=fc,step={step}"), format!("step {step}").as_bytes()));
        }
        ok(esker_field_flush(self.fsh, WAIT));
    }

    /// Selects the fields of a request, or lists them. Returns the result of the call, the handle and the number of
    /// fields.
    pub(crate) fn select(&self, request: &str, lists: bool) -> (c_int, Handle, u64) {
        let (mut request, mut sel, mut count) = (Pairs::new(request), NONE, 77);
        let find = if lists { esker_field_list } else { esker_field_select };
        let rc = find(self.fsh, request.at(), request.len(), at(&mut sel), at(&mut count), WAIT);
        (rc, sel, count)
    }

    /// Reads into a buffer of `room` bytes. Returns the result of the call, the size of the field, and the buffer.
    pub(crate) fn retrieve(&self, key: &str, room: usize) -> (c_int, u64, Vec<u8>) {
        let (mut key, mut buffer, mut size) = (Pairs::new(key), vec![b'.'; room], room as u64);
        let target = crate::common::room(&mut buffer);
        let rc = esker_field_retrieve(self.fsh, key.at(), key.len(), target, at(&mut size), WAIT);
        (rc, size, buffer)
    }
}

impl Drop for Fields {
    fn drop(&mut self) {
        ok(esker_field_store_close(self.fsh, DISCARD, WAIT));
    }
}

/// Key and size of a field of a selection.
pub(crate) fn entry(sel: Handle, index: u64) -> (String, u64) {
    let (mut key, mut size) = ([b'.'; 1001], 0);
    let target = list(&mut key).cast();
    ok(esker_field_entry(sel, index, target, 1001, at(&mut size)));
    (read(target), size)
}

/// A tensor store in a new pool.
pub(crate) struct Tensors {
    pub(crate) store: Store,
    pub(crate) tsh: Handle,
}

impl Tensors {
    pub(crate) fn new() -> Self {
        let (store, mut tsh) = (Store::new(), NONE);
        ok(esker_tensor_store_open(store.coh, CREATE, at(&mut tsh), WAIT));
        Self { store, tsh }
    }

    /// Stores the numbers 0 to 11 as 4 x 3 integers of 2 bytes.
    pub(crate) fn put(&self, name: &std::ffi::CStr) -> c_int {
        let data: Vec<u8> = (0..12u16).flat_map(u16::to_le_bytes).collect();
        let (mut shape, none) = ([4, 3], Ptr::null());
        let size = data.len() as u64;
        let dtype = text(c"<u2");
        esker_tensor_put(
            self.tsh,
            dtype,
            2,
            list(&mut shape),
            bytes(&data),
            size,
            text(name),
            none,
            WAIT,
        )
    }

    /// Begins a tensor of 4 x 3 integers of 2 bytes.
    pub(crate) fn begin(&self) -> Handle {
        let (mut put, mut shape) = (NONE, [4, 3]);
        let dtype = text(c"<u2");
        let (chunks, attrs) = (Ptr::null(), Ptr::null());
        ok(esker_tensor_begin(
            self.tsh,
            dtype,
            2,
            list(&mut shape),
            chunks,
            attrs,
            0,
            at(&mut put),
            WAIT,
        ));
        put
    }

    pub(crate) fn open(&self, name: &std::ffi::CStr) -> (c_int, Handle) {
        let mut th = NONE;
        (esker_tensor_open(self.tsh, text(name), at(&mut th), WAIT), th)
    }
}

impl Drop for Tensors {
    fn drop(&mut self) {
        ok(esker_tensor_store_close(self.tsh, WAIT));
    }
}
