//! Crashes at every store. A writer is stopped before each instruction that writes to the files of a pool. At each
//! stop, other processes read the pool. A copy of it, in which the writer is dead, is checked.
mod changes;
mod content;
mod copies;
mod explorer;
mod handles;
mod mappings;
pub(crate) mod observer;
mod processor;
mod stores;
mod tracee;
mod writer;

use crate::common::{self, PoolKind, Watchdog};
use changes::{Kind, Plan};
use esker_testing::{Random, scaled, seed, skip};
use explorer::{Explorer, Sample};
use std::panic::catch_unwind;
use std::path::Path;
use writer::Method;

/// Environment variable with the stops to explore: `all`, or the number of one of them.
const STOPS_VARIABLE: &str = "ESKER_EXPLORE";

/// Share of the stops that `make test` explores: one in this many.
const STOPS_PER_READ: u64 = 40;

/// Writers of each kind that `make test` kills.
const KILLS: u64 = 2;

/// Body of the writer under test. Arguments: directory, plan.
pub(crate) fn write() {
    let arguments = common::arguments();
    let (home, plan) = (Path::new(&arguments[0]), Plan::from_arguments(&arguments[1..]));
    writer::let_parent_trace();
    plan.run(home).expect("the change");
}

/// The stops of a kind of change to explore: in `make test` all of a transaction, and a sample of others.
fn sample_of(kind: Kind) -> Sample {
    let longer = scaled(STOPS_PER_READ).div_ceil(STOPS_PER_READ);
    match std::env::var(STOPS_VARIABLE) {
        Ok(all) if all == "all" => Sample::All,
        Ok(number) => Sample::Only(number.parse().expect("the number of a stop")),
        Err(_) if kind == Kind::Transaction => Sample::All,
        Err(_) => Sample::OneIn((STOPS_PER_READ / longer).max(1)),
    }
}

/// Stops a writer at its stores and lets others read, then kills writers at random stops.
fn explore(kind: Kind, pool_kind: PoolKind) {
    let seed = seed();
    let _watchdog = Watchdog::new(format!("exploring {kind:?} on {pool_kind:?}, seed {seed}"));
    let explorer = Explorer::new(kind, pool_kind, seed);
    processor::stay_on_one();
    let Some(counts) = explorer.explore(sample_of(kind)) else {
        return skip("processes may not be traced (ptrace)");
    };
    eprintln!("\nfigure: killed at every store, {kind:?} on {pool_kind:?}, seed {seed}: {counts}");
    let mut random = Random::new(seed, 950 + kind as u64);
    for _ in 0..scaled(KILLS) {
        let stop = random.within(1..counts.stops);
        Explorer::new(kind, pool_kind, seed).kill_at(stop);
    }
}

/// A test for each kind of change.
macro_rules! explore {
    ($($name:ident $kind:ident)*) => {
        $(
            #[test]
            fn $name() {
                explore(Kind::$kind, PoolKind::Unbuffered);
            }
        )*
    };
}

explore! {
    killed_at_every_store_of_a_put_of_a_small_value PutSmall
    killed_at_every_store_of_a_put_of_a_large_value PutLarge
    killed_at_every_store_of_a_put_under_a_new_key PutNew
    killed_at_every_store_of_a_write_to_a_new_array WriteNew
    killed_at_every_store_of_an_overwrite_of_a_chunk OverwriteChunk
    killed_at_every_store_of_an_overwrite_on_all_targets OverwriteArray
    killed_at_every_store_of_a_transaction_over_all_targets Transaction
    killed_at_every_store_of_a_transaction_that_reads_another_target ReadThenWrite
    killed_at_every_store_of_a_transaction_that_only_reads ReadOnly
    killed_at_every_store_of_a_first_read FirstRead
    killed_at_every_store_of_a_punch Punch
    killed_at_every_store_of_a_snapshot Snapshot
    killed_at_every_store_of_a_container Container
    killed_at_every_store_of_a_compaction Compact
    killed_at_every_store_while_an_index_grows GrowIndex
    killed_at_every_store_of_many_puts ManyPuts
    killed_at_every_store_of_a_lease Lease
    killed_at_every_store_while_a_pool_is_opened_and_closed Open
    killed_at_every_store_of_a_commit_over_nodes Nodes
}

/// Explores kinds of changes on another kind of pool. If one fails, the others are still explored.
fn explore_on(pool_kind: PoolKind, kinds: &[Kind]) {
    let fails = |kind: &&Kind| catch_unwind(|| explore(**kind, pool_kind)).is_err();
    let failed: Vec<_> = kinds.iter().filter(fails).collect();
    assert!(failed.is_empty(), "on {pool_kind:?}, these kinds failed: {failed:?}");
}

/// True if the environment asks for all stops.
fn explores_all() -> bool {
    std::env::var(STOPS_VARIABLE).is_ok_and(|stops| stops == "all")
}

#[test]
fn killed_at_every_store_with_write_buffers() {
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(|kind| !kind.is_over_nodes()).collect();
    explore_on(PoolKind::Memory, &kinds);
}

#[test]
fn killed_at_every_store_with_a_guarded_index() {
    let few = [Kind::PutSmall, Kind::OverwriteArray];
    explore_on(PoolKind::Guarded, if explores_all() { &Kind::ALL } else { &few });
}

#[test]
fn killed_at_every_store_of_a_durable_pool() {
    let few = [Kind::PutSmall, Kind::PutLarge];
    let all: Vec<_> = Kind::ALL.into_iter().filter(|kind| !kind.is_over_nodes()).collect();
    explore_on(PoolKind::Durable, if explores_all() { &all } else { &few });
}

#[test]
fn killed_at_every_store_of_a_durable_pool_without_write_buffers() {
    let kinds: &[Kind] = if explores_all() { &Kind::ALL } else { &[Kind::PutLarge] };
    explore_on(PoolKind::DurableUnbuffered, kinds);
}

/// Both methods of finding stores agree.
#[test]
fn faults_are_the_stores_that_are_decoded() {
    processor::stay_on_one();
    let list = |method| Explorer::new(Kind::PutSmall, PoolKind::Unbuffered, 1).list_stops(method);
    let (Some(faults), Some(steps)) = (list(Method::Faults), list(Method::Steps)) else {
        return skip("processes may not be traced (ptrace)");
    };
    assert_eq!(faults, steps);
}
