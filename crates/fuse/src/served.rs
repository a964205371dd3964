//! A file system that is served to the kernel.
use crate::answer::Answer;
use crate::data::has;
use crate::directory::Listings;
use crate::inodes::{Inode, Inodes};
use crate::limits::{FRESH, FRESH_SNAPSHOT};
use crate::options::Cache;
use crate::passing::Dropper;
use dfs::{Dfs, File};
use fuser::FopenFlags;
use rustix::fs::OFlags;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The user on whose behalf the kernel sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Caller {
    /// True unless the caller is root, who may keep set-id bits. For writes the kernel reports whether the process may
    /// keep them, but not for opens.
    pub(crate) const fn is_user(self) -> bool {
        self.uid != 0
    }
}

/// A handle of an open file, and how the kernel treats the file.
pub(crate) type Opened = (u64, FopenFlags);

/// Space of the file system, in blocks.
pub(crate) struct Space {
    pub(crate) blocks: u64,
    pub(crate) free: u64,
    pub(crate) files: u64,
    pub(crate) files_free: u64,
    pub(crate) block_size: u32,
    /// Longest name, in bytes.
    pub(crate) name_max: u32,
}

/// A file system, and its state in the kernel.
pub(crate) struct Served {
    pub(crate) dfs: Dfs,
    pub(crate) inodes: Inodes,
    pub(crate) listings: Listings,
    pub(crate) cache: Cache,
    /// The file system is a snapshot, which does not change.
    still: bool,
    /// How long the kernel may cache names and attributes.
    pub(crate) fresh: Duration,
    /// The kernel maps files that bypass its cache (Linux 6.6).
    pub(crate) maps_direct: AtomicBool,
    /// Drops pages that a write has bypassed.
    pub(crate) dropper: Dropper,
    /// Number of the next handle.
    handles: AtomicU64,
}

impl Served {
    /// Serves the file system `dfs`. `still` is true for a snapshot: nothing changes, so the kernel may cache for
    /// longer. `dropper` drops pages of the kernel.
    pub(crate) fn new(dfs: Dfs, cache: Cache, still: bool, dropper: Dropper) -> Self {
        let inodes = Inodes::new(dfs.root());
        let fresh = if still { FRESH_SNAPSHOT } else { FRESH };
        let (listings, handles) = (Listings::default(), AtomicU64::new(1));
        let maps_direct = AtomicBool::new(false);
        Self { dfs, inodes, listings, cache, still, fresh, maps_direct, dropper, handles }
    }

    /// The inode of a number; `ESTALE` if the kernel has forgotten it.
    pub(crate) fn inode(&self, number: u64) -> Answer<Arc<Inode>> {
        self.inodes.get(number)
    }

    /// Makes a handle for a file that was just opened with `flags`, and decides how the kernel treats its pages: keep,
    /// drop or bypass them.
    pub(crate) fn handle(&self, inode: &Inode, file: &File, flags: i32) -> Opened {
        let handle = self.handles.fetch_add(1, Ordering::Relaxed);
        let direct = self.is_direct(inode, file, flags);
        // Nothing changes the files of a snapshot. With write-back, the pages are the newest data.
        let always = self.still || self.cache == Cache::Writeback;
        let kept = always || !direct && keeps_pages(inode, file, handle);
        inode.with_pages(|pages| {
            if !kept {
                pages.note_drop();
            }
            if direct && may_write(flags) {
                pages.add_bypassing_writer(handle);
            }
        });
        let mut treatment = FopenFlags::empty();
        treatment.set(FopenFlags::FOPEN_KEEP_CACHE, kept);
        treatment.set(FopenFlags::FOPEN_DIRECT_IO, direct);
        treatment.set(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES, direct);
        // No data is left to write when a file is closed.
        treatment.set(FopenFlags::FOPEN_NOFLUSH, self.cache != Cache::Writeback);
        (handle, treatment)
    }

    /// True if reads and writes bypass the kernel's cache. Appends do, because the kernel does not know their offset if
    /// other processes append as well. Writes of a file opened only for writing, or of an empty one, also do. The next
    /// open drops the pages, so filling them would only cost a copy. While a handle bypasses the cache, later opens
    /// bypass it too.
    fn is_direct(&self, inode: &Inode, file: &File, flags: i32) -> bool {
        match self.cache {
            Cache::None => return true,
            Cache::Writeback => return false,
            Cache::Auto if self.still => return false,
            Cache::Auto => {}
        }
        let size = || file.size().unwrap_or(0);
        match OFlags::from_bits_retain(flags as u32) & OFlags::RWMODE {
            OFlags::WRONLY => true,
            _ if has(flags, OFlags::APPEND) => true,
            _ if !self.maps_direct.load(Ordering::Relaxed) => false,
            _ if inode.with_pages(|pages| pages.are_bypassed()) => true,
            OFlags::RDWR => size() == 0,
            _ if !inode.with_pages(|pages| pages.may_be_useless()) => false,
            _ => {
                // The request for the size may take long, so not under the lock.
                let size = size();
                inode.with_pages(|pages| pages.are_useless(size))
            }
        }
    }

    /// Space and number of files of the file system, for `statfs`.
    pub(crate) fn space(&self) -> Answer<Space> {
        let space = self.dfs.space()?;
        Ok(Space {
            blocks: space.total / space.block_size,
            free: space.free / space.block_size,
            files: space.files,
            files_free: space.files_free,
            block_size: space.block_size as u32,
            name_max: dfs::limits::NAME_MAX as u32,
        })
    }

    /// Stores the pending times of files and directories, and releases the leases of closed files.
    pub(crate) fn flush(&self) -> Answer<()> {
        Ok(self.dfs.flush()?)
    }
}

fn may_write(flags: i32) -> bool {
    OFlags::from_bits_retain(flags as u32) & OFlags::RWMODE != OFlags::RDONLY
}

/// True if the pages may be kept at an open through `handle`. Otherwise notes that it drops them. Requests for versions
/// may take long, so the inode is not locked meanwhile.
fn keeps_pages(inode: &Inode, file: &File, handle: u64) -> bool {
    let known = inode.with_pages(|pages| pages.version());
    if known.is_some_and(|version| file.is_unchanged(&version)) {
        return true;
    }
    // The version is read before the kernel drops the pages, so pages read later are at least as new.
    let now = file.version().unwrap_or(None);
    inode.with_pages(|pages| pages.begin_drop(handle, now));
    false
}
