//! `execl` and its relatives, which take arguments one by one, terminated by a null pointer. Each passes on the position
//! of its arguments: the first ones in registers, the others on the stack.
use crate::answer::{no, tell};
use crate::edge::{Text, Texts};
use crate::exec::{environment, run, search};
use std::arch::naked_asm;
use std::ffi::{c_char, c_int};

/// Arguments after the path that are passed in registers.
#[cfg(target_arch = "x86_64")]
const IN_REGISTERS: usize = 5;
#[cfg(target_arch = "aarch64")]
const IN_REGISTERS: usize = 7;

/// The arguments, the null pointer with them, and what stands behind that.
///
/// # Safety
/// There are so many registers, and a null pointer among the arguments with a word behind it.
unsafe fn gather(
    registers: *const *const c_char,
    stack: *const *const c_char,
) -> (Vec<*const c_char>, *const c_char) {
    // SAFETY: the caller's.
    let argument = |at: usize| unsafe {
        match at.checked_sub(IN_REGISTERS) {
            None => *registers.add(at),
            Some(behind) => *stack.add(behind),
        }
    };
    let mut arguments = Vec::new();
    while arguments.last().is_none_or(|last: &*const c_char| !last.is_null()) {
        arguments.push(argument(arguments.len()));
    }
    let behind = argument(arguments.len());
    (arguments, behind)
}

/// Defines a function that goes on to `$answer` with the path, and where its arguments lie.
macro_rules! listed {
    ($($name:ident $answer:ident;)*) => {$(
        /// # Safety
        /// As for the function of this name in the C library.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                "sub rsp, 56", "mov [rsp], rsi", "mov [rsp + 8], rdx", "mov [rsp + 16], rcx",
                "mov [rsp + 24], r8", "mov [rsp + 32], r9", "mov rsi, rsp", "lea rdx, [rsp + 64]",
                "call {answer}", "add rsp, 56", "ret", answer = sym $answer,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                "stp x29, x30, [sp, #-80]!", "stp x1, x2, [sp, #16]", "stp x3, x4, [sp, #32]",
                "stp x5, x6, [sp, #48]", "str x7, [sp, #64]", "add x1, sp, #16", "add x2, sp, #80",
                "bl {answer}", "ldp x29, x30, [sp], #80", "ret", answer = sym $answer,
            );
        }
    )*};
}

listed! {
    execl run_listed;
    execlp search_listed;
    execle run_listed_with;
}

type ArgumentWords = *const *const c_char;

extern "C" fn run_listed(path: Text, registers: ArgumentWords, stack: ArgumentWords) -> c_int {
    // SAFETY: as C passed them, by one of the functions above.
    let (arguments, _) = unsafe { gather(registers, stack) };
    match path.c_str() {
        Some(path) => run(path, Texts::of(&arguments), environment()),
        None => tell(no(libc::EFAULT)),
    }
}

extern "C" fn search_listed(file: Text, registers: ArgumentWords, stack: ArgumentWords) -> c_int {
    // SAFETY: as C passed them, by one of the functions above.
    let (arguments, _) = unsafe { gather(registers, stack) };
    search(file, Texts::of(&arguments), environment())
}

extern "C" fn run_listed_with(path: Text, registers: ArgumentWords, stack: ArgumentWords) -> c_int {
    // SAFETY: as C passed them, by one of the functions above.
    let (arguments, environment) = unsafe { gather(registers, stack) };
    match path.c_str() {
        Some(path) => run(path, Texts::of(&arguments), Texts::at(environment)),
        None => tell(no(libc::EFAULT)),
    }
}
