//! Encodes fetches, and copies their replies into the caller's buffers.
use crate::connection::Found;
use esker_types::ops::{DkeyFetch, Fetch, FetchReply, FetchRequest, Sink, Wanted};
use esker_types::{Error, ErrorKind, Result};
use esker_wire::frame::{Destination, SHORT_PART};
use esker_wire::message::{AkeyReply, AkeyRequest, DkeyRequest, filled_ranges};

/// Converts a fetch to a request. The buffers of the fetch stay with the caller.
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

/// The fetch of one akey as a request.
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

/// All buffers of a fetch, in the order of the reply's data. None if one of them is short: to receive each apart would
/// take longer than a copy.
pub(crate) fn destination<'s>(dkeys: &'s mut [DkeyFetch<'_, '_>]) -> Destination<'s> {
    let akeys = dkeys.iter_mut().flat_map(|of| of.akeys.iter_mut());
    let buffers = akeys.flat_map(|fetch| buffers(&mut fetch.reply.sink));
    let long = buffers.map(|buffer| (buffer.len() > SHORT_PART).then_some(buffer));
    Destination::new(long.collect::<Option<_>>().unwrap_or_default())
}

/// All buffers of a sink.
fn buffers<'s>(sink: &'s mut Sink<'_>) -> impl Iterator<Item = &'s mut [u8]> {
    let (one, several) = match sink {
        Sink::None => (None, None),
        Sink::One(buffer) => (Some(&mut **buffer), None),
        Sink::Many(several) => (None, Some(several)),
    };
    one.into_iter().chain(several.into_iter().flatten().map(|buffer| &mut **buffer))
}

/// Copies the data of a reply to the caller's buffers, except for bytes that were received in place.
pub(crate) fn fill(
    dkeys: &mut [DkeyFetch<'_, '_>],
    replies: Vec<AkeyReply>,
    found: &Found,
) -> Result<()> {
    let akeys = dkeys.iter_mut().flat_map(|of| of.akeys.iter_mut());
    let mut replies = replies.into_iter();
    let mut data = Arrived { in_place: found.in_place as u64, at: 0, rest: &found.rest };
    let mut begin = 0;
    for fetch in akeys {
        let reply = replies.next().ok_or_else(misfit)?;
        let len = fetch.reply.sink.len();
        fill_akey(&fetch.request, &mut fetch.reply, reply, (begin, &mut data))?;
        begin += len;
    }
    match (replies.next(), data.rest) {
        (None, []) => Ok(()),
        _ => Err(misfit()),
    }
}

/// Data of a reply that is not assigned yet.
struct Arrived<'f> {
    /// Number of first bytes that lie in the buffers already.
    in_place: u64,
    /// Number of bytes that are assigned.
    at: u64,
    /// The data that was not received in place.
    rest: &'f [u8],
}

impl<'f> Arrived<'f> {
    /// Assigns the next `len` bytes of the data to the offset `begin` in the caller's buffers, which count as one.
    /// Returns how many of these bytes were received in place, and the remaining ones, which the caller must copy.
    fn next(&mut self, begin: u64, len: u64) -> Result<(u64, &'f [u8])> {
        let there = self.in_place.saturating_sub(self.at).min(len);
        if there > 0 && begin != self.at {
            return Err(misfit());
        }
        let others = usize::try_from(len - there).map_err(|_| misfit())?;
        let (bytes, rest) = self.rest.split_at_checked(others).ok_or_else(misfit)?;
        (self.rest, self.at) = (rest, self.at + len);
        Ok((there, bytes))
    }
}

/// Sets the sizes that a failed fetch found for its akeys.
pub(crate) fn note(dkeys: &mut [DkeyFetch<'_, '_>], replies: Vec<AkeyReply>) {
    let akeys = dkeys.iter_mut().flat_map(|of| of.akeys.iter_mut());
    akeys.zip(replies).for_each(|(fetch, found)| fetch.reply.size = found.size);
}

/// Puts the reply for one akey, and its part of the data, into the buffers of the caller. `begin` is the offset of the
/// akey's buffers among all buffers of the fetch.
fn fill_akey(
    request: &FetchRequest<'_>,
    into: &mut FetchReply<'_>,
    found: AkeyReply,
    (begin, data): (u64, &mut Arrived<'_>),
) -> Result<()> {
    let ranges = match (request.wanted, &into.sink) {
        (_, Sink::None) => Vec::new(),
        (Wanted::Single, _) => std::iter::once(0..found.filled_bytes).collect(),
        (Wanted::Array(extents), _) => filled_ranges(extents, &found.filled, found.size)?,
    };
    for range in ranges {
        if range.start > range.end || range.end > into.sink.len() {
            return Err(misfit());
        }
        let (there, bytes) = data.next(begin + range.start, range.end - range.start)?;
        into.sink.put(range.start + there, bytes);
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

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::Extent;
    use esker_types::ops::Cond;

    const LONG: usize = SHORT_PART + 1;

    /// Fetches two extents into `buffers`, of which the first bytes were received in place.
    fn filled(buffers: Vec<&mut [u8]>, filled: &[Extent], found: &Found) -> Result<()> {
        let extents = [Extent::new(0, LONG as u64), Extent::new(1 << 20, LONG as u64)];
        let mut akeys = [Fetch::array(b"a", 1, &extents, Sink::Many(buffers))];
        let mut dkeys = [DkeyFetch { dkey: b"d", cond: Cond::NONE, akeys: &mut akeys }];
        let filled_bytes = filled.iter().map(|extent| extent.count).sum();
        let reply = AkeyReply { size: 1, filled_bytes, filled: filled.to_vec() };
        fill(&mut dkeys, vec![reply], found)
    }

    /// Data is received directly into the buffers of a call only if all of them are long.
    #[test]
    fn only_long_buffers_are_received_into() {
        let len = |buffers: Vec<&mut [u8]>| {
            let mut akeys = [Fetch::single(b"a", Sink::Many(buffers))];
            let mut dkeys = [DkeyFetch { dkey: b"d", cond: Cond::NONE, akeys: &mut akeys }];
            destination(&mut dkeys).len()
        };
        assert_eq!(len(vec![&mut [0; LONG], &mut [0; LONG]]), 2 * LONG);
        assert_eq!(len(vec![&mut [0; LONG], &mut [0; LONG - 1]]), 0);
        assert_eq!(len(Vec::new()), 0);
    }

    #[test]
    fn bytes_in_place_stay_there_and_others_follow() {
        let (first, second) = (Extent::new(0, LONG as u64), Extent::new(1 << 20, LONG as u64));
        for in_place in [0, 1, LONG, LONG + 7, 2 * LONG] {
            let mut memory = vec![0; 2 * LONG];
            memory[..in_place].fill(7);
            let found = Found { in_place, rest: vec![9; 2 * LONG - in_place].into() };
            let (head, tail) = memory.split_at_mut(LONG);
            filled(vec![head, tail], &[first, second], &found).expect("a reply that fits");
            assert!(memory[..in_place].iter().all(|byte| *byte == 7));
            assert!(memory[in_place..].iter().all(|byte| *byte == 9));
        }
        // Data that lies at the beginning, but belongs behind a hole.
        let found = Found { in_place: LONG, rest: Vec::new().into() };
        let (mut head, mut tail) = (vec![0; LONG], vec![0; LONG]);
        let misplaced = filled(vec![&mut head, &mut tail], &[second], &found);
        assert_eq!(misplaced.expect_err("bytes in the wrong place").kind(), ErrorKind::Corrupt);
    }
}
