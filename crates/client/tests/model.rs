//! Random operations, executed on every backend and on the reference side by side.

use esker::backend::memory::Memory;
use esker_backend::Pool;
use esker_conformance::faulty::{Fault, Faulty};
use esker_conformance::model;
use std::sync::Arc;

const STEPS: u64 = 3000;

/// Starts from the seed in `ESKER_SEED`, which is printed if the test fails.
#[test]
fn memory_agrees_with_itself() {
    let seed = esker_testing::seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    model::run(seed, STEPS, &|| -> Arc<dyn Pool> { Arc::new(Memory::new(3)) });
}

/// Seeds that always run.
#[test]
fn fixed_seeds() {
    for seed in 1..=3 {
        model::run(seed, STEPS, &|| -> Arc<dyn Pool> { Arc::new(Memory::new(1 + seed as u32)) });
    }
}

/// A comparison that never fails would prove nothing.
#[test]
fn faults_are_detected() {
    let faults = [
        Fault::LostWrite,
        Fault::FlippedBit,
        Fault::MovingSnapshots,
        Fault::MissedConflicts,
        Fault::NeedlessRestarts,
        Fault::ShortListings,
    ];
    for fault in faults {
        let run = || model::run(7, STEPS, &|| -> Arc<dyn Pool> { Arc::new(Faulty::new(fault)) });
        assert!(std::panic::catch_unwind(run).is_err(), "{fault:?} is not detected");
    }
}
