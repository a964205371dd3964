//! Open directory listings.
use crate::answer::{Answer, Refusal, of_number};
use crate::attributes::{file_type, shown};
use crate::inodes::ROOT;
use crate::served::Served;
use dfs::{DirEntry, DirStream, Kind, Node};
use fuser::{Errno, FileAttr, FileType};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Positions of `.` and `..`, which the store does not list: its entries follow them.
const DOTS: u64 = 2;

/// All open listings, by their handles.
#[derive(Default)]
pub(crate) struct Listings {
    open: Mutex<HashMap<u64, Arc<Listing>>>,
    next: AtomicU64,
}

/// An open listing of a directory.
pub(crate) struct Listing {
    pub(crate) dir: Node,
    number: u64,
    stream: Mutex<DirStream>,
}

/// An entry for the kernel.
pub(crate) struct Listed<'a> {
    pub(crate) number: u64,
    /// The position after it.
    pub(crate) next: u64,
    pub(crate) kind: FileType,
    pub(crate) name: &'a [u8],
}

/// The next item of a listing.
pub(crate) enum Item {
    /// The directory itself (`.`) or its parent (`..`).
    Dots { name: &'static str, number: u64 },
    /// An entry.
    Entry(DirEntry),
}

/// Result of adding an item of a listing to a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is in the reply.
    Added,
    /// The entry does not exist any more.
    Skipped,
    /// The reply is full, and lacks the item.
    Full,
}

impl Taken {
    /// `is_full`: the reply had no room for the item.
    fn from_full(is_full: bool) -> Self {
        if is_full { Self::Full } else { Self::Added }
    }
}

impl Listings {
    /// The listing of a handle; `EBADF` if it is not open.
    pub(crate) fn get(&self, handle: u64) -> Answer<Arc<Listing>> {
        self.lock().get(&handle).map(Arc::clone).ok_or(Errno::EBADF.into())
    }

    pub(crate) fn close(&self, handle: u64) {
        self.lock().remove(&handle);
    }

    /// Adds a listing, and returns its handle.
    fn add(&self, listing: Listing) -> u64 {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(handle, Arc::new(listing));
        handle
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Listing>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listing {
    /// Passes the entries from `position` on to `take`, each with the position after it, until the reply is full. An
    /// error after the first added entry is left to the next call: the kernel takes an empty reply for the end.
    pub(crate) fn from(
        &self,
        position: u64,
        mut take: impl FnMut(Item, u64) -> Answer<Taken>,
    ) -> Answer<()> {
        for (at, item) in (0..).zip(self.dots()).skip(position.min(DOTS) as usize) {
            if take(item, at + 1)? == Taken::Full {
                return Ok(());
            }
        }
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let position = position.saturating_sub(DOTS);
        // A seek to 0 also reads the directory anew, as `rewinddir` requires.
        if position == 0 || position != stream.tell() {
            stream.seek(position);
        }
        let mut taken = false;
        loop {
            let next = match stream.read() {
                Err(_) if taken => return Ok(()),
                next => next?,
            };
            let Some(entry) = next else { return Ok(()) };
            match take(Item::Entry(entry), stream.tell() + DOTS) {
                Ok(Taken::Added) => taken = true,
                Ok(Taken::Skipped) => {}
                Err(_) if taken => return Ok(()),
                full => return full.map(drop),
            }
        }
    }

    /// The entries `.` and `..`.
    fn dots(&self) -> [Item; DOTS as usize] {
        let above = self.dir.parent().map_or(ROOT, |parent| parent.inode().number());
        let dots = |name, number| Item::Dots { name, number };
        [dots(".", self.number), dots("..", above)]
    }
}

impl Served {
    /// Serves `readdir`: passes entries on to `add` until it returns true, because the reply is full.
    pub(crate) fn list(
        &self,
        handle: u64,
        position: u64,
        mut add: impl FnMut(&Listed<'_>) -> bool,
    ) -> Answer<()> {
        self.listings.get(handle)?.from(position, |item, next| {
            Ok(Taken::from_full(match item {
                Item::Dots { name, number } => add(&dots(name, number, next)),
                Item::Entry(entry) => {
                    let (number, kind) = (entry.number(), file_type(entry.kind()));
                    add(&Listed { number, next, kind, name: &entry.name })
                }
            }))
        })
    }

    /// Serves `readdirplus`: as [`Served::list`], and also looks up each entry.
    pub(crate) fn list_with_attributes(
        &self,
        handle: u64,
        position: u64,
        mut add: impl FnMut(&Listed<'_>, &FileAttr) -> bool,
    ) -> Answer<()> {
        let listing = self.listings.get(handle)?;
        listing.from(position, |item, next| {
            let entry = match item {
                Item::Entry(entry) => entry,
                // The kernel knows `.` and `..`; it only wants them listed.
                Item::Dots { name, number } => {
                    let attr = shown(number, &of_number(listing.dir.attr())?);
                    return Ok(Taken::from_full(add(&dots(name, number, next), &attr)));
                }
            };
            let attr = match self.look_up(listing.number, &entry.name) {
                Ok(attr) => attr,
                // Removed since it was listed.
                Err(Refusal(Errno::ENOENT)) => return Ok(Taken::Skipped),
                Err(refusal) => return Err(refusal),
            };
            let listed = Listed { number: attr.ino.0, next, kind: attr.kind, name: &entry.name };
            let full = add(&listed, &attr);
            if full {
                // The entry did not fit in the reply, so the kernel will not forget this lookup.
                self.inodes.forget(attr.ino.0, 1);
            }
            Ok(Taken::from_full(full))
        })
    }

    /// Serves `opendir`: begins a listing of the directory and returns its handle.
    pub(crate) fn open_directory(&self, number: u64) -> Answer<u64> {
        let dir = self.inode(number)?.node();
        if dir.kind() != Kind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let stream = Mutex::new(dir.entries()?);
        Ok(self.listings.add(Listing { dir, number, stream }))
    }
}

/// The entry `.` or `..` for the kernel.
fn dots(name: &'static str, number: u64, next: u64) -> Listed<'static> {
    Listed { number, next, kind: FileType::Directory, name: name.as_bytes() }
}
