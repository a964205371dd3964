//! A POSIX namespace in a container: DFS, the file system of DAOS, on any backend with transactions.
//!
//! A [`Dfs`] is mounted on a container. A [`Node`] is a file, directory or symbolic link, found by its
//! parent and its name or by a path ([`Dfs::resolve`]); a [`File`] is one that is open. Calls block, except for
//! [`File::read_into`] and [`File::write_from`], which are futures. Errors carry the errno of POSIX.
//! `docs/semantics.md` lists the differences from POSIX.
//!
//! ```
//! use dfs::{Create, Dfs, Follow, MountOptions, NewDfs, Open};
//! use esker::Pool;
//! use esker::backend::NewContainer;
//! use esker::types::info::OpenMode;
//!
//! # fn main() -> esker::types::Result<()> {
//! let pool = Pool::connect("memory:example-of-dfs", OpenMode::ReadWrite)?;
//! let label = NewContainer::named("home");
//! Dfs::create_container(&pool, &label, &NewDfs::default())?;
//!
//! let fs = Dfs::open("memory:example-of-dfs", "home", MountOptions::default())?;
//! let dir = fs.root().mkdir(b"run1", &Create::with_mode(0o755))?;
//! let file = dir.create(b"out", &Create::with_mode(0o644))?.open(Open::BOTH)?;
//! file.write_at(0, b"step 0\n")?;
//! assert_eq!(file.append(b"step 1\n")?, 7);
//! file.close()?;
//!
//! dir.rename(b"out", &fs.root(), b"result", Default::default())?;
//! let found = fs.resolve(&fs.root(), b"/run1/../result", Follow::All)?;
//! assert_eq!(found.attr()?.size, 14);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod attr;
pub mod check;
mod create;
mod deferred_close;
mod deferred_removal;
mod directory_cache;
mod entry;
mod entry_cache;
mod entry_hints;
mod existing;
mod file;
mod inode;
mod lazy;
mod lease_on_create;
mod lifecycle;
pub mod limits;
mod list;
mod located;
mod mount;
mod moves;
mod node;
mod oids;
mod open;
mod orphans;
mod path;
mod path_validation;
mod prefetch;
mod preload_check;
mod publish;
mod read_ahead;
mod remove;
mod remove_many;
mod remove_tree;
mod rename;
mod resize;
mod retry;
mod set_attr;
mod superblock;
pub mod transfer;
mod validated_paths;
mod walk;
mod xattr;

pub use attr::{Attr, EXECUTE, READ, SetAttr, WRITE};
pub use create::Create;
pub use entry::{INODE_AKEY, WithXattr};
pub use esker::types::ops::Anchor;
pub use existing::{Check, Existing};
pub use file::{File, Open, Version};
pub use inode::{INODE_BYTES, Inode, KIND_MASK, Kind, MODE_MASK, Time};
pub use list::{DirEntry, DirStream};
pub use mount::{Dfs, FsSpace, MountOptions};
pub use node::{IDENTITY_ATTRIBUTE, Node};
pub use path::{Follow, Parent, Resolved, find_and, find_any_and};
pub use preload_check::PreloadObstacle;
pub use publish::{Publish, PublishNew};
pub use remove_many::{Removal, remove_many};
pub use rename::{Rename, RenameMode, rename_all};
pub use superblock::{CHUNK_SIZE, NewDfs, RELAXED, Roots, Superblock};
pub use walk::{Visit, Walk};
pub use xattr::{XattrMode, Xattrs};
