//! Reading values.
use super::loaded::bad_record;
use super::names;
use super::piece::{Piece, Where, damaged};
use super::proof::Proof;
use super::record;
use super::space::{Space, contended};
use crate::join_all;
use esker_backend::check::{check_count, check_keys};
use esker_backend::object::overlay::missing;
use esker_backend::object::read::{check_record_size, fill_single, note_found, too_big};
use esker_backend::object::records::Stored;
use esker_backend::object::tree::{encode_akey, encode_dkey};
use esker_librados::Found;
use esker_os::executor::task;
use esker_types::limits::{AKEYS_PER_OP_MAX, CHECKSUM_CHUNK, EXTENTS_PER_OP_MAX, RADOS_TRIES_MAX};
use esker_types::ops::{Cond, Fetch, FetchReply, ReadTokens, Sink, Wanted};
use esker_types::{ObjectId, Result};

/// Most bytes of an object's data that are read together with its record, before it is known where its bytes
/// are.
const AHEAD_MAX: u64 = 8 << 20;

/// The dkey a fetch is about.
pub(super) struct Fetching<'a> {
    pub(super) space: &'a Space,
    pub(super) oid: ObjectId,
    pub(super) targets: u32,
    pub(super) tokens: Option<&'a ReadTokens>,
}

/// Bytes that a fetch waits for: of a piece, from an offset on, to a place of the sink.
struct Wish {
    fetch: usize,
    piece: Piece,
    from: u64,
    len: u64,
    at: u64,
}

/// Data of the object that was read together with its records.
struct Ahead<'a> {
    offset: u64,
    data: &'a [u8],
}

impl Fetching<'_> {
    /// Reads akeys of one dkey, of one state.
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
            let ahead = self.ahead_of(fetches);
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let found = self.space.entries(&object, &wanted, ahead).await?.unwrap_or_default();
            self.check_conditions(&object, &dkey, cond, fetches, (&keys, &found)).await?;
            let outcome = self.fill(&object, &keys, &found, fetches, ahead).await;
            if !matches!(outcome, Ok(false)) {
                self.prove(&object, &keys, &found);
                return outcome.map(drop);
            }
        }
        Err(contended(&object))
    }

    /// The data that is likely to be wanted: an array that was written in order lies there as it is.
    fn ahead_of(&self, fetches: &[Fetch<'_>]) -> Option<(u64, usize)> {
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
        let fits = len > 0 && end - begin <= AHEAD_MAX && end <= 1 << 32;
        fits.then_some((begin, (end - begin) as usize))
    }

    /// Refuses what is not there and must be.
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
            if page.entries.is_empty() {
                self.prove_version(object, page.version);
                return Err(missing("dkey"));
            }
        }
        let lacks = |(fetch, key): (&Fetch<'_>, &Vec<u8>)| {
            fetch.request.cond.has(Cond::AKEY_FETCH) && value_of(found, key).is_none()
        };
        if fetches.iter().zip(keys).any(lacks) {
            self.prove(object, keys, found);
            return Err(missing("akey"));
        }
        Ok(())
    }

    /// Tells the transaction what its answer depends on.
    fn prove(&self, object: &str, keys: &[Vec<u8>], found: &Found) {
        let Some(tokens) = self.tokens else { return };
        for key in keys {
            let seen = value_of(found, key).unwrap_or_default().to_vec();
            Proof { thing: object.to_owned(), part: key.clone(), seen }.add_to(tokens);
        }
    }

    fn prove_version(&self, object: &str, version: Option<u64>) {
        if let Some(tokens) = self.tokens {
            version_proof(object, version).add_to(tokens);
        }
    }

    /// Answers every fetch. False where bytes are gone because their record was changed meanwhile.
    async fn fill(
        &self,
        object: &str,
        keys: &[Vec<u8>],
        found: &Found,
        fetches: &mut [Fetch<'_>],
        ahead: Option<(u64, usize)>,
    ) -> Result<bool> {
        let mut wishes = Vec::new();
        let mut failed = Ok(());
        for (index, fetch) in fetches.iter_mut().enumerate() {
            let record = value_of(found, &keys[index]);
            let stored = record.map(|record| record::decode(record).ok_or_else(bad_record));
            let stored = stored.transpose()?.map(|(_, stored)| stored);
            let wished = answer(fetch, index, stored.as_ref(), &mut wishes);
            failed = failed.and(wished);
        }
        failed?;
        let ahead = ahead.map(|(offset, _)| Ahead { offset, data: &found.data });
        let mut left = Vec::new();
        for wish in wishes {
            match wish.known(ahead.as_ref()) {
                Some(data) => self.give(&wish, data, fetches)?,
                None => left.push(wish),
            }
        }
        let read = left.iter().map(|wish| {
            let record = value_of(found, &keys[wish.fetch]).unwrap_or_default();
            task(self.read(object, (&keys[wish.fetch], record), wish))
        });
        for (wish, data) in left.iter().zip(join_all(read.collect()).await) {
            let Some(data) = data? else { return Ok(false) };
            self.give(wish, &data, fetches)?;
        }
        Ok(true)
    }

    /// Puts what was read of a wish's body where it belongs, once it is verified.
    fn give(&self, wish: &Wish, data: &[u8], fetches: &mut [Fetch<'_>]) -> Result<()> {
        let piece = &wish.piece;
        let bytes = match piece.body.place {
            Where::Here(_) => &data[wish.from as usize..(wish.from + wish.len) as usize],
            _ => {
                let (offset, len) = piece.window(wish.from, wish.len);
                if data.len() as u64 != len {
                    return Err(damaged("bytes are missing"));
                }
                piece.verify(self.space.checksum, offset, data)?;
                let from = (piece.from + wish.from - offset) as usize;
                &data[from..from + wish.len as usize]
            }
        };
        fetches[wish.fetch].reply.sink.put(wish.at, bytes);
        Ok(())
    }

    /// Reads what a wish needs of its body; `None` where that is gone.
    async fn read(
        &self,
        object: &str,
        record: (&[u8], &[u8]),
        wish: &Wish,
    ) -> Result<Option<Vec<u8>>> {
        let window = wish.piece.window(wish.from, wish.len);
        match &wish.piece.body.place {
            Where::Here(_) => Ok(None),
            Where::Apart(id) => self.space.blob(*id, window).await,
            Where::Own(offset) => {
                self.space.data_of(object, record, (offset + window.0, window.1)).await
            }
        }
    }
}

impl Wish {
    /// What it needs of its body, where that is here: in the record, or read together with it.
    fn known<'a>(&'a self, ahead: Option<&Ahead<'a>>) -> Option<&'a [u8]> {
        match &self.piece.body.place {
            Where::Here(_) => self.piece.bytes(),
            Where::Apart(_) => None,
            Where::Own(offset) => {
                let (from, len) = self.piece.window(self.from, self.len);
                ahead?.part((offset + from, len))
            }
        }
    }
}

impl<'a> Ahead<'a> {
    fn part(&self, (offset, len): (u64, u64)) -> Option<&'a [u8]> {
        let from = offset.checked_sub(self.offset)? as usize;
        self.data.get(from..from.checked_add(len as usize)?)
    }
}

/// Proof that nothing of an object was changed since it had a version.
pub(super) fn version_proof(object: &str, version: Option<u64>) -> Proof {
    let seen = version.map(|version| version.to_le_bytes().to_vec()).unwrap_or_default();
    Proof { thing: object.to_owned(), part: Vec::new(), seen }
}

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

fn value_of<'a>(found: &'a Found, key: &[u8]) -> Option<&'a [u8]> {
    let entries = &found.entries;
    let index = entries.binary_search_by(|entry| entry.key.as_slice().cmp(key)).ok()?;
    Some(&entries[index].value)
}

/// Answers what the record says by itself; what is missing becomes wishes. A value of the other kind is as
/// good as none.
fn answer(
    fetch: &mut Fetch<'_>,
    index: usize,
    stored: Option<&Stored<Piece>>,
    wishes: &mut Vec<Wish>,
) -> Result<()> {
    let (request, reply) = (&fetch.request, &mut fetch.reply);
    reply.reset();
    match (request.wanted, stored) {
        (Wanted::Single, Some(Stored::Single(piece))) => match piece.bytes() {
            Some(bytes) => fill_single(reply, bytes),
            None => wish_single(reply, index, piece, wishes),
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
                    let wish = Wish {
                        fetch: index,
                        piece: piece.clone(),
                        from,
                        len: part.count * records.record_size,
                        at: offset.saturating_add(skipped),
                    };
                    note_found(request, reply, part);
                    wish_records(reply, wish, wishes)?;
                }
                let bytes = extent.count.saturating_mul(records.record_size);
                offset = offset.saturating_add(bytes);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn wish_single(
    reply: &mut FetchReply<'_>,
    index: usize,
    piece: &Piece,
    wishes: &mut Vec<Wish>,
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
    wishes.push(Wish { fetch: index, piece, from: 0, len, at: 0 });
    Ok(())
}

fn wish_records(reply: &mut FetchReply<'_>, wish: Wish, wishes: &mut Vec<Wish>) -> Result<()> {
    if matches!(reply.sink, Sink::None) {
        return Ok(());
    }
    let end = wish.at.saturating_add(wish.len);
    if end > reply.sink.len() {
        return Err(too_big("records", end));
    }
    reply.filled_bytes = end;
    wishes.push(wish);
    Ok(())
}
