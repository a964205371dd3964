//! Filters of listings.
use super::list::{Listing, dirent, most, type_of};
use crate::abi::{Anchor, Dfs, DfsObj, DfsPipeline, ObjId, Predicate, Ptr};
use crate::code::Code;
use crate::errno::{self, Errno, Result};
use crate::handles::{self, Entry, kind};
use crate::pipeline::is_like;
use ::dfs::{DirEntry, Kind};
use std::ffi::c_int;

/// `DFS_FILTER_NAME`, `DFS_FILTER_NEWER` and `DFS_FILTER_INCLUDE_DIRS`.
const NAME: u64 = 1 << 1;
const NEWER: u64 = 1 << 2;
const INCLUDE_DIRS: u64 = 1 << 3;

/// The conditions that an entry must meet.
pub(crate) struct EntryFilter {
    /// Pattern that the name must match, as in [`is_like`].
    name: Option<Vec<u8>>,
    /// Time in seconds since 1970, after which the entry must have changed.
    newer: Option<i64>,
    /// Directories must meet the conditions, too; else each is listed, so that it can be descended into.
    includes_dirs: bool,
}

impl EntryFilter {
    /// Checks the predicate of the caller. `flags` says which of its conditions count.
    fn new(predicate: &Predicate, flags: u64) -> Result<Self> {
        if flags & !(NAME | NEWER | INCLUDE_DIRS) != 0 || flags & (NAME | NEWER) == 0 {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            name: if flags & NAME != 0 { Some(pattern(predicate)?) } else { None },
            newer: (flags & NEWER != 0).then_some(predicate.newer),
            includes_dirs: flags & INCLUDE_DIRS != 0,
        })
    }

    /// True if the filter selects the entry. Directories are always selected, unless the filter applies to them, too.
    fn selects(&self, entry: &DirEntry) -> std::result::Result<bool, Code> {
        if entry.kind() == Kind::Directory && !self.includes_dirs {
            return Ok(true);
        }
        if self.newer.is_some_and(|newer| entry.inode.ctime.seconds <= newer) {
            return Ok(false);
        }
        self.name.as_ref().map_or(Ok(true), |pattern| is_like(&entry.name, pattern))
    }
}

/// The pattern of a predicate; fails if it is not valid. Without `DFS_FILTER_NAME`, the caller need not have set one.
fn pattern(predicate: &Predicate) -> Result<Vec<u8>> {
    let bytes = predicate.name.iter().map(|byte| byte.cast_unsigned());
    let pattern: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    is_like(b"", &pattern)?;
    Ok(pattern)
}

/// Creates a filter.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_pipeline_create(
    dfs: Ptr<Dfs>,
    predicate: Predicate,
    flags: u64,
    pipeline: Ptr<Ptr<DfsPipeline>>,
) -> c_int {
    errno::now(|| {
        handles::mount(dfs)?;
        let filter = EntryFilter::new(&predicate, flags)?;
        let handle = handles::open(Entry::Filter(filter))?;
        pipeline.needed()?.set(handles::as_pointer(handle));
        Ok(())
    })
}

/// Destroys a filter; a null pointer is none.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_pipeline_destroy(pipeline: Ptr<DfsPipeline>) -> c_int {
    errno::now(|| match pipeline.is_null() {
        true => Ok(()),
        false => Ok(handles::close(handles::behind(pipeline).cookie, &[kind::FILTER]).map(drop)?),
    })
}

/// Lists the entries that a filter selects, at most `nr`. `scanned` becomes the number of entries that were read.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_readdir_with_filter(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    pipeline: Ptr<DfsPipeline>,
    anchor: Ptr<Anchor>,
    nr: Ptr<u32>,
    dirs: Ptr<libc::dirent>,
    oids: Ptr<ObjId>,
    chunk_sizes: Ptr<u64>,
    scanned: Ptr<u64>,
) -> c_int {
    errno::now(|| {
        handles::mount(dfs)?;
        let filter = handles::filter(pipeline)?;
        let mut listing = Listing::new(obj, anchor)?;
        let (most, dirs) = (most(nr)?, dirs.needed()?);
        let (mut found, mut read) = (0, 0);
        while found < most && !listing.is_at_end() {
            for entry in listing.entries(most - found)? {
                read += 1;
                if !filter.selects(&entry)? {
                    continue;
                }
                let d_type = type_of(entry.kind());
                dirs.at(found).set(libc::dirent { d_type, ..dirent(&entry.name) });
                if !oids.is_null() {
                    oids.at(found).set(entry.inode.oid.into());
                }
                if !chunk_sizes.is_null() {
                    chunk_sizes.at(found).set(entry.inode.chunk_size);
                }
                found += 1;
            }
        }
        nr.set(found as u32);
        scanned.needed()?.set(read);
        listing.keep();
        Ok(())
    })
}
