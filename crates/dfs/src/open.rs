//! Files that this process has open: the location of their entries, and their pending times.
use crate::entry::EntryLocation;
use crate::inode::Time;
use crate::inode::{Inode, Kind};
use crate::lazy::{self, GRAIN, LAG_MAX};
use crate::mount::Mounted;
use crate::node::Node;
use esker::types::{ObjectId, Result};
use esker::{Lease, Wait};
use esker_os::ForkLock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// All open files. A forked child starts with none, and adds an inherited file at its first use.
#[derive(Default)]
pub(crate) struct OpenFiles(ForkLock<HashMap<ObjectId, OpenFile>>);

/// An open file with all its handles.
struct OpenFile {
    handles: usize,
    /// Lease by which other processes see that the file is in use.
    lease: Lease,
    /// The location of its entry, as far as this process knows; `None` once this process removed it.
    location: Option<EntryLocation>,
    /// Time of the last write through a handle of this process, until it is stored.
    written: Option<Time>,
    /// Modification time as stored.
    stored: Time,
}

/// A file of which this process has closed the last handle.
pub(crate) struct Closed {
    pub(crate) lease: Lease,
    /// The file still has a name, as far as this process knows.
    pub(crate) has_name: bool,
}

impl OpenFile {
    async fn new(node: &Node) -> Result<Self> {
        let deferred = || node.fs().mounted().deferred_closes.take(node.oid());
        let lease = match node.take_lease().or_else(deferred) {
            Some(lease) => lease,
            None => node.object().lease().await?,
        };
        let location = Some(node.location());
        Ok(Self { handles: 0, lease, location, written: None, stored: node.inode().mtime })
    }

    /// If `due`, records `time` as stored, and returns it with the location where the caller stores it.
    fn take_due(&mut self, time: Time, due: bool) -> Option<(EntryLocation, Time)> {
        if !due {
            return None;
        }
        let location = self.location.clone()?;
        self.stored = time;
        Some((location, time))
    }
}

impl OpenFiles {
    /// Counts a handle of the file that `node` names; a forked child counts an inherited one.
    pub(crate) fn open(&self, node: &Node) -> Result<()> {
        self.with(node, |file| file.handles += 1).wait()
    }

    /// Decrements the count of handles. After the last one, the caller releases the lease.
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

    /// The location of a file's entry, as far as this process knows.
    pub(crate) fn location(&self, node: &Node) -> Option<EntryLocation> {
        self.0
            .lock()
            .get(&node.oid())
            .map_or_else(|| Some(node.location()), |file| file.location.clone())
    }

    /// The location of the entry of a file that is open here.
    pub(crate) fn open_file_location(&self, oid: ObjectId) -> Option<EntryLocation> {
        self.0.lock().get(&oid).and_then(|file| file.location.clone())
    }

    /// Records a write, and stores the time if the stored one is too old.
    pub(crate) async fn note_write(&self, node: &Node) -> Result<()> {
        let now = Time::now();
        let written = |file: &mut OpenFile| {
            file.written = Some(now);
            file.take_due(now, now.apart(file.stored) >= LAG_MAX)
        };
        let due = self.with(node, written).await?;
        store(node.fs().mounted(), node.oid(), due).await
    }

    /// Stores the time of the last write to a file, if it differs from the stored one.
    pub(crate) fn store_time(&self, mounted: &Mounted, oid: ObjectId) -> Result<()> {
        let due = self.0.lock().get_mut(&oid).and_then(|file| {
            let time = file.written?;
            file.take_due(time, time.apart(file.stored) >= GRAIN)
        });
        store(mounted, oid, due).wait()
    }

    /// Stores the times of all files.
    pub(crate) fn store_times(&self, mounted: &Mounted) -> Result<()> {
        let files: Vec<_> = self.0.lock().keys().copied().collect();
        files.into_iter().try_for_each(|oid| self.store_time(mounted, oid))
    }

    /// Runs `work` on the record of a file, which is added if missing.
    async fn with<T>(&self, node: &Node, work: impl FnOnce(&mut OpenFile) -> T) -> Result<T> {
        if let Some(file) = self.0.lock().get_mut(&node.oid()) {
            return Ok(work(file));
        }
        // The lock is not held while the lease is acquired, which may take long.
        let new = OpenFile::new(node).await?;
        let (result, spare) = match self.0.lock().entry(node.oid()) {
            Entry::Vacant(free) => return Ok(work(free.insert(new))),
            Entry::Occupied(mut file) => (work(file.get_mut()), new.lease),
        };
        spare.release().await?;
        Ok(result)
    }

    fn change(&self, oid: ObjectId, work: impl FnOnce(&mut OpenFile)) {
        if let Some(file) = self.0.lock().get_mut(&oid) {
            work(file);
        }
    }
}

async fn store(mounted: &Mounted, oid: ObjectId, due: Option<(EntryLocation, Time)>) -> Result<()> {
    match due {
        Some((location, time)) => lazy::store(mounted, &location, oid, time).await,
        None => Ok(()),
    }
}

/// State of files that this process has not stored yet.
impl Mounted {
    /// Time when the content changed, if it is not stored yet. A later stored time wins: another process may have set
    /// it.
    pub(crate) fn pending_time(&self, inode: &Inode) -> Option<Time> {
        let changed = match inode.kind {
            Kind::File => self.open_files.0.lock().get(&inode.oid)?.written,
            Kind::Directory => self.times.last(inode.oid),
            Kind::Symlink => None,
        };
        changed.filter(|time| *time > inode.ctime)
    }

    /// Sets the times of an inode that the caller is about to store: `ctime` to now, `mtime` to a pending time.
    pub(crate) fn stamp(&self, inode: &mut Inode) {
        inode.mtime = self.pending_time(inode).unwrap_or(inode.mtime);
        inode.ctime = Time::now();
    }

    /// Records that the attributes of the entry at `location` were stored.
    pub(crate) fn note_attributes(&self, location: &EntryLocation, inode: &Inode) {
        if inode.oid == self.roots().root {
            self.set_root(inode);
        }
        match inode.kind {
            Kind::Directory => self.times.set(inode.oid, location, inode.mtime),
            _ => self.open_files.change(inode.oid, |file| {
                (file.written, file.stored) = (None, inode.mtime);
            }),
        }
    }

    /// Records the new location of an entry.
    pub(crate) fn note_move(&self, inode: &Inode, location: &EntryLocation) {
        self.times.note_move(inode.oid, location);
        if inode.kind == Kind::Directory {
            self.moves.note(inode.oid, location);
        }
        self.open_files.change(inode.oid, |file| file.location = Some(location.clone()));
    }

    /// Records that a file lost its name.
    pub(crate) fn note_removal(&self, oid: ObjectId) {
        self.open_files.change(oid, |file| file.location = None);
    }
}
