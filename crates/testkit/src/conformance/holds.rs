//! Objects in use, and who removes what was doomed meanwhile.
use super::Make;
use super::store::{Store, checks, refused, run};
use esker::{Object, Wait};
use esker_types::info::OpenMode;
use esker_types::{ErrorKind, Result};

/// Checks holds.
///
/// # Panics
/// Where the backend does not do as it must.
pub fn holds(make: Make<'_>) {
    run(
        "holds",
        make,
        checks![
            what_nobody_holds_is_not_doomed,
            the_last_of_a_doomed_object_is_told,
            what_was_not_doomed_is_nobodys_to_remove,
            holds_after_a_doom_share_it,
            objects_and_containers_are_apart,
            a_dropped_hold_is_over,
            a_hold_outlives_the_container_handle,
            many_at_once,
            one_of_racing_holders_is_told,
        ],
    );
}

fn what_nobody_holds_is_not_doomed(store: &Store) -> Result<()> {
    let object = store.object()?;
    assert!(!object.doom().wait()?, "nobody holds it");
    let hold = object.hold().wait()?;
    assert!(hold.counts() && hold.oid() == object.oid());
    assert!(!hold.release().wait()?, "an early doom is no doom");
    assert!(!object.doom().wait()?, "nobody holds it any more");
    Ok(())
}

fn the_last_of_a_doomed_object_is_told(store: &Store) -> Result<()> {
    let object = store.object()?;
    let holds = (0..3).map(|_| object.hold().wait()).collect::<Result<Vec<_>>>()?;
    assert!(object.doom().wait()?);
    assert!(object.doom().wait()?, "twice is no error");
    let told = holds.into_iter().map(|hold| hold.release().wait()).collect::<Result<Vec<_>>>()?;
    assert_eq!(told, [false, false, true]);
    assert!(!object.doom().wait()?);
    Ok(())
}

fn what_was_not_doomed_is_nobodys_to_remove(store: &Store) -> Result<()> {
    let object = store.object()?;
    let (first, second) = (object.hold().wait()?, object.hold().wait()?);
    assert!(!first.release().wait()? && !second.release().wait()?);
    Ok(())
}

fn holds_after_a_doom_share_it(store: &Store) -> Result<()> {
    let object = store.object()?;
    let first = object.hold().wait()?;
    assert!(object.doom().wait()?);
    let second = object.hold().wait()?;
    assert!(!first.release().wait()?);
    assert!(second.release().wait()?, "the last one is told, however late it began");
    Ok(())
}

fn objects_and_containers_are_apart(store: &Store) -> Result<()> {
    let (held, other) = (store.object()?, store.object()?);
    let new = esker_backend::NewContainer { label: Some("apart"), ..Default::default() };
    store.pool.create_container(&new).wait()?;
    let elsewhere = store.pool.open_container("apart", OpenMode::ReadWrite).wait()?;
    let same = elsewhere.object(held.oid());
    let hold = held.hold().wait()?;
    assert!(!other.doom().wait()? && !same.doom().wait()?);
    assert!(!hold.release().wait()?);
    elsewhere.close().wait()
}

fn a_dropped_hold_is_over(store: &Store) -> Result<()> {
    let object = store.object()?;
    drop(object.hold().wait()?);
    assert!(!object.doom().wait()?);
    Ok(())
}

fn a_hold_outlives_the_container_handle(store: &Store) -> Result<()> {
    let container = store.pool.open_container(&store.uuid(), OpenMode::ReadWrite).wait()?;
    let object = container.object(store.object()?.oid());
    let hold = object.hold().wait()?;
    container.close().wait()?;
    refused(object.hold().wait(), ErrorKind::NoHandle);
    let same = store.container.object(object.oid());
    assert!(same.doom().wait()?);
    assert!(hold.release().wait()?);
    Ok(())
}

fn many_at_once(store: &Store) -> Result<()> {
    let objects = (0..2000).map(|_| store.object()).collect::<Result<Vec<_>>>()?;
    let hold = |object: &Object| object.hold().wait();
    let holds = objects.iter().map(hold).collect::<Result<Vec<_>>>()?;
    for object in objects.iter().step_by(2) {
        assert!(object.doom().wait()?);
    }
    for (number, hold) in holds.into_iter().enumerate() {
        assert_eq!(hold.release().wait()?, number % 2 == 0, "object {number}");
    }
    Ok(())
}

fn one_of_racing_holders_is_told(store: &Store) -> Result<()> {
    for _ in 0..100 {
        let object = store.object()?;
        let holds = (0..4).map(|_| object.hold().wait()).collect::<Result<Vec<_>>>()?;
        let (doomed, told) = std::thread::scope(|scope| {
            let release = |hold: esker::Hold| scope.spawn(move || hold.release().wait());
            let threads: Vec<_> = holds.into_iter().map(release).collect();
            let doomed = object.doom().wait();
            let told = threads.into_iter().map(|thread| thread.join());
            (doomed, told.filter(|told| matches!(told, Ok(Ok(true)))).count())
        });
        assert_eq!(
            told,
            usize::from(doomed?),
            "what is doomed is removed by one, else by the doomer"
        );
    }
    Ok(())
}
