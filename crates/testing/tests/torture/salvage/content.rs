//! A pool with all kinds of content, and a listing of everything in a pool.
use dfs::{Create, Dfs, Follow, MountOptions, NewDfs, Open};
use esker::backend::NewContainer;
use esker::{Access, ArrayAttributes, Container, Pool, Wait};
use esker_testing::Random;
use esker_types::info::{ContainerInfo, OpenMode};
use esker_types::ops::{AkeyRef, Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value};
use esker_types::{Checksum, Extent, ObjectId, ObjectType};
use std::collections::BTreeMap;

const ENTRIES: usize = 200;
const KEYS: u64 = 600;
const CELLS: u64 = 6000;
const FILES: u64 = 12;

/// The position of a value: the number of its container, object, dkey, akey, and the record if it belongs to an
/// array.
pub(super) type ValuePosition = (u32, ObjectId, Vec<u8>, Vec<u8>, Option<u64>);

/// All values of a pool, record by record.
pub(super) type Content = BTreeMap<ValuePosition, Vec<u8>>;

/// Creates a container with attributes, and opens it.
fn container(pool: &Pool, label: &str) -> Container {
    let new = NewContainer::named(label)
        .with_checksum(Checksum::Crc64)
        .with_metadata(&[("prop:layout", b"of the test")])
        .with_first_oid(10);
    pool.create_container(&new).wait().expect("making a container");
    pool.open_container(label, OpenMode::ReadWrite).wait().expect("opening a container")
}

/// The content of a file, determined by its number.
pub(super) fn file_of(number: u64) -> Vec<u8> {
    Random::new(number, 5).bytes(number as usize * 7001)
}

/// Fills a pool with so much that its index has branch pages.
pub(super) fn fill(pool: &Pool) {
    pool.attributes().set("site", b"here").wait().expect("an attribute");
    let run = container(pool, "run");
    run.attributes().set("owner", b"me").wait().expect("an attribute");
    run.allocate_oids(77).wait().expect("numbers");
    let oid = |number, otype| run.generate_oid(3, number, otype, None, 0).expect("an id");
    let kv = run.kv(oid(1, ObjectType::KvHashed)).expect("a Key-Value");
    for number in 0..KEYS {
        let len = if number % 60 == 0 { 70_000 } else { [0, 40, 300, 5000][number as usize % 4] };
        let value = Random::new(number, 1).bytes(len);
        kv.put(format!("key {number}").as_bytes(), &value, Cond::NONE, Access::Latest)
            .wait()
            .expect("putting");
    }
    for number in 0..20 {
        let key = vec![b'a' + number; 1000 + 500 * usize::from(number)];
        kv.put(&key, &[number; 40], Cond::NONE, Access::Latest).wait().expect("putting");
    }
    let shape = ArrayAttributes { cell_size: 16, chunk_size: 500 };
    let array = run.create_array(oid(2, ObjectType::Array), shape, Access::Latest).wait();
    let cells = Random::new(2, 2).bytes(CELLS as usize * 16);
    let range = [Extent::new(0, CELLS)];
    array
        .expect("an array")
        .write(&range, Source::One(&cells), Access::Latest)
        .wait()
        .expect("writing");
    levels(&run, oid(3, ObjectType::MultiHashed));
    let other = container(pool, "other");
    let kv = other.generate_oid(0, 1, ObjectType::KvInteger, None, 0).expect("an id");
    let kv = other.kv(kv).expect("a Key-Value");
    for number in 0..KEYS {
        kv.put(&number.to_ne_bytes(), b"short", Cond::NONE, Access::Latest)
            .wait()
            .expect("putting");
    }
    files(pool);
    settle(&run, oid(4, ObjectType::KvHashed));
}

/// Commits on each target without a change of content. Then each of the two meta pages of an index describes all of it:
/// if one is damaged, an earlier state has the same values.
fn settle(run: &Container, oid: ObjectId) {
    let kv = run.kv(oid).expect("a Key-Value");
    for key in (0..2).flat_map(|_| 0..ENTRIES) {
        let key = format!("settled {key}");
        kv.put(key.as_bytes(), b"same", Cond::NONE, Access::Latest).wait().expect("putting");
    }
}

/// An object with many akeys, an empty value and an array with a hole.
fn levels(run: &Container, oid: ObjectId) {
    let object = run.object(oid);
    let names: Vec<_> = (0..ENTRIES).map(|akey| format!("akey {akey}")).collect();
    let update = |akey, value| Update { akey, value, cond: Cond::NONE };
    let mut updates: Vec<_> = names
        .iter()
        .map(|name| update(name.as_bytes(), Value::Single(Source::One(name.as_bytes()))))
        .collect();
    updates.push(update(b"empty", Value::Single(Source::One(b""))));
    let extents = [Extent::new(4, 2), Extent::new(1 << 40, 1)];
    let data = Source::One(b"abcdefghi");
    updates.push(update(b"records", Value::Array { record_size: 3, extents: &extents, data }));
    for dkey in [&b"one"[..], b"two", b"three"] {
        object.update(dkey, Cond::NONE, &updates, Access::Latest).wait().expect("updating");
    }
}

/// Creates a file system with files of several lengths.
fn files(pool: &Pool) {
    let new = NewContainer::named("home");
    let dfs = NewDfs { chunk_size: 16 << 10, ..NewDfs::default() };
    Dfs::create_container(pool, &new, &dfs).expect("a namespace");
    let home = mount(pool);
    let folder = home.root().mkdir(b"folder", &Create::with_mode(0o755)).expect("a directory");
    for number in 0..FILES {
        let name = format!("file {number}");
        let node = folder.create(name.as_bytes(), &Create::with_mode(0o644)).expect("a file");
        let file = node.open(Open::BOTH).expect("opening");
        file.write_at(0, &file_of(number)).expect("writing");
        file.close().expect("closing");
    }
}

fn mount(pool: &Pool) -> Dfs {
    let home = pool.open_container("home", OpenMode::ReadWrite).wait().expect("opening");
    Dfs::mount(home, MountOptions::default()).expect("mounting")
}

/// Checks that the files exist with their content.
pub(super) fn expect_files(pool: &Pool) {
    let home = mount(pool);
    for number in 0..FILES {
        let path = format!("/folder/file {number}");
        let node = home.resolve(&home.root(), path.as_bytes(), Follow::All).expect("looking up");
        let file = node.open(Open::READ).expect("opening");
        let mut bytes = vec![0; file_of(number).len() + 1];
        let len = file.read_at(0, &mut bytes).expect("reading");
        assert!(bytes[..len] == file_of(number), "file {number}");
        file.close().expect("closing");
    }
}

/// Data of a container besides its objects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct About {
    label: String,
    checksum: Checksum,
    next_oid: u64,
    metadata: Values,
}

/// Names and values of attributes.
type Values = Vec<(String, Vec<u8>)>;

/// The containers of a pool, by UUID, and its own attributes.
pub(super) fn about(pool: &Pool) -> (BTreeMap<String, About>, Values) {
    let of = |attributes: esker::Attributes| {
        let names = attributes.list().wait().expect("listing");
        let value = |name: &String| attributes.get(name).wait().expect("getting").expect("a value");
        names.iter().map(|name| (name.clone(), value(name))).collect::<Vec<_>>()
    };
    let mut found = BTreeMap::new();
    for info in pool.containers().wait().expect("listing") {
        let uuid = info.uuid.to_string();
        let open = pool.open_container(&uuid, OpenMode::ReadOnly).wait().expect("opening");
        let metadata = [of(open.attributes()), of(open.properties())].concat();
        let next_oid = open.next_oid().wait().expect("a number");
        let about = About { label: info.label, checksum: info.checksum, next_oid, metadata };
        found.insert(uuid, about);
    }
    (found, of(pool.attributes()))
}

/// Everything in a pool; `number` identifies containers.
pub(super) fn all(pool: &Pool, number: impl Fn(&ContainerInfo) -> u32) -> Content {
    let mut found = Content::new();
    for info in pool.containers().wait().expect("listing") {
        let (number, uuid) = (number(&info), info.uuid.to_string());
        let open = pool.open_container(&uuid, OpenMode::ReadOnly).wait().expect("opening");
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            for oid in open.list_objects(&mut anchor, 64, Access::Latest).wait().expect("listing") {
                of_object(number, &open, oid, &mut found);
            }
        }
    }
    found
}

/// Adds all values of an object to `found`. `number` is that of its container.
fn of_object(number: u32, container: &Container, oid: ObjectId, found: &mut Content) {
    let (object, limit) = (container.object(oid), ListLimit::entries(100));
    let mut dkeys = Anchor::Start;
    while !dkeys.is_end() {
        let batch = object.list_dkeys(&mut dkeys, limit, Access::Latest).wait().expect("listing");
        for dkey in batch.iter() {
            let mut akeys = Anchor::Start;
            while !akeys.is_end() {
                let batch = object.list_akeys(dkey, &mut akeys, limit, Access::Latest);
                for akey in batch.wait().expect("listing").iter() {
                    of_akey(number, &object, dkey, akey, found);
                }
            }
        }
    }
}

/// Adds a single value, or the records of an array, to `found`. `number` is that of the container.
fn of_akey(number: u32, object: &esker::Object, dkey: &[u8], akey: &[u8], found: &mut Content) {
    let position = |record| (number, object.oid(), dkey.to_vec(), akey.to_vec(), record);
    let fetch = |fetch: Fetch<'_>| {
        let mut fetches = [fetch];
        object.fetch(dkey, Cond::NONE, &mut fetches, Access::Latest).wait().expect("fetching");
        fetches[0].reply.size
    };
    let (mut anchor, mut is_array) = (Anchor::Start, false);
    while !anchor.is_end() {
        let key = AkeyRef { dkey, akey };
        let stored = object.list_extents(key, &mut anchor, 64, Access::Latest).wait();
        for stored in stored.expect("listing") {
            is_array = true;
            let mut bytes = vec![0; (stored.extent.count * stored.record_size) as usize];
            let extents = [stored.extent];
            fetch(Fetch::array(akey, stored.record_size, &extents, Sink::One(&mut bytes)));
            let records = bytes.chunks(stored.record_size as usize).zip(stored.extent.start..);
            // Byte arrays in blocks: the data of files.
            let step = if stored.record_size == 1 { 1024 } else { 1 };
            if step == 1 {
                found.extend(records.map(|(bytes, at)| (position(Some(at)), bytes.to_vec())));
            } else {
                let blocks = bytes.chunks(step).zip((stored.extent.start..).step_by(step));
                found.extend(blocks.map(|(bytes, at)| (position(Some(at)), bytes.to_vec())));
            }
        }
    }
    if !is_array {
        let mut bytes = vec![0; fetch(Fetch::single(akey, Sink::None)) as usize];
        fetch(Fetch::single(akey, Sink::One(&mut bytes)));
        found.insert(position(None), bytes);
    }
}
