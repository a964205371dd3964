//! Entries, and sizes of files, that this process need not ask for: a read lease keeps them from changing.
//!
//! Entries that are read together have one lease. It is renewed when one of them is needed after it has ended, and lost
//! when one of them has changed.
use crate::attr;
use crate::entry::{self, EntryLocation};
use crate::inode::{Inode, Kind};
use crate::limits::{KEPT_MAX, STEPS_MAX};
use crate::mount::{Dfs, Mounted};
use crate::node::Node;
use esker::types::{ObjectId, Result};
use esker::{Access, Array, Proof, Wait, side_by_side, task};
use esker_os::{ForkLock, uptime};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest term of a lease that is believed, and time after its end in which it is renewed, in microseconds: a node that was
/// away for longer may have lost what it had promised about.
const TERM_MAX: u64 = 1_000_000;

/// What this process keeps.
#[derive(Default)]
pub(crate) struct Kept(ForkLock<Entries>);

#[derive(Default)]
struct Entries {
    inodes: HashMap<EntryLocation, (Inode, Arc<Batch>)>,
    sizes: HashMap<ObjectId, (u64, Arc<Batch>)>,
}

/// What was read together.
struct Batch {
    /// When the lease ends, in microseconds of the machine's uptime.
    until: AtomicU64,
    /// What renews it; `None` once it is lost.
    proof: ForkLock<Option<Arc<Proof>>>,
}

impl Batch {
    /// `None` if no lease is granted.
    fn leased(fs: &Mounted, proof: Proof) -> Option<Arc<Self>> {
        let batch = Self { until: AtomicU64::new(0), proof: ForkLock::default() };
        *batch.proof.lock() = Some(Arc::new(proof));
        batch.holds(fs).then(|| Arc::new(batch))
    }

    /// True if nothing of it has changed.
    fn holds(&self, fs: &Mounted) -> bool {
        let now = uptime();
        let until = self.until.load(Ordering::Acquire);
        now < until || (until == 0 || now - until < TERM_MAX) && self.renew(fs, now)
    }

    /// A lease lasts from before it was asked for. An error is none: what is not kept is asked for, and then fails as it
    /// should.
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

impl Kept {
    /// The inode of an entry, if it is kept.
    pub(crate) fn inode(&self, fs: &Mounted, place: &EntryLocation) -> Option<Inode> {
        let (inode, batch) = self.0.lock().inodes.get(place).cloned()?;
        if batch.holds(fs) {
            return Some(inode);
        }
        self.0.lock().inodes.remove(place);
        None
    }

    /// The size of the file with this object, if it is kept.
    pub(crate) fn size(&self, fs: &Mounted, oid: ObjectId) -> Option<u64> {
        let (size, batch) = self.0.lock().sizes.get(&oid).cloned()?;
        if batch.holds(fs) {
            return Some(size);
        }
        self.0.lock().sizes.remove(&oid);
        None
    }

    /// Keeps what was read, if a lease on it is granted.
    fn keep(&self, fs: &Mounted, read: &mut Read, proof: Proof) {
        let Some(batch) = Batch::leased(fs, proof) else { return };
        read.is_kept = true;
        let mut kept = self.0.lock();
        // Files that have gone leave their sizes behind.
        if kept.inodes.len().max(kept.sizes.len()) + read.inodes.len() > KEPT_MAX {
            *kept = Entries::default();
        }
        let inodes = read.inodes.iter().map(|(place, inode)| {
            let (inode, batch) = (*inode, Arc::clone(&batch));
            (place.clone(), (inode, batch))
        });
        kept.inodes.extend(inodes);
        let sizes = read.sizes.iter().map(|(oid, size)| (*oid, (*size, Arc::clone(&batch))));
        kept.sizes.extend(sizes);
    }
}

/// Entries as they are.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) inodes: Vec<(EntryLocation, Inode)>,
    sizes: Vec<(ObjectId, u64)>,
    pub(crate) is_kept: bool,
}

/// Reads these entries of a directory, and keeps them and the steps to it, as far as leases on them are granted.
///
/// # Errors
/// Errors of the backend.
pub(crate) fn read(dir: &Node, names: &[&[u8]]) -> Result<Read> {
    let fs = dir.fs();
    if !fs.mounted().grants_leases() {
        return entries(dir, names, fs.view(), false);
    }
    let read = reading(fs, |access| entries(dir, names, access, true))?;
    if steps_to(dir).iter().any(|step| fs.mounted().kept.inode(fs.mounted(), step).is_none()) {
        reading(fs, |access| steps(dir, access))?;
    }
    Ok(read)
}

/// Reads something in a transaction, and keeps it if a lease on it is granted.
fn reading(fs: &Dfs, read: impl FnOnce(Access<'_>) -> Result<Read>) -> Result<Read> {
    let transaction = fs.container().transaction_read_only()?;
    let mut read = read(Access::Tx(&transaction))?;
    fs.mounted().kept.keep(fs.mounted(), &mut read, transaction.proof()?);
    Ok(read)
}

fn entries(dir: &Node, names: &[&[u8]], access: Access<'_>, with_sizes: bool) -> Result<Read> {
    let inodes = entry::fetch_all(&dir.directory()?, names, access).wait()?;
    let place = |name: &&[u8]| EntryLocation { dir: dir.oid(), name: (*name).into() };
    let inodes: Vec<_> = std::iter::zip(names, inodes)
        .filter_map(|(name, inode)| Some((place(name), inode?)))
        .collect();
    let sizes = if with_sizes { sizes(dir.fs(), &inodes, access)? } else { Vec::new() };
    Ok(Read { inodes, sizes, is_kept: false })
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

/// Where the entries stand that lead to a directory.
fn steps_to(dir: &Node) -> Vec<EntryLocation> {
    let below_root = |node: &&Node| node.parent().is_some();
    std::iter::successors(Some(dir), |node| node.parent())
        .take_while(below_root)
        .map(Node::place)
        .collect()
}

fn steps(dir: &Node, access: Access<'_>) -> Result<Read> {
    let fs = dir.fs();
    let places = steps_to(dir);
    let asked = places.iter().map(|place| task(place.inode(fs.container(), access)));
    let found = side_by_side(asked.collect(), STEPS_MAX).wait();
    let inodes = found.into_iter().collect::<Result<Vec<_>>>()?;
    let inodes = std::iter::zip(places, inodes).filter_map(|(place, inode)| Some((place, inode?)));
    Ok(Read { inodes: inodes.collect(), ..Read::default() })
}
