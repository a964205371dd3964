//! The functions of ecCodes in use, with the types of its header.
use libloading::Library;
use std::ffi::{c_char, c_double, c_int, c_long, c_ulong, c_void};

/// A context of ecCodes (opaque).
#[repr(C)]
pub(crate) struct Context(c_void);

/// A message of ecCodes (opaque).
#[repr(C)]
pub(crate) struct Handle(c_void);

/// An iterator over the keys of a message (opaque).
#[repr(C)]
pub(crate) struct Keys(c_void);

/// Callback for log messages of ecCodes: context, severity, text.
pub(crate) type Log = unsafe extern "C" fn(*const Context, c_int, *const c_char);

/// Declares the functions once, as a table of pointers and as their look-up by name.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Pointers to the functions of a library that is never unloaded.
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Finds every function in `library`.
            pub(crate) fn load(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the names are those of ecCodes' public API, whose header gives these types; they
                // have been the same in all its releases.
                Ok(unsafe { Self { $($name: *library.get(stringify!($name).as_bytes())?,)* } })
            }
        }
    };
}

functions! {
    codes_get_api_version: fn() -> c_long;
    codes_get_error_message: fn(c_int) -> *const c_char;
    codes_context_get_default: fn() -> *mut Context;
    codes_context_set_logging_proc: fn(*mut Context, Log);
    codes_handle_new_from_message: fn(*mut Context, *const c_void, usize) -> *mut Handle;
    codes_handle_new_from_message_copy: fn(*mut Context, *const c_void, usize) -> *mut Handle;
    codes_grib_handle_new_from_samples: fn(*mut Context, *const c_char) -> *mut Handle;
    codes_grib_handle_new_from_multi_message: fn(*mut Context, *mut *mut c_void, *mut usize, *mut c_int) -> *mut Handle;
    codes_grib_multi_support_on: fn(*mut Context);
    codes_grib_multi_support_off: fn(*mut Context);
    codes_grib_multi_support_reset_file: fn(*mut Context, *mut c_void);
    codes_handle_clone: fn(*const Handle) -> *mut Handle;
    codes_handle_delete: fn(*mut Handle) -> c_int;
    codes_get_message: fn(*const Handle, *mut *const c_void, *mut usize) -> c_int;
    codes_get_long: fn(*const Handle, *const c_char, *mut c_long) -> c_int;
    codes_get_string: fn(*const Handle, *const c_char, *mut c_char, *mut usize) -> c_int;
    codes_get_size: fn(*const Handle, *const c_char, *mut usize) -> c_int;
    codes_get_double_array: fn(*const Handle, *const c_char, *mut c_double, *mut usize) -> c_int;
    codes_set_long: fn(*mut Handle, *const c_char, c_long) -> c_int;
    codes_set_double: fn(*mut Handle, *const c_char, c_double) -> c_int;
    codes_set_string: fn(*mut Handle, *const c_char, *const c_char, *mut usize) -> c_int;
    codes_set_double_array: fn(*mut Handle, *const c_char, *const c_double, usize) -> c_int;
    codes_keys_iterator_new: fn(*mut Handle, c_ulong, *const c_char) -> *mut Keys;
    codes_keys_iterator_next: fn(*mut Keys) -> c_int;
    codes_keys_iterator_get_name: fn(*const Keys) -> *const c_char;
    codes_keys_iterator_get_string: fn(*const Keys, *mut c_char, *mut usize) -> c_int;
    codes_keys_iterator_delete: fn(*mut Keys) -> c_int;
}
