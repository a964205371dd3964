//! Object ids: unique numbers, and classes adapted to the pool.
use super::store::{Store, checks, opened, refused, run};
use super::{Make, Outcome};
use esker::Wait;
use esker_backend::NewContainer;
use esker_types::info::OpenMode;
use esker_types::{ErrorKind, ObjectClass, ObjectType, Result};

/// Checks object ids.
///
/// # Panics
/// If the backend violates a requirement.
pub fn oids(make: Make<'_>) -> Outcome {
    run(
        "oids",
        &make(),
        checks![
            numbers_follow_each_other,
            next_number_follows_those_of_all_handles,
            numbers_start_at_the_requested_one,
            numbers_are_unique_over_threads,
            numbers_run_out,
            classes_are_fitted,
        ],
    )
}

fn numbers_follow_each_other(store: &Store) -> Result<()> {
    let first = store.container.allocate_oids(5).wait()?;
    assert_eq!(store.container.allocate_oids(1).wait()?, first + 5);
    refused(store.container.allocate_oids(0).wait(), ErrorKind::Invalid);
    let next = store.container.next_oid().wait()?;
    assert!(next >= first + 6, "{next} follows a reserved number");
    assert_eq!(store.container.next_oid().wait()?, next, "nothing is reserved");
    Ok(())
}

/// The other handle may have a block of its own, after that of the first.
fn next_number_follows_those_of_all_handles(store: &Store) -> Result<()> {
    let other = opened(store)?;
    store.container.allocate_oids(1).wait()?;
    let last = other.allocate_oids(1).wait()?;
    let next = store.container.next_oid().wait()?;
    assert!(next > last, "{next} is not in use");
    other.close().wait()
}

fn numbers_start_at_the_requested_one(store: &Store) -> Result<()> {
    let new = NewContainer::named("begun").with_first_oid(1 << 40);
    store.pool.create_container(&new).wait()?;
    let container = store.pool.open_container("begun", OpenMode::ReadWrite).wait()?;
    assert_eq!(container.allocate_oids(3).wait()?, 1 << 40);
    container.close().wait()?;
    let container = store.pool.open_container("begun", OpenMode::ReadWrite).wait()?;
    assert!(container.allocate_oids(3).wait()? >= (1 << 40) + 3, "numbers are used once");
    Ok(())
}

fn numbers_are_unique_over_threads(store: &Store) -> Result<()> {
    let draw = || (0..50).filter_map(|_| store.container.allocate_oids(3).wait().ok()).collect();
    let mut all: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
        let drawn = threads.into_iter().filter_map(|thread| thread.join().ok());
        drawn.flat_map(|numbers: Vec<u64>| numbers).collect()
    });
    all.sort_unstable();
    assert_eq!(all.len(), 200);
    assert!(all.windows(2).all(|pair| pair[1] - pair[0] >= 3), "no number is reserved twice");
    Ok(())
}

/// A request for more numbers than are left fails, and reserves none.
fn numbers_run_out(store: &Store) -> Result<()> {
    store.container.allocate_oids(10).wait()?;
    refused(store.container.allocate_oids(u64::MAX).wait(), ErrorKind::Overflow);
    store.container.allocate_oids(10).wait().map(drop)
}

/// A class is adapted to the number of targets of the pool; a class that does not fit is refused.
fn classes_are_fitted(store: &Store) -> Result<()> {
    let targets = store.pool.capabilities().targets;
    let generate = |class| store.container.generate_oid(!0, 7, ObjectType::Array, class, 0);
    let oid = generate(Some(ObjectClass::SX))?;
    assert_eq!(oid.class().groups(), targets);
    assert_eq!((oid.hi & 0xffff_ffff, oid.lo), (0xffff_ffff, 7));
    assert_eq!(oid.object_type(), Some(ObjectType::Array));
    assert_eq!(generate(None)?.class().groups(), targets);
    refused(generate(Some(ObjectClass::from_code(0))), ErrorKind::Invalid);
    let too_wide = ObjectClass::from_code(ObjectClass::S1.code() + targets);
    refused(generate(Some(too_wide)), ErrorKind::Invalid);
    Ok(())
}
