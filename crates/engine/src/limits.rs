//! Limits of the requests of one client to an engine. They protect the engine from authenticated clients with malicious
//! intent.
use esker_types::limits::TX_OPS_MAX;
use esker_types::ops::ListLimit;
use esker_types::{Error, ErrorKind, Result};
use esker_wire::message::{ChangeRequest, DkeyRequest};

/// Clients of one engine: 512 processes on each of 32 nodes.
pub const CLIENTS_MAX: u64 = 1 << 14;

/// Containers that one client may have open.
pub const HANDLES_MAX: usize = 4096;

/// Objects in a request for leases, or for their ends.
pub const LEASED_EACH_MAX: usize = 4096;

/// Leases that one client may have.
pub const LEASES_MAX: usize = 1 << 20;

/// Entries of a listing in one reply. A client that asks for more gets these, and continues.
pub const LIST_ENTRIES_MAX: usize = 1 << 16;

/// Bytes of keys of a listing in one reply. A client that asks for more gets these, and continues.
pub const LIST_BYTES_MAX: usize = 16 << 20;

/// Akeys of all dkeys in one fetch.
pub const FETCHES_MAX: usize = 1 << 16;

/// Objects of one query.
pub const QUERIES_MAX: usize = 4096;

/// Tokens of one request for a lease on reads, or for a removal.
pub const LEASE_TOKENS_MAX: usize = 1 << 13;

/// Limits a listing to the size of one reply.
pub(crate) fn limit_listing(asked: ListLimit) -> ListLimit {
    let ListLimit { entries, bytes } = asked;
    ListLimit { entries: entries.min(LIST_ENTRIES_MAX), bytes: bytes.min(LIST_BYTES_MAX) }
}

/// Limits a listing of entries of a fixed size to one reply.
pub(crate) fn limit_entries(asked: u64) -> usize {
    usize::try_from(asked).unwrap_or(usize::MAX).min(LIST_ENTRIES_MAX)
}

/// Refuses a fetch of too many akeys before buffers are allocated for it.
pub(crate) fn check_fetch(dkeys: &[DkeyRequest<'_>]) -> Result<()> {
    let akeys = dkeys.iter().map(|dkey| dkey.akeys.len()).sum::<usize>();
    check("akeys in one fetch", akeys.max(dkeys.len()), FETCHES_MAX)
}

/// Refuses a change of more writes than a transaction may have.
pub(crate) fn check_change(change: &ChangeRequest<'_>) -> Result<()> {
    check("writes in one change", change.writes.len(), TX_OPS_MAX)
}

/// Fails with `Overflow` if a request has `count` items, but the engine serves at most `most`. `what` names the items
/// in the error.
pub(crate) fn check(what: &str, count: usize, most: usize) -> Result<()> {
    match count <= most {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Overflow,
            format!("{count} {what}: an engine serves at most {most}"),
        )),
    }
}
