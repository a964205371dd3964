//! The conformance suite on pools of DAOS, in the pool that an environment variable names: of a genuine system, or of
//! Esker's own library in its place.
#![cfg(feature = "daos")]
use esker::types::info::{ContainerRef, OpenMode};
use esker::{Daos, DaosUrl};
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
