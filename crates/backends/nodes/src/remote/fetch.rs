//! Encodes fetches, and copies their replies into the caller's buffers.
use esker_types::ops::{DkeyFetch, Fetch, FetchReply, FetchRequest, Sink, Wanted};
use esker_types::{Error, ErrorKind, Result};
use esker_wire::message::{AkeyReply, AkeyRequest, DkeyRequest, filled_ranges};

/// Encodes a fetch.
pub(crate) fn encode<'f, 'b: 'f>(dkeys: &[DkeyFetch<'f, 'b>]) -> Vec<DkeyRequest<'f>> {
    let encode = |of: &DkeyFetch<'f, 'b>| DkeyRequest {
        dkey: of.dkey,
        cond: of.cond,
        akeys: of.akeys.iter().map(encode_akey).collect(),
    };
    dkeys.iter().map(encode).collect()
}

/// Bytes of all buffers of a fetch.
pub(crate) fn room(dkeys: &[DkeyFetch<'_, '_>]) -> u64 {
    let akeys = dkeys.iter().flat_map(|of| of.akeys.iter());
    akeys.map(|fetch| fetch.reply.sink.len()).fold(0, u64::saturating_add)
}

fn encode_akey<'b>(fetch: &Fetch<'b>) -> AkeyRequest<'b> {
    let FetchRequest { akey, wanted, record_size, cond, .. } = fetch.request;
    let extents = match wanted {
        Wanted::Single => None,
        Wanted::Array(extents) => Some(extents.to_vec()),
    };
    let room = match &fetch.reply.sink {
        Sink::None => None,
        sink => Some(sink.len()),
    };
    AkeyRequest { akey, extents, record_size, cond, room }
}

/// Copies the bytes found to the caller's buffers.
pub(crate) fn fill(
    dkeys: &mut [DkeyFetch<'_, '_>],
    replies: Vec<AkeyReply>,
    mut bulk: &[u8],
) -> Result<()> {
    let akeys = dkeys.iter_mut().flat_map(|of| of.akeys.iter_mut());
    let mut replies = replies.into_iter();
    for fetch in akeys {
        let reply = replies.next().ok_or_else(misfit)?;
        fill_akey(&fetch.request, &mut fetch.reply, reply, &mut bulk)?;
    }
    match (replies.next(), bulk) {
        (None, []) => Ok(()),
        _ => Err(misfit()),
    }
}

/// Sets the sizes that a failed fetch found for its akeys.
pub(crate) fn note(dkeys: &mut [DkeyFetch<'_, '_>], replies: Vec<AkeyReply>) {
    let akeys = dkeys.iter_mut().flat_map(|of| of.akeys.iter_mut());
    akeys.zip(replies).for_each(|(fetch, found)| fetch.reply.size = found.size);
}

fn fill_akey(
    request: &FetchRequest<'_>,
    into: &mut FetchReply<'_>,
    found: AkeyReply,
    bulk: &mut &[u8],
) -> Result<()> {
    let ranges = match (request.wanted, &into.sink) {
        (_, Sink::None) => Vec::new(),
        (Wanted::Single, _) => std::iter::once(0..found.filled_bytes).collect(),
        (Wanted::Array(extents), _) => filled_ranges(extents, &found.filled, found.size)?,
    };
    for range in ranges {
        let len = usize::try_from(range.end - range.start).map_err(|_| misfit())?;
        let (bytes, rest) = bulk.split_at_checked(len).ok_or_else(misfit)?;
        if range.end > into.sink.len() {
            return Err(misfit());
        }
        into.sink.put(range.start, bytes);
        *bulk = rest;
    }
    into.size = found.size;
    into.filled_bytes = found.filled_bytes;
    into.filled = if request.want_filled { found.filled } else { Vec::new() };
    Ok(())
}

#[cold]
fn misfit() -> Error {
    Error::new(ErrorKind::Corrupt, "a node sent a reply that does not fit what was asked for")
}
