//! Imports for most programs: `use esker::prelude::*;`
pub use crate::{Access, Array, ArrayAttributes, Container, Kv, Object, Pool, Transaction, Wait};
pub use esker_backend::NewContainer;
pub use esker_types::info::OpenMode;
pub use esker_types::ops::{Cond, Sink, Source};
pub use esker_types::{Error, ErrorKind, Extent, ObjectClass, ObjectId, ObjectType, Result};
