//! Checking a store: which of its fields cannot be read, for example because a node of the pool is gone.
use super::list::{Listed, database_key, levels_of};
use super::location::Holder;
use super::retrieve::Field;
use super::{FieldStore, all_akeys, layout};
use crate::Key;
use crate::request::Selection;
use esker::{Access, Wait};
use esker_types::{Error, ErrorKind, Result};

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Fields that are there.
    pub fields: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// What cannot be read, sorted by key.
    pub lost: Vec<Lost>,
}

/// A field that cannot be read, or a database whose fields cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Key of the field, or of the database.
    pub key: Key,
    /// True if it is a database: the names of its fields are lost, too.
    pub is_database: bool,
    /// Why.
    pub why: String,
}

impl Lost {
    fn new(key: Key, is_database: bool, why: &Error) -> Self {
        Self { key, is_database, why: why.message().to_owned() }
    }
}

impl FieldStore {
    /// Looks whether the fields of a selection can be read: whether each has all its bytes and, with `data`, whether they
    /// are as they were archived. Masked fields are left out.
    ///
    /// # Errors
    /// Errors of the backend; damage is no error, but counts as lost. If the list of databases is lost, nothing can be
    /// found, and that is an error.
    pub fn check(&self, selection: &Selection, data: bool) -> Result<Checked> {
        let mut checked = Checked::default();
        for name in self.databases().map_err(without_list)? {
            let key = database_key(&name)?;
            if !selection.may_match(&key) {
                continue;
            }
            match self.check_database(&name, &key, selection, data, &mut checked) {
                Err(error) if is_damage(&error) => {
                    checked.lost.push(Lost::new(key, true, &error));
                }
                other => other?,
            }
        }
        checked.lost.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(checked)
    }

    fn check_database(
        &self,
        name: &str,
        key: &Key,
        selection: &Selection,
        data: bool,
        checked: &mut Checked,
    ) -> Result<()> {
        let Some(index) = self.index_of(name)? else { return Ok(()) };
        // A listing of dkeys leaves out what a lost node had; this fails there.
        all_akeys(&index, layout::FLUSHES)?;
        for level in levels_of(&index, key, selection, false)? {
            level.visit_all(selection, &mut |listed| {
                self.check_field(listed, data, checked).map(|()| true)
            })?;
        }
        Ok(())
    }

    fn check_field(&self, listed: Listed, data: bool, checked: &mut Checked) -> Result<()> {
        let field = self.listed(listed);
        let looked = field.look().and_then(|()| if data { field.read_through() } else { Ok(()) });
        match looked {
            Ok(()) => {
                checked.fields += 1;
                checked.bytes += field.bytes();
            }
            Err(error) if field.is_lost_by(&error) => {
                if self.is_current(&field)? {
                    checked.lost.push(Lost::new(field.key().clone(), false, &error));
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// False if others have removed or replaced it since it was listed.
    fn is_current(&self, field: &Field) -> Result<bool> {
        match self.field(field.key()) {
            Ok(now) => Ok(now.place() == field.place()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Field {
    /// Looks whether its bytes are there. Of an array, all bytes of a chunk are, or none.
    fn look(&self) -> Result<()> {
        let Holder::Array(oid) = self.place().holder else {
            let last = self.bytes().checked_sub(1);
            return last.map_or(Ok(()), |last| self.read_at(last, &mut [0]));
        };
        let array = layout::field(self.store().container(), oid)?;
        for (start, end) in self.chunks() {
            if array.next_data(end - 1, Access::Latest).wait()? != Some(end - 1) {
                let message = format!("its bytes from {start} to {end} are missing");
                return Err(Error::new(ErrorKind::NotFound, message));
            }
        }
        Ok(())
    }

    /// Reads all its bytes, which compares them with their checksums.
    fn read_through(&self) -> Result<()> {
        let mut buffer = vec![0; self.bytes().min(layout::CHUNK) as usize];
        self.chunks()
            .try_for_each(|(start, end)| self.read_at(start, &mut buffer[..(end - start) as usize]))
    }

    /// Where its chunks begin and end.
    fn chunks(&self) -> impl Iterator<Item = (u64, u64)> {
        let bytes = self.bytes();
        let starts = (0..bytes.div_ceil(layout::CHUNK)).map(|chunk| chunk * layout::CHUNK);
        starts.map(move |start| (start, bytes.min(start + layout::CHUNK)))
    }

    /// True if this error of reading it says that its bytes are gone or damaged. Adopted files may change in any way.
    fn is_lost_by(&self, error: &Error) -> bool {
        let in_file = matches!(self.place().holder, Holder::File { .. });
        in_file || is_damage(error) || error.kind() == ErrorKind::NotFound
    }
}

/// The error of reading the list of databases.
fn without_list(error: Error) -> Error {
    if !is_damage(&error) {
        return error;
    }
    let message =
        format!("the list of databases is lost, and all fields with it: {}", error.message());
    Error::new(error.kind(), message)
}

/// True for errors of data that is damaged or lost.
fn is_damage(error: &Error) -> bool {
    use ErrorKind::{Checksum, Corrupt, DataLoss, Incompatible, RecordSize};
    matches!(error.kind(), Checksum | Corrupt | DataLoss | Incompatible | RecordSize)
}
