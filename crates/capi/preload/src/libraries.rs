//! Loading libraries: `dlopen` of a path in the mount point, and the names of loaded libraries.
//!
//! The loader makes system calls directly, so it gets the path of a copy in place of one in the mount point
//! ([`copies`]). The libraries that it needs are copied before, to directories in which the loader searches.
use crate::answer::{Answer, Fail};
use crate::edge::{Out, Text, export, real};
use crate::next::Next;
use crate::report::Counter;
use crate::search::Plan;
use crate::serve::serve;
use crate::{config, copies, cwd, next, paths, report, search, threads};
use std::arch::naked_asm;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// Calls the function of the C library with the stack unchanged: that function searches libraries according to its
/// caller, which it identifies by the return address.
///
/// # Safety
/// The requirements of the function of this name in the C library.
// SAFETY: the flags are kept over the call of `before`, and the stack is aligned for it.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    naked_asm!(
        "push rsi", "mov rdx, [rsp + 8]", "sub rsp, 16",
        "call {before}",
        "add rsp, 16", "pop rsi",
        "mov rdi, rax", "jmp rdx",
        before = sym before,
    );
}

/// Calls the function of the C library with the stack unchanged: that function searches libraries according to its
/// caller, which it identifies by the return address.
///
/// # Safety
/// The requirements of the function of this name in the C library.
// SAFETY: the flags and the return address are kept over the call of `before`.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    naked_asm!(
        "stp x1, x30, [sp, #-16]!", "mov x2, x30",
        "bl {before}",
        "mov x16, x1",
        "ldp x1, x30, [sp], #16",
        "br x16",
        before = sym before,
    );
}

/// Arguments with which the assembler continues a call of `dlopen`, returned in two registers.
#[repr(C)]
struct Call {
    path: Text,
    function: *mut c_void,
}

/// Prepares a call of `dlopen`: for a library in the mount point, the path becomes that of its copy. `caller` is the
/// return address of the call.
extern "C" fn before(path: Text, flags: c_int, caller: *const c_void) -> Call {
    static NEXT: Next = Next::new();
    let path = prepare(path, flags, caller).unwrap_or(path);
    let function = NEXT.address(c"dlopen");
    // Like the loader, forgets the message of an earlier call.
    let _ = KEPT.try_with(RefCell::take);
    Call { path, function }
}

/// Copies the library at `path` and the libraries that it needs, and returns the path of the copy for `dlopen`. `None`
/// to use the program's path. `caller` is the return address of the call.
fn prepare(path: Text, flags: c_int, caller: *const c_void) -> Option<Text> {
    static COUNT: Counter = Counter::new();
    let wanted = path.bytes().filter(|path| !path.is_empty() && !threads::is_inside())?;
    let ours = in_mount(wanted, caller)?;
    report::enter(&COUNT, c"dlopen");
    let mut plan = Plan::default();
    let copy = match serve(|| keep(copies::c_string(&plan.add(&ours)?)?)) {
        Ok(copy) => copy,
        Err(error) => return copy_failed(&ours, error),
    };
    // Outside the store: the libraries run code of their own.
    for library in &plan.first {
        load(library, flags);
    }
    Some(Text::from_c_str(copy))
}

/// The absolute path of the library that `dlopen` names, if it is in the mount point. `caller` is an address in the
/// calling library.
fn in_mount(wanted: &[u8], caller: *const c_void) -> Option<Vec<u8>> {
    // The loader searches a name without a slash in directories.
    if !wanted.contains(&b'/') {
        let caller = path_of_library_at(caller);
        let caller = caller.and_then(|path| copies::path_in_mount(path.to_bytes()));
        let may_be_ours = caller.is_some() || !config::get().library_path.is_empty();
        let found = || threads::inside(|| Ok(search::by_name(wanted, caller)));
        return may_be_ours.then(found)?.ok()?;
    }
    if !paths::is_ours(libc::AT_FDCWD, wanted) {
        return None;
    }
    match wanted {
        [b'/', ..] => Some(wanted.to_vec()),
        relative => Some([&cwd::path()?, &b"/"[..], relative].concat()),
    }
}

/// The path that `dlopen` gets if copying the library failed: a path on the host, or that of an older copy that is
/// loaded. `None` to use the program's path.
fn copy_failed(path: &[u8], error: Fail) -> Option<Text> {
    match error {
        Fail::Outside(host) => keep(CString::new(host).ok()?).ok().map(Text::from_c_str),
        Fail::Errno(libc::ENOENT) => removed(path),
        Fail::Errno(errno) => {
            let _ = threads::inside(|| {
                let (path, cause) =
                    (String::from_utf8_lossy(path), std::io::Error::from_raw_os_error(errno));
                report::note(&format!(
                    "the library {path} was not loaded: copying it failed: {cause}"
                ));
                Ok(())
            });
            None
        }
    }
}

/// The path of the copy of a library that was removed after it was loaded. The loader knows it by that path.
fn removed(path: &[u8]) -> Option<Text> {
    let copy =
        copies::path_of(&paths::plain(path)).and_then(|copy| copies::c_string(&copy)).ok()?;
    let is_loaded = threads::inside(|| Ok(next::is_loaded(copy.to_bytes())));
    is_loaded.ok()?.then(|| keep(copy).ok().map(Text::from_c_str))?
}

/// Keeps a path for the life of the process. The loader still uses it while it runs code of the library, which may load
/// other libraries.
fn keep(path: CString) -> Answer<&'static CStr> {
    static KEPT: Mutex<BTreeSet<&'static CStr>> = Mutex::new(BTreeSet::new());
    // A fork waits for threads inside, so a child never inherits the lock.
    threads::inside(|| {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(path.as_c_str()) {
            return Ok(*known);
        }
        let path: &'static CStr = Box::leak(path.into_boxed_c_str());
        kept.insert(path);
        Ok(path)
    })
}

pub(crate) mod c {
    use super::{Out, Text, c_char, c_int, c_void, real};

    real! {
        fn dlopen(path: Text, flags: c_int) -> *mut c_void;
        fn dladdr(address: *const c_void, out: Out<libc::Dl_info>) -> c_int;
        fn dlerror() -> *const c_char;
    }
}

/// Loads a library that another one needs. The loader then finds it by its name, so it stays loaded.
fn load(library: &CStr, flags: c_int) {
    let how = libc::RTLD_LAZY | libc::RTLD_NOW;
    c::dlopen(Text::from_c_str(library), flags & how);
}

thread_local! {
    /// A message that the loader has lost.
    static KEPT: RefCell<Option<CString>> = const { RefCell::new(None) };
    /// The last message that was returned to the program.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Looks up `dlerror` of the C library now, for the exported `dlerror` and for [`c::dlerror`]. A later lookup would
/// delete a message of the loader.
pub(crate) fn look_up() {
    // SAFETY: this is the `dlerror` that this library exports. No message exists yet, so it returns null.
    unsafe { libc::dlerror() };
    c::dlerror();
}

/// Keeps the loader's message while `function` is looked up, because the lookup would delete it.
pub(crate) fn keep_message(function: &CStr) {
    // Looking up `dlerror` would call itself without end.
    if function == c"dlerror" {
        return;
    }
    if let Some(message) = Text::at(c::dlerror() as usize).c_str() {
        let _ = KEPT.try_with(|kept| kept.replace(Some(message.to_owned())));
    }
}

/// The message for `dlerror`: that of the loader, or else one that a lookup would have lost. Each is returned once.
fn message(of_loader: Text) -> *const c_char {
    let kept = KEPT.try_with(RefCell::take).ok().flatten();
    match (of_loader.c_str(), kept) {
        (Some(text), _) => translated(text),
        (None, Some(kept)) => translated(&kept),
        (None, None) => std::ptr::null(),
    }
}

/// The path of the library that contains an address.
pub(crate) fn path_of_library_at<'a>(address: *const c_void) -> Option<&'a CStr> {
    let none = std::ptr::null_mut();
    let mut info = libc::Dl_info {
        dli_fname: none,
        dli_fbase: none.cast(),
        dli_sname: none,
        dli_saddr: none.cast(),
    };
    let found = c::dladdr(address, Out::from_mut(&mut info));
    Text::at(info.dli_fname as usize).c_str().filter(|_| found != 0)
}

/// Replaces the path of a copy in a result of `dladdr` by the path in the mount point, which is its end.
fn show(out: Out<libc::Dl_info>) {
    let Some(mut info) = out.get() else { return };
    let path = Text::at(info.dli_fname as usize).bytes().unwrap_or_default();
    if let Some(known) = copies::path_in_mount(path) {
        info.dli_fname = known.as_ptr().cast();
        out.set(info);
    }
}

/// A message of the loader with the paths that programs know. It is valid until the next message.
fn translated(text: &CStr) -> *const c_char {
    let prefix = copies::prefix().and_then(|prefix| String::from_utf8(prefix).ok());
    let shown = match (text.to_str(), prefix) {
        (Ok(text), Some(prefix)) => CString::new(text.replace(&prefix, "")).unwrap_or_default(),
        _ => text.to_owned(),
    };
    LAST.try_with(|last| {
        *last.borrow_mut() = shown;
        last.borrow().as_ptr()
    })
    .unwrap_or(std::ptr::null())
}

export! {
    fn dladdr(address: *const c_void, out: Out<libc::Dl_info>) -> c_int | next {
        let found = next(address, out);
        if found != 0 {
            show(out);
        }
        found
    }

    fn dladdr1(
        address: *const c_void, out: Out<libc::Dl_info>, more: *mut *mut c_void, flags: c_int,
    ) -> c_int | next {
        let found = next(address, out, more, flags);
        if found != 0 {
            show(out);
        }
        found
    }

    fn dlerror() -> *const c_char | next {
        message(Text::at(next() as usize))
    }
}
