//! Binding to ecCodes, the C library that decodes GRIB. It is loaded on first use, so builds do not need it, and on a
//! machine without it the error says what to install.
//!
//! [`Library`] is the loaded library, [`Field`] reads a message in place, [`Draft`] is one that can be changed. Not
//! every build of ecCodes is thread-safe (Debian's is not), so a lock of the process serialises all calls, and a fork
//! waits for the current one. Other users of the same ecCodes in the process do not take this lock. Messages of ecCodes
//! become part of the error. If one of its assertions fails, ecCodes aborts the process; nothing here can prevent that.
//!
//! Functions, constants and their meaning: the public C API of ecCodes (`eccodes.h`).
#![allow(unsafe_code)]
mod api;
mod envelope;
mod failure;
mod library;
pub mod limits;
mod message;
mod search;

pub use library::Library;
pub use message::{Draft, Field};
pub use search::VARIABLE;
