//! A file system in a container, mounted in the kernel's tree through FUSE.
//!
//! [`Mount::new`] puts a file system of the crate `dfs` on a directory, [`Mount::serve`] answers the
//! kernel until it is unmounted, [`unmount`] takes one away, whoever serves it. What programs may rely
//! on is in docs/semantics.md, "The mount"; why it is built so in docs/decisions/0018-fuse.md.
#![forbid(unsafe_code)]

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
mod served;
mod table;
mod unmount;
mod xattr;

pub use mount::Mount;
pub use options::{Cache, Options};
pub use table::Mounted;
pub use unmount::{When, unmount};
