//! Removing cells.
use super::Array;
use super::cells::{Chunk, Piece, chunks};
use crate::access::Access;
use crate::limits::{ARRAY_TRIES_MAX, PUNCHED_CHUNKS_MAX};
use crate::proof::Proof;
use esker_types::ops::{Anchor, Cond, ListLimit, Update, Value};
use esker_types::{Error, ErrorKind, Extent, FLAT_AKEY, Result, key_to_u64};

/// Chunks that a punch names, whether they exist or not. For longer ranges it lists the chunks that exist.
const PUNCH_CHUNKS_MAX: u64 = 8192;

/// Number of dkeys to list at a time.
const DKEYS_PER_STEP: usize = 1024;

impl Array {
    /// Removes cells: they become holes. Time and memory depend on the number of chunks that the array has, not on the
    /// length of the ranges. In a transaction, a punch of ranges over more than 8192 chunks depends on which chunks
    /// exist: it conflicts with the addition of any.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a range past 2^64, [`ErrorKind::NoPermission`] if writing is not
    /// allowed, [`ErrorKind::Again`] if other processes kept adding chunks.
    pub async fn punch(&self, ranges: &[Extent], access: Access<'_>) -> Result<()> {
        self.object.check_writable()?;
        ranges.iter().try_for_each(|range| range.check())?;
        // The cells of ranges that overlap may be more than 2^64 together.
        let ranges = merge(ranges);
        if self.layout.count_chunks(&ranges) <= PUNCH_CHUNKS_MAX {
            return self.punch_pieces(&self.layout.pieces(&ranges, u64::MAX)?, None, access).await;
        }
        match access {
            Access::Latest if self.object.container().capabilities().transactions => {
                self.punch_stored(&ranges).await
            }
            _ => self.punch_pieces(&self.stored_pieces(&ranges, access).await?, None, access).await,
        }
    }

    /// Punches the chunks that exist: at once, or over other machines in steps of `PUNCHED_CHUNKS_MAX`.
    async fn punch_stored(&self, ranges: &[Extent]) -> Result<()> {
        let mut done = Some(0);
        while let Some(last) = done {
            done = self.punch_stored_after(last, ranges).await?;
        }
        Ok(())
    }

    /// Punches the chunks that exist with a dkey greater than `last`, on condition that no other process has added one
    /// in the meantime. Returns the dkey of the last one that it has punched, unless it has punched all.
    async fn punch_stored_after(&self, last: u64, ranges: &[Extent]) -> Result<Option<u64>> {
        let chunks_max = match self.object.container().capabilities().asynchronous {
            true => PUNCHED_CHUNKS_MAX,
            false => usize::MAX,
        };
        for _ in 0..ARRAY_TRIES_MAX {
            let transaction = self.object.container().transaction()?;
            let mut pieces = self.stored_pieces(ranges, Access::Tx(&transaction)).await?;
            pieces.retain(|piece| piece.dkey > last);
            let step = chunks(&pieces, u64::MAX).take(chunks_max).map(<[Piece]>::len).sum();
            let (step, rest) = pieces.split_at(step);
            let proof = transaction.proof()?;
            match self.punch_pieces(step, Some(&proof), Access::Latest).await {
                Err(error) if error.kind() == ErrorKind::TxRestart => {}
                Err(error) => return Err(error),
                Ok(()) if rest.is_empty() => return Ok(None),
                Ok(()) => return Ok(step.last().map(|piece| piece.dkey)),
            }
        }
        Err(Error::new(
            ErrorKind::Again,
            format!(
                "array {}: other processes added chunks during {ARRAY_TRIES_MAX} attempts to punch it \
                 (ARRAY_TRIES_MAX): try again, or punch ranges of at most {PUNCH_CHUNKS_MAX} chunks",
                self.oid()
            ),
        ))
    }

    /// Punches pieces, at [`Access::Latest`] on condition that `proof` holds.
    async fn punch_pieces(
        &self,
        pieces: &[Piece],
        proof: Option<&Proof>,
        access: Access<'_>,
    ) -> Result<()> {
        let chunks: Vec<_> = chunks(pieces, u64::MAX).map(Chunk::new).collect();
        let updates: Vec<_> = chunks.iter().map(|chunk| [punch_update(&chunk.extents)]).collect();
        let writes = chunks.iter().zip(&updates);
        let writes: Vec<_> = writes.map(|(chunk, u)| self.write_op(&chunk.dkey, u)).collect();
        match proof {
            Some(proof) => self.object.container().write_with(&writes, proof).await,
            None => self.object.container().write(&writes, access).await,
        }
    }

    /// The pieces of sorted ranges in chunks that exist, or that the transaction is about to write.
    async fn stored_pieces(&self, ranges: &[Extent], access: Access<'_>) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            let limit = ListLimit::entries(DKEYS_PER_STEP);
            let batch = self.object.list_dkeys(&mut anchor, limit, access).await?;
            for dkey in batch.iter() {
                self.layout.add_pieces(key_to_u64(dkey)?, ranges, &mut pieces);
            }
        }
        if let Access::Tx(transaction) = access {
            for dkey in transaction.buffered_dkeys(self.oid())? {
                self.layout.add_pieces(key_to_u64(&dkey)?, ranges, &mut pieces);
            }
        }
        pieces.sort_unstable_by_key(|piece| (piece.dkey, piece.extent));
        // A chunk may be both stored and written by the transaction.
        pieces.dedup();
        Ok(pieces)
    }
}

/// The update that removes extents of one chunk.
pub(super) fn punch_update(extents: &[Extent]) -> Update<'_> {
    Update { akey: FLAT_AKEY, value: Value::PunchExtents(extents), cond: Cond::NONE }
}

/// Sorts ranges of cells, and merges those that overlap or touch.
fn merge(ranges: &[Extent]) -> Vec<Extent> {
    let mut sorted: Vec<_> = ranges.iter().copied().filter(|range| !range.is_empty()).collect();
    sorted.sort_unstable();
    let mut merged: Vec<Extent> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end() => {
                last.count = last.end().max(range.end()) - last.start;
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_ranges_are_sorted_and_do_not_overlap() {
        let ranges = [(8, 2), (1, 3), (5, 0), (2, 4), (6, 1), (10, 1), (u64::MAX - 1, 1)];
        let ranges = ranges.map(|(start, count)| Extent::new(start, count));
        let expected = [Extent::new(1, 6), Extent::new(8, 3), Extent::new(u64::MAX - 1, 1)];
        assert_eq!(merge(&ranges), expected);
    }
}
