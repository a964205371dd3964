//! Consistent reads over several indexes. The logs name the fields that were flushed during a read; these are read
//! again.
use super::index::DatabaseIndex;
use super::list::{Listed, database_key, joined, matching_indexes_of};
use super::location::FieldLocation;
use super::log::{self, Flushed, Marks};
use super::{BATCH, FieldStore, layout};
use crate::Key;
use crate::limits::RESTARTS_MAX;
use crate::request::Selection;
use esker::Access;
use esker_types::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap};

/// The state of the logs of databases at one moment.
pub(super) type Logs = BTreeMap<String, Marks>;

impl FieldStore {
    /// The state of the logs of these databases, all at one moment.
    pub(super) fn logs(&self, wanted: impl Fn(&str) -> bool) -> Result<Logs> {
        self.atomically(|transaction| {
            let access = Access::Tx(transaction);
            let mut logs = Logs::new();
            for name in self.databases_at(access)?.into_iter().filter(|name| wanted(name)) {
                if let Some(index) = self.index_of(&name)? {
                    logs.insert(name, log::marks(&index, access)?);
                }
            }
            Ok(logs)
        })
    }

    /// Calls `again` with each database that had flushes since `logs`, and with the flushed fields if the logs still
    /// have them. Repeats until no flush happens meanwhile: then all reads show the state at one moment.
    pub(super) fn reread_until_consistent(
        &self,
        mut logs: Logs,
        wanted: impl Fn(&str) -> bool,
        mut again: impl FnMut(&str, &DatabaseIndex, Option<Flushed>) -> Result<()>,
    ) -> Result<()> {
        let none = Marks::new();
        for _ in 0..RESTARTS_MAX {
            let now = self.logs(&wanted)?;
            if now == logs {
                return Ok(());
            }
            for (name, marks) in &now {
                let before = logs.get(name).unwrap_or(&none);
                let index = self.index_of(name)?.filter(|_| before != marks);
                let Some(index) = index else { continue };
                again(name, &index, log::since(&index, before, marks)?)?;
            }
            logs = now;
        }
        let text = format!(
            "others flushed {RESTARTS_MAX} times while it was read (RESTARTS_MAX): ask for less at a time"
        );
        Err(Error::new(ErrorKind::Again, text))
    }

    /// All fields that a selection matches, by key, at one moment: each flush is visible completely or not at all.
    /// Fields that are being wiped or purged vanish one by one.
    ///
    /// # Errors
    /// Errors of the backend; [`ErrorKind::Again`] if flushes come faster than they can be read.
    pub fn list(&self, selection: &Selection) -> Result<Vec<Listed>> {
        let wanted = |name: &str| Key::parse(name).is_ok_and(|key| selection.may_match(&key));
        let logs = self.logs(wanted)?;
        let mut all = Vec::new();
        self.visit(selection, false, |listed| {
            all.push(listed);
            Ok(true)
        })?;
        let mut later = HashMap::new();
        self.reread_until_consistent(logs, wanted, |name, index, flushed| {
            let found = read(index, &database_key(name)?, selection, flushed)?;
            later.extend(found.into_iter().map(|listed| (listed.key.clone(), listed)));
            Ok(())
        })?;
        if !later.is_empty() {
            all.retain(|listed| !later.contains_key(&listed.key));
            all.extend(later.into_values());
        }
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(all)
    }
}

/// The fields of a database that a selection matches: those in `flushed`, or all if that is `None`.
pub(super) fn read(
    database_index: &DatabaseIndex,
    database: &Key,
    selection: &Selection,
    flushed: Option<Flushed>,
) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
    let Some(flushed) = flushed else {
        for matched in matching_indexes_of(database_index, database, selection, false)? {
            matched.visit_all(selection, &mut |listed| {
                found.push(listed);
                Ok(true)
            })?;
        }
        return Ok(found);
    };
    for (index, data) in flushed {
        let (schema, dkey) = (selection.schema(), layout::current(&index));
        let above = joined(schema, database, &index)?;
        let keys = data.iter().map(|datum| Ok((joined(schema, &above, datum)?, datum.as_bytes())));
        let mut keys = keys.collect::<Result<Vec<_>>>()?;
        keys.retain(|(key, _)| selection.matches(key));
        for part in keys.chunks(BATCH) {
            let akeys: Vec<&[u8]> = part.iter().map(|(_, akey)| *akey).collect();
            let locations = database_index.fetch_many(&dkey, &akeys, Access::Latest)?;
            for ((key, _), location) in part.iter().zip(locations) {
                // Removed meanwhile.
                let Some(location) = location else { continue };
                found
                    .push(Listed { key: key.clone(), location: FieldLocation::decode(&location)? });
            }
        }
    }
    Ok(found)
}
