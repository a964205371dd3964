//! Leases on objects of new files, taken before any entry leads to them, where replies take a while.
//!
//! Who creates a file and opens it would wait for the entry, then for a lease, and then for a look whether the entry still
//! stands. But an object that nobody knows yet can be leased at any time: several at a time, and the file cannot lose its
//! content from its first moment on.
use crate::attr::object_type;
use crate::inode::Kind;
use crate::limits::FRESH_MAX;
use crate::mount::Dfs;
use esker::types::{ObjectClass, Result};
use esker::{Lease, Wait};
use esker_os::ForkLock;
use std::collections::HashMap;

/// Leases on objects that no entry leads to. A forked child begins with none.
#[derive(Default)]
pub(crate) struct Fresh(ForkLock<HashMap<Option<ObjectClass>, Leases>>);

#[derive(Default)]
struct Leases {
    free: Vec<Lease>,
    taken_last: usize,
}

impl Fresh {
    /// A lease on a new object for a file of this class; `None` where a lease takes no time.
    pub(crate) fn next(&self, fs: &Dfs, class: Option<ObjectClass>) -> Result<Option<Lease>> {
        if !fs.mounted().is_slow() {
            return Ok(None);
        }
        let count = {
            let mut all = self.0.lock();
            let leases = all.entry(class).or_default();
            if let Some(lease) = leases.free.pop() {
                return Ok(Some(lease));
            }
            // Twice as many each time: most processes create one file.
            leases.taken_last = (leases.taken_last * 2).clamp(1, FRESH_MAX);
            leases.taken_last
        };
        // The lock is free while the leases are taken.
        let mut taken = take(fs, class, count)?;
        let lease = taken.pop();
        self.0.lock().entry(class).or_default().free.append(&mut taken);
        Ok(lease)
    }

    /// Keeps a lease for another file, because certainly no entry was made.
    pub(crate) fn give_back(&self, class: Option<ObjectClass>, lease: Lease) {
        self.0.lock().entry(class).or_default().free.push(lease);
    }
}

fn take(fs: &Dfs, class: Option<ObjectClass>, count: usize) -> Result<Vec<Lease>> {
    let (mounted, container) = (fs.mounted(), fs.container());
    let oid = |_| mounted.oids.next(container, object_type(Kind::File), class);
    let oids = (0..count).map(oid).collect::<Result<Vec<_>>>()?;
    container.lease_each(&oids).wait()
}

impl Drop for Fresh {
    /// All at a time: one after the other would take a while.
    fn drop(&mut self) {
        let unused = self.0.lock().drain().flat_map(|(_, leases)| leases.free).collect();
        // An error is nobody's concern: leases end with their connection.
        let _ = Lease::release_each(unused).wait();
    }
}
