//! Deferred times: stored a little later, so that a write or a new entry costs one update, not two.
//!
//! Stored times are at most [`LAG_MAX`] behind during changes, and exact (to [`GRAIN`]) once the file is closed or
//! synced, or the file system is flushed.
use crate::entry::EntryLocation;
use crate::inode::{Inode, Time};
use crate::limits::{DEFERRED_FAILURES_MAX, PENDING_TIMES_MAX};
use crate::retry::Attempts;
use esker::types::{ObjectId, Result};
use esker::{Access, Container, Wait};
use esker_os::{ForkGuard, ForkLock};
use std::collections::HashMap;
use std::time::Duration;

/// Longest delay of stored times.
pub(crate) const LAG_MAX: Duration = Duration::from_secs(1);

/// Times that differ by less count as equal, as in kernels between two ticks.
pub(crate) const GRAIN: Duration = Duration::from_millis(4);

/// The time of a change that is not stored yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingTime {
    /// Time of the change.
    pub(crate) changed: Time,
    /// Modification time as this process last stored or read it.
    pub(crate) stored: Time,
}

impl PendingTime {
    /// The time of the change, unless a process has set the modification time of the inode since. A process that
    /// changed other attributes has left the modification time as it was stored.
    pub(crate) fn unless_set(self, inode: &Inode) -> Option<Time> {
        let is_pending = self.changed > inode.ctime || inode.mtime == self.stored;
        is_pending.then_some(self.changed)
    }
}

/// Stores a pending time as the modification time of the entry at `location`, unless it names another object by now, or
/// another process has set the time later.
pub(crate) async fn store(
    container: &Container,
    location: &EntryLocation,
    oid: ObjectId,
    time: PendingTime,
) -> Result<()> {
    let mut attempts = Attempts::default();
    loop {
        let transaction = container.transaction()?;
        let mut stored = store_in(container, location, (oid, time), Access::Tx(&transaction)).await;
        if stored.is_ok() {
            stored = transaction.commit().await;
        }
        if let Some(result) = attempts.resolve(stored) {
            return result;
        }
    }
}

/// Stores a pending time, if the entry still refers to object `oid` and no process has set its time since.
async fn store_in(
    container: &Container,
    location: &EntryLocation,
    (oid, time): (ObjectId, PendingTime),
    access: Access<'_>,
) -> Result<()> {
    let found = location.inode(container, access).await?;
    let Some(mut inode) = found.filter(|inode| inode.oid == oid) else { return Ok(()) };
    let Some(changed) = time.unless_set(&inode) else { return Ok(()) };
    (inode.mtime, inode.ctime) = (changed, inode.ctime.max(changed));
    location.store(container, &inode, access).await
}

/// Pending times of directories whose entries change. A forked child starts without any.
#[derive(Default)]
pub(crate) struct DirectoryTimes(ForkLock<HashMap<ObjectId, Pending>>);

struct Pending {
    location: EntryLocation,
    stored: Time,
    /// Time of the last attempt to store a time. It limits the attempts to one in [`LAG_MAX`] while all of them fail.
    attempted: Time,
    /// Time of the last added or removed entry; `None` if there was none since the time was set.
    changed: Option<Time>,
}

impl Pending {
    /// The time of the last change, if it was not set since.
    fn time(&self) -> Option<PendingTime> {
        self.changed.map(|changed| PendingTime { changed, stored: self.stored })
    }

    /// The time to store, with its location.
    fn due(&self) -> Option<(EntryLocation, PendingTime)> {
        self.time().map(|time| (self.location.clone(), time))
    }
}

impl DirectoryTimes {
    /// Records that an entry of a directory was added or removed. `mtime` is the time that is stored for it, as far as
    /// the caller knows, and `location` finds its entry. A time that cannot be stored stays pending, unless
    /// [`PENDING_TIMES_MAX`] others are: a later change or flush stores it.
    pub(crate) fn touch(
        &self,
        container: &Container,
        (oid, mtime): (ObjectId, Time),
        location: impl FnOnce() -> EntryLocation,
    ) {
        let due = self.note((oid, mtime), location, Time::now());
        let Some((location, time)) = due else { return };
        if store(container, &location, oid, time).wait().is_ok()
            && let Some(entry) = self.lock().get_mut(&oid)
        {
            entry.stored = time.changed;
        }
    }

    /// Records a change of a directory at `now`. Returns the time to store at once, with its location: if the stored
    /// time lags too far behind, or too many times are pending.
    fn note(
        &self,
        (oid, mtime): (ObjectId, Time),
        location: impl FnOnce() -> EntryLocation,
        now: Time,
    ) -> Option<(EntryLocation, PendingTime)> {
        let mut pending = self.lock();
        let full = pending.len() >= PENDING_TIMES_MAX;
        if let Some(entry) = pending.get_mut(&oid) {
            entry.changed = Some(now);
            if now.apart(entry.attempted) < LAG_MAX {
                return None;
            }
            entry.attempted = now;
            return entry.due();
        }
        let location = location();
        let due = now.apart(mtime) >= LAG_MAX || full;
        let attempted = if due { now } else { mtime };
        let entry = Pending { location, stored: mtime, attempted, changed: Some(now) };
        let due = if due { entry.due() } else { None };
        if !full {
            pending.insert(oid, entry);
        }
        due
    }

    /// Records the new location of `oid`.
    pub(crate) fn note_move(&self, oid: ObjectId, location: &EntryLocation) {
        if let Some(entry) = self.lock().get_mut(&oid) {
            entry.location = location.clone();
        }
    }

    /// Records that a caller has set the time of `oid`, which discards the pending one. The stored time is kept,
    /// because the inode in an earlier [`Node`](crate::Node) has an outdated one.
    pub(crate) fn set(&self, oid: ObjectId, location: &EntryLocation, stored: Time) {
        let mut pending = self.lock();
        if pending.len() < PENDING_TIMES_MAX {
            let (location, attempted) = (location.clone(), stored);
            pending.insert(oid, Pending { location, stored, attempted, changed: None });
        } else {
            pending.remove(&oid);
        }
    }

    /// Time at which this process last added or removed an entry of the directory. `None` if none is recorded.
    pub(crate) fn last(&self, oid: ObjectId) -> Option<PendingTime> {
        self.lock().get(&oid)?.time()
    }

    /// Stores all pending times that differ from the stored ones by [`GRAIN`] or more, until [`DEFERRED_FAILURES_MAX`]
    /// could not be stored: a node that does not answer may have them all. These and the others stay pending. Returns
    /// the first error.
    pub(crate) fn store_all(&self, container: &Container) -> Result<()> {
        let all = std::mem::take(&mut *self.lock());
        let is_due = |time: &PendingTime| time.changed.apart(time.stored) >= GRAIN;
        let (mut failures, mut result) = (0, Ok(()));
        for (oid, entry) in all {
            let Some(time) = entry.time().filter(is_due) else { continue };
            if failures < DEFERRED_FAILURES_MAX {
                let stored = store(container, &entry.location, oid, time).wait();
                if stored.is_ok() {
                    continue;
                }
                failures += 1;
                result = result.and(stored);
            }
            // A change since then has a later time.
            self.lock().entry(oid).or_insert(entry);
        }
        result
    }

    fn lock(&self) -> ForkGuard<'_, HashMap<ObjectId, Pending>> {
        self.0.lock()
    }
}
