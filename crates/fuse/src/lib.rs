//! Mounts the file system of a container through FUSE.
//!
//! [`Mount::new`] mounts a file system of the crate `dfs` on a directory, [`Mount::serve`] answers the kernel until it
//! is unmounted, and [`unmount`] unmounts it from any process. docs/semantics.md, "The mount", says what programs can
//! rely on, and docs/decisions/0018-fuse.md why it is built this way.
#![deny(unsafe_code)]

mod answer;
mod attributes;
mod data;
mod directory;
mod filesystem;
mod inodes;
pub mod limits;
mod mount;
mod names;
mod options;
mod pages;
mod passing;
mod ring;
mod served;
mod spare;
mod table;
mod unmount;
mod xattr;

pub use mount::Mount;
pub use options::{Cache, Options, Transport};
pub use ring::check_ring;
pub use table::{Mounted, unescape_mount_field};
pub use unmount::{When, unmount};
