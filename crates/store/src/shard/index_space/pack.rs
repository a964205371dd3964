//! Makes free pages of an index adjacent, since blocks need adjacent pages.
use super::IndexSpace;
use super::blocks::{block_key, inside};
use crate::format::keys::{Key, Table};
use crate::format::superblock::PAGE;
use crate::index::txn::{Txn, WriteTxn};
use crate::shard::Target;
use esker_types::Result;

/// Number of pages moved per commit.
const BATCH: usize = 64;
/// Maximum number of free pages that are sorted at once.
const GATHERED_MAX: u64 = 1 << 14;
/// Number of free pages that are not sorted, since some cannot be used yet.
const GATHER_MARGIN: u64 = 64;
/// Number of pages per commit that are moved from all over the index.
const SPREAD: u64 = 16;

impl Target {
    /// Moves entries away from the last positions for `blocks` blocks; returns false if nothing can be moved.
    pub(super) fn move_entries(&self, index_space: &IndexSpace, blocks: u32) -> Result<bool> {
        let keys = self.keys_to_move(index_space, blocks as usize + 1)?;
        let first = &keys[..keys.len().min(1)];
        // Without space for sorting, entries may still move.
        self.sort_free_pages(index_space)?;
        // Pages freed by a commit can be used by the commit after the next one, so two small commits follow.
        for batch in keys.chunks(BATCH).chain([first, first]) {
            if !self.change_space(|txn| batch.iter().try_for_each(|key| rewrite(txn, key)))? {
                return Ok(false);
            }
        }
        Ok(!keys.is_empty() && self.index.wait_for_readers()?)
    }

    /// Allocates all free pages and frees them again, so that LMDB lists them in order. Returns false if the index has
    /// no space for that.
    fn sort_free_pages(&self, index_space: &IndexSpace) -> Result<bool> {
        let free = self.index.read()?.free_pages()?.saturating_sub(GATHER_MARGIN).min(GATHERED_MAX);
        let numbers = index_space.blocks..index_space.blocks + free as u32;
        self.change_space(|txn| {
            // A value of three quarters of a page takes a page of its own. Its number is not that of a block.
            numbers.clone().try_for_each(|n| txn.reserve(&block_key(n), PAGE / 4 * 3).map(drop))?;
            numbers.clone().try_for_each(|n| txn.delete(&block_key(n)).map(drop))
        })
    }

    /// One key of each leaf page in the last positions for blocks, since LMDB reuses the first free pages first. Also
    /// some keys from all over the index, to move branch pages.
    fn keys_to_move(&self, index_space: &IndexSpace, blocks: usize) -> Result<Vec<Vec<u8>>> {
        let txn = self.index.read()?;
        let positions = BlockPositions::find(&txn, index_space, self.index.high_water_pages()?)?;
        let wanted = positions.begins.len().saturating_sub(blocks);
        let apart = txn.pages()?.used / SPREAD + 1;
        let (mut keys, mut count) = (Vec::new(), 0);
        txn.for_each_page(|page, key| {
            count += 1;
            if count % apart == 0 || positions.at(page).is_some_and(|at| at >= wanted) {
                keys.push(key.to_vec());
            }
        })?;
        Ok(keys)
    }
}

/// Makes LMDB write the page of an entry elsewhere. The value of a block is a hole and stays at its position; its key
/// gets a neighbour, which is removed again.
fn rewrite(txn: &mut WriteTxn, key: &[u8]) -> Result<()> {
    if key.starts_with(&Key::table(Table::Block)) {
        let beside = [key, &[0]].concat();
        txn.put(&beside, &[])?;
        return txn.delete(&beside).map(drop);
    }
    let value = txn.get(key)?.map(<[u8]>::to_vec);
    value.map_or(Ok(()), |value| txn.put(key, &value))
}

/// Possible positions of blocks: between the blocks that the index does not use.
struct BlockPositions {
    /// First page of each position, in ascending order.
    begins: Vec<u64>,
    /// Number of pages of each position.
    pages: u64,
}

impl BlockPositions {
    /// The positions among the first `reach` pages of an index. The two meta pages and the idle blocks, each with its
    /// first page before the hole, are left out.
    fn find(txn: &Txn, index_space: &IndexSpace, reach: u64) -> Result<Self> {
        let (page, pages) = (PAGE as u64, index_space.pages());
        let mut idle = Vec::new();
        for number in 0..index_space.blocks {
            idle.extend(inside(txn, number, index_space.block_bytes)?);
        }
        let mut idle: Vec<_> =
            idle.iter().map(|part| (part.start / page - 1, part.end / page)).collect();
        idle.push((reach, reach));
        idle.sort_unstable();
        let (mut begins, mut begin) = (Vec::new(), 2);
        for (first, end) in idle {
            begins.extend((begin..first.saturating_sub(pages - 1)).step_by(pages as usize));
            begin = end;
        }
        Ok(Self { begins, pages })
    }

    /// Number of the position to which a page belongs; `None` if it belongs to none.
    fn at(&self, page: u64) -> Option<usize> {
        let at = self.begins.partition_point(|&begin| begin <= page).checked_sub(1)?;
        (page < self.begins[at] + self.pages).then_some(at)
    }
}
