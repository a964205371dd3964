//! The inodes that the kernel knows by number, until it forgets them.
use crate::answer::{Answer, of_number};
use crate::pages::Pages;
use crate::passing::Passing;
use dfs::{Attr, File, Node, Open, SetAttr};
use esker::types::ObjectId;
use fuser::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of the root (FUSE: `FUSE_ROOT_ID`).
pub(crate) const ROOT: u64 = 1;

/// All inodes that the kernel knows.
pub(crate) struct Inodes(Mutex<HashMap<u64, Known>>);

struct Known {
    inode: Arc<Inode>,
    /// Number of lookups that returned this inode number, less those that the kernel has forgotten.
    told: u64,
}

/// A file, directory or symbolic link that the kernel knows.
pub(crate) struct Inode {
    number: u64,
    /// Writes in progress that bypass the kernel's pages of it.
    pub(crate) passing: Passing,
    state: Mutex<InodeState>,
}

struct InodeState {
    /// Its entry, as last seen.
    node: Node,
    /// Time at which the entry was read; `None` if the next use of its mode reads it again.
    seen: Option<Instant>,
    /// The open file, while programs have it open. All share one, since the kernel has checked the permissions.
    file: Option<Arc<File>>,
    /// Number of opens that were not closed yet.
    opens: u64,
    /// The kernel's pages of it.
    pages: Pages,
    /// Attributes set since the open file lost its name, and with it the entry that would store them.
    nameless: SetAttr,
}

impl Inodes {
    pub(crate) fn new(root: Node) -> Self {
        let root = Known { inode: Arc::new(Inode::new(ROOT, root)), told: 1 };
        Self(Mutex::new(HashMap::from([(ROOT, root)])))
    }

    /// The inode of a number; `ESTALE` if the kernel has forgotten it.
    pub(crate) fn get(&self, number: u64) -> Answer<Arc<Inode>> {
        self.lock().get(&number).map(|known| Arc::clone(&known.inode)).ok_or(Errno::ESTALE.into())
    }

    /// The inode of `node`, for a reply that tells the kernel about it: counts one lookup, which the kernel forgets
    /// later. The node may have had another name before.
    pub(crate) fn tell(&self, node: Node) -> Arc<Inode> {
        let mut inodes = self.lock();
        let number = free_or_own(&inodes, &node);
        let known = inodes.entry(number).or_insert_with(|| Known {
            inode: Arc::new(Inode::new(number, node.clone())),
            told: 0,
        });
        known.told += 1;
        known.inode.set_node(node);
        Arc::clone(&known.inode)
    }

    /// Gives the inode of a moved node its new entry, if the kernel knows the inode.
    pub(crate) fn moved(&self, node: Node) {
        let inodes = self.lock();
        if let Some(known) = inodes.get(&free_or_own(&inodes, &node)) {
            known.inode.set_node(node);
        }
    }

    /// Records that the kernel forgot `times` lookups of a number.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        let mut inodes = self.lock();
        let Some(known) = inodes.get_mut(&number) else { return };
        known.told = known.told.saturating_sub(times);
        if known.told == 0 {
            let gone = inodes.remove(&number);
            drop(inodes);
            // Closing may take long, so not under the lock.
            drop(gone);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The inode number of a node. Object ids made by other software may give two nodes one number; the later node then
/// gets the next free number.
fn free_or_own(inodes: &HashMap<u64, Known>, node: &Node) -> u64 {
    let mut number = node.inode().number();
    while inodes.get(&number).is_some_and(|known| known.inode.oid() != node.oid()) {
        number = number.wrapping_add(1).max(ROOT + 1);
    }
    number
}

impl Inode {
    fn new(number: u64, node: Node) -> Self {
        Self {
            number,
            passing: Passing::default(),
            state: Mutex::new(InodeState {
                node,
                seen: Some(Instant::now()),
                file: None,
                opens: 0,
                pages: Pages::default(),
                nameless: SetAttr::default(),
            }),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The file system's node of this inode, as of the last lookup.
    pub(crate) fn node(&self) -> Node {
        self.state().node.clone()
    }

    /// Replaces the node, after a lookup has returned a newer one.
    pub(crate) fn set_node(&self, node: Node) {
        let mut state = self.state();
        (state.node, state.seen) = (node, Some(Instant::now()));
    }

    /// Reads the node again, after this mount has changed its attributes.
    pub(crate) fn refresh_node(&self) {
        match self.node().refresh() {
            Ok(node) => self.set_node(node),
            // Another process moved it: the next lookup reads its attributes.
            Err(_) => self.state().seen = Some(Instant::now()),
        }
    }

    /// The permission bits, as they were at some time within `age`: another client may change them.
    pub(crate) fn recent_mode(&self, age: Duration) -> u32 {
        let is_recent = self.state().seen.is_some_and(|seen| seen.elapsed() < age);
        if !is_recent {
            self.refresh_node();
        }
        self.state().node.inode().mode
    }

    fn oid(&self) -> ObjectId {
        self.state().node.oid()
    }

    /// The file, if it is open.
    pub(crate) fn file(&self) -> Option<Arc<File>> {
        self.state().file.clone()
    }

    /// Calls `work` with the record of this file's pages in the kernel's cache, under the lock of the inode.
    pub(crate) fn with_pages<T>(&self, work: impl FnOnce(&mut Pages) -> T) -> T {
        work(&mut self.state().pages)
    }

    /// Opens the file, or uses the one that another open of this mount has. Each open is counted.
    pub(crate) fn open(&self) -> Answer<Arc<File>> {
        let opened = match self.file() {
            Some(file) => file,
            // Opening may take long, so not under the lock.
            None => {
                let node = self.node();
                let open = if node.fs().is_read_only() { Open::READ } else { Open::BOTH };
                Arc::new(of_number(node.open(open))?)
            }
        };
        let mut state = self.state();
        // Another open may have been faster: then `opened` is closed, without the lock.
        let file = Arc::clone(state.file.get_or_insert_with(|| Arc::clone(&opened)));
        state.opens += 1;
        drop(state);
        Ok(file)
    }

    /// Records a read of `bytes` bytes through a handle: `into_pages` is true if the kernel reads into its cache.
    /// Returns the open file; `None` if it is not open.
    pub(crate) fn read_by(&self, handle: u64, bytes: u64, into_pages: bool) -> Option<Arc<File>> {
        let mut state = self.state();
        if into_pages {
            state.pages.note_fill();
        }
        state.pages.note_use(handle);
        state.pages.note_read(bytes);
        state.file.clone()
    }

    /// Records a write of `bytes` bytes through a handle. Returns the open file; `None` if it is not open.
    pub(crate) fn written_by(&self, handle: u64, bytes: u64) -> Option<Arc<File>> {
        let mut state = self.state();
        state.pages.note_use(handle);
        state.pages.note_write(bytes);
        state.file.clone()
    }

    /// Records that a program closed its last descriptor of a handle.
    pub(crate) fn close(&self, handle: u64) {
        self.with_pages(|pages| pages.note_close(handle));
        self.unopen();
    }

    /// Undoes one [`Self::open`]. After the last one, closes the file.
    pub(crate) fn unopen(&self) {
        let mut state = self.state();
        state.opens = state.opens.saturating_sub(1);
        let last = if state.opens == 0 { state.file.take() } else { None };
        // The file is closed without the lock.
        drop(state);
        drop(last);
    }

    /// Keeps attributes that are set on an open file without a name, for [`Self::with_kept`].
    pub(crate) fn keep(&self, set: &SetAttr) {
        let kept = &mut self.state().nameless;
        kept.mode = set.mode.or(kept.mode);
        kept.uid = set.uid.or(kept.uid);
        kept.gid = set.gid.or(kept.gid);
        kept.mtime = set.mtime.or(kept.mtime);
    }

    /// `attr`, in which attributes set after the open file lost its name replace the stored ones.
    pub(crate) fn with_kept(&self, attr: Attr) -> Attr {
        let kept = self.state().nameless;
        Attr {
            mode: kept.mode.unwrap_or(attr.mode),
            uid: kept.uid.unwrap_or(attr.uid),
            gid: kept.gid.unwrap_or(attr.gid),
            mtime: kept.mtime.unwrap_or(attr.mtime),
            ..attr
        }
    }

    fn state(&self) -> MutexGuard<'_, InodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Written;
    use crate::limits::LARGE_FILE_MIN;
    use crate::options::Cache;
    use crate::passing::Dropper;
    use crate::served::{Caller, Served};
    use dfs::{Create, Dfs, MountOptions, NewDfs};
    use esker::backend::NewContainer;
    use esker::types::info::OpenMode;
    use esker::{Pool, Wait};
    use esker_conformance::gate::{Gate, Gated};
    use fuser::WriteFlags;
    use std::sync::atomic::Ordering;

    /// A new file system in memory, whose operations pass the gate.
    fn gated(name: &str, gate: &Arc<Gate>) -> Dfs {
        let pool = Pool::connect(&format!("memory:{name}"), OpenMode::ReadWrite).unwrap();
        let gated = Gated::new(Arc::clone(pool.backend()), gate);
        let pool = Pool::from_backend(Arc::new(gated), OpenMode::ReadWrite);
        Dfs::create_container(&pool, &NewContainer::named("fs"), &NewDfs::default()).unwrap();
        let container = pool.open_container("fs", OpenMode::ReadWrite).wait().unwrap();
        Dfs::mount(container, MountOptions::default()).unwrap()
    }

    /// Size and version of a file may come from a node that does not answer for long.
    #[test]
    fn inode_is_not_locked_while_an_open_decides_on_its_pages() {
        let gate = Arc::new(Gate::default());
        let (dropper, _to_drop) = Dropper::new();
        let served = Served::new(gated("fuse-slow-pages", &gate), Cache::Auto, false, dropper);
        served.maps_direct.store(true, Ordering::Relaxed);
        let node = served.dfs.root().create(b"f", &Create::with_mode(0o644)).unwrap();
        let inode = served.inodes.tell(node);
        let file = inode.open().unwrap();
        // After such writes, an open for reading asks for the size.
        let written = LARGE_FILE_MIN;
        inode.written_by(0, written);
        gate.shut();
        std::thread::scope(|scope| {
            let handling = scope.spawn(|| served.handle(&inode, &file, 0));
            while gate.come() == 0 {
                std::thread::yield_now();
            }
            let is_free = inode.state.try_lock().is_ok();
            gate.open();
            handling.join().unwrap();
            assert!(is_free);
        });
    }

    /// The kernel asks the server to clear the bits with each write of a user, whatever mode it knows.
    #[test]
    fn write_clears_set_id_bits_that_another_client_has_set() {
        let gate = Arc::new(Gate::default());
        let (dropper, _to_drop) = Dropper::new();
        let served = Served::new(gated("fuse-set-ids", &gate), Cache::Auto, false, dropper);
        let node = served.dfs.root().create(b"f", &Create::with_mode(0o755)).unwrap();
        let inode = served.inodes.tell(node.clone());
        let user = Caller { uid: 1000, gid: 1000 };
        let (handle, _) = served.open(inode.number(), libc::O_RDWR, user).unwrap();
        node.set_attr(&SetAttr { mode: Some(0o4755), ..SetAttr::default() }).unwrap();
        // The lookup was long ago.
        inode.state().seen = None;
        let how = WriteFlags::FUSE_WRITE_KILL_SUIDGID;
        let written = Written { offset: 0, data: b"x", how, flags: libc::O_RDWR, passes: false };
        assert!(served.write((inode.number(), handle), &written).unwrap().is_none());
        assert_eq!(node.attr().unwrap().mode, 0o755);
    }

    /// Lookups of other files take the lock of an inode, too, while they hold that of all inodes.
    #[test]
    fn inode_is_not_locked_while_its_file_is_opened() {
        let gate = Arc::new(Gate::default());
        let fs = gated("fuse-slow-open", &gate);
        let inode = Inode::new(7, fs.root().create(b"f", &Create::with_mode(0o644)).unwrap());
        gate.shut();
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| inode.open().is_ok());
            while gate.come() == 0 {
                std::thread::yield_now();
            }
            let is_free = inode.state.try_lock().is_ok();
            gate.open();
            assert!(opening.join().unwrap());
            assert!(is_free);
        });
        let again = inode.open().unwrap();
        assert!(Arc::ptr_eq(&again, &inode.file().unwrap()));
        inode.unopen();
        assert!(inode.file().is_some());
        inode.unopen();
        assert!(inode.file().is_none());
    }
}
