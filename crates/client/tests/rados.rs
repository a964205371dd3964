//! The conformance suite on pools on Ceph, on the cluster that a variable names.
#![cfg(feature = "rados")]
use esker::backend::Backend;
use esker::types::info::OpenMode;
use esker::{Rados, RadosUrl, conformance, model};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The URL of a Ceph pool for tests, such as `rados:esker?conf=/path/ceph.conf`; without it they are skipped.
const VARIABLE: &str = "ESKER_TEST_RADOS";

/// The URL, or `None` with a message.
fn cluster() -> Option<String> {
    let url = std::env::var(VARIABLE).ok();
    if url.is_none() {
        eprintln!("skipped: {VARIABLE} names no Ceph pool (make ceph-up prints one)");
    }
    url
}

/// A new pool in a namespace of its own.
fn pool(url: &str) -> Arc<dyn Backend> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let nanos = std::time::UNIX_EPOCH.elapsed().expect("the time").as_nanos();
    let namespace = format!("test-{}-{nanos}-{number}", std::process::id());
    let join = if url.contains('?') { '&' } else { '?' };
    let url = RadosUrl::parse(&format!("{url}{join}namespace={namespace}"));
    let url = url.expect("a URL").expect("a rados URL");
    Arc::new(Rados::open(&url, OpenMode::ReadWrite).expect("opening the pool"))
}

/// One test per topic.
macro_rules! conformance {
    ($($topic:ident)+) => {
        $(#[test]
        fn $topic() {
            if let Some(url) = cluster() {
                conformance::$topic(&|| pool(&url));
            }
        })+
    };
}

conformance!(containers metadata single_values arrays conditions punch listing query snapshots
    transactions oids holds threads);

fn compare(seed: u64, steps: u64) {
    if let Some(url) = cluster() {
        println!("{}={seed}", model::SEED_VARIABLE);
        model::run(seed, steps, &|| pool(&url));
    }
}

#[test]
fn ceph_agrees_with_the_model() {
    compare(model::seed(), 1000);
}

#[test]
fn known_seeds() {
    for seed in 1..=3 {
        compare(seed, 700);
    }
}
