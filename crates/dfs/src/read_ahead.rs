//! Read-ahead of directories over the network: fetches entries together, and caches them under a lease.
use crate::attr;
use crate::entry::{self, EntryLocation};
use crate::entry_cache::ReadEntries;
use crate::entry_hints::ReadAhead;
use crate::inode::{Inode, Kind};
use crate::limits::STEPS_MAX;
use crate::mount::Dfs;
use crate::node::Node;
use esker::types::{ObjectId, Result};
use esker::{Access, Array, Wait, side_by_side, task};

/// Records the entry of a node after a lookup, which missed the cache. Reads the directory ahead if that is due.
pub(crate) fn record_lookup(node: &Node) {
    let mounted = node.fs().mounted();
    if !mounted.is_slow() {
        return;
    }
    let is_new = mounted.entry_hints.record(node.location(), *node.inode());
    if let Some(dir) = node.parent()
        // Without leases, nothing is cached: only new entries improve the hints.
        && (is_new || mounted.grants_leases())
        && let Some(due) = mounted.entry_hints.count_miss(dir.oid(), node.name(), is_new)
    {
        // A failed read-ahead only makes later lookups slower.
        let _ = read_ahead(dir, due);
    }
}

/// Reads the entries of `dir` that are due into the cache, and notes whether the read was in vain, so that it is not
/// repeated.
fn read_ahead(dir: &Node, due: ReadAhead) -> Result<()> {
    let ReadAhead { again, mut next, entries } = due;
    let names = dir.read_names(&mut next, entries)?;
    let names: Vec<&[u8]> = again.iter().map(|name| &**name).chain(names.iter()).collect();
    let read = read_and_lease(dir, &names)?;
    let mounted = dir.fs().mounted();
    let in_vain = mounted.grants_leases() && !read.is_cached;
    mounted.entry_hints.record_read(dir.oid(), next, in_vain);
    for (location, inode) in read.inodes {
        mounted.entry_hints.record(location, inode);
    }
    Ok(())
}

/// Reads these entries of a directory. Caches them and the entries on the path to the directory, if the backend grants
/// leases on them.
///
/// # Errors
/// Errors of the backend.
fn read_and_lease(dir: &Node, names: &[&[u8]]) -> Result<ReadEntries> {
    let fs = dir.fs();
    if !fs.mounted().grants_leases() {
        return entries(dir, names, fs.view(), false);
    }
    let read = read_in_lease(fs, |access| entries(dir, names, access, true))?;
    if path_locations(dir)
        .iter()
        .any(|step| fs.mounted().entry_cache.inode(fs.container(), step).is_none())
    {
        read_in_lease(fs, |access| path_entries(dir, access))?;
    }
    Ok(read)
}

/// Runs `read` in a transaction, and caches its entries if the backend grants a lease on them.
fn read_in_lease(
    fs: &Dfs,
    read: impl FnOnce(Access<'_>) -> Result<ReadEntries>,
) -> Result<ReadEntries> {
    let transaction = fs.container().transaction_read_only()?;
    let mut read = read(Access::Tx(&transaction))?;
    fs.mounted().entry_cache.insert(fs.container(), &mut read, transaction.proof()?);
    Ok(read)
}

/// Reads the inodes of several entries of a directory, with the sizes of files if they are wanted.
fn entries(
    dir: &Node,
    names: &[&[u8]],
    access: Access<'_>,
    with_sizes: bool,
) -> Result<ReadEntries> {
    let inodes = entry::fetch_all(&dir.directory()?, names, access).wait()?;
    let location = |name: &&[u8]| EntryLocation { dir: dir.oid(), name: (*name).into() };
    let inodes: Vec<_> = std::iter::zip(names, inodes)
        .filter_map(|(name, inode)| Some((location(name), inode?)))
        .collect();
    let sizes = if with_sizes { sizes(dir.fs(), &inodes, access)? } else { Vec::new() };
    Ok(ReadEntries { inodes, sizes, is_cached: false })
}

/// The sizes of the files among entries.
fn sizes(
    fs: &Dfs,
    inodes: &[(EntryLocation, Inode)],
    access: Access<'_>,
) -> Result<Vec<(ObjectId, u64)>> {
    let files = inodes.iter().filter(|(_, inode)| inode.kind == Kind::File);
    let contents = files.map(|(_, inode)| attr::content(fs.mounted(), inode));
    let contents = contents.collect::<Result<Vec<Array>>>()?;
    let sizes = Array::sizes(&contents, access).wait()?;
    Ok(contents.iter().map(Array::oid).zip(sizes).collect())
}

/// Locations of the entries on the path to a directory.
fn path_locations(dir: &Node) -> Vec<EntryLocation> {
    let below_root = |node: &&Node| node.parent().is_some();
    std::iter::successors(Some(dir), |node| node.parent())
        .take_while(below_root)
        .map(Node::location)
        .collect()
}

/// Reads the inodes of all directories on the path to `dir`, at the same time.
fn path_entries(dir: &Node, access: Access<'_>) -> Result<ReadEntries> {
    let fs = dir.fs();
    let locations = path_locations(dir);
    let asked = locations.iter().map(|location| task(location.inode(fs.container(), access)));
    let found = side_by_side(asked.collect(), STEPS_MAX).wait();
    let inodes = found.into_iter().collect::<Result<Vec<_>>>()?;
    let inodes =
        std::iter::zip(locations, inodes).filter_map(|(location, inode)| Some((location, inode?)));
    Ok(ReadEntries { inodes: inodes.collect(), ..ReadEntries::default() })
}
