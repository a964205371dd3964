//! Reading values.
use super::loaded::bad_record;
use super::names;
use super::piece::{Location, Piece, damaged_pool_error};
use super::proof::Proof;
use super::record;
use super::space::{Space, contended_error};
use crate::join_all;
use crate::librados::Found;
use esker_backend::check::{check_count, check_keys};
use esker_backend::object::overlay::missing_key_error;
use esker_backend::object::read::{check_record_size, fill_single, note_found, too_big};
use esker_backend::object::records::Stored;
use esker_backend::object::tree::{encode_akey, encode_dkey};
use esker_os::executor::task;
use esker_types::limits::{AKEYS_PER_OP_MAX, CHECKSUM_CHUNK, EXTENTS_PER_OP_MAX, RADOS_TRIES_MAX};
use esker_types::ops::{Cond, Fetch, FetchReply, ReadTokens, Sink, Wanted};
use esker_types::{ObjectId, Result};

/// Limit of bytes of an object's data that are read together with its record, before the location of its bytes is
/// known.
const PREFETCH_MAX: u64 = 8 << 20;

/// Fetches from one object.
pub(super) struct Fetcher<'a> {
    pub(super) space: &'a Space,
    pub(super) oid: ObjectId,
    pub(super) targets: u32,
    pub(super) tokens: Option<&'a ReadTokens>,
}

/// Bytes that a fetch waits for: part of a piece, and its position in the sink.
struct PendingRead {
    /// Number of the fetch.
    fetch: usize,
    piece: Piece,
    /// First byte of the piece.
    from: u64,
    /// Number of bytes.
    len: u64,
    /// Position in the sink.
    at: u64,
}

/// Data of the object that was read together with its records.
struct Prefetched<'a> {
    offset: u64,
    data: &'a [u8],
}

impl Fetcher<'_> {
    /// Reads akeys of one dkey from one consistent state.
    pub(super) async fn fetch(
        &self,
        dkey: &[u8],
        cond: Cond,
        fetches: &mut [Fetch<'_>],
    ) -> Result<()> {
        check(self.oid, dkey, fetches)?;
        let dkey = encode_dkey(self.oid, dkey)?;
        let object = names::table(self.oid, &dkey, self.targets);
        let key = |fetch: &Fetch<'_>| {
            Ok(names::entry(&dkey, &encode_akey(self.oid, fetch.request.akey)?))
        };
        let keys: Vec<Vec<u8>> = fetches.iter().map(key).collect::<Result<_>>()?;
        for _ in 0..RADOS_TRIES_MAX {
            let prefetched = self.prefetch_range(fetches);
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let found = self.space.entries(&object, &wanted, prefetched).await?.unwrap_or_default();
            self.check_conditions(&object, &dkey, cond, fetches, (&keys, &found)).await?;
            let outcome = self.fill(&object, &keys, &found, fetches, prefetched).await;
            if !matches!(outcome, Ok(false)) {
                self.prove(&object, &keys, &found);
                return outcome.map(drop);
            }
        }
        Err(contended_error(&object))
    }

    /// The part of the data that the fetch probably needs: its offset and length, in whole units of checksums. An array
    /// that was written in order is stored in order. `None` if nothing is to be read ahead.
    fn prefetch_range(&self, fetches: &[Fetch<'_>]) -> Option<(u64, usize)> {
        let [fetch] = fetches else { return None };
        let (Wanted::Array(&[extent]), true) = (fetch.request.wanted, names::is_array(self.oid))
        else {
            return None;
        };
        let (start, len) =
            (extent.start.checked_mul(fetch.request.record_size)?, fetch.reply.sink.len());
        let chunk = CHECKSUM_CHUNK as u64;
        let begin = start / chunk * chunk;
        let end = start.checked_add(len)?.checked_next_multiple_of(chunk)?;
        let fits = len > 0 && end - begin <= PREFETCH_MAX && end <= 1 << 32;
        fits.then_some((begin, (end - begin) as usize))
    }

    /// Fails if a required key does not exist.
    async fn check_conditions(
        &self,
        object: &str,
        dkey: &[u8],
        cond: Cond,
        fetches: &[Fetch<'_>],
        (keys, found): (&[Vec<u8>], &Found),
    ) -> Result<()> {
        if cond.has(Cond::DKEY_FETCH) && found.entries.is_empty() {
            let page = self.space.page(object, b"", &names::entry(dkey, &[]), 1).await?;
            // The read depends on another akey of the dkey, or on the absence of all.
            self.prove_version(object, page.version);
            if page.entries.is_empty() {
                return Err(missing_key_error("dkey"));
            }
        }
        let lacks = |(fetch, key): (&Fetch<'_>, &Vec<u8>)| {
            fetch.request.cond.has(Cond::AKEY_FETCH) && value_of(found, key).is_none()
        };
        if fetches.iter().zip(keys).any(lacks) {
            self.prove(object, keys, found);
            return Err(missing_key_error("akey"));
        }
        Ok(())
    }

    /// Adds the records under `keys` to the tokens of the transaction, as the proof of what was read.
    fn prove(&self, object: &str, keys: &[Vec<u8>], found: &Found) {
        let Some(tokens) = self.tokens else { return };
        for key in keys {
            let seen = value_of(found, key).unwrap_or_default().to_vec();
            Proof { object: object.to_owned(), key: key.clone(), value: seen }.add_to(tokens);
        }
    }

    /// Adds the version of an object of Ceph to the tokens, as the proof of what was read there.
    fn prove_version(&self, object: &str, version: Option<u64>) {
        if let Some(tokens) = self.tokens {
            version_proof(object, version).add_to(tokens);
        }
    }

    /// Fills the reply of each fetch. `prefetched` is the range of data that was read together with the records. False
    /// if bytes are gone because their record was changed after it was read.
    async fn fill(
        &self,
        object: &str,
        keys: &[Vec<u8>],
        found: &Found,
        fetches: &mut [Fetch<'_>],
        prefetched: Option<(u64, usize)>,
    ) -> Result<bool> {
        let mut pending = Vec::new();
        let mut failed = Ok(());
        for (index, fetch) in fetches.iter_mut().enumerate() {
            let record = value_of(found, &keys[index]);
            let stored = record.map(|record| record::decode(record).ok_or_else(bad_record));
            let stored = stored.transpose()?.map(|(_, stored)| stored);
            let answered = answer(fetch, index, stored.as_ref(), &mut pending);
            failed = failed.and(answered);
        }
        // An error is returned only now, so that the replies of all fetches have their sizes.
        failed?;
        let prefetched = prefetched.map(|(offset, _)| Prefetched { offset, data: &found.data });
        let mut left = Vec::new();
        for part in pending {
            match part.available(prefetched.as_ref()) {
                Some(data) => self.deliver(&part, data, fetches)?,
                None => left.push(part),
            }
        }
        let read = left.iter().map(|part| {
            let record = value_of(found, &keys[part.fetch]).unwrap_or_default();
            task(self.read(object, (&keys[part.fetch], record), part))
        });
        for (part, data) in left.iter().zip(join_all(read.collect()).await) {
            let Some(data) = data? else { return Ok(false) };
            self.deliver(part, &data, fetches)?;
        }
        Ok(true)
    }

    /// Verifies what was read of a body and copies it to the sink.
    fn deliver(&self, part: &PendingRead, data: &[u8], fetches: &mut [Fetch<'_>]) -> Result<()> {
        let piece = &part.piece;
        let bytes = match piece.body.location {
            Location::Inline(_) => &data[part.from as usize..(part.from + part.len) as usize],
            _ => {
                let (offset, len) = piece.window(part.from, part.len);
                if data.len() as u64 != len {
                    return Err(damaged_pool_error("bytes are missing"));
                }
                piece.verify(self.space.checksum, offset, data)?;
                let from = (piece.from + part.from - offset) as usize;
                &data[from..from + part.len as usize]
            }
        };
        fetches[part.fetch].reply.sink.put(part.at, bytes);
        Ok(())
    }

    /// Reads the needed part of a body. `record` is the omap key and the value of its record. `None` if the body is
    /// gone.
    async fn read(
        &self,
        object: &str,
        (key, record): (&[u8], &[u8]),
        part: &PendingRead,
    ) -> Result<Option<Vec<u8>>> {
        let window = part.piece.window(part.from, part.len);
        self.space.stored_bytes(&part.piece, (object, key, record), window).await
    }
}

impl PendingRead {
    /// The needed part of the body if it is in memory: in the record, or read together with it.
    fn available<'a>(&'a self, prefetched: Option<&Prefetched<'a>>) -> Option<&'a [u8]> {
        match &self.piece.body.location {
            Location::Inline(_) => self.piece.bytes(),
            Location::Blob(_) => None,
            Location::ObjectData(offset) => {
                let (from, len) = self.piece.window(self.from, self.len);
                prefetched?.part((offset + from, len))
            }
        }
    }
}

impl<'a> Prefetched<'a> {
    /// The bytes of this range; `None` if they were not read.
    fn part(&self, (offset, len): (u64, u64)) -> Option<&'a [u8]> {
        let from = offset.checked_sub(self.offset)? as usize;
        self.data.get(from..from.checked_add(len as usize)?)
    }
}

/// Proof that no entry of an object was changed since this version.
pub(super) fn version_proof(object: &str, version: Option<u64>) -> Proof {
    let seen = version.map(|version| version.to_le_bytes().to_vec()).unwrap_or_default();
    Proof { object: object.to_owned(), key: Vec::new(), value: seen }
}

/// Checks the limits and keys of a fetch.
fn check(oid: ObjectId, dkey: &[u8], fetches: &[Fetch<'_>]) -> Result<()> {
    check_count("akeys", fetches.len(), AKEYS_PER_OP_MAX)?;
    check_keys(oid, dkey, None)?;
    fetches.iter().try_for_each(|fetch| {
        if let Wanted::Array(extents) = fetch.request.wanted {
            check_count("extents", extents.len(), EXTENTS_PER_OP_MAX)?;
            extents.iter().try_for_each(|extent| extent.check())?;
        }
        check_keys(oid, dkey, Some(fetch.request.akey))
    })
}

/// Returns the value of `key`, by a binary search in the sorted entries. `None` if it is not among them.
fn value_of<'a>(found: &'a Found, key: &[u8]) -> Option<&'a [u8]> {
    let entries = &found.entries;
    let index = entries.binary_search_by(|entry| entry.key.as_slice().cmp(key)).ok()?;
    Some(&entries[index].value)
}

/// Fills the reply of fetch number `index`, as far as the record itself contains the data. For data in other objects,
/// adds pending reads. An akey that holds the other kind of value (single value or array) counts as missing.
fn answer(
    fetch: &mut Fetch<'_>,
    index: usize,
    stored: Option<&Stored<Piece>>,
    pending: &mut Vec<PendingRead>,
) -> Result<()> {
    let (request, reply) = (&fetch.request, &mut fetch.reply);
    reply.reset();
    match (request.wanted, stored) {
        (Wanted::Single, Some(Stored::Single(piece))) => match piece.bytes() {
            Some(bytes) => fill_single(reply, bytes),
            None => read_single(reply, index, piece, pending),
        },
        (Wanted::Array(extents), Some(Stored::Array(records))) => {
            reply.size = records.record_size;
            let mut offset = 0u64;
            for &extent in extents {
                for run in records.overlapping(extent) {
                    let payload = records.payload(run.start);
                    let (Some(part), Some(piece)) = (run.intersect(extent), payload) else {
                        continue;
                    };
                    check_record_size(request.record_size, records.record_size)?;
                    let skipped = (part.start - extent.start).saturating_mul(records.record_size);
                    let from = (part.start - run.start) * records.record_size;
                    let needed = PendingRead {
                        fetch: index,
                        piece: piece.clone(),
                        from,
                        len: part.count * records.record_size,
                        at: offset.saturating_add(skipped),
                    };
                    note_found(request, reply, part);
                    read_records(reply, needed, pending)?;
                }
                let bytes = extent.count.saturating_mul(records.record_size);
                offset = offset.saturating_add(bytes);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Plans the read of a value into the sink of fetch number `index`: bytes in the record are copied now, others are
/// added to `pending`.
fn read_single(
    reply: &mut FetchReply<'_>,
    index: usize,
    piece: &Piece,
    pending: &mut Vec<PendingRead>,
) -> Result<()> {
    reply.size = piece.len;
    if matches!(reply.sink, Sink::None) {
        return Ok(());
    }
    if reply.sink.len() < piece.len {
        return Err(too_big("value", piece.len));
    }
    reply.filled_bytes = piece.len;
    let (piece, len) = (piece.clone(), piece.len);
    pending.push(PendingRead { fetch: index, piece, from: 0, len, at: 0 });
    Ok(())
}

/// Plans the read of records into the sink of a fetch: they are added to `pending`.
fn read_records(
    reply: &mut FetchReply<'_>,
    part: PendingRead,
    pending: &mut Vec<PendingRead>,
) -> Result<()> {
    if matches!(reply.sink, Sink::None) {
        return Ok(());
    }
    let end = part.at.saturating_add(part.len);
    if end > reply.sink.len() {
        return Err(too_big("records", end));
    }
    reply.filled_bytes = end;
    pending.push(part);
    Ok(())
}
