//! Reads and changes of an open container: what a transaction has read is compared, and all files of a change are replaced
//! together.
use super::array::ArrayFiles;
use super::files::{is_stale, while_stale};
use super::form::{Form, Kind, Object, form};
use super::journal::Journal;
use super::kv::KvDirectory;
use super::lock::Locks;
use super::open::Opened;
use super::plan::Plan;
use super::proof::{Proof, Watched, changed};
use esker_backend::check::check_write;
use esker_backend::handles::{Handled, gone};
use esker_types::ops::{Change, ReadAt, Write};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

impl Opened {
    fn journal(&self) -> Journal<'_> {
        Journal { directory: &self.pool.directory, container: &self.container }
    }

    /// Runs `work` to read an object, again if a commit of several files may have changed a part of it meanwhile, or if
    /// another node has replaced a file. Adds the proof of the read of `watched` to the tokens.
    pub(super) fn read<T>(
        &self,
        oid: ObjectId,
        at: ReadAt<'_>,
        watched: Option<Watched>,
        mut work: impl FnMut(&dyn Form) -> Result<T>,
    ) -> Result<T> {
        self.container.check_alive()?;
        let form = form(&self.pool.directory, &self.container, oid);
        let proving = watched.zip(at.tokens);
        let mut read = || {
            // The digest comes first: if the data changes before the read, the commit fails.
            let digest = proving.as_ref().map(|(watched, _)| form.digest(watched)).transpose()?;
            match work(&*form) {
                Err(error) if is_stale(&error) => Err(error),
                result => Ok((digest, result)),
            }
        };
        let (digest, result) = while_stale(is_stale, || self.when_settled(oid, &mut read))?;
        if let Some(((watched, tokens), digest)) = proving.zip(digest) {
            Proof { oid, watched, digest }.add_to(tokens);
        }
        result
    }

    /// Runs `work`, again while a commit of several files changes the object.
    fn when_settled<T>(&self, oid: ObjectId, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let result = work();
            if self.journal().is_settled(oid)? {
                return result;
            }
        }
    }

    /// Applies a change.
    pub(super) fn write_all(&self, change: &Change<'_>) -> Result<Epoch> {
        if change.id.is_some() {
            let message = "a posix pool does not support change ids: use a native pool";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        change.writes.iter().try_for_each(check_write)?;
        self.container.check_alive()?;
        match change.tokens.is_none() && is_plain(change) {
            true => self.write_plain(change.writes),
            false => self.commit(change),
        }
    }

    /// Applies writes to Key-Values and Arrays, each at once and without a lock.
    fn write_plain(&self, writes: &[Write<'_>]) -> Result<Epoch> {
        let mut epoch = Epoch::now();
        for write in writes {
            // A commit of a dead process that is completed later would undo this write.
            while !self.journal().is_settled(write.oid)? {}
            let object = Object::new(&self.pool.directory, &self.container, write.oid);
            epoch = match Kind::from_oid(write.oid) {
                Kind::Array => {
                    let array = ArrayFiles(object);
                    while_stale(is_stale, || array.write(&write.op))?
                }
                _ => KvDirectory(object).write(&write.op)?,
            };
        }
        Ok(epoch)
    }

    /// Applies a change as a whole, if what its transaction has read has not changed.
    fn commit(&self, change: &Change<'_>) -> Result<Epoch> {
        let proofs = change.tokens.map_or(Ok(Vec::new()), Proof::all)?;
        let once = change.proved_once || change.writes.is_empty();
        if once {
            self.verify(&proofs)?;
        }
        if change.writes.is_empty() {
            return Ok(Epoch::now());
        }
        let held = if once { &[] } else { proofs.as_slice() };
        let read = held.iter().map(|proof| proof.oid);
        let oids: BTreeSet<_> = change.writes.iter().map(|write| write.oid).chain(read).collect();
        let locks = self.lock(&oids)?;
        self.journal().complete_left(&oids)?;
        self.verify(held)?;
        let plan = while_stale(is_stale, || {
            Plan::compute(&self.pool.directory, &self.container, change.writes)
        })?;
        let (epoch, punched) = (plan.epoch, plan.punched.clone());
        self.journal().carry_out(&locks, plan)?;
        // Fails if keys were added.
        punched.iter().for_each(|oid| drop(fs::remove_dir(self.container.object(*oid))));
        Ok(epoch)
    }

    fn lock(&self, oids: &BTreeSet<ObjectId>) -> Result<Locks<'_>> {
        let directory = &self.pool.directory;
        let paths: BTreeSet<PathBuf> = oids.iter().map(|oid| self.container.object(*oid)).collect();
        Locks::take(&directory.thread_locks, &directory.files, &paths)?.ok_or_else(gone)
    }

    /// Fails if data has changed since it was read.
    ///
    /// # Errors
    /// `TxRestart`.
    fn verify(&self, proofs: &[Proof]) -> Result<()> {
        for Proof { oid, watched, digest } in proofs {
            let again = self.read(*oid, ReadAt::LATEST, None, |form| form.digest(watched))?;
            if again != *digest {
                return Err(changed());
            }
        }
        Ok(())
    }
}

/// True if a change needs no commit: each of its writes takes effect at once, and they need not do so together.
fn is_plain(change: &Change<'_>) -> bool {
    let together = change.writes.len() > 1 && !change.one_by_one;
    !together && change.writes.iter().all(|write| Kind::from_oid(write.oid) != Kind::General)
}
