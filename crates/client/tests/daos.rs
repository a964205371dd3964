//! The conformance suite on pools of DAOS, in the pool that an environment variable names: of a genuine system, or of
//! Esker's own library in its place.
#![cfg(feature = "daos")]
mod content;

use content::{Folder, all, container, fill, holey};
use esker::copy::{Options, Progress, copy};
use esker::types::info::{ContainerRef, OpenMode};
use esker::types::{ErrorKind, ObjectType};
use esker::{Container, Daos, DaosUrl, Pool, Wait};
use esker_testkit::{conformance, model};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The URL of a DAOS pool for tests, such as `daos:test`; tests are skipped if it is not set. Everything in it is destroyed.
const VARIABLE: &str = "ESKER_TEST_DAOS";

/// The pool for tests, which one test at a time uses.
struct System {
    url: DaosUrl,
    _alone: MutexGuard<'static, ()>,
}

/// The pool for tests; `None`, after printing a message, if there is none.
fn system() -> Option<System> {
    static ALONE: Mutex<()> = Mutex::new(());
    let Ok(url) = std::env::var(VARIABLE) else {
        esker_testing::skip(format_args!("{VARIABLE} names no DAOS pool (scripts/daos.sh)"));
        return None;
    };
    let url = DaosUrl::parse(&url).expect("a URL").expect("a daos URL");
    Some(System { url, _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner) })
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

/// One test per topic.
macro_rules! conformance {
    ($($topic:ident)+) => {
        $(#[test]
        fn $topic() {
            if let Some(system) = system() {
                conformance::$topic(&|| system.pool());
            }
        })+
    };
}

conformance!(containers metadata single_values arrays conditions punch listing long_keys query snapshots
    transactions oids leases replies threads);

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
fn known_seeds() {
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
fn a_container_comes_back_as_it_was() {
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

/// A program that reads only may list the objects: that makes a table, so the pool is opened again for it.
#[test]
fn who_only_reads_lists_objects() {
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
fn what_is_refused_is_said() {
    let Some(system) = system() else { return };
    let there = Pool::from_backend(system.pool(), OpenMode::ReadWrite);
    drop(container(&there, "kept"));
    let reader = Daos::open(&system.url, OpenMode::ReadOnly).expect("a reader");
    let reader: &dyn esker_backend::Pool = &reader;
    let opened = reader.open_container(ContainerRef::Label("kept"), OpenMode::ReadWrite).wait();
    drop(opened.expect("a container has permissions of its own"));
    let destroyed = reader.destroy_container(ContainerRef::Label("kept"), true).wait();
    let error = destroyed.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoPermission);
    assert!(error.message().contains("get-acl"), "{error}");
    let missing = DaosUrl { pool: "no-such-pool".into(), ..system.url.clone() };
    let error = Daos::open(&missing, OpenMode::ReadOnly).err().expect("no pool");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("no-such-pool"), "{error}");
}
