//! Properties of posix pools beyond the conformance suite: names that stay inside the pool, killed processes, unique
//! numbers, leftover files.
use esker::types::info::{Durability, OpenMode};
use esker::types::limits::KEY_MAX;
use esker::types::ops::{AkeyRef, Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value};
use esker::types::{ErrorKind, Extent, FLAT_AKEY, ObjectClass, ObjectId, ObjectType};
use esker::{Access, ArrayAttributes, Container, Kv, Pool, PosixPool, Wait};
use esker_backend::NewContainer;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// Environment variables: the task of a child process, and its pool.
const CHILD: &str = "ESKER_POSIX_CHILD";
/// Keys that the children write.
const KEYS: u64 = 8;

/// A pool with a container `c`, removed when the test ends.
struct Site(PathBuf);

impl Site {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("esker-posix-files-{}-{number}", std::process::id());
        let site = Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name));
        PosixPool::create(&site.0.join("tank"), false).unwrap();
        let new = NewContainer::named("c");
        site.pool("").create_container(&new).wait().unwrap();
        site
    }

    fn root(&self) -> PathBuf {
        self.0.join("tank")
    }

    fn url(&self) -> String {
        format!("posix:{}", self.root().display())
    }

    /// The pool, opened with options of its URL.
    fn pool(&self, option: &str) -> Pool {
        Pool::connect(&format!("{}{option}", self.url()), OpenMode::ReadWrite).unwrap()
    }

    fn container(&self) -> Container {
        self.pool("").open_container("c", OpenMode::ReadWrite).wait().unwrap()
    }

    /// Starts a child process that does `work`: see `work_of_a_child`.
    fn child(&self, work: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "work_of_a_child", "--ignored", "--nocapture"])
            .env(CHILD, format!("{work} {}", self.url()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An object of this type and number, on one target.
fn oid(container: &Container, number: u64, otype: ObjectType) -> ObjectId {
    container.generate_oid(0, number, otype, Some(ObjectClass::S1), 0).unwrap()
}

/// The Key-Value of the tests.
fn kv(container: &Container) -> Kv {
    container.kv(oid(container, 1, ObjectType::KvHashed)).unwrap()
}

/// The keys of a Key-Value.
fn keys(kv: &Kv) -> Vec<Vec<u8>> {
    let batch = kv.list(&mut Anchor::Start, ListLimit::entries(1000), Access::Latest).wait();
    batch.unwrap().iter().map(<[u8]>::to_vec).collect()
}

/// The paths of all files and directories below `path`.
fn entries(path: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(path).into_iter().flatten() {
        let path = entry.unwrap().path();
        all.extend(entries(&path));
        all.insert(path);
    }
    all
}

#[test]
fn keys_stay_in_their_directory_and_round_trip() {
    let site = Site::new();
    let (long, other) = ([b'/'; 1024], [&[b'/'; 1023][..], b"x"].concat());
    let strange: [&[u8]; 9] =
        [b".", b"..", b"/", b"../../../escaped", b"\0", b"a\0b", b"%2E", &long, &other];
    let container = site.container();
    let (kv, general) =
        (kv(&container), container.object(oid(&container, 2, ObjectType::MultiHashed)));
    let before = entries(&site.0);
    for key in strange {
        kv.put(key, key, Cond::NONE, Access::Latest).wait().unwrap();
        let value = Value::Single(Source::One(key));
        let update = [Update { akey: b"/..", value, cond: Cond::NONE }];
        general.update(key, Cond::NONE, &update, Access::Latest).wait().unwrap();
    }
    for key in strange {
        assert_eq!(kv.get(key, Access::Latest).wait().unwrap().as_deref(), Some(key));
    }
    let wanted: BTreeSet<_> = strange.iter().map(|key| key.to_vec()).collect();
    assert_eq!(keys(&kv).into_iter().collect::<BTreeSet<_>>(), wanted);
    let mut made: Vec<_> = entries(&site.0).difference(&before).cloned().collect();
    made.retain(|path| !path.starts_with(site.root().join("tmp")));
    let inside = |path: &&PathBuf| path.starts_with(site.root().join("containers"));
    assert_eq!(made.len(), 2 + 2 * strange.len(), "{made:?}");
    assert!(made.iter().all(|path| inside(&path)), "{made:?}");
    kv.remove(&long, Kv::REMOVE, Access::Latest).wait().unwrap();
    assert_eq!(kv.get(&other, Access::Latest).wait().unwrap(), Some(other.clone()));
    let refused = kv.put(&vec![b'k'; KEY_MAX + 1], b"", Cond::NONE, Access::Latest).wait();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::KeyTooBig);
}

#[test]
fn a_value_is_the_content_of_its_file() {
    let site = Site::new();
    let container = site.container();
    kv(&container).put(b"t2m", b"2.1", Cond::NONE, Access::Latest).wait().unwrap();
    let file = entries(&site.root()).into_iter().find(|path| path.ends_with("t2m")).unwrap();
    assert_eq!(fs::read(file).unwrap(), b"2.1");
}

#[test]
fn symbolic_links_are_not_followed() {
    let site = Site::new();
    let container = site.container();
    let (kv, oid) = (kv(&container), oid(&container, 3, ObjectType::ArrayByte));
    kv.put(b"key", b"value", Cond::NONE, Access::Latest).wait().unwrap();
    let attributes = ArrayAttributes { cell_size: 1, chunk_size: 4096 };
    let array = container.open_array_with_attributes(oid, attributes).unwrap();
    let (all, zeros) = ([Extent { start: 0, count: 4096 }], [0; 4096]);
    let write = || array.write(&all, Source::One(&zeros), Access::Latest).wait();
    let before = entries(&site.root());
    write().unwrap();
    let made: Vec<_> = entries(&site.root()).difference(&before).cloned().collect();
    let chunk = made.into_iter().find(|path| path.is_file()).unwrap();
    let value = before.into_iter().find(|path| path.ends_with("key")).unwrap();
    let secret = site.0.join("secret");
    for (path, follow) in [
        (chunk, &(|| write().is_err()) as &dyn Fn() -> bool),
        (value, &|| kv.get(b"key", Access::Latest).wait().is_err()),
    ] {
        fs::rename(&path, &secret).unwrap();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        File::open(&secret).unwrap().set_modified(changed).unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        assert!(follow(), "{}", path.display());
        assert_eq!(
            secret.metadata().unwrap().modified().unwrap(),
            changed,
            "the file outside the pool was written"
        );
    }
}

/// A value whose content shows whether it is complete: its length, followed by one byte repeated.
fn checkable(number: u64) -> Vec<u8> {
    let len = 8 + number * 7919 % 150_000;
    let mut value = vec![number as u8; len as usize];
    value[..8].copy_from_slice(&len.to_le_bytes());
    value
}

/// True for a complete value of `checkable`.
fn is_whole(value: &[u8]) -> bool {
    let rest = &value[8..];
    value[..8] == (value.len() as u64).to_le_bytes() && rest.iter().all(|byte| *byte == rest[0])
}

/// Sets a key, and in one update two akeys, to values that follow from `number`.
fn put_number(container: &Container, number: u64) {
    let key = [b'k', (number % KEYS) as u8];
    kv(container).put(&key, &checkable(number), Cond::NONE, Access::Latest).wait().unwrap();
    let object = container.object(oid(container, 2, ObjectType::MultiHashed));
    let value = Value::Single(Source::One(&[number as u8]));
    let update = |akey| Update { akey, value, cond: Cond::NONE };
    object.update(&key, Cond::NONE, &[update(b"a"), update(b"b")], Access::Latest).wait().unwrap();
}

/// All values are complete, and akeys that are written together are equal.
fn check_all(container: &Container) {
    for key in keys(&kv(container)) {
        let value = kv(container).get(&key, Access::Latest).wait().unwrap().unwrap();
        assert!(is_whole(&value), "torn value of {} bytes", value.len());
    }
    let object = container.object(oid(container, 2, ObjectType::MultiHashed));
    for number in 0..KEYS as u8 {
        let (mut a, mut b) = ([0xee], [0xee]);
        let mut fetches =
            [Fetch::single(b"a", Sink::One(&mut a)), Fetch::single(b"b", Sink::One(&mut b))];
        object.fetch(&[b'k', number], Cond::NONE, &mut fetches, Access::Latest).wait().unwrap();
        assert_eq!(a, b, "torn update");
    }
}

#[test]
fn killed_writers_leave_no_torn_values() {
    let site = Site::new();
    let container = site.container();
    for round in 0..6 {
        let children = [site.child("write"), site.child("write")];
        let mut writing = children.map(|mut child| {
            let said = BufReader::new(child.stdout.take().unwrap()).lines();
            (child, said)
        });
        for ((_, said), lines) in writing.iter_mut().zip([1 + round * 3, 2 + round * 5]) {
            let seen = said.by_ref().map_while(Result::ok).filter(|line| line.contains("wrote"));
            assert_eq!(
                seen.take(lines).count(),
                lines,
                "the child stopped writing before it was killed"
            );
        }
        for (mut child, _said) in writing {
            child.kill().unwrap();
            assert_eq!(
                child.wait().unwrap().signal(),
                Some(9),
                "the child ended before it was killed"
            );
        }
        check_all(&container);
    }
    // Abandoned locks are taken over, and all keys can be written again.
    (0..KEYS).for_each(|number| put_number(&container, number));
    check_all(&container);
    let outside = |path: &PathBuf| !path.starts_with(site.root().join("tmp"));
    let left: Vec<_> = entries(&site.root()).into_iter().filter(outside).collect();
    assert!(!left.iter().any(|path| path.display().to_string().ends_with("%lock")), "{left:?}");
    assert_eq!(PosixPool::check(&site.root()).unwrap().problems, Vec::<String>::new());
}

/// Changes three objects in one transaction: a Key-Value, an Array and a general object get the same number.
fn commit_number(container: &Container, number: u64) {
    let transaction = container.transaction().unwrap();
    let access = Access::Tx(&transaction);
    let (key, text) = (b"number", number.to_ne_bytes());
    kv(container).put(key, &text, Cond::NONE, access).wait().unwrap();
    let value = Value::Single(Source::One(&text));
    let update = [Update { akey: b"a", value, cond: Cond::NONE }];
    let object = container.object(oid(container, 2, ObjectType::MultiHashed));
    object.update(key, Cond::NONE, &update, access).wait().unwrap();
    let cells = [Extent { start: 0, count: 8 }];
    array(container).write(&cells, Source::One(&text), access).wait().unwrap();
    transaction.commit().wait().unwrap();
}

/// The byte array of the tests.
fn array(container: &Container) -> esker::Array {
    let attributes = ArrayAttributes { cell_size: 1, chunk_size: 4096 };
    let oid = oid(container, 3, ObjectType::ArrayByte);
    container.open_array_with_attributes(oid, attributes).unwrap()
}

/// The number in each of the three objects, zero where it is missing.
fn committed_numbers(container: &Container) -> [u64; 3] {
    let (mut general, mut cells) = ([0; 8], [0; 8]);
    let in_kv = kv(container).get(b"number", Access::Latest).wait().unwrap();
    let in_kv = in_kv.map_or(0, |value| u64::from_ne_bytes(value.try_into().unwrap()));
    let mut fetches = [Fetch::single(b"a", Sink::One(&mut general))];
    let object = container.object(oid(container, 2, ObjectType::MultiHashed));
    object.fetch(b"number", Cond::NONE, &mut fetches, Access::Latest).wait().unwrap();
    let all = [Extent { start: 0, count: 8 }];
    array(container).read(&all, Sink::One(&mut cells), Access::Latest).wait().unwrap();
    [in_kv, u64::from_ne_bytes(general), u64::from_ne_bytes(cells)]
}

#[test]
fn killed_commits_are_complete_or_absent() {
    let site = Site::new();
    let container = site.container();
    let mut last = 0;
    for round in 0..12 {
        let mut child = site.child("commit");
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let seen = said.by_ref().filter(|line| line.contains("committed")).take(1 + round);
        let seen: Vec<_> = seen.collect();
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "the child ended by itself");
        let numbers = committed_numbers(&container);
        assert!(numbers.iter().all(|number| *number == numbers[0]), "half a commit: {numbers:?}");
        let told = seen.last().and_then(|line| line.split_whitespace().last()?.parse().ok());
        assert!(numbers[0] >= told.unwrap_or(0), "a commit was lost: {numbers:?} after {seen:?}");
        assert!(numbers[0] > last, "nothing was committed");
        last = numbers[0];
    }
    commit_number(&container, last + 1);
    assert_eq!(committed_numbers(&container), [last + 1; 3]);
    let outside = |path: &PathBuf| !path.starts_with(site.root().join("tmp"));
    let left: Vec<_> = entries(&site.root()).into_iter().filter(outside).collect();
    let is_left =
        |path: &PathBuf| path.ends_with("journal") || path.to_string_lossy().ends_with("%lock");
    assert!(!left.iter().any(is_left), "{left:?}");
}

#[test]
fn processes_get_different_numbers() {
    let site = Site::new();
    let children: Vec<_> = (0..4).map(|_| site.child("allocate")).collect();
    let mut numbers = Vec::new();
    for mut child in children {
        let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        numbers.extend(said.filter_map(|line| line.strip_prefix("got ")?.parse::<u64>().ok()));
        assert!(child.wait().unwrap().success());
    }
    numbers.sort_unstable();
    assert_eq!(numbers.len(), 4 * 1500);
    assert!(numbers.windows(2).all(|pair| pair[1] - pair[0] >= 3), "a number was reserved twice");
}

/// Not a test: the task that the tests above run in a child process.
#[test]
#[ignore = "run by other tests in a child process"]
fn work_of_a_child() {
    let told = std::env::var(CHILD).unwrap();
    let (work, url) = told.split_once(' ').unwrap();
    let pool = Pool::connect(url, OpenMode::ReadWrite).unwrap();
    let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
    match work {
        "write" => (0..1_000_000).for_each(|number| {
            put_number(&container, number);
            println!("wrote {number}");
        }),
        "commit" => {
            let first = committed_numbers(&container)[0] + 1;
            for number in first.. {
                commit_number(&container, number);
                println!("committed {number}");
            }
        }
        _ => (0..1500).for_each(|_| println!("got {}", container.allocate_oids(3).wait().unwrap())),
    }
}

#[test]
fn fsync_is_an_option_of_the_pool_and_of_the_url() {
    let site = Site::new();
    let durability = |option| site.pool(option).info().wait().unwrap().durability;
    assert_eq!(durability(""), Durability::Process);
    assert_eq!(durability("?fsync=on"), Durability::Commit);
    let synced = site.0.join("synced");
    PosixPool::create(&synced, true).unwrap();
    let of = |url: String| Pool::connect(&url, OpenMode::ReadWrite).unwrap().info().wait().unwrap();
    assert_eq!(of(format!("posix:{}", synced.display())).durability, Durability::Commit);
    assert_eq!(of(format!("posix:{}?fsync=off", synced.display())).durability, Durability::Process);
}

/// Sets the modification time of a file to three days ago.
fn make_old(path: &Path) {
    let long_ago = SystemTime::now() - Duration::from_secs(3 * 24 * 3600);
    File::open(path).unwrap().set_modified(long_ago).unwrap();
}

/// Opening a pool removes the temporary files of processes that died days ago.
#[test]
fn old_temporary_files_are_removed() {
    let site = Site::new();
    let (old, young) = (site.root().join("tmp/old"), site.root().join("tmp/young"));
    for session in [&old, &young] {
        fs::create_dir(session).unwrap();
        fs::write(session.join("1-0"), b"half a value").unwrap();
    }
    make_old(&old.join("1-0"));
    make_old(&old);
    make_old(&site.root().join("tmp/swept"));
    drop(site.pool(""));
    assert!(!old.exists() && young.join("1-0").exists());
}

/// Locks that are days old belong to dead processes, so writers do not wait for them.
#[test]
fn an_old_lock_is_taken_over() {
    let site = Site::new();
    let container = site.container();
    put_number(&container, 0);
    let file =
        entries(&site.root()).into_iter().find(|path| path.ends_with("k%00") && path.is_file());
    let bundles: Vec<_> =
        entries(&site.root()).into_iter().filter(|p| p.ends_with("k%00")).collect();
    assert!(file.is_some() && bundles.len() == 2);
    for bundle in bundles {
        let lock = PathBuf::from(format!("{}%lock", bundle.parent().unwrap().display()));
        fs::write(&lock, b"").unwrap();
        make_old(&lock);
    }
    put_number(&container, KEYS);
    check_all(&container);
}

#[test]
fn a_container_destroyed_elsewhere_is_reported() {
    let site = Site::new();
    let (container, other) = (site.container(), site.pool(""));
    kv(&container).put(b"k", b"v", Cond::NONE, Access::Latest).wait().unwrap();
    other.destroy_container("c", false).wait().unwrap();
    let chunk = 1u64.to_ne_bytes();
    let gone = [
        kv(&container).put(b"k", b"v", Cond::NONE, Access::Latest).wait(),
        kv(&container).get(b"k", Access::Latest).wait().map(drop),
        container.allocate_oids(1).wait().map(drop),
        kv(&container).remove(b"k", Cond::NONE, Access::Latest).wait(),
        kv(&container).remove(b"k", Cond::PUNCH, Access::Latest).wait(),
        kv(&container).remove(&[b'k'; 300], Cond::NONE, Access::Latest).wait(),
        kv(&container).put(b"k", b"v", Cond::DKEY_UPDATE, Access::Latest).wait(),
        kv(&container).object().punch(Cond::NONE, Access::Latest).wait(),
        array(&container).object().punch(Cond::NONE, Access::Latest).wait(),
        array(&container).object().punch_dkey(&chunk, Cond::NONE, Access::Latest).wait(),
    ];
    for (number, outcome) in gone.into_iter().enumerate() {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NoHandle, "operation {number}");
    }
}

/// A missing directory is read like an empty one, so a copy of the container would end as if it were complete.
#[test]
fn listings_and_sizes_of_a_container_destroyed_elsewhere_are_errors() {
    let site = Site::new();
    let (container, other) = (site.container(), site.pool(""));
    kv(&container).put(b"k", b"v", Cond::NONE, Access::Latest).wait().unwrap();
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 100 };
    let array = oid(&container, 2, ObjectType::ArrayByte);
    let array = container.open_array_with_attributes(array, shape).unwrap();
    array.set_size(5, Access::Latest).wait().unwrap();
    other.destroy_container("c", false).wait().unwrap();
    let (object, limit) = (array.object(), ListLimit::entries(10));
    let at = Access::Latest;
    let chunk = 1u64.to_ne_bytes();
    let key = AkeyRef { dkey: &chunk, akey: FLAT_AKEY };
    let gone = [
        array.size(at).wait().map(drop),
        kv(&container).list(&mut Anchor::Start, limit, at).wait().map(drop),
        object.list_dkeys(&mut Anchor::Start, limit, at).wait().map(drop),
        object.list_extents(key, &mut Anchor::Start, 10, at).wait().map(drop),
        object.epoch(at).wait().map(drop),
        container.list_objects(&mut Anchor::Start, 10, at).wait().map(drop),
        container.next_oid().wait().map(drop),
    ];
    for (number, outcome) in gone.into_iter().enumerate() {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NoHandle, "read {number}");
    }
}

#[test]
fn refused_destruction_leaves_handles_usable() {
    let site = Site::new();
    let (pool, temporary) = (site.pool(""), site.root().join("tmp"));
    let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
    kv(&container).put(b"k", b"v", Cond::NONE, Access::Latest).wait().unwrap();
    let away = site.root().join("away");
    fs::rename(&temporary, &away).unwrap();
    pool.destroy_container("c", true).wait().unwrap_err();
    fs::rename(&away, &temporary).unwrap();
    pool.open_container("c", OpenMode::ReadOnly).wait().unwrap();
    let value = kv(&container).get(b"k", Access::Latest).wait().unwrap();
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
    pool.destroy_container(&container.info().uuid.to_string(), true).wait().unwrap();
    let gone = kv(&container).get(b"k", Access::Latest).wait().unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NoHandle);
}

/// A process that dies while it creates or destroys a container may leave it without its label.
#[test]
fn container_without_its_label_is_reported_and_gets_it_back() {
    let site = Site::new();
    let (container, labels) = (site.container(), site.root().join("labels"));
    let problems = || PosixPool::check(&site.root()).unwrap().problems;
    site.pool("").create_container(&NewContainer::nameless()).wait().unwrap();
    assert_eq!(problems(), Vec::<String>::new());
    let other = NewContainer::named("d");
    let other = site.pool("").create_container(&other).wait().unwrap().uuid.to_string();
    fs::write(labels.join("c"), &other).unwrap();
    assert!(problems().len() == 1 && problems()[0].contains("set-prop"), "{:?}", problems());
    assert_eq!(container.rename(Some("c")).wait().unwrap_err().kind(), ErrorKind::Exists);
    fs::remove_file(labels.join("c")).unwrap();
    assert!(problems().len() == 1 && problems()[0].contains("set-prop"), "{:?}", problems());
    container.rename(Some("c")).wait().unwrap();
    assert_eq!(problems(), Vec::<String>::new());
    fs::remove_dir_all(&labels).unwrap();
    container.rename(Some("new")).wait().unwrap();
    site.pool("").open_container("new", OpenMode::ReadOnly).wait().unwrap();
}

/// A process that died in a rename leaves its new label, which refers to the container already.
#[test]
fn interrupted_rename_can_be_repeated() {
    let site = Site::new();
    let container = site.container();
    let labels = site.root().join("labels");
    fs::copy(labels.join("c"), labels.join("new")).unwrap();
    container.rename(Some("new")).wait().unwrap();
    let names = || entries(&labels).into_iter().map(|path| path.file_name().unwrap().to_owned());
    assert_eq!(names().collect::<Vec<_>>(), ["new"]);
    // The label of another container stays refused.
    site.pool("").create_container(&NewContainer::named("d")).wait().unwrap();
    assert_eq!(container.rename(Some("d")).wait().unwrap_err().kind(), ErrorKind::Exists);
    container.rename(Some("c")).wait().unwrap();
    assert_eq!(names().collect::<Vec<_>>(), ["c", "d"]);
}

/// On a full file system there is no space for a directory, and destroying a container frees some.
#[test]
fn destroying_a_container_makes_no_directory() {
    let site = Site::new();
    let (other, temporary) = (site.pool(""), site.root().join("tmp"));
    let before = entries(&temporary);
    other.destroy_container("c", false).wait().unwrap();
    assert_eq!(entries(&temporary), before);
}

/// An NFS client renames a file that is removed while a process has it open, to a name that cannot be removed. The tests
/// make directories of such names.
#[test]
fn punch_leaves_files_that_are_not_keys() {
    let site = Site::new();
    let container = site.container();
    let root = site.root().join(format!("containers/{}", container.info().uuid));
    let path = |oid: ObjectId, end| root.join(format!("{:016x}{:016x}{end}", oid.hi, oid.lo));
    let transaction = container.transaction().unwrap();
    for access in [Access::Latest, Access::Tx(&transaction)] {
        let (kv, array) = (kv(&container), array(&container));
        kv.put(b"k", b"v", Cond::NONE, Access::Latest).wait().unwrap();
        let all = [Extent { start: 0, count: 5000 }];
        array.write(&all, Source::One(&[1; 5000]), Access::Latest).wait().unwrap();
        for directory in [path(kv.object().oid(), ""), path(array.object().oid(), ".d")] {
            fs::create_dir_all(directory.join(".nfs0001")).unwrap();
        }
        for object in [kv.object(), array.object()] {
            object.punch(Cond::PUNCH, access).wait().unwrap();
        }
        if matches!(access, Access::Tx(_)) {
            transaction.commit().wait().unwrap();
        }
        assert!(keys(&kv).is_empty());
        assert_eq!(array.size(Access::Latest).wait().unwrap(), 0);
        let again = kv.object().punch(Cond::PUNCH, Access::Latest).wait();
        assert_eq!(again.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

/// A write that fails may leave a part of a record after the last one. It does not belong to a record that is written
/// after a punch.
#[test]
fn punch_removes_an_incomplete_record() {
    let site = Site::new();
    let container = site.container();
    let root = site.root().join(format!("containers/{}", container.info().uuid));
    let dkey = 1u64.to_ne_bytes();
    let record = |start| [Extent { start, count: 1 }];
    let transaction = container.transaction().unwrap();
    for (number, access) in [Access::Latest, Access::Tx(&transaction)].into_iter().enumerate() {
        let oid = oid(&container, 10 + number as u64, ObjectType::Array);
        let object = container.object(oid);
        let change = |value: Value<'_>, access: Access<'_>| {
            let updates = [Update { akey: FLAT_AKEY, value, cond: Cond::NONE }];
            object.update(&dkey, Cond::NONE, &updates, access).wait().unwrap();
        };
        let write = |extents: &[Extent]| {
            let value = Value::Array { record_size: 8, extents, data: Source::One(&[1; 8]) };
            change(value, Access::Latest);
        };
        write(&record(0));
        let path = root.join(format!("{:016x}{:016x}", oid.hi, oid.lo));
        let file = File::options().append(true).open(path).unwrap();
        (&file).write_all(&[9; 3]).unwrap();
        change(Value::PunchExtents(&[Extent { start: 1, count: 100 }]), access);
        if matches!(access, Access::Tx(_)) {
            transaction.commit().wait().unwrap();
        }
        write(&record(2));
        let (mut bytes, second) = ([7; 8], record(1));
        let mut fetches = [Fetch::array(FLAT_AKEY, 8, &second, Sink::One(&mut bytes))];
        object.fetch(&dkey, Cond::NONE, &mut fetches, Access::Latest).wait().unwrap();
        assert_eq!(bytes, [0; 8], "attempt {number}");
    }
}

/// The check opens each file, and goes on after one that it cannot read.
#[test]
fn check_reports_each_unreadable_file() {
    let site = Site::new();
    let container = site.container();
    let root = site.root().join(format!("containers/{}", container.info().uuid));
    let object = container.object(oid(&container, 2, ObjectType::MultiHashed));
    let update = [Update { akey: b"a", value: Value::Single(Source::One(b"v")), cond: Cond::NONE }];
    let (short, long) = (&b"k"[..], &[b'k'; 300][..]);
    for key in [short, long] {
        kv(&container).put(key, b"v", Cond::NONE, Access::Latest).wait().unwrap();
        object.update(key, Cond::NONE, &update, Access::Latest).wait().unwrap();
    }
    let problems = || PosixPool::check(&site.root()).unwrap().problems;
    assert_eq!(problems(), Vec::<String>::new());
    let of = |oid: ObjectId| entries(&root.join(format!("{:016x}{:016x}", oid.hi, oid.lo)));
    let (of_kv, of_object) = (of(kv(&container).object().oid()), of(object.oid()));
    let is_long = |path: &&PathBuf| path.to_string_lossy().contains("%h");
    let long = of_kv.iter().find(is_long).unwrap();
    File::options().write(true).open(long).unwrap().set_len(10).unwrap();
    assert!(problems().len() == 1 && problems()[0].contains("%h"), "{:?}", problems());
    let unreadable = of_kv.iter().chain(&of_object).filter(|path| !is_long(path));
    for path in unreadable {
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("elsewhere", path).unwrap();
    }
    assert_eq!(problems().len(), 3, "{:?}", problems());
}

/// A label refers to no container if a process died while it destroyed one.
#[test]
fn one_of_several_creators_gets_a_stale_label() {
    const CREATORS: usize = 4;
    let site = Site::new();
    let pools: Vec<_> = (0..CREATORS).map(|_| site.pool("")).collect();
    for round in 0..25 {
        let uuid = pools[0].open_container("c", OpenMode::ReadOnly).wait().unwrap().info().uuid;
        fs::remove_dir_all(site.root().join(format!("containers/{uuid}"))).unwrap();
        let together = Barrier::new(CREATORS);
        let create = |pool: &Pool| {
            together.wait();
            pool.create_container(&NewContainer::named("c")).wait().map(drop)
        };
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let creators = pools.iter().map(|pool| scope.spawn(|| create(pool)));
            let creators: Vec<_> = creators.collect();
            creators.into_iter().map(|creator| creator.join().unwrap()).collect()
        });
        let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
        assert!(refused.iter().all(|error| error.kind() == ErrorKind::Exists), "{refused:?}");
        assert_eq!(refused.len(), CREATORS - 1, "round {round}");
    }
}
