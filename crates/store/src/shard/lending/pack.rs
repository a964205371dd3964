//! Makes free pages of an index adjacent, since blocks need adjacent pages.
use super::Lending;
use super::blocks::{block_key, inside};
use crate::format::keys::{Key, Table};
use crate::format::superblock::PAGE;
use crate::index::txn::{Txn, WriteTxn};
use crate::shard::Target;
use esker_types::Result;

/// Pages moved per commit.
const BATCH: usize = 64;
/// Most free pages that are sorted at once.
const GATHERED_MAX: u64 = 1 << 14;
/// Free pages that are left alone, since some cannot be used yet.
const GATHER_MARGIN: u64 = 64;
/// Pages moved wherever they are, per commit.
const SPREAD: u64 = 16;

impl Target {
    /// Moves entries away from the last positions for `blocks` blocks; false if nothing can be moved.
    pub(super) fn make_way(&self, lending: &Lending, blocks: u32) -> Result<bool> {
        let keys = self.in_the_way(lending, blocks as usize + 1)?;
        let first = &keys[..keys.len().min(1)];
        self.gather(lending)?;
        // Pages freed by a commit can be used by the next but one: two small commits follow.
        for batch in keys.chunks(BATCH).chain([first, first]) {
            if !self.change_space(|txn| batch.iter().try_for_each(|key| rewrite(txn, key)))? {
                return Ok(false);
            }
        }
        Ok(!keys.is_empty() && self.index.outwait_readers()?)
    }

    /// Takes all free pages and frees them again, so that LMDB lists them in order.
    fn gather(&self, lending: &Lending) -> Result<bool> {
        let free = self.index.read()?.free_pages()?.saturating_sub(GATHER_MARGIN).min(GATHERED_MAX);
        let numbers = lending.blocks..lending.blocks + free as u32;
        self.change_space(|txn| {
            numbers.clone().try_for_each(|n| txn.reserve(&block_key(n), PAGE / 4 * 3).map(drop))?;
            numbers.clone().try_for_each(|n| txn.delete(&block_key(n)).map(drop))
        })
    }

    /// One key of each leaf page among the last positions for blocks, since LMDB reuses the first free pages first;
    /// and some keys from all over the index, to move branch pages.
    fn in_the_way(&self, lending: &Lending, blocks: usize) -> Result<Vec<Vec<u8>>> {
        let txn = self.index.read()?;
        let places = Places::of(&txn, lending, self.index.high_water_pages()?)?;
        let wanted = places.begins.len().saturating_sub(blocks);
        let apart = txn.pages()?.used / SPREAD + 1;
        let (mut keys, mut count) = (Vec::new(), 0);
        txn.for_each_page(|page, key| {
            count += 1;
            if count % apart == 0 || places.at(page).is_some_and(|at| at >= wanted) {
                keys.push(key.to_vec());
            }
        })?;
        Ok(keys)
    }
}

/// Has the page of an entry written elsewhere. The value of a block is a hole and stays where it is; its key gets a
/// neighbour, which is removed again.
fn rewrite(txn: &mut WriteTxn, key: &[u8]) -> Result<()> {
    if key.starts_with(&Key::table(Table::Block)) {
        let beside = [key, &[0]].concat();
        txn.put(&beside, &[])?;
        return txn.delete(&beside).map(drop);
    }
    let value = txn.get(key)?.map(<[u8]>::to_vec);
    value.map_or(Ok(()), |value| txn.put(key, &value))
}

/// Positions where blocks could be: between those the index does not use.
struct Places {
    /// First pages, in ascending order.
    begins: Vec<u64>,
    /// Number of pages of each.
    pages: u64,
}

impl Places {
    /// The positions among the first `reach` pages of an index.
    fn of(txn: &Txn, lending: &Lending, reach: u64) -> Result<Self> {
        let (page, pages) = (PAGE as u64, lending.pages());
        let mut idle = Vec::new();
        for number in 0..lending.blocks {
            idle.extend(inside(txn, number, lending.block_bytes)?);
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

    /// Number of the position that a page belongs to.
    fn at(&self, page: u64) -> Option<usize> {
        let at = self.begins.partition_point(|&begin| begin <= page).checked_sub(1)?;
        (page < self.begins[at] + self.pages).then_some(at)
    }
}
