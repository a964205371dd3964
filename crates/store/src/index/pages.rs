//! Verifies the pages of an index before LMDB uses them: LMDB trusts the fields of a damaged page.
//!
//! It knows the page format of LMDB (mdb.master on 64-bit machines): a header of 16 bytes, offsets of nodes, free
//! space, nodes. It reads files with ordinary I/O, trusts no field, and stops at a page that it cannot follow.
mod damaged_index;
mod page;
mod tree;

use super::lmdb::DATA;
use crate::format::superblock::{PAGE, Superblock};
use crate::format::{record, superblock};
use crate::io::folder::{Folder, Use, missing_part_error};
pub(crate) use damaged_index::{DamagedIndex, Finding};
use esker_types::{Error, ErrorKind, Result};
use page::Meta;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
pub(crate) use tree::Gap;
use tree::{Keys, Visit, Walk};

/// Number of attempts to read a file that other processes change during the walk.
const ATTEMPTS: u32 = 5;

/// Maximum number of problems reported per index.
const PROBLEMS_MAX: usize = 16;

/// Damage found in indexes, one message each.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Damaged pages, which LMDB must not follow.
    pub(crate) pages: Vec<String>,
    /// Records on sound pages that do not match their checksums.
    pub(crate) records: Vec<String>,
    /// Targets whose index other processes changed during each attempt. Damage in it was not reported.
    pub(crate) unproven: Vec<u32>,
}

/// How an index is verified.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    /// Also verify the checksums of records.
    checksums: bool,
    /// The caller has a read transaction on the index, so that no page of a newer state is reused.
    is_pinned: bool,
}

/// Verifies the index files of all targets of a pool, several in parallel. With `checksums`, it also verifies records.
pub(crate) fn check_all(pool: &Folder, checksums: bool) -> Result<Damage> {
    let plan = Plan { checksums, ..Plan::default() };
    let superblock = Superblock::read_in(pool)?;
    let (next, found) = (AtomicU32::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(number) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < superblock.targets)
        {
            let checked = check_target(pool, &superblock, number, plan);
            found.lock().unwrap_or_else(PoisonError::into_inner).insert(number, checked);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 1..threads.min(superblock.targets as usize) {
            // If no thread can be started, this one does all the work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut damage = Damage::default();
    for checked in found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        let Damage { pages, records, unproven } = checked?;
        damage.pages.extend(pages);
        damage.records.extend(records);
        damage.unproven.extend(unproven);
    }
    Ok(damage)
}

/// Verifies the index file of target `number`, which has a read transaction until this returns. Returns the damaged pages.
pub(crate) fn check_pinned(pool: &Folder, number: u32) -> Result<Vec<String>> {
    let plan = Plan { is_pinned: true, ..Plan::default() };
    let found = check_target(pool, &Superblock::read_in(pool)?, number, plan)?;
    if found.unproven.is_empty() {
        return Ok(found.pages);
    }
    let message = format!("the index of target {number} changes too fast to be checked: repeat it");
    Err(Error::new(ErrorKind::Busy, message))
}

/// Verifies the index file of one target. The messages name the target.
fn check_target(pool: &Folder, superblock: &Superblock, number: u32, plan: Plan) -> Result<Damage> {
    let mode = superblock.directory_permissions_max();
    let target = pool.folder(&superblock::target_name(number), mode);
    let index = target.and_then(|target| target.folder(superblock::INDEX, mode));
    let file = index.and_then(|index| index.file(DATA, Use::Read, superblock.file_permissions()));
    let file = file.map_err(missing_part_error)?;
    let bytes = superblock.index_file_bytes();
    let Some(found) = check(&file, bytes, plan) else {
        return Ok(Damage { unproven: vec![number], ..Damage::default() });
    };
    let tell = |trouble: String| format!("target {number}, index: {trouble}");
    let pages = truncation_problem(&file, bytes).into_iter().chain(found.pages);
    let pages = pages.map(tell).collect();
    let records = found.records.into_iter().map(tell).collect();
    Ok(Damage { pages, records, ..Damage::default() })
}

/// Describes an index file that is shorter than `wanted` bytes; `None` if it is long enough.
fn truncation_problem(file: &File, wanted: u64) -> Option<String> {
    let found = file.metadata().map_or(0, |info| info.len());
    (found < wanted).then(|| format!("{found} bytes of {wanted} are there"))
}

/// Verifies an index file that must have `bytes` bytes. If it is not pinned, concurrent commits may reuse pages during
/// the walk, so damage counts only if the newest meta page was the same before and after. `None` if it changed during each
/// attempt.
fn check(file: &File, bytes: u64, plan: Plan) -> Option<Damage> {
    for _ in 0..ATTEMPTS {
        let before = newest_meta(file);
        let damage = match &before {
            Ok(meta) => check_state(file, meta, bytes, plan.checksums),
            Err(trouble) => Damage { pages: vec![trouble.clone()], ..Damage::default() },
        };
        let is_sound = damage.pages.is_empty() && damage.records.is_empty();
        let is_pinned = plan.is_pinned && before.is_ok();
        if is_sound || is_pinned || newest_meta(file) == before {
            return Some(damage);
        }
    }
    None
}

/// The meta page that LMDB would use. LMDB requires both meta pages to be valid.
fn newest_meta(file: &File) -> std::result::Result<Meta, String> {
    let (first, second) = (meta(file, 0)?, meta(file, 1)?);
    // Commits write the two meta pages alternately. If the older one claims to be newer, the last commit would be lost.
    let in_turn = first.txn % 2 == 0 && second.txn % 2 == 1 && first.txn.abs_diff(second.txn) == 1;
    if !in_turn && (first.txn, second.txn) != (0, 0) {
        let (first, second) = (first.txn, second.txn);
        return Err(format!(
            "the meta pages have transactions {first} and {second}, which do not alternate"
        ));
    }
    Ok(if first.txn < second.txn { second } else { first })
}

fn meta(file: &File, number: u64) -> std::result::Result<Meta, String> {
    let page = read_page(file, number).ok_or_else(|| format!("meta page {number} is cut off"))?;
    Meta::parse(&page).ok_or_else(|| format!("meta page {number} is damaged"))
}

/// Reads a page; `None` if the file does not have it.
fn read_page(file: &File, number: u64) -> Option<Vec<u8>> {
    let mut page = vec![0; PAGE];
    let offset = number.checked_mul(PAGE as u64)?;
    file.read_exact_at(&mut page, offset).ok()?;
    Some(page)
}

/// Verifies the state of a meta page: the tree of free pages, then the tree of entries.
fn check_state(file: &File, meta: &Meta, bytes: u64, checksums: bool) -> Damage {
    let (pages, mut checksums) =
        (bytes / PAGE as u64, Checksums { wanted: checksums, broken: Vec::new() });
    if meta.last_page < 1 || meta.last_page >= pages || meta.map_bytes > bytes {
        let trouble = format!("the meta page refers to {} pages of {pages}", meta.last_page + 1);
        return Damage { pages: vec![trouble], ..Damage::default() };
    }
    let mut walk = Walk::new(file, meta, &mut checksums);
    walk.tree(&meta.free, Keys::Numbers);
    walk.tree(&meta.main, Keys::Bytes);
    let pages = walk.problems;
    Damage { pages, records: checksums.broken, ..Damage::default() }
}

/// Verifies the checksums of records, if `wanted`.
struct Checksums {
    wanted: bool,
    broken: Vec<String>,
}

impl Visit for Checksums {
    fn wants(&self, key: &[u8]) -> bool {
        self.wanted && record::is_record(key)
    }

    fn entry(&mut self, key: &[u8], value: Option<&[u8]>) {
        let value = value.filter(|_| self.wants(key) && self.broken.len() < PROBLEMS_MAX);
        if value.is_some_and(|value| !record::checksum_matches(key, value)) {
            self.broken.push(format!("{}: its record is damaged", record::object_of(key)));
        }
    }

    fn gap(&mut self, _: Gap) {}
}

#[cfg(test)]
mod tests {
    use super::page::{Content, PageKind};
    use super::*;
    use crate::index::lmdb::{Index, Mode};
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    const BYTES: u64 = 4 << 20;

    /// A random index in a temporary directory.
    struct Sample(PathBuf);

    impl Sample {
        fn new(name: &str, mode: Mode, keys: u64) -> Self {
            let path =
                std::env::temp_dir().join(format!("esker-pages-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            let sample = Self(path);
            sample.grow(mode, keys);
            sample
        }

        /// Puts `keys` keys with values of different lengths in 20 commits, and removes some of them.
        fn grow(&self, mode: Mode, keys: u64) {
            let folder = Folder::open(&self.0).unwrap();
            let _ = folder.create(DATA, 0o600);
            let index = Index::open(&folder, BYTES, mode, 0o600, None).unwrap();
            File::options().write(true).open(self.file()).unwrap().set_len(BYTES).unwrap();
            for step in 0..20 {
                let mut txn = index.write_alone().unwrap();
                for key in (0..keys).filter(|key| key % 20 == step) {
                    let name = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                    let len = (key % 7 * 100 + u64::from(key % 50 == 0) * 9000) as usize;
                    txn.put(&name[..1 + key as usize % 8], &vec![7; len]).unwrap();
                    if key % 3 == 0 {
                        txn.delete(&name).unwrap();
                    }
                }
                txn.commit().unwrap();
            }
        }

        fn file(&self) -> PathBuf {
            self.0.join("data.mdb")
        }

        fn problems(&self) -> Vec<String> {
            check(&File::open(self.file()).unwrap(), BYTES, Plan::default()).unwrap().pages
        }
    }

    impl Drop for Sample {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn undamaged_indexes_pass_the_check() {
        for (name, mode) in [("m", Mode::Mapped), ("g", Mode::Guarded), ("s", Mode::Synced)] {
            for keys in [0, 1, 10, 2000] {
                let sample = Sample::new(&format!("sound-{name}-{keys}"), mode, keys);
                assert_eq!(sample.problems(), [""; 0], "{mode:?}, {keys} keys");
                sample.grow(mode, keys / 2);
                assert_eq!(sample.problems(), [""; 0], "{mode:?}, {keys} keys, again");
            }
        }
    }

    /// Sets a flag when it is dropped, also by a panic.
    struct AtEnd<'a>(&'a AtomicBool);

    impl Drop for AtEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Without a pinned state, damage counts only if nobody commits meanwhile.
    #[test]
    fn damage_is_found_while_others_commit() {
        let sample = Sample::new("commits", Mode::Guarded, 2000);
        let folder = Folder::open(&sample.0).unwrap();
        let index = Index::open(&folder, BYTES, Mode::Guarded, 0o600, None).unwrap();
        let file = File::options().read(true).write(true).open(sample.file()).unwrap();
        let meta = newest_meta(&file).unwrap();
        // The writer below puts keys that begin with 0xff, at the end of the tree. The damaged page is at its start.
        file.write_all_at(&[0xee; 16], first_leaf(&file, &meta) * PAGE as u64).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut count = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    let mut txn = index.write_alone().unwrap();
                    let put = txn.put(b"\xffnew", &count.to_ne_bytes());
                    // The index may be full while a state is pinned.
                    let _ = put.and_then(|()| txn.commit());
                    count += 1;
                }
            });
            let plan = Plan { is_pinned: true, ..Plan::default() };
            let find = |_| {
                let _pin = index.read().unwrap();
                check(&file, BYTES, plan).unwrap()
            };
            let _stop = AtEnd(&is_over);
            let found: Vec<_> = (0..100).map(find).collect();
            assert!(found.iter().all(|damage| damage.pages.len() == 1), "{found:?}");
        });
    }

    /// Number of the page with the first entries.
    fn first_leaf(file: &File, meta: &Meta) -> u64 {
        (1..meta.main.depth).fold(meta.main.root.unwrap(), |number, _| {
            let page = read_page(file, number).unwrap();
            let nodes = page::nodes(&page, number, PageKind::Branch).unwrap();
            match nodes[0].content {
                Content::Child(child) => child,
                _ => panic!("page {number} is not a branch"),
            }
        })
    }

    /// Bytes 8 and 9 of a page are unused, so they are left out.
    #[test]
    fn damage_is_found_or_harmless() {
        let sample = Sample::new("damage", Mode::Guarded, 2000);
        let sound = std::fs::read(sample.file()).unwrap();
        let meta = newest_meta(&File::open(sample.file()).unwrap()).unwrap();
        let root = meta.main.root.unwrap() as usize * PAGE;
        // Corrupts the header of the root page and its list of offsets, byte by byte.
        for at in (root..root + 30).filter(|at| !(root + 8..root + 10).contains(at)) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x41;
            std::fs::write(sample.file(), &bytes).unwrap();
            let found = sample.problems();
            // Flags that LMDB uses only in memory do not matter in the file.
            let passing = (root + 10..root + 12).contains(&at) && found.is_empty();
            assert!(!found.is_empty() || passing, "byte {} of the root page unnoticed", at - root);
        }
    }

    #[test]
    fn random_damage_is_reported_without_panic() {
        let sample = Sample::new("random", Mode::Guarded, 2000);
        let sound = std::fs::read(sample.file()).unwrap();
        let mut word = 0x1234_5678_9abc_def1_u64;
        let mut draw = |below: usize| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            (word % below as u64) as usize
        };
        let used =
            newest_meta(&File::open(sample.file()).unwrap()).unwrap().last_page as usize * PAGE;
        for _ in 0..300 {
            let mut bytes = sound.clone();
            for _ in 0..1 + draw(64) {
                let at = draw(used);
                bytes[at] = draw(256) as u8;
            }
            let (from, len) = (draw(used), draw(5000));
            bytes[from..from + len].fill(draw(256) as u8);
            std::fs::write(sample.file(), &bytes).unwrap();
            sample.problems();
        }
        std::fs::write(sample.file(), &sound[..PAGE]).unwrap();
        assert_eq!(sample.problems().len(), 1);
        std::fs::write(sample.file(), vec![0xff; 9 * PAGE]).unwrap();
        assert_eq!(sample.problems().len(), 1);
    }

    /// LMDB trusts the length in a node.
    #[test]
    fn values_longer_than_their_page_are_refused() {
        for mode in [Mode::Mapped, Mode::Guarded] {
            let sample = Sample::new(&format!("lengths-{mode:?}"), mode, 0);
            let index =
                Index::open(&Folder::open(&sample.0).unwrap(), BYTES, mode, 0o600, None).unwrap();
            let mut txn = index.write_alone().unwrap();
            txn.put(b"short", &[7; 100]).unwrap();
            txn.put(b"long", &[8; 9000]).unwrap();
            txn.commit().unwrap();
            let read =
                |key: &[u8]| index.read().unwrap().get(key).map(|value| value.map(<[u8]>::len));
            assert_eq!((read(b"short"), read(b"long")), (Ok(Some(100)), Ok(Some(9000))));
            let bytes = std::fs::read(sample.file()).unwrap();
            for (key, most) in [(&b"short"[..], PAGE), (b"long", 3 * PAGE - 16)] {
                // The last copy of the node is the one in use.
                let found = bytes.windows(key.len()).rposition(|bytes| bytes == key).unwrap();
                let file = File::options().write(true).open(sample.file()).unwrap();
                let claim = |len: usize| {
                    let (low, high) =
                        ((len as u16).to_ne_bytes(), ((len >> 16) as u16).to_ne_bytes());
                    file.write_all_at(&[low, high].concat(), found as u64 - 8).unwrap();
                    read(key)
                };
                if key == b"long" {
                    assert_eq!(claim(most), Ok(Some(most)), "it has three pages");
                }
                for len in [most + 1, 1 << 20, BYTES as usize] {
                    assert_eq!(
                        claim(len).map_err(|error| error.kind()),
                        Err(ErrorKind::Corrupt),
                        "{len}"
                    );
                }
            }
        }
    }
}
