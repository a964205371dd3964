//! Leases on objects, and the removal of unlinked objects by their last user.
use super::store::{Store, checks, refused, run};
use super::{Make, Outcome};
use esker::{Lease, Object, Wait};
use esker_types::info::OpenMode;
use esker_types::{ErrorKind, ObjectId, Result};

/// Checks leases.
///
/// # Panics
/// If the backend violates a requirement.
pub fn leases(make: Make<'_>) -> Outcome {
    run(
        "leases",
        &make(),
        checks![
            without_a_lease_nothing_waits_for_the_last_close,
            the_last_lease_of_an_unlinked_object_is_told,
            objects_not_unlinked_are_not_removed,
            leases_after_the_unlink_share_it,
            leases_of_objects_and_containers_are_separate,
            dropping_a_lease_ends_it,
            a_lease_outlives_the_container_handle,
            many_at_once,
            several_in_one_call,
            one_of_concurrent_lease_holders_is_told,
        ],
    )
}

fn without_a_lease_nothing_waits_for_the_last_close(store: &Store) -> Result<()> {
    let object = store.object()?;
    assert!(!object.unlink_on_last_close().wait()?, "no process has a lease");
    let lease = object.lease().wait()?;
    assert!(lease.counts() && lease.oid() == object.oid());
    assert!(!lease.release().wait()?, "an early unlink does not count");
    assert!(!object.unlink_on_last_close().wait()?, "no process has a lease any more");
    Ok(())
}

fn the_last_lease_of_an_unlinked_object_is_told(store: &Store) -> Result<()> {
    let object = store.object()?;
    let leases = (0..3).map(|_| object.lease().wait()).collect::<Result<Vec<_>>>()?;
    assert!(object.unlink_on_last_close().wait()?);
    assert!(object.unlink_on_last_close().wait()?, "unlinking twice is not an error");
    let told =
        leases.into_iter().map(|lease| lease.release().wait()).collect::<Result<Vec<_>>>()?;
    assert_eq!(told, [false, false, true]);
    assert!(!object.unlink_on_last_close().wait()?);
    Ok(())
}

fn objects_not_unlinked_are_not_removed(store: &Store) -> Result<()> {
    let object = store.object()?;
    let (first, second) = (object.lease().wait()?, object.lease().wait()?);
    assert!(!first.release().wait()? && !second.release().wait()?);
    Ok(())
}

fn leases_after_the_unlink_share_it(store: &Store) -> Result<()> {
    let object = store.object()?;
    let first = object.lease().wait()?;
    assert!(object.unlink_on_last_close().wait()?);
    let second = object.lease().wait()?;
    assert!(!first.release().wait()?);
    assert!(
        second.release().wait()?,
        "the last one is told, even if it was taken after the unlink"
    );
    Ok(())
}

fn leases_of_objects_and_containers_are_separate(store: &Store) -> Result<()> {
    let (leased, other) = (store.object()?, store.object()?);
    let new = esker_backend::NewContainer::named("apart");
    store.pool.create_container(&new).wait()?;
    let elsewhere = store.pool.open_container("apart", OpenMode::ReadWrite).wait()?;
    let same = elsewhere.object(leased.oid());
    let lease = leased.lease().wait()?;
    assert!(!other.unlink_on_last_close().wait()? && !same.unlink_on_last_close().wait()?);
    assert!(!lease.release().wait()?);
    elsewhere.close().wait()
}

fn dropping_a_lease_ends_it(store: &Store) -> Result<()> {
    let object = store.object()?;
    drop(object.lease().wait()?);
    assert!(!object.unlink_on_last_close().wait()?);
    Ok(())
}

fn a_lease_outlives_the_container_handle(store: &Store) -> Result<()> {
    let container = store.pool.open_container(&store.uuid(), OpenMode::ReadWrite).wait()?;
    let object = container.object(store.object()?.oid());
    let lease = object.lease().wait()?;
    container.close().wait()?;
    refused(object.lease().wait(), ErrorKind::NoHandle);
    let same = store.container.object(object.oid());
    assert!(same.unlink_on_last_close().wait()?);
    assert!(lease.release().wait()?);
    Ok(())
}

/// Leases on many objects at a time, of which every second one is unlinked.
fn many_at_once(store: &Store) -> Result<()> {
    let objects = (0..2000).map(|_| store.object()).collect::<Result<Vec<_>>>()?;
    let lease = |object: &Object| object.lease().wait();
    let leases = objects.iter().map(lease).collect::<Result<Vec<_>>>()?;
    for object in objects.iter().step_by(2) {
        assert!(object.unlink_on_last_close().wait()?);
    }
    for (number, lease) in leases.into_iter().enumerate() {
        assert_eq!(lease.release().wait()?, number % 2 == 0, "object {number}");
    }
    Ok(())
}

/// Takes two leases on each object. The second call that ends them returns the objects to remove.
fn several_in_one_call(store: &Store) -> Result<()> {
    let objects = (0..100).map(|_| store.object()).collect::<Result<Vec<_>>>()?;
    let oids: Vec<ObjectId> = objects.iter().map(Object::oid).collect();
    let take = || store.container.lease_each(&oids).wait();
    let (first, mut second) = (take()?, take()?);
    assert!(first.iter().map(Lease::oid).eq(oids.iter().copied()), "in the order of the objects");
    for object in objects.iter().step_by(3) {
        assert!(object.unlink_on_last_close().wait()?);
    }
    assert_eq!(Lease::release_each(first).wait()?, [false; 100]);
    let alone = second.remove(0);
    let told = Lease::release_each(second).wait()?;
    assert!(told.into_iter().zip(1..).all(|(told, number)| told == (number % 3 == 0)));
    assert!(alone.release().wait()?, "one of them was kept");
    assert!(Lease::release_each(Vec::new()).wait()?.is_empty());
    Ok(())
}

fn one_of_concurrent_lease_holders_is_told(store: &Store) -> Result<()> {
    for _ in 0..100 {
        let object = store.object()?;
        let leases = (0..4).map(|_| object.lease().wait()).collect::<Result<Vec<_>>>()?;
        let (unlinked, told) = std::thread::scope(|scope| {
            let release = |lease: esker::Lease| scope.spawn(move || lease.release().wait());
            let threads: Vec<_> = leases.into_iter().map(release).collect();
            let unlinked = object.unlink_on_last_close().wait();
            let told = threads.into_iter().map(|thread| thread.join());
            (unlinked, told.filter(|told| matches!(told, Ok(Ok(true)))).count())
        });
        assert_eq!(
            told,
            usize::from(unlinked?),
            "either one lease holder removes it, or the process that unlinked it"
        );
    }
    Ok(())
}
