//! Storing the bytes of new values, and removing those of replaced ones.
use super::names;
use super::piece::{Location, Piece, damaged_pool_error, stored_piece};
use super::record;
use super::space::Space;
use crate::join_all;
use crate::librados::WriteOp;
use esker_backend::object::records::{Payload, Records, Stored};
use esker_os::executor::task;
use esker_types::limits::{
    RADOS_DATA_MAX, RADOS_INLINE_MAX, RADOS_PIECE_INLINE_MAX, RADOS_PIECES_MAX,
};
use esker_types::{Epoch, Extent, Result};
use std::collections::BTreeSet;

/// Dead bytes in an object's data that are tolerated before they are removed.
const SLACK: u64 = 1 << 20;

/// RADOS object, omap key and record (as it was read) of an akey whose bytes may be in the data of that object.
pub(super) type Owner<'a> = (&'a str, &'a [u8], &'a [u8]);

/// Bytes to write to the data of an object: at an offset, or (`None`) replacing all data.
type Data = (Option<u64>, Vec<u8>);

/// A value whose bytes have a location, and what to write to the data of its object.
pub(super) struct StoredValue {
    pub(super) stored: Stored<Piece>,
    pub(super) data: Option<Data>,
}

/// Blobs written and replaced during one commit.
pub(super) struct BlobChanges<'a> {
    space: &'a Space,
    /// Blobs of replaced records.
    old: BTreeSet<[u8; 16]>,
    /// Blobs that were written.
    new: BTreeSet<[u8; 16]>,
    /// Blobs to which new records refer.
    kept: BTreeSet<[u8; 16]>,
}

/// A run of records: extent, epoch and bytes.
type Run = (Extent, Epoch, Piece);

impl<'a> BlobChanges<'a> {
    pub(super) fn new(space: &'a Space) -> Self {
        Self { space, old: BTreeSet::new(), new: BTreeSet::new(), kept: BTreeSet::new() }
    }

    /// Marks the blobs of a replaced record for removal, unless the new record refers to them again.
    pub(super) fn forget(&mut self, record: &[u8]) {
        let stored = record::decode(record).map(|(_, stored)| stored);
        self.old.extend(stored.iter().flat_map(blobs_of));
    }

    /// Stores the bytes of a value. Long ones are written as blobs, or, if `in_object`, added to the data of the owner's
    /// object. `None` if the record of `owner` was changed meanwhile.
    pub(super) async fn store(
        &mut self,
        stored: Stored<Piece>,
        owner: Owner<'_>,
        in_object: bool,
    ) -> Result<Option<StoredValue>> {
        let stored_value = match stored {
            Stored::Single(piece) => {
                let stored = Stored::Single(self.store_single(piece).await?);
                Some(StoredValue { stored, data: None })
            }
            Stored::Array(records) => self.store_array(records, owner, in_object).await?,
        };
        if let Some(stored_value) = &stored_value {
            self.kept.extend(blobs_of(&stored_value.stored));
        }
        Ok(stored_value)
    }

    /// Stores a long value apart, as a blob. A short one stays in the record.
    async fn store_single(&mut self, piece: Piece) -> Result<Piece> {
        match piece.bytes() {
            Some(bytes) if bytes.len() > RADOS_INLINE_MAX => self.write(bytes).await,
            _ => Ok(piece),
        }
    }

    /// Stores long pieces of an array apart from its record: in the data of `owner`'s object (`in_object`), or as blobs.
    /// Runs that waste space are read before, and so are adjacent ones that are many; `None` if their data was gone by
    /// then.
    async fn store_array(
        &mut self,
        records: Records<Piece>,
        owner: Owner<'_>,
        in_object: bool,
    ) -> Result<Option<StoredValue>> {
        let mut runs = record::runs(&records);
        let is_wasteful = in_object && is_wasteful(&runs);
        if is_wasteful || has_many_adjacent(&runs) {
            let Some(here) = self.fetch(&runs, is_wasteful, owner).await? else { return Ok(None) };
            runs = joined(&here);
        }
        let mut runs = split(runs, records.record_size);
        let data = in_object.then(|| self.store_in_object_data(&mut runs)).flatten();
        self.store_as_blobs(&mut runs).await?;
        let mut stored = Records::new(records.record_size);
        runs.into_iter().for_each(|(run, epoch, piece)| stored.put(run, piece, epoch));
        Ok(Some(StoredValue { stored: Stored::Array(stored), data }))
    }

    /// Appends long pieces to the object's data, or replaces the data if no live bytes are left in it. Pieces for which
    /// the object has no room stay in memory. Returns the bytes to write, and the offset to append them at.
    fn store_in_object_data(&self, runs: &mut [Run]) -> Option<Data> {
        let (_, end) = object_data_bytes(runs);
        let mut bytes = Vec::new();
        for (_, _, piece) in runs.iter_mut() {
            let room = RADOS_DATA_MAX.saturating_sub(end as usize + bytes.len());
            if let Some(long) = long(piece).filter(|long| long.len() <= room) {
                let location = Location::ObjectData(end + bytes.len() as u64);
                bytes.extend_from_slice(long);
                *piece =
                    stored_piece(location, &bytes[bytes.len() - long.len()..], self.space.checksum);
            }
        }
        (!bytes.is_empty()).then_some(((end > 0).then_some(end), bytes))
    }

    /// Stores each long run as a separate object (blob), and replaces its piece by a reference to that object.
    async fn store_as_blobs(&mut self, runs: &mut [Run]) -> Result<()> {
        let long_ones = runs.iter_mut().filter(|(_, _, piece)| long(piece).is_some());
        let mut writes = Vec::new();
        for (_, _, piece) in long_ones {
            let (id, space, old) = (random_id()?, self.space, piece.clone());
            *piece =
                stored_piece(Location::Blob(id), long(piece).unwrap_or_default(), space.checksum);
            self.new.insert(id);
            writes.push(task(async move {
                write_blob(space, id, long(&old).unwrap_or_default()).await
            }));
        }
        join_all(writes).await.into_iter().collect()
    }

    /// Writes bytes to a new object (blob), and returns a reference to them.
    async fn write(&mut self, bytes: &[u8]) -> Result<Piece> {
        let id = random_id()?;
        self.new.insert(id);
        write_blob(self.space, id, bytes).await?;
        Ok(stored_piece(Location::Blob(id), bytes, self.space.checksum))
    }

    /// Loads the bytes of runs into memory: of those that have an adjacent one, or of `all`. None if the record of
    /// `owner` was changed since it was read.
    async fn fetch(&self, runs: &[Run], all: bool, owner: Owner<'_>) -> Result<Option<Vec<Run>>> {
        let fetch = |(run, epoch, piece): Run, wanted: bool| {
            task(async move {
                if !wanted {
                    return Ok(Some((run, epoch, piece)));
                }
                let bytes = self.space.bytes_of(&piece, owner).await?;
                Ok(bytes.map(|bytes| (run, epoch, Piece::here(bytes))))
            })
        };
        let of_group = |group: &[Run]| {
            let wanted = all || group.len() > 1;
            group.iter().map(|run| fetch(run.clone(), wanted)).collect::<Vec<_>>()
        };
        let tasks = runs.chunk_by(are_adjacent).flat_map(of_group).collect();
        join_all(tasks).await.into_iter().collect()
    }

    /// Removes blobs that no record refers to any more. Call it after the commit.
    pub(super) async fn remove_old(&self) {
        self.remove(self.old.difference(&self.kept)).await;
    }

    /// Removes the blobs that this change has stored, because its commit failed.
    pub(super) async fn remove_new(&self) {
        self.remove(self.new.iter()).await;
    }

    /// Removes the objects (blobs) with these ids. An error does not change the outcome of the commit: a blob that stays
    /// only uses space.
    async fn remove(&self, ids: impl Iterator<Item = &[u8; 16]>) {
        let remove = |id: &[u8; 16]| {
            let (space, object) = (self.space, names::blob(*id));
            task(async move { space.remove(&object).await })
        };
        drop(join_all(ids.map(remove).collect()).await);
    }
}

impl Space {
    /// All bytes of a piece; `None` if they are gone because its record was changed.
    async fn bytes_of(&self, piece: &Piece, owner: Owner<'_>) -> Result<Option<Vec<u8>>> {
        if let Some(bytes) = piece.bytes() {
            return Ok(Some(bytes.to_vec()));
        }
        let window = piece.window(0, piece.len);
        let Some(data) = self.stored_bytes(piece, owner, window).await? else { return Ok(None) };
        piece.verify(self.checksum, window.0, &data)?;
        let from = (piece.from - window.0) as usize;
        let bytes = data.get(from..from + piece.len as usize);
        bytes
            .map(|bytes| Some(bytes.to_vec()))
            .ok_or_else(|| damaged_pool_error("bytes are missing"))
    }
}

/// The bytes of a piece in memory that is too long for a record.
fn long(piece: &Piece) -> Option<&[u8]> {
    piece.bytes().filter(|bytes| bytes.len() > RADOS_PIECE_INLINE_MAX)
}

fn random_id() -> Result<[u8; 16]> {
    esker_os::random_bytes()
}

/// Writes a new blob, which is an object of Ceph.
async fn write_blob(space: &Space, id: [u8; 16], bytes: &[u8]) -> Result<()> {
    let object = names::blob(id);
    let mut op = WriteOp::new()?;
    op.create_new().write_full(bytes);
    let done = space.io.write(&object, op).await;
    done.map(drop).map_err(|code| crate::librados::IoContext::error(code, "writing", &object))
}

/// The blobs that a value refers to.
fn blobs_of(stored: &Stored<Piece>) -> Vec<[u8; 16]> {
    let ids = record::pieces(stored).into_iter().filter_map(|piece| match piece.body.location {
        Location::Blob(id) => Some(id),
        _ => None,
    });
    ids.collect()
}

/// Number of live bytes in the object's data, and their end.
fn object_data_bytes(runs: &[Run]) -> (u64, u64) {
    let live = runs.iter().filter_map(|(_, _, piece)| match piece.body.location {
        Location::ObjectData(offset) => Some((piece.len, offset + piece.body.len)),
        _ => None,
    });
    live.fold((0, 0), |(len, end), (more, last)| (len + more, end.max(last)))
}

/// True if more than half of the object's data is dead, apart from [`SLACK`].
fn is_wasteful(runs: &[Run]) -> bool {
    let (alive, end) = object_data_bytes(runs);
    end > 2 * alive + SLACK
}

/// True if bytes of the value are in the data of the object that has its record.
pub(super) fn is_in_object(stored: &Stored<Piece>) -> bool {
    let is_there = |piece: &Piece| matches!(piece.body.location, Location::ObjectData(_));
    record::pieces(stored).iter().any(is_there)
}

/// Splits runs in memory that are longer than the data of a RADOS object may be.
fn split(runs: Vec<Run>, record_size: u64) -> Vec<Run> {
    let most = (RADOS_DATA_MAX as u64 / record_size).max(1);
    let parts = |(run, epoch, piece): Run| {
        let most = if piece.bytes().is_some() { most } else { run.count.max(1) };
        let part = move |from: u64| {
            let extent = Extent::new(run.start + from, most.min(run.count - from));
            (extent, epoch, piece.part(from * record_size, extent.count * record_size))
        };
        (0..run.count).step_by(most as usize).map(part)
    };
    runs.into_iter().flat_map(parts).collect()
}

/// True if `next` begins where `run` ends.
fn are_adjacent(run: &Run, next: &Run) -> bool {
    run.0.end() == next.0.start
}

/// True if there are many runs, and joining the adjacent ones halves their number. To join fewer would read and write
/// them again at every change.
fn has_many_adjacent(runs: &[Run]) -> bool {
    runs.len() > RADOS_PIECES_MAX && 2 * runs.chunk_by(are_adjacent).count() <= runs.len()
}

/// Joins adjacent runs, whose bytes are in memory, into one each.
fn joined(runs: &[Run]) -> Vec<Run> {
    let join = |group: &[Run]| match group {
        [single] => single.clone(),
        _ => joined_run(group),
    };
    runs.chunk_by(are_adjacent).map(join).collect()
}

/// Joins runs into one, which has the latest epoch of its parts.
fn joined_run(group: &[Run]) -> Run {
    let start = group.first().map_or(0, |(run, _, _)| run.start);
    let count = group.iter().map(|(run, _, _)| run.count).sum();
    let epoch = group.iter().map(|(_, epoch, _)| *epoch).max().unwrap_or_default();
    let bytes: Vec<_> = group.iter().filter_map(|(_, _, piece)| piece.bytes()).collect();
    (Extent::new(start, count), epoch, Piece::here(bytes.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::Checksum;

    #[test]
    fn long_runs_in_memory_are_split() {
        let (most, here) = (RADOS_DATA_MAX as u64, |len: u64| Piece::here(vec![7; len as usize]));
        let stored = stored_piece(Location::ObjectData(0), &[7; 12], Checksum::Off);
        let runs = vec![
            (Extent::new(5, most / 4 + 1), Epoch(1), here(most + 4)),
            (Extent::new(most, 3), Epoch(2), stored),
        ];
        let parts: Vec<_> = split(runs, 4).into_iter().map(|it| (it.0, it.1, it.2.len)).collect();
        let expected = [
            (Extent::new(5, most / 4), Epoch(1), most),
            (Extent::new(5 + most / 4, 1), Epoch(1), 4),
            (Extent::new(most, 3), Epoch(2), 12),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn adjacent_runs_are_joined_if_that_halves_their_number() {
        let runs = |count: u64, step: u64| -> Vec<Run> {
            let run =
                |number| (Extent::new(number * step, 2), Epoch(number), Piece::here(vec![7; 2]));
            (0..count).map(run).collect()
        };
        let many = RADOS_PIECES_MAX as u64 + 1;
        assert!(has_many_adjacent(&runs(many, 2)) && !has_many_adjacent(&runs(many - 1, 2)));
        assert!(!has_many_adjacent(&runs(many, 3)));
        let parts: Vec<_> = [runs(2, 2), runs(4, 3).split_off(3)].concat();
        let found: Vec<_> = joined(&parts).into_iter().map(|it| (it.0, it.1, it.2.len)).collect();
        assert_eq!(found, [(Extent::new(0, 4), Epoch(1), 4), (Extent::new(9, 2), Epoch(3), 2)]);
    }
}
