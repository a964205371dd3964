//! Opened pools, and reading of their items.
use super::content::{
    CHUNK, Content, IN_DOUBT, Item, LABEL, LARGE_LEN, NONE, SMALL_LEN, TARGETS, all_items,
    number_of, ordered, value,
};
use crate::common;
use esker::backend::{NewContainer, Placement};
use esker::{Access, Array, ArrayAttributes, Container, Kv, Native, Pool, Wait};
use esker_conformance::parts::Parts;
use esker_types::info::{OpenMode, Part};
use esker_types::ops::{Anchor, Cond, ListLimit, ReadAt, Sink, Source};
use esker_types::{ErrorKind, Extent, ObjectClass, ObjectId, ObjectType, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory of the pool of a node, among those that make up one pool.
pub(super) fn path_of(home: &Path, node: u32) -> PathBuf {
    home.join(format!("pool{node}"))
}

/// The pools that a process has open.
pub(super) enum Handles {
    One(Box<Opened>),
    Nodes(Box<Parts>),
}

/// A pool of one node, and the objects in it.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) pool: Pool,
    pub(super) container: Container,
    /// A Key-Value on each target.
    pub(super) kvs: Vec<Kv>,
    /// Key-Values that the writer does not change, again one on each target.
    pub(super) others: Vec<Kv>,
    /// A Key-Value with many keys on target 1.
    pub(super) many: Kv,
    /// An array that exists, and one that does not exist at first. Chunks rotate over the targets.
    pub(super) array: Array,
    pub(super) new: Array,
}

/// First numbers of object ids, by use.
const KVS: u64 = 1000;
const OTHERS: u64 = 2000;
const MANY: u64 = 3000;
const ARRAYS: u64 = 4000;

/// Number of keys whose values are read, in the Key-Value with many keys.
const KEYS_READ: usize = 16;

/// An id of an object that is on one target.
pub(super) fn oid_on(target: u32, from: u64) -> ObjectId {
    let placement = Placement::new(TARGETS, Part::WHOLE);
    let oid = |lo| ObjectId::generate(0, lo, ObjectType::KvHashed, ObjectClass::S1);
    let mut all = (from..).map(oid);
    all.find(|oid| placement.first(*oid) == target).expect("an object on each target")
}

pub(super) fn kv_oid(target: u32) -> ObjectId {
    oid_on(target, KVS)
}

pub(super) fn array_oid(number: u64) -> ObjectId {
    let class = ObjectClass::SX.fit(TARGETS, 1).expect("a class");
    ObjectId::generate(0, ARRAYS + number, ObjectType::ArrayByte, class)
}

impl Opened {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let pool = common::try_open(path)?;
        let container = pool.open_container(LABEL, OpenMode::ReadWrite).wait()?;
        let on_each = |from| (0..TARGETS).map(move |target| oid_on(target, from));
        let kvs = on_each(KVS).map(|oid| container.kv(oid)).collect::<Result<_>>()?;
        let others = on_each(OTHERS).map(|oid| container.kv(oid)).collect::<Result<_>>()?;
        let many = container.kv(oid_on(1, MANY))?;
        let shape = ArrayAttributes { cell_size: 1, chunk_size: CHUNK };
        let open = |number| container.open_array_with_attributes(array_oid(number), shape);
        let (array, new) = (open(1)?, open(2)?);
        let path = path.to_owned();
        Ok(Self { path, pool, container, kvs, others, many, array, new })
    }

    /// Creates the container with the initial content.
    pub(super) fn fill(path: &Path) -> Result<Self> {
        let pool = common::try_open(path)?;
        pool.create_container(&NewContainer::named(LABEL)).wait()?;
        let opened = Self::open(path)?;
        for kv in &opened.kvs {
            put(kv, b"small", 1, SMALL_LEN, Access::Latest)?;
            put(kv, b"large", 1, LARGE_LEN, Access::Latest)?;
        }
        write(&opened.array, 1, Access::Latest)?;
        Ok(opened)
    }

    /// The text of an item.
    fn read(&self, item: Item) -> Result<String> {
        let get = |target: u32, key: &[u8]| number(&self.kvs[target as usize], key, Access::Latest);
        match item {
            Item::Small(target) => get(target, b"small"),
            Item::Large(target) => get(target, b"large"),
            Item::Added(target) => get(target, b"added"),
            Item::Keys(target) => {
                let keys = keys(&self.kvs[target as usize])?;
                Ok(keys
                    .iter()
                    .map(|key| String::from_utf8_lossy(key))
                    .collect::<Vec<_>>()
                    .join(" "))
            }
            Item::Chunk(target) => cells(&self.array, u64::from(target) * CHUNK, CHUNK),
            Item::Size => Ok(self.array.size(Access::Latest).wait()?.to_string()),
            Item::New => cells(&self.new, 0, CHUNK),
            Item::NewSize => Ok(self.new.size(Access::Latest).wait()?.to_string()),
            Item::Many => self.count_many(),
            Item::Containers => {
                let all = self.pool.containers().wait()?;
                Ok(all.iter().map(|info| info.label.as_str()).collect::<Vec<_>>().join(" "))
            }
            Item::Snapshots => Ok(self.container.snapshots().wait()?.len().to_string()),
            Item::Frozen => self.read_frozen(),
            Item::Number(_) => Ok(NONE.to_owned()),
        }
    }

    /// Counts the keys of the Key-Value with many. The last of them must have their values.
    fn count_many(&self) -> Result<String> {
        let keys = keys(&self.many)?;
        for key in keys.iter().rev().take(KEYS_READ) {
            let expected = u64::from_be_bytes(key.as_slice().try_into().expect("a number"));
            let found = number(&self.many, key, Access::Latest)?;
            if found != expected.to_string() {
                return Ok(format!("key {expected} is listed, its value is {found}"));
            }
        }
        Ok(keys.len().to_string())
    }

    /// The short value as of the last snapshot.
    fn read_frozen(&self) -> Result<String> {
        let snapshots = self.container.snapshots().wait()?;
        let Some(last) = snapshots.last() else { return Ok(NONE.to_owned()) };
        match number(&self.kvs[0], b"small", Access::Snapshot(last.epoch)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(NONE.to_owned()),
            read => read,
        }
    }
}

impl Handles {
    /// Opens the pools in a directory.
    pub(super) fn open(home: &Path, over_nodes: bool) -> Result<Self> {
        if !over_nodes {
            return Ok(Self::One(Box::new(Opened::open(&path_of(home, 0))?)));
        }
        Self::open_nodes(home).map(|parts| Self::Nodes(Box::new(parts)))
    }

    fn open_nodes(home: &Path) -> Result<Parts> {
        let pool = |node| Native::open(&path_of(home, node), OpenMode::ReadWrite).map(Arc::new);
        let origin = u64::from(std::process::id());
        Parts::open(vec![pool(0)?, pool(1)?], origin)
    }

    /// The pool, unless it is over nodes.
    pub(super) fn one(&self) -> &Opened {
        match self {
            Self::One(opened) => opened,
            Self::Nodes(_) => panic!("a pool of one node"),
        }
    }

    /// The pool over nodes.
    pub(super) fn nodes(&self) -> &Parts {
        match self {
            Self::Nodes(parts) => parts,
            Self::One(_) => panic!("a pool over nodes"),
        }
    }

    /// Reads all items in the order of `turn`. With `resolve`, commits in doubt are resolved first.
    pub(super) fn read_all(&self, turn: u64, resolve: bool) -> Result<Vec<(Item, String)>> {
        let over_nodes = matches!(self, Self::Nodes(_));
        let read = |item| self.read(item, resolve).map(|text| (item, text));
        ordered(all_items(over_nodes), turn).into_iter().map(read).collect()
    }

    fn read(&self, item: Item, resolve: bool) -> Result<String> {
        let (parts, node) = match (self, item) {
            (Self::One(opened), _) => return opened.read(item),
            (Self::Nodes(parts), Item::Number(node)) => (parts, node as usize),
            (Self::Nodes(_), _) => return Ok(NONE.to_owned()),
        };
        let read = match resolve {
            true => parts.get(node, 0, ReadAt::LATEST),
            false => parts.try_get(node, 0, ReadAt::LATEST),
        };
        match read {
            Err(error) if error.kind() == ErrorKind::InDoubt => Ok(IN_DOUBT.to_owned()),
            read => read.map(|number| number.to_string()),
        }
    }

    /// Puts a number under a key that the writer under test does not change.
    pub(super) fn put_elsewhere(&self, number: u64) -> Result<()> {
        match self {
            Self::One(opened) => {
                let kv = &opened.others[number as usize % opened.others.len()];
                put(kv, b"other", number, SMALL_LEN, Access::Latest)
            }
            Self::Nodes(parts) => parts.put(number as usize % 2, 1, number).map(drop),
        }
    }

    /// The largest number that has been put there.
    pub(super) fn last_elsewhere(&self) -> Result<u64> {
        match self {
            Self::One(opened) => {
                let last = opened.others.iter().map(|kv| number(kv, b"other", Access::Latest));
                let last = last.collect::<Result<Vec<_>>>()?;
                Ok(last.iter().filter_map(|text| text.parse().ok()).max().unwrap_or(0))
            }
            Self::Nodes(parts) => {
                let get = |node| parts.get(node, 1, ReadAt::LATEST);
                Ok(get(0)?.max(get(1)?))
            }
        }
    }
}

/// The items as a map.
pub(super) fn content_of(found: Vec<(Item, String)>) -> Content {
    found.into_iter().collect()
}

/// Puts a value of `len` bytes that has this number.
pub(super) fn put(kv: &Kv, key: &[u8], number: u64, len: usize, access: Access<'_>) -> Result<()> {
    kv.put(key, &value(number, len), Cond::NONE, access).wait()
}

/// Writes a number into each chunk of an array.
pub(super) fn write(array: &Array, number: u64, access: Access<'_>) -> Result<()> {
    let bytes = value(number, CHUNK as usize).repeat(TARGETS as usize);
    let range = [Extent::new(0, bytes.len() as u64)];
    array.write(&range, Source::One(&bytes), access).wait()
}

/// Writes a number into one chunk.
pub(super) fn write_chunk(array: &Array, chunk: u64, number: u64) -> Result<()> {
    let range = [Extent::new(chunk * CHUNK, CHUNK)];
    let bytes = value(number, CHUNK as usize);
    array.write(&range, Source::One(&bytes), Access::Latest).wait()
}

/// The number of a value as text, [`NONE`] if it does not exist.
pub(super) fn number(kv: &Kv, key: &[u8], access: Access<'_>) -> Result<String> {
    let found = kv.get(key, access).wait()?;
    Ok(found.map_or_else(|| NONE.to_owned(), |bytes| number_of(&bytes)))
}

/// The number in a part of an array as text, [`NONE`] if it has only zeros.
fn cells(array: &Array, start: u64, count: u64) -> Result<String> {
    let mut bytes = vec![0; count as usize];
    array
        .read_or_zero(&[Extent::new(start, count)], Sink::One(&mut bytes), Access::Latest)
        .wait()?;
    Ok(match number_of(&bytes) {
        zero if zero == "0" => NONE.to_owned(),
        number => number,
    })
}

/// All keys of a Key-Value, sorted.
fn keys(kv: &Kv) -> Result<Vec<Vec<u8>>> {
    let (mut anchor, mut found) = (Anchor::Start, Vec::new());
    while !anchor.is_end() {
        let batch = kv.list(&mut anchor, ListLimit::entries(1000), Access::Latest).wait()?;
        found.extend(batch.iter().map(<[u8]>::to_vec));
    }
    found.sort_unstable();
    Ok(found)
}
