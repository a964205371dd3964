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
use crate::{target, walk};
use esker_types::Result;
use page::Meta;
pub(crate) use remains::{Find, Remains};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
pub(crate) use tree::Gap;
use tree::{Keys, Visit, Walk};

/// Bytes of a page on machines whose own pages are that large; LMDB takes those of the machine.
pub(crate) const PAGE: usize = 4096;
/// Bytes of a page's header, also of the one in front of a value that has pages of its own.
pub(crate) const PAGE_HEADER: usize = 16;
/// Flag of a page that begins such a value.
pub(crate) const OVERFLOW: u16 = 0x04;

/// Times a file is looked at that others change meanwhile.
const ATTEMPTS: u32 = 5;

/// Problems named per index: the first ones tell what happened.
const PROBLEMS_MAX: usize = 16;

/// What is wrong with indexes, in words.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Pages, which LMDB must not follow.
    pub(crate) pages: Vec<String>,
    /// Records on sound pages that do not match their seals.
    pub(crate) records: Vec<String>,
}

/// Checks the index files of all targets of a pool, several at once; the seals of records, if asked.
pub(crate) fn check_all(pool: &Folder, seals: bool) -> Result<Damage> {
    let superblock = Superblock::read_in(pool)?;
    let (next, found) = (AtomicU32::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(number) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < superblock.targets)
        {
            let checked = check_target(pool, &superblock, number, seals);
            found.lock().unwrap_or_else(PoisonError::into_inner).insert(number, checked);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 1..threads.min(superblock.targets as usize) {
            // Where there is no thread to be had, this one does it all.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut damage = Damage::default();
    for checked in found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        let Damage { pages, records } = checked?;
        damage.pages.extend(pages);
        damage.records.extend(records);
    }
    Ok(damage)
}

fn check_target(
    pool: &Folder,
    superblock: &Superblock,
    number: u32,
    seals: bool,
) -> Result<Damage> {
    let mode = superblock.directory_permissions_max();
    let index = pool.folder(&target::name(number), mode)?.folder(target::INDEX, mode)?;
    let file = index.file(DATA, Use::Read, superblock.file_permissions())?;
    let bytes = superblock.index_file_bytes();
    let found = check(&file, bytes, seals);
    let tell = |trouble: String| format!("target {number}, index: {trouble}");
    let pages = cut_short(&file, bytes).into_iter().chain(found.pages);
    let pages = pages.map(tell).collect();
    Ok(Damage { pages, records: found.records.into_iter().map(tell).collect() })
}

/// Tells of an index file that lost bytes, needed ones or not.
fn cut_short(file: &File, wanted: u64) -> Option<String> {
    let found = file.metadata().map_or(0, |info| info.len());
    (found < wanted).then(|| format!("{found} bytes of {wanted} are there"))
}

/// What is wrong with one index file. Where others commit meanwhile, pages may be reused under our eyes:
/// then only what is wrong with a state that lasted is believed.
fn check(file: &File, bytes: u64, seals: bool) -> Damage {
    for _ in 0..ATTEMPTS {
        let before = newest_meta(file);
        let damage = match &before {
            Ok(meta) => check_state(file, meta, bytes, seals),
            Err(trouble) => Damage { pages: vec![trouble.clone()], ..Damage::default() },
        };
        let is_sound = damage.pages.is_empty() && damage.records.is_empty();
        if is_sound || newest_meta(file) == before {
            return damage;
        }
    }
    Damage::default()
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

fn check_state(file: &File, meta: &Meta, bytes: u64, seals: bool) -> Damage {
    let (pages, mut seals) = (bytes / PAGE as u64, Seals { wanted: seals, broken: Vec::new() });
    if meta.last_page < 1 || meta.last_page >= pages || meta.map_bytes > bytes {
        let trouble = format!("the meta page speaks of {} pages of {pages}", meta.last_page + 1);
        return Damage { pages: vec![trouble], ..Damage::default() };
    }
    let mut walk = Walk::new(file, meta, &mut seals);
    walk.tree(&meta.free, Keys::Numbers);
    walk.tree(&meta.main, Keys::Bytes);
    let pages = walk.problems;
    Damage { pages, records: seals.broken }
}

/// Compares records with their seals, where that is wanted.
struct Seals {
    wanted: bool,
    broken: Vec<String>,
}

impl Visit for Seals {
    fn wants(&self, key: &[u8]) -> bool {
        self.wanted && walk::is_record(key)
    }

    fn entry(&mut self, key: &[u8], value: Option<&[u8]>) {
        let value = value.filter(|_| self.wants(key) && self.broken.len() < PROBLEMS_MAX);
        if value.is_some_and(|value| !walk::is_sealed(key, value)) {
            self.broken.push(format!("{}: its record is damaged", walk::object_of(key)));
        }
    }

    fn gap(&mut self, _: Gap) {}
}
