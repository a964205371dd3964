//! The field store and the tensor store (`esker.h`): functions of Esker in addition to those of DAOS, on the same
//! handles, events and codes. Each failure also has a text.
mod arguments;
mod call;
mod failure;
pub mod fields;
pub mod tensors;
pub mod texts;

pub use arguments::Pair;
pub(crate) use call::OpenStore;

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
fn milliseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
