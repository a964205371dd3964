//! Finding data and holes.
use super::Array;
use crate::access::Access;
use esker_types::ops::{AkeyRef, Anchor, Edge, KeyQuery, StoredExtent};
use esker_types::{FLAT_AKEY, Result, key_to_u64};

/// Number of extents of a chunk to list at a time.
const EXTENTS_PER_STEP_MAX: usize = 256;

/// Number of empty chunks to check one by one before a query for the next dkey with data. A check is cheaper, but holes
/// may span many more chunks than an array has.
const EMPTY_CHUNKS_MAX: usize = 16;

impl Array {
    /// The first cell at or after `cell` that exists; `None` if there is none (POSIX: `SEEK_DATA`).
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn next_data(&self, cell: u64, access: Access<'_>) -> Result<Option<u64>> {
        let mut at = cell;
        for _ in 0..EMPTY_CHUNKS_MAX {
            // The largest number is not a valid cell, and nothing comes after it.
            if at == u64::MAX {
                return Ok(None);
            }
            let (dkey, record) = self.layout.locate(at);
            if let Some(found) = self.first_record(dkey, record, access).await? {
                return Ok(Some(self.layout.cell_at(dkey, found)));
            }
            at = self.layout.cell_at(dkey.saturating_add(1), 0);
        }
        // After many empty chunks, one query finds the next chunk that has data.
        self.first_from(at, access).await
    }

    /// The first record of a chunk at or after `record` that exists.
    async fn first_record(
        &self,
        dkey: u64,
        record: u64,
        access: Access<'_>,
    ) -> Result<Option<u64>> {
        let found = self.extents(dkey, &mut Anchor::at_record(record), 1, access).await?;
        Ok(found.first().map(|stored| stored.extent.start))
    }

    /// The first existing cell at or after `cell`, which must be the first cell of a chunk.
    async fn first_from(&self, cell: u64, access: Access<'_>) -> Result<Option<u64>> {
        let before = cell.div_ceil(self.layout.0.chunk_size);
        let query = KeyQuery {
            edge: Edge::Min,
            dkey: None,
            after: Some(&before.to_ne_bytes()),
            akey: Some(FLAT_AKEY),
            want_akey: false,
            want_extent: true,
        };
        let found = self.object.query_key(query, access).await?;
        let position = found.and_then(|found| Some((found.dkey, found.extent?)));
        let Some((dkey, extent)) = position else { return Ok(None) };
        Ok(Some(self.layout.cell_at(key_to_u64(&dkey)?, extent.start)))
    }

    /// The first cell at or after `cell` that does not exist: at most the array's size, or `cell` itself if that is
    /// beyond the size (POSIX: `SEEK_HOLE`).
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn next_hole(&self, cell: u64, access: Access<'_>) -> Result<u64> {
        let mut at = cell;
        while at < u64::MAX {
            let (dkey, record) = self.layout.locate(at);
            let record = self.end_of_data(dkey, record, access).await?;
            at = self.layout.cell_at(dkey, record);
            if record < self.layout.0.chunk_size {
                break;
            }
        }
        Ok(at)
    }

    /// The first record of a chunk at or after `record` that does not exist. The number of extents listed at a time
    /// grows, so that finding the end of a short run is cheap.
    async fn end_of_data(&self, dkey: u64, mut record: u64, access: Access<'_>) -> Result<u64> {
        let (mut anchor, mut step) = (Anchor::at_record(record), 2);
        while !anchor.is_end() {
            for stored in self.extents(dkey, &mut anchor, step, access).await? {
                if stored.extent.start > record {
                    return Ok(record);
                }
                record = stored.extent.end();
            }
            step = EXTENTS_PER_STEP_MAX.min(2 * step);
        }
        Ok(record)
    }

    /// Lists the stored extents of a chunk.
    async fn extents(
        &self,
        dkey: u64,
        anchor: &mut Anchor,
        entries: usize,
        access: Access<'_>,
    ) -> Result<Vec<StoredExtent>> {
        let key = AkeyRef { dkey: &dkey.to_ne_bytes(), akey: FLAT_AKEY };
        self.object.list_extents(key, anchor, entries, access).await
    }
}
