//! Reading akeys. Values that fit their buffers are read by one call of DAOS. If a value may not fit, or if DAOS does
//! not accept the extents, the existing size or extents are looked up first, and only these are read.
use super::RECORDS_END;
use super::proof::{Digest, Read};
use super::read::Reader;
use super::rules::is_foreign;
use crate::binding::{AkeyFetch, Fetched};
use esker_backend::check::{check_count, check_keys};
use esker_backend::object::read::{check_record_size, too_big};
use esker_types::limits::{AKEYS_PER_OP_MAX, DAOS_TRIES_MAX, EXTENTS_PER_OP_MAX};
use esker_types::ops::{Cond, Fetch, FetchReply, Sink, Wanted};
use esker_types::{Error, ErrorKind, Extent, Result};
use std::ops::Range;

/// A request for an akey that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) akey: Vec<u8>,
    /// `None` for a single value.
    pub(super) extents: Option<Vec<Extent>>,
    /// Bytes per record; 0 for any.
    pub(super) record_size: u64,
    /// Size of the buffer; `None` to read the size only.
    pub(super) room: Option<u64>,
    /// Asks which records were found.
    pub(super) want_filled: bool,
    pub(super) cond: Cond,
}

/// The result of a request for an akey.
#[derive(Debug, Default)]
pub(super) struct Got {
    /// Size of the value, or of a record; 0 if there is none.
    pub(super) size: u64,
    /// Records that were found.
    pub(super) filled: Vec<Extent>,
    pub(super) data: Vec<u8>,
    /// Offsets in the sink of ranges of the data.
    pub(super) pieces: Vec<(u64, Range<usize>)>,
    /// Error of this akey alone.
    pub(super) error: Option<Error>,
}

impl Want {
    /// The request of a fetch without the buffers of the caller: a proof keeps it.
    fn from_fetch(fetch: &Fetch<'_>) -> Self {
        let request = &fetch.request;
        let extents = match request.wanted {
            Wanted::Single => None,
            Wanted::Array(extents) => Some(extents.to_vec()),
        };
        let has_sink = !matches!(fetch.reply.sink, Sink::None);
        Self {
            akey: request.akey.to_vec(),
            extents,
            record_size: request.record_size,
            room: has_sink.then(|| fetch.reply.sink.len()),
            want_filled: request.want_filled,
            cond: request.cond,
        }
    }

    /// Iterates over the wanted extents that are not empty.
    fn extents(&self) -> impl Iterator<Item = Extent> {
        self.extents.iter().flatten().copied().filter(|extent| !extent.is_empty())
    }

    /// True if one call of DAOS can read it: as far as is known, the buffer is large enough, and DAOS accepts the
    /// extents.
    fn is_plain(&self) -> bool {
        let room = self.room.unwrap_or(0);
        let Some(extents) = &self.extents else { return room > 0 };
        let records = extents.iter().try_fold(0u64, |sum, extent| sum.checked_add(extent.count));
        let bytes = records.and_then(|records| records.checked_mul(self.record_size));
        let fits = bytes.is_some_and(|bytes| (1..=room).contains(&bytes));
        fits && are_apart(self.extents().collect())
    }

    /// Returns the request to DAOS, with buffers for all data that it may return.
    fn ask(&self) -> AkeyFetch {
        let extents = self.extents.as_ref().map(|_| self.extents().collect::<Vec<_>>());
        let room = match &extents {
            None => self.room.unwrap_or(0),
            Some(extents) => extents.iter().map(|extent| extent.count * self.record_size).sum(),
        };
        let (akey, record_size, cond) = (self.akey.clone(), self.record_size, self.cond.bits());
        AkeyFetch { akey, extents, record_size, room: room as usize, cond }
    }

    /// Returns the request to DAOS for the size of the value or record only, without data.
    fn ask_size(&self) -> AkeyFetch {
        AkeyFetch { room: 0, ..self.ask() }
    }
}

/// True if extents do not overlap and all indexes are below the limit of DAOS.
pub(super) fn are_apart(mut extents: Vec<Extent>) -> bool {
    extents.sort_unstable();
    let last = extents.last().map_or(0, |extent| extent.end());
    last <= RECORDS_END && extents.windows(2).all(|pair| pair[0].end() <= pair[1].start)
}

/// Found records of a fetch.
struct Piece {
    part: Extent,
    /// Offsets of the records in the fetched bytes.
    bytes: Range<usize>,
}

/// The parts of an extent that are among `sorted`, which are sorted by their extents and do not overlap.
fn parts<T>(
    sorted: &[T],
    extent: Extent,
    extent_of: impl Fn(&T) -> Extent,
) -> impl Iterator<Item = Extent> {
    let first = sorted.partition_point(|it| extent_of(it).end() <= extent.start);
    let near = sorted[first..].iter().map(extent_of).take_while(move |it| it.start < extent.end());
    near.filter_map(move |it| it.intersect(extent))
}

/// The existing records of extents that were fetched together.
fn pieces(extents: impl Iterator<Item = Extent>, fetched: &Fetched) -> Vec<Piece> {
    let (mut all, mut begin) = (Vec::new(), 0);
    let mut found = fetched.found.clone();
    found.sort_unstable();
    for extent in extents {
        all.extend(parts(&found, extent, |found| *found).map(|part| {
            let at = begin + (part.start - extent.start) * fetched.size;
            Piece { part, bytes: at as usize..(at + part.count * fetched.size) as usize }
        }));
        begin += extent.count * fetched.size;
    }
    all
}

impl Got {
    /// The reply to the fetch of a single value.
    fn single(fetched: Fetched) -> Self {
        let (size, data) = (fetched.size, fetched.data);
        let pieces = vec![(0, 0..data.len().min(size as usize))];
        Self { size, data, pieces, ..Self::default() }
    }

    /// Returns the records of a fetch that was made as the caller requested it: each byte has the same offset as in the
    /// caller's buffers.
    fn records(want: &Want, fetched: Fetched) -> Self {
        let found = pieces(want.extents(), &fetched);
        let filled = found.iter().map(|found| found.part).collect();
        let pieces = found.into_iter().map(|found| (found.bytes.start as u64, found.bytes));
        let (size, pieces) = (fetched.size, pieces.collect());
        Self { size, filled, data: fetched.data, pieces, error: None }
    }

    /// Adds records, each at the offset in the sink that `place` returns.
    fn add(&mut self, parts: &[Extent], fetched: &Fetched, place: impl Fn(u64) -> u64) {
        let before = self.data.len();
        for Piece { part, bytes } in pieces(parts.iter().copied(), fetched) {
            self.filled.push(part);
            let bytes = before + bytes.start..before + bytes.end;
            self.pieces.push((place(part.start), bytes));
        }
        self.data.extend_from_slice(&fetched.data);
    }

    /// Pieces of bytes, with their offsets in the sink.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let piece = |bytes: &Range<usize>| self.data.get(bytes.clone()).unwrap_or_default();
        self.pieces.iter().map(move |(at, bytes)| (*at, piece(bytes)))
    }

    /// Copies what DAOS returned to the sink of the caller, also if it returned an error beside it.
    fn fill(self, request_filled: bool, reply: &mut FetchReply<'_>) -> Result<()> {
        reply.size = self.size;
        for (at, bytes) in self.pieces() {
            reply.sink.put(at, bytes);
            reply.filled_bytes = at + bytes.len() as u64;
        }
        if request_filled {
            reply.filled = self.filled;
        }
        self.error.map_or(Ok(()), Err)
    }
}

impl Reader<'_> {
    /// Reads akeys of a dkey.
    pub(super) async fn fetch(
        &self,
        dkey: &[u8],
        cond: Cond,
        fetches: &mut [Fetch<'_>],
    ) -> Result<()> {
        check_count("akeys", fetches.len(), AKEYS_PER_OP_MAX)?;
        check_keys(self.oid, dkey, None)?;
        for fetch in fetches.iter_mut() {
            check_keys(self.oid, dkey, Some(fetch.request.akey))?;
            if let Wanted::Array(extents) = fetch.request.wanted {
                check_count("extents", extents.len(), EXTENTS_PER_OP_MAX)?;
                extents.iter().try_for_each(|extent| extent.check())?;
            }
            fetch.reply.reset();
        }
        let wants: Vec<_> = fetches.iter().map(Want::from_fetch).collect();
        let got = self.read(dkey, cond, &wants).await;
        self.note(|| Read::Fetch { dkey: dkey.to_vec(), cond, wants }, || Digest::of_fetch(&got));
        let filled = fetches.iter_mut().zip(got?).map(|(fetch, got)| {
            let want_filled = fetch.request.want_filled;
            got.fill(want_filled, &mut fetch.reply)
        });
        filled.collect::<Vec<_>>().into_iter().collect()
    }

    /// Reads the requested akeys. Fails with `NotFound` if a condition does not hold. If a value does not fit, only its
    /// akey has an error.
    pub(super) async fn read(&self, dkey: &[u8], cond: Cond, wants: &[Want]) -> Result<Vec<Got>> {
        let mut all: Vec<_> = wants.iter().map(|_| Got::default()).collect();
        let foreign = |want: &Want| is_foreign(self.oid, &want.akey);
        if wants.iter().any(|want| foreign(want) && want.cond.has(Cond::AKEY_FETCH)) {
            return Err(missing_error("akey"));
        }
        let select = |single: bool, plain: bool| {
            let is_it = |want: &Want| want.extents.is_none() == single && want.is_plain() == plain;
            indices(wants, |want| !foreign(want) && is_it(want))
        };
        // Single values without room for any byte, and arrays that one call cannot read.
        let (sizes, others) = (select(true, false), select(false, false));
        // DAOS returned wrong results for a fetch of both single values and records.
        let plain = [select(true, true), select(false, true)];
        for several in &plain {
            for index in self.read_plain(dkey, cond, wants, several, &mut all).await? {
                all[index] = self.read_one(dkey, &wants[index]).await?;
            }
        }
        self.read_sizes(dkey, cond, wants, &sizes, &mut all).await?;
        for index in others.iter().copied() {
            all[index] = self.read_listed(dkey, &wants[index]).await?;
            let must_exist = wants[index].cond.has(Cond::AKEY_FETCH) && all[index].size == 0;
            if must_exist && !self.has_akey(dkey, &wants[index].akey).await? {
                return Err(missing_error("akey"));
            }
        }
        let is_checked = plain.iter().chain([&sizes]).any(|asked| !asked.is_empty());
        if cond.has(Cond::DKEY_FETCH) && !is_checked && !self.has_akeys(dkey).await? {
            return Err(missing_error("dkey"));
        }
        Ok(all)
    }

    /// Reads the values that fit, by one call: the requests in `wants` whose indexes are in `plain`. Their results go
    /// to `all`. Returns the indexes of those that must be read in another way.
    async fn read_plain(
        &self,
        dkey: &[u8],
        cond: Cond,
        wants: &[Want],
        plain: &[usize],
        all: &mut [Got],
    ) -> Result<Vec<usize>> {
        if plain.is_empty() {
            return Ok(Vec::new());
        }
        let asked: Vec<_> = plain.iter().map(|index| wants[*index].ask()).collect();
        let (outcome, fetched) = self.object.fetch(self.tx(), dkey, cond.bits(), &asked).await?;
        match outcome {
            Ok(()) => {}
            Err(error) if is_about_sizes(error.kind()) => return Ok(plain.to_vec()),
            Err(error) => return Err(error),
        }
        let mut left = Vec::new();
        for (index, fetched) in plain.iter().copied().zip(fetched) {
            let want = &wants[index];
            match &want.extents {
                None => all[index] = Got::single(fetched),
                Some(_) if fetched.size == want.record_size => {
                    all[index] = Got::records(want, fetched);
                }
                // The akey is empty, or has records of another size.
                Some(_) => left.push(index),
            }
        }
        Ok(left)
    }

    /// Asks for the sizes of values whose data is not wanted, or has no room at all. `sizes` are their indexes in
    /// `wants`, and their results go to `all`.
    async fn read_sizes(
        &self,
        dkey: &[u8],
        cond: Cond,
        wants: &[Want],
        sizes: &[usize],
        all: &mut [Got],
    ) -> Result<()> {
        if sizes.is_empty() {
            return Ok(());
        }
        let asked: Vec<_> = sizes.iter().map(|index| wants[*index].ask_size()).collect();
        let (outcome, fetched) = self.object.fetch(self.tx(), dkey, cond.bits(), &asked).await?;
        outcome?;
        for (index, fetched) in sizes.iter().copied().zip(fetched) {
            let does_not_fit = wants[index].room == Some(0) && fetched.size > 0;
            let error = does_not_fit.then(|| too_big("value", fetched.size));
            all[index] = Got { size: fetched.size, error, ..Got::default() };
        }
        Ok(())
    }

    /// Reads an akey whose size differs from the expected size: asks for the size first, and again if the value has
    /// grown meanwhile.
    async fn read_one(&self, dkey: &[u8], want: &Want) -> Result<Got> {
        if want.extents.is_some() {
            return self.read_listed(dkey, want).await;
        }
        let size = [want.ask_size()];
        for _ in 0..DAOS_TRIES_MAX {
            let (outcome, found) = self.object.fetch(self.tx(), dkey, 0, &size).await?;
            outcome?;
            let size = found.first().map_or(0, |found| found.size);
            if size > want.room.unwrap_or(0) {
                let error = Some(too_big("value", size));
                return Ok(Got { size, error, ..Got::default() });
            }
            let asked = [want.ask()];
            let (outcome, mut found) = self.object.fetch(self.tx(), dkey, 0, &asked).await?;
            match outcome {
                Ok(()) => return Ok(found.pop().map(Got::single).unwrap_or_default()),
                Err(error) if is_about_sizes(error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
        Err(contended_error())
    }

    /// Lists the existing records of the wanted extents, then reads only those.
    async fn read_listed(&self, dkey: &[u8], want: &Want) -> Result<Got> {
        let only_size = want.room.is_none() && !want.want_filled;
        let key = (dkey, want.akey.as_slice());
        let listed = self.all_extents(key, only_size).await?;
        let mut got = Got { size: listed.first().map_or(0, |it| it.record_size), ..Got::default() };
        let mut at = 0u64;
        for extent in want.extents() {
            let parts: Vec<_> = parts(&listed, extent, |it| it.extent).collect();
            if let Err(error) = self.read_parts(dkey, want, extent, at, &parts, &mut got).await? {
                got.error = Some(error);
                break;
            }
            at = at.saturating_add(extent.count.saturating_mul(got.size));
        }
        Ok(got)
    }

    /// Reads the parts of an extent that exist; the extent begins at byte `at` of the sink. If they do not fit, or have
    /// another size than wanted, the inner result is the error of this akey.
    async fn read_parts(
        &self,
        dkey: &[u8],
        want: &Want,
        extent: Extent,
        at: u64,
        parts: &[Extent],
        got: &mut Got,
    ) -> Result<Result<()>> {
        let Some(last) = parts.last() else { return Ok(Ok(())) };
        if let Err(error) = check_record_size(want.record_size, got.size) {
            return Ok(Err(error));
        }
        let Some(room) = want.room else {
            got.filled.extend_from_slice(parts);
            return Ok(Ok(()));
        };
        let size = got.size;
        let place = |record: u64| at.saturating_add((record - extent.start).saturating_mul(size));
        if place(last.end()) > room {
            return Ok(Err(too_big("records", place(last.end()))));
        }
        let bytes: u64 = parts.iter().map(|part| part.count * got.size).sum();
        let asked = AkeyFetch {
            akey: want.akey.clone(),
            extents: Some(parts.to_vec()),
            record_size: got.size,
            room: bytes as usize,
            cond: 0,
        };
        let (outcome, fetched) = self.object.fetch(self.tx(), dkey, 0, &[asked]).await?;
        outcome?;
        fetched.iter().for_each(|fetched| got.add(parts, fetched, place));
        Ok(Ok(()))
    }
}

/// Indexes of the requests that `is_meant` selects.
fn indices(wants: &[Want], is_meant: impl Fn(&Want) -> bool) -> Vec<usize> {
    wants.iter().enumerate().filter(|(_, want)| is_meant(want)).map(|(index, _)| index).collect()
}

/// True for the errors of DAOS about a buffer or a record size that does not fit.
fn is_about_sizes(kind: ErrorKind) -> bool {
    use ErrorKind::{Invalid, RecordSize, RecordTooBig, Truncated};
    matches!(kind, Invalid | RecordSize | RecordTooBig | Truncated)
}

#[cold]
fn missing_error(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the {what} does not exist"))
}

#[cold]
pub(super) fn contended_error() -> Error {
    let message = format!(
        "other clients changed the same data during all {DAOS_TRIES_MAX} attempts (DAOS_TRIES_MAX) of this operation: \
         try again"
    );
    Error::new(ErrorKind::Again, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_extent_are_found_among_sorted_extents() {
        let all = [(0, 2), (4, 2), (6, 1), (10, 5)].map(|(start, count)| Extent::new(start, count));
        let found = |start, count| {
            let wanted = Extent::new(start, count);
            parts(&all, wanted, |it| *it).map(|it| (it.start, it.count)).collect::<Vec<_>>()
        };
        assert_eq!(found(0, 20), [(0, 2), (4, 2), (6, 1), (10, 5)]);
        assert_eq!(found(5, 6), [(5, 1), (6, 1), (10, 1)]);
        assert!(found(2, 2).is_empty() && found(7, 3).is_empty() && found(15, 9).is_empty());
    }
}
