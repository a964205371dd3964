//! Reads and changes of an open container: what a transaction has read is compared, and all files of a change are
//! replaced together.
use super::array::ArrayFiles;
use super::files::{is_stale, while_stale};
use super::form::{Form, Kind, Object, form};
use super::journal::Journal;
use super::journal::takeover::QUIET;
use super::kv::KvDirectory;
use super::lock::{Locks, WAIT_MAX, locked_error};
use super::open::Opened;
use super::plan::Plan;
use super::proof::{Digest, Proof, Watched, changed_read_error};
use esker_backend::check::check_write;
use esker_backend::handles::{Handled, gone};
use esker_types::ops::{Change, ReadAt, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Attempts of a slow write outside transactions until the Array has it.
const SLOW_TRIES: u32 = 8;

/// Attempts to read an object without its lock.
const UNLOCKED_TRIES: u32 = 16;

/// True if a write outside transactions has interfered with a read, which is to be repeated.
fn is_again(error: &Error) -> bool {
    error.kind() == ErrorKind::Again
}

#[cold]
fn changed_during_read_error() -> Error {
    Error::new(ErrorKind::Again, "what a transaction reads was changed meanwhile: repeat the read")
}

/// The part of an object that a read looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadExtent {
    /// One file, which commits replace as a whole.
    OneFile,
    /// Several files, or one that commits change in place.
    Several,
}

impl ReadExtent {
    /// Returns the part of an object that a read of `dkey` looks at; None is a read of all dkeys. All objects but
    /// Arrays store each dkey in one file.
    pub(super) fn of_dkey(oid: ObjectId, dkey: Option<&[u8]>) -> Self {
        match dkey.is_some() && Kind::from_oid(oid) != Kind::Array {
            true => Self::OneFile,
            false => Self::Several,
        }
    }
}

impl Opened {
    pub(super) fn journal(&self) -> Journal<'_> {
        Journal { directory: &self.pool.directory, container: &self.container }
    }

    /// Runs `work` to read an object, of which it looks at `extent`. Repeats it if a commit of several files may have
    /// changed a part of the object meanwhile, or if another node has replaced a file. Adds the proof of the read of
    /// `watched` to the tokens.
    pub(super) fn read<T>(
        &self,
        oid: ObjectId,
        at: ReadAt<'_>,
        extent: ReadExtent,
        watched: Option<Watched>,
        mut work: impl FnMut(&dyn Form) -> Result<T>,
    ) -> Result<T> {
        self.container.check_alive()?;
        let form = form(&self.pool.directory, &self.container, oid);
        let proving = watched.zip(at.tokens);
        let digest = || proving.as_ref().map(|(watched, _)| form.digest(watched)).transpose();
        let mut read = || {
            let before = digest()?;
            let result = work(&*form);
            if let Err(error) = &result
                && (is_stale(error) || is_again(error))
            {
                return Err(error.clone());
            }
            // Without the second digest, a commit would accept data that was changed before the read and restored after.
            match digest()? == before {
                true => Ok((before, result)),
                false => Err(changed_during_read_error()),
            }
        };
        let (digest, result) = while_stale(is_stale, || self.when_settled(oid, extent, &mut read))?;
        if let Some(((watched, tokens), digest)) = proving.zip(digest) {
            Proof { oid, watched, digest }.add_to(tokens);
        }
        result
    }

    /// Runs `work`, and again if a commit of several files changed the object meanwhile. If that repeats, `work` runs
    /// under the lock of the object, which keeps commits away. A user who may not take the lock tries again without it,
    /// for at most [`WAIT_MAX`].
    fn when_settled<T>(
        &self,
        oid: ObjectId,
        extent: ReadExtent,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let (begun, oids) = (Instant::now(), BTreeSet::from([oid]));
        while begun.elapsed() < WAIT_MAX {
            for _ in 0..UNLOCKED_TRIES {
                if let Some(result) = self.try_read(oid, extent, &mut work)? {
                    return result;
                }
            }
            match self.lock(&oids) {
                Err(error) if cannot_lock(&error) => {}
                locks => {
                    let locks = locks?;
                    self.journal().complete_left(&oids)?;
                    let result = work();
                    // If another process has taken the lock over, it may have changed the object meanwhile. Writes outside
                    // transactions take no lock.
                    if locks.check().is_ok() && !result.as_ref().is_err_and(is_again) {
                        return result;
                    }
                }
            }
        }
        Err(locked_error(&self.container.object(oid)))
    }

    /// Runs `work` once, which reads `extent` of an object. Returns its result, or `None` if the caller must try again:
    /// a commit of several files or a write that shortened an Array may have changed what `work` read.
    fn try_read<T>(
        &self,
        oid: ObjectId,
        extent: ReadExtent,
        work: &mut impl FnMut() -> Result<T>,
    ) -> Result<Option<Result<T>>> {
        let journal = self.journal();
        // A commit replaces the commit mark of its objects. A read of a file that is replaced as a whole needs no mark.
        let mark = || match extent {
            ReadExtent::OneFile => Ok(None),
            ReadExtent::Several => journal.mark(oid),
        };
        let before = mark()?;
        let result = work();
        // A write outside transactions has shortened an Array meanwhile, or changed what a transaction reads.
        if result.as_ref().is_err_and(is_again) {
            return Ok(None);
        }
        // The journal is checked first, then the mark: a commit replaces the mark before it leaves the journal. So one
        // of the two checks notices a commit that ended during the read.
        let settled = journal.is_settled(oid)? && mark()? == before;
        Ok(settled.then_some(result))
    }

    /// Applies a change: a plain one, which changes one file, without a commit; any other with the journal.
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
            let begun = esker_os::uptime();
            // A commit of a dead process that is completed later would undo this write.
            self.journal().settle(write.oid)?;
            let object = Object::new(&self.pool.directory, &self.container, write.oid);
            let written = match Kind::from_oid(write.oid) {
                Kind::Array => self.write_array(&ArrayFiles(object), &write.op, begun),
                _ => {
                    let kv = KvDirectory(object);
                    while_stale(is_stale, || kv.write(&write.op))
                }
            };
            epoch = written.map_err(|error| self.explain_missing(error))?;
        }
        Ok(epoch)
    }

    /// Returns the error of a write. A key that it requires is missing in a container that was destroyed, too: then the
    /// error is that.
    fn explain_missing(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::NotFound => self.container.check_there().err().unwrap_or(error),
            _ => error,
        }
    }

    /// Applies a write to an Array, which began at the time `begun`, before the journal was read. A process that takes
    /// over a commit replaces the files of its Arrays by copies, [`QUIET`] after it has begun. A slow write may be lost
    /// by that. So a write that took half of that time is repeated if the Array does not have it.
    fn write_array(
        &self,
        array: &ArrayFiles<'_>,
        op: &WriteOp<'_>,
        mut begun: u64,
    ) -> Result<Epoch> {
        let epoch = while_stale(is_stale, || array.write(op))?;
        let is_slow = |since| Duration::from_micros(esker_os::uptime() - since) > QUIET / 2;
        for _ in 0..SLOW_TRIES {
            if !is_slow(begun) {
                break;
            }
            begun = esker_os::uptime();
            self.journal().settle(array.0.oid)?;
            if while_stale(is_stale, || array.has_written(op))? {
                break;
            }
            while_stale(is_stale, || array.write_again(op))?;
        }
        Ok(epoch)
    }

    /// Applies a change as a whole, if what its transaction has read has not changed. Reads that must hold only once
    /// are verified before the locks are taken, so their objects are not locked.
    fn commit(&self, change: &Change<'_>) -> Result<Epoch> {
        let proofs = change.tokens.map_or(Ok(Vec::new()), Proof::all)?;
        let once = change.proved_once || change.writes.is_empty();
        if once {
            self.verify(&proofs, |proof| {
                let Proof { oid, watched, .. } = proof;
                self.read(*oid, ReadAt::LATEST, ReadExtent::Several, None, |form| {
                    form.digest(watched)
                })
            })?;
        }
        if change.writes.is_empty() {
            return Ok(Epoch::now());
        }
        let held = if once { &[] } else { proofs.as_slice() };
        let read = held.iter().map(|proof| proof.oid);
        let oids: BTreeSet<_> = change.writes.iter().map(|write| write.oid).chain(read).collect();
        let locks = self.lock(&oids)?;
        self.journal().complete_left(&oids)?;
        self.verify(held, |proof| self.digest_under_lock(proof))?;
        let plan = while_stale(is_stale, || {
            Plan::compute(&self.pool.directory, &self.container, change.writes)
        })?;
        let (epoch, punched) = (plan.epoch, plan.punched.clone());
        self.journal().carry_out(&locks, plan)?;
        // Removes the directories of punched objects. This fails if keys were added since, which is not an error.
        punched.iter().for_each(|oid| drop(fs::remove_dir(self.container.object(*oid))));
        Ok(epoch)
    }

    /// Locks objects for a commit. An error if the container was destroyed.
    pub(super) fn lock(&self, oids: &BTreeSet<ObjectId>) -> Result<Locks<'_>> {
        let directory = &self.pool.directory;
        let paths: BTreeSet<PathBuf> = oids.iter().map(|oid| self.container.object(*oid)).collect();
        Locks::take(&directory.thread_locks, &directory.files, &paths)?.ok_or_else(gone)
    }

    /// Fails if data has changed since it was read. `read` returns the digest of the present data.
    ///
    /// # Errors
    /// `TxRestart`.
    fn verify(&self, proofs: &[Proof], read: impl Fn(&Proof) -> Result<Digest>) -> Result<()> {
        proofs.iter().try_for_each(|proof| match read(proof)? == proof.digest {
            true => Ok(()),
            false => Err(changed_read_error()),
        })
    }

    /// The digest of data whose object this process has locked, so that no commit changes it.
    fn digest_under_lock(&self, proof: &Proof) -> Result<Digest> {
        let form = form(&self.pool.directory, &self.container, proof.oid);
        while_stale(is_stale, || form.digest(&proof.watched))
    }
}

/// True if this user may not create the lock of an object.
fn cannot_lock(error: &Error) -> bool {
    use ErrorKind::{AccessDenied, NoPermission, ReadOnly};
    let read_only = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem);
    read_only || matches!(error.kind(), NoPermission | AccessDenied | ReadOnly)
}

/// True if a change needs no commit: each of its writes takes effect atomically by itself, and the change does not
/// require that all take effect together.
fn is_plain(change: &Change<'_>) -> bool {
    let together = change.writes.len() > 1 && !change.one_by_one;
    !together && change.writes.iter().all(|write| Kind::from_oid(write.oid) != Kind::General)
}
