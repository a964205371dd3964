//! ecCodes, the C library that knows what a GRIB message says: found and loaded when it is first wanted,
//! so that nothing is needed to build and a machine without it gets an error that says what to install.
//!
//! [`Library`] is the loaded library, [`Field`] reads a message in place, [`Draft`] makes one. Not every
//! build of ecCodes may be used by several threads at once (that of Debian may not), so one lock of the process
//! stands before every call, and a fork waits for the call that is under way; other users of the same ecCodes
//! in the process do not know of it. What ecCodes says about an error becomes part of the error. ecCodes ends the
//! process where one of its own assertions fails, which nothing here can prevent.
//!
//! Functions, constants and their meaning: the public C API of ecCodes (`eccodes.h`).
mod api;
mod draft;
mod envelope;
mod failure;
mod field;
mod library;
pub mod limits;
mod search;
mod turn;

pub use draft::Draft;
pub use field::Field;
pub use library::Library;
pub use search::VARIABLE;
