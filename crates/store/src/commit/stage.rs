//! Staging: divides values into pieces and appends large ones to segments, before any lock is taken.
use crate::data::header::HEADER_MAX;
use crate::format::keys::{ARRAY, Key, SINGLE, Table};
use crate::format::long_keys::LeftOut;
use crate::format::record::{Body, Record};
use crate::shard::Target;
use crate::shard::container::Container;
use crate::shard::segment::{Append, Appended, ExtentLocation, Writer};
use esker_types::limits::{
    AKEYS_PER_OP_MAX, EXTENT_BYTES_MAX, EXTENTS_PER_OP_MAX, INLINE_MAX, KEY_PAIR_MAX,
    KEY_WHOLE_MAX, RECORD_SIZE_MAX, SINGLE_VALUE_MAX,
};
use esker_types::ops::{Source, Update, Value, Write, WriteOp, check_array_len};
use esker_types::{Epoch, Error, ErrorKind, Extent, Result};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Staged data of some writes, to which the index can refer. If it is dropped before it is published, its space is
/// freed.
pub(crate) struct Staged<'t> {
    writer: Option<Writer<'t>>,
    /// One list of akeys per write.
    pub(crate) writes: SmallVec<[StagedAkeys<'t>; 1]>,
}

/// The akeys of one write.
pub(crate) type StagedAkeys<'t> = SmallVec<[StagedAkey<'t>; 1]>;

/// An akey's new content.
pub(crate) struct StagedAkey<'t> {
    /// Prefix of its keys in the data table.
    pub(crate) prefix: Key,
    /// Bytes of dkey and akey that index keys omit.
    pub(crate) left_out: LeftOut<'t>,
    pub(crate) content: Content<'t>,
}

/// New content of an akey.
pub(crate) enum Content<'t> {
    Single(Piece<'t>),
    Array { record_size: u32, pieces: SmallVec<[Piece<'t>; 1]> },
    Punch(Vec<Extent>),
}

impl<'t> Content<'t> {
    /// Pieces of the akey, each of which gets an index entry; empty for a punch.
    pub(crate) fn pieces(&self) -> &[Piece<'t>] {
        match self {
            Self::Single(piece) => std::slice::from_ref(piece),
            Self::Array { pieces, .. } => pieces,
            Self::Punch(_) => &[],
        }
    }
}

/// A piece of a value, which gets one index entry.
pub(crate) struct Piece<'t> {
    /// Indices of the array records; `0..1` for a single value.
    pub(crate) extent: Extent,
    place: PieceData<'t>,
}

enum PieceData<'t> {
    Inline(Cow<'t, [u8]>),
    Segment(ExtentLocation),
}

impl Piece<'_> {
    /// Body of the piece's index record: the data itself, or the location of the data in a segment.
    pub(crate) fn body(&self) -> Body<'_> {
        match &self.place {
            PieceData::Inline(bytes) => Body::Inline(bytes),
            PieceData::Segment(placed) => placed.body(),
        }
    }

    /// Record of this piece: an extent of array records of `record_size` bytes, or a single value.
    pub(crate) fn record<'r>(
        &'r self,
        epoch: Epoch,
        record_size: Option<u32>,
        left_out: LeftOut<'r>,
    ) -> Record<'r> {
        let body = self.body();
        let whole = match body {
            Body::Inline(data) => data.len() as u32,
            Body::Segment(place) => place.covered,
        };
        let (record_size, count) = (record_size.unwrap_or(whole), self.extent.count);
        Record { epoch, record_size, count, left_out, body }
    }
}

impl Staged<'_> {
    /// True if anything was written to segments.
    pub(crate) fn has_data(&self) -> bool {
        self.writer.is_some()
    }

    /// Fails if another process took over a segment, because it treated this process as dead.
    pub(crate) fn check_held(&self) -> Result<()> {
        self.writer.as_ref().map_or(Ok(()), Writer::check_held)
    }

    /// The data that was written to segments.
    pub(crate) fn appended(&self) -> impl Iterator<Item = Appended> {
        self.writer.iter().flat_map(Writer::appended)
    }

    /// Counts the data as live. Call this after the commit.
    pub(crate) fn publish(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.publish();
        }
    }
}

struct Stager<'t, 'c> {
    target: &'t Target,
    container: &'c Container,
    writer: Option<Writer<'t>>,
}

/// Stages the data of all updates among `writes`.
pub(crate) fn stage<'t>(
    target: &'t Target,
    container: &Container,
    writes: &[Write<'t>],
) -> Result<Staged<'t>> {
    let mut stager = Stager { target, container, writer: None };
    let mut staged = SmallVec::with_capacity(writes.len());
    for write in writes {
        staged.push(stager.write(write)?);
    }
    Ok(Staged { writer: stager.writer, writes: staged })
}

/// Stages the data of the writes that belong to `target`; the other writes get empty entries.
pub(crate) fn stage_part<'t>(
    target: &'t Target,
    container: &Container,
    writes: &[(Write<'t>, Vec<u32>)],
) -> Result<Staged<'t>> {
    let mut stager = Stager { target, container, writer: None };
    let staged_akeys =
        |(write, targets): &(Write<'t>, Vec<u32>)| match targets.contains(&target.number()) {
            true => stager.write(write),
            false => Ok(StagedAkeys::new()),
        };
    let writes = writes.iter().map(staged_akeys).collect::<Result<_>>()?;
    Ok(Staged { writer: stager.writer, writes })
}

impl<'t> Stager<'t, '_> {
    /// Stages the data of one write. Only updates have data.
    fn write(&mut self, write: &Write<'t>) -> Result<StagedAkeys<'t>> {
        let WriteOp::Update { dkey, updates, .. } = write.op else {
            return Ok(StagedAkeys::new());
        };
        check_limit(updates.len(), AKEYS_PER_OP_MAX, "akeys", "AKEYS_PER_OP_MAX")?;
        let key = Key::dkey(Table::Data, self.container.id(), write.oid, dkey)?;
        let mut staged = StagedAkeys::with_capacity(updates.len());
        for update in updates {
            let prefix = key.akey(write.oid, update.akey)?;
            let left_out = key.left_out(write.oid, dkey, update.akey);
            self.check_keys(left_out)?;
            let content = self.content(&prefix, update)?;
            staged.push(StagedAkey { prefix, left_out, content });
        }
        Ok(staged)
    }

    /// Refuses long keys in pools of the previous format version.
    fn check_keys(&self, left_out: LeftOut<'_>) -> Result<()> {
        if left_out.is_empty() || self.target.has_long_keys() {
            return Ok(());
        }
        let message = format!(
            "keys longer than {KEY_WHOLE_MAX} bytes (KEY_WHOLE_MAX), or {KEY_PAIR_MAX} together (KEY_PAIR_MAX), in a \
             pool that an older release made: copy it to a new one"
        );
        Err(Error::new(ErrorKind::KeyTooBig, message).with_needed(KEY_WHOLE_MAX as u64))
    }

    /// Stages the new content of an akey. `prefix` is the prefix of its keys.
    fn content(&mut self, prefix: &Key, update: &Update<'t>) -> Result<Content<'t>> {
        match update.value {
            Value::Single(source) => self.single(prefix, source),
            Value::Array { record_size, extents, data } => {
                self.array(prefix, record_size, extents, data)
            }
            Value::PunchExtents(extents) => {
                check_limit(extents.len(), EXTENTS_PER_OP_MAX, "extents", "EXTENTS_PER_OP_MAX")?;
                extents.iter().try_for_each(|extent| extent.check())?;
                Ok(Content::Punch(extents.to_vec()))
            }
        }
    }

    /// Stages a single value, which is not divided into pieces.
    fn single(&mut self, prefix: &Key, source: Source<'t>) -> Result<Content<'t>> {
        let len = source.len();
        let limit = SINGLE_VALUE_MAX.min(self.value_max());
        if len > limit {
            let message = format!(
                "a single value of {len} bytes: the limit is {limit}, the smaller of {SINGLE_VALUE_MAX} \
                 (SINGLE_VALUE_MAX) and a segment of the pool"
            );
            return Err(Error::new(ErrorKind::RecordTooBig, message).with_needed(limit));
        }
        let key = prefix.clone().push(&[SINGLE]);
        self.piece(&key, Extent::new(0, 1), source, 0, len).map(Content::Single)
    }

    /// Maximum length of a value that is not divided: with its header it must fit into a segment.
    fn value_max(&self) -> u64 {
        self.target.segment_bytes() - HEADER_MAX as u64
    }

    /// Maximum length of a piece: a power of two, and at most a quarter of a segment, so that little space is lost at
    /// the end of each segment.
    fn piece_max(&self) -> u64 {
        let quarter = 1 << (self.target.segment_bytes() / 4).ilog2();
        (EXTENT_BYTES_MAX as u64).min(quarter)
    }

    /// Stages the data of an array. Extents are divided into pieces of at most [`Self::piece_max`] bytes.
    fn array(
        &mut self,
        prefix: &Key,
        record_size: u64,
        extents: &[Extent],
        data: Source<'t>,
    ) -> Result<Content<'t>> {
        check_limit(extents.len(), EXTENTS_PER_OP_MAX, "extents", "EXTENTS_PER_OP_MAX")?;
        if record_size == 0 {
            return Err(Error::new(
                ErrorKind::Invalid,
                "array records must have at least one byte",
            ));
        }
        if record_size > RECORD_SIZE_MAX.min(self.value_max()) {
            let message = format!(
                "records of {record_size} bytes: the limit is {RECORD_SIZE_MAX} (RECORD_SIZE_MAX), or a \
                 segment of the pool"
            );
            return Err(Error::new(ErrorKind::RecordTooBig, message).with_needed(RECORD_SIZE_MAX));
        }
        check_array_len(record_size, extents, data.len())?;
        let step = (self.piece_max() / record_size).max(1);
        let mut pieces = SmallVec::with_capacity(extents.len());
        let mut offset = 0;
        for extent in extents {
            let mut start = extent.start;
            while start < extent.end() {
                let part = Extent::new(start, step.min(extent.end() - start));
                let key = prefix.clone().push(&[ARRAY]).push(&start.to_be_bytes());
                let len = part.count * record_size;
                pieces.push(self.piece(&key, part, data, offset, len)?);
                offset += len;
                start = part.end();
            }
        }
        Ok(Content::Array { record_size: record_size as u32, pieces })
    }

    /// Stages one piece, the `len` bytes of `source` from byte `offset` on. A short one is stored in the index later,
    /// others are appended to a segment now.
    fn piece(
        &mut self,
        key: &[u8],
        extent: Extent,
        source: Source<'t>,
        offset: u64,
        len: u64,
    ) -> Result<Piece<'t>> {
        if len <= INLINE_MAX as u64 {
            return Ok(Piece { extent, place: PieceData::Inline(source.part(offset, len)) });
        }
        let writer = self.writer.get_or_insert_with(|| Writer::new(self.target));
        let placed = writer.append(&Append {
            key: &key[1..],
            count: extent.count,
            source,
            offset,
            len: len as u32,
            checksum: self.container.checksum(),
        })?;
        Ok(Piece { extent, place: PieceData::Segment(placed) })
    }
}

/// Fails with `Overflow` for more than `max` items in one operation. `what` names the items, `name` the constant of the
/// limit.
fn check_limit(number: usize, max: usize, what: &str, name: &str) -> Result<()> {
    if number > max {
        let message = format!("{number} {what} in one operation: the limit is {max} ({name})");
        return Err(Error::new(ErrorKind::Overflow, message));
    }
    Ok(())
}
