//! Read leases. Until a lease ends, nothing changes that its holder has read, so the holder need not read it again.
//!
//! A lease is stored for each slot of the conflict table on which a read depends. It is an atomic with the time of its
//! end, by the clock of the machine. A process that grants a lease first stores its end, then checks that the slots
//! still have the versions that were read. A process that makes a change first stores the versions, then looks for
//! leases on their slots, then commits. If there is a lease, it changes nothing and tries again when the lease has
//! ended. So at least one of the two processes sees the other. There are no callbacks, and a lease ends even if its
//! holder is dead (C. Gray, D. Cheriton: Leases, 1989).
//!
//! Clocks of nodes need not agree, since a holder measures from before its request. Their rates may only differ by less
//! than [`MARGIN`] per lease.
use super::Target;
use super::container::Container;
use super::open_pool::OpenPool;
use crate::shared::control::TargetAtomics;
use crate::shared::read_version::{Reads, Slots, Version};
use crate::sync::{AtomicU64, fence, sleep};
use esker_os::uptime;
use esker_types::ops::{ReadLease, ReadTokens};
use esker_types::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time for which a process may use data that it has read on another node without asking again. A change of the data
/// waits until then.
pub const READ_LEASE: Duration = Duration::from_millis(20);

/// Extra time for which a lease lasts on this node, in microseconds, which is the unit of all times here.
const MARGIN: u64 = LEASE / 8;
const LEASE: u64 = READ_LEASE.as_micros() as u64;

/// After a change had to wait, leases on its target are refused for this many times as long. So changes wait for at
/// most a sixteenth of the time, even under many reads.
const PAUSE: u64 = 16;

impl OpenPool {
    /// Grants a lease on everything that was read under these tokens, which may be those of an earlier lease. Returns
    /// `None` if any of it has changed or is about to change, or if changes had to wait for leases recently.
    ///
    /// # Errors
    /// `Invalid` for tokens of another pool; `NoHandle` if the container was destroyed.
    pub fn lease_reads(
        &self,
        container: &Container,
        tokens: &ReadTokens,
    ) -> Result<Option<ReadLease>> {
        let reads = Reads::parse_tokens(tokens, self.superblock.targets)?;
        let target = |number: u32| &*self.targets[number as usize];
        let now = uptime();
        let is_current = || {
            let mut all = reads.0.iter();
            all.all(|((number, version), slots)| {
                target(*number).is_unchanged(slots.iter(), *version)
            })
        };
        // This is checked before an end is stored, since a stored end may delay changes even if no lease is granted.
        if reads.0.keys().any(|(number, _)| target(*number).has_lease_pause(now)) || !is_current() {
            return Ok(None);
        }
        // The latest versions are read before the slots are checked again: if these have not changed until then, the
        // reads are valid in the latest versions too. A read of a buffered put has a later version than the last
        // commit.
        let latest = reads.in_versions(|number| {
            let last = Version::committed(target(number).index.last_commit()?);
            Ok(last.0.max(reads.newest(number)))
        })?;
        for ((number, _), slots) in &latest.0 {
            target(*number).store_lease_end(slots, now + LEASE + MARGIN);
        }
        fence(Ordering::SeqCst);
        if !is_current() {
            return Ok(None);
        }
        container.check_alive(self)?;
        Ok(Some(ReadLease { term: READ_LEASE, reads: latest.to_tokens() }))
    }
}

impl Target {
    /// True if changes had to wait recently, so that no leases are granted.
    fn has_lease_pause(&self, now: u64) -> bool {
        let until = self.shared().leases_pause().load(Ordering::Relaxed);
        until > now && until <= now + (PAUSE + 1) * (LEASE + MARGIN)
    }

    /// Stores that these slots do not change before `until`.
    fn store_lease_end(&self, slots: &Slots, until: u64) {
        let words = self.control.read_leases(self.number());
        slots.iter().for_each(|slot| extend_lease(&words[slot], until));
        extend_lease(self.shared().leased_until(), until);
    }

    /// True if the target is not in doubt, and none of these slots of the conflict table has a version later than
    /// `version`.
    pub(crate) fn is_unchanged(
        &self,
        mut slots: impl Iterator<Item = usize>,
        version: u64,
    ) -> bool {
        let conflicts = self.shared().conflicts();
        !self.is_in_doubt() && slots.all(|slot| conflicts[slot].load(Ordering::Acquire) <= version)
    }

    /// Fails if a lease on these slots has not ended. Call it between storing their versions, or a doubt, and the
    /// commit.
    ///
    /// # Errors
    /// An error that [`retry_after_leases`] handles.
    #[inline]
    pub(crate) fn expect_no_leases(&self, slots: &[u32]) -> Result<()> {
        fence(Ordering::SeqCst);
        match self.shared().leased_until().load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => self.expect_no_leases_on(slots),
        }
    }

    /// Body of [`Target::expect_no_leases`] for a target that has had leases.
    fn expect_no_leases_on(&self, slots: &[u32]) -> Result<()> {
        let words = self.control.read_leases(self.number());
        let plausible = uptime() + LEASE + MARGIN;
        let ends = slots.iter().map(|slot| words[*slot as usize].load(Ordering::Relaxed));
        // A later end is damaged.
        let ends = ends.filter(|end| *end <= plausible);
        expect_ended(self.shared(), ends.max().unwrap_or(0))
    }

    /// Waits until all leases on this target have ended.
    ///
    /// # Errors
    /// `Busy` on a thread that must not block.
    pub(crate) fn wait_for_all_leases(&self) -> Result<()> {
        retry_after_leases(|| {
            fence(Ordering::SeqCst);
            expect_ended(self.shared(), self.shared().leased_until().load(Ordering::Relaxed))
        })
    }
}

/// Sets an end to `until`, unless the stored end is later. A stored end that is later than any lease may last is
/// damaged. Changes ignore such an end, and so would ignore the lease.
fn extend_lease(end: &AtomicU64, until: u64) {
    let plausible = until..=until + LEASE + MARGIN;
    let _ = end.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
        (!plausible.contains(&seen)).then_some(until)
    });
}

/// Fails with `Busy` if a read lease lasts until `end` and the clock has not reached `end`. Then it also pauses the
/// granting of leases, so that the change succeeds later.
fn expect_ended(atomics: TargetAtomics<'_>, end: u64) -> Result<()> {
    let now = uptime();
    // An end that is later than any lease may last is damaged.
    if end <= now || end > now + LEASE + MARGIN {
        return Ok(());
    }
    atomics.leases_pause().fetch_max(end + PAUSE * (end - now), Ordering::Relaxed);
    let message = "other nodes have a read lease on data of this change: retry";
    Err(Error::new(ErrorKind::Busy, message).with_needed(end))
}

/// Combines the results of several changes of one commit. If leases prevent some of them, the result is the error with
/// the latest end, so that the commit waits only once.
///
/// # Errors
/// The first error that is not about a lease; otherwise the one with the latest end.
pub(crate) fn combine_lease_results(changes: impl Iterator<Item = Result<()>>) -> Result<()> {
    let mut latest = None;
    for error in changes.filter_map(Result::err) {
        if error.kind() != ErrorKind::Busy || error.needed().is_none() {
            return Err(error);
        }
        latest =
            std::cmp::max_by_key(latest, Some(error), |it| it.as_ref().and_then(Error::needed));
    }
    latest.map_or(Ok(()), Err)
}

/// Maximum number of waits for leases before a change fails. Each wait pauses new leases for longer than it takes.
const WAITS_MAX: usize = 100;

/// Runs `work`, which makes a change, and repeats it after the leases that prevented it have ended. No lock is held in
/// between, so only the change itself waits.
///
/// # Errors
/// Errors of `work`; `Busy` on a thread that must not block.
pub(crate) fn retry_after_leases<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..WAITS_MAX {
        match work() {
            Err(error) if error.kind() == ErrorKind::Busy && error.needed().is_some() => {
                let end = error.needed().unwrap_or(0);
                sleep(Duration::from_micros(end.saturating_sub(uptime())))?;
            }
            result => return result,
        }
    }
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;
    use crate::{ContainerSpec, PoolSpec, ReadVersion};
    use esker_os::executor::without_waiting;
    use esker_types::info::{ContainerRef, OpenMode, Part};
    use esker_types::ops::{
        Commit, CommitId, Cond, Fetch, ReadAt, Sink, Source, Update, Value, View, Write, WriteOp,
    };
    use esker_types::{Epoch, ObjectClass, ObjectId, ObjectType, Uuid};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Number of attempts to finish something within the term of a lease.
    const ROUNDS: u32 = 1000;

    struct Pool {
        _scratch: Scratch,
        pool: Arc<OpenPool>,
        container: Container,
    }

    impl Pool {
        fn new() -> Self {
            Self::with(|spec| spec.part = Part { node: 0, nodes: 2 })
        }

        /// A pool of two targets; `set` adjusts its specification.
        fn with(set: impl FnOnce(&mut PoolSpec)) -> Self {
            let scratch = Scratch::new(24 << 20, |spec| {
                spec.targets = Some(2);
                set(spec);
            });
            let pool = scratch.opened();
            let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
            pool.create_container(&spec).unwrap();
            let name = ContainerRef::Label("c");
            let container = pool.open_container(name, OpenMode::ReadWrite).unwrap();
            Self { _scratch: scratch, pool, container }
        }

        /// Writes a value to targets, or prepares it for a commit over nodes.
        fn write(&self, targets: &[u32], value: u8, commit: Option<Commit>) -> Result<Epoch> {
            let (bytes, pool) = ([value], &self.pool);
            let value = Value::Single(Source::One(&bytes));
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
            let writes = [(Write { oid: oid(), op }, targets.to_vec())];
            match (commit, targets) {
                (Some(commit), _) => pool.prepare_change(&self.container, commit, &writes, &[]),
                (None, [only]) => pool.write(&self.container, *only, &[writes[0].0], &[], None),
                (None, _) => pool.write_many(&self.container, &writes, &[], None),
            }
        }

        fn read(&self, target: u32, tokens: Option<&ReadTokens>) -> Result<u8> {
            let mut bytes = [0];
            let mut fetches = [Fetch::single(b"a", Sink::One(&mut bytes))];
            let at = ReadAt { view: View::Latest, tokens };
            let (id, target) = (self.container.id(), &self.pool.targets[target as usize]);
            target.fetch(id, oid(), b"d", Cond::NONE, &mut fetches, at)?;
            Ok(bytes[0])
        }

        /// Resets the pause that waiting changes cause.
        fn reset_lease_pause(&self) {
            let targets = self.pool.targets.iter();
            targets.for_each(|it| it.shared().leases_pause().store(0, Ordering::SeqCst));
        }

        /// Asks for a lease on these reads, even if changes had to wait before.
        fn lease(&self, reads: &ReadTokens) -> Result<Option<ReadLease>> {
            self.reset_lease_pause();
            self.pool.lease_reads(&self.container, reads)
        }

        /// A lease on the values of both targets, and the time of the request.
        fn leased(&self) -> (u64, ReadLease) {
            let tokens = ReadTokens::default();
            for target in [0, 1] {
                self.read(target, Some(&tokens)).unwrap();
            }
            (uptime(), self.lease(&tokens).unwrap().expect("nothing is in the way"))
        }
    }

    fn oid() -> ObjectId {
        ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1)
    }

    fn commit(number: u8) -> Commit {
        Commit { id: CommitId::new(Epoch(0), Uuid([number; 16])), coordinator: 0 }
    }

    #[test]
    fn change_waits_for_leases_on_its_data() {
        let pool = Pool::new();
        for (value, targets) in [(1, &[0][..]), (2, &[1]), (3, &[0, 1])] {
            let (asked, _) = pool.leased();
            pool.write(targets, value, None).unwrap();
            assert!(uptime() >= asked + LEASE, "changed within the term");
            assert_eq!(pool.read(targets[0], None).unwrap(), value);
        }
    }

    /// Each renewal uses the tokens of the lease before it.
    #[test]
    fn lease_is_renewed_until_its_data_changes() {
        let pool = Pool::new();
        pool.write(&[0, 1], 1, None).unwrap();
        let (_, mut lease) = pool.leased();
        for _ in 0..3 {
            let again = pool.lease(&lease.reads).unwrap();
            lease = again.expect("nothing has changed");
            assert!(lease.reads.map(<[u8]>::len).iter().sum::<usize>() < 128, "short tokens");
        }
        pool.write(&[1], 2, None).unwrap();
        assert!(pool.lease(&lease.reads).unwrap().is_none());
        // The tokens of target 0 alone are still valid, also for a commit.
        let of_first = ReadTokens::default();
        let first = lease.reads.map(|token| token.starts_with(&[0; 4]).then(|| token.to_vec()));
        first.iter().flatten().for_each(|token| of_first.add(token));
        assert!(pool.lease(&of_first).unwrap().is_some());
        let is_valid = |tokens| {
            pool.pool.check_read_versions(&ReadVersion::parse_tokens(tokens, 2).unwrap()).is_ok()
        };
        assert!(is_valid(&of_first) && !is_valid(&lease.reads));
    }

    /// The read of a buffered put has a later version than the last commit.
    #[test]
    fn lease_on_buffered_data_is_a_proof_and_is_renewed() {
        let pool = Pool::with(|spec| spec.write_buffer = Some(true));
        let tokens = ReadTokens::default();
        pool.read(0, Some(&tokens)).unwrap();
        let value = Value::Single(Source::One(b"v"));
        let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
        let op = WriteOp::Update { dkey: b"d", cond: Cond::DKEY_INSERT, updates: &updates };
        let write = [Write { oid: oid(), op }];
        pool.pool.write(&pool.container, 0, &write, &[], None).unwrap();
        assert!(pool.pool.targets[0].has_buffered_puts().unwrap());
        assert!(pool.lease(&tokens).unwrap().is_none(), "the value is new");
        let tokens = ReadTokens::default();
        pool.read(0, Some(&tokens)).unwrap();
        let mut lease = pool.lease(&tokens).unwrap().expect("nothing is in the way");
        for _ in 0..3 {
            let reads = ReadVersion::parse_tokens(&lease.reads, 2).unwrap();
            pool.pool.check_read_versions(&reads).unwrap();
            lease = pool.lease(&lease.reads).unwrap().expect("nothing has changed");
        }
    }

    /// A change waits only if it comes within the term of a lease, so several are tried.
    #[test]
    fn waiting_change_pauses_new_leases() {
        let pool = Pool::new();
        let mut pauses = (0..ROUNDS).map(|_| {
            pool.leased();
            pool.write(&[0], 1, None).unwrap();
            pool.pool.targets[0].shared().leases_pause().load(Ordering::SeqCst)
        });
        let pause = pauses.find(|until| *until > 0).expect("a change has waited");
        let tokens = ReadTokens::default();
        pool.read(0, Some(&tokens)).unwrap();
        let lease = pool.pool.lease_reads(&pool.container, &tokens).unwrap();
        assert!(lease.is_none() || uptime() >= pause);
    }

    #[test]
    fn commit_waits_for_the_latest_lease() {
        let lease = |end| Err(Error::new(ErrorKind::Busy, "leased").with_needed(end));
        let latest =
            |all: Vec<Result<()>>| combine_lease_results(all.into_iter()).map_err(|e| e.needed());
        assert_eq!(latest(vec![Ok(()), lease(1), lease(3), Ok(()), lease(2)]), Err(Some(3)));
        assert_eq!(latest(vec![Ok(()), Ok(())]), Ok(()));
        assert_eq!(latest(vec![lease(1), Err(ErrorKind::NoSpace.into())]), Err(None));
    }

    /// A change would wait only within the term of a lease, so several are tried.
    #[test]
    fn thread_that_must_not_block_gets_busy() {
        let pool = Pool::new();
        let within_the_term = (0..ROUNDS).any(|_| {
            let (asked, _) = pool.leased();
            let (written, waits) = without_waiting(|| pool.write(&[0], 1, None));
            let is_within = uptime() < asked + LEASE;
            if is_within {
                assert!(waits);
                assert_eq!(written.unwrap_err().kind(), ErrorKind::Busy);
            }
            is_within
        });
        if !within_the_term {
            esker_testing::skip(
                "this machine is too busy to do anything within the term of a lease",
            );
        }
        pool.write(&[0], 2, None).unwrap();
        assert_eq!(pool.read(0, None).unwrap(), 2);
    }

    #[test]
    fn preparation_waits_for_leases_on_its_data() {
        let pool = Pool::new();
        let (asked, lease) = pool.leased();
        pool.write(&[0, 1], 7, Some(commit(1))).unwrap();
        assert!(uptime() >= asked + LEASE, "prepared within the term");
        // From now on, another node may decide the commit.
        assert!(pool.lease(&lease.reads).unwrap().is_none());
        pool.pool.abort_prepared(commit(1)).unwrap();
        assert!(pool.lease(&lease.reads).unwrap().is_some());
    }

    #[test]
    fn destruction_of_container_waits_for_leases() {
        let pool = Pool::new();
        let (asked, lease) = pool.leased();
        pool.pool.destroy_container(ContainerRef::Label("c"), true).unwrap();
        assert!(uptime() >= asked + LEASE, "destroyed within the term");
        assert_eq!(pool.lease(&lease.reads).unwrap_err().kind(), ErrorKind::NoHandle);
    }

    /// Leased values do not change, even under concurrent writes.
    #[test]
    fn leased_values_do_not_change() {
        const LEASES: u32 = 12;
        let (pool, done) = (Pool::new(), AtomicBool::new(false));
        let write = |targets: &[u32]| {
            let mut value = 0_u8;
            while !done.load(Ordering::Relaxed) {
                value = value.wrapping_add(1);
                pool.write(targets, value, None).unwrap();
            }
        };
        std::thread::scope(|scope| {
            for targets in [&[0][..], &[1], &[0, 1]] {
                scope.spawn(move || write(targets));
            }
            let mut leases = 0;
            while leases < LEASES {
                let tokens = ReadTokens::default();
                let read = |tokens| [0, 1].map(|target| pool.read(target, tokens).unwrap());
                let values = read(Some(&tokens));
                let asked = uptime();
                if pool.lease(&tokens).unwrap().is_none() {
                    continue;
                }
                leases += 1;
                loop {
                    let now = read(None);
                    if uptime() >= asked + LEASE {
                        break;
                    }
                    assert_eq!(now, values, "changed within the term");
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
