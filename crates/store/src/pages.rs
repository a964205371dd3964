//! Looking at the pages of an index before LMDB does: a damaged page could lead it anywhere.
//!
//! Knows the page format of LMDB (mdb.master on 64-bit machines): a header of 16 bytes, offsets of nodes,
//! free space, nodes. Reads files with ordinary I/O, believes nothing, and stops at what it cannot follow.
mod page;
mod remains;
#[cfg(test)]
mod tests;
mod tree;

use crate::io::folder::{Folder, Use};
use crate::io::index::DATA;
use crate::superblock::Superblock;
use crate::target;
use esker_types::Result;
use page::Meta;
pub(crate) use remains::{Find, Remains};
use std::fs::File;
use std::os::unix::fs::FileExt;
pub(crate) use tree::Gap;
use tree::{Keys, Nobody, Walk};

/// Bytes of a page on machines whose own pages are that large; LMDB takes those of the machine.
pub(crate) const PAGE: usize = 4096;

/// Times a file is looked at that others change meanwhile.
const ATTEMPTS: u32 = 5;

/// Problems named per index: the first ones tell what happened.
const PROBLEMS_MAX: usize = 16;

/// Checks the index files of all targets of a pool.
pub(crate) fn check_all(pool: &Folder, problems: &mut Vec<String>) -> Result<()> {
    let superblock = Superblock::read_in(pool)?;
    let mode = superblock.directory_permissions_max();
    for number in 0..superblock.targets {
        let index = pool.folder(&target::name(number), mode)?.folder(target::INDEX, mode)?;
        let file = index.file(DATA, Use::Read, superblock.file_permissions())?;
        let cut = cut_short(&file, superblock.index_file_bytes());
        for trouble in cut.into_iter().chain(check(&file, superblock.index_file_bytes())) {
            problems.push(format!("target {number}, index: {trouble}"));
        }
    }
    Ok(())
}

/// Tells of an index file that lost bytes, needed ones or not.
fn cut_short(file: &File, wanted: u64) -> Option<String> {
    let found = file.metadata().map_or(0, |info| info.len());
    (found < wanted).then(|| format!("{found} bytes of {wanted} are there"))
}

/// What is wrong with one index file. Where others commit meanwhile, pages may be reused under our eyes:
/// then only what is wrong with a state that lasted is believed.
fn check(file: &File, bytes: u64) -> Vec<String> {
    for _ in 0..ATTEMPTS {
        let before = newest_meta(file);
        let problems = match &before {
            Ok(meta) => check_state(file, meta, bytes),
            Err(trouble) => vec![trouble.clone()],
        };
        if problems.is_empty() || newest_meta(file) == before {
            return problems;
        }
    }
    Vec::new()
}

/// The meta page LMDB would begin with; LMDB wants both to be meta pages.
fn newest_meta(file: &File) -> std::result::Result<Meta, String> {
    let (first, second) = (meta(file, 0)?, meta(file, 1)?);
    // Commits write them in turn. Where the older one claims to be newer, the last commit would be gone.
    let in_turn = first.txn % 2 == 0 && second.txn % 2 == 1 && first.txn.abs_diff(second.txn) == 1;
    if !in_turn && (first.txn, second.txn) != (0, 0) {
        let (first, second) = (first.txn, second.txn);
        return Err(format!("the meta pages are of commits {first} and {second}, not in turn"));
    }
    Ok(if first.txn < second.txn { second } else { first })
}

fn meta(file: &File, number: u64) -> std::result::Result<Meta, String> {
    let page = read_page(file, number).ok_or_else(|| format!("meta page {number} is cut off"))?;
    Meta::parse(&page).ok_or_else(|| format!("meta page {number} is damaged"))
}

fn read_page(file: &File, number: u64) -> Option<Vec<u8>> {
    let mut page = vec![0; PAGE];
    let offset = number.checked_mul(PAGE as u64)?;
    file.read_exact_at(&mut page, offset).ok()?;
    Some(page)
}

fn check_state(file: &File, meta: &Meta, bytes: u64) -> Vec<String> {
    let pages = bytes / PAGE as u64;
    if meta.last_page < 1 || meta.last_page >= pages || meta.map_bytes > bytes {
        return vec![format!("the meta page speaks of {} pages of {pages}", meta.last_page + 1)];
    }
    let mut nobody = Nobody;
    let mut walk = Walk::new(file, meta, &mut nobody);
    walk.tree(&meta.free, Keys::Numbers);
    walk.tree(&meta.main, Keys::Bytes);
    walk.problems.truncate(PROBLEMS_MAX);
    walk.problems
}
