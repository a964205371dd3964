//! Programs and libraries that this library does not reach. Standard error and the report name programs that start
//! without this library. The loader makes system calls directly, so it cannot see libraries in the mount point; the
//! report says so.
use crate::answer::Fail;
use crate::edge::{Text, name};
use crate::next::Next;
use crate::{config, paths, raw, report, threads};
use dfs::Unreached;
use std::arch::naked_asm;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Warns if this library will not reach the program at this path. Called inside.
pub(crate) fn warn(path: &CStr) {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let Some(why) = Unreached::of(path) else { return };
    let mount = String::from_utf8_lossy(&config::get().mount);
    let text = format!("{} {}: it cannot see {mount}", path.display(), why.cause());
    report::note(&text);
    if is_first(path) {
        let _ = raw::write(libc::STDERR_FILENO, format!("esker: warning: {text}\n").as_bytes());
    }
}

/// As [`warn`], for a name that is searched in `PATH`.
pub(crate) fn warn_found(name: &CStr) {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let name = OsStr::from_bytes(name.to_bytes());
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file());
    if let Some(Ok(path)) = found.map(|path| CString::new(path.into_os_string().as_bytes())) {
        warn(&path);
    }
}

/// True once for each program of a run.
fn is_first(path: &Path) -> bool {
    let (Ok(file), run_dir) = (path.metadata(), &config::get().run_dir) else { return true };
    let mark = format!("/warned.{}.{}", file.dev(), file.ino());
    let Ok(mark) = CString::new([run_dir.as_slice(), mark.as_bytes()].concat()) else {
        return true;
    };
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    match raw::open(&mark, flags, 0o600) {
        Ok(fd) => raw::close(fd),
        Err(error) => return !matches!(error, Fail::Errno(libc::EEXIST)),
    }
    true
}

/// Jumps to the function of the C library with the stack unchanged: that function searches libraries according to its
/// caller, which it identifies by the return address.
///
/// # Safety
/// As for the function of this name in the C library.
// SAFETY: both arguments are kept over the call of `before`, and the stack is aligned for it.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    naked_asm!(
        "push rdi", "push rsi", "sub rsp, 8",
        "call {before}",
        "add rsp, 8", "pop rsi", "pop rdi",
        "jmp rax",
        before = sym before,
    );
}

/// Jumps to the function of the C library with the stack unchanged: that function searches libraries according to its
/// caller, which it identifies by the return address.
///
/// # Safety
/// As for the function of this name in the C library.
// SAFETY: both arguments and the return address are kept over the call of `before`.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    naked_asm!(
        "stp x0, x1, [sp, #-32]!", "str x30, [sp, #16]",
        "bl {before}",
        "mov x16, x0",
        "ldr x30, [sp, #16]", "ldp x0, x1, [sp], #32",
        "br x16",
        before = sym before,
    );
}

/// Reports a library that the loader cannot find, and returns the address of the function of the C library.
extern "C" fn before(path: Text) -> *mut c_void {
    static NEXT: Next = Next::new(name("dlopen\0"));
    let bytes = path.bytes().unwrap_or_default();
    // The loader searches a name without a slash in directories.
    let is_path = bytes.contains(&b'/');
    if is_path && !threads::is_inside() && paths::is_ours(libc::AT_FDCWD, bytes) {
        let _ = threads::inside(|| {
            let path = String::from_utf8_lossy(bytes);
            report::note(&format!("the library {path} was not loaded: the loader cannot see it"));
            Ok(())
        });
    }
    NEXT.address()
}
