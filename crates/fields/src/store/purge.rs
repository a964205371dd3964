//! Purge: frees fields that no reader can see.
use super::batch::Batch;
use super::list::Listed;
use super::{FieldLocation, FieldStore, all_akeys, damaged_catalogue_error, layout};
#[cfg(doc)]
use crate::limits::UNFLUSHED_SECONDS;
use crate::request::Selection;
use esker::{Access, Wait};
#[cfg(doc)]
use esker_types::ErrorKind;
use esker_types::{ObjectId, Result};
use std::collections::HashSet;

/// Fields that a purge removed, or would remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Masked fields: a later field has the same key.
    pub masked: u64,
    /// Fields that dead writers archived and never flushed. On pools that do not show the leases of other processes, a
    /// writer counts as dead [`UNFLUSHED_SECONDS`] after it reserved the numbers of its fields.
    pub unflushed: u64,
    /// Partly removed fields: an interrupted removal has left their data without a name.
    pub removed: u64,
    /// Bytes of all these fields in the store.
    pub bytes: u64,
}

impl FieldStore {
    /// Removes masked fields that a selection matches, and leftovers of dead writers and interrupted removals. Without
    /// `doit` it only reports what it would remove. Calls `visit` with each masked field first.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if an entry of an index cannot be read: its field would look unused, so nothing is
    /// removed. [`ErrorKind::Invalid`] if the request has a name whose values are not stored. Errors of the backend;
    /// the errors that `visit` returns.
    pub fn purge(
        &self,
        selection: &Selection,
        doit: bool,
        visit: impl FnMut(&Listed) -> Result<()>,
    ) -> Result<Purged> {
        let mut purged = self.purge_masked(selection, doit, visit)?;
        let counted = self.finish_removals(doit, &mut purged)?;
        self.sweep(doit, counted, &mut purged)?;
        Ok(purged)
    }

    /// Like [`FieldStore::purge`], but removes no leftovers: they do not depend on the selection, so of several purges,
    /// only one has to remove or count them.
    ///
    /// # Errors
    /// The errors of [`FieldStore::purge`].
    pub fn purge_masked(
        &self,
        selection: &Selection,
        doit: bool,
        mut visit: impl FnMut(&Listed) -> Result<()>,
    ) -> Result<Purged> {
        let mut purged = Purged::default();
        selection.refuse_unkept()?;
        for matched in self.matching_indexes(selection, true)? {
            matched.each(selection, |found| {
                matched.visit(found, &mut |listed| {
                    visit(&listed)?;
                    purged.masked += 1;
                    purged.bytes += listed.stored_bytes();
                    Ok(true)
                })?;
                if doit { self.remove(&matched, found) } else { Ok(()) }
            })?;
        }
        Ok(purged)
    }

    /// Counts the arrays of dead writers that no index names, and removes them if `doit`. `purged` has counted the
    /// arrays in `counted` already.
    fn sweep(&self, doit: bool, counted: HashSet<ObjectId>, purged: &mut Purged) -> Result<()> {
        // Dead writers are found before the indexes are read: a writer with a valid lease may flush in between.
        let dead = self.dead_batches(doit)?;
        if dead.is_empty() {
            return Ok(());
        }
        if doit {
            dead.iter().try_for_each(|batch| self.end_flushes(batch))?;
        }
        let mut named = self.named_arrays()?;
        named.extend(counted);
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

    /// The batches whose writers are dead, so that their fields can never be flushed.
    fn dead_batches(&self, doit: bool) -> Result<Vec<Batch>> {
        let mut dead = Vec::new();
        for akey in all_akeys(self.catalogue(), layout::WRITERS)? {
            // If the entry is gone since it was listed, another purge removed it.
            let count = super::fetch(self.catalogue(), layout::WRITERS, &akey)?;
            let Some(count) = count else { continue };
            let batch = Batch::parse(akey, &count).ok_or_else(damaged_catalogue_error)?;
            if self.is_dead(&batch, doit)? {
                dead.push(batch);
            }
        }
        Ok(dead)
    }

    /// Arrays that any index names, masked or not.
    fn named_arrays(&self) -> Result<HashSet<ObjectId>> {
        let mut named = HashSet::new();
        for masked in [false, true] {
            self.visit(&self.everything(), masked, |listed| {
                named.extend(FieldLocation::array(&listed.location));
                Ok(true)
            })?;
        }
        Ok(named)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::store::{put, writer::FieldWriter};
    use crate::{Key, Schema};
    use esker::Object;
    use esker::Pool;
    use esker_types::ErrorKind;
    use esker_types::info::OpenMode;
    use esker_types::ops::Cond;

    /// A new store in memory.
    pub(in crate::store) fn store(name: &str) -> FieldStore {
        let name = format!("memory:{name}");
        let pool = Pool::connect(&name, OpenMode::ReadWrite).unwrap();
        FieldStore::create(&pool, "fields", &schema()).unwrap()
    }

    pub(in crate::store) fn schema() -> Schema {
        Schema::parse("[a [b [c]]]", "test").unwrap()
    }

    fn key(c: u32) -> Key {
        Key::parse(&format!("a=1,b=1,c={c}")).unwrap()
    }

    /// A field that is flushed, and one that never is.
    fn fill(store: &FieldStore) {
        let mut writer: FieldWriter = store.writer();
        writer.archive(&key(0), b"kept").unwrap();
        writer.flush().unwrap();
        writer.archive(&key(1), b"lost").unwrap();
    }

    fn index(store: &FieldStore) -> Object {
        store.index_of("a=1").unwrap().unwrap().stripe(0).unwrap().clone()
    }

    fn write(object: &Object, dkey: &[u8], akey: &[u8], value: &[u8]) {
        object.update(dkey, Cond::NONE, &[put(akey, value)], Access::Latest).wait().unwrap();
    }

    pub(in crate::store) fn purge(store: &FieldStore) -> Result<Purged> {
        store.purge(&store.everything(), true, |_| Ok(()))
    }

    /// A purge fails at an entry that cannot be read, and removes nothing.
    #[test]
    fn unreadable_index_entry_stops_purge() {
        let store = store("purge-damaged");
        fill(&store);
        let current = layout::current("b=1");
        let location = super::super::fetch(&index(&store), &current, b"c=0").unwrap().unwrap();
        let damage: [(&[u8], &[u8], &[u8]); 8] = [
            (&current, b"c=\xff", &location),
            (&current, b"c", &location),
            (&current, b"c=0,c=1,d", &location),
            (&current, b"c=2", b"\x01no location"),
            (b"mb=1", b"short", &location),
            (b"i\xff", b"c=2", &location),
            (b"ib", b"c=2", &location),
            (b"new", b"c=2", &location),
        ];
        for (dkey, akey, value) in damage {
            let object = index(&store);
            write(&object, dkey, akey, value);
            let refused = purge(&store).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{akey:?}");
            assert!(store.field(&key(0)).unwrap().read().is_ok());
            object.punch_akeys(dkey, &[akey], Cond::NONE, Access::Latest).wait().unwrap();
        }
        assert_eq!(purge(&store).unwrap().unflushed, 1);
        assert_eq!(store.field(&key(0)).unwrap().read().unwrap(), b"kept");
    }

    #[test]
    fn one_of_several_purges_counts_leftovers() {
        let store = store("purge-several");
        fill(&store);
        let all = store.everything();
        let masked = store.purge_masked(&all, false, |_| Ok(())).unwrap();
        let whole = store.purge(&all, false, |_| Ok(())).unwrap();
        assert_eq!((masked.unflushed, whole.unflushed), (0, 1));
    }

    #[test]
    fn unreadable_catalogue_stops_purge() {
        let store = store("purge-catalogue");
        fill(&store);
        let catalogue = store.catalogue();
        let damage: [(&[u8], &[u8], &[u8]); 5] = [
            (layout::DATABASES, b"a=\xff", &[0; 16]),
            (layout::DATABASES, b"no key", &[0; 16]),
            (layout::DATABASES, b"a=2", b"short"),
            (layout::WRITERS, b"short", &[0; 8]),
            (layout::WRITERS, &[9; 8], &u64::MAX.to_le_bytes()),
        ];
        for (dkey, akey, value) in damage {
            write(catalogue, dkey, akey, value);
            assert_eq!(purge(&store).unwrap_err().kind(), ErrorKind::Corrupt, "{akey:?}");
            catalogue.punch_akeys(dkey, &[akey], Cond::NONE, Access::Latest).wait().unwrap();
        }
        assert_eq!(purge(&store).unwrap().unflushed, 1);
        assert_eq!(store.field(&key(0)).unwrap().read().unwrap(), b"kept");
    }
}
