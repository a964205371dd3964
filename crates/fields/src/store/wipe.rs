//! Wiping: removing fields and their bytes.
use super::list::{Level as Fields, Listed};
use super::place::Place;
use super::{FieldStore, fetch_many, layout};
use crate::Key;
use crate::request::Selection;
use crate::schema::{Level, Presence};
use esker::{Access, Wait};
use esker_types::ops::Cond;
use esker_types::{Error, ErrorKind, ObjectId, Result};

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

    /// Removes fields of an index: first their names, then the bytes nobody can find any more.
    pub(super) fn remove(&self, level: &Fields, found: &[(Key, &[u8])]) -> Result<()> {
        self.remove_if(level, found, |_, _| true).map(drop)
    }

    /// Removes those whose places `may_go` approves of at the moment of the removal; how many stay.
    pub(super) fn remove_if(
        &self,
        level: &Fields,
        found: &[(Key, &[u8])],
        may_go: impl Fn(&Key, &[u8]) -> bool,
    ) -> Result<u64> {
        if found.is_empty() {
            return Ok(0);
        }
        let akeys: Vec<&[u8]> = found.iter().map(|(_, akey)| *akey).collect();
        let (gone, stay) = self.atomically(|transaction| {
            let access = Access::Tx(transaction);
            let places = fetch_many(&level.object, &level.dkey, &akeys, access)?;
            let there = found.iter().zip(places);
            let there = there.filter_map(|((key, akey), place)| Some((key, *akey, place?)));
            let (gone, stay): (Vec<_>, Vec<_>) =
                there.partition(|(key, _, place)| may_go(key, place));
            let akeys: Vec<&[u8]> = gone.iter().map(|(_, akey, _)| *akey).collect();
            // Before their names go: of one that cannot be read nobody would find the bytes any more.
            let arrays = gone.iter().map(|(_, _, place)| Ok(Place::decode(place)?.array()));
            let arrays = arrays.collect::<Result<Vec<_>>>()?;
            if !akeys.is_empty() {
                level.object.punch_akeys(&level.dkey, &akeys, Cond::NONE, access).wait()?;
            }
            Ok((arrays, stay.len() as u64))
        })?;
        gone.into_iter().flatten().try_for_each(|oid| self.destroy(oid))?;
        Ok(stay)
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

    /// Removes the bytes of a field that nothing names any more.
    pub(super) fn destroy(&self, oid: ObjectId) -> Result<()> {
        layout::field(self.container(), oid)?.destroy(Access::Latest).wait()
    }
}

impl Listed {
    /// Its bytes, where the store holds them; of an adopted one none.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.place.array().map_or(0, |_| self.place.bytes)
    }
}
