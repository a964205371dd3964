//! The FFI boundary: the arguments of C functions as types with safe methods, and the form of every exported function.
//!
//! Only C creates values of these types, by calling an exported function. Their pointers must be valid, as the C
//! library requires of its callers too.
use crate::answer::{Answer, refuse};
use crate::limits::TRANSFER_MAX;
use std::ffi::{CStr, c_char};

/// Defines exported functions. `next` in `| next` names the intercepted function. Calls from inside this library always
/// go to that one, unless `@inside_too` leaves the decision to the function. The store never names files of the mount
/// point in such calls. So a call that does comes from a signal handler that interrupted a call on files; it fails.
/// `names_ours` lists the argument names of descriptors and paths.
macro_rules! export {
    (@inside_too $(fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $result:ty
        | $next:ident $body:block)*) => {$(
        $crate::edge::export! { @one ($name) ($($arg: $kind),*) ($result) ($next) {} $body }
    )*};
    (@one ($name:ident) ($($arg:ident: $kind:ty),*) ($result:ty) ($next:ident) $before:block
        $body:block) => {
        /// # Safety
        /// The requirements of the function of this name in the C library: pointers must be valid.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            type Real = extern "C" fn($($kind),*) -> $result;
            const NAME: &std::ffi::CStr = $crate::edge::name(concat!(stringify!($name), "\0"));
            static NEXT: $crate::next::Next = $crate::next::Next::new();
            static COUNT: $crate::report::Counter = $crate::report::Counter::new();
            // SAFETY: the next function of this name has the same type.
            let $next: Real = unsafe { std::mem::transmute(NEXT.address(NAME)) };
            $before
            $crate::report::enter(&COUNT, NAME);
            $body
        }
    };
    ($(fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $result:ty
        | $next:ident $body:block)*) => {$(
        $crate::edge::export! { @one ($name) ($($arg: $kind),*) ($result) ($next) {
            if $crate::threads::is_inside() {
                return match $crate::edge::names_ours!($($arg $arg)*) {
                    true => $crate::serve::refuse_interrupting_call(),
                    false => $next($($arg),*),
                };
            }
        } $body }
    )*};
}

/// True if one of the arguments names a file of the mount point. Each is passed twice: for its name, and for its value.
macro_rules! names_ours {
    () => { false };
    (fd $it:ident $($rest:tt)*) => { $crate::edge::names_ours!(@ $it $($rest)*) };
    (dir $it:ident $($rest:tt)*) => { $crate::edge::names_ours!(@ $it $($rest)*) };
    (new_dir $it:ident $($rest:tt)*) => { $crate::edge::names_ours!(@ $it $($rest)*) };
    (from $it:ident $($rest:tt)*) => { $crate::edge::names_ours!(@ $it $($rest)*) };
    (to $it:ident $($rest:tt)*) => { $crate::edge::names_ours!(@ $it $($rest)*) };
    (path $it:ident $($rest:tt)*) => { $crate::edge::names_ours!(@ $it $($rest)*) };
    (new_path $it:ident $($rest:tt)*) => { $crate::edge::names_ours!(@ $it $($rest)*) };
    (@ $it:ident $($rest:tt)*) => {
        $crate::serve::NamesFile::is_ours(&$it) || $crate::edge::names_ours!($($rest)*)
    };
    ($other:ident $it:ident $($rest:tt)*) => { $crate::edge::names_ours!($($rest)*) };
}

/// Declares intercepted functions as plain functions, for calls that this library makes itself.
macro_rules! real {
    ($(fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $result:ty;)*) => {$(
        pub(crate) fn $name($($arg: $kind),*) -> $result {
            type Real = extern "C" fn($($kind),*) -> $result;
            const NAME: &std::ffi::CStr = $crate::edge::name(concat!(stringify!($name), "\0"));
            static NEXT: $crate::next::Next = $crate::next::Next::new();
            // SAFETY: the next function of this name has this type.
            let next: Real = unsafe { std::mem::transmute(NEXT.address(NAME)) };
            next($($arg),*)
        }
    )*};
}

pub(crate) use {export, names_ours, real};

/// Converts the name of a C function, which ends with a zero byte, to a C string. Without a zero byte it becomes empty.
pub(crate) const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// A string of C, perhaps null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

/// Lowest address of mapped memory. Pointers below it are invalid.
const FIRST_PAGE: usize = 4096;

impl Text {
    /// The bytes before the zero byte; `None` for a null pointer or one into the first page, which the kernel refuses.
    pub(crate) fn bytes<'a>(self) -> Option<&'a [u8]> {
        self.c_str().map(CStr::to_bytes)
    }

    /// The string with its zero byte; `None` as for [`Text::bytes`].
    pub(crate) fn c_str<'a>(self) -> Option<&'a CStr> {
        // SAFETY: other pointers are strings that end with a zero byte, as C requires.
        (self.0 as usize >= FIRST_PAGE).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    /// The pointer in an argument of a system call, which is a word.
    pub(crate) fn at(argument: usize) -> Self {
        Self(argument as *const c_char)
    }

    /// True for a null pointer and for a string without bytes.
    pub(crate) fn is_empty(self) -> bool {
        self.bytes().is_none_or(<[u8]>::is_empty)
    }

    /// A pointer to `text`, to pass to a function of the C library. `text` must outlive the call.
    pub(crate) fn from_c_str(text: &CStr) -> Self {
        Self(text.as_ptr())
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// A pointer to an output of C, perhaps null.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// A pointer to `value`, to pass as an output to a function of the C library. `value` must outlive the call.
    pub(crate) fn from_mut(value: &mut T) -> Self {
        Self(value)
    }

    /// The pointer in an argument that is a number or a pointer, such as the last one of `fcntl`.
    pub(crate) fn at(argument: usize) -> Self {
        Self(argument as *mut T)
    }

    pub(crate) fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes a value, unless the pointer is null.
    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not null, so it has space for a value, which need not be initialised.
            unsafe { self.0.write(value) };
        }
    }

    /// The values that begin here; none for a null pointer.
    pub(crate) fn values<'a>(self, count: usize) -> &'a mut [T] {
        match self.0.is_null() {
            true => &mut [],
            // SAFETY: C guarantees `count` values, and that nothing else accesses them meanwhile.
            false => unsafe { std::slice::from_raw_parts_mut(self.0, count) },
        }
    }

    pub(crate) fn pointer(self) -> *mut T {
        self.0
    }
}

impl Out<u8> {
    /// The buffer of `length` bytes, cut off at [`TRANSFER_MAX`], that a call fills.
    ///
    /// # Errors
    /// `EFAULT` for a null pointer or one into the first page, unless the length is 0.
    pub(crate) fn buffer<'a>(self, length: usize) -> Answer<&'a mut [u8]> {
        match length == 0 || self.0 as usize >= FIRST_PAGE {
            true => Ok(self.values(length.min(TRANSFER_MAX))),
            false => refuse(libc::EFAULT),
        }
    }

    /// A pointer to `room`, to pass as an output buffer to a function of the C library. `room` must outlive the call.
    pub(crate) fn from_slice(room: &mut [u8]) -> Self {
        Self(room.as_mut_ptr())
    }

    /// Length in bytes of the string that C passed here; 0 for a null pointer.
    pub(crate) fn text_length(self) -> usize {
        Text(self.0.cast()).bytes().map_or(0, <[u8]>::len)
    }
}

impl<T: Copy> Out<T> {
    /// The value that C passed here; `None` for a null pointer.
    pub(crate) fn get(self) -> Option<T> {
        self.values(1).first().copied()
    }
}

/// A pointer to inputs of C, perhaps null.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> In<T> {
    /// The pointer in an argument of a system call, which is a word.
    pub(crate) fn at(argument: usize) -> Self {
        Self(argument as *const T)
    }

    pub(crate) fn null() -> Self {
        Self(std::ptr::null())
    }

    /// A pointer to `values`, to pass as an input to a function of the C library. `values` must outlive the call.
    pub(crate) fn from_slice(values: &[T]) -> Self {
        Self(values.as_ptr())
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    /// The values that begin here; none for a null pointer.
    pub(crate) fn values<'a>(self, count: usize) -> &'a [T] {
        match self.0.is_null() {
            true => &[],
            // SAFETY: C guarantees `count` values, and that they do not change meanwhile.
            false => unsafe { std::slice::from_raw_parts(self.0, count) },
        }
    }
}

impl In<u8> {
    /// The data of `length` bytes, cut off at [`TRANSFER_MAX`], that a call stores.
    ///
    /// # Errors
    /// `EFAULT` for a null pointer or one into the first page, unless the length is 0.
    pub(crate) fn data<'a>(self, length: usize) -> Answer<&'a [u8]> {
        match length == 0 || self.0 as usize >= FIRST_PAGE {
            true => Ok(self.values(length.min(TRANSFER_MAX))),
            false => refuse(libc::EFAULT),
        }
    }
}

/// A value copied from C; `None` for a null pointer.
impl<T: Copy> In<T> {
    pub(crate) fn get(self) -> Option<T> {
        self.values(1).first().copied()
    }
}

/// The buffers that the first `count` entries of a vector describe, cut off at [`TRANSFER_MAX`] bytes in all.
///
/// # Errors
/// `EINVAL` if `count` is not a number of buffers, or a length is beyond `SSIZE_MAX`; `EFAULT` for a null pointer.
pub(crate) fn buffers<'a>(vector: In<libc::iovec>, count: i32) -> Answer<Vec<&'a mut [u8]>> {
    let Some(count) = usize::try_from(count).ok().filter(|count| *count <= IOV_MAX) else {
        return refuse(libc::EINVAL);
    };
    let parts = vector.values(count);
    if parts.len() < count {
        return refuse(libc::EFAULT);
    }
    if parts.iter().any(|part| part.iov_len > isize::MAX as usize) {
        return refuse(libc::EINVAL);
    }
    let mut room = TRANSFER_MAX;
    let part = |part: &libc::iovec| {
        let length = part.iov_len.min(room);
        room -= length;
        Out(part.iov_base.cast::<u8>()).buffer(length)
    };
    parts.iter().map(part).collect()
}

/// Most buffers of one vector call (Linux: `UIO_MAXIOV`).
const IOV_MAX: usize = 1024;

/// A null-terminated array of strings, as `argv` and `envp` are.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Texts(*const *const c_char);

impl Texts {
    /// The strings; none for a null pointer.
    pub(crate) fn list<'a>(self) -> Vec<&'a CStr> {
        let mut list = Vec::new();
        let mut next = self.0;
        // SAFETY: the array ends with a null pointer, and all entries before it are strings.
        unsafe {
            while !next.is_null() && !(*next).is_null() {
                list.push(CStr::from_ptr(*next));
                next = next.add(1);
            }
        }
        list
    }

    /// Cuts the string at `index` to `length` bytes, by writing a zero byte. The strings must be writable, as those of
    /// the environment are.
    pub(crate) fn shorten(self, index: usize, length: usize) {
        if self.list().get(index).is_some_and(|text| length < text.to_bytes().len()) {
            // SAFETY: the array has a string with that index, which has a byte there. No reference to it is alive.
            unsafe { (*self.0.add(index)).cast_mut().add(length).write(0) };
        }
    }

    /// The array behind a pointer that C passed as another type.
    pub(crate) fn at(argument: *const c_char) -> Self {
        Self(argument.cast())
    }

    /// A pointer to `pointers`, to pass to a function of the C library. They must end with a null pointer and outlive
    /// the call.
    pub(crate) fn from_pointers(pointers: &[*const c_char]) -> Self {
        Self(pointers.as_ptr())
    }
}
