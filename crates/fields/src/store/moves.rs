//! Moving fields from one store to another, on the same or different media.
use super::list::{Listed, MatchedIndex};
use super::{Field, FieldStore};
use crate::Key;
use crate::request::Selection;
use esker::Wait;
use esker_types::{Checksum, Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Fields that one flush moves.
const PART: usize = 1024;

/// Most workers of one move.
const WORKERS_MAX: usize = 64;

/// Options of a move.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    /// Threads that copy, each with one field at a time; 1 to 64.
    pub workers: usize,
    /// Keep the fields in this store as well.
    pub keep: bool,
}

/// Result of a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Fields that are in the other store now.
    pub fields: u64,
    /// Bytes of these fields.
    pub bytes: u64,
    /// Fields among them that the other store already had, with the same bytes.
    pub there: u64,
    /// Fields that stay here because they were archived again meanwhile.
    pub left: u64,
}

impl FieldStore {
    /// Moves the fields of a selection to another store, in batches. A batch is archived and flushed there, read back
    /// and compared, then removed here with the fields that it masks. Fields that are archived here meanwhile stay. If
    /// the move is interrupted, even by a crash, no field is lost, and another call continues. Calls `visit` with each
    /// field once it is stored in the other store.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the selection is too broad ([`FieldStore::check_move`]), or both are the same store;
    /// [`ErrorKind::Checksum`] if the bytes read back differ from the archived ones; errors of the backends and of
    /// `visit`.
    pub fn move_to(
        &self,
        selection: &Selection,
        to: &Self,
        how: Moving,
        mut visit: impl FnMut(&Listed) -> Result<()>,
    ) -> Result<Moved> {
        let mut moved = Moved::default();
        self.refuse_own_store(to)?;
        if !how.keep {
            self.check_move(selection)?;
        }
        for matched in self.matching_indexes(selection, false)? {
            matched.each(selection, |found| {
                found.chunks(PART).try_for_each(|part| {
                    self.move_part(&matched, part, to, how, &mut moved, &mut visit)
                })
            })?;
        }
        if !how.keep {
            for matched in self.matching_indexes(selection, true)? {
                matched.each(selection, |found| self.remove(&matched, found))?;
            }
        }
        Ok(moved)
    }

    /// Refuses a selection that does not name its databases completely: a move removes fields here, so it must not
    /// match more than the user means.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] like [`FieldStore::wipe`]; errors of the backend.
    pub fn check_move(&self, selection: &Selection) -> Result<()> {
        selection.refuse_unkept()?;
        let indexes = self.matching_indexes(selection, false)?;
        indexes.iter().try_for_each(|matched| match self.missing_database_names(&matched.database, selection) {
            None => Ok(()),
            Some(open) => {
                let text = format!(
                    "to move fields of {}, name the whole database in the request, because a move removes them \
                     here: add {open}, or copy the fields (--keep)",
                    matched.database
                );
                Err(Error::new(ErrorKind::Invalid, text))
            }
        })
    }

    /// Fails if `to` is this store.
    fn refuse_own_store(&self, to: &Self) -> Result<()> {
        if self.container().info().uuid != to.container().info().uuid {
            return Ok(());
        }
        let label = &self.container().info().label;
        let text = format!("the fields are already in {label}: name another store to move them to");
        Err(Error::new(ErrorKind::Invalid, text))
    }

    /// Moves the fields of `part`, which are in one index, to the store `to`: copies them, calls `visit` for each and,
    /// unless `how.keep`, removes them here. A field that was archived again meanwhile stays, and counts in
    /// `moved.left`.
    fn move_part(
        &self,
        matched: &MatchedIndex,
        part: &[(Key, &[u8])],
        to: &Self,
        how: Moving,
        moved: &mut Moved,
        visit: &mut impl FnMut(&Listed) -> Result<()>,
    ) -> Result<()> {
        let mut listed = Vec::with_capacity(part.len());
        matched.visit(part, &mut |field| {
            listed.push(field);
            Ok(true)
        })?;
        moved.there += self.copy_part(&listed, to, how.workers)?;
        for field in &listed {
            visit(field)?;
            (moved.fields, moved.bytes) = (moved.fields + 1, moved.bytes + field.location.bytes);
        }
        if how.keep {
            return Ok(());
        }
        // The fields may survive power loss here.
        to.container().sync().wait()?;
        let copied: HashMap<_, _> =
            listed.iter().map(|field| (&field.key, field.location.encode())).collect();
        let same =
            |key: &Key, location: &[u8]| copied.get(key).is_some_and(|copied| copied == location);
        moved.left += self.remove_if(matched, part, same)?;
        Ok(())
    }

    /// Copies fields with several threads; returns how many the other store already had.
    fn copy_part(&self, listed: &[Listed], to: &Self, workers: usize) -> Result<u64> {
        let (next, there) = (AtomicUsize::new(0), AtomicU64::new(0));
        let work = || {
            let mut writer = to.writer();
            let mut archived = Vec::new();
            while let Some(listed) = listed.get(next.fetch_add(1, Ordering::Relaxed)) {
                let field = self.listed(listed.clone());
                let bytes = field.read()?;
                if to.has_same(field.key(), &bytes)? {
                    there.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                writer.archive(field.key(), &bytes)?;
                archived.push((field, Checksum::Crc64.sum(&bytes)));
            }
            writer.flush()?;
            archived.iter().try_for_each(|(field, sum)| to.compare(field, *sum))
        };
        std::thread::scope(|scope| {
            let workers = workers.clamp(1, WORKERS_MAX).min(listed.len());
            // If a thread cannot be started, the others do its work.
            let others: Vec<_> = (1..workers)
                .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            let mut result = work();
            for other in others {
                result = result.and(other.join().unwrap_or_else(|_| Err(ErrorKind::Io.into())));
            }
            result
        })?;
        Ok(there.into_inner())
    }

    /// True if a key has the same bytes.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn has_same(&self, key: &Key, data: &[u8]) -> Result<bool> {
        match self.field(key) {
            Ok(field) if field.bytes() == data.len() as u64 => Ok(field.read()? == data),
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Compares the stored bytes with the checksum of the archived ones.
    fn compare(&self, field: &Field, sum: u64) -> Result<()> {
        let bytes = self.field(field.key())?.read()?;
        match Checksum::Crc64.sum(&bytes) == sum {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Checksum,
                format!(
                    "{}: the other store gives other bytes than were archived there: somebody else \
                     archives the same, or it is damaged; nothing was removed",
                    field.key()
                ),
            )),
        }
    }
}
