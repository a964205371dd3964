//! Killed at every store: a writer is stopped before each instruction that writes to the files of a pool. Each time, readers
//! look at the pool, and a copy of it, in which the writer is dead, is checked.
mod changes;
mod copies;
mod explorer;
mod handles;
mod mappings;
pub(crate) mod observer;
mod processor;
mod stores;
mod tracee;
mod world;
mod writer;

use crate::common::{self, Watchdog};
use changes::{Kind, Plan};
use esker_torture::{Random, scaled, seed, skip};
use explorer::{Explorer, Sample};
use handles::Handles;
use std::path::Path;
use writer::Method;

/// Environment variable with the stops to explore: `all`, or the number of one of them.
const STOPS_VARIABLE: &str = "ESKER_EXPLORE";
/// Environment variable that turns on the tests on pools with a log of puts.
const LOG_VARIABLE: &str = "ESKER_EXPLORE_LOG";

/// Stops in `make test`.
const SAMPLE: Sample = Sample::OneIn(40);

/// Writers of each kind that are killed.
const KILLS: u64 = 2;

/// Body of the writer under test. Arguments: directory, plan.
pub(crate) fn write() {
    let arguments = common::arguments();
    let (home, plan) = (Path::new(&arguments[0]), Plan::from_arguments(&arguments[1..]));
    writer::let_parent_trace();
    let handles = Handles::open(home, plan.kind.is_over_nodes()).expect("opening");
    plan.prepare(&handles).expect("preparing the change");
    writer::mark();
    plan.change(&handles).expect("the change");
    writer::mark();
}

/// The stops to explore, given those in `make test`.
fn sample(usually: Sample) -> Sample {
    match std::env::var(STOPS_VARIABLE) {
        Ok(all) if all == "all" => Sample::All,
        Ok(number) => Sample::Only(number.parse().expect("the number of a stop")),
        Err(_) => usually,
    }
}

fn explore_logged(kind: Kind, is_logged: bool, usually: Sample) {
    let seed = seed();
    let _watchdog = Watchdog::new(format!("exploring {kind:?}, seed {seed}"));
    processor::stay_on_one();
    let explorer = Explorer::new(kind, is_logged, seed);
    let Some(counts) = explorer.explore(sample(usually)) else {
        return skip("processes may not be traced (ptrace)");
    };
    eprintln!("{kind:?}, log {is_logged}, seed {seed}: {counts:?}");
    let mut random = Random::new(seed, 950 + kind as u64);
    for _ in 0..scaled(KILLS) {
        let stop = random.within(1..counts.stops);
        Explorer::new(kind, is_logged, seed).kill_at(stop);
    }
}

fn explore(kind: Kind, usually: Sample) {
    explore_logged(kind, false, usually);
}

#[test]
fn killed_at_every_store_of_a_put_of_a_small_value() {
    explore(Kind::PutSmall, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_put_of_a_large_value() {
    explore(Kind::PutLarge, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_put_under_a_new_key() {
    explore(Kind::PutNew, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_write_to_a_new_array() {
    explore(Kind::WriteNew, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_overwrite_of_a_chunk() {
    explore(Kind::OverwriteChunk, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_overwrite_on_all_targets() {
    explore(Kind::OverwriteArray, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_transaction_over_all_targets() {
    explore(Kind::Transaction, Sample::All);
}

#[test]
fn killed_at_every_store_of_a_transaction_that_reads_another_target() {
    explore(Kind::ReadThenWrite, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_transaction_that_only_reads() {
    explore(Kind::ReadOnly, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_first_read() {
    explore(Kind::FirstRead, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_punch() {
    explore(Kind::Punch, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_snapshot() {
    explore(Kind::Snapshot, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_container() {
    explore(Kind::Container, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_compaction() {
    explore(Kind::Compact, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_growth_of_the_index() {
    explore(Kind::GrowIndex, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_many_puts() {
    explore(Kind::ManyPuts, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_lease() {
    explore(Kind::Lease, SAMPLE);
}

#[test]
fn killed_at_every_store_of_a_commit_over_nodes() {
    explore(Kind::Nodes, SAMPLE);
}

#[test]
fn killed_at_every_store_with_a_log_of_puts() {
    if std::env::var_os(LOG_VARIABLE).is_none() {
        return skip(format!("the log of puts is being redesigned; set {LOG_VARIABLE}=1"));
    }
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_over_nodes()) {
        explore_logged(kind, true, SAMPLE);
    }
}

/// The two ways to find stores agree.
#[test]
fn faults_are_the_stores_that_are_decoded() {
    processor::stay_on_one();
    let list = |method| Explorer::new(Kind::PutSmall, false, 1).list_stops(method);
    let (Some(faults), Some(steps)) = (list(Method::Faults), list(Method::Steps)) else {
        return skip("processes may not be traced (ptrace)");
    };
    assert_eq!(faults, steps);
}
