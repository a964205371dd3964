//! The file system calls (`daos_fs.h`): mounts, and open files, directories and symlinks.
pub mod attr;
pub mod check;
pub mod connect;
pub mod create;
pub mod entry;
pub mod file;
pub mod global;
#[cfg(test)]
pub(crate) mod intercepted;
pub mod io;
pub mod list;
pub mod mount;
mod name;
pub mod open;
pub mod pipeline;
pub mod xattr;

pub(crate) use file::OpenFile;
pub(crate) use mount::Mount;
pub(crate) use name::{Name, parent_of};
pub(crate) use pipeline::EntryFilter;
