//! Entry cache: entries and file sizes under a read lease, which do not change while the lease lasts.
//!
//! Entries that were read together share one lease. A lookup after its end renews it. The renewal fails if one of the
//! entries has changed.
use crate::entry::EntryLocation;
use crate::inode::Inode;
use crate::limits::ENTRY_CACHE_MAX;
use esker::types::ObjectId;
use esker::{Container, Proof, Wait};
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
    /// End of the lease, in microseconds of the machine's uptime; 0 until a lease was granted.
    until: AtomicU64,
    /// Proof of the read, which renews the lease; `None` once a renewal failed.
    proof: ForkLock<Option<Arc<Proof>>>,
}

impl Batch {
    /// Takes a lease on the entries whose reads `proof` covers; `None` if the backend does not grant it.
    fn leased(container: &Container, proof: Proof) -> Option<Arc<Self>> {
        let batch = Self { until: AtomicU64::new(0), proof: ForkLock::default() };
        *batch.proof.lock() = Some(Arc::new(proof));
        batch.is_valid(container).then(|| Arc::new(batch))
    }

    /// True if no entry of the batch has changed: the lease lasts, or was renewed.
    fn is_valid(&self, container: &Container) -> bool {
        let now = uptime();
        let until = self.until.load(Ordering::Acquire);
        now < until || (until == 0 || now - until < TERM_MAX) && self.renew(container, now)
    }

    /// Renews the lease. Its term counts from `asked`, the time before the request. An error counts as a refusal: the
    /// caller then fetches the entry, and that fetch returns the error.
    #[cold]
    fn renew(&self, container: &Container, asked: u64) -> bool {
        let Some(proof) = self.proof.lock().clone() else { return false };
        let lease = container.lease_reads(&proof).wait().ok().flatten();
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
    pub(crate) fn inode(&self, container: &Container, location: &EntryLocation) -> Option<Inode> {
        let (inode, batch) = self.0.lock().inodes.get(location).cloned()?;
        if batch.is_valid(container) {
            return Some(inode);
        }
        self.0.lock().inodes.remove(location);
        None
    }

    /// The size of the file with this object, if it is cached.
    pub(crate) fn size(&self, container: &Container, oid: ObjectId) -> Option<u64> {
        let (size, batch) = self.0.lock().sizes.get(&oid).cloned()?;
        if batch.is_valid(container) {
            return Some(size);
        }
        self.0.lock().sizes.remove(&oid);
        None
    }

    /// Caches a batch of entries, if the backend grants a lease on them, and sets `read.is_cached` then. `proof` covers
    /// their reads.
    pub(crate) fn insert(&self, container: &Container, read: &mut ReadEntries, proof: Proof) {
        let Some(batch) = Batch::leased(container, proof) else { return };
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
    pub(crate) sizes: Vec<(ObjectId, u64)>,
    pub(crate) is_cached: bool,
}
