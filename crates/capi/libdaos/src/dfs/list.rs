//! Listing directories.
use super::OpenFile;
use crate::abi::{Anchor, Dfs, DfsObj, Ptr, Str, Zeroed};
use crate::dfs::{Name, attr};
use crate::errno::{self, Errno, Result};
use crate::handles::{self, Held};
use crate::list::{self, Level};
use ::dfs::limits::NAME_MAX;
use ::dfs::{DirEntry, Kind, Node};
use esker::Wait;
use esker::types::KeyBatch;
use esker::types::ops::Anchor as At;
use std::ffi::{c_char, c_int, c_void};

/// A directory and the position of its listing.
pub(crate) struct Listing {
    open: Held<OpenFile>,
    node: Node,
    anchor: Ptr<Anchor>,
    at: At,
}

impl Listing {
    /// Continues the listing of a directory at the anchor of the caller.
    pub(super) fn new(obj: Ptr<DfsObj>, anchor: Ptr<Anchor>) -> Result<Self> {
        let open = handles::file(obj)?;
        let node = open.directory()?;
        let at = list::read_anchor(anchor, &open.positions)?;
        Ok(Self { open, node, anchor, at })
    }

    /// The next names, at most `most`. None at the end.
    fn names(&mut self, most: usize) -> Result<KeyBatch> {
        match self.at.is_end() {
            true => Ok(KeyBatch::default()),
            false => Ok(self.node.read_names(&mut self.at, most)?),
        }
    }

    /// The next names, at most `most`, that take at most `room` bytes, each with a NUL. Also returns whether a name
    /// follows that does not fit: the listing is then before that name.
    fn names_within(&mut self, most: usize, room: usize) -> Result<(KeyBatch, bool)> {
        let before = self.at.clone();
        // A name takes at least two bytes.
        let mut most = most.min(NAMES_PER_READ).min(room / 2 + 1);
        let mut is_full = false;
        loop {
            let names = self.names(most)?;
            let fitting = fitting(&names, room);
            if fitting == names.len() {
                // A shorter listing may end earlier, at the end of a shard.
                return Ok((names, is_full && fitting == most));
            }
            // Lists again only the names that fit, so that the next call begins after them.
            (self.at, most, is_full) = (before.clone(), fitting, true);
            if fitting == 0 {
                return Ok((KeyBatch::default(), true));
            }
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at.is_end()
    }

    /// The next entries, at most `most`.
    pub(super) fn entries(&mut self, most: usize) -> Result<Vec<DirEntry>> {
        match self.at.is_end() {
            true => Ok(Vec::new()),
            false => Ok(self.node.read_dir(&mut self.at, most)?),
        }
    }

    /// Writes the position of the listing to the anchor of the caller.
    pub(super) fn keep(self) {
        list::write_anchor(self.anchor, self.at, &self.open.positions);
    }
}

/// Most names that `dfs_iterate` lists at a time.
const NAMES_PER_READ: usize = 1024;

/// Number of names from the first on that take at most `room` bytes, each with a NUL.
fn fitting(names: &KeyBatch, room: usize) -> usize {
    let sums = names.iter().scan(0, |sum, name| {
        *sum += name.len() + 1;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= room).count()
}

/// Most entries that one call returns.
const ENTRIES_MAX: u32 = 1 << 16;

/// Number of entries that the caller has room for, at most [`ENTRIES_MAX`]. `INVAL` for 0.
pub(super) fn most(nr: Ptr<u32>) -> Result<usize> {
    match nr.get()? {
        0 => Err(Errno::INVAL),
        most => Ok(most.min(ENTRIES_MAX) as usize),
    }
}

/// A directory entry that holds only a name.
pub(crate) fn dirent(name: &[u8]) -> libc::dirent {
    let mut entry = libc::dirent::zeroed();
    for (place, byte) in entry.d_name[..NAME_MAX].iter_mut().zip(name) {
        *place = *byte as c_char;
    }
    entry
}

/// The type of a directory entry (`d_type`).
pub(crate) fn type_of(kind: Kind) -> u8 {
    match kind {
        Kind::File => libc::DT_REG,
        Kind::Directory => libc::DT_DIR,
        Kind::Symlink => libc::DT_LNK,
    }
}

/// Lists names. Room for none is not an error, as in DAOS.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_readdir(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    anchor: Ptr<Anchor>,
    nr: Ptr<u32>,
    dirs: Ptr<libc::dirent>,
) -> c_int {
    errno::now(|| {
        handles::mount(dfs)?;
        let mut listing = Listing::new(obj, anchor)?;
        if nr.get()? == 0 {
            return Ok(());
        }
        let (most, dirs) = (most(nr)?, dirs.needed()?);
        let names = listing.names(most)?;
        for (index, name) in names.iter().enumerate() {
            dirs.at(index).set(dirent(name));
        }
        nr.set(names.len() as u32);
        listing.keep();
        Ok(())
    })
}

/// Lists names and attributes.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_readdirplus(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    anchor: Ptr<Anchor>,
    nr: Ptr<u32>,
    dirs: Ptr<libc::dirent>,
    stats: Ptr<libc::stat>,
) -> c_int {
    errno::now(|| {
        let mount = handles::mount(dfs)?;
        let mut listing = Listing::new(obj, anchor)?;
        if nr.get()? == 0 {
            return Ok(());
        }
        let (most, dirs, stats) = (most(nr)?, dirs.needed()?, stats.needed()?);
        let entries = listing.entries(most)?;
        for (index, entry) in entries.iter().enumerate() {
            dirs.at(index).set(dirent(&entry.name));
            stats.at(index).set(attr::stat_of(&mount.fs.attr_of(&entry.inode)?));
        }
        nr.set(entries.len() as u32);
        listing.keep();
        Ok(())
    })
}

/// `dfs_filler_cb_t`.
pub type Filler = unsafe extern "C" fn(
    dfs: *mut Dfs,
    obj: *mut DfsObj,
    name: *const c_char,
    arg: *mut c_void,
) -> c_int;

/// Calls a function for each of the next entries: at most `nr` of them, whose names take at most `size` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_iterate(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    anchor: Ptr<Anchor>,
    nr: Ptr<u32>,
    size: usize,
    op: Option<Filler>,
    arg: Ptr<c_void>,
) -> c_int {
    errno::now(|| {
        handles::mount(dfs)?;
        let mut listing = Listing::new(obj, anchor)?;
        let most = most(nr)?;
        let (mut entries, mut room, mut is_full) = (0, size, false);
        nr.set(0);
        while entries < most && !is_full && !listing.at.is_end() {
            let (names, full) = listing.names_within(most - entries, room)?;
            is_full = full;
            for name in names.iter() {
                (entries, room) = (entries + 1, room - name.len() - 1);
                call(op, (dfs, obj), name, arg)?;
            }
        }
        nr.set(entries as u32);
        let nothing_fits = entries == 0 && is_full;
        listing.keep();
        if nothing_fits { Err(Errno::TOOBIG) } else { Ok(()) }
    })
}

/// Calls the caller's function for an entry. A result other than 0 ends the listing as its error.
fn call(
    op: Option<Filler>,
    (dfs, obj): (Ptr<Dfs>, Ptr<DfsObj>),
    name: &[u8],
    arg: Ptr<c_void>,
) -> Result<()> {
    let Some(op) = op else { return Ok(()) };
    let entry = dirent(name);
    // SAFETY: the caller's own function, with a name that ends in NUL.
    match unsafe { op(dfs.raw(), obj.raw(), entry.d_name.as_ptr(), arg.raw()) } {
        0 => Ok(()),
        errno => Err(Errno(errno)),
    }
}

/// Sets an anchor so that a listing continues with the entry `name`.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_dir_anchor_set(obj: Ptr<DfsObj>, name: Str, anchor: Ptr<Anchor>) -> c_int {
    errno::now(|| {
        let open = handles::file(obj)?;
        let (node, name) = (open.directory()?, Name::read(name)?);
        let dir = node.fs().container().object(node.oid());
        let at = list::find(&dir, Level::Dkeys, name.0, node.fs().view()).wait()?;
        list::write_anchor(anchor.needed()?, at, &open.positions);
        Ok(())
    })
}

/// Stores the number of parts of a listing, which is always one, and the start of that part.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_obj_anchor_split(
    obj: Ptr<DfsObj>,
    nr: Ptr<u32>,
    anchors: Ptr<Anchor>,
) -> c_int {
    errno::now(|| {
        let open = handles::file(obj)?;
        open.directory()?;
        nr.needed()?;
        if !anchors.is_null() {
            list::write_anchor(anchors, At::Start, &open.positions);
        }
        nr.set(1);
        Ok(())
    })
}

/// Sets an anchor to the start of part `index` of a listing. There is only part 0.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_obj_anchor_set(obj: Ptr<DfsObj>, index: u32, anchor: Ptr<Anchor>) -> c_int {
    errno::now(|| {
        let open = handles::file(obj)?;
        open.directory()?;
        anchor.needed()?;
        if index > 0 {
            return Err(Errno::INVAL);
        }
        list::write_anchor(anchor, At::Start, &open.positions);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::file::dfs_release;
    use super::super::intercepted::{Mounted, at};
    use super::*;
    use std::ffi::CString;

    #[test]
    fn an_iteration_lists_many_names_at_a_time() {
        const NAMES: u32 = 1100;
        let fs = Mounted::new("many-names");
        let dir = fs.create(c"d", libc::S_IFDIR | 0o700);
        let node = handles::file(dir).unwrap().directory().unwrap();
        for number in 0..NAMES {
            let name = CString::new(format!("name{number}")).unwrap();
            node.create(name.as_bytes(), &::dfs::Create::with_mode(0o600)).unwrap();
        }
        let mut anchor = Anchor { kind: 0, shard: 0, flags: 0, sub_anchors: 0, buf: [0; 104] };
        let mut count = 2 * NAMES;
        fs.calls.take_listings();
        let none = Ptr::null();
        let listed = dfs_iterate(fs.dfs, dir, at(&mut anchor), at(&mut count), 1 << 20, None, none);
        assert_eq!((listed, count), (0, NAMES));
        assert!(fs.calls.take_listings() <= 3);
        assert_eq!(dfs_release(dir), 0);
    }
}
