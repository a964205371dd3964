//! The unit tests of what reads ELF files. Those of the library itself cannot run in it: it would serve the calls of the test.
#![allow(missing_docs)]

#[path = "../../capi/preload/src/elf.rs"]
#[allow(dead_code, clippy::unwrap_used)]
mod elf;
