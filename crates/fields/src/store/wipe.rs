//! Wipe: removes fields and their bytes.
use super::FieldStore;
use super::list::{Listed, MatchedIndex};
use crate::Key;
use crate::request::Selection;
use crate::schema::{Level, Presence};
use esker_types::{Error, ErrorKind, Result};

/// Fields that a wipe removed, or would remove.
#[derive(Clone, Debug, Default)]
pub struct Wiped {
    /// Fields that readers saw.
    pub fields: u64,
    /// Fields that were masked.
    pub masked: u64,
    /// Bytes of both in the store; adopted files are not touched.
    pub bytes: u64,
    /// Databases of these fields.
    pub databases: Vec<Key>,
}

impl FieldStore {
    /// Removes all fields that a selection matches, masked ones included. Without `doit` it only reports what it would
    /// remove. Calls `visit` with each field first.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the selection does not give a value for each name of a database that it matches, or its
    /// request has a name whose values are not stored: it would remove too much. Errors of the backend and of `visit`.
    pub fn wipe(
        &self,
        selection: &Selection,
        doit: bool,
        mut visit: impl FnMut(&Listed) -> Result<()>,
    ) -> Result<Wiped> {
        let mut wiped = Wiped::default();
        self.check_wipe(selection)?;
        for masked in [false, true] {
            let indexes = self.matching_indexes(selection, masked)?;
            self.check_databases(selection, &indexes)?;
            for matched in indexes {
                let before = wiped.bytes;
                let count = if masked { &mut wiped.masked } else { &mut wiped.fields };
                let bytes = &mut wiped.bytes;
                let seen = *count;
                matched.each(selection, |found| {
                    matched.visit(found, &mut |listed| {
                        visit(&listed)?;
                        (*count, *bytes) = (*count + 1, *bytes + listed.stored_bytes());
                        Ok(true)
                    })?;
                    if doit { self.remove(&matched, found) } else { Ok(()) }
                })?;
                let any = *count > seen || wiped.bytes > before;
                if any && !wiped.databases.contains(&matched.database) {
                    wiped.databases.push(matched.database);
                }
            }
        }
        Ok(wiped)
    }

    /// Refuses a selection that does not name its databases completely: a wipe must not match more than the user means.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] like [`FieldStore::wipe`]; errors of the backend.
    pub fn check_wipe(&self, selection: &Selection) -> Result<()> {
        selection.refuse_unkept()?;
        [false, true].into_iter().try_for_each(|masked| {
            self.check_databases(selection, &self.matching_indexes(selection, masked)?)
        })
    }

    /// Fails if the request does not give the whole key of a database in which it removes fields, so that a short
    /// request cannot remove more than was meant.
    fn check_databases(&self, selection: &Selection, indexes: &[MatchedIndex]) -> Result<()> {
        indexes.iter().try_for_each(|matched| {
            match self.missing_database_names(&matched.database, selection) {
                None => Ok(()),
                Some(open) => {
                    let text = format!(
                        "to wipe fields of {}, name the whole database in the request: add {open}",
                        matched.database
                    );
                    Err(Error::new(ErrorKind::Invalid, text))
                }
            }
        })
    }

    /// Names that a request that removes fields must also give, as `name=value,...`. It must give all names of a
    /// database's key that the schema requires. `None` if it gives them.
    pub(super) fn missing_database_names(
        &self,
        database: &Key,
        selection: &Selection,
    ) -> Option<String> {
        let parts = || self.schema().rules().iter().flat_map(|rule| rule.level(Level::Database));
        let demanded = |name: &str| {
            parts()
                .filter(|part| part.name() == name)
                .all(|part| *part.presence() == Presence::Required)
        };
        let open = database.iter().filter(|(name, _)| selection.values(name).is_none());
        let open: Vec<_> = open
            .filter(|(name, _)| demanded(name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        (!open.is_empty()).then(|| open.join(","))
    }
}

impl Listed {
    /// The bytes of the field in the store; zero for an adopted field.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.location.array().map_or(0, |_| self.location.bytes)
    }
}
