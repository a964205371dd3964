//! Reading the content of a dkey, of any kind, piece by piece.
use super::BUFFER_BYTES;
use super::batch::{Batch, Kind, Piece};
use super::marks::Marks;
use crate::access::Access;
use crate::object::Object;
use esker_os::executor::Wait;
use esker_types::ops::{AkeyRef, Anchor, Cond, Fetch, ListLimit, Sink, StoredExtent};
use esker_types::{Error, ErrorKind, Extent, KeyBatch, Result};

/// Akeys, or extents of an array, to list at a time.
const ENTRIES: usize = 256;

/// Attempts to read a value whose length changes during the read.
const TRIES: usize = 8;

/// An object that is being read.
pub(super) struct Loader<'a> {
    pub(super) object: &'a Object,
    pub(super) access: Access<'a>,
    pub(super) marks: Marks,
}

/// Function that writes a full batch, and empties it.
pub(super) type Flush<'a> = &'a mut dyn FnMut(&mut Batch) -> Result<()>;

impl Loader<'_> {
    /// Reads all akeys of a dkey into the batch. Calls `flush` when the batch is full.
    pub(super) fn load_dkey(&self, dkey: &[u8], batch: &mut Batch, flush: Flush<'_>) -> Result<()> {
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            let limit = ListLimit::entries(ENTRIES);
            let akeys = self.object.list_akeys(dkey, &mut anchor, limit, self.access).wait()?;
            let akeys = self.marks.copied(self.object.oid(), dkey, akeys);
            self.load_akeys(dkey, &akeys, batch, flush)?;
        }
        Ok(())
    }

    /// Reads akeys of a dkey into the batch, which `flush` writes when it is full. An akey whose value has a length is
    /// a single value; any other is an array or an empty value.
    fn load_akeys(
        &self,
        dkey: &[u8],
        akeys: &KeyBatch,
        batch: &mut Batch,
        flush: Flush<'_>,
    ) -> Result<()> {
        let sizes = self.sizes(dkey, akeys)?;
        let mut singles = Vec::new();
        for (akey, size) in akeys.iter().zip(sizes) {
            if size > 0 {
                singles.push((akey, size as usize));
            } else if !self.load_array(dkey, akey, batch, flush)? {
                self.load_empty_value(dkey, akey, batch)?;
            }
        }
        for group in groups(&singles) {
            self.load_singles(dkey, group, batch)?;
            if batch.is_full() {
                flush(batch)?;
            }
        }
        Ok(())
    }

    /// Lengths of single values; 0 for empty values and for everything else.
    fn sizes(&self, dkey: &[u8], akeys: &KeyBatch) -> Result<Vec<u64>> {
        let mut fetches: Vec<_> =
            akeys.iter().map(|akey| Fetch::single(akey, Sink::None)).collect();
        self.object.fetch(dkey, Cond::NONE, &mut fetches, self.access).wait()?;
        Ok(fetches.into_iter().map(|fetch| fetch.reply.size).collect())
    }

    /// Reads single values into the batch, given their lengths. If the latest state is read, a value may have changed
    /// since its length was read. Then all are read again, with the new lengths.
    fn load_singles(&self, dkey: &[u8], akeys: &[(&[u8], usize)], batch: &mut Batch) -> Result<()> {
        let start = batch.bytes.len();
        let mut sizes: Vec<usize> = akeys.iter().map(|(_, size)| *size).collect();
        for _ in 0..TRIES {
            batch.release(start);
            match self.fetch_singles(dkey, akeys, &sizes, batch)? {
                Some(found) if found == sizes => {
                    return self.add_singles(dkey, akeys, &sizes, start, batch);
                }
                Some(found) => sizes = found,
                None => sizes = self.sizes_of(dkey, akeys)?,
            }
        }
        batch.release(start);
        let text = format!(
            "values of object {} change faster than they can be read: \
             copy a snapshot, or stop the writers",
            self.object.oid()
        );
        Err(Error::new(ErrorKind::Again, text))
    }

    /// The current lengths of single values.
    fn sizes_of(&self, dkey: &[u8], akeys: &[(&[u8], usize)]) -> Result<Vec<usize>> {
        let mut names = KeyBatch::default();
        akeys.iter().for_each(|(akey, _)| names.push(akey));
        Ok(self.sizes(dkey, &names)?.into_iter().map(|size| size as usize).collect())
    }

    /// Reads the values. Returns their lengths; the bytes are valid if these equal `sizes`. `None` if a value is longer:
    /// then no bytes were read.
    fn fetch_singles(
        &self,
        dkey: &[u8],
        akeys: &[(&[u8], usize)],
        sizes: &[usize],
        batch: &mut Batch,
    ) -> Result<Option<Vec<usize>>> {
        let room = batch.room(sizes.iter().sum());
        let mut rest = &mut batch.bytes[room];
        let mut fetches = Vec::with_capacity(akeys.len());
        for ((akey, _), size) in akeys.iter().zip(sizes) {
            let (sink, tail) = rest.split_at_mut(*size);
            rest = tail;
            fetches.push(Fetch::single(akey, Sink::One(sink)));
        }
        match self.object.fetch(dkey, Cond::NONE, &mut fetches, self.access).wait() {
            Ok(()) => Ok(Some(fetches.iter().map(|fetch| fetch.reply.size as usize).collect())),
            Err(error) if error.kind() == ErrorKind::RecordTooBig => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds the single values of `akeys`, which were read one after another into the buffer of `batch` from `start`, to
    /// the batch.
    fn add_singles(
        &self,
        dkey: &[u8],
        akeys: &[(&[u8], usize)],
        sizes: &[usize],
        start: usize,
        batch: &mut Batch,
    ) -> Result<()> {
        let mut at = start;
        for ((akey, _), size) in akeys.iter().zip(sizes) {
            let range = at..at + size;
            at = range.end;
            match size {
                0 => self.load_empty_value(dkey, akey, batch)?,
                _ => {
                    batch.add(dkey, Piece { akey: akey.to_vec(), kind: Kind::Single, range });
                }
            }
        }
        Ok(())
    }

    /// Adds an empty single value to the batch, if the akey exists.
    fn load_empty_value(&self, dkey: &[u8], akey: &[u8], batch: &mut Batch) -> Result<()> {
        let mut fetch = Fetch::single(akey, Sink::None);
        fetch.request.cond = Cond::AKEY_FETCH;
        let fetches = std::slice::from_mut(&mut fetch);
        match self.object.fetch(dkey, Cond::NONE, fetches, self.access).wait() {
            Ok(()) => {
                let range = batch.room(0);
                batch.add(dkey, Piece { akey: akey.to_vec(), kind: Kind::Single, range });
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads an array as it is stored, without its holes. False if the akey has no extents, and so is not an array.
    fn load_array(
        &self,
        dkey: &[u8],
        akey: &[u8],
        batch: &mut Batch,
        flush: Flush<'_>,
    ) -> Result<bool> {
        let (mut anchor, mut any) = (Anchor::Start, false);
        while !anchor.is_end() {
            let key = AkeyRef { dkey, akey };
            let found = self.object.list_extents(key, &mut anchor, ENTRIES, self.access).wait()?;
            any |= !found.is_empty();
            for (record_size, extents) in reads(&found) {
                self.add_records(dkey, akey, record_size, extents, batch)?;
                if batch.is_full() {
                    flush(batch)?;
                }
            }
        }
        Ok(any)
    }

    /// Reads the records of `extents`, each of `record_size` bytes, and adds them to the batch as one piece.
    fn add_records(
        &self,
        dkey: &[u8],
        akey: &[u8],
        record_size: u64,
        extents: Vec<Extent>,
        batch: &mut Batch,
    ) -> Result<()> {
        let records: u64 = extents.iter().map(|extent| extent.count).sum();
        let range = batch.room((records * record_size) as usize);
        let sink = Sink::One(&mut batch.bytes[range.clone()]);
        let mut fetch = Fetch::array(akey, record_size, &extents, sink);
        let fetches = std::slice::from_mut(&mut fetch);
        self.object.fetch(dkey, Cond::NONE, fetches, self.access).wait()?;
        let kind = Kind::Array { record_size, extents };
        batch.add(dkey, Piece { akey: akey.to_vec(), kind, range });
        Ok(())
    }
}

/// Splits values into runs, each of which fits into a buffer. A value larger than a buffer is in a run by itself.
fn groups<'a, 'k>(singles: &'a [(&'k [u8], usize)]) -> Vec<&'a [(&'k [u8], usize)]> {
    let (mut groups, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, (_, size)) in singles.iter().enumerate() {
        if index > start && bytes + size > BUFFER_BYTES {
            groups.push(&singles[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    if start < singles.len() {
        groups.push(&singles[start..]);
    }
    groups
}

/// Divides stored extents into reads. Each read has records of one size, whose total fits in a buffer; longer extents
/// are split.
fn reads(found: &[StoredExtent]) -> Vec<(u64, Vec<Extent>)> {
    let (mut reads, mut bytes): (Vec<(u64, Vec<Extent>)>, u64) = (Vec::new(), 0);
    for stored in found {
        let room = (BUFFER_BYTES as u64 / stored.record_size).max(1);
        let mut rest = stored.extent;
        while rest.count > 0 {
            let part = Extent::new(rest.start, rest.count.min(room));
            let len = part.count * stored.record_size;
            match reads.last_mut() {
                Some((size, extents))
                    if *size == stored.record_size && bytes + len <= BUFFER_BYTES as u64 =>
                {
                    extents.push(part);
                    bytes += len;
                }
                _ => {
                    reads.push((stored.record_size, vec![part]));
                    bytes = len;
                }
            }
            rest = Extent::new(rest.start + part.count, rest.count - part.count);
        }
    }
    reads
}
