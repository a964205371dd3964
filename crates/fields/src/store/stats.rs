//! Counts of the fields of a store.
use super::FieldStore;
use crate::Key;
use crate::request::Selection;
use esker_types::Result;

/// Counts of the fields of a selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Databases with a field.
    pub databases: u64,
    /// Indexes with a field.
    pub indexes: u64,
    /// Fields that readers see.
    pub fields: u64,
    /// Bytes of these fields in the store.
    pub bytes: u64,
    /// Fields in adopted files.
    pub adopted: u64,
    /// Bytes of these fields.
    pub adopted_bytes: u64,
    /// Masked fields: a later field has the same key.
    pub masked: u64,
    /// Bytes of these fields in the store.
    pub masked_bytes: u64,
}

/// An index with the number and bytes of its fields, adopted ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Key of its database.
    pub database: Key,
    /// Its own key.
    pub index: Key,
    /// Fields in it.
    pub fields: u64,
    /// Bytes of these fields.
    pub bytes: u64,
}

impl FieldStore {
    /// Each database with the number and bytes of its fields in a selection, adopted ones included.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn by_database(&self, selection: &Selection) -> Result<Vec<(Key, u64, u64)>> {
        let mut rows: Vec<(Key, u64, u64)> = Vec::new();
        for Counted { database, fields, bytes, .. } in self.by_index(selection)? {
            match rows.last_mut().filter(|row| row.0 == database) {
                Some(row) => (row.1, row.2) = (row.1 + fields, row.2 + bytes),
                None => rows.push((database, fields, bytes)),
            }
        }
        Ok(rows)
    }

    /// The indexes with fields of a selection, sorted by database.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn by_index(&self, selection: &Selection) -> Result<Vec<Counted>> {
        let mut rows = Vec::new();
        for matched in self.matching_indexes(selection, false)? {
            let (mut fields, mut bytes) = (0, 0);
            matched.visit_all(selection, &mut |listed| {
                (fields, bytes) = (fields + 1, bytes + listed.location.bytes);
                Ok(true)
            })?;
            if fields > 0 {
                let index = matched.index()?;
                rows.push(Counted { database: matched.database, index, fields, bytes });
            }
        }
        Ok(rows)
    }

    /// Counts the fields of a selection.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn stats(&self, selection: &Selection) -> Result<Stats> {
        let mut stats = Stats::default();
        let mut last = None;
        for matched in self.matching_indexes(selection, false)? {
            let before = stats.fields;
            matched.visit_all(selection, &mut |listed| {
                stats.fields += 1;
                stats.bytes += listed.stored_bytes();
                if listed.location.array().is_none() {
                    stats.adopted += 1;
                    stats.adopted_bytes += listed.location.bytes;
                }
                Ok(true)
            })?;
            if stats.fields > before {
                stats.indexes += 1;
                stats.databases += u64::from(last.as_ref() != Some(&matched.database));
                last = Some(matched.database);
            }
        }
        self.visit(selection, true, |listed| {
            stats.masked += 1;
            stats.masked_bytes += listed.stored_bytes();
            Ok(true)
        })?;
        Ok(stats)
    }
}
