//! Flushes that are repeated. The earlier attempt may have been committed, although it returned an error. Then others may
//! have masked its fields, and a purge or wipe may have removed them.
use super::index::DatabaseIndex;
use super::location::FieldLocation;
use super::writer::{Data, Pending, masked_akey};
use super::{FieldStore, layout};
use esker::{Access, Array, Wait};
use esker_types::limits::AKEYS_PER_OP_MAX;
use esker_types::{ObjectId, Result};

impl FieldStore {
    /// True if all arrays that a repeated flush would make current are stored, and nobody removes them.
    ///
    /// It reads the names as `access` does, and then the latest state of the arrays. If a name exists, no removal of its
    /// array has begun, and a transaction conflicts with a later one. If it does not, a removal that has begun is listed
    /// in the catalogue until the array is gone. So the list is read before the arrays.
    pub(super) fn has_arrays(&self, pending: &Pending, access: Access<'_>) -> Result<bool> {
        let mut unnamed = Vec::new();
        for (database, indexes) in pending {
            // Without an index, the earlier attempt was not committed.
            let Some(database_index) = self.index_of(database)? else { continue };
            for (index, data) in indexes {
                unnamed.extend(unnamed_arrays(&database_index, index, data, access)?);
            }
        }
        if unnamed.is_empty() {
            return Ok(true);
        }
        let removed = self.arrays_being_removed()?;
        if unnamed.iter().any(|(oid, _)| removed.contains(oid)) {
            return Ok(false);
        }
        let arrays = unnamed.iter().map(|(oid, _)| layout::field(self.container(), *oid));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let sizes = Array::sizes(&arrays, Access::Latest).wait()?;
        Ok(unnamed.iter().zip(sizes).all(|((_, bytes), size)| *bytes == size))
    }
}

/// The arrays, with their lengths, of those fields that an index names neither as current nor as masked.
fn unnamed_arrays(
    database_index: &DatabaseIndex,
    index: &str,
    data: &Data,
    access: Access<'_>,
) -> Result<Vec<(ObjectId, u64)>> {
    // Only the last of the fields with one key becomes current.
    let data: Vec<(&str, &FieldLocation)> =
        data.iter().filter_map(|(datum, all)| Some((datum.as_str(), all.last()?))).collect();
    let mut unnamed = Vec::new();
    for part in data.chunks(AKEYS_PER_OP_MAX / 2) {
        let own: Vec<Vec<u8>> = part.iter().map(|(_, location)| location.encode()).collect();
        let names: Vec<&[u8]> = part.iter().map(|(datum, _)| datum.as_bytes()).collect();
        let current = database_index.fetch_many(&layout::current(index), &names, access)?;
        let names: Vec<Vec<u8>> =
            part.iter().zip(&own).map(|((datum, _), own)| masked_akey(datum, own)).collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let masked = database_index.fetch_many(&layout::masked(index), &names, access)?;
        for ((((_, location), own), current), masked) in
            part.iter().zip(own).zip(current).zip(masked)
        {
            let is_named = current.as_ref() == Some(&own) || masked.is_some();
            let array = location.array().filter(|_| !is_named);
            unnamed.extend(array.map(|oid| (oid, location.bytes)));
        }
    }
    Ok(unnamed)
}
