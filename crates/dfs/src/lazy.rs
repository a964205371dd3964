//! Times that are stored a little later, so that a write or a new entry costs one change, not two.
//!
//! What is stored is at most [`LAG_MAX`] behind while work goes on, and exact (to [`GRAIN`]) once the
//! file is closed or synced, or the file system flushed.
use crate::limits::WAITING_TIMES_MAX;
use crate::mount::Mounted;
use crate::node::Node;
use crate::place::Place;
use crate::time::Time;
use esker::types::{ObjectId, Result};
use esker_store::{ForkGuard, ForkLock};
use std::collections::HashMap;
use std::time::Duration;

/// Longest time by which stored times are behind.
pub(crate) const LAG_MAX: Duration = Duration::from_secs(1);

/// Times that differ by less are taken as equal, as kernels do between two ticks.
pub(crate) const GRAIN: Duration = Duration::from_millis(4);

/// Stores `time` as the time of change of what stands at `place`, unless it is something else by now,
/// or somebody changed it later.
pub(crate) fn store(mounted: &Mounted, place: &Place, oid: ObjectId, time: Time) -> Result<()> {
    mounted.transact(|access| {
        let container = mounted.container();
        let found = place.inode(container, access)?;
        let Some(mut inode) = found.filter(|inode| inode.oid == oid) else { return Ok(()) };
        if inode.ctime >= time {
            return Ok(());
        }
        (inode.mtime, inode.ctime) = (time, time);
        place.store(container, &inode, access)
    })
}

/// Times of directories whose entries change. A child made by fork begins with none.
#[derive(Default)]
pub(crate) struct DirectoryTimes(ForkLock<HashMap<ObjectId, Waiting>>);

struct Waiting {
    place: Place,
    stored: Time,
    changed: Time,
}

impl DirectoryTimes {
    /// Notes that an entry of `dir` came or went.
    pub(crate) fn touch(&self, dir: &Node) -> Result<()> {
        let due = self.note(dir, Time::now());
        due.map_or(Ok(()), |(place, time)| store(dir.fs().mounted(), &place, dir.oid(), time))
    }

    /// What has to be stored at once.
    fn note(&self, dir: &Node, now: Time) -> Option<(Place, Time)> {
        let mut waiting = self.lock();
        let full = waiting.len() >= WAITING_TIMES_MAX;
        if let Some(known) = waiting.get_mut(&dir.oid()) {
            known.changed = now;
            if now.since(known.stored) < LAG_MAX {
                return None;
            }
            known.stored = now;
            return Some((known.place.clone(), now));
        }
        let (place, stored) = (dir.place(), dir.inode().mtime);
        let due = now.since(stored) >= LAG_MAX || full;
        let known = Waiting { place, stored: if due { now } else { stored }, changed: now };
        let due = due.then(|| (known.place.clone(), now));
        if !full {
            waiting.insert(dir.oid(), known);
        }
        due
    }

    /// Where `oid` stands now.
    pub(crate) fn moved(&self, oid: ObjectId, place: &Place) {
        if let Some(known) = self.lock().get_mut(&oid) {
            known.place = place.clone();
        }
    }

    /// The times of `oid` were set: what waits is out of date.
    pub(crate) fn forget(&self, oid: ObjectId) {
        self.lock().remove(&oid);
    }

    /// When an entry of the directory changed last, as far as this process knows.
    pub(crate) fn last(&self, oid: ObjectId) -> Option<Time> {
        self.lock().get(&oid).map(|known| known.changed)
    }

    /// Stores all that wait.
    pub(crate) fn store_all(&self, mounted: &Mounted) -> Result<()> {
        let all = std::mem::take(&mut *self.lock());
        let due = |known: &Waiting| known.changed.since(known.stored) >= GRAIN;
        let mut due = all.into_iter().filter(|(_, known)| due(known));
        due.try_for_each(|(oid, known)| store(mounted, &known.place, oid, known.changed))
    }

    fn lock(&self) -> ForkGuard<'_, HashMap<ObjectId, Waiting>> {
        self.0.lock()
    }
}
