//! Where cells exist and where they do not.
use super::{AKEY, Array};
use crate::access::Access;
use esker_types::ops::{AkeyRef, Anchor, ListLimit};
use esker_types::{Extent, Result};

/// Extents of a chunk asked for at a time.
const EXTENTS_PER_STEP: usize = 256;

/// Chunks without data that are looked at one by one before all that have some are listed.
const EMPTY_CHUNKS_MAX: u32 = 16;

/// Chunks listed at a time.
const CHUNKS_PER_STEP: usize = 1024;

impl Array {
    /// The first cell from `cell` on that exists; `None` where none does (POSIX: `SEEK_DATA`).
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn next_data(&self, cell: u64, access: Access<'_>) -> Result<Option<u64>> {
        let (size, mut at, mut empty) = (self.size(access).await?, cell, 0);
        while at < size {
            let (dkey, record) = self.layout.locate(at);
            let mut found = None;
            self.visit_extents(dkey, access, |extent| {
                found = (extent.end() > record).then(|| extent.start.max(record));
                found.is_none()
            })
            .await?;
            if let Some(record) = found {
                return Ok(Some(self.layout.cell_at(dkey, record)));
            }
            empty += 1;
            let next = match empty < EMPTY_CHUNKS_MAX {
                true => Some(dkey + 1),
                false => self.chunk_after(dkey, access).await?,
            };
            let Some(next) = next else { return Ok(None) };
            at = self.layout.cell_at(next, 0);
        }
        Ok(None)
    }

    /// The first chunk after `dkey` that exists: holes may be much larger than what is in an array.
    async fn chunk_after(&self, dkey: u64, access: Access<'_>) -> Result<Option<u64>> {
        let (mut anchor, mut nearest) = (Anchor::Start, None);
        while !anchor.is_end() {
            let limit = ListLimit::entries(CHUNKS_PER_STEP);
            let listed = self.object.list_dkeys(&mut anchor, limit, access).await?;
            let chunks =
                listed.iter().filter_map(|key| key.try_into().ok().map(u64::from_ne_bytes));
            nearest = chunks.filter(|chunk| *chunk > dkey).chain(nearest).min();
        }
        Ok(nearest)
    }

    /// The first cell from `cell` on that does not exist; the array's size at the latest, but never
    /// before `cell` (POSIX: `SEEK_HOLE`).
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn next_hole(&self, cell: u64, access: Access<'_>) -> Result<u64> {
        let (size, mut at) = (self.size(access).await?, cell);
        while at < size {
            let (dkey, mut record) = self.layout.locate(at);
            self.visit_extents(dkey, access, |extent| {
                let covered = extent.start <= record;
                record = if covered { record.max(extent.end()) } else { record };
                covered
            })
            .await?;
            at = self.layout.cell_at(dkey, record);
            if record < self.layout.0.chunk_size {
                return Ok(at.min(size).max(cell));
            }
        }
        Ok(size.max(cell))
    }

    /// Hands the extents of a chunk to `visit`, in order, until it returns false.
    async fn visit_extents(
        &self,
        dkey: u64,
        access: Access<'_>,
        mut visit: impl FnMut(Extent) -> bool,
    ) -> Result<()> {
        let (mut anchor, dkey) = (Anchor::Start, dkey.to_ne_bytes());
        while !anchor.is_end() {
            let key = AkeyRef { dkey: &dkey, akey: AKEY };
            let found =
                self.object.list_extents(key, &mut anchor, EXTENTS_PER_STEP, access).await?;
            if !found.iter().all(|stored| visit(stored.extent)) {
                break;
            }
        }
        Ok(())
    }
}
