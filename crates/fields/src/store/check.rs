//! Check of a store: finds fields that cannot be read, for example because a node of the pool was lost.
use super::list::{Listed, database_key, matching_indexes_of};
use super::location::Holder;
use super::retrieve::Field;
use super::{FieldStore, all_akeys, layout};
use crate::Key;
use crate::request::Selection;
use esker::{Access, Wait};
use esker_types::{Error, ErrorKind, Result};

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Readable fields.
    pub fields: u64,
    /// Bytes of the readable fields.
    pub bytes: u64,
    /// Fields and databases that cannot be read, sorted by key.
    pub lost: Vec<Lost>,
}

/// A field that cannot be read, or a database whose fields cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Key of the field, or of the database.
    pub key: Key,
    /// True for a database: the names of its fields, or of those in a stripe of its index, are lost, too.
    pub is_database: bool,
    /// The cause.
    pub why: String,
}

impl Lost {
    /// A field or database that is lost because of an error.
    fn new(key: Key, is_database: bool, why: &Error) -> Self {
        Self { key, is_database, why: why.message().to_owned() }
    }
}

impl FieldStore {
    /// Checks whether each field of a selection has all its bytes and, with `data`, whether they are as they were
    /// archived. Masked fields are left out.
    ///
    /// # Errors
    /// Errors of the backend. Damaged fields count as lost, without an error. If the list of databases is lost, no
    /// field can be found, and that is an error.
    pub fn check(&self, selection: &Selection, data: bool) -> Result<Checked> {
        let mut checked = Checked::default();
        for name in self.databases().map_err(list_lost_error)? {
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

    /// Checks the fields of one database. A stripe of the index that is lost is noted, and the others are checked
    /// first.
    fn check_database(
        &self,
        name: &str,
        key: &Key,
        selection: &Selection,
        data: bool,
        checked: &mut Checked,
    ) -> Result<()> {
        let Some(mut index) = self.index_of(name)? else { return Ok(()) };
        let mut lost = Ok(());
        for stripe in 0..index.count() as u8 {
            // A listing of dkeys omits those of a lost node, but this listing fails.
            match all_akeys(index.stripe(stripe)?, layout::FLUSHES) {
                Err(error) if is_damage(&error) => {
                    index = index.without(stripe);
                    lost = Err(match index.count() {
                        1 => error,
                        count => {
                            let text =
                                format!("stripe {} of {count}: {}", stripe + 1, error.message());
                            Error::new(error.kind(), text)
                        }
                    });
                }
                other => other.map(drop)?,
            }
        }
        for matched in matching_indexes_of(&index, key, selection, false)? {
            matched.visit_all(selection, &mut |listed| {
                self.check_field(listed, data, checked).map(|()| true)
            })?;
        }
        lost
    }

    /// Checks that the data of one field is there, and with `data` reads it to its end. A field that is lost is noted.
    fn check_field(&self, listed: Listed, data: bool, checked: &mut Checked) -> Result<()> {
        let field = self.listed(listed);
        let looked =
            field.check_presence().and_then(|()| if data { field.read_through() } else { Ok(()) });
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

    /// False if another process has removed or replaced the field since it was listed.
    fn is_current(&self, field: &Field) -> Result<bool> {
        match self.field(field.key()) {
            Ok(now) => Ok(now.location() == field.location()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Field {
    /// Checks whether its bytes exist. A chunk of an array exists completely or not at all.
    fn check_presence(&self) -> Result<()> {
        let Holder::Array(oid) = self.location().holder else {
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

    /// Reads all its bytes, which verifies their checksums.
    fn read_through(&self) -> Result<()> {
        let mut buffer = vec![0; self.bytes().min(layout::CHUNK) as usize];
        self.chunks()
            .try_for_each(|(start, end)| self.read_at(start, &mut buffer[..(end - start) as usize]))
    }

    /// Start and end of each chunk.
    fn chunks(&self) -> impl Iterator<Item = (u64, u64)> {
        let bytes = self.bytes();
        let starts = (0..bytes.div_ceil(layout::CHUNK)).map(|chunk| chunk * layout::CHUNK);
        starts.map(move |start| (start, bytes.min(start + layout::CHUNK)))
    }

    /// True if an error of reading the field means that its bytes are lost or damaged. Adopted files may change in any
    /// way.
    fn is_lost_by(&self, error: &Error) -> bool {
        let in_file = matches!(self.location().holder, Holder::File { .. });
        in_file || is_damage(error) || error.kind() == ErrorKind::NotFound
    }
}

/// The error of reading the list of databases.
fn list_lost_error(error: Error) -> Error {
    if !is_damage(&error) {
        return error;
    }
    let message =
        format!("the list of databases is lost, and all fields with it: {}", error.message());
    Error::new(error.kind(), message)
}

/// True for errors that mean damaged or lost data.
fn is_damage(error: &Error) -> bool {
    use ErrorKind::{Checksum, Corrupt, DataLoss, Incompatible, RecordSize};
    matches!(error.kind(), Checksum | Corrupt | DataLoss | Incompatible | RecordSize)
}
