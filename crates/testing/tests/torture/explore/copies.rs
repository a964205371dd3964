//! Copies of pools, in which all processes that had the original open are dead.
use super::changes::Plan;
use super::content::{Item, NONE, all_items, number_of, ordered};
use super::handles::{Handles, array_oid, kv_oid, path_of};
use crate::common::PAGE;
use esker::{Access, Wait};
use esker_store::{Salvage, Salvaged, SalvagedValue};
use esker_types::{ObjectId, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Text of an item that a salvage does not deliver.
pub(super) const NOT_SALVAGED: &str = "-";

/// Copies directories. Zero parts of files become holes.
pub(super) struct Copier {
    /// Buffer for a piece of a file. It is allocated once, since the kernel provides its pages one by one.
    buffer: Vec<u8>,
}

impl Copier {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; 64 * PAGE] }
    }

    /// Copies a directory with all below it.
    pub(super) fn copy(&mut self, from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("making a directory");
        copy_permissions(from, to);
        for entry in std::fs::read_dir(from).expect("listing") {
            let entry = entry.expect("listing");
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            match entry.file_type().expect("a type") {
                kind if kind.is_dir() => self.copy(&source, &target),
                kind if kind.is_file() => self.copy_file(&source, &target),
                kind => panic!("{}: {kind:?}", source.display()),
            }
        }
    }

    /// Copies a file with its permissions. Its holes stay holes.
    fn copy_file(&mut self, from: &Path, to: &Path) {
        let source = File::open(from).expect("opening");
        let target = File::create(to).expect("making a file");
        let len = source.metadata().expect("metadata").len();
        target.set_len(len).expect("setting the length");
        copy_permissions(from, to);
        let mut end = 0;
        while let Some(data) = next_data(&source, end, len) {
            for begin in data.clone().step_by(self.buffer.len()) {
                let part = begin..data.end.min(begin + self.buffer.len() as u64);
                self.copy_part(&source, &target, part);
            }
            end = data.end;
        }
    }

    /// Copies a part of a file, except for pages of zeros.
    fn copy_part(&mut self, source: &File, target: &File, part: Range<u64>) {
        let bytes = &mut self.buffer[..(part.end - part.start) as usize];
        source.read_exact_at(bytes, part.start).expect("reading");
        for (number, page) in bytes.chunks(PAGE).enumerate() {
            if page != &[0; PAGE][..page.len()] {
                let at = part.start + (number * PAGE) as u64;
                target.write_all_at(page, at).expect("writing");
            }
        }
    }
}

fn copy_permissions(from: &Path, to: &Path) {
    let metadata = from.metadata().unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    std::fs::set_permissions(to, metadata.permissions()).expect("setting permissions");
}

/// The first range of a file from `begin` on that is not a hole.
fn next_data(file: &File, begin: u64, len: u64) -> Option<Range<u64>> {
    let seek = |from: u64, what| {
        // SAFETY: moves the position of an open descriptor; there are no pointers.
        let found = unsafe { libc::lseek(file.as_raw_fd(), from.cast_signed(), what) };
        u64::try_from(found).ok()
    };
    let start = seek(begin, libc::SEEK_DATA).filter(|start| *start < len)?;
    Some(start..seek(start, libc::SEEK_HOLE).unwrap_or(len))
}

/// Content of a copy: all items that were read and all that were salvaged, both in the order of the turn.
pub(super) struct Found {
    pub(super) read: Vec<(Item, String)>,
    pub(super) salvaged: Vec<(Item, String)>,
}

/// Checks a copy: it is salvaged, opened, read, checked and written. `puts` has the number of the last acknowledged put
/// of other writers, and of the last one that was begun.
pub(super) fn check(plan: Plan, home: &Path, turn: u64, puts: [u64; 2]) -> Result<Found> {
    let over_nodes = plan.kind.is_over_nodes();
    let salvaged = salvage(plan, home, turn)?;
    if turn.is_multiple_of(2) {
        expect_sound(plan, home, "before it is opened");
    }
    let read = {
        let handles = Handles::open(home, over_nodes)?;
        let read = handles.read_all(turn, true)?;
        let last = handles.last_elsewhere()?;
        assert!((puts[0]..=puts[1]).contains(&last), "the last put is {last}, not one of {puts:?}");
        expect_abandoned(plan, &handles)?;
        read
    };
    expect_sound(plan, home, "after it was opened");
    expect_writable(plan, home, turn, puts[1] + 1, &read)?;
    expect_sound(plan, home, "after it was written");
    Ok(Found { read, salvaged })
}

/// The pools in a directory.
fn pools(plan: Plan, home: &Path) -> Vec<PathBuf> {
    (0..=u32::from(plan.kind.is_over_nodes())).map(|node| path_of(home, node)).collect()
}

/// Checks the pools, which no process has open.
pub(super) fn expect_sound(plan: Plan, home: &Path, when: &str) {
    for pool in pools(plan, home) {
        let report = esker_store::Pool::check(&pool, false, &mut |_, _| {}).expect("checking");
        assert!(report.problems.is_empty(), "{when}: {:?}", report.problems);
        assert!(report.lost_bytes == 0, "{when}: {report:?}");
    }
}

/// Expects that no process has a lease.
pub(super) fn expect_abandoned(plan: Plan, handles: &Handles) -> Result<()> {
    if !plan.kind.is_over_nodes() {
        let object = handles.one().kvs[2].object();
        assert!(!object.unlink_on_last_close().wait()?, "a dead process has a lease");
    }
    Ok(())
}

/// Writes to all targets, and expects that nothing else changes.
fn expect_writable(
    plan: Plan,
    home: &Path,
    turn: u64,
    number: u64,
    before: &[(Item, String)],
) -> Result<()> {
    let handles = Handles::open(home, plan.kind.is_over_nodes())?;
    for number in number..number + 3 {
        handles.put_elsewhere(number)?;
        let last = handles.last_elsewhere()?;
        assert_eq!(last, number, "a put was acknowledged");
    }
    if !plan.kind.is_over_nodes() {
        let opened = handles.one();
        opened.container.transact(10, |transaction| {
            let put = |kv: &esker::Kv| {
                super::handles::put(kv, b"copy", number, 50, Access::Tx(transaction))
            };
            opened.others.iter().try_for_each(put)
        })?;
    }
    assert_eq!(handles.read_all(turn, true)?, before, "the same as before the writes");
    Ok(())
}

/// Numbers by object and dkey.
type Numbers = BTreeMap<(ObjectId, Vec<u8>), String>;

/// The items that a salvage delivers.
fn salvage(plan: Plan, home: &Path, turn: u64) -> Result<Vec<(Item, String)>> {
    let found =
        pools(plan, home).iter().map(|pool| salvage_pool(pool)).collect::<Result<Vec<_>>>()?;
    let text = |item| salvaged_text(&found, item);
    let items = ordered(all_items(plan.kind.is_over_nodes()), turn).into_iter();
    Ok(items.map(|item| (item, text(item))).collect())
}

/// The text of an item, from the numbers that were salvaged from each pool.
fn salvaged_text(found: &[Numbers], item: Item) -> String {
    let get = |oid: ObjectId, key: &[u8]| {
        let number = found[0].get(&(oid, key.to_vec()));
        number.cloned().unwrap_or_else(|| NONE.to_owned())
    };
    // Dkey 0 of an array has its attributes.
    let chunk = |number: u64, chunk: u64| get(array_oid(number), &(chunk + 1).to_ne_bytes());
    match item {
        Item::Small(target) => get(kv_oid(target), b"small"),
        Item::Large(target) => get(kv_oid(target), b"large"),
        Item::Added(target) => get(kv_oid(target), b"added"),
        Item::Chunk(target) => chunk(1, target.into()),
        Item::New => chunk(2, 0),
        Item::Number(node) => {
            // Other writers put larger numbers.
            let own = found[node as usize].values().find(|number| number.len() < 3);
            own.cloned().unwrap_or_else(|| NONE.to_owned())
        }
        _ => NOT_SALVAGED.to_owned(),
    }
}

/// The numbers that a salvage of one pool delivers.
fn salvage_pool(pool: &Path) -> Result<Numbers> {
    let mut bytes: BTreeMap<_, Vec<u8>> = BTreeMap::new();
    let mut receive = |found: Salvaged<'_>| {
        let all = bytes.entry((found.oid, found.dkey.to_vec())).or_default();
        match found.value {
            SalvagedValue::Single(value) => all.extend_from_slice(value),
            SalvagedValue::Array { bytes, .. } => all.extend_from_slice(bytes),
        }
        Ok(())
    };
    Salvage::open(pool)?.visit(&mut receive, &mut |_, _| {})?;
    Ok(bytes.into_iter().map(|(position, bytes)| (position, number_of(&bytes))).collect())
}
