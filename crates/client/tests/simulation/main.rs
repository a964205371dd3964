//! A deterministic simulation of clients, engines and the network between them. All run on one thread with a simulated
//! clock. Delays, cut connections, partitions, engines that die and come back, and clients that die are drawn from a
//! seed. The histories of the clients must be linearizable, and transactions over nodes must be atomic, take effect
//! once, and in one order. A failure prints the seed that replays it (`ESKER_SEED`).
mod accounts;
mod clock;
mod network;
mod world;

use esker_conformance::faulty::Fault;
use esker_testing::{Random, linear, seed};
use esker_types::limits::DECISIONS_MAX;
use world::{Plan, Register, simulate};

/// Environment variable with the number of simulations of each kind.
const ROUNDS_VARIABLE: &str = "ESKER_SIMULATION_ROUNDS";

/// Simulations of each kind in `make test`.
const ROUNDS: u64 = 10;

/// Simulations within which a fault must be found.
const ROUNDS_TO_FIND: u64 = 30;

/// Number of simulations: that of the environment, or [`ROUNDS`].
fn rounds() -> u64 {
    let given = std::env::var(ROUNDS_VARIABLE).ok().and_then(|rounds| rounds.parse().ok());
    given.unwrap_or(ROUNDS)
}

/// The registers whose history cannot be explained.
fn unexplained(registers: &[Register]) -> Vec<&Register> {
    let is_explained = |register: &&Register| linear::is_linearizable(&register.operations);
    registers.iter().filter(|register| !is_explained(register)).collect()
}

/// Simulates a number of engines that store at most `decisions_max` commit decisions each, and checks the histories.
fn histories_are_linearizable(engines: usize, decisions_max: usize) {
    let mut random = Random::new(seed(), (engines + decisions_max % DECISIONS_MAX) as u64);
    let (mut known, mut unknown, mut troubles) = (0, 0, 0);
    let (mut done, mut undone, mut audits) = (0, 0, 0);
    let (mut swept, mut uncertain) = (0, 0);
    for round in 0..rounds() {
        let is_swept = decisions_max < DECISIONS_MAX;
        let fault = if is_swept { Fault::NeverForgets } else { Fault::None };
        let plan = Plan { seed: random.draw(), engines, fault, decisions_max };
        let outcome = simulate(plan);
        assert_eq!(outcome.wrong, None, "round {round}, {plan:?}");
        let wrong = unexplained(&outcome.registers);
        assert!(wrong.is_empty(), "round {round}, {plan:?}: {wrong:#?}");
        known += outcome.count(true);
        unknown += outcome.count(false);
        troubles += outcome.troubles;
        done += outcome.ledger.done.len();
        undone += outcome.ledger.undone.len();
        audits += outcome.ledger.audits;
        swept += outcome.swept;
        uncertain += outcome.uncertain;
    }
    println!("{known} operations with a result, {unknown} without, {troubles} troubles");
    println!("{done} transactions done, {undone} not, {audits} audits");
    println!("{swept} decisions swept, {uncertain} commits with an unknown outcome");
    assert_eq!(swept > 0, decisions_max < DECISIONS_MAX);
    // A network in which nothing works, or nothing fails, would prove nothing.
    assert!(known > 100 * rounds() && unknown > 0 && troubles > rounds(), "{known} {unknown}");
    assert!(done > 10 * rounds() as usize && undone > 0 && audits > rounds());
}

#[test]
fn histories_on_one_engine_are_linearizable() {
    histories_are_linearizable(1, DECISIONS_MAX);
}

#[test]
fn histories_on_a_pool_over_three_engines_are_linearizable() {
    histories_are_linearizable(3, DECISIONS_MAX);
}

/// All clients die before they remove a decision. So few are stored that they are swept while clients still ask for
/// them.
#[test]
fn histories_are_linearizable_while_decisions_are_swept() {
    histories_are_linearizable(3, 1);
}

#[test]
fn a_seed_replays() {
    let plan = Plan { seed: seed(), engines: 3, fault: Fault::NeverForgets, decisions_max: 1 };
    let [first, second] = [simulate(plan), simulate(plan)];
    assert!(first.registers == second.registers, "the same seed, another history");
    let other = simulate(Plan { seed: !seed(), ..plan });
    assert!(first.registers != other.registers, "another seed, the same history");
}

/// Shows that the simulation and the checker find faults.
fn is_found(fault: Fault) {
    let mut random = Random::new(seed(), 7);
    let found = (0..ROUNDS_TO_FIND).any(|_| {
        let outcome =
            simulate(Plan { seed: random.draw(), engines: 1, fault, decisions_max: DECISIONS_MAX });
        outcome.wrong.is_some() || !unexplained(&outcome.registers).is_empty()
    });
    assert!(found, "{fault:?} was not found");
}

#[test]
fn lost_change_is_detected() {
    is_found(Fault::LostWrite);
}

#[test]
fn change_applied_twice_is_detected() {
    is_found(Fault::ForgottenIds);
}
