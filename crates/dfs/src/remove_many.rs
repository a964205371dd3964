//! Removal of many entries in few transactions, so that a pool that syncs each commit syncs few times.
use crate::entry;
use crate::existing::Check;
use crate::inode::{Inode, Kind};
use crate::limits::{REMOVAL_TRIES_MAX, REMOVALS_MAX};
use crate::node::Node;
use crate::orphans;
use esker::types::{ErrorKind, Result};
use esker::{Access, Wait};
use std::collections::HashSet;

/// One of the removals of [`remove_many`].
#[derive(Clone, Copy)]
pub struct Removal<'a> {
    /// The directory.
    pub dir: &'a Node,
    /// The name in it.
    pub name: &'a [u8],
    /// True for a directory, which must be empty ([`Node::rmdir`]); false for anything else ([`Node::unlink`]).
    pub is_directory: bool,
    /// The condition on the entry, if there is one.
    pub check: Option<Check<'a>>,
}

/// Removes entries of one file system as [`Node::unlink`] and [`Node::rmdir`] do, up to [`REMOVALS_MAX`] in each
/// transaction. Each removal has its own result: an entry that cannot be removed does not stop the others.
///
/// A crash leaves each entry as it was, or removed. A directory is not empty as long as the same call removes entries
/// in it, unless they are before it by more than [`REMOVALS_MAX`] removals.
#[must_use]
pub fn remove_many(removals: &[Removal<'_>]) -> Vec<Result<()>> {
    let mut results = Vec::with_capacity(removals.len());
    while let Some(rest) = removals.get(results.len()..).filter(|rest| !rest.is_empty()) {
        results.extend(remove_batch(&rest[..count_first(rest)]));
    }
    results
}

/// Number of removals at the beginning that go into one transaction: it does not read its own writes, so no two are of
/// the same entry. On `daos:` pools, each is a transaction of its own, as in DAOS's `dfs_remove`.
fn count_first(removals: &[Removal<'_>]) -> usize {
    let mut entries = HashSet::new();
    let is_together = |one: &Removal<'_>| entry::has_marks(one.dir.fs().container());
    let most = if removals.first().is_some_and(is_together) { REMOVALS_MAX } else { 1 };
    let first = removals.iter().take(most);
    first.take_while(|one| entries.insert((one.dir.oid(), one.name))).count()
}

/// Removes distinct entries. If they cannot be removed together, each half is removed on its own.
fn remove_batch(batch: &[Removal<'_>]) -> Vec<Result<()>> {
    if let [only] = batch {
        return vec![only.run()];
    }
    match remove_together(batch) {
        Ok(results) => results,
        Err(error) if concerns_all(error.kind()) => {
            batch.iter().map(|_| Err(error.clone())).collect()
        }
        Err(_) => {
            let (one, other) = batch.split_at(batch.len() / 2);
            [remove_batch(one), remove_batch(other)].concat()
        }
    }
}

/// True for errors of a transaction after which smaller ones are not tried. After `TxUncertain`, the entries may be
/// removed already, so a repetition would not find them. After the others, each smaller transaction could wait as long
/// in vain.
fn concerns_all(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TxUncertain | ErrorKind::TimedOut | ErrorKind::Canceled)
}

/// Removes distinct entries in one transaction, as far as each can be removed.
///
/// # Errors
/// Errors that do not belong to one of the removals: then nothing was removed, unless it is `TxUncertain`.
fn remove_together(batch: &[Removal<'_>]) -> Result<Vec<Result<()>>> {
    let Some(first) = batch.first() else { return Ok(Vec::new()) };
    let fs = first.dir.fs();
    fs.check_writable()?;
    batch.iter().try_for_each(|one| entry::check_name(one.name))?;
    let removed = fs.container().transact(REMOVAL_TRIES_MAX, |transaction| {
        let access = Access::Tx(transaction);
        let found = std::iter::zip(batch, find(batch, access)?);
        found.map(|(one, inode)| one.attempt(inode, access)).collect::<Result<Vec<_>>>()
    })?;
    Ok(finish(batch, removed))
}

/// The inodes of the entries; those of one directory in one request.
fn find(batch: &[Removal<'_>], access: Access<'_>) -> Result<Vec<Option<Inode>>> {
    let mut inodes = Vec::with_capacity(batch.len());
    for batch in batch.chunk_by(|one, other| one.dir.oid() == other.dir.oid()) {
        let names: Vec<_> = batch.iter().map(|one| one.name).collect();
        inodes.extend(entry::fetch_all(&batch[0].dir.directory()?, &names, access).wait()?);
    }
    Ok(inodes)
}

/// An entry that a transaction has removed.
struct Removed {
    inode: Inode,
    /// A process has the file open, so that it is stored as an orphan.
    is_orphan: bool,
}

/// After the commit: updates the caches of this process, and frees the contents of the removed files. Returns the
/// result of each removal.
fn finish(batch: &[Removal<'_>], removed: Vec<Result<Removed>>) -> Vec<Result<()>> {
    // Files whose content is freed together below: their positions in `results`, and their inodes.
    let (mut results, mut places, mut inodes) = (Vec::new(), Vec::new(), Vec::new());
    for (one, removed) in std::iter::zip(batch, removed) {
        let result = removed.and_then(|Removed { inode, is_orphan }| {
            one.dir.note_entries_changed();
            if inode.kind != Kind::File || is_orphan {
                return one.dir.free_content(&inode, is_orphan);
            }
            one.dir.fs().mounted().note_removal(inode.oid);
            places.push(results.len());
            inodes.push(inode);
            Ok(())
        });
        results.push(result);
    }
    if let Some(first) = batch.first() {
        let freed = orphans::abandon_each(first.dir.fs().mounted(), &inodes);
        std::iter::zip(places, freed).for_each(|(place, freed)| results[place] = freed);
    }
    results
}

impl Removal<'_> {
    /// Removes the entry in a transaction of its own.
    fn run(&self) -> Result<()> {
        match (self.is_directory, self.check) {
            (true, check) => self.dir.rmdir_if(self.name, check),
            (false, Some(check)) => self.dir.unlink_if(self.name, check),
            (false, None) => self.dir.unlink(self.name),
        }
    }

    /// Removes the entry with this inode within a transaction. The inner error is that of this entry, for which nothing
    /// is written.
    fn attempt(&self, inode: Option<Inode>, access: Access<'_>) -> Result<Result<Removed>> {
        let inode = inode.ok_or_else(|| self.dir.no_entry_error(self.name));
        let checked = inode.and_then(|inode| {
            let (dir, wanted) = (self.dir, (self.is_directory, self.check));
            dir.check_removal(self.name, &inode, wanted, access)?;
            self.dir.check_empty(self.name, &inode, access)?;
            Ok(inode)
        });
        match checked {
            Err(error) if error.kind() == ErrorKind::TxRestart => Err(error),
            Err(error) => Ok(Err(error)),
            Ok(inode) => {
                let is_orphan = self.dir.remove_checked(self.name, &inode, access)?;
                Ok(Ok(Removed { inode, is_orphan }))
            }
        }
    }
}
