//! Walks over the objects of a namespace.
use crate::api::RawList;
use crate::failure::{check, error};
use crate::place::Opened;
use esker_types::Result;
use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;

/// Ends a walk.
const NO_MORE: i32 = -2;

/// Names of objects. Each step may wait for the cluster.
pub struct Objects {
    place: Arc<Opened>,
    raw: *mut RawList,
}

// SAFETY: librados does not care which thread takes the next step.
unsafe impl Send for Objects {}

impl Objects {
    pub(crate) fn open(place: Arc<Opened>) -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: the context stands; the call sets `raw`.
        let code =
            unsafe { (place.functions().rados_nobjects_list_open)(place.raw(), &raw mut raw) };
        check(code, "listing RADOS objects")?;
        Ok(Self { place, raw })
    }
}

impl Iterator for Objects {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut name = ptr::null();
        let next = self.place.functions().rados_nobjects_list_next;
        // SAFETY: the walk is open; what is not wanted may be null.
        let code = unsafe { next(self.raw, &raw mut name, ptr::null_mut(), ptr::null_mut()) };
        match code {
            NO_MORE => None,
            code if code < 0 => Some(Err(error(code, "listing RADOS objects"))),
            // SAFETY: the name is a C string until the next step.
            _ => Some(Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())),
        }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // SAFETY: the walk was opened and is over.
        unsafe { (self.place.functions().rados_nobjects_list_close)(self.raw) }
    }
}
