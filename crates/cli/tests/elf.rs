//! Unit tests of the parser of ELF files. They cannot run in the interception library itself, which would serve the
//! calls of the test.
#![allow(missing_docs)]

#[path = "../../capi/preload/src/elf.rs"]
#[allow(dead_code, clippy::unwrap_used)]
mod elf;
