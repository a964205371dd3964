//! Objects that no entry names, treated as the checker of DAOS treats them.
use super::objects::{self, LOST_AND_FOUND, Stray, lost_path};
use super::{Check, CheckOptions, CheckReport};
use crate::create::Create;
use crate::inode::{Inode, Kind, Time};
use crate::limits::{CHUNK_BYTES, LIST_BATCH};
use crate::mount::Dfs;
use crate::node::Node;
use crate::orphans;
use esker::types::info::OpenMode;
use esker::types::ops::{Anchor, Cond, Edge, KeyQuery, ListLimit};
use esker::types::{Error, ErrorKind, Extent, FLAT_AKEY, ObjectId, ObjectType, Result};
use esker::{Access, Wait, is_name_catalog};

/// Number of chunks that tell a chunk size smaller than that of the file system, besides the last one.
const FULL_CHUNKS_MIN: u64 = 2;

/// Sizes of chunks that a check infers are multiples of this.
const CHUNK_STEP: u64 = 4096;

/// Treatment of the objects that no entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnamed<'a> {
    /// They stay as they are.
    Keep,
    /// They are removed.
    Remove,
    /// They are linked in a new directory of this name in `/lost+found`, under their ids: directories, and files that
    /// are in none of these. Other objects stay as they are.
    Link(&'a [u8]),
}

/// Treats the objects of a file system that no entry names (DAOS: `dfs_cont_check`), and calls `found` with each.
/// Objects below a directory that is linked have a name then.
///
/// The report counts as leftovers what was found. With `data`, the data of all files is read and verified.
///
/// # Errors
/// [`ErrorKind::Invalid`] if objects are to be removed or linked and the container is not open exclusively;
/// [`ErrorKind::Exists`] if the directory exists; [`ErrorKind::Corrupt`] if objects are to be removed and names may
/// have been lost by damage; errors of the backend.
pub fn treat_unnamed(
    fs: &Dfs,
    data: bool,
    unnamed: Unnamed<'_>,
    found: &mut dyn FnMut(ObjectId),
) -> Result<CheckReport> {
    if unnamed != Unnamed::Keep && fs.container().mode() != OpenMode::Exclusive {
        return Err(super::not_exclusive());
    }
    let objects = objects::list(fs.container())?;
    let dir = match unnamed {
        Unnamed::Link(name) => Some(new_directory(fs, name)?),
        _ => None,
    };
    let options = CheckOptions { data, ..CheckOptions::default() };
    let ignore = &mut |_| {};
    let mut check =
        Check::new(fs.container(), fs.superblock().clone(), fs.roots(), options, ignore);
    check.tree()?;
    if unnamed == Unnamed::Remove && check.names_lost {
        return Err(names_lost_error());
    }
    let mut strays = check.strays(objects)?;
    if dir.is_some() {
        strays = check.tops(strays)?;
    }
    for oid in strays {
        check.treat(oid, unnamed, dir.as_ref(), found)?;
    }
    Ok(check.report)
}

/// Creates the directory `name` in `/lost+found`, which is created first if it is missing.
fn new_directory(fs: &Dfs, name: &[u8]) -> Result<Node> {
    let new = Create::with_mode(0o755);
    let above = match fs.root().mkdir(LOST_AND_FOUND, &new) {
        Err(error) if error.kind() == ErrorKind::Exists => fs.root().lookup(LOST_AND_FOUND)?,
        made => made?,
    };
    above.mkdir(name, &new)
}

impl Check<'_> {
    /// The objects to treat: each directory that is not inside another object without a name, then all objects that are
    /// in none of these directories.
    fn tops(&mut self, strays: Vec<ObjectId>) -> Result<Vec<ObjectId>> {
        let mut tops = Vec::new();
        for oid in self.lost_in_order(&strays)? {
            if self.named.insert(oid) {
                tops.push(oid);
                self.walk(oid, &lost_path(oid))?;
            }
        }
        tops.extend(strays.into_iter().filter(|oid| !self.named.contains(oid)));
        Ok(tops)
    }

    /// Reports an object without a name to `found`, and removes it or links it in `dir`, as `unnamed` says. Skips
    /// objects that Esker itself uses, or that a program may have open.
    fn treat(
        &mut self,
        oid: ObjectId,
        unnamed: Unnamed<'_>,
        dir: Option<&Node>,
        found: &mut dyn FnMut(ObjectId),
    ) -> Result<()> {
        let kind = self.kind_of(oid)?;
        let is_internal = is_name_catalog(oid) || oid.object_type() == Some(ObjectType::Oit);
        if kind == Stray::Gone || is_internal || orphans::is_kept(self.container, oid)? {
            return Ok(());
        }
        found(oid);
        self.report.leftovers.count_one(kind);
        if let (true, Stray::File(_)) = (self.options.data, kind) {
            self.check_data(&Inode::new(Kind::File, oid, Time::now()), &lost_path(oid))?;
        }
        match (unnamed, dir, kind) {
            (Unnamed::Remove, ..) => self.remove(oid),
            (_, None, _) | (.., Stray::Other) => Ok(()),
            (_, Some(dir), Stray::File(_)) => {
                self.link_in(dir, oid, Kind::File, self.likely_chunk_size(oid)?)
            }
            (_, Some(dir), _) => self.link_in(dir, oid, Kind::Directory, 0),
        }
    }

    /// Removes an object that no entry refers to.
    pub(super) fn remove(&mut self, oid: ObjectId) -> Result<()> {
        self.object(oid).punch(Cond::NONE, Access::Latest).wait()?;
        orphans::remove_entries(self.container, oid)?;
        self.report.leftovers.removed += 1;
        Ok(())
    }

    /// The chunk size of a file whose entry is lost: see [`Ends::likely_chunk_size`].
    pub(super) fn likely_chunk_size(&self, oid: ObjectId) -> Result<u64> {
        let (object, mut anchor, mut ends) = (self.object(oid), Anchor::Start, Ends::default());
        while !anchor.is_end() {
            let limit = ListLimit::entries(LIST_BATCH);
            for dkey in object.list_dkeys(&mut anchor, limit, Access::Latest).wait()?.iter() {
                let last = KeyQuery {
                    edge: Edge::Max,
                    dkey: Some(dkey),
                    akey: Some(FLAT_AKEY),
                    want_extent: true,
                    ..KeyQuery::FIRST_DKEY
                };
                let last = object.query_key(last, Access::Latest).wait()?;
                let end = last.and_then(|last| last.extent).map_or(0, Extent::end);
                if let (Ok(number), 1..) = (dkey.try_into(), end) {
                    ends.add(u64::from_ne_bytes(number), end);
                }
            }
        }
        Ok(ends.likely_chunk_size(self.superblock.chunk_size).min(*CHUNK_BYTES.end()))
    }
}

/// Ends of the data in the chunks of a file. The first chunk has the number 1.
#[derive(Default)]
struct Ends {
    chunks: u64,
    /// Number of the last chunk, and the end of its data.
    last: (u64, u64),
    /// Smallest and largest end in the other chunks; `None` if there are none.
    others: Option<(u64, u64)>,
}

impl Ends {
    /// Adds the end of the data in a chunk.
    fn add(&mut self, number: u64, end: u64) {
        let mut other = (number, end);
        if number > self.last.0 {
            std::mem::swap(&mut self.last, &mut other);
        }
        self.chunks += 1;
        if self.chunks > 1 {
            let (least, most) = self.others.unwrap_or((other.1, other.1));
            self.others = Some((least.min(other.1), most.max(other.1)));
        }
    }

    /// Guesses the chunk size: `usual`, or the largest end if that is larger, because a chunk is not shorter than the
    /// data in it. A smaller size is that of the chunks if they are full: see [`Ends::full_chunk`].
    fn likely_chunk_size(&self, usual: u64) -> u64 {
        let most = self.others.map_or(0, |(_, most)| most);
        self.full_chunk().unwrap_or(usual.max(self.last.1).max(most))
    }

    /// The size of the chunks if all before the last one seem to be full: there are at least [`FULL_CHUNKS_MIN`] and the
    /// last one, without gaps, with the same end, a multiple of [`CHUNK_STEP`]. Fewer chunks, or other ends, are as
    /// likely those of short records at the starts of longer chunks.
    fn full_chunk(&self) -> Option<u64> {
        let (least, most) = self.others?;
        let has_all = self.chunks == self.last.0 && self.chunks > FULL_CHUNKS_MIN;
        let is_full = least == most && self.last.1 <= most && most.is_multiple_of(CHUNK_STEP);
        (has_all && is_full).then_some(most)
    }
}

#[cold]
fn names_lost_error() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the tree is damaged, so objects without a name may be lost files: none was removed; run `esker fs check --repair` first",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: u64 = 1 << 20;

    /// The guess for chunks with these ends, from the first chunk on.
    fn guess(chunks: &[u64]) -> u64 {
        let mut ends = Ends::default();
        (1..).zip(chunks).for_each(|(number, end)| ends.add(number, *end));
        ends.likely_chunk_size(USUAL)
    }

    #[test]
    fn full_chunks_tell_their_size() {
        assert_eq!(guess(&[4096, 4096, 5]), 4096);
        assert_eq!(guess(&[8192, 8192, 8192]), 8192);
        assert_eq!(guess(&[2 * USUAL, 5]), 2 * USUAL);
    }

    /// A header and a record, or records of a size that nobody chooses for chunks.
    #[test]
    fn records_at_starts_of_chunks_keep_the_usual_size() {
        for chunks in [&[4096, 4096][..], &[4096, 5], &[1, 1], &[1000; 3], &[1; 4], &[4096, 5, 5]] {
            assert_eq!(guess(chunks), USUAL, "{chunks:?}");
        }
    }
}
