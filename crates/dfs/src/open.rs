//! Files that this process has open: where their entries stand, and what waits to be stored of them.
use crate::inode::{Inode, Kind};
use crate::lazy::{self, GRAIN, LAG_MAX};
use crate::mount::Mounted;
use crate::node::Node;
use crate::place::Place;
use crate::time::Time;
use esker::types::{ObjectId, Result};
use esker::{Container, Hold, Wait};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All files that are open.
#[derive(Default)]
pub(crate) struct OpenFiles(Mutex<HashMap<ObjectId, Counted>>);

struct Counted {
    file: Arc<OpenFile>,
    handles: usize,
    hold: Hold,
}

impl Counted {
    fn renew(&mut self, container: &Container) -> Result<()> {
        if !self.hold.counts() {
            self.hold = container.object(self.file.oid).hold().wait()?;
        }
        Ok(())
    }
}

/// A file that is open, whatever the number of its handles.
pub(crate) struct OpenFile {
    oid: ObjectId,
    place: Mutex<Place>,
    times: Mutex<Times>,
    removed: AtomicBool,
}

struct Times {
    /// When somebody wrote through a handle of this process, as long as it is not stored.
    written: Option<Time>,
    /// What is stored.
    stored: Time,
}

impl OpenFiles {
    /// Counts a handle of the file that `node` names. The first one tells all processes that the file
    /// is in use.
    pub(crate) fn open(&self, node: &Node) -> Result<Arc<OpenFile>> {
        let mut files = self.lock();
        if let Some(counted) = files.get_mut(&node.oid()) {
            counted.handles += 1;
            counted.renew(node.fs().container())?;
            return Ok(Arc::clone(&counted.file));
        }
        let hold = node.object().hold().wait()?;
        let file = Arc::new(OpenFile::new(node));
        files.insert(node.oid(), Counted { file: Arc::clone(&file), handles: 1, hold });
        Ok(file)
    }

    /// Takes a handle off the count. True where the file lost its name and nobody has it open any more:
    /// the caller frees its content.
    pub(crate) fn close(&self, oid: ObjectId) -> Result<bool> {
        let mut files = self.lock();
        let Some(counted) = files.get_mut(&oid) else { return Ok(false) };
        counted.handles = counted.handles.saturating_sub(1);
        if counted.handles > 0 {
            return Ok(false);
        }
        let last = files.remove(&oid);
        drop(files);
        last.map_or(Ok(false), |counted| counted.hold.release().wait())
    }

    /// In a child made by fork: tells all processes that it uses what its parent had open.
    pub(crate) fn renew(&self, container: &Container) -> Result<()> {
        self.lock().values_mut().try_for_each(|counted| counted.renew(container))
    }

    /// Stores the times of all files.
    pub(crate) fn store_times(&self, mounted: &Mounted) -> Result<()> {
        let files: Vec<_> = self.lock().values().map(|counted| Arc::clone(&counted.file)).collect();
        files.iter().try_for_each(|file| file.store_time(mounted))
    }

    fn get(&self, oid: ObjectId) -> Option<Arc<OpenFile>> {
        self.lock().get(&oid).map(|counted| Arc::clone(&counted.file))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenFile {
    fn new(node: &Node) -> Self {
        let times = Times { written: None, stored: node.inode().mtime };
        Self {
            oid: node.oid(),
            place: Mutex::new(node.place()),
            times: Mutex::new(times),
            removed: AtomicBool::new(false),
        }
    }

    /// Where its entry stands, as far as this process knows.
    pub(crate) fn place(&self) -> Place {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True once its entry was removed by this process.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Notes that somebody wrote, and stores the time where what is stored is too old.
    pub(crate) fn note_write(&self, mounted: &Mounted) -> Result<()> {
        let now = Time::now();
        let mut times = self.times();
        times.written = Some(now);
        if now.since(times.stored) < LAG_MAX {
            return Ok(());
        }
        drop(times);
        self.store(mounted, now)
    }

    /// Stores the time of the last write, where that makes a difference.
    pub(crate) fn store_time(&self, mounted: &Mounted) -> Result<()> {
        let times = self.times();
        let due = times.written.filter(|written| written.since(times.stored) >= GRAIN);
        drop(times);
        due.map_or(Ok(()), |time| self.store(mounted, time))
    }

    fn store(&self, mounted: &Mounted, time: Time) -> Result<()> {
        self.times().stored = time;
        match self.is_removed() {
            true => Ok(()),
            false => lazy::store(mounted, &self.place(), self.oid, time),
        }
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What this process knows of files beyond what is stored.
impl Mounted {
    /// When something changed, where that is later than what is stored.
    pub(crate) fn waiting_time(&self, inode: &Inode) -> Option<Time> {
        match inode.kind {
            Kind::File => self.open_files.get(inode.oid)?.times().written,
            Kind::Directory => self.times.last(inode.oid),
            Kind::Symlink => None,
        }
    }

    /// The attributes of an object were set just now: times that waited are out of date.
    pub(crate) fn attributes_set(&self, oid: ObjectId) {
        self.times.forget(oid);
        if let Some(file) = self.open_files.get(oid) {
            *file.times() = Times { written: None, stored: Time::now() };
        }
    }

    /// An entry has another place now.
    pub(crate) fn moved(&self, inode: &Inode, place: &Place) {
        self.times.moved(inode.oid, place);
        if let Some(file) = self.open_files.get(inode.oid) {
            *file.place.lock().unwrap_or_else(PoisonError::into_inner) = place.clone();
        }
    }

    /// A file lost its name.
    pub(crate) fn removed(&self, oid: ObjectId) {
        if let Some(file) = self.open_files.get(oid) {
            file.removed.store(true, Ordering::Release);
        }
    }
}
