//! Client of the Esker object store.
//!
//! A [`Pool`] holds [`Container`]s, and a container holds objects: [`Kv`] (values under keys), [`Array`] (a sequence
//! of cells of equal size) and, one level below, [`Object`], whose dkeys hold akeys that hold single values or
//! arrays. Operations take an [`Access`]: the latest state, a snapshot, or a [`Transaction`].
//!
//! Operations are futures. On local targets they are ready at the first poll; [`Wait::wait`] blocks until they are
//! ready, without an async runtime.
//!
//! ```
//! use esker::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let pool = Pool::connect("memory:example", OpenMode::ReadWrite)?;
//! pool.create_container(&NewContainer::named("run1")).wait()?;
//! let container = pool.open_container("run1", OpenMode::ReadWrite).wait()?;
//!
//! // A value under a key. Without a class, Key-Values and arrays are distributed over all targets.
//! let index = container.kv(container.new_oid(ObjectType::KvHashed).generate(1)?)?;
//! index.put(b"step 0", b"2.1", Cond::NONE, Access::Latest).wait()?;
//! assert_eq!(index.get(b"step 0", Access::Latest).wait()?.as_deref(), Some(&b"2.1"[..]));
//!
//! // An array of 8-byte cells, 1024 of them per chunk.
//! let oid = container.new_oid(ObjectType::Array).generate(2)?;
//! let shape = ArrayAttributes { cell_size: 8, chunk_size: 1024 };
//! let field = container.create_array(oid, shape, Access::Latest).wait()?;
//! let range = [Extent::new(1000, 100)];
//! field.write(&range, Source::One(&[7; 800]), Access::Latest).wait()?;
//! let mut cells = [0; 800];
//! field.read(&range, Sink::One(&mut cells), Access::Latest).wait()?;
//! assert_eq!(field.size(Access::Latest).wait()?, 1100);
//!
//! // A snapshot does not change; a transaction changes several things at once, or nothing.
//! let then = container.at(container.create_snapshot("before").wait()?).wait()?;
//! let transaction = container.transaction()?;
//! field.set_size(10, Access::Tx(&transaction)).wait()?;
//! index.remove(b"step 0", Cond::NONE, Access::Tx(&transaction)).wait()?;
//! transaction.commit().wait()?;
//! assert_eq!(index.get(b"step 0", Access::Latest).wait()?, None);
//! assert_eq!(index.get(b"step 0", then).wait()?.as_deref(), Some(&b"2.1"[..]));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod access;
mod array;
mod attributes;
pub mod config;
mod container;
pub mod copy;
mod kv;
mod lease;
pub mod limits;
pub mod names;
mod naming;
mod object;
mod object_names;
mod oid;
mod pool;
pub mod prelude;
mod proof;
mod transaction;
mod view;

pub use access::Access;
pub use array::{ATTRIBUTES_DKEY, Array, ArrayRead, ArrayStat, STRIPE_MARKS};
pub use attributes::{Attributes, FIELDS_LAYOUT, FILES_LAYOUT, LAYOUTS, TENSORS_LAYOUT};
pub use container::Container;
pub use esker_backend as backend;
pub use esker_backend::Reply;
#[cfg(feature = "daos")]
pub use esker_daos::{Daos, DaosUrl};
pub use esker_native::Native;
pub use esker_os::executor::{Task, Wait, block_on, side_by_side, task};
pub use esker_os::generation;
#[cfg(feature = "posix")]
pub use esker_posix::{Posix, PosixCheck, PosixPool, PosixUrl};
#[cfg(feature = "rados")]
pub use esker_rados::{Rados, RadosUrl};
pub use esker_store::{LOCKS, PRESENCE, group_id, lock_file, record_clean_exit, will_record_exit};
pub use esker_types as types;
pub use esker_types::{ArrayAttributes, check_label, check_pool_label};
pub use kv::Kv;
pub use lease::Lease;
pub use object::Object;
pub use object_names::{ObjectNames, is_name_catalog};
pub use oid::NewOid;
pub use pool::Pool;
pub use proof::Proof;
pub use transaction::Transaction;
pub use view::View;

/// The how-to for Rust, whose code is compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/rust.md")]
pub struct HowTo;
