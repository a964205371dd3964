//! Wiping: removing fields and their bytes.
use super::FieldStore;
use super::list::Listed;
use crate::Key;
use crate::request::Selection;
use crate::schema::{Level, Presence};
use esker_types::{Error, ErrorKind, Result};

/// What a wipe removed, or would.
#[derive(Clone, Debug, Default)]
pub struct Wiped {
    /// Fields readers saw.
    pub fields: u64,
    /// Fields that were masked.
    pub masked: u64,
    /// Bytes of both in the store; those of adopted files stay where they are.
    pub bytes: u64,
    /// Databases they are of.
    pub databases: Vec<Key>,
}

impl FieldStore {
    /// Removes all fields that a selection matches, masked ones too. Without `doit` it only says what would
    /// go. `visit` hears of each field first.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where the selection does not say for each name of a database it matches which
    /// value is meant: too much would go. What the backend meets; what `visit` returns.
    pub fn wipe(
        &self,
        selection: &Selection,
        doit: bool,
        mut visit: impl FnMut(&Listed) -> Result<()>,
    ) -> Result<Wiped> {
        let mut wiped = Wiped::default();
        for masked in [false, true] {
            let levels = self.levels(selection, masked)?;
            levels.iter().try_for_each(|level| self.refuse_open(&level.database, selection))?;
            for level in levels {
                let before = wiped.bytes;
                let count = if masked { &mut wiped.masked } else { &mut wiped.fields };
                let bytes = &mut wiped.bytes;
                let seen = *count;
                level.each(selection, |found| {
                    level.visit(found, &mut |listed| {
                        visit(&listed)?;
                        (*count, *bytes) = (*count + 1, *bytes + listed.stored_bytes());
                        Ok(true)
                    })?;
                    if doit { self.remove(&level, found) } else { Ok(()) }
                })?;
                let any = *count > seen || wiped.bytes > before;
                if any && !wiped.databases.contains(&level.database) {
                    wiped.databases.push(level.database);
                }
            }
        }
        Ok(wiped)
    }

    /// Refuses a selection that leaves too much open, for all databases it meets.
    pub(super) fn check_wipe(&self, selection: &Selection) -> Result<()> {
        let levels = self.levels(selection, false)?;
        levels.iter().try_for_each(|level| self.refuse_open(&level.database, selection))
    }

    /// A database is wiped by all of its key that the schema demands, or not at all.
    fn refuse_open(&self, database: &Key, selection: &Selection) -> Result<()> {
        let parts = || self.schema().rules().iter().flat_map(|rule| rule.level(Level::Database));
        let demanded = |name: &str| {
            parts()
                .filter(|part| part.name() == name)
                .all(|part| *part.presence() == Presence::Required)
        };
        let mut open = database.iter().filter(|(name, _)| selection.values(name).is_none());
        let Some((name, value)) = open.find(|(name, _)| demanded(name)) else { return Ok(()) };
        let text =
            format!("to wipe fields of {database}, say which {name} is meant: {name}={value}");
        Err(Error::new(ErrorKind::Invalid, text))
    }
}

impl Listed {
    /// Its bytes, where the store holds them; of an adopted one none.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.place.array().map_or(0, |_| self.place.bytes)
    }
}
