//! The suite itself: a topic is skipped if its capability is not declared.
use esker_backend::memory::Memory;
use esker_backend::{Capabilities, Pool};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_conformance::{Outcome, Setup, TOPICS};
use std::sync::Arc;

/// Declares no optional capability.
struct Modest;

impl Interceptor for Modest {
    fn capabilities(&self, of: Capabilities) -> Capabilities {
        Capabilities::minimal(of.targets)
    }
}

fn modest() -> Arc<dyn Pool> {
    Arc::new(PoolBetween::before(Arc::new(Memory::new(2)), &Arc::new(Modest)))
}

#[test]
fn topics_of_undeclared_capabilities_are_skipped() {
    for name in ["snapshots", "transactions", "read_leases", "change_ids"] {
        let topic = TOPICS.iter().find(|(known, _)| *known == name).expect("a topic").1;
        assert_eq!(topic(&modest), Outcome::Skipped { capability: name });
    }
}

#[test]
fn outcome_counts_the_checks_that_passed() {
    let (_, oids) = TOPICS.iter().find(|(name, _)| *name == "oids").expect("a topic");
    assert_eq!(oids(&|| Arc::new(Memory::new(2))), Outcome::Passed { checks: 6 });
}

#[test]
fn setup_without_pools_names_the_reason() {
    let missing: Result<fn() -> Arc<dyn Pool>, String> = Err("no cluster".to_owned());
    assert_eq!(missing.pools().err(), Some("no cluster"));
    assert!(Ok::<_, String>(modest).pools().is_ok());
}
