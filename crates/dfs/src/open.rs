//! Files that this process has open: the location of their entries, and their pending times.
use crate::entry::EntryLocation;
use crate::inode::Time;
use crate::lazy::{self, GRAIN, LAG_MAX, PendingTime};
use crate::limits::DEFERRED_FAILURES_MAX;
use esker::types::{ObjectId, Result};
use esker::{Container, Lease, Wait};
use esker_os::ForkLock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// All open files. A forked child starts with none, and adds an inherited file at its first use.
#[derive(Default)]
pub(crate) struct OpenFiles(ForkLock<HashMap<ObjectId, OpenFile>>);

/// An open file with all its handles.
pub(crate) struct OpenFile {
    handles: usize,
    /// Lease by which other processes see that the file is in use.
    lease: Lease,
    /// The location of its entry, as far as this process knows; `None` once this process removed it.
    location: Option<EntryLocation>,
    /// Time of the last write through a handle of this process, until it is stored.
    written: Option<Time>,
    /// Modification time as stored.
    stored: Time,
    /// Time of the last attempt to store a time. It limits the attempts of writes to one in [`LAG_MAX`].
    attempted: Time,
}

/// A file of which this process has closed the last handle.
pub(crate) struct Closed {
    pub(crate) lease: Lease,
    /// The file still has a name, as far as this process knows.
    pub(crate) has_name: bool,
}

impl OpenFile {
    /// The record of an open file that no handle counts yet. `stored` is the modification time in its entry.
    pub(crate) fn new(lease: Lease, location: EntryLocation, stored: Time) -> Self {
        let location = Some(location);
        Self { handles: 0, lease, location, written: None, stored, attempted: stored }
    }

    /// Records a write at `now`. Returns this time with the location of the entry if the caller should store it there.
    fn note_write(&mut self, now: Time) -> Option<(EntryLocation, PendingTime)> {
        self.written = Some(now);
        if now.apart(self.attempted) < LAG_MAX {
            return None;
        }
        self.attempted = now;
        Some((self.location.clone()?, self.pending()?))
    }

    /// The time of the last write, if it is not stored yet.
    fn pending(&self) -> Option<PendingTime> {
        self.written.map(|changed| PendingTime { changed, stored: self.stored })
    }

    /// The time of the last write and the location of the entry, unless that time is stored or the entry is gone.
    fn due(&self) -> Option<(EntryLocation, PendingTime)> {
        let time = self.pending().filter(|time| time.changed.apart(time.stored) >= GRAIN)?;
        Some((self.location.clone()?, time))
    }

    /// Records the modification time that was stored.
    fn note_stored(&mut self, time: Time) {
        (self.stored, self.attempted) = (time, time);
    }
}

impl OpenFiles {
    /// Counts a handle of a file; a forked child counts an inherited one. `new` makes the record of a file that is not
    /// open yet.
    pub(crate) fn open(
        &self,
        oid: ObjectId,
        new: impl Future<Output = Result<OpenFile>>,
    ) -> Result<()> {
        self.with(oid, new, |file| file.handles += 1).wait()
    }

    /// Decrements the count of handles of a file. After the last one, returns its lease, which the caller releases.
    pub(crate) fn close(&self, oid: ObjectId) -> Option<Closed> {
        let mut files = self.0.lock();
        let Entry::Occupied(mut file) = files.entry(oid) else { return None };
        file.get_mut().handles = file.get().handles.saturating_sub(1);
        if file.get().handles > 0 {
            return None;
        }
        let file = file.remove();
        Some(Closed { lease: file.lease, has_name: file.location.is_some() })
    }

    /// The location of a file's entry, as far as this process knows: `found` if it is not open here; `None` if it is
    /// open and was removed.
    pub(crate) fn location(
        &self,
        oid: ObjectId,
        found: impl FnOnce() -> EntryLocation,
    ) -> Option<EntryLocation> {
        self.0.lock().get(&oid).map_or_else(|| Some(found()), |file| file.location.clone())
    }

    /// True if this process has the file open.
    pub(crate) fn is_open(&self, oid: ObjectId) -> bool {
        self.0.lock().contains_key(&oid)
    }

    /// The location of the entry of a file that is open here.
    pub(crate) fn open_file_location(&self, oid: ObjectId) -> Option<EntryLocation> {
        self.0.lock().get(&oid).and_then(|file| file.location.clone())
    }

    /// Records a write, and stores the time if the stored one is too old. `new` makes the record of a file that is not
    /// open yet. A time that cannot be stored stays pending, and the call succeeds: the data is written, so an error of
    /// the time must not look like one of the write.
    pub(crate) async fn note_write(
        &self,
        container: &Container,
        oid: ObjectId,
        new: impl Future<Output = Result<OpenFile>>,
    ) -> Result<()> {
        let now = Time::now();
        let due = self.with(oid, new, |file| file.note_write(now)).await?;
        // `store_time` tries again, and reports an error.
        let _ = self.store(container, oid, due).await;
        Ok(())
    }

    /// Stores the time of the last write to a file, if it differs from the stored one. After an error, it stays pending.
    pub(crate) fn store_time(&self, container: &Container, oid: ObjectId) -> Result<()> {
        let due = self.0.lock().get(&oid).and_then(OpenFile::due);
        self.store(container, oid, due).wait()
    }

    /// Stores the time of a file, if it is due.
    async fn store(
        &self,
        container: &Container,
        oid: ObjectId,
        due: Option<(EntryLocation, PendingTime)>,
    ) -> Result<()> {
        let Some((location, time)) = due else { return Ok(()) };
        lazy::store(container, &location, oid, time).await?;
        self.change(oid, |file| file.note_stored(time.changed));
        Ok(())
    }

    /// Stores the times of all files, until [`DEFERRED_FAILURES_MAX`] could not be stored: a node that does not answer
    /// may have them all. These and the others stay pending, and the next call begins with those that were not tried.
    /// Returns the first error.
    pub(crate) fn store_times(&self, container: &Container) -> Result<()> {
        let mut files: Vec<_> =
            self.0.lock().iter().map(|(oid, file)| (file.attempted, *oid)).collect();
        files.sort_unstable();
        let (mut failures, mut result) = (0, Ok(()));
        for (_, oid) in files {
            let stored = self.store_time(container, oid);
            if stored.is_ok() {
                continue;
            }
            self.change(oid, |file| file.attempted = Time::now());
            result = result.and(stored);
            failures += 1;
            if failures == DEFERRED_FAILURES_MAX {
                break;
            }
        }
        result
    }

    /// Runs `work` on the record of a file, which is added if missing.
    async fn with<T>(
        &self,
        oid: ObjectId,
        new: impl Future<Output = Result<OpenFile>>,
        work: impl FnOnce(&mut OpenFile) -> T,
    ) -> Result<T> {
        if let Some(file) = self.0.lock().get_mut(&oid) {
            return Ok(work(file));
        }
        // The lock is not held while the lease is acquired, which may take long.
        let new = new.await?;
        let (result, spare) = match self.0.lock().entry(oid) {
            Entry::Vacant(free) => return Ok(work(free.insert(new))),
            Entry::Occupied(mut file) => (work(file.get_mut()), new.lease),
        };
        // Another thread has added the file meanwhile, with a lease of its own.
        spare.release().await?;
        Ok(result)
    }

    /// Time of the last write to an open file, if it is not stored yet.
    pub(crate) fn written(&self, oid: ObjectId) -> Option<PendingTime> {
        self.0.lock().get(&oid)?.pending()
    }

    /// Records that the times of a file were stored.
    pub(crate) fn note_stored(&self, oid: ObjectId, mtime: Time) {
        self.change(oid, |file| {
            file.written = None;
            file.note_stored(mtime);
        });
    }

    /// Records the new location of a file's entry; `None` if the file lost its name.
    pub(crate) fn note_location(&self, oid: ObjectId, location: Option<&EntryLocation>) {
        self.change(oid, |file| file.location = location.cloned());
    }

    /// Changes the record of a file; does nothing if the file is not open.
    fn change(&self, oid: ObjectId, work: impl FnOnce(&mut OpenFile)) {
        if let Some(file) = self.0.lock().get_mut(&oid) {
            work(file);
        }
    }
}
