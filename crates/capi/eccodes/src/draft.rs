//! Messages that can be changed.
use crate::api::Functions;
use crate::library::c_string;
use crate::{Field, failure};
use esker_types::{ErrorKind, Result};
use std::ffi::{c_char, c_int};
use std::fmt::Display;
use std::ops::Deref;
use std::ptr::NonNull;

/// A copy of a GRIB message that can be changed, and read as a [`Field`]. ecCodes updates dependent keys.
#[derive(Debug)]
pub struct Draft<'a> {
    field: Field<'a>,
}

impl<'a> Draft<'a> {
    /// `field` owns its bytes: it was made of a copy or a sample.
    pub(crate) fn new(field: Field<'a>) -> Self {
        Self { field }
    }

    /// Sets a key to a whole number.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the message has no such key; [`ErrorKind::Invalid`] if it cannot
    /// have this value.
    pub fn set_long(&mut self, key: &str, value: i64) -> Result<()> {
        // SAFETY: the handle is valid and owns its bytes; the name lives during the call.
        self.set(key, value, |f, name| unsafe { (f.codes_set_long)(self.handle(), name, value) })
    }

    /// Sets a key to a number.
    ///
    /// # Errors
    /// As [`Draft::set_long`].
    pub fn set_double(&mut self, key: &str, value: f64) -> Result<()> {
        // SAFETY: the handle is valid and owns its bytes; the name lives during the call.
        self.set(key, value, |f, name| unsafe { (f.codes_set_double)(self.handle(), name, value) })
    }

    /// Sets a key to a text, as ecCodes spells it.
    ///
    /// # Errors
    /// As [`Draft::set_long`].
    pub fn set_text(&mut self, key: &str, value: &str) -> Result<()> {
        let (text, mut bytes) = (c_string(value)?, value.len());
        let bytes = &raw mut bytes;
        self.set(key, value, |f, name| {
            // SAFETY: the handle is valid and owns its bytes; name, text and length live during the call.
            unsafe { (f.codes_set_string)(self.handle(), name, text.as_ptr(), bytes) }
        })
    }

    /// Sets a key by `set`.
    fn set(
        &self,
        key: &str,
        value: impl Display,
        set: impl FnOnce(&Functions, *const c_char) -> c_int,
    ) -> Result<()> {
        let name = c_string(key)?;
        let code = self.library().call(|f| set(f, name.as_ptr()));
        self.library().check(code, format_args!("set {key:?} to {value}"))
    }

    /// Packs these values, one for each grid point.
    ///
    /// # Errors
    /// As [`Draft::set_long`].
    pub fn set_values(&mut self, values: &[f64]) -> Result<()> {
        let name = c"values".as_ptr();
        // SAFETY: the handle lives and owns its bytes; there are as many values as said.
        let code = self.library().call(|f| unsafe {
            (f.codes_set_double_array)(self.handle(), name, values.as_ptr(), values.len())
        });
        self.library().check(code, format_args!("pack {} values", values.len()))
    }

    /// Another message with the same content.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`] if memory runs out.
    pub fn try_clone(&self) -> Result<Self> {
        // SAFETY: the handle lives; its copy owns its bytes.
        let made = self.library().call(|f| unsafe { (f.codes_handle_clone)(self.handle()) });
        let message =
            || failure::explained(ErrorKind::NoMemory, "ecCodes cannot copy a message".to_owned());
        Ok(Self::new(Field::new(self.library(), NonNull::new(made).ok_or_else(message)?)))
    }
}

impl<'a> Deref for Draft<'a> {
    type Target = Field<'a>;

    fn deref(&self) -> &Field<'a> {
        &self.field
    }
}
