//! Purging: giving back what no reader can see.
use super::list::Listed;
use super::{FieldStore, Place, all_akeys, layout};
use crate::request::Selection;
use esker::{Access, Object, Wait};
use esker_types::ops::Cond;
use esker_types::{ObjectId, Result};
use std::collections::HashSet;

/// What a purge removed, or would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Fields that later ones mask.
    pub masked: u64,
    /// Fields that were archived and never flushed, by writers that are gone.
    pub unflushed: u64,
    /// Bytes of both in the store.
    pub bytes: u64,
}

/// Numbers of fields that a writer took.
struct Batch {
    akey: Vec<u8>,
    first: u64,
    count: u64,
}

impl FieldStore {
    /// Removes masked fields that a selection matches, and what writers left that are gone. Without `doit`
    /// it only says what would go. `visit` hears of each masked field first.
    ///
    /// # Errors
    /// What the backend meets; what `visit` returns.
    pub fn purge(
        &self,
        selection: &Selection,
        doit: bool,
        mut visit: impl FnMut(&Listed) -> Result<()>,
    ) -> Result<Purged> {
        let mut purged = Purged::default();
        for level in self.levels(selection, true)? {
            level.each(selection, |found| {
                level.visit(found, &mut |listed| {
                    visit(&listed)?;
                    purged.masked += 1;
                    purged.bytes += listed.stored_bytes();
                    Ok(true)
                })?;
                if doit { self.remove(&level, found) } else { Ok(()) }
            })?;
        }
        self.sweep(doit, &mut purged)?;
        Ok(purged)
    }

    /// Finds the arrays of dead writers that no index names.
    fn sweep(&self, doit: bool, purged: &mut Purged) -> Result<()> {
        // Looked for before the index is read: whoever held one then may have flushed since.
        let dead = self.dead_batches()?;
        if dead.is_empty() {
            return Ok(());
        }
        let named = self.named_arrays()?;
        for batch in dead {
            for number in batch.first..batch.first + batch.count {
                let oid = layout::field_oid(self.container(), number)?;
                let bytes = match named.contains(&oid) {
                    true => 0,
                    false => layout::field(self.container(), oid)?.size(Access::Latest).wait()?,
                };
                if bytes > 0 {
                    purged.unflushed += 1;
                    purged.bytes += bytes;
                    if doit {
                        self.destroy(oid)?;
                    }
                }
            }
            if doit {
                self.forget(&batch)?;
            }
        }
        Ok(())
    }

    fn dead_batches(&self) -> Result<Vec<Batch>> {
        let mut dead = Vec::new();
        for akey in all_akeys(self.catalogue(), layout::WRITERS)? {
            let count = super::fetch(self.catalogue(), layout::WRITERS, &akey)?;
            let numbers =
                <[u8; 8]>::try_from(&akey[..]).ok().zip(count.and_then(|n| n.try_into().ok()));
            let Some((first, count)) = numbers else { continue };
            let (first, count) = (u64::from_be_bytes(first), u64::from_le_bytes(count));
            if !is_held(&layout::marker(self.container(), first)?)? {
                dead.push(Batch { akey, first, count });
            }
        }
        Ok(dead)
    }

    fn forget(&self, batch: &Batch) -> Result<()> {
        let catalogue = self.catalogue();
        catalogue.punch_akeys(layout::WRITERS, &[&batch.akey], Cond::NONE, Access::Latest).wait()
    }

    /// Arrays that any index names, masked or not.
    fn named_arrays(&self) -> Result<HashSet<ObjectId>> {
        let mut named = HashSet::new();
        for masked in [false, true] {
            self.visit(&self.everything(), masked, |listed| {
                named.extend(Place::array(&listed.place));
                Ok(true)
            })?;
        }
        Ok(named)
    }
}

/// To doom what somebody holds tells so, and does no more: a marker is no object.
fn is_held(marker: &Object) -> Result<bool> {
    marker.doom().wait()
}
