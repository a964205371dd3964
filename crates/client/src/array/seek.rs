//! Where cells exist and where they do not.
use super::{AKEY, Array};
use crate::access::Access;
use esker_types::ops::{AkeyRef, Anchor, Edge, KeyQuery, StoredExtent};
use esker_types::{Result, key_to_u64};

/// Most extents of a chunk asked for at a time.
const EXTENTS_PER_STEP_MAX: usize = 256;

/// Chunks without data that are looked at one by one before the backend is asked for the next that has some: to
/// look at one is cheaper, and holes may be much larger than what is in an array.
const EMPTY_CHUNKS_MAX: usize = 16;

impl Array {
    /// The first cell from `cell` on that exists; `None` where none does (POSIX: `SEEK_DATA`).
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn next_data(&self, cell: u64, access: Access<'_>) -> Result<Option<u64>> {
        let mut at = cell;
        for _ in 0..EMPTY_CHUNKS_MAX {
            // No cell has the last number, and none comes after it.
            if at == u64::MAX {
                return Ok(None);
            }
            let (dkey, record) = self.layout.locate(at);
            if let Some(found) = self.first_record(dkey, record, access).await? {
                return Ok(Some(self.layout.cell_at(dkey, found)));
            }
            at = self.layout.cell_at(dkey.saturating_add(1), 0);
        }
        self.first_from(at, access).await
    }

    /// The first record of a chunk, from `record` on, that exists.
    async fn first_record(
        &self,
        dkey: u64,
        record: u64,
        access: Access<'_>,
    ) -> Result<Option<u64>> {
        let found = self.extents(dkey, &mut Anchor::at_record(record), 1, access).await?;
        Ok(found.first().map(|stored| stored.extent.start))
    }

    /// The first cell from `cell` on, which is the first of a chunk.
    async fn first_from(&self, cell: u64, access: Access<'_>) -> Result<Option<u64>> {
        let before = cell.div_ceil(self.layout.0.chunk_size);
        let query = KeyQuery {
            edge: Edge::Min,
            dkey: None,
            after: Some(&before.to_ne_bytes()),
            akey: Some(AKEY),
            want_akey: false,
            want_extent: true,
        };
        let found = self.object.query_key(query, access).await?;
        let place = found.and_then(|found| Some((found.dkey, found.extent?)));
        let Some((dkey, extent)) = place else { return Ok(None) };
        Ok(Some(self.layout.cell_at(key_to_u64(&dkey)?, extent.start)))
    }

    /// The first cell from `cell` on that does not exist: the array's size at the latest, or `cell` where that is
    /// behind it (POSIX: `SEEK_HOLE`).
    ///
    /// # Errors
    /// What the backend meets.
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

    /// The first record of a chunk, from `record` on, that does not exist. What is asked for at a time grows, so
    /// that a short stretch costs little.
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

    async fn extents(
        &self,
        dkey: u64,
        anchor: &mut Anchor,
        entries: usize,
        access: Access<'_>,
    ) -> Result<Vec<StoredExtent>> {
        let key = AkeyRef { dkey: &dkey.to_ne_bytes(), akey: AKEY };
        self.object.list_extents(key, anchor, entries, access).await
    }
}
