//! Counting what a store holds.
use super::FieldStore;
use crate::Key;
use crate::request::Selection;
use esker_types::Result;

/// What the fields of a selection come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Databases that have a field.
    pub databases: u64,
    /// Indexes that have one.
    pub indexes: u64,
    /// Fields readers see.
    pub fields: u64,
    /// Bytes of those in the store.
    pub bytes: u64,
    /// Fields that stay in files which are not the store's.
    pub adopted: u64,
    /// Bytes of those.
    pub adopted_bytes: u64,
    /// Fields that later ones mask.
    pub masked: u64,
    /// Bytes of those in the store.
    pub masked_bytes: u64,
}

impl FieldStore {
    /// Each database with its fields of a selection: how many, and their bytes, adopted ones among them.
    ///
    /// # Errors
    /// What the backend meets.
    pub fn by_database(&self, selection: &Selection) -> Result<Vec<(Key, u64, u64)>> {
        let mut rows: Vec<(Key, u64, u64)> = Vec::new();
        for level in self.levels(selection, false)? {
            let (mut fields, mut bytes) = (0, 0);
            level.visit_all(selection, &mut |listed| {
                (fields, bytes) = (fields + 1, bytes + listed.place.bytes);
                Ok(true)
            })?;
            match rows.last_mut().filter(|row| row.0 == level.database) {
                Some(row) => (row.1, row.2) = (row.1 + fields, row.2 + bytes),
                None if fields > 0 => rows.push((level.database, fields, bytes)),
                None => {}
            }
        }
        Ok(rows)
    }

    /// Counts the fields of a selection.
    ///
    /// # Errors
    /// What the backend meets.
    pub fn stats(&self, selection: &Selection) -> Result<Stats> {
        let mut stats = Stats::default();
        let mut last = None;
        for level in self.levels(selection, false)? {
            let before = stats.fields;
            level.visit_all(selection, &mut |listed| {
                stats.fields += 1;
                stats.bytes += listed.stored_bytes();
                if listed.place.array().is_none() {
                    stats.adopted += 1;
                    stats.adopted_bytes += listed.place.bytes;
                }
                Ok(true)
            })?;
            if stats.fields > before {
                stats.indexes += 1;
                stats.databases += u64::from(last.as_ref() != Some(&level.database));
                last = Some(level.database);
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
