//! Names that the fields of an index have. They decide whether look-ups by key find all fields that a request selects.
use super::index::DatabaseIndex;
use super::list::{database_key, joined, matching_indexes_of};
use super::log::{self, Flushed, Marks};
use super::{FieldStore, retrieve::ByIndex};
use crate::Key;
use crate::request::Selection;
use esker::Access;
use esker_types::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The names of the fields of a database, and the state of its logs when they were read.
#[derive(Clone, Default)]
pub(super) struct Names {
    marks: Marks,
    /// For each index: the sets of names that the data of its fields have.
    indexes: Arc<BTreeMap<String, BTreeSet<Vec<String>>>>,
}

impl Names {
    /// Adds the names that data of an index have.
    fn add<'a>(&mut self, index: &str, data: impl Iterator<Item = &'a str>) {
        for datum in data {
            let names = crate::key::pairs(datum).map(|(name, _)| name);
            let known = self.indexes.get(index);
            if known.is_some_and(|known| known.iter().any(|one| names.clone().eq(one.iter()))) {
                continue;
            }
            let indexes = Arc::make_mut(&mut self.indexes);
            let names = names.map(str::to_owned).collect();
            indexes.entry(index.to_owned()).or_default().insert(names);
        }
    }

    /// Adds the names of all indexes and data that a flush has written.
    fn add_flushed(&mut self, flushed: &Flushed) {
        for (index, data) in flushed {
            self.add(index, data.iter().map(String::as_str));
        }
    }
}

impl FieldStore {
    /// Whether a selection may match fields besides those of the keys that it lists, with a name that it omits. Names
    /// whose last field was removed still count.
    pub(super) fn has_more(&self, selection: &Selection, wanted: &ByIndex) -> Result<bool> {
        for name in self.databases()? {
            let database = database_key(&name)?;
            if !selection.may_match(&database) {
                continue;
            }
            let Some(database_index) = self.index_of(&name)? else { continue };
            let names = self.names_of(&name, &database, &database_index)?;
            for (index, sets) in names.indexes.iter() {
                let here = wanted.contains_key(&(name.clone(), index.clone()));
                let listed = |name: &String| selection.values(name).is_some();
                // An index in which keys are looked up has further fields only with names that the request omits.
                let open = !here || !sets.iter().all(|set| set.iter().all(listed));
                if open && may_match(selection, &database, index, sets)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The names of a database. They are listed once, then updated from its logs.
    fn names_of(
        &self,
        name: &str,
        database: &Key,
        database_index: &DatabaseIndex,
    ) -> Result<Names> {
        // Read before the fields, so that a flush in between is noticed.
        let marks = log::marks(database_index, Access::Latest)?;
        let known = self.names().get(name).cloned();
        let mut names = match known {
            Some(known) if known.marks == marks => return Ok(known),
            known => known.unwrap_or_default(),
        };
        // Without marks, the names were never listed.
        let none = names.marks.is_empty();
        match log::since(database_index, &names.marks, &marks)?.filter(|_| !none) {
            Some(flushed) => names.add_flushed(&flushed),
            None => {
                for matched in
                    matching_indexes_of(database_index, database, &self.everything(), false)?
                {
                    matched.each_datum(|index, data| {
                        names.add(index, data);
                        Ok(())
                    })?;
                }
            }
        }
        names.marks = marks;
        self.names().insert(name.to_owned(), names.clone());
        Ok(names)
    }
}

/// Whether a selection may match fields of an index whose data have some of these names.
fn may_match(
    selection: &Selection,
    database: &Key,
    index: &str,
    sets: &BTreeSet<Vec<String>>,
) -> Result<bool> {
    let key = joined(selection.schema(), database, index)?;
    let has = |set: &[String], name: &str| {
        key.get(name).is_some() || set.iter().any(|known| known == name)
    };
    let all = |set: &Vec<String>| selection.demanded_names().all(|name| has(set, name));
    Ok(selection.may_match(&key) && sets.iter().any(all))
}
