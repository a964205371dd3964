//! Where the bytes of new values go, and what becomes of those of old ones.
use super::names;
use super::piece::{Piece, Where, damaged, moved};
use super::record;
use super::space::Space;
use crate::join_all;
use esker_backend::object::records::{Records, Stored};
use esker_librados::WriteOp;
use esker_os::executor::task;
use esker_types::limits::{RADOS_INLINE_MAX, RADOS_PIECE_INLINE_MAX, RADOS_PIECES_MAX};
use esker_types::{Epoch, Extent, Result};
use std::collections::BTreeSet;

/// Dead bytes in an object's data that are not worth being removed.
const SLACK: u64 = 1 << 20;

/// Name, key and record (as it was) of an akey whose bytes may lie in the data of the object.
type Own<'a> = (&'a str, &'a [u8], &'a [u8]);

/// Bytes for the data of an object: from an offset on, or (`None`) in place of all there is.
type Data = (Option<u64>, Vec<u8>);

/// A value whose bytes have their place, and what goes into the data of its object.
pub(super) struct Placed {
    pub(super) stored: Stored<Piece>,
    pub(super) data: Option<Data>,
}

/// Bytes that are objects of their own, over one commit.
pub(super) struct Bodies<'a> {
    space: &'a Space,
    old: BTreeSet<[u8; 16]>,
    new: BTreeSet<[u8; 16]>,
    kept: BTreeSet<[u8; 16]>,
}

/// A run of records: which, since when, and their bytes.
type Run = (Extent, Epoch, Piece);

impl<'a> Bodies<'a> {
    pub(super) fn new(space: &'a Space) -> Self {
        Self { space, old: BTreeSet::new(), new: BTreeSet::new(), kept: BTreeSet::new() }
    }

    /// The record is replaced; what it names goes, unless it is named again.
    pub(super) fn forget(&mut self, record: &[u8]) {
        let stored = record::decode(record).map(|(_, stored)| stored);
        self.old.extend(stored.iter().flat_map(apart));
    }

    /// Gives the bytes of a value their place; long ones are written, except to `own`. `None` where the
    /// record of `own` was changed meanwhile.
    pub(super) async fn place(
        &mut self,
        stored: Stored<Piece>,
        own: Option<Own<'_>>,
    ) -> Result<Option<Placed>> {
        let placed = match stored {
            Stored::Single(piece) => {
                let stored = Stored::Single(self.place_single(piece).await?);
                Some(Placed { stored, data: None })
            }
            Stored::Array(records) => self.place_array(records, own).await?,
        };
        if let Some(placed) = &placed {
            self.kept.extend(apart(&placed.stored));
        }
        Ok(placed)
    }

    async fn place_single(&mut self, piece: Piece) -> Result<Piece> {
        match piece.bytes() {
            Some(bytes) if bytes.len() > RADOS_INLINE_MAX => self.write(bytes).await,
            _ => Ok(piece),
        }
    }

    async fn place_array(
        &mut self,
        records: Records<Piece>,
        own: Option<Own<'_>>,
    ) -> Result<Option<Placed>> {
        let mut runs = record::runs(&records);
        if runs.len() > RADOS_PIECES_MAX || own.is_some() && is_wasteful(&runs) {
            let Some(here) = self.fetch_all(runs, own).await? else { return Ok(None) };
            runs = joined(here);
        }
        let mut data = None;
        match own {
            Some(_) => data = self.place_own(&mut runs),
            None => self.place_apart(&mut runs).await?,
        }
        let mut placed = Records::new(records.record_size);
        runs.into_iter().for_each(|(run, epoch, piece)| placed.put(run, piece, epoch));
        Ok(Some(Placed { stored: Stored::Array(placed), data }))
    }

    /// Long pieces go behind what is in the object's data, or in its place where nothing of it is left.
    fn place_own(&self, runs: &mut [Run]) -> Option<Data> {
        let (_, end) = own_bytes(runs);
        let mut bytes = Vec::new();
        for (_, _, piece) in runs.iter_mut() {
            if let Some(long) = long(piece) {
                let place = Where::Own(end + bytes.len() as u64);
                bytes.extend_from_slice(long);
                *piece = moved(place, &bytes[bytes.len() - long.len()..], self.space.checksum);
            }
        }
        (!bytes.is_empty()).then_some(((end > 0).then_some(end), bytes))
    }

    async fn place_apart(&mut self, runs: &mut [Run]) -> Result<()> {
        let long_ones = runs.iter_mut().filter(|(_, _, piece)| long(piece).is_some());
        let mut writes = Vec::new();
        for (_, _, piece) in long_ones {
            let (id, space, old) = (fresh_id()?, self.space, piece.clone());
            *piece = moved(Where::Apart(id), long(piece).unwrap_or_default(), space.checksum);
            self.new.insert(id);
            writes.push(task(async move {
                write_blob(space, id, long(&old).unwrap_or_default()).await
            }));
        }
        join_all(writes).await.into_iter().collect()
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<Piece> {
        let id = fresh_id()?;
        self.new.insert(id);
        write_blob(self.space, id, bytes).await?;
        Ok(moved(Where::Apart(id), bytes, self.space.checksum))
    }

    /// Brings the bytes of all runs here.
    async fn fetch_all(&self, runs: Vec<Run>, own: Option<Own<'_>>) -> Result<Option<Vec<Run>>> {
        let fetch = |(run, epoch, piece): Run| {
            task(async move {
                let bytes = self.space.bytes_of(&piece, own).await?;
                Ok(bytes.map(|bytes| (run, epoch, Piece::here(bytes))))
            })
        };
        join_all(runs.into_iter().map(fetch).collect()).await.into_iter().collect()
    }

    /// Removes what is named no more, once that is so.
    pub(super) async fn remove_old(&self) -> Result<()> {
        self.remove(self.old.difference(&self.kept)).await
    }

    /// Removes what was written for nothing.
    pub(super) async fn remove_new(&self) -> Result<()> {
        self.remove(self.new.iter()).await
    }

    async fn remove(&self, ids: impl Iterator<Item = &[u8; 16]>) -> Result<()> {
        let remove = |id: &[u8; 16]| {
            let (space, object) = (self.space, names::blob(*id));
            task(async move { space.remove(&object).await })
        };
        join_all(ids.map(remove).collect()).await.into_iter().collect()
    }
}

impl Space {
    /// All bytes of a piece; `None` where they are gone because its record was changed.
    async fn bytes_of(&self, piece: &Piece, own: Option<Own<'_>>) -> Result<Option<Vec<u8>>> {
        let window = piece.window(0, piece.len);
        let data = match (&piece.body.place, own) {
            (Where::Here(_), _) => return Ok(piece.bytes().map(<[u8]>::to_vec)),
            (Where::Apart(id), _) => self.blob(*id, window).await?,
            (Where::Own(offset), Some((object, key, record))) => {
                self.data_of(object, (key, record), (offset + window.0, window.1)).await?
            }
            (Where::Own(_), None) => return Err(damaged("bytes without an object")),
        };
        let Some(data) = data else { return Ok(None) };
        piece.verify(self.checksum, window.0, &data)?;
        let from = (piece.from - window.0) as usize;
        let bytes = data.get(from..from + piece.len as usize);
        bytes.map(|bytes| Some(bytes.to_vec())).ok_or_else(|| damaged("bytes are missing"))
    }
}

/// The bytes of a piece that is too long for a record, before it has its place.
fn long(piece: &Piece) -> Option<&[u8]> {
    piece.bytes().filter(|bytes| bytes.len() > RADOS_PIECE_INLINE_MAX)
}

fn fresh_id() -> Result<[u8; 16]> {
    esker_os::random_bytes()
}

async fn write_blob(space: &Space, id: [u8; 16], bytes: &[u8]) -> Result<()> {
    let object = names::blob(id);
    let mut op = WriteOp::new()?;
    op.create_new().write_full(bytes);
    let done = space.place.write(&object, op).await;
    done.map(drop).map_err(|code| esker_librados::IoContext::error(code, "writing", &object))
}

/// The objects of their own that a value names.
fn apart(stored: &Stored<Piece>) -> Vec<[u8; 16]> {
    let ids = record::pieces(stored).into_iter().filter_map(|piece| match piece.body.place {
        Where::Apart(id) => Some(id),
        _ => None,
    });
    ids.collect()
}

/// Bytes in the object's data that are named, and where they end.
fn own_bytes(runs: &[Run]) -> (u64, u64) {
    let own = runs.iter().filter_map(|(_, _, piece)| match piece.body.place {
        Where::Own(offset) => Some((piece.len, offset + piece.body.len)),
        _ => None,
    });
    own.fold((0, 0), |(len, end), (more, last)| (len + more, end.max(last)))
}

/// True where more of the object's data is dead than alive.
fn is_wasteful(runs: &[Run]) -> bool {
    let (alive, end) = own_bytes(runs);
    end > 2 * alive + SLACK
}

/// Runs that touch become one.
fn joined(runs: Vec<Run>) -> Vec<Run> {
    let mut all: Vec<(Extent, Epoch, Vec<u8>)> = Vec::new();
    for (run, epoch, piece) in runs {
        let bytes = piece.bytes().unwrap_or_default();
        match all.last_mut().filter(|(last, _, _)| last.end() == run.start) {
            Some((last, latest, before)) => {
                last.count += run.count;
                *latest = epoch.max(*latest);
                before.extend_from_slice(bytes);
            }
            None => all.push((run, epoch, bytes.to_vec())),
        }
    }
    all.into_iter().map(|(run, epoch, bytes)| (run, epoch, Piece::here(bytes))).collect()
}
