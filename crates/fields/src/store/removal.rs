//! Removal of fields: first their names, then their bytes, which no reader can find any more. In between, the catalogue
//! lists the fields, so that a purge finishes the removals of dead processes.
use super::list::MatchedIndex;
use super::location::FieldLocation;
use super::purge::Purged;
use super::{BATCH, FieldStore, all_akeys, damaged_catalogue_error, fetch_up_to, layout, put};
use crate::Key;
use crate::limits::INDEX_STRIPES_MAX;
use esker::{Access, Object, Wait, side_by_side, task};
use esker_types::ops::Cond;
use esker_types::{ObjectId, Result};
use std::collections::HashSet;

/// Arrays that are removed at a time, on backends where that is faster.
const REMOVED_MAX: usize = 64;

/// Most bytes of an entry. Earlier versions listed a batch of each stripe in one entry; this one lists one batch.
const ENTRY_BYTES_MAX: usize = INDEX_STRIPES_MAX as usize * BATCH * size_of::<u64>();

/// Numbers of the arrays that lost their names together. The first is unique to this removal and identifies it.
struct Removal(Vec<u64>);

impl Removal {
    /// The key of the entry of this removal; `None` if it removes nothing.
    fn akey(&self) -> Option<[u8; 8]> {
        Some(self.0.first()?.to_be_bytes())
    }

    /// The numbers as the entry stores them.
    fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// `None` if it is not an entry of a removal.
    fn decode(value: &[u8]) -> Option<Self> {
        let (numbers, rest) = value.as_chunks();
        let numbers = numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
        rest.is_empty().then_some(Self(numbers))
    }
}

impl FieldStore {
    /// Removes fields of an index, with their bytes.
    pub(super) fn remove(&self, matched: &MatchedIndex, found: &[(Key, &[u8])]) -> Result<()> {
        self.remove_if(matched, found, |_, _| true).map(drop)
    }

    /// Removes fields whose location passes `may_go` at the moment of removal; returns how many stay.
    pub(super) fn remove_if(
        &self,
        matched: &MatchedIndex,
        found: &[(Key, &[u8])],
        may_go: impl Fn(&Key, &[u8]) -> bool,
    ) -> Result<u64> {
        let mut stay = 0;
        for part in found.chunks(BATCH) {
            let (removal, stay_of_part) = self.remove_names(matched, part, &may_go)?;
            self.finish(&removal)?;
            stay += stay_of_part;
        }
        Ok(stay)
    }

    /// Removes the names and enters the numbers of their arrays in the catalogue, in one transaction.
    fn remove_names(
        &self,
        matched: &MatchedIndex,
        found: &[(Key, &[u8])],
        may_go: impl Fn(&Key, &[u8]) -> bool,
    ) -> Result<(Removal, u64)> {
        let akeys: Vec<&[u8]> = found.iter().map(|(_, akey)| *akey).collect();
        self.atomically(|transaction| {
            let access = Access::Tx(transaction);
            let locations = matched.database_index.fetch_many(&matched.dkey, &akeys, access)?;
            let with_location = found.iter().zip(locations);
            let with_location =
                with_location.filter_map(|((key, akey), location)| Some((key, *akey, location?)));
            let (gone, stay): (Vec<_>, Vec<_>) =
                with_location.partition(|(key, _, location)| may_go(key, location));
            // Decodes the locations before the names are removed: the bytes of an undecodable one could not be found
            // any more.
            let arrays =
                gone.iter().map(|(_, _, location)| Ok(FieldLocation::decode(location)?.array()));
            let arrays = arrays.collect::<Result<Vec<_>>>()?;
            let removal = Removal(arrays.into_iter().flatten().map(|oid| oid.lo).collect());
            let akeys: Vec<&[u8]> = gone.iter().map(|(_, akey, _)| *akey).collect();
            if !akeys.is_empty() {
                matched.database_index.punch(&matched.dkey, &akeys, access)?;
            }
            self.store_list(&removal, access)?;
            Ok((removal, stay.len() as u64))
        })
    }

    /// Stores the list of arrays to be removed in the catalogue, so that another process can finish the removal if this
    /// one dies.
    fn store_list(&self, removal: &Removal, access: Access<'_>) -> Result<()> {
        let Some(akey) = removal.akey() else { return Ok(()) };
        let value = removal.encode();
        let entry = [put(&akey, &value)];
        self.catalogue().update(layout::REMOVALS, Cond::NONE, &entry, access).wait()
    }

    /// Removes the bytes, then the entry in the catalogue.
    fn finish(&self, removal: &Removal) -> Result<()> {
        let Some(akey) = removal.akey() else { return Ok(()) };
        let array = |number: &u64| {
            layout::field(self.container(), layout::field_oid(self.container(), *number)?)
        };
        let arrays = removal.0.iter().map(array).collect::<Result<Vec<_>>>()?;
        let destroying = arrays.iter().map(|array| task(array.destroy(Access::Latest)));
        let destroyed = side_by_side(destroying.collect(), REMOVED_MAX).wait();
        destroyed.into_iter().collect::<Result<()>>()?;
        let catalogue = self.catalogue();
        catalogue.punch_akeys(layout::REMOVALS, &[&akey], Cond::NONE, Access::Latest).wait()
    }

    /// Finishes interrupted removals, or only reports them; returns the arrays of all.
    pub(super) fn finish_removals(
        &self,
        doit: bool,
        purged: &mut Purged,
    ) -> Result<HashSet<ObjectId>> {
        let (catalogue, mut arrays) = (self.catalogue(), HashSet::new());
        for akey in all_akeys(catalogue, layout::REMOVALS)? {
            let Some(removal) = fetch_removal(catalogue, &akey)? else { continue };
            for &number in &removal.0 {
                let oid = layout::field_oid(self.container(), number)?;
                let bytes = layout::field(self.container(), oid)?.size(Access::Latest).wait()?;
                purged.removed += u64::from(bytes > 0);
                purged.bytes += bytes;
                arrays.insert(oid);
            }
            if doit {
                self.finish(&removal)?;
            }
        }
        Ok(arrays)
    }

    /// Arrays that removals have not destroyed yet. Their names are gone.
    pub(super) fn arrays_being_removed(&self) -> Result<HashSet<ObjectId>> {
        let (catalogue, mut arrays) = (self.catalogue(), HashSet::new());
        for akey in all_akeys(catalogue, layout::REMOVALS)? {
            let Some(removal) = fetch_removal(catalogue, &akey)? else { continue };
            for number in removal.0 {
                arrays.insert(layout::field_oid(self.container(), number)?);
            }
        }
        Ok(arrays)
    }

    /// Removes the bytes of a field that no index names any more.
    pub(super) fn destroy(&self, oid: ObjectId) -> Result<()> {
        layout::field(self.container(), oid)?.destroy(Access::Latest).wait()
    }
}

/// The removal under an akey; `None` if another process has finished it since it was listed.
fn fetch_removal(catalogue: &Object, akey: &[u8]) -> Result<Option<Removal>> {
    let value = fetch_up_to(ENTRY_BYTES_MAX, catalogue, layout::REMOVALS, akey, Access::Latest)?;
    let Some(value) = value else { return Ok(None) };
    let removal = Removal::decode(&value)
        .filter(|removal| removal.akey().as_ref().map(|own| &own[..]) == Some(akey));
    removal.map(Some).ok_or_else(damaged_catalogue_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NewFields;
    use crate::store::purge::tests::{purge, schema, store};
    use esker::Pool;
    use esker_types::ErrorKind;
    use esker_types::info::OpenMode;

    /// A wipe of three fields that stops between removing their names and their bytes.
    fn end_between(store: &FieldStore) -> Removal {
        wipe_without_finish(store, 3).remove(0)
    }

    /// A wipe of fields of five bytes that stops between removing their names and their bytes.
    fn wipe_without_finish(store: &FieldStore, count: u32) -> Vec<Removal> {
        let mut writer = store.writer();
        for c in 0..count {
            writer.archive(&Key::parse(&format!("a=1,b=1,c={c}")).unwrap(), b"bytes").unwrap();
        }
        writer.flush().unwrap();
        drop(writer);
        assert_eq!(purge(store).unwrap(), Purged::default());
        let selection = store.everything();
        let matched = &store.matching_indexes(&selection, false).unwrap()[0];
        let mut removals = Vec::new();
        matched
            .each(&selection, |found| {
                removals.push(store.remove_names(matched, found, |_, _| true)?.0);
                Ok(())
            })
            .unwrap();
        removals
    }

    #[test]
    fn purge_finishes_an_interrupted_removal() {
        let store = store("removal-short");
        let removal = end_between(&store);
        assert_eq!(removal.0.len(), 3);
        let left = Purged { removed: 3, bytes: 15, ..Purged::default() };
        assert_eq!(store.purge(&store.everything(), false, |_| Ok(())).unwrap(), left);
        assert_eq!(purge(&store).unwrap(), left);
        assert_eq!(purge(&store).unwrap(), Purged::default());
        // A process that was slow, not dead, repeats the rest.
        store.finish(&removal).unwrap();
    }

    /// Earlier versions wrote entries of more than one batch for an index with several stripes.
    #[test]
    fn purge_finishes_an_interrupted_removal_of_several_stripes() {
        let pool = Pool::connect("memory:removal-stripes", OpenMode::ReadWrite).unwrap();
        let new = NewFields { stripes: Some(2) };
        let store = FieldStore::create_with(&pool, "fields", &schema(), new).unwrap();
        let removals = wipe_without_finish(&store, 6000);
        assert!(removals.iter().any(|removal| removal.0.len() > BATCH));
        assert_eq!(store.arrays_being_removed().unwrap().len(), 6000);
        let left = Purged { removed: 6000, bytes: 30_000, ..Purged::default() };
        assert_eq!(purge(&store).unwrap(), left);
        assert_eq!(purge(&store).unwrap(), Purged::default());
    }

    /// The bytes of a field are no longer safe once its removal has begun, even if they are still stored.
    #[test]
    fn arrays_of_an_interrupted_removal_are_found() {
        let store = store("removal-found");
        let removal = end_between(&store);
        assert_eq!(store.arrays_being_removed().unwrap().len(), removal.0.len());
        purge(&store).unwrap();
        assert!(store.arrays_being_removed().unwrap().is_empty());
    }

    #[test]
    fn unreadable_removal_entry_stops_purge() {
        let store = store("removal-damaged");
        let catalogue = store.catalogue();
        for value in [&b"short"[..], &[0; 8]] {
            let entry = [put(b"removal0", value)];
            catalogue.update(layout::REMOVALS, Cond::NONE, &entry, Access::Latest).wait().unwrap();
            assert_eq!(purge(&store).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
