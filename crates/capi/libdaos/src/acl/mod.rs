//! Access control lists (`daos_security.h`): plain functions over memory.
#[cfg_attr(miri, path = "accounts_under_miri.rs")]
pub(crate) mod accounts;
pub mod entry;
mod fields;
pub mod list;
pub mod perms;
pub mod principal;
pub mod text;
mod verbose;

pub use verbose::daos_ace_str_get_verbose;

pub(crate) use fields::{Ace, Kind, checked, pack, unpack};

use crate::code::{self, Code, Result};
use crate::edge::guard;
use std::ffi::c_int;

/// These functions need no initialised library.
fn pure(work: impl FnOnce() -> Result<()>) -> c_int {
    guard(Code::MISC.0, || code::of(work()))
}

/// A size, or a code.
fn size(work: impl FnOnce() -> Result<usize>) -> isize {
    match guard(Err(Code::MISC), work) {
        Ok(size) => size as isize,
        Err(Code(code)) => code as isize,
    }
}
