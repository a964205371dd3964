//! The conformance suite on pools of DAOS, in the pool that an environment variable names: of a genuine system, or of
//! Esker's own library in its place.
#![cfg(feature = "daos")]
mod content;

use content::{Folder, all, container, fill, holey};
use esker::copy::{Options, Progress, copy};
use esker::types::info::{ContainerRef, OpenMode};
use esker::types::ops::{Anchor, Cond, ListLimit, Update, Value};
use esker::types::{ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use esker::{Access, Container, Daos, DaosUrl, Pool, Wait};
use esker_conformance::{model, suite};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The URL of a DAOS pool for tests, such as `daos:test`; tests are skipped if it is not set. Everything in it is
/// destroyed.
const VARIABLE: &str = "ESKER_TEST_DAOS";

/// The pool for tests, which one test at a time uses.
struct System {
    url: DaosUrl,
    _alone: MutexGuard<'static, ()>,
}

/// The pool for tests, or the reason why there is none.
fn found() -> std::result::Result<System, String> {
    static ALONE: Mutex<()> = Mutex::new(());
    let url = std::env::var(VARIABLE)
        .map_err(|_| format!("{VARIABLE} names no DAOS pool (scripts/daos.sh)"))?;
    let url = DaosUrl::parse(&url).expect("a URL").expect("a daos URL");
    Ok(System { url, _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner) })
}

/// The pool for tests; `None` if there is none, which is reported.
fn system() -> Option<System> {
    found().inspect_err(|reason| esker_testing::skip(reason)).ok()
}

impl System {
    /// The pool, emptied.
    fn pool(&self) -> Arc<dyn esker_backend::Pool> {
        let pool = Daos::open(&self.url, OpenMode::ReadWrite).expect("opening the pool");
        let pool: Arc<dyn esker_backend::Pool> = Arc::new(pool);
        for container in pool.list_containers().wait().expect("listing") {
            let name = ContainerRef::Uuid(container.uuid);
            pool.destroy_container(name, true).wait().expect("emptying the pool");
        }
        let names = pool.list_metadata("").wait().expect("listing attributes");
        let removed: Vec<_> = names.iter().map(|name| (name.as_str(), None)).collect();
        pool.set_metadata(&removed).wait().expect("removing attributes");
        pool
    }
}

suite!(topics, found().map(|system| move || system.pool()));

/// Compares the pool with the model by random operations.
fn compare(seed: u64, steps: u64) {
    if let Some(system) = system() {
        println!("{}={seed}", esker_testing::SEED_VARIABLE);
        model::run(seed, steps, &|| system.pool());
    }
}

#[test]
fn daos_agrees_with_the_model() {
    compare(esker_testing::seed(), 1000);
}

#[test]
fn fixed_seeds() {
    for seed in 1..=3 {
        compare(seed, 700);
    }
}

/// Copies a container.
fn copied(from: &Container, to: &Pool, label: &str) -> Container {
    let options = Options { stride: 200 << 10, workers: 3, ..Options::default() };
    let summary = copy(from, to, label, &options, &Progress::default()).expect("a copy");
    assert_eq!(summary.verified, summary.bytes);
    to.open_container(label, OpenMode::ReadWrite).wait().expect("the copy")
}

/// Object by object, with ids, classes, keys and extents.
#[test]
fn container_copied_to_daos_and_back_is_equal() {
    let Some(system) = system() else { return };
    let folder = Folder::new();
    let here = folder.pool("native");
    let there = Pool::from_backend(system.pool(), OpenMode::ReadWrite);
    let from = container(&here, "from");
    fill(&from);
    holey(&from, ObjectType::Array);
    let to = copied(&from, &there, "to");
    let back = copied(&to, &here, "back");
    let original = all(&from);
    assert!(original.len() > 1000 && original == all(&to), "there");
    assert!(original == all(&back), "and back");
    for copy in [to, back] {
        assert_eq!(copy.info().checksum, from.info().checksum);
        assert!(copy.next_oid().wait().unwrap() >= from.next_oid().wait().unwrap());
        assert_eq!(copy.attributes().get("owner").wait().unwrap().unwrap(), b"me");
        assert_eq!(copy.properties().list().wait().unwrap(), ["layout"]);
        assert!(copy.snapshots().wait().unwrap().is_empty());
    }
}

/// A read-only program may list the objects. That creates a table, so the pool is opened again for it.
#[test]
fn read_only_program_lists_objects() {
    let Some(system) = system() else { return };
    let there = Pool::from_backend(system.pool(), OpenMode::ReadWrite);
    let container = container(&there, "listed");
    holey(&container, ObjectType::Array);
    let reader = Daos::open(&system.url, OpenMode::ReadOnly).expect("a reader");
    let reader = Pool::from_backend(Arc::new(reader), OpenMode::ReadOnly);
    let reader = reader.open_container("listed", OpenMode::ReadOnly).wait().expect("a container");
    assert_eq!(all(&reader), all(&container));
    assert!(reader.snapshots().wait().unwrap().is_empty(), "what was taken for it is gone");
}

/// Programs see the limits of a system, not a wrong answer.
#[test]
fn refusals_name_their_limit() {
    let Some(system) = system() else { return };
    let there = Pool::from_backend(system.pool(), OpenMode::ReadWrite);
    drop(container(&there, "kept"));
    let reader = Daos::open(&system.url, OpenMode::ReadOnly).expect("a reader");
    let reader: &dyn esker_backend::Pool = &reader;
    let opened = reader.open_container(ContainerRef::Label("kept"), OpenMode::ReadWrite).wait();
    expect_refusal(opened, ErrorKind::NoPermission, &["open for reading only"]);
    let destroyed = reader.destroy_container(ContainerRef::Label("kept"), true).wait();
    let error = destroyed.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoPermission);
    assert!(error.message().contains("get-acl"), "{error}");
    let absent = reader.open_container(ContainerRef::Label("absent"), OpenMode::ReadOnly).wait();
    expect_refusal(absent, ErrorKind::NotFound, &["absent", "esker cont list"]);
    let new = esker_backend::NewContainer::named("new");
    let created = reader.create_container(&new).wait();
    expect_refusal(created, ErrorKind::NoPermission, &["new", "create containers"]);
}

/// In a transaction, akeys of flat objects are not listed: DAOS's engine ends at its commit, and the stand-in refuses
/// it. Their listing is verified nevertheless.
#[test]
fn transactions_prove_listings_of_flat_objects() {
    let Some(system) = system() else { return };
    let there = Pool::from_backend(system.pool(), OpenMode::ReadWrite);
    let container = container(&there, "flat");
    let oid = ObjectId::generate(0, 99, ObjectType::KvHashed, ObjectClass::S1);
    let (kv, all) = (container.kv(oid).unwrap(), ListLimit::entries(9));
    let put = |key: &[u8], access: Access<'_>| kv.put(key, b"value", Cond::NONE, access).wait();
    put(b"one", Access::Latest).unwrap();
    let commit = |others: &dyn Fn()| {
        let tx = container.transaction().unwrap();
        let access = Access::Tx(&tx);
        let keys = kv.list(&mut Anchor::Start, all, access).wait().unwrap().len();
        let object = kv.object();
        let akeys = object.list_akeys(b"one", &mut Anchor::Start, all, access).wait().unwrap();
        assert_eq!(akeys.iter().collect::<Vec<_>>(), [b"0"]);
        others();
        // An update of no record depends on the dkey only.
        let nothing = Value::PunchExtents(&[]);
        let updates = [Update { akey: b"0", value: nothing, cond: Cond::NONE }];
        object.update(b"one", Cond::DKEY_UPDATE, &updates, access).wait().unwrap();
        put(&[keys as u8], access).unwrap();
        tx.commit().wait().map_err(|error| error.kind())
    };
    assert_eq!(commit(&|| ()), Ok(()));
    assert_eq!(commit(&|| put(b"two", Access::Latest).unwrap()), Err(ErrorKind::TxRestart));
    let gone = || kv.remove(b"one", Cond::NONE, Access::Latest).wait().unwrap();
    assert_eq!(commit(&gone), Err(ErrorKind::TxRestart));
}

/// Checks that an operation has failed with this kind of error, and a message with these words.
fn expect_refusal<T>(outcome: Result<T>, kind: ErrorKind, words: &[&str]) {
    let error = outcome.err().expect("a refusal");
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "{word}: {error}");
    }
}

/// Each error names its cause: the pool, or the system.
#[test]
fn wrong_names_are_told_apart() {
    let Some(system) = system() else { return };
    let missing = DaosUrl { pool: "no-such-pool".into(), ..system.url.clone() };
    let words = ["no-such-pool", "daos pool list"];
    expect_refusal(Daos::open(&missing, OpenMode::ReadOnly), ErrorKind::NotFound, &words);
    let other = DaosUrl { system: Some("other".into()), ..system.url.clone() };
    let words = ["\"other\"", "sys="];
    expect_refusal(Daos::open(&other, OpenMode::ReadOnly), ErrorKind::Invalid, &words);
}
