//! Libraries that programs load. The loader makes system calls directly, so it cannot see libraries in the mount point:
//! the report says so.
use crate::edge::{Text, name};
use crate::next::Next;
use crate::{paths, report, thread};
use std::arch::naked_asm;
use std::ffi::c_void;

/// Jumps to the function of the C library with the stack unchanged: that function searches libraries according to its
/// caller, whom it finds by the return address.
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
/// caller, whom it finds by the return address.
///
/// # Safety
/// As for the function of this name in the C library.
// SAFETY: both arguments and the place to return to are kept over the call of `before`.
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
    // A name without a slash is searched in directories.
    let is_path = bytes.contains(&b'/');
    if is_path && !thread::is_inside() && paths::is_ours(libc::AT_FDCWD, bytes) {
        let _ = thread::inside(|| {
            let path = String::from_utf8_lossy(bytes);
            report::note(&format!("the library {path} was not loaded: the loader does not see it"));
            Ok(())
        });
    }
    NEXT.address()
}
