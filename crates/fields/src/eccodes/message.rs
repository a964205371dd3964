//! GRIB messages: [`Field`] reads one, [`Draft`] changes one.
use crate::eccodes::api::{Functions, Handle, Keys};
use crate::eccodes::library::c_string;
use crate::eccodes::limits::{KEYS_MAX, TEXT_BYTES_MAX, VALUES_MAX};
use crate::eccodes::{Library, failure};
use esker_types::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// The iterator skips duplicate keys (`CODES_KEYS_ITERATOR_SKIP_DUPLICATES`).
const SKIP_DUPLICATES: std::ffi::c_ulong = 1 << 5;

/// One decoded GRIB message, for reading. If it has several fields, this is the first.
pub struct Field<'a> {
    library: &'a Library,
    handle: NonNull<Handle>,
    message: PhantomData<&'a [u8]>,
}

impl<'a> Field<'a> {
    /// Takes ownership of `handle`, which `library` made of a message that lives as long as `'a`.
    pub(crate) fn new(library: &'a Library, handle: NonNull<Handle>) -> Self {
        Self { library, handle, message: PhantomData }
    }

    pub(crate) fn library(&self) -> &'a Library {
        self.library
    }

    pub(crate) fn handle(&self) -> *mut Handle {
        self.handle.as_ptr()
    }

    /// The edition of GRIB: 1 or 2.
    ///
    /// # Errors
    /// The errors of [`Field::long`].
    pub fn edition(&self) -> Result<i64> {
        self.long("edition")
    }

    /// The value of a key as text, as ecCodes spells it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the message has no such key; [`ErrorKind::Invalid`] if its value
    /// cannot be computed.
    pub fn text(&self, key: &str) -> Result<String> {
        let name = c_string(key)?;
        self.text_of(key, |f, buffer, bytes| {
            // SAFETY: the handle is valid; the buffer has `bytes` bytes.
            unsafe { (f.codes_get_string)(self.handle(), name.as_ptr(), buffer, bytes) }
        })
    }

    /// The value of a key as a whole number.
    ///
    /// # Errors
    /// The errors of [`Field::text`].
    pub fn long(&self, key: &str) -> Result<i64> {
        let (name, mut value) = (c_string(key)?, 0);
        // SAFETY: the handle is valid; name and value live during the call.
        let get = |f: &Functions| unsafe {
            (f.codes_get_long)(self.handle(), name.as_ptr(), &raw mut value)
        };
        let code = self.library.call(get);
        self.library.check(code, format_args!("read the value of {key:?}"))?;
        Ok(value)
    }

    /// Names and values of a name space, such as `mars`, in the order that ecCodes lists them.
    ///
    /// # Errors
    /// The errors of [`Field::text`]; [`ErrorKind::Overflow`] for over [`KEYS_MAX`] keys.
    pub fn keys(&self, space: &str) -> Result<Vec<(String, String)>> {
        let iterator = KeyIterator::new(self, space)?;
        let mut keys = Vec::new();
        while iterator.advance() {
            if keys.len() == KEYS_MAX {
                let message = format!("the name space {space:?} has over {KEYS_MAX} keys");
                return Err(Error::new(ErrorKind::Overflow, message));
            }
            let name = iterator.name();
            let value = iterator.value(&name)?;
            keys.push((name, value));
        }
        Ok(keys)
    }

    /// The values of the field, unpacked, in the order of the message. Points that the bitmap leaves out have the value
    /// of the key `missingValue`.
    ///
    /// # Errors
    /// The errors of [`Field::doubles`].
    pub fn values(&self) -> Result<Vec<f64>> {
        self.doubles("values")
    }

    /// The numbers of an array key, such as `values`, `latitudes` or `longitudes` (degrees, in the order of the
    /// values).
    ///
    /// # Errors
    /// The errors of [`Field::text`]; [`ErrorKind::NoMemory`] if memory runs out, or for over [`VALUES_MAX`] numbers.
    pub fn doubles(&self, key: &str) -> Result<Vec<f64>> {
        let (name, mut count) = (c_string(key)?, 0);
        // SAFETY: the handle is valid; `name` and `count` live during the call.
        let code = self
            .library
            .call(|f| unsafe { (f.codes_get_size)(self.handle(), name.as_ptr(), &raw mut count) });
        self.library.check(code, format_args!("count the numbers of {key:?}"))?;
        let mut numbers = room_for(count)?;
        let start = numbers.as_mut_ptr();
        // SAFETY: the handle is valid; the vector has space for `count` numbers.
        let code = self.library.call(|f| unsafe {
            (f.codes_get_double_array)(self.handle(), name.as_ptr(), start, &raw mut count)
        });
        self.library.check(code, format_args!("unpack {key:?}"))?;
        numbers.truncate(count);
        Ok(numbers)
    }

    /// The bytes of the message.
    ///
    /// # Errors
    /// The errors of [`Field::text`].
    pub fn message(&self) -> Result<Vec<u8>> {
        let (mut data, mut bytes) = (ptr::null::<c_void>(), 0);
        let mut copy = Vec::new();
        let code = self.library.call(|f| {
            // SAFETY: the handle is valid; `data` and `bytes` live during the call.
            let code =
                unsafe { (f.codes_get_message)(self.handle(), &raw mut data, &raw mut bytes) };
            if code == 0 && !data.is_null() {
                // SAFETY: ecCodes returns the number of bytes, which do not change meanwhile.
                copy.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(data.cast::<u8>(), bytes)
                });
            }
            code
        });
        self.library.check(code, "return the message")?;
        Ok(copy)
    }

    /// Reads the value of `key` as text by `get`, a function of ecCodes, which fills a buffer of the given length.
    fn text_of(
        &self,
        key: &str,
        get: impl FnOnce(&Functions, *mut c_char, *mut usize) -> c_int,
    ) -> Result<String> {
        let (mut buffer, mut bytes) = ([0_u8; TEXT_BYTES_MAX], TEXT_BYTES_MAX - 1);
        let code = self.library.call(|f| get(f, buffer.as_mut_ptr().cast(), &raw mut bytes));
        self.library.check(code, format_args!("read the value of {key:?}"))?;
        let text = buffer.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

impl Drop for Field<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is this field's own and is not used after this.
        self.library.call(|f| unsafe { (f.codes_handle_delete)(self.handle()) });
    }
}

impl std::fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Field").finish_non_exhaustive()
    }
}

/// Zeros for `count` values; an error if memory runs out.
fn room_for(count: usize) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    if count > VALUES_MAX || values.try_reserve_exact(count).is_err() {
        let message =
            format!("no room for {count} values; at most {VALUES_MAX} are unpacked at once");
        return Err(Error::new(ErrorKind::NoMemory, message));
    }
    values.resize(count, 0.0);
    Ok(values)
}

/// An iterator over the keys of a name space.
struct KeyIterator<'a> {
    field: &'a Field<'a>,
    keys: NonNull<Keys>,
}

impl<'a> KeyIterator<'a> {
    /// An iterator over the keys of `field` in the namespace `space`.
    fn new(field: &'a Field<'a>, space: &str) -> Result<Self> {
        let name = c_string(space)?;
        // SAFETY: the handle outlives the iterator; ecCodes copies the name.
        let keys = field.library.call(|f| unsafe {
            (f.codes_keys_iterator_new)(field.handle(), SKIP_DUPLICATES, name.as_ptr())
        });
        let message = || format!("ecCodes cannot list the keys of the name space {space:?}");
        let keys =
            NonNull::new(keys).ok_or_else(|| failure::explained(ErrorKind::Invalid, message()))?;
        Ok(Self { field, keys })
    }

    /// Advances to the next key; false after the last one.
    fn advance(&self) -> bool {
        // SAFETY: the iterator is valid.
        self.field.library.call(|f| unsafe { (f.codes_keys_iterator_next)(self.keys.as_ptr()) })
            == 1
    }

    /// The name of the key.
    fn name(&self) -> String {
        self.field.library.call(|f| {
            // SAFETY: the iterator is valid and at a key; the name is a C string until it advances.
            let name = unsafe { (f.codes_keys_iterator_get_name)(self.keys.as_ptr()) };
            // SAFETY: as above, and not null.
            let name =
                NonNull::new(name.cast_mut()).map(|name| unsafe { CStr::from_ptr(name.as_ptr()) });
            name.map(CStr::to_string_lossy).unwrap_or_default().into_owned()
        })
    }

    /// The value of the key.
    fn value(&self, name: &str) -> Result<String> {
        self.field.text_of(name, |f, buffer, bytes| {
            // SAFETY: the iterator is valid and at a key; the buffer has `bytes` bytes.
            unsafe { (f.codes_keys_iterator_get_string)(self.keys.as_ptr(), buffer, bytes) }
        })
    }
}

impl Drop for KeyIterator<'_> {
    fn drop(&mut self) {
        // SAFETY: the iterator is not used after this.
        self.field.library.call(|f| unsafe { (f.codes_keys_iterator_delete)(self.keys.as_ptr()) });
    }
}

/// A copy of a GRIB message that can be changed, and read as a [`Field`]. ecCodes updates dependent keys.
#[derive(Debug)]
pub struct Draft<'a> {
    field: Field<'a>,
}

impl<'a> Draft<'a> {
    /// Wraps `field`, which must own its bytes: it was created from a copy or a sample.
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
    /// The errors of [`Draft::set_long`].
    pub fn set_double(&mut self, key: &str, value: f64) -> Result<()> {
        // SAFETY: the handle is valid and owns its bytes; the name lives during the call.
        self.set(key, value, |f, name| unsafe { (f.codes_set_double)(self.handle(), name, value) })
    }

    /// Sets a key to a text, as ecCodes spells it.
    ///
    /// # Errors
    /// The errors of [`Draft::set_long`].
    pub fn set_text(&mut self, key: &str, value: &str) -> Result<()> {
        let (text, mut bytes) = (c_string(value)?, value.len());
        let bytes = &raw mut bytes;
        self.set(key, value, |f, name| {
            // SAFETY: the handle is valid and owns its bytes; name, text and length live during the call.
            unsafe { (f.codes_set_string)(self.handle(), name, text.as_ptr(), bytes) }
        })
    }

    /// Calls `set`, a function of ecCodes, for a key. `value` is only for the error.
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
    /// The errors of [`Draft::set_long`].
    pub fn set_values(&mut self, values: &[f64]) -> Result<()> {
        let name = c"values".as_ptr();
        // SAFETY: the handle is valid and owns its bytes; the slice has this many values.
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
        // SAFETY: the handle is valid; its copy owns its bytes.
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
