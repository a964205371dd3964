//! Entry cache: entries and file sizes under a read lease, which do not change while the lease lasts.
//!
//! Entries that were read together share one lease. A lookup after its end renews it. The renewal fails if one of the
//! entries has changed.
use crate::attr;
use crate::entry::{self, EntryLocation};
use crate::inode::{Inode, Kind};
use crate::limits::{ENTRY_CACHE_MAX, STEPS_MAX};
use crate::mount::{Dfs, Mounted};
use crate::node::Node;
use esker::types::{ObjectId, Result};
use esker::{Access, Array, Proof, Wait, side_by_side, task};
use esker_os::{ForkLock, uptime};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest lease term that the client accepts, and longest time after its end until a renewal, in microseconds. A node
/// that was unreachable for longer may have lost its record of the lease.
const TERM_MAX: u64 = 1_000_000;

/// Entries and file sizes that this process caches.
#[derive(Default)]
pub(crate) struct EntryCache(ForkLock<CachedEntries>);

#[derive(Default)]
struct CachedEntries {
    inodes: HashMap<EntryLocation, (Inode, Arc<Batch>)>,
    sizes: HashMap<ObjectId, (u64, Arc<Batch>)>,
}

/// Lease of entries that were read in one transaction.
struct Batch {
    /// When the lease ends, in microseconds of the machine's uptime.
    until: AtomicU64,
    /// Proof of the read, which renews the lease; `None` once a renewal failed.
    proof: ForkLock<Option<Arc<Proof>>>,
}

impl Batch {
    /// `None` if no lease is granted.
    fn leased(fs: &Mounted, proof: Proof) -> Option<Arc<Self>> {
        let batch = Self { until: AtomicU64::new(0), proof: ForkLock::default() };
        *batch.proof.lock() = Some(Arc::new(proof));
        batch.is_valid(fs).then(|| Arc::new(batch))
    }

    /// True if no entry of the batch has changed: the lease lasts, or was renewed.
    fn is_valid(&self, fs: &Mounted) -> bool {
        let now = uptime();
        let until = self.until.load(Ordering::Acquire);
        now < until || (until == 0 || now - until < TERM_MAX) && self.renew(fs, now)
    }

    /// Renews the lease, which lasts from the time `asked` before the request. An error counts as a refusal: the caller
    /// then fetches the entry, and that fetch returns the error.
    #[cold]
    fn renew(&self, fs: &Mounted, asked: u64) -> bool {
        let Some(proof) = self.proof.lock().clone() else { return false };
        let lease = fs.container().lease_reads(&proof).wait().ok().flatten();
        let (term, proof) =
            lease.map_or((Duration::ZERO, None), |(term, proof)| (term, Some(proof)));
        let is_leased = proof.is_some();
        *self.proof.lock() = proof.map(Arc::new);
        let term = u64::try_from(term.as_micros()).unwrap_or(0).min(TERM_MAX);
        self.until.fetch_max(asked.saturating_add(term), Ordering::Release);
        is_leased && uptime() < self.until.load(Ordering::Acquire)
    }
}

impl EntryCache {
    /// The inode of an entry, if it is cached.
    pub(crate) fn inode(&self, fs: &Mounted, location: &EntryLocation) -> Option<Inode> {
        let (inode, batch) = self.0.lock().inodes.get(location).cloned()?;
        if batch.is_valid(fs) {
            return Some(inode);
        }
        self.0.lock().inodes.remove(location);
        None
    }

    /// The size of the file with this object, if it is cached.
    pub(crate) fn size(&self, fs: &Mounted, oid: ObjectId) -> Option<u64> {
        let (size, batch) = self.0.lock().sizes.get(&oid).cloned()?;
        if batch.is_valid(fs) {
            return Some(size);
        }
        self.0.lock().sizes.remove(&oid);
        None
    }

    /// Caches a batch of entries, if the backend grants a lease on it.
    fn insert(&self, fs: &Mounted, read: &mut ReadEntries, proof: Proof) {
        let Some(batch) = Batch::leased(fs, proof) else { return };
        read.is_cached = true;
        let mut cached = self.0.lock();
        // Sizes of removed files stay in the cache until it is full.
        if cached.inodes.len().max(cached.sizes.len()) + read.inodes.len() > ENTRY_CACHE_MAX {
            *cached = CachedEntries::default();
        }
        let inodes = read.inodes.iter().map(|(location, inode)| {
            let (inode, batch) = (*inode, Arc::clone(&batch));
            (location.clone(), (inode, batch))
        });
        cached.inodes.extend(inodes);
        let sizes = read.sizes.iter().map(|(oid, size)| (*oid, (*size, Arc::clone(&batch))));
        cached.sizes.extend(sizes);
    }
}

/// Entries that were read, with the sizes of files among them.
#[derive(Default)]
pub(crate) struct ReadEntries {
    pub(crate) inodes: Vec<(EntryLocation, Inode)>,
    sizes: Vec<(ObjectId, u64)>,
    pub(crate) is_cached: bool,
}

/// Reads these entries of a directory. Caches them and the entries on the path to the directory, if the backend grants
/// leases on them.
///
/// # Errors
/// Errors of the backend.
pub(crate) fn read_and_lease(dir: &Node, names: &[&[u8]]) -> Result<ReadEntries> {
    let fs = dir.fs();
    if !fs.mounted().grants_leases() {
        return entries(dir, names, fs.view(), false);
    }
    let read = read_in_lease(fs, |access| entries(dir, names, access, true))?;
    if path_locations(dir)
        .iter()
        .any(|step| fs.mounted().entry_cache.inode(fs.mounted(), step).is_none())
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
    fs.mounted().entry_cache.insert(fs.mounted(), &mut read, transaction.proof()?);
    Ok(read)
}

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
