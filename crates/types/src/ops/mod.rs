//! The operations on objects that every backend understands: fetch, write, list, query.
//!
//! The shapes follow the DAOS object API: a dkey names a distribution unit, an akey an attribute in
//! it, and an akey holds either a single value or an array of equal records.
mod buffers;
mod commit;
mod list;
mod read;
mod remove;
mod write;

pub use buffers::{Sink, Source};
pub use commit::{Commit, CommitId, Decided, Decisions, Outcome, Preparation};
pub use list::{AkeyRef, Anchor, Edge, KeyFound, KeyQuery, KeyScope, ListLimit, StoredExtent};
pub use read::{
    DkeyFetch, Fetch, FetchReply, FetchRequest, ReadAt, ReadLease, ReadTokens, View, Wanted,
};
pub use remove::{FIRST_CHUNK, LAST_OF_FIRST, Removal, STRIPE_MARK, Take, Taken, TakenWithArray};
pub use write::{Change, ChangeId, Cond, Update, Value, Write, WriteOp, check_array_len};
