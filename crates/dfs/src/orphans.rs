//! Orphans: files that a process removed or renamed while they were open.
//!
//! A separate object stores their inodes, by object id, until the last process closes the file and frees the content.
//! For a renamed file, it stores an entry that leads to the new name. The next mount removes the orphans of killed
//! processes. On pools that do not show the leases of other processes, it keeps them for [`ORPHAN_SECONDS`].
//!
//! On pools whose directories have no marks, it also stores an entry for each renamed directory, for an hour: by it, a
//! process that has found the directory under its former name finds its entry.
use crate::attr;
use crate::entry::{self, EntryLocation, FullEntry, LINK_AKEY, ORPHANS_HI};
use crate::inode::{Inode, Kind, Time};
use crate::limits::{
    DEFERRED_CLOSES_MAX, DEFERRED_REMOVALS_MAX, LIST_BATCH, LOOKS_MAX, MOVED_DIRECTORY_SECONDS,
    ORPHAN_SECONDS,
};
use crate::mount::{Dfs, Mounted};
use crate::node::{Inner, Node};
use crate::path::Follow;
use esker::types::ops::{Anchor, Cond, ListLimit, Source, Update, Value};
use esker::types::{Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use esker::{Access, Array, Container, Lease, Object, Wait};
use esker_os::later;
use std::sync::Arc;

/// Suffix of an orphan whose content is being freed.
const GOING: &[u8] = b".going";
/// Suffix of an entry that leads to the new path of a renamed file, as a symbolic link does.
const MOVED: &[u8] = b".moved";
/// Akey of the new location of a renamed file or directory: the object id of the directory, and the name. It stays
/// valid if directories above move.
const LOCATION_AKEY: &[u8] = b"DFS_LOCATION";

/// The object that contains the entries of removed files that are still open.
pub(crate) fn object(container: &Container) -> Result<Object> {
    let class = Some(ObjectClass::S1);
    Ok(container.object(container.generate_oid(
        ORPHANS_HI,
        0,
        ObjectType::MultiHashed,
        class,
        0,
    )?))
}

/// In the transaction that removes the name `entry` of a file in `dir`: stores its entry as an orphan if a process has
/// the file open. Returns whether a process has it open.
pub(crate) fn store_if_open(
    fs: &Dfs,
    dir: &Object,
    entry: &[u8],
    inode: &Inode,
    access: Access<'_>,
) -> Result<bool> {
    if inode.kind != Kind::File || !is_used(fs.mounted(), inode.oid)? {
        return Ok(false);
    }
    if let Some(mut entry) = FullEntry::read(dir, entry, access)? {
        fs.mounted().stamp(&mut entry.inode);
        entry.write(&object(fs.container())?, &name(inode.oid), access)?;
    }
    Ok(true)
}

/// In the transaction that renames an open file to `name` in `dir`, or a directory without a mark: stores an entry that
/// leads to the new name. Returns false for a file that no process has open.
pub(crate) fn store_new_location(
    fs: &Dfs,
    inode: &Inode,
    place: (&Node, &[u8]),
    access: Access<'_>,
) -> Result<bool> {
    let is_needed = match inode.kind {
        Kind::File => is_used(fs.mounted(), inode.oid)?,
        Kind::Directory => !entry::has_marks(fs.container()),
        Kind::Symlink => false,
    };
    if is_needed {
        store_location(fs, inode, place, access)?;
    }
    Ok(is_needed || inode.kind != Kind::File)
}

/// After the rename of a file to `name` in `dir` for which [`store_new_location`] returned false: stores the entry if a
/// process has opened the file since, under its former name.
pub(crate) fn store_location_if_opened(
    fs: &Dfs,
    oid: ObjectId,
    (dir, name): (&Node, &[u8]),
) -> Result<()> {
    if !is_used(fs.mounted(), oid)? {
        return Ok(());
    }
    let location = EntryLocation { dir: dir.oid(), name: name.into() };
    let stored = fs.transact(|access| {
        // A process that has renamed or removed the file again has seen that it is open.
        let found = location.inode(fs.container(), access).wait()?;
        let Some(inode) = found.filter(|inode| inode.oid == oid) else { return Ok(None) };
        store_location(fs, &inode, (dir, name), access).map(|()| Some(inode))
    })?;
    // The process may have closed the file meanwhile.
    stored.map_or(Ok(()), |inode| bury(fs.mounted(), &inode))
}

/// Stores an entry that leads to `name` in `dir`, the new name of a file or directory.
fn store_location(
    fs: &Dfs,
    inode: &Inode,
    (dir, name): (&Node, &[u8]),
    access: Access<'_>,
) -> Result<()> {
    let (extent, bytes, path) = ([entry::INODE_EXTENT], inode.to_bytes(), dir.path_of(name));
    let location = [&dir.oid().to_bytes(), name].concat();
    let value = Value::Single(Source::One(&location));
    let location = Update { akey: LOCATION_AKEY, value, cond: Cond::NONE };
    let updates = [entry::inode_update(&extent, &bytes), entry::link_update(&path), location];
    object(fs.container())?.update(&moved(inode.oid), Cond::NONE, &updates, access).wait()
}

/// Frees the content of a file that lost its name, now or on last close. `is_stored` is the result of
/// [`store_if_open`].
pub(crate) fn abandon(fs: &Mounted, inode: &Inode, is_stored: bool) -> Result<()> {
    if is_stored {
        // The last process may have closed the file since: then this one frees it.
        return if is_used(fs, inode.oid)? { Ok(()) } else { bury(fs, inode) };
    }
    fs.release_if_closed(inode.oid)?;
    if attr::content(fs, inode)?.remove_unused().wait()? {
        return Ok(());
    }
    // A process opened it just before the name was removed.
    let mut stamped = *inode;
    fs.stamp(&mut stamped);
    entry::put(&object(fs.container())?, &name(inode.oid), &stamped, Access::Latest)?;
    bury(fs, inode)
}

/// Frees the content of several files as [`abandon`] does, none of which is stored, in few commits. Each has its own
/// result.
pub(crate) fn abandon_each(fs: &Mounted, inodes: &[Inode]) -> Vec<Result<()>> {
    // After an error, each file is freed on its own, as far as it was not freed before.
    let freed = free_unused(fs, inodes).unwrap_or_else(|_| vec![false; inodes.len()]);
    let free = |(inode, is_freed)| if is_freed { Ok(()) } else { abandon(fs, inode, false) };
    std::iter::zip(inodes, freed).map(free).collect()
}

/// Frees the contents of files, except of those that a process has open. Returns which were freed.
fn free_unused(fs: &Mounted, inodes: &[Inode]) -> Result<Vec<bool>> {
    inodes.iter().try_for_each(|inode| fs.release_if_closed(inode.oid))?;
    let contents = inodes.iter().map(|inode| attr::content(fs, inode));
    Array::remove_unused_each(&contents.collect::<Result<Vec<_>>>()?).wait()
}

/// Stores the entry of a file in use that was taken away, and frees the content if its last process has closed it
/// meanwhile. Other processes that have it open find the entry among the orphans in a moment: [`find_used`] waits for
/// that.
pub(crate) fn store_taken(fs: &Mounted, entry: &FullEntry) -> Result<()> {
    let inode = &entry.inode;
    entry.write(&object(fs.container())?, &name(inode.oid), Access::Latest)?;
    bury(fs, inode)
}

/// Marks the file to be unlinked on last close; false if no process has it open. Releases the deferred leases of this
/// process first, which do not count.
fn is_used(fs: &Mounted, oid: ObjectId) -> Result<bool> {
    fs.release_if_closed(oid)?;
    is_leased(fs, oid)
}

/// True if any process has a lease on the object. Unlike [`is_used`], also counts deferred leases of this process,
/// whose release frees the file.
fn is_leased(fs: &Mounted, oid: ObjectId) -> Result<bool> {
    fs.container().object(oid).unlink_on_last_close().wait()
}

/// Frees the content of an orphan, and removes the entry that leads to the new name of a renamed file, unless a process
/// has the file open.
///
/// Only the process that removes the orphan's entry frees it. Later lookups do not find the file, and the
/// processes of earlier ones have a lease on it.
pub(crate) fn bury(fs: &Mounted, inode: &Inode) -> Result<()> {
    let (orphan, going) = (name(inode.oid), going(inode.oid));
    if is_leased(fs, inode.oid)? {
        return Ok(());
    }
    remove_entry(fs, &moved(inode.oid))?;
    while rename(fs, &orphan, &going)? {
        if !is_leased(fs, inode.oid)? {
            return free_orphan(fs, inode);
        }
        // A process took a lease before the rename. Restore the entry for it, and try again if it has closed the file
        // by now.
        if !rename(fs, &going, &orphan)? || is_leased(fs, inode.oid)? {
            break;
        }
    }
    Ok(())
}

/// Removes an entry among the orphans, if it exists.
fn remove_entry(fs: &Mounted, entry: &[u8]) -> Result<()> {
    let orphans = object(fs.container())?;
    match entry::fetch(&orphans, entry, Access::Latest).wait()? {
        Some(_) => orphans.punch_dkey(entry, Cond::NONE, Access::Latest).wait(),
        None => Ok(()),
    }
}

/// Frees the content of an orphan.
fn free_orphan(fs: &Mounted, inode: &Inode) -> Result<()> {
    attr::content(fs, inode)?.remove().wait()?;
    object(fs.container())?.punch_dkey(&going(inode.oid), Cond::NONE, Access::Latest).wait()
}

/// Renames an entry among the orphans, in one transaction. Of concurrent callers, one gets true; false if it does not
/// exist.
fn rename(fs: &Mounted, from: &[u8], to: &[u8]) -> Result<bool> {
    let orphans = object(fs.container())?;
    fs.transact(|access| {
        // The extended attributes move with the inode: the entry may move back.
        let Some(entry) = FullEntry::read(&orphans, from, access)? else { return Ok(false) };
        orphans.punch_dkey(from, Cond::NONE, access).wait()?;
        entry.write(&orphans, to, access)?;
        Ok(true)
    })
}

impl Dfs {
    /// Finds a file by object id that was removed or renamed while in use, for a program that inherited it open. A
    /// removed file has no location.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no such file is in use.
    pub fn file_in_use(&self, oid: ObjectId) -> Result<Node> {
        let (orphans, name) = (object(self.container())?, name(oid));
        let find = || match entry::fetch(&orphans, &name, self.view()).wait()? {
            Some(inode) => self.root().child(&name, inode).map(Some),
            None => find_by_new_name(self, oid),
        };
        let message = || format!("no file {oid} that lost its name is in use");
        while_used(self, oid, find)?.ok_or_else(|| Error::new(ErrorKind::NotFound, message()))
    }

    /// Frees the content of a removed file by object id, unless a process has it open. A program that inherited the
    /// file calls this after the last close.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn bury(&self, oid: ObjectId) -> Result<()> {
        self.mounted().release_if_closed(oid)?;
        let orphans = object(self.container())?;
        for name in [name(oid), moved(oid)] {
            if let Some(inode) = entry::fetch(&orphans, &name, Access::Latest).wait()? {
                bury(self.mounted(), &inode)?;
            }
        }
        Ok(())
    }
}

/// Removes the orphan entries of a file whose content is freed.
pub(crate) fn remove_entries(container: &Container, oid: ObjectId) -> Result<()> {
    let (orphans, names) = (object(container)?, [name(oid), going(oid), moved(oid)]);
    names.iter().try_for_each(|name| orphans.punch_dkey(name, Cond::NONE, Access::Latest).wait())
}

/// The location and inode of a file that was removed or renamed while a process has it open.
pub(crate) fn find(
    fs: &Dfs,
    oid: ObjectId,
    access: Access<'_>,
) -> Result<Option<(EntryLocation, Inode)>> {
    let orphan = EntryLocation { dir: object(fs.container())?.oid(), name: name(oid).into() };
    if let Some(inode) = orphan.inode(fs.container(), access).wait()? {
        return Ok(Some((orphan, inode)));
    }
    if let Some(found) = find_by_new_location(fs, oid, access)? {
        return Ok(Some(found));
    }
    let Some(node) = find_by_new_name(fs, oid)? else { return Ok(None) };
    let inode = node.inode_at(&node.location(), access)?;
    Ok(inode.map(|inode| (node.location(), inode)))
}

/// The location and inode of a renamed directory without a mark, for [`MOVED_DIRECTORY_SECONDS`] after the
/// rename.
pub(crate) fn find_directory(
    fs: &Dfs,
    oid: ObjectId,
    access: Access<'_>,
) -> Result<Option<(EntryLocation, Inode)>> {
    match entry::has_marks(fs.container()) {
        true => Ok(None),
        false => find_by_new_location(fs, oid, access),
    }
}

/// [`find`] that retries: if the entry of an open file has just vanished, waits until the remover stored it as an
/// orphan.
pub(crate) fn find_used(
    fs: &Dfs,
    oid: ObjectId,
    access: Access<'_>,
) -> Result<Option<(EntryLocation, Inode)>> {
    while_used(fs, oid, || find(fs, oid, access))
}

/// Runs `find` until it succeeds or no process has the file open: the file may move during the search.
fn while_used<T>(
    fs: &Dfs,
    oid: ObjectId,
    find: impl Fn() -> Result<Option<T>>,
) -> Result<Option<T>> {
    for _ in 0..LOOKS_MAX {
        let found = find()?;
        if found.is_some() || !is_used(fs.mounted(), oid)? {
            return Ok(found);
        }
        std::thread::yield_now();
    }
    Ok(None)
}

/// A renamed file or directory, by its new location; `None` if it is not there any more.
fn find_by_new_location(
    fs: &Dfs,
    oid: ObjectId,
    access: Access<'_>,
) -> Result<Option<(EntryLocation, Inode)>> {
    let orphans = object(fs.container())?;
    let stored = entry::value(&orphans, &moved(oid), LOCATION_AKEY, access)?;
    let Some((dir, name)) = stored.as_deref().and_then(|it| it.split_first_chunk()) else {
        return Ok(None);
    };
    let location = EntryLocation { dir: ObjectId::from_bytes(*dir), name: name.into() };
    let inode = location.inode(fs.container(), access).wait()?;
    Ok(inode.filter(|inode| inode.oid == oid).map(|inode| (location, inode)))
}

/// A renamed file, by its new path; `None` if it is not there any more.
fn find_by_new_name(fs: &Dfs, oid: ObjectId) -> Result<Option<Node>> {
    let orphans = object(fs.container())?;
    let Some(path) = entry::value(&orphans, &moved(oid), LINK_AKEY, fs.view())? else {
        return Ok(None);
    };
    use ErrorKind::{Loop, NotDirectory, NotFound};
    match fs.resolve(&fs.root(), &path, Follow::AllButLast) {
        // Directories above it may have moved too, and another file may have its name.
        Err(error) if matches!(error.kind(), NotFound | NotDirectory | Loop) => Ok(None),
        found => Ok(Some(found?).filter(|node| node.oid() == oid)),
    }
}

/// Frees the files that were removed while a process had them open, and that no process has open any more: it was
/// killed. Entries whose names end in `GOING` are of files that a process was freeing; those in `MOVED` lead to the new
/// names of renamed files.
pub(crate) fn sweep(fs: &Dfs) -> Result<()> {
    let (orphans, mut anchor) = (object(fs.container())?, Anchor::Start);
    while !anchor.is_end() {
        let limit = ListLimit::entries(LIST_BATCH);
        for name in orphans.list_dkeys(&mut anchor, limit, Access::Latest).wait()?.iter() {
            let Some(inode) = entry::fetch(&orphans, name, Access::Latest).wait()? else {
                continue;
            };
            if is_used(fs.mounted(), inode.oid)? {
                continue;
            }
            match () {
                () if is_recent_directory(&inode) => {}
                () if name.ends_with(GOING) => free_orphan(fs.mounted(), &inode)?,
                () if may_be_open(fs.container(), &inode) => {}
                () if name.ends_with(MOVED) => remove_entry(fs.mounted(), name)?,
                () => bury(fs.mounted(), &inode)?,
            }
        }
    }
    Ok(())
}

/// True if a process may have an orphan open without a lease that this process sees.
fn may_be_open(container: &Container, inode: &Inode) -> bool {
    let age = inode.ctime.apart(Time::now());
    let is_recent = inode.kind == Kind::File && age.as_secs() < ORPHAN_SECONDS;
    is_recent && !container.capabilities().shared_leases
}

/// True if a process has an object without a name open, or may have it open, so that a check must not remove it.
pub(crate) fn is_kept(container: &Container, oid: ObjectId) -> Result<bool> {
    if container.object(oid).unlink_on_last_close().wait()? {
        return Ok(true);
    }
    let orphan = entry::fetch(&object(container)?, &name(oid), Access::Latest).wait()?;
    Ok(orphan.is_some_and(|inode| may_be_open(container, &inode)))
}

/// True if a file that has no name is stored as an orphan: it was removed, so its name is not lost.
pub(crate) fn is_removed(container: &Container, oid: ObjectId) -> Result<bool> {
    let orphans = object(container)?;
    for name in [name(oid), going(oid)] {
        if entry::fetch(&orphans, &name, Access::Latest).wait()?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True for an entry that leads to a directory, which was renamed less than [`MOVED_DIRECTORY_SECONDS`] ago.
fn is_recent_directory(inode: &Inode) -> bool {
    let age = inode.ctime.apart(Time::now());
    inode.kind == Kind::Directory && age.as_secs() < MOVED_DIRECTORY_SECONDS
}

impl Dfs {
    /// Releases the lease of a closed file a moment later.
    pub(crate) fn release_later(&self, lease: Lease, inode: Inode) -> Result<()> {
        let closes = &self.mounted().deferred_closes;
        match closes.add(lease, inode) {
            DEFERRED_CLOSES_MAX.. => return self.mounted().release_closed(),
            // The first lease starts a timer, which releases all leases that are added until then.
            1 => {}
            _ => return Ok(()),
        }
        // The thread holds a weak reference, so that it does not delay an unmount.
        let (closes, mounted) = (Arc::clone(closes), self.downgrade());
        later(move || {
            // After an error, the next mount frees the files.
            let _ = closes.release_all(|| mounted.upgrade(), |fs, inode| bury(fs, inode));
        });
        Ok(())
    }
}

impl Mounted {
    /// Releases the leases of all closed files, and frees those that other processes have removed.
    pub(crate) fn release_closed(&self) -> Result<()> {
        self.deferred_closes.release_all(|| Some(self), |fs, inode| bury(fs, inode))
    }

    /// If this process has closed the file but deferred releasing its lease, releases all deferred leases now.
    pub(crate) fn release_if_closed(&self, oid: ObjectId) -> Result<()> {
        if self.deferred_closes.contains(oid) { self.release_closed() } else { Ok(()) }
    }
}

/// Deferred removals.
impl Dfs {
    /// Frees the content of a removed file a moment later.
    pub(crate) fn free_later(&self, entry: FullEntry) {
        let added = self.mounted().deferred_removals.add(entry);
        if added.count >= DEFERRED_REMOVALS_MAX {
            // An error may be that of another file: a flush reports it.
            let _ = self.mounted().free_removed();
            return;
        }
        if !added.is_to_schedule {
            return;
        }
        // The thread holds a weak reference: unmounting frees the content, too.
        let mounted = self.downgrade();
        later(move || {
            // After an error, the files are kept for the next attempt.
            let _ = mounted.upgrade().map(|mounted| mounted.free_removed());
        });
    }
}

impl Mounted {
    /// Frees the content of all files that this process has removed, except of those that other processes have open.
    pub(crate) fn free_removed(&self) -> Result<()> {
        self.deferred_removals.free_all(|entries| {
            let inodes: Vec<Inode> = entries.iter().map(|entry| entry.inode).collect();
            let is_freed = free_unused(self, &inodes)?;
            let used = std::iter::zip(entries, is_freed).filter(|(_, is_freed)| !is_freed);
            used.map(|(entry, _)| entry).try_for_each(|entry| store_taken(self, entry))
        })
    }
}

impl Drop for Inner {
    /// Releases the lease of a file that was created to be opened, and was not. Frees the content if another process
    /// has removed the file, and this was the last lease.
    fn drop(&mut self) {
        let Some(lease) = self.lease.lock().take() else { return };
        if lease.release().wait().is_ok_and(|is_last| is_last) {
            // After an error, the next mount frees it.
            let _ = bury(self.fs.mounted(), &self.inode);
        }
    }
}

/// Name of the entry of a removed file among the orphans.
fn name(oid: ObjectId) -> Vec<u8> {
    oid.to_string().into_bytes()
}

/// Name of that entry while the content is being freed.
fn going(oid: ObjectId) -> Vec<u8> {
    [&name(oid), GOING].concat()
}

/// Name of the entry that leads to the new location of a renamed file or directory.
fn moved(oid: ObjectId) -> Vec<u8> {
    [&name(oid), MOVED].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Create, File, MountOptions, NewDfs, Open, RenameMode, SetAttr, XattrMode};
    use esker::backend::NewContainer;
    use esker::types::info::OpenMode;
    use esker::{Pool, Reply};
    use esker_conformance::between::{Interceptor, PoolBetween};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const NAME: &[u8] = b"file";

    /// A new file system in memory.
    fn mounted(pool: &str) -> Dfs {
        let url = format!("memory:{pool}");
        let pool = Pool::connect(&url, OpenMode::ReadWrite).unwrap();
        let label = NewContainer::named("fs");
        Dfs::create_container(&pool, &label, &NewDfs::default()).unwrap();
        Dfs::open(&url, "fs", MountOptions::default()).unwrap()
    }

    /// A file with content that is open.
    fn new_file(fs: &Dfs) -> File {
        let new = Create { exclusive: true, ..Create::with_mode(0o644) };
        let file = fs.root().create(NAME, &new).unwrap().open(Open::BOTH).unwrap();
        file.write_at(0, b"content").unwrap();
        file
    }

    /// An open file that lost its name.
    fn orphan(fs: &Dfs) -> File {
        let file = new_file(fs);
        fs.root().unlink(NAME).unwrap();
        file
    }

    /// The names of all entries among the orphans.
    fn orphan_names(fs: &Dfs) -> Vec<Vec<u8>> {
        let (mut anchor, limit) = (Anchor::Start, ListLimit::entries(LIST_BATCH));
        let orphans = object(fs.container()).unwrap();
        let names = orphans.list_dkeys(&mut anchor, limit, Access::Latest).wait().unwrap();
        names.iter().map(<[u8]>::to_vec).collect()
    }

    /// Calls a function before an operation of a pool: the one that makes the count 0.
    struct Before {
        count: AtomicUsize,
        work: Box<dyn Fn() + Send + Sync>,
    }

    impl Interceptor for Before {
        fn pass<'a, T: Send + Unpin + 'a>(
            &'a self,
            call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
        ) -> Reply<'a, T> {
            if self.count.fetch_sub(1, Ordering::Relaxed) == 1 {
                (self.work)();
            }
            call()
        }
    }

    /// Opens of another process at each moment of a rename: each fails, or leaves a file whose attributes can be set.
    #[test]
    fn file_opened_during_a_rename_keeps_its_entry() {
        for mode in [RenameMode::Replace, RenameMode::Exchange] {
            for step in 1.. {
                if !opens_during_a_rename(mode, step) {
                    assert!(step > 4, "the rename took {step} operations");
                    break;
                }
            }
        }
    }

    /// Opens the file before operation `step` of a rename, and sets its attributes afterwards. Returns false if the
    /// rename had fewer operations.
    fn opens_during_a_rename(mode: RenameMode, step: usize) -> bool {
        let name = format!("late-open-{mode:?}-{step}");
        let other = mounted(&name);
        new_file(&other).close().unwrap();
        other.root().create(b"new", &Create::with_mode(0o644)).unwrap();
        let opened = Arc::new(Mutex::new(None));
        let (node, slot) = (other.root().lookup(NAME).unwrap(), Arc::clone(&opened));
        let work = move || *slot.lock().unwrap() = Some(node.open(Open::BOTH));
        let before = Arc::new(Before { count: AtomicUsize::new(0), work: Box::new(work) });
        let pool = Pool::connect(&format!("memory:{name}"), OpenMode::ReadWrite).unwrap();
        let pool = PoolBetween::before(Arc::clone(pool.backend()), &before);
        let pool = Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite);
        let container = pool.open_container("fs", OpenMode::ReadWrite).wait().unwrap();
        let root = Dfs::mount(container, MountOptions::default()).unwrap().root();
        before.count.store(step, Ordering::Relaxed);
        root.rename(NAME, &root, b"new", mode).unwrap();
        before.count.store(0, Ordering::Relaxed);
        let Some(opened) = opened.lock().unwrap().take() else { return false };
        if let Ok(file) = opened {
            file.set_attr(&SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
            assert_eq!(root.lookup(b"new").unwrap().inode().mode, 0o600, "{name}");
            file.close().unwrap();
            other.flush().unwrap();
            assert_eq!(orphan_names(&other), [[0; 0]; 0], "{name}");
        }
        true
    }

    /// The last process that closed the file frees it after another one has opened it.
    #[test]
    fn orphan_opened_before_it_is_freed_stays_until_close() {
        let fs = mounted("opened-before-burial");
        let file = orphan(&fs);
        bury(fs.mounted(), file.node().inode()).unwrap();
        assert_eq!(orphan_names(&fs), [name(file.node().oid())]);
        let mut bytes = [0; 7];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), 7);
        assert_eq!(&bytes, b"content");
        file.close().unwrap();
        assert_eq!(orphan_names(&fs), [[0; 0]; 0]);
    }

    #[test]
    fn open_file_survives_rename_and_removal_by_another_mount() {
        let fs = mounted("moved-and-removed");
        let other = Dfs::mount(fs.container().clone(), MountOptions::default()).unwrap();
        let file = new_file(&fs);
        let oid = file.node().oid();
        other.root().rename(NAME, &other.root(), b"new", RenameMode::Replace).unwrap();
        file.set_attr(&SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
        file.node().set_xattr(b"user.a", b"1", XattrMode::Create).unwrap();
        let moved_file = other.root().lookup(b"new").unwrap();
        assert_eq!(moved_file.attr().unwrap().mode, 0o600);
        assert_eq!(fs.file_in_use(oid).unwrap().path(), b"/new");
        other.root().unlink(b"new").unwrap();
        assert_eq!(file.attr().unwrap().nlink, 0);
        assert_eq!(file.node().get_xattr(b"user.a").unwrap(), b"1");
        file.node().set_xattr(b"user.b", b"2", XattrMode::Create).unwrap();
        assert_eq!(fs.file_in_use(oid).unwrap().list_xattrs().unwrap().len(), 2);
        assert_eq!(moved_file.attr().unwrap().nlink, 0);
        assert_eq!(orphan_names(&fs), [name(oid), moved(oid)]);
        file.close().unwrap();
        assert_eq!(orphan_names(&fs), [[0; 0]; 0]);
    }

    /// The lease of a new file is taken before other processes see its name.
    #[test]
    fn new_file_that_is_removed_before_it_is_opened_keeps_its_content() {
        let fs = mounted("removed-before-open");
        let other = Dfs::mount(fs.container().clone(), MountOptions::default()).unwrap();
        let new = Create { open: true, ..Create::with_mode(0o644) };
        let node = fs.root().create(NAME, &new).unwrap();
        other.root().unlink(NAME).unwrap();
        let file = node.open(Open::BOTH).unwrap();
        file.write_at(0, b"content").unwrap();
        assert_eq!(file.read_at(0, &mut [0; 9]).unwrap(), 7);
        assert_eq!((file.attr().unwrap().nlink, orphan_names(&fs).len()), (0, 1));
        let content = file.array().clone();
        file.close().unwrap();
        assert_eq!(content.size(Access::Latest).wait().unwrap(), 0);
        assert_eq!(orphan_names(&fs), [[0; 0]; 0]);
    }

    #[test]
    fn removed_files_leave_no_objects() {
        let fs = mounted("no-objects-left");
        let objects = || {
            let (mut anchor, mut all) = (Anchor::Start, Vec::new());
            while !anchor.is_end() {
                let found = fs.container().list_objects(&mut anchor, 9, Access::Latest);
                all.extend(found.wait().unwrap());
            }
            all
        };
        let before = objects();
        // A file without content, one with a chunk, one with several, and one with a hole in front.
        for (at, len) in [(0, 0), (0, 3901), (0, 3 << 20), (5 << 20, 1)] {
            let file = fs.root().create(NAME, &Create::with_mode(0o644)).unwrap();
            let file = file.open(Open::BOTH).unwrap();
            file.write_at(at, &vec![1; len]).unwrap();
            file.close().unwrap();
            assert_eq!(objects().len() > before.len(), len > 0);
            fs.root().unlink(NAME).unwrap();
            assert_eq!(objects(), before, "{len} bytes at {at}");
        }
    }

    /// The process that moved the file was killed before it closed the file.
    #[test]
    fn mount_removes_new_locations_of_files_that_are_not_open() {
        let fs = mounted("forgotten-moves");
        let file = new_file(&fs);
        fs.transact(|access| {
            store_new_location(&fs, file.node().inode(), (&fs.root(), b"file"), access)
        })
        .unwrap();
        sweep(&fs).unwrap();
        assert_eq!(orphan_names(&fs), [moved(file.node().oid())], "the file is open");
        let orphans = object(fs.container()).unwrap();
        let moved_file = entry::fetch(&orphans, &orphan_names(&fs)[0], fs.view()).wait();
        file.close().unwrap();
        // The close has removed the entry: store it again, as a killed process would have left it.
        let inode = moved_file.unwrap().unwrap();
        entry::put(&object(fs.container()).unwrap(), &moved(inode.oid), &inode, Access::Latest)
            .unwrap();
        sweep(&fs).unwrap();
        assert_eq!(orphan_names(&fs), [[0; 0]; 0]);
    }

    /// A process that frees an orphan moves its entry, and moves it back if another one has opened the file.
    #[test]
    fn orphan_keeps_extended_attributes_if_it_is_not_freed() {
        let fs = mounted("keeps-attributes");
        let file = new_file(&fs);
        file.node().set_xattr(b"user.a", b"1", XattrMode::Any).unwrap();
        fs.root().unlink(NAME).unwrap();
        let (orphan, going) = (name(file.node().oid()), going(file.node().oid()));
        assert!(rename(fs.mounted(), &orphan, &going).unwrap());
        assert!(rename(fs.mounted(), &going, &orphan).unwrap());
        assert_eq!(file.node().list_xattrs().unwrap(), [b"user.a".to_vec()]);
    }

    #[test]
    fn file_that_is_being_freed_cannot_be_opened() {
        let fs = mounted("being-freed");
        let file = orphan(&fs);
        let (orphan, going) = (name(file.node().oid()), going(file.node().oid()));
        assert!(rename(fs.mounted(), &orphan, &going).unwrap());
        assert_eq!(file.node().open(Open::READ).err().unwrap().kind(), ErrorKind::NotFound);
        assert_eq!(fs.file_in_use(file.node().oid()).err().unwrap().kind(), ErrorKind::NotFound);
        bury(fs.mounted(), file.node().inode()).unwrap();
        assert_eq!(orphan_names(&fs), std::slice::from_ref(&going), "another process frees it");
        let content = file.array().clone();
        file.close().unwrap();
        assert_eq!(orphan_names(&fs), [going], "of a killed process");
        sweep(&fs).unwrap();
        assert_eq!(orphan_names(&fs), [[0; 0]; 0]);
        assert_eq!(content.size(Access::Latest).wait().unwrap(), 0);
    }

    /// One error does not drop the other files.
    #[test]
    fn contents_that_cannot_be_freed_are_kept_for_the_next_attempt() {
        let fs = mounted("kept-for-next");
        let removals = &fs.mounted().deferred_removals;
        let add = |name: &[u8]| {
            let node = fs.root().create(name, &Create::with_mode(0o644)).unwrap();
            let entry = FullEntry::read(&fs.root().directory().unwrap(), name, fs.view());
            (node.oid(), removals.add(entry.unwrap().unwrap()))
        };
        let ((away, first), (here, second)) = (add(b"away"), add(b"here"));
        assert_eq!((first.is_to_schedule, second.is_to_schedule, second.count), (true, false, 2));
        let freed = std::cell::RefCell::new(Vec::new());
        // The node of the file `away` does not answer until `is_back`.
        let free = |entries: &[FullEntry], is_back: bool| {
            let oids: Vec<_> = entries.iter().map(|entry| entry.inode.oid).collect();
            if !is_back && oids.contains(&away) {
                return Err(ErrorKind::Io.into());
            }
            freed.borrow_mut().extend(oids);
            Ok(())
        };
        assert!(removals.free_all(|entries| free(entries, false)).is_err());
        assert_eq!(*freed.borrow(), [here]);
        assert!(add(b"another").1.is_to_schedule);
        removals.free_all(|entries| free(entries, true)).unwrap();
        assert_eq!(freed.borrow()[1], away);
        assert_eq!(freed.borrow().len(), 3);
    }

    /// The node of many files does not answer. An attempt takes a limited number of requests, and each file has its turn.
    #[test]
    fn attempt_to_free_contents_ends_after_some_failures() {
        let fs = mounted("limited-attempts");
        let removals = &fs.mounted().deferred_removals;
        let mut add = |number: u32| {
            let name = number.to_string().into_bytes();
            let node = fs.root().create(&name, &Create::with_mode(0o644)).unwrap();
            let entry = FullEntry::read(&fs.root().directory().unwrap(), &name, fs.view());
            (node.oid(), removals.add(entry.unwrap().unwrap()).count)
        };
        let added: Vec<_> = (0..100).map(&mut add).collect();
        let here = added[99].0;
        let (requests, is_freed) = (std::cell::Cell::new(0), std::cell::Cell::new(false));
        let mut attempts = 0;
        while !is_freed.get() {
            requests.set(0);
            let attempt = removals.free_all(|entries| {
                requests.set(requests.get() + 1);
                match entries {
                    [only] if only.inode.oid == here => {
                        is_freed.set(true);
                        Ok(())
                    }
                    _ => Err(ErrorKind::Io.into()),
                }
            });
            assert_eq!(attempt.unwrap_err().kind(), ErrorKind::Io);
            assert!(requests.get() < 20, "{} requests", requests.get());
            attempts += 1;
        }
        assert!(attempts > 1);
        assert_eq!(add(100).1, 1, "only new files count");
    }

    /// A pool of plain files. Each opening of it counts as a process, whose leases the others do not see.
    struct Files(std::path::PathBuf);

    impl Files {
        /// A new pool with an empty file system.
        fn new(name: &str) -> Self {
            let name = format!("esker-dfs-{name}-{}", std::process::id());
            let files = Self(std::env::temp_dir().join(name));
            esker::PosixPool::create(&files.0, false).unwrap();
            let pool = Pool::connect(&files.url(), OpenMode::ReadWrite).unwrap();
            let label = NewContainer::named("fs");
            Dfs::create_container(&pool, &label, &NewDfs::default()).unwrap();
            files
        }

        fn url(&self) -> String {
            format!("posix:{}", self.0.display())
        }

        /// Mounts the file system as another process.
        fn mount(&self) -> Dfs {
            Dfs::open(&self.url(), "fs", MountOptions::default()).unwrap()
        }

        /// Repairs the file system as a process that has the container alone.
        fn repair(&self) -> crate::check::CheckReport {
            let pool = Pool::connect(&self.url(), OpenMode::ReadWrite).unwrap();
            let alone = pool.open_container("fs", OpenMode::Exclusive).wait().unwrap();
            let options = crate::check::CheckOptions { repair: true, ..Default::default() };
            crate::check::check(&alone, options, &mut |_| {}).unwrap()
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn mounts_and_repairs_keep_open_files_without_a_name_on_plain_files() {
        let files = Files::new("kept");
        let fs = files.mount();
        let removed = orphan(&fs);
        let replaced = new_file(&fs);
        let new = Create { exclusive: true, ..Create::with_mode(0o644) };
        fs.root().create(b"other", &new).unwrap();
        fs.root().rename(b"other", &fs.root(), NAME, RenameMode::Replace).unwrap();
        let other = files.mount();
        let repaired = files.repair();
        assert_eq!((repaired.leftovers.files, repaired.leftovers.removed), (2, 0));
        for file in [removed, replaced] {
            let mut bytes = [0; 9];
            assert_eq!((file.read_at(0, &mut bytes).unwrap(), &bytes[..7]), (7, &b"content"[..]));
            assert_eq!(file.attr().unwrap().nlink, 0);
            file.close().unwrap();
        }
        assert_eq!(orphan_names(&other), [[0; 0]; 0]);
    }

    #[test]
    fn mounts_free_old_files_without_a_name_on_plain_files() {
        let files = Files::new("old");
        let fs = files.mount();
        let file = orphan(&fs);
        let mut inode = *file.node().inode();
        inode.ctime.seconds -= ORPHAN_SECONDS as i64;
        entry::put(&object(fs.container()).unwrap(), &name(inode.oid), &inode, Access::Latest)
            .unwrap();
        let other = files.mount();
        assert_eq!(orphan_names(&other), [[0; 0]; 0]);
        assert_eq!(file.read_at(0, &mut [0; 9]).unwrap(), 0);
    }
}
