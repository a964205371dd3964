//! Reading and writing ranges of cells.
use super::Array;
use super::cells::{Chunk, Part, Piece, chunks, holes};
use crate::access::Access;
use crate::limits::ARRAY_REQUEST_BYTES_MAX;
use crate::view::View;
use esker_os::{HUGE_PAGE, lacks_huge_pages, want_huge_pages};
use esker_types::ops::{
    AkeyRef, Cond, DkeyFetch, Fetch, FetchReply, Sink, Source, Update, Value, Wanted,
};
use esker_types::{Error, ErrorKind, Extent, FLAT_AKEY, Result};
use std::cell::Cell;

/// The result of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayRead {
    /// Bytes of the requested cells below the array's size. For types other than `ArrayByte` the size is not
    /// determined, and this counts all requested bytes.
    pub bytes: u64,
    /// Bytes of the requested cells past the size; the corresponding parts of the sink are left unchanged.
    pub short_bytes: u64,
}

/// A read in progress: its access, and the array's size once it has been determined.
struct Read<'a> {
    array: &'a Array,
    access: Access<'a>,
    holes: Holes,
    size: Option<u64>,
    /// False if a cell was missing that was filled with zeros.
    is_complete: bool,
}

/// Treatment of the parts of a sink whose cells do not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holes {
    /// They are left unchanged.
    Left,
    /// They are zeroed up to the size of the array.
    ZeroBelowSize,
    /// They are zeroed.
    Zero,
}

impl Array {
    /// Writes the cells of `ranges`, all at one epoch. `source` holds them in the same order, without gaps. Outside a
    /// transaction, a pool over nodes writes the chunks of each node at an epoch of its own.
    ///
    /// # Errors
    /// [`esker_types::ErrorKind::Invalid`] if `source` does not hold exactly those cells,
    /// [`esker_types::ErrorKind::NotSupported`] for more than 16384 ranges of at most 16 cells,
    /// [`esker_types::ErrorKind::NoPermission`] if writing is not allowed,
    /// [`esker_types::ErrorKind::NoSpace`].
    pub async fn write(
        &self,
        ranges: &[Extent],
        source: Source<'_>,
        access: Access<'_>,
    ) -> Result<()> {
        self.object.check_writable()?;
        self.layout.check(ranges, source.len())?;
        let end = ranges.iter().map(|range| range.start.saturating_add(range.count)).max();
        self.prepare_write(end.unwrap_or(0), access).await?;
        match self.layout.only_piece(ranges, self.request_cells()) {
            Some(piece) => self.write_piece(piece, source, access).await,
            None => self.write_pieces(ranges, source, access).await,
        }
    }

    /// Writes all bytes of `source` to the one dkey of `piece`, without a copy of them.
    async fn write_piece(
        &self,
        piece: Piece,
        source: Source<'_>,
        access: Access<'_>,
    ) -> Result<()> {
        let (dkey, extents) = (piece.dkey.to_ne_bytes(), [piece.extent]);
        let updates = [self.update(&extents, source)];
        self.object.container().write(&[self.write_op(&dkey, &updates)], access).await
    }

    /// Writes `ranges` that lie in several dkeys: splits `source` at the same places, then writes all dkeys with one
    /// call.
    async fn write_pieces(
        &self,
        ranges: &[Extent],
        source: Source<'_>,
        access: Access<'_>,
    ) -> Result<()> {
        let cells_max = self.request_cells();
        let pieces = self.layout.pieces(ranges, cells_max)?;
        let cell = self.layout.cell_size();
        let part = |chunk: Chunk| {
            let part = Part::from_source(source, chunk.offset * cell, chunk.cells * cell);
            (chunk, part)
        };
        let parts: Vec<_> = chunks(&pieces, cells_max).map(Chunk::new).map(part).collect();
        let updates: Vec<_> = parts
            .iter()
            .map(|(chunk, part)| [self.update(&chunk.extents, part.source())])
            .collect();
        let writes = parts.iter().zip(&updates);
        let writes: Vec<_> = writes.map(|((chunk, _), u)| self.write_op(&chunk.dkey, u)).collect();
        match writes.is_empty() {
            true => Ok(()),
            false => self.object.container().write_by_node(&writes, access).await,
        }
    }

    /// Most cells of one chunk in one request. A local pool makes no requests: it reads and writes each chunk at once.
    fn request_cells(&self) -> u64 {
        match self.object.container().capabilities().asynchronous {
            true => (ARRAY_REQUEST_BYTES_MAX / self.layout.cell_size()).max(1),
            false => u64::MAX,
        }
    }

    /// The update that writes `data` to extents of one chunk.
    fn update<'a>(&self, extents: &'a [Extent], data: Source<'a>) -> Update<'a> {
        let value = Value::Array { record_size: self.layout.cell_size(), extents, data };
        Update { akey: FLAT_AKEY, value, cond: Cond::NONE }
    }

    /// Views the cells of `range` without a copy if possible. Otherwise it is a copy if `may_copy`, with zeros for
    /// cells that do not exist.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if a copy is needed and `may_copy` is false,
    /// [`ErrorKind::Overflow`] if the cells do not fit in memory or this process has
    /// [`esker_types::limits::VIEWS_MAX`] views; as [`Array::read`].
    pub async fn view(&self, range: Extent, may_copy: bool, access: Access<'_>) -> Result<View> {
        let bytes = self.bytes_of(range.count)?;
        if let Some(piece) = self.layout.only_piece(&[range], u64::MAX) {
            let (dkey, extents) = (piece.dkey.to_ne_bytes(), [piece.extent]);
            let akey = AkeyRef { dkey: &dkey, akey: FLAT_AKEY };
            let view = self.object.view(akey, Wanted::Array(&extents), access).await?;
            // A view of another length has records of another size, which the read below rejects.
            if let Some(view) = view.filter(|view| view.len() == bytes) {
                return Ok(view);
            }
        }
        if !may_copy {
            return Err(View::refused());
        }
        let mut copy = esker_types::memory::zeros(bytes)?;
        self.read(&[range], Sink::One(&mut copy), access).await?;
        Ok(View::from_vec(copy))
    }

    /// Size of this many cells in bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] if they do not fit in memory.
    pub fn bytes_of(&self, cells: u64) -> Result<usize> {
        let bytes = cells.checked_mul(self.layout.cell_size()).map(isize::try_from);
        bytes.and_then(std::result::Result::ok).map(isize::cast_unsigned).ok_or_else(|| {
            let text = format!("{cells} cells do not fit in memory: read fewer at a time");
            Error::new(ErrorKind::Overflow, text)
        })
    }

    /// Reads the cells of `ranges` into `sink`, one range after the other. Each chunk is read from one consistent
    /// state; different chunks may be read from different states (use a transaction or a snapshot to avoid that).
    ///
    /// Parts of the sink whose cells do not exist are left unchanged. `ArrayByte` differs: holes below the array's
    /// size are filled with zeros, and [`ArrayRead`] tells how many bytes are past the size.
    ///
    /// # Errors
    /// [`esker_types::ErrorKind::Invalid`] if the size of `sink` does not match `ranges`,
    /// [`esker_types::ErrorKind::NotSupported`] for more than 16384 ranges of at most 16 cells; errors of the
    /// backend.
    pub async fn read(
        &self,
        ranges: &[Extent],
        sink: Sink<'_>,
        access: Access<'_>,
    ) -> Result<ArrayRead> {
        let bytes = sink.len();
        let holes = if self.bytes { Holes::ZeroBelowSize } else { Holes::Left };
        let mut read = Read { array: self, access, holes, size: None, is_complete: true };
        read.read_ranges(ranges, sink).await?;
        Ok(read.answer(ranges, bytes))
    }

    /// Reads cells like [`Array::read`], but fills the complete sink: cells that do not exist read as zeros.
    ///
    /// # Errors
    /// The errors of [`Array::read`].
    pub async fn read_or_zero(
        &self,
        ranges: &[Extent],
        sink: Sink<'_>,
        access: Access<'_>,
    ) -> Result<()> {
        self.read_complete(ranges, sink, access).await.map(drop)
    }

    /// Reads cells like [`Array::read_or_zero`]. Returns whether all of them exist.
    ///
    /// # Errors
    /// The errors of [`Array::read`].
    pub async fn read_complete(
        &self,
        ranges: &[Extent],
        sink: Sink<'_>,
        access: Access<'_>,
    ) -> Result<bool> {
        let (holes, size) = (Holes::Zero, None);
        let mut read = Read { array: self, access, holes, size, is_complete: true };
        read.read_ranges(ranges, sink).await?;
        Ok(read.is_complete)
    }
}

impl Read<'_> {
    /// Reads ranges. If they are in one chunk, the data goes straight to the caller's memory.
    async fn read_ranges(&mut self, ranges: &[Extent], mut sink: Sink<'_>) -> Result<()> {
        let layout = self.array.layout;
        layout.check(ranges, sink.len())?;
        self.want_pages(ranges, &mut sink).await;
        let cells_max = self.array.request_cells();
        match layout.only_piece(ranges, cells_max) {
            Some(piece) => self.read_chunk(&piece.dkey.to_ne_bytes(), &[piece.extent], sink).await,
            None => {
                let pieces = layout.pieces(ranges, cells_max)?;
                self.read_chunks(chunks(&pieces, cells_max).map(Chunk::new).collect(), sink).await
            }
        }
    }

    /// Asks the kernel for huge pages in a long sink that was never used, up to the size of the array. Best effort. Not
    /// in a transaction: it would read the size, and so conflict with writers that change it.
    async fn want_pages(&self, ranges: &[Extent], sink: &mut Sink<'_>) {
        let (&[range], Access::Latest | Access::Snapshot(_)) = (ranges, self.access) else {
            return;
        };
        if sink.len() < HUGE_PAGE as u64 || !any(sink, lacks_huge_pages) {
            return;
        }
        let size = self.array.size(self.access).await.unwrap_or(0);
        let cells = size.saturating_sub(range.start).min(range.count);
        // The closure does not fail.
        let _ = sink.visit(0, cells * self.array.layout.cell_size(), |part| {
            want_huge_pages(part);
            Ok(())
        });
    }

    /// Reads several chunks by one fetch, so that the backend can read them in parallel.
    async fn read_chunks(&mut self, chunks: Vec<Chunk>, sink: Sink<'_>) -> Result<()> {
        let mut rest = Rest::new(sink);
        let cell = self.array.layout.cell_size();
        let mut fetches: Vec<_> = chunks
            .iter()
            .map(|chunk| self.fetch_of(&chunk.extents, rest.take(chunk.cells * cell)))
            .collect();
        let mut dkeys: Vec<_> = chunks
            .iter()
            .zip(fetches.iter_mut())
            .map(|(chunk, fetch)| of_dkey(&chunk.dkey, std::slice::from_mut(fetch)))
            .collect();
        self.array.object.fetch_dkeys(&mut dkeys, self.access).await?;
        for (chunk, fetch) in chunks.iter().zip(fetches) {
            self.zero_holes(&chunk.dkey, &chunk.extents, fetch.reply).await?;
        }
        Ok(())
    }

    /// Reads extents of one chunk, and fills holes with zeros.
    async fn read_chunk(
        &mut self,
        dkey: &[u8; 8],
        extents: &[Extent],
        sink: Sink<'_>,
    ) -> Result<()> {
        let mut fetch = self.fetch_of(extents, sink);
        // Reuses the memory of an earlier list of this thread.
        fetch.reply.filled = SPARE.try_with(Cell::take).unwrap_or_default();
        let mut dkeys = [of_dkey(dkey, std::slice::from_mut(&mut fetch))];
        self.array.object.fetch_dkeys(&mut dkeys, self.access).await?;
        self.zero_holes(dkey, extents, fetch.reply).await
    }

    /// Returns the fetch of `extents` into `sink`. It also asks which cells are stored, unless the caller wants the
    /// bytes of holes left unchanged.
    fn fetch_of<'b>(&self, extents: &'b [Extent], sink: Sink<'b>) -> Fetch<'b> {
        let mut fetch = Fetch::array(FLAT_AKEY, self.array.layout.cell_size(), extents, sink);
        fetch.request.want_filled = self.holes != Holes::Left;
        fetch
    }

    /// Fills cells that the fetch did not find with zeros, as far as [`Holes`] says. `extents` are the requested ones
    /// under `dkey`.
    async fn zero_holes(
        &mut self,
        dkey: &[u8; 8],
        extents: &[Extent],
        reply: FetchReply<'_>,
    ) -> Result<()> {
        let FetchReply { mut sink, filled, .. } = reply;
        if self.holes == Holes::Left || filled == extents {
            keep_spare(filled);
            return Ok(());
        }
        let dkey = u64::from_ne_bytes(*dkey);
        let cell = self.array.layout.cell_size();
        let mut offset = 0;
        for &extent in extents {
            for hole in holes(extent, &filled) {
                let zeros = self.zeros_of(dkey, hole).await?;
                let at = offset + (hole.start - extent.start);
                sink.visit(at * cell, zeros * cell, |part| {
                    part.fill(0);
                    Ok(())
                })?;
            }
            offset += extent.count;
        }
        Ok(())
    }

    /// Number of cells at the start of a hole that are to be zeroed: those below the size of the array, or all.
    async fn zeros_of(&mut self, dkey: u64, hole: Extent) -> Result<u64> {
        if self.holes == Holes::Zero {
            self.is_complete = false;
            return Ok(hole.count);
        }
        let first = self.array.layout.cell_at(dkey, hole.start);
        Ok(self.size().await?.saturating_sub(first).min(hole.count))
    }

    /// Returns the size of the array in cells. The first call reads it, and later calls return that value again.
    async fn size(&mut self) -> Result<u64> {
        if self.size.is_none() {
            self.size = Some(self.array.size(self.access).await?);
        }
        Ok(self.size.unwrap_or(0))
    }

    /// The result of a read into `bytes` bytes. The size is asked for only if a cell is missing, so without it all
    /// bytes were read.
    fn answer(&self, ranges: &[Extent], bytes: u64) -> ArrayRead {
        let Some(size) = self.size else { return ArrayRead { bytes, short_bytes: 0 } };
        let below = |range: &Extent| size.saturating_sub(range.start).min(range.count);
        let read = ranges.iter().map(below).sum::<u64>() * self.array.layout.cell_size();
        ArrayRead { bytes: read, short_bytes: bytes - read }
    }
}

thread_local! {
    /// Memory of the list of filled extents of the last read of this thread, so that a read need not allocate.
    static SPARE: Cell<Vec<Extent>> = const { Cell::new(Vec::new()) };
}

/// Maximum number of extents for which a thread keeps the memory.
const SPARE_MAX: usize = 16;

/// Keeps the memory of a list for the next read of this thread, unless the list is long.
fn keep_spare(filled: Vec<Extent>) {
    if (1..=SPARE_MAX).contains(&filled.capacity()) {
        let _ = SPARE.try_with(|spare| spare.set(filled));
    }
}

/// True if `is` holds for any buffer of a sink.
fn any(sink: &Sink<'_>, is: impl Fn(&[u8]) -> bool) -> bool {
    match sink {
        Sink::None => false,
        Sink::One(buffer) => is(buffer),
        Sink::Many(buffers) => buffers.iter().any(|buffer| is(buffer)),
    }
}

/// A fetch of these akeys of one dkey, without a condition.
fn of_dkey<'f, 'b>(dkey: &'f [u8; 8], akeys: &'f mut [Fetch<'b>]) -> DkeyFetch<'f, 'b> {
    DkeyFetch { dkey, cond: Cond::NONE, akeys }
}

/// The rest of a sink that is handed out from its start.
enum Rest<'a> {
    None,
    One(&'a mut [u8]),
    Many(std::collections::VecDeque<&'a mut [u8]>),
}

impl<'a> Rest<'a> {
    /// All of a sink.
    fn new(sink: Sink<'a>) -> Self {
        match sink {
            Sink::None => Self::None,
            Sink::One(buffer) => Self::One(buffer),
            Sink::Many(buffers) => Self::Many(buffers.into()),
        }
    }

    /// Splits the next `len` bytes off the caller's buffers, as the destination of a fetch.
    fn take(&mut self, len: u64) -> Sink<'a> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        match self {
            Self::None => Sink::None,
            Self::One(buffer) => Sink::One(split(buffer, len)),
            Self::Many(buffers) => Sink::Many(take_many(buffers, len)),
        }
    }
}

/// Splits the first `len` bytes, or all if there are fewer, off `buffer`.
fn split<'a>(buffer: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
    let whole = std::mem::take(buffer);
    let (head, tail) = whole.split_at_mut(len.min(whole.len()));
    *buffer = tail;
    head
}

/// Removes the first `len` bytes from `buffers` and returns them. A buffer that is only partly taken keeps its
/// remaining bytes, in front.
fn take_many<'a>(
    buffers: &mut std::collections::VecDeque<&'a mut [u8]>,
    mut len: usize,
) -> Vec<&'a mut [u8]> {
    let mut taken = Vec::new();
    while len > 0 {
        let Some(mut buffer) = buffers.pop_front() else { break };
        let head = split(&mut buffer, len);
        len -= head.len();
        taken.push(head);
        if !buffer.is_empty() {
            buffers.push_front(buffer);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_is_split_into_pieces() {
        let (mut a, mut b, mut c) = ([0; 3], [0; 0], [0; 4]);
        let mut rest = Rest::new(Sink::Many(vec![&mut a, &mut b, &mut c]));
        rest.take(2).put(0, b"ab");
        rest.take(0).put(0, b"");
        rest.take(3).put(0, b"cde");
        rest.take(2).put(0, b"fg");
        assert_eq!((&a, &c), (b"abc", b"defg"));
    }
}
