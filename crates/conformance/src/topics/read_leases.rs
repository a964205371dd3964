//! Leases on reads: data that does not change while they last.
use super::store::{Store, checks, put, run};
use super::transactions::{open, proof_of, put_tx};
use super::{Make, Outcome};
use esker::Wait;
use esker_testing::wait_for;
use esker_types::Result;
use std::time::Instant;

/// Checks leases on reads, if the backend grants them.
///
/// # Panics
/// If the backend violates a requirement.
pub fn read_leases(make: Make<'_>) -> Outcome {
    let pool = make();
    if !pool.capabilities().read_leases {
        return Outcome::Skipped { capability: "read_leases" };
    }
    run("read_leases", &pool, checks![leased_reads_do_not_change])
}

fn leased_reads_do_not_change(store: &Store) -> Result<()> {
    let object = store.object()?;
    let names: Vec<Vec<u8>> = (0..100).map(|number| format!("d{number}").into_bytes()).collect();
    names[..99].iter().try_for_each(|name| put(&object, name, b"a", b"old"))?;
    let lease = store.container.lease_reads(&proof_of(store, &object, &names)?).wait()?;
    assert!(lease.is_some(), "no change prevents the lease");
    let Some((_, proof)) = lease else { return Ok(()) };

    // The tokens of a lease are a proof, and renew the lease.
    store.container.write_if(&[], &proof).wait()?;
    let asked = Instant::now();
    let renewed = store.container.lease_reads(&proof).wait()?;
    assert!(renewed.is_some(), "nothing has changed");
    let Some((term, proof)) = renewed else { return Ok(()) };

    // The put of a new key waits until the lease ends, which is not renewed after that.
    put(&object, &names[99], b"a", b"new")?;
    assert!(asked.elapsed() >= term, "changed within the term");
    assert!(store.container.lease_reads(&proof).wait()?.is_none());

    // It may take a while until leases are granted again. Then a transaction waits, too.
    let proof = proof_of(store, &object, &names)?;
    let (mut asked, mut lease) = (Instant::now(), Ok(None));
    wait_for("another lease", || {
        asked = Instant::now();
        lease = store.container.lease_reads(&proof).wait();
        !matches!(lease, Ok(None))
    });
    let Some((term, _)) = lease? else { return Ok(()) };
    let changing = open(store)?;
    put_tx(&object, &names[50], b"new", &changing)?;
    put_tx(&object, b"other", b"new", &changing)?;
    changing.commit().wait()?;
    assert!(asked.elapsed() >= term, "changed within the term");
    Ok(())
}
