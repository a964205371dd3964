//! The file system calls by paths (`daos_fs_sys.h`).
pub mod attr;
pub mod dir;
pub mod entry;
pub mod file;
pub mod mount;
pub mod xattr;

pub(crate) use dir::OpenDir;
pub(crate) use mount::Sys;
