//! Containers with all kinds of content, and a listing of everything in a container for comparisons.
#![allow(dead_code, reason = "each test file uses a part of it")]

use esker::types::info::{Durability, OpenMode};
use esker::types::ops::{AkeyRef, Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value};
use esker::types::{Checksum, Extent, ObjectClass, ObjectId, ObjectType};
use esker::{Access, ArrayAttributes, Container, Native, Pool, PosixPool, Wait};
use esker_backend::NewContainer;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The URL of a Ceph pool for tests; tests that need it are skipped if it is not set.
pub(crate) const RADOS: &str = "ESKER_TEST_RADOS";

/// The URL of a pool of a DAOS system for tests; tests that need it are skipped if it is not set.
pub(crate) const DAOS: &str = "ESKER_TEST_DAOS";

/// Too long to be stored in the index.
static LONG_KEY: [u8; 20_000] = [b'k'; 20_000];

/// A directory for pools, removed when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let path = base.join(format!("esker-copy-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Opens a pool of this folder again, as another process does. It must be `native` or `posix`.
    pub(crate) fn open_again(&self, pool: &Pool) -> Pool {
        let path = self.0.join(pool.info().wait().unwrap().label);
        let scheme = if pool.capabilities().snapshots { "esker" } else { "posix" };
        Pool::connect(&format!("{scheme}:{}", path.display()), OpenMode::ReadWrite).unwrap()
    }

    /// A new pool: `memory`, `native`, `posix` or `rados`; or that of a DAOS system, emptied: `daos`.
    pub(crate) fn pool(&self, sort: &str) -> Pool {
        let label = format!("pool{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let path = self.0.join(&label);
        match sort {
            "native" => {
                let mut spec = esker_store::PoolSpec::new(&label, 160 << 20);
                (spec.targets, spec.segment_bytes) = (Some(3), Some(8 << 20));
                spec.durability = Some(Durability::Process);
                esker_store::Pool::create(&self.0, &spec, &mut |_, _| {}).unwrap();
                let native = Native::open(&path, OpenMode::ReadWrite).unwrap();
                Pool::from_backend(Arc::new(native), OpenMode::ReadWrite)
            }
            "posix" => {
                PosixPool::create(&path, false).unwrap();
                let url = format!("posix:{}", path.display());
                Pool::connect(&url, OpenMode::ReadWrite).unwrap()
            }
            "rados" => {
                let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
                let url = std::env::var(RADOS).unwrap();
                let join = if url.contains('?') { '&' } else { '?' };
                let name =
                    format!("{url}{join}namespace=copy-{}-{nanos}-{label}", std::process::id());
                Pool::connect(&name, OpenMode::ReadWrite).unwrap()
            }
            "daos" => {
                let pool =
                    Pool::connect(&std::env::var(DAOS).unwrap(), OpenMode::ReadWrite).unwrap();
                for old in pool.containers().wait().unwrap() {
                    pool.destroy_container(&old.uuid.to_string(), true).wait().unwrap();
                }
                pool
            }
            _ => {
                let name = format!("memory:copy-{}-{label}", std::process::id());
                Pool::connect(&name, OpenMode::ReadWrite).unwrap()
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A new container with a checksum, a property and a first object id of its own.
pub(crate) fn container(pool: &Pool, label: &str) -> Container {
    let new = NewContainer::named(label)
        .with_checksum(Checksum::Crc64)
        .with_metadata(&[("prop:layout", b"of the test")])
        .with_first_oid(10);
    pool.create_container(&new).wait().unwrap();
    pool.open_container(label, OpenMode::ReadWrite).wait().unwrap()
}

/// The id of an object of one target with this number.
pub(crate) fn oid(container: &Container, number: u64, otype: ObjectType) -> ObjectId {
    container.generate_oid(7, number, otype, Some(ObjectClass::S1), 0).unwrap()
}

/// Content that every backend supports.
pub(crate) fn fill(container: &Container) {
    container.attributes().set("owner", b"me").wait().unwrap();
    container.allocate_oids(500).wait().unwrap();
    let kv = container.kv(oid(container, 1, ObjectType::KvHashed)).unwrap();
    for number in 0..700u32 {
        let value = vec![number as u8; number as usize * 3 % 2000];
        kv.put(format!("key {number}").as_bytes(), &value, Cond::NONE, Access::Latest)
            .wait()
            .unwrap();
    }
    kv.put(b"largest", &vec![7; 4 << 20], Cond::NONE, Access::Latest).wait().unwrap();
    kv.put(&LONG_KEY, b"of a long key", Cond::NONE, Access::Latest).wait().unwrap();
    for number in 2..40 {
        let kv = container.kv(oid(container, number, ObjectType::KvInteger)).unwrap();
        kv.put(&number.to_ne_bytes(), b"", Cond::NONE, Access::Latest).wait().unwrap();
    }
    let shape = ArrayAttributes { cell_size: 8, chunk_size: 1000 };
    let array = oid(container, 50, ObjectType::Array);
    let array = container.create_array(array, shape, Access::Latest).wait().unwrap();
    let cells: Vec<u8> = (0..88_000u32).map(|number| (number / 7) as u8).collect();
    array.write(&[Extent::new(0, 11_000)], Source::One(&cells), Access::Latest).wait().unwrap();
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 9 << 20 };
    let array = oid(container, 51, ObjectType::ArrayByte);
    let array = container.open_array_with_attributes(array, shape).unwrap();
    let cells = vec![5; 11 << 20];
    let range = [Extent::new(0, cells.len() as u64)];
    array.write(&range, Source::One(&cells), Access::Latest).wait().unwrap();
    general(container, 60, 600);
}

/// An object with many akeys, and with records in several extents.
fn general(container: &Container, number: u64, akeys: u32) {
    let object = container.object(oid(container, number, ObjectType::MultiHashed));
    let names: Vec<_> = (0..akeys).map(|akey| format!("akey {akey}")).collect();
    let singles = names.iter().map(|name| Update {
        akey: name.as_bytes(),
        value: Value::Single(Source::One(name.as_bytes())),
        cond: Cond::NONE,
    });
    let singles: Vec<_> = singles.collect();
    object.update(b"dkey", Cond::NONE, &singles, Access::Latest).wait().unwrap();
    let value = Value::Array {
        record_size: 3,
        extents: &[Extent::new(4, 2), Extent::new(1 << 40, 1)],
        data: Source::One(b"abcdefghi"),
    };
    let updates = [b"records", &LONG_KEY[..]].map(|akey| Update { akey, value, cond: Cond::NONE });
    object.update(b"dkey", Cond::NONE, &updates, Access::Latest).wait().unwrap();
    object.update(&LONG_KEY, Cond::NONE, &updates, Access::Latest).wait().unwrap();
}

/// Creates an array with a hole.
pub(crate) fn holey(container: &Container, otype: ObjectType) {
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 100 };
    let array = match otype {
        ObjectType::Array => {
            container.create_array(oid(container, 70, otype), shape, Access::Latest).wait()
        }
        _ => container.open_array_with_attributes(oid(container, 70, otype), shape),
    };
    let ranges = [Extent::new(10, 5), Extent::new(350, 1)];
    array.unwrap().write(&ranges, Source::One(b"abcdef"), Access::Latest).wait().unwrap();
}

/// Position of a value: object, dkey, akey, and the record if it belongs to an array.
type ValuePosition = (ObjectId, Vec<u8>, Vec<u8>, Option<u64>);

/// Everything in a container. An array has an element for each run of adjacent records.
pub(crate) fn all(container: &Container) -> BTreeMap<ValuePosition, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        for oid in container.list_objects(&mut anchor, 7, Access::Latest).wait().unwrap() {
            of_object(container, oid, &mut found);
        }
    }
    found
}

/// Adds all values of an object to `found`.
fn of_object(container: &Container, oid: ObjectId, found: &mut BTreeMap<ValuePosition, Vec<u8>>) {
    let object = container.object(oid);
    let mut dkeys = Anchor::Start;
    while !dkeys.is_end() {
        let limit = ListLimit::entries(10);
        for dkey in object.list_dkeys(&mut dkeys, limit, Access::Latest).wait().unwrap().iter() {
            let mut akeys = Anchor::Start;
            while !akeys.is_end() {
                let batch = object.list_akeys(dkey, &mut akeys, limit, Access::Latest);
                for akey in batch.wait().unwrap().iter() {
                    of_akey(&object, dkey, akey, found);
                }
            }
        }
    }
}

/// Adds the value or the records of an akey to `found`. Adjacent extents are joined, because backends split arrays into
/// extents differently.
fn of_akey(
    object: &esker::Object,
    dkey: &[u8],
    akey: &[u8],
    found: &mut BTreeMap<ValuePosition, Vec<u8>>,
) {
    let position = |record| (object.oid(), dkey.to_vec(), akey.to_vec(), record);
    let key = AkeyRef { dkey, akey };
    let mut anchor = Anchor::Start;
    let mut run: Option<(Extent, Vec<u8>)> = None;
    while !anchor.is_end() {
        for stored in object.list_extents(key, &mut anchor, 5, Access::Latest).wait().unwrap() {
            let extents = [stored.extent];
            let mut bytes = vec![0; (stored.extent.count * stored.record_size) as usize];
            let sink = Sink::One(&mut bytes);
            let mut fetch = [Fetch::array(akey, stored.record_size, &extents, sink)];
            object.fetch(dkey, Cond::NONE, &mut fetch, Access::Latest).wait().unwrap();
            match &mut run {
                Some((extent, so_far)) if extent.end() == stored.extent.start => {
                    extent.count += stored.extent.count;
                    so_far.extend(bytes);
                }
                _ => {
                    if let Some((extent, bytes)) = run.replace((stored.extent, bytes)) {
                        found.insert(position(Some(extent.start)), bytes);
                    }
                }
            }
        }
    }
    match run {
        Some((extent, bytes)) => found.insert(position(Some(extent.start)), bytes),
        None => {
            let mut fetch = [Fetch::single(akey, Sink::None)];
            object.fetch(dkey, Cond::NONE, &mut fetch, Access::Latest).wait().unwrap();
            let mut value = vec![0; fetch[0].reply.size as usize];
            let mut fetch = [Fetch::single(akey, Sink::One(&mut value))];
            object.fetch(dkey, Cond::NONE, &mut fetch, Access::Latest).wait().unwrap();
            found.insert(position(None), value)
        }
    };
}
