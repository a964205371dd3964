//! Where cells exist and where they do not.
use super::{AKEY, Array};
use crate::access::Access;
use esker_types::ops::{AkeyRef, Anchor};
use esker_types::{Extent, Result};

/// Extents of a chunk asked for at a time.
const EXTENTS_PER_STEP: usize = 256;

impl Array {
    /// The first cell from `cell` on that exists; `None` where none does (POSIX: `SEEK_DATA`).
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn next_data(&self, cell: u64, access: Access<'_>) -> Result<Option<u64>> {
        let (size, mut at) = (self.size(access).await?, cell);
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
            at = self.layout.cell_at(dkey + 1, 0);
        }
        Ok(None)
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
