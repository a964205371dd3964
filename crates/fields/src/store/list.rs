//! Listing fields.
use super::FieldStore;
use super::index::DatabaseIndex;
use super::layout::{self, Dkey};
use super::location::FieldLocation;
use crate::request::Selection;
use crate::schema::{self, Presence};
use crate::{Axes, Key, Schema};
use esker::Access;
use esker_types::{Error, ErrorKind, Result};

/// A field of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its complete key: database, index, datum.
    pub key: Key,
    /// The location of its bytes.
    pub location: FieldLocation,
}

/// An index that a selection matches: the fields of a database whose keys share the part of the index, either the current
/// or the masked ones.
pub(super) struct MatchedIndex {
    schema: Schema,
    /// The objects with the names of all fields of the database.
    pub(super) database_index: DatabaseIndex,
    /// Key of the database, and of database and index together.
    pub(super) database: Key,
    key: Key,
    /// The dkey of its fields in the objects of the database.
    pub(super) dkey: Vec<u8>,
    /// It has the masked fields.
    masked: bool,
}

impl FieldStore {
    /// Calls `visit` with every field that a selection matches, until it returns `false`: the latest of each key, or
    /// with `masked` the older ones. Sorted by key within each index.
    ///
    /// Not a consistent view: fields that are flushed meanwhile may be among them. [`FieldStore::list`] gives a
    /// consistent one.
    ///
    /// # Errors
    /// Errors of the backend and of `visit`.
    pub fn visit(
        &self,
        selection: &Selection,
        masked: bool,
        mut visit: impl FnMut(Listed) -> Result<bool>,
    ) -> Result<()> {
        for matched in self.matching_indexes(selection, masked)? {
            if !matched.visit_all(selection, &mut visit)? {
                break;
            }
        }
        Ok(())
    }

    /// The values that the fields of a selection have, by name.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn axes(&self, selection: &Selection) -> Result<Axes> {
        let mut axes = Axes::new(self.schema());
        for matched in self.matching_indexes(selection, false)? {
            matched.each(selection, |found| {
                found.iter().for_each(|(key, _)| axes.add(key));
                Ok(())
            })?;
        }
        Ok(axes)
    }

    /// The values that the fields of a selection have, by name. If a field lacks a name that the innermost level of its
    /// rule allows, the name also gets the empty value, as in FDB.
    ///
    /// # Errors
    /// Errors of the backend and of [`Schema::split`].
    pub fn axes_with_empty(&self, selection: &Selection) -> Result<Axes> {
        let mut axes = Axes::new(self.schema());
        for matched in self.matching_indexes(selection, false)? {
            matched.each(selection, |found| {
                found.iter().try_for_each(|(key, _)| self.add_with_empty(&mut axes, key))
            })?;
        }
        Ok(axes)
    }

    /// Adds the values of `key`, and the empty value for each optional part that it lacks.
    fn add_with_empty(&self, axes: &mut Axes, key: &Key) -> Result<()> {
        axes.add(key);
        let split = self.schema().split(key)?;
        let parts = self.schema().rules()[split.rule].level(schema::Level::Datum).iter();
        let lacking = parts.filter(|part| *part.presence() == Presence::Optional);
        for part in lacking.filter(|part| key.get(part.name()).is_none()) {
            axes.add_value(part.name(), "");
        }
        Ok(())
    }

    /// The indexes of all databases that a selection matches, sorted by their keys. They hold masked fields if `masked`,
    /// else current fields.
    pub(super) fn matching_indexes(
        &self,
        selection: &Selection,
        masked: bool,
    ) -> Result<Vec<MatchedIndex>> {
        let mut found = Vec::new();
        for database in self.databases()? {
            let key = database_key(&database)?;
            if !selection.may_match(&key) {
                continue;
            }
            if let Some(database_index) = self.index_of(&database)? {
                found.extend(matching_indexes_of(&database_index, &key, selection, masked)?);
            }
        }
        found.sort_by(|a, b| (&a.database, &a.key).cmp(&(&b.database, &b.key)));
        Ok(found)
    }
}

/// The indexes of one database that a selection matches. Fails if an entry of the database is not readable.
pub(super) fn matching_indexes_of(
    database_index: &DatabaseIndex,
    database: &Key,
    selection: &Selection,
    masked: bool,
) -> Result<Vec<MatchedIndex>> {
    let mut found = Vec::new();
    for dkey in database_index.dkeys()? {
        let index = match Dkey::parse(&dkey) {
            Some(Dkey::Current(index)) if !masked => index,
            Some(Dkey::Masked(index)) if masked => index,
            Some(_) => continue,
            None => return Err(unreadable_entry_error(database, &dkey)),
        };
        let schema = selection.schema().clone();
        let key = joined(&schema, database, index)
            .map_err(|_| unreadable_entry_error(database, &dkey))?;
        if selection.may_match(&key) {
            let (database_index, database) = (database_index.clone(), database.clone());
            found.push(MatchedIndex { schema, database_index, database, key, dkey, masked });
        }
    }
    Ok(found)
}

/// The complete key of a key and of pairs of the level inside.
pub(super) fn joined(schema: &Schema, key: &Key, more: &str) -> Result<Key> {
    let comma = if key.is_empty() || more.is_empty() { "" } else { "," };
    match Key::spelt(format!("{key}{comma}{more}")) {
        Some(key) => Ok(key),
        None if more.is_empty() => Ok(key.clone()),
        None => schema.whole(&[key, &Key::parse(more)?]),
    }
}

/// The key of a database, by its name in the catalogue.
pub(super) fn database_key(name: &str) -> Result<Key> {
    Key::parse(name).map_err(|_| {
        let text = format!("the catalogue of the field store names {name:?}, which is not a key");
        Error::new(ErrorKind::Corrupt, format!("{text}: {REMEDY}"))
    })
}

/// Advice for entries that cannot be read.
const REMEDY: &str =
    "it was left as it is; run `esker pool check`, and `esker object` to look at it";

/// The error for an entry of an index that cannot be read: it must not count as missing.
fn unreadable_entry_error(database: &Key, entry: &[u8]) -> Error {
    let entry = entry.escape_ascii();
    let text = format!("the index of {database} has an entry that cannot be read, \"{entry}\"");
    Error::new(ErrorKind::Corrupt, format!("{text}: {REMEDY}"))
}

impl MatchedIndex {
    /// Calls `visit` with batches of complete keys that a selection matches, each with its akey.
    pub(super) fn each(
        &self,
        selection: &Selection,
        mut visit: impl FnMut(&[(Key, &[u8])]) -> Result<()>,
    ) -> Result<()> {
        self.database_index.each_akey(&self.dkey, |batch| {
            let mut found = Vec::new();
            for &akey in batch {
                let key =
                    self.whole(akey).ok_or_else(|| unreadable_entry_error(&self.key, akey))?;
                if selection.matches(&key) {
                    found.push((key, akey));
                }
            }
            visit(&found)
        })
    }

    /// Calls `visit` with the index and batches of the data in it.
    pub(super) fn each_datum(
        &self,
        mut visit: impl FnMut(&str, &mut dyn Iterator<Item = &str>) -> Result<()>,
    ) -> Result<()> {
        let index = std::str::from_utf8(&self.dkey[1..]).unwrap_or_default();
        self.database_index.each_akey(&self.dkey, |batch| {
            let data = batch.iter().map(|akey| {
                self.datum(akey).ok_or_else(|| unreadable_entry_error(&self.key, akey))
            });
            let data = data.collect::<Result<Vec<_>>>()?;
            visit(index, &mut data.into_iter())
        })
    }

    /// The key of the index in its database.
    pub(super) fn index(&self) -> Result<Key> {
        let index = std::str::from_utf8(&self.dkey[1..]).unwrap_or_default();
        Key::parse(index).map_err(|_| unreadable_entry_error(&self.database, &self.dkey))
    }

    /// The complete key of the field under an akey; `None` if the akey is damaged.
    fn whole(&self, akey: &[u8]) -> Option<Key> {
        joined(&self.schema, &self.key, self.datum(akey)?).ok()
    }

    /// Calls `visit` with each field that a selection matches; returns false if `visit` stopped.
    pub(super) fn visit_all(
        &self,
        selection: &Selection,
        visit: &mut impl FnMut(Listed) -> Result<bool>,
    ) -> Result<bool> {
        let mut more = true;
        self.each(selection, |found| {
            more = more && self.visit(found, visit)?;
            Ok(())
        })?;
        Ok(more)
    }

    /// The datum in an akey; `None` if it is damaged.
    fn datum<'a>(&self, akey: &'a [u8]) -> Option<&'a str> {
        match self.masked {
            true => layout::masked_datum(akey),
            false => std::str::from_utf8(akey).ok(),
        }
    }

    /// Fetches the locations under akeys and passes them to `visit`; returns false if `visit` stopped.
    pub(super) fn visit(
        &self,
        found: &[(Key, &[u8])],
        visit: &mut impl FnMut(Listed) -> Result<bool>,
    ) -> Result<bool> {
        let names: Vec<&[u8]> = found.iter().map(|(_, akey)| *akey).collect();
        let locations = self.database_index.fetch_many(&self.dkey, &names, Access::Latest)?;
        for ((key, _), location) in found.iter().zip(locations) {
            // Removed since it was listed.
            let Some(location) = location else { continue };
            if !visit(Listed { key: key.clone(), location: FieldLocation::decode(&location)? })? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
