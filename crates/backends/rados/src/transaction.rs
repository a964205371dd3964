//! Atomic changes to several RADOS objects (docs/format.md, "The rados layout").
//!
//! First a record of all changes is written. Then each object is locked for the transaction, if its conditions hold.
//! Then the record's state changes from pending to committed: this is the commit. Then each object is changed and
//! unlocked. A client that finds an object locked completes the transaction if it is committed, and aborts it if it
//! stays pending, so that a dead client blocks nobody.
use super::names::{self, CREATED, LOCK, STATE};
use super::patch::{Base, Patch};
use super::space::{ABSENT, EXISTS, Outcome, Space, contended_error, is_conflict};
use crate::join_all;
use crate::librados::{Compare, IoContext, ReadOp, WriteOp};
use esker_backend::encoding::{Parts, begin, finish};
use esker_os::executor::{Task, task};
use esker_types::limits::{RADOS_TRIES_MAX, RADOS_TX_BYTES_MAX};
use esker_types::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

const MAGIC: &[u8; 8] = b"ESKRRTXN";
/// States of a transaction.
const PENDING: &[u8] = b"p";
const COMMITTED: &[u8] = b"c";
const ABORTED: &[u8] = b"a";

/// How long to wait for a pending transaction of another client before aborting it.
const PENDING_TIMEOUT: Duration = Duration::from_millis(500);

/// Most bytes of keys and values that a transaction may set and still count as one that frees space. The removal of a
/// file also sets the time of its directory.
const FREEING_SETS_MAX: usize = 64 << 10;

/// The state of the transaction that has locked an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// The transaction is pending and has changed nothing yet.
    Pending,
    /// The transaction has ended: read the object again.
    Resolved,
}

/// The record of a transaction.
struct TransactionRecord {
    state: Vec<u8>,
    patches: Vec<Patch<'static>>,
}

impl Space {
    /// Applies all patches or none. One patch is atomic by itself; several are locked, decided by a record, and then
    /// applied.
    pub(super) async fn commit(&self, mut patches: Vec<Patch<'_>>) -> Result<Outcome> {
        if patches.len() < 2 {
            return match patches.pop() {
                Some(patch) if patch.is_proof_only() => self.verify(&patch).await,
                Some(patch) => self.apply(&patch).await,
                None => Ok(Outcome::Done),
            };
        }
        patches.sort_by(|a, b| a.object.cmp(&b.object));
        let id = esker_os::random_bytes::<16>()?;
        self.begin(&id, &patches).await?;
        let outcome = self.lock_all(&id, &patches).await;
        match outcome {
            Ok(Outcome::Done) if self.set_state(&id, COMMITTED).await? => {
                self.finish(&id, &patches).await.map_err(not_applied_error)?;
                Ok(Outcome::Done)
            }
            other => {
                // If another client has set the state before, it has aborted the transaction, too.
                self.set_state(&id, ABORTED).await?;
                self.unlock_all(&id, &patches).await?;
                other.map(|_| Outcome::Conflict)
            }
        }
    }

    /// Writes the record of a transaction before it locks anything, so that other clients can resolve it.
    async fn begin(&self, id: &[u8], patches: &[Patch<'_>]) -> Result<()> {
        let bytes: usize = patches.iter().map(Patch::bytes).sum();
        if bytes > RADOS_TX_BYTES_MAX {
            return Err(transaction_too_large_error(bytes));
        }
        let mut record = begin(MAGIC);
        esker_backend::encoding::put_u32(&mut record, patches.len() as u32);
        patches.iter().for_each(|patch| patch.put(&mut record));
        let object = names::transaction(id);
        let mut op = WriteOp::new()?;
        op.create_new().write_full(&finish(record)).set([(STATE, PENDING)]);
        if frees_space(patches) {
            op.force_if_full();
        }
        let done = self.io.write(&object, op).await;
        done.map(drop).map_err(|code| IoContext::error(code, "writing", &object))
    }

    /// Locks all objects for the transaction, in their order.
    async fn lock_all(&self, id: &[u8], patches: &[Patch<'_>]) -> Result<Outcome> {
        let force = frees_space(patches);
        for patch in patches {
            if self.lock(id, patch, force).await? == Outcome::Conflict {
                return Ok(Outcome::Conflict);
            }
        }
        Ok(Outcome::Done)
    }

    /// Locks an object for the transaction, and resolves other transactions that have locked it. `force`: also if the
    /// pool is full.
    async fn lock(&self, id: &[u8], patch: &Patch<'_>, force: bool) -> Result<Outcome> {
        let mut is_missing = patch.base == Base::Absent;
        for _ in 0..RADOS_TRIES_MAX {
            let mut op = patch.lock(id, is_missing)?;
            if force {
                op.force_if_full();
            }
            match self.io.write(&patch.object, op).await {
                Ok(_) => return Ok(Outcome::Done),
                // The object does not exist, or another client has created it meanwhile.
                Err(ABSENT) if patch.base == Base::Any && !is_missing => is_missing = true,
                Err(EXISTS) if patch.base == Base::Any => is_missing = false,
                Err(code) if is_conflict(code) => match self.lock_of(&patch.object).await? {
                    Some(other) => self.resolve_for_writing(&patch.object, &other).await?,
                    None => return Ok(Outcome::Conflict),
                },
                Err(code) => return Err(IoContext::error(code, "writing", &patch.object)),
            }
        }
        Err(contended_error(&patch.object))
    }

    /// Changes the state of a pending transaction; false if it is not pending any more.
    async fn set_state(&self, id: &[u8], state: &[u8]) -> Result<bool> {
        let object = names::transaction(id);
        let mut op = WriteOp::new()?;
        op.add_comparison(STATE, Compare::Equal, PENDING).set([(STATE, state)]);
        match self.io.write(&object, op).await {
            Ok(_) => Ok(true),
            Err(code) if is_conflict(code) => Ok(false),
            Err(code) => Err(IoContext::error(code, "writing", &object)),
        }
    }

    /// Applies the changes of a committed transaction, except those already applied.
    async fn finish(&self, id: &[u8], patches: &[Patch<'_>]) -> Result<()> {
        let steps = patches.iter().map(|patch| task(self.finish_object(id, patch)));
        self.end(id, steps.collect()).await
    }

    /// Applies the changes to one object, and unlocks it.
    async fn finish_object(&self, id: &[u8], patch: &Patch<'_>) -> Result<()> {
        match patch.is_proof_only() {
            true => self.unlock(&patch.object, id).await,
            false => self.write_unless_done(&patch.object, patch.finish(id)?).await,
        }
    }

    /// Unlocks the objects of an aborted transaction.
    async fn unlock_all(&self, id: &[u8], patches: &[Patch<'_>]) -> Result<()> {
        let steps = patches.iter().map(|patch| task(self.unlock(&patch.object, id)));
        self.end(id, steps.collect()).await
    }

    /// Unlocks an object that the transaction does not change. Removes it if the lock has created it.
    async fn unlock(&self, object: &str, id: &[u8]) -> Result<()> {
        match self.io.write(object, unlock_op(id)?).await {
            Ok(_) => Ok(()),
            Err(code) if is_conflict(code) => {
                self.write_unless_done(object, remove_created_op(id)?).await
            }
            Err(code) => Err(IoContext::error(code, "writing", object)),
        }
    }

    /// Performs the last steps on all objects, then removes the record.
    async fn end(&self, id: &[u8], steps: Vec<Task<'_, Result<()>>>) -> Result<()> {
        join_all(steps).await.into_iter().collect::<Result<()>>()?;
        // No object is locked any more, so nobody reads a record that stays. It only uses space.
        let _ = self.remove(&names::transaction(id)).await;
        Ok(())
    }

    /// Performs an operation, unless another client has done so before.
    async fn write_unless_done(&self, object: &str, op: WriteOp) -> Result<()> {
        match self.io.write(object, op).await {
            Ok(_) => Ok(()),
            Err(code) if is_conflict(code) => Ok(()),
            Err(code) => Err(IoContext::error(code, "writing", object)),
        }
    }

    /// The record of a transaction; `None` if the transaction has ended and its record is removed.
    async fn record_of(&self, id: &[u8]) -> Result<Option<TransactionRecord>> {
        let object = names::transaction(id);
        let mut op = ReadOp::new()?;
        // The limit counts keys and values. The record is longer by less than 1 MiB.
        op.keys(&[STATE]).data(0, RADOS_TX_BYTES_MAX + (1 << 20));
        let found = match self.io.read(&object, op).await {
            Ok(found) => found,
            Err(code) if is_conflict(code) => return Ok(None),
            Err(code) => return Err(IoContext::error(code, "reading", &object)),
        };
        let state = found.entries.into_iter().next().map(|entry| entry.value).unwrap_or_default();
        let patches =
            read_patches(&found.data).ok_or_else(|| damaged_transaction_error(&object))?;
        Ok(Some(TransactionRecord { state, patches }))
    }

    /// Resolves the transaction `id`, which a reader has found to lock `object`. A pending one stays: the reader sees
    /// the state before it.
    pub(super) async fn resolve_for_reading(&self, object: &str, id: &[u8]) -> Result<Resolution> {
        match self.record_of(id).await? {
            Some(record) if record.state == PENDING => Ok(Resolution::Pending),
            record => self.resolve(object, id, record).await.map(|()| Resolution::Resolved),
        }
    }

    /// Waits until the transaction `id` does not lock the object any more. After [`PENDING_TIMEOUT`], aborts it.
    pub(super) async fn resolve_for_writing(&self, object: &str, id: &[u8]) -> Result<()> {
        let since = Instant::now();
        loop {
            match self.record_of(id).await? {
                Some(record) if record.state == PENDING => {
                    if since.elapsed() > PENDING_TIMEOUT {
                        self.set_state(id, ABORTED).await?;
                    }
                }
                record => return self.resolve(object, id, record).await,
            }
        }
    }

    /// Finishes a transaction that is not pending: applies its changes if it was committed, else removes its locks.
    /// Without a record it has ended, and may only lock `object` still.
    async fn resolve(
        &self,
        object: &str,
        id: &[u8],
        record: Option<TransactionRecord>,
    ) -> Result<()> {
        match record {
            Some(record) if record.state == COMMITTED => self.finish(id, &record.patches).await,
            Some(record) => self.unlock_all(id, &record.patches).await,
            // Its client locked the object after another client had aborted the transaction, or has just unlocked it.
            None => self.unlock(object, id).await,
        }
    }
}

/// True if the patches remove something and set little. On a full pool, only such a transaction may add a record, because
/// nothing could be removed otherwise.
fn frees_space(patches: &[Patch<'_>]) -> bool {
    let removes = patches.iter().any(|patch| patch.remove || !patch.unsets.is_empty());
    removes && patches.iter().map(Patch::set_bytes).sum::<usize>() <= FREEING_SETS_MAX
}

/// Unlocks an object if the transaction has locked it, and the object existed before.
fn unlock_op(id: &[u8]) -> Result<WriteOp> {
    let mut op = WriteOp::new()?;
    op.add_comparison(LOCK, Compare::Equal, id).add_comparison(CREATED, Compare::Equal, b"");
    op.unset(&[LOCK]);
    Ok(op)
}

/// Removes an object if the lock of the transaction has created it.
fn remove_created_op(id: &[u8]) -> Result<WriteOp> {
    let mut op = WriteOp::new()?;
    op.add_comparison(LOCK, Compare::Equal, id).add_comparison(CREATED, Compare::Greater, b"");
    op.remove();
    Ok(op)
}

/// Decodes the patches of a transaction, or `None` if the record is damaged.
fn read_patches(record: &[u8]) -> Option<Vec<Patch<'static>>> {
    let mut parts = Parts::open(MAGIC, record)?;
    let count = parts.u32()?;
    (0..count).map(|_| Patch::take(&mut parts)).collect()
}

#[cold]
fn transaction_too_large_error(bytes: usize) -> Error {
    let message = format!(
        "a transaction with {bytes} bytes of keys, records and small values: a rados pool allows \
         {RADOS_TX_BYTES_MAX} (RADOS_TX_BYTES_MAX): use smaller transactions"
    );
    Error::new(ErrorKind::Overflow, message).with_needed(bytes as u64)
}

/// The error of a transaction that is committed, but not applied to all its objects. After a timeout, the caller must
/// expect that in any case.
#[cold]
fn not_applied_error(cause: Error) -> Error {
    if cause.kind() == ErrorKind::TimedOut {
        return cause;
    }
    let message = format!(
        "the change is committed, but not yet visible, because its RADOS objects could not be changed: the next client that \
         uses them completes it: read them before you repeat the change ({cause})"
    );
    Error::new(ErrorKind::TxUncertain, message)
}

#[cold]
fn damaged_transaction_error(object: &str) -> Error {
    let message =
        format!("the transaction in RADOS object {object} is damaged: see `ceph health detail`");
    Error::new(ErrorKind::Corrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_transaction_is_not_reported_as_failed() {
        let kind = |cause: ErrorKind| not_applied_error(cause.into()).kind();
        assert_eq!(kind(ErrorKind::NoSpace), ErrorKind::TxUncertain);
        assert_eq!(kind(ErrorKind::NoPermission), ErrorKind::TxUncertain);
        assert_eq!(kind(ErrorKind::TimedOut), ErrorKind::TimedOut);
    }

    #[test]
    fn patches_round_trip_and_damage_is_detected() {
        let mut patch = Patch::for_object("o.1");
        patch.sets.push((b"k".to_vec(), b"v".to_vec()));
        patch.unsets.push(b"u".to_vec());
        let gone = Patch { remove: true, ..Patch::for_object("o.2") };
        let mut record = begin(MAGIC);
        esker_backend::encoding::put_u32(&mut record, 2);
        [&patch, &gone].into_iter().for_each(|patch| patch.put(&mut record));
        let record = finish(record);
        let read = read_patches(&record).unwrap();
        assert_eq!(
            (read.len(), read[0].sets.clone(), read[0].unsets.clone()),
            (2, patch.sets, patch.unsets)
        );
        assert!(read[1].remove && read[1].object == "o.2");
        (0..record.len()).for_each(|len| assert!(read_patches(&record[..len]).is_none()));
    }
}
