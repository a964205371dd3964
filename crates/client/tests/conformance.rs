//! The conformance suite on every backend. Adding a backend takes one line at the end.
use esker::backend::memory::Memory;
use esker_backend::Pool;
use std::sync::Arc;

/// One test per topic, on the backend that the expression creates.
macro_rules! conformance {
    ($backend:ident, $make:expr) => {
        conformance!(@ $backend, $make, containers metadata single_values arrays conditions punch
            listing long_keys query snapshots transactions oids leases replies threads);
    };
    (@ $backend:ident, $make:expr, $($topic:ident)+) => {
        mod $backend {
            use super::*;
            $(#[test]
            fn $topic() {
                esker_testkit::conformance::$topic(&|| -> Arc<dyn Pool> { Arc::new($make) });
            })+
        }
    };
}

#[test]
fn every_topic_is_run() {
    assert_eq!(esker_testkit::conformance::TOPICS.len(), 15);
}

conformance!(memory, Memory::new(4));
conformance!(memory_of_one_target, Memory::new(1));
