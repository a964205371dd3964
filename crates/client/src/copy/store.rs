//! Writes the data that was read, and reads it back.
use super::batch::{Batch, Kind, PIECES_MAX, Piece};
use super::marks::Marks;
use super::progress::{Progress, add};
use crate::access::Access;
use crate::container::Container;
use esker_os::executor::{Wait, side_by_side, task};
use esker_types::ops::{Cond, Fetch, Sink, Source, Update, Value, Write, WriteOp};
use esker_types::{Error, ErrorKind, ObjectId, Result};

/// Container to which the batches of an object are written.
pub(super) struct Storer<'a> {
    pub(super) to: &'a Container,
    pub(super) oid: ObjectId,
    pub(super) verify: bool,
    pub(super) progress: &'a Progress,
    pub(super) marks: Marks,
}

impl Storer<'_> {
    /// Writes a batch and empties it. `scratch` holds what is read back.
    pub(super) fn store(&self, batch: &mut Batch, scratch: &mut Vec<u8>) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.write(batch)?;
        add(&self.progress.bytes, batch.bytes.len() as u64);
        if self.verify {
            let same = |(dkey, pieces): &(Vec<u8>, Vec<Piece>)| {
                self.compare(dkey, pieces, &batch.bytes, scratch)
            };
            batch.dkeys.iter().try_for_each(same)?;
            add(&self.progress.verified, batch.bytes.len() as u64);
        }
        batch.clear();
        Ok(())
    }

    /// Writes all dkeys in one commit if the destination has transactions. Otherwise writes each dkey by a separate
    /// request, all in parallel. Chunks of arrays are always written in parallel: they are long, and some backends write
    /// a single chunk more efficiently than several.
    fn write(&self, batch: &Batch) -> Result<()> {
        let updates: Vec<Vec<Update<'_>>> = batch
            .dkeys
            .iter()
            .map(|(_, pieces)| pieces.iter().map(|piece| update(piece, &batch.bytes)).collect())
            .collect();
        let mut writes: Vec<Write<'_>> = batch
            .dkeys
            .iter()
            .zip(&updates)
            .map(|((dkey, _), updates)| Write {
                oid: self.oid,
                op: WriteOp::Update { dkey, cond: Cond::NONE, updates },
            })
            .collect();
        writes.extend(self.marks.for_batch(self.oid, batch));
        let is_array = self.oid.object_type().is_some_and(|otype| otype.is_array());
        if self.to.capabilities().transactions && !is_array {
            return self.to.write(&writes, Access::Latest).wait();
        }
        let each = writes.chunks(1).map(|write| task(self.to.write(write, Access::Latest)));
        side_by_side(each.collect(), PIECES_MAX).wait().into_iter().collect()
    }

    /// Reads the pieces of a dkey back, and compares them with `bytes`.
    fn compare(
        &self,
        dkey: &[u8],
        pieces: &[Piece],
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        scratch.clear();
        scratch.resize(pieces.iter().map(|piece| piece.range.len()).sum(), 0);
        let mut rest = scratch.as_mut_slice();
        let mut fetches = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let (sink, tail) = rest.split_at_mut(piece.range.len());
            rest = tail;
            fetches.push(fetch(piece, sink));
        }
        let object = self.to.object(self.oid);
        object.fetch(dkey, Cond::NONE, &mut fetches, Access::Latest).wait()?;
        let sizes =
            fetches.iter().zip(pieces).all(|(fetch, piece)| fetch.reply.size == size(piece));
        drop(fetches);
        let mut found = scratch.as_slice();
        let same = pieces.iter().all(|piece| {
            let (head, tail) = found.split_at(piece.range.len());
            found = tail;
            head == &bytes[piece.range.clone()]
        });
        if sizes && same { Ok(()) } else { Err(self.readback_error(dkey)) }
    }

    #[cold]
    fn readback_error(&self, dkey: &[u8]) -> Error {
        let key = String::from_utf8_lossy(dkey).escape_debug().to_string();
        let text = format!(
            "object {}, key {key}: the destination returned other data than was written to it: another \
             process writes to it, or it is damaged",
            self.oid
        );
        Error::new(ErrorKind::Checksum, text)
    }
}

/// The update that stores a piece.
fn update<'a>(piece: &'a Piece, bytes: &'a [u8]) -> Update<'a> {
    let data = Source::One(&bytes[piece.range.clone()]);
    let value = match &piece.kind {
        Kind::Single => Value::Single(data),
        Kind::Array { record_size, extents } => {
            Value::Array { record_size: *record_size, extents, data }
        }
    };
    Update { akey: &piece.akey, value, cond: Cond::NONE }
}

/// The fetch that reads a piece back.
fn fetch<'a>(piece: &'a Piece, sink: &'a mut [u8]) -> Fetch<'a> {
    match &piece.kind {
        Kind::Single => {
            let mut fetch = Fetch::single(&piece.akey, Sink::One(sink));
            fetch.request.cond = Cond::AKEY_FETCH;
            fetch
        }
        Kind::Array { record_size, extents } => {
            Fetch::array(&piece.akey, *record_size, extents, Sink::One(sink))
        }
    }
}

/// Size in bytes that the reply must have when a piece is read back: of the value, or of one record.
fn size(piece: &Piece) -> u64 {
    match piece.kind {
        Kind::Single => piece.range.len() as u64,
        Kind::Array { record_size, .. } => record_size,
    }
}
