//! Transactions: buffered writes and verified reads that commit together.
use crate::container::Container;
use crate::proof::Proof;
use esker_backend::OwnedWrites;
use esker_os::executor::Wait;
use esker_types::ops::{AkeyRef, Change, ReadAt, ReadTokens, View, Write};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A transaction over objects of one container. Pass it to operations as [`crate::Access::Tx`].
///
/// Writes are buffered in memory, in order, and take effect together at the commit. Reads see the committed state (or
/// the snapshot of the transaction), never the transaction's own writes. The commit fails with
/// [`ErrorKind::TxRestart`] if anything read has changed since. Then call [`Transaction::restart`] and repeat all
/// operations. Dropping a transaction without a commit discards it.
pub struct Transaction {
    container: Container,
    view: View,
    writable: bool,
    state: Mutex<TransactionState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionPhase {
    Open,
    Committing,
    Committed,
    /// A commit failed, or its future was dropped; [`Transaction::restart`] and [`Transaction::abort`] are allowed.
    Failed,
    Aborted,
}

struct TransactionState {
    phase: TransactionPhase,
    /// Epoch of the snapshot that is read, or of the committed writes.
    epoch: Option<Epoch>,
    attempt: Arc<Attempt>,
}

/// The reads and writes since the transaction was opened or restarted.
#[derive(Default)]
pub(crate) struct Attempt {
    /// Read versions, which the commit verifies.
    tokens: ReadTokens,
    writes: Mutex<OwnedWrites>,
}

impl Attempt {
    /// The versions of what was read so far, which the commit verifies.
    pub(crate) fn tokens(&self) -> &ReadTokens {
        &self.tokens
    }

    /// Locks the writes that wait for the commit.
    fn writes(&self) -> MutexGuard<'_, OwnedWrites> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Transactions of a container.
impl Container {
    /// A transaction that reads and writes.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if the backend has no transactions, [`ErrorKind::NoHandle`] if the container is
    /// closed.
    pub fn transaction(&self) -> Result<Transaction> {
        self.new_transaction(View::Latest, true)
    }

    /// Runs `work` in a transaction and commits it. Repeats both after conflicts, at most `most` times in all.
    ///
    /// # Errors
    /// [`ErrorKind::Again`] if each attempt met a conflict; those of `work` and of [`Container::transaction`].
    pub fn transact<T>(&self, most: u32, work: impl Fn(&Transaction) -> Result<T>) -> Result<T> {
        let transaction = self.transaction()?;
        for _ in 0..most {
            let result = work(&transaction)?;
            match transaction.commit().wait() {
                Ok(()) => return Ok(result),
                Err(error) if error.kind() == ErrorKind::TxRestart => transaction.restart()?,
                Err(error) => return Err(error),
            }
        }
        let text = format!("each of {most} attempts to commit met a conflict: try again");
        Err(Error::new(ErrorKind::Again, text))
    }

    /// A read-only transaction. Its commit verifies that all its reads were consistent.
    ///
    /// # Errors
    /// The errors of [`Container::transaction`].
    pub fn transaction_read_only(&self) -> Result<Transaction> {
        self.new_transaction(View::Latest, false)
    }

    /// A transaction that reads a snapshot (DAOS: `daos_tx_open_snap`).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no snapshot at `epoch`.
    pub async fn transaction_at(&self, epoch: Epoch) -> Result<Transaction> {
        self.check_snapshot(epoch).await?;
        Ok(Transaction::new(self.clone(), View::Snapshot(epoch), false))
    }

    /// Begins a transaction, if the pool has them.
    fn new_transaction(&self, view: View, writable: bool) -> Result<Transaction> {
        self.opened()?;
        if !self.capabilities().transactions {
            let message = format!(
                "container {} is on a pool without transactions: copy it to one made with `esker pool create`, or \
                 to one on Ceph (`esker cont copy`)",
                self.info().label
            );
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        Ok(Transaction::new(self.clone(), view, writable))
    }
}

impl Transaction {
    /// A transaction on `view` of the container that is open. Its epoch is set by the first read, or is the snapshot's.
    pub(crate) fn new(container: Container, view: View, writable: bool) -> Self {
        let epoch = match view {
            View::Latest => None,
            View::Snapshot(epoch) => Some(epoch),
        };
        let state =
            TransactionState { phase: TransactionPhase::Open, epoch, attempt: Arc::default() };
        Self { container, view, writable, state: Mutex::new(state) }
    }

    /// The container it belongs to.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// The epoch of its writes once it is committed, or of the snapshot it reads. `None` before the commit, and if it
    /// wrote nothing.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.state().epoch
    }

    /// True while it accepts operations: it is neither committed nor aborted, and no commit has failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state().phase == TransactionPhase::Open
    }

    /// Applies all writes, after verifying that all reads still hold. Without reads and writes it only ends the
    /// transaction.
    ///
    /// # Errors
    /// [`ErrorKind::TxRestart`] on a conflict; [`ErrorKind::Already`] if it is committed; [`ErrorKind::NoPermission`]
    /// if it was aborted or its last commit failed; errors of the writes, including their conditions. If it fails,
    /// nothing has changed.
    ///
    /// If the future is dropped before it is done, the writes take effect completely or not at all, and the caller
    /// cannot tell which: read the data, then call [`Transaction::restart`] or [`Transaction::abort`].
    pub async fn commit(&self) -> Result<()> {
        let attempt = self.begin_commit()?;
        let _guard = CommitGuard(self);
        let epoch = self.try_commit(&attempt).await?;
        let mut state = self.state();
        state.phase = TransactionPhase::Committed;
        state.epoch = state.epoch.or(epoch);
        Ok(())
    }

    /// Begins the commit, so that nothing can join the transaction any more. It fails if the transaction is not open.
    fn begin_commit(&self) -> Result<Arc<Attempt>> {
        let mut state = self.state();
        match state.phase {
            TransactionPhase::Open => {
                state.phase = TransactionPhase::Committing;
                Ok(Arc::clone(&state.attempt))
            }
            TransactionPhase::Committed | TransactionPhase::Committing => Err(already("committed")),
            TransactionPhase::Aborted => Err(refused("it was aborted")),
            TransactionPhase::Failed => Err(refused("its commit failed: restart or abort it")),
        }
    }

    /// Applies the writes on condition that the reads still hold. Returns the epoch of the writes, if there were any.
    /// Reads of a snapshot always hold.
    async fn try_commit(&self, attempt: &Attempt) -> Result<Option<Epoch>> {
        let buffer = std::mem::take(&mut *attempt.writes());
        let has_reads = self.view == View::Latest && !attempt.tokens.is_empty();
        if buffer.is_empty() && !has_reads {
            return Ok(None);
        }
        let opened = self.container.opened()?;
        let parts = buffer.parts();
        let writes = buffer.writes(&parts);
        let tokens = has_reads.then_some(&attempt.tokens);
        let epoch = opened.write(Change { tokens, ..Change::from_writes(&writes) }).await?;
        Ok((!writes.is_empty()).then_some(epoch))
    }

    /// Ends the transaction without any effect.
    ///
    /// # Errors
    /// [`ErrorKind::Already`] if it was aborted, [`ErrorKind::NoPermission`] if it is committed.
    pub fn abort(&self) -> Result<()> {
        let mut state = self.state();
        match state.phase {
            TransactionPhase::Open | TransactionPhase::Failed => {
                state.phase = TransactionPhase::Aborted;
                state.attempt = Arc::default();
                Ok(())
            }
            TransactionPhase::Aborted => Err(already("aborted")),
            TransactionPhase::Committed | TransactionPhase::Committing => {
                Err(refused("it is committed"))
            }
        }
    }

    /// Starts again after a failed commit: previous reads and writes are discarded.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] in any other state.
    pub fn restart(&self) -> Result<()> {
        let mut state = self.state();
        match state.phase {
            TransactionPhase::Failed => {
                state.phase = TransactionPhase::Open;
                state.attempt = Arc::default();
                Ok(())
            }
            _ => Err(refused("only a transaction whose commit failed can be restarted")),
        }
    }

    /// Proof of its reads so far; empty if it reads a snapshot, which never changes.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] if it has ended.
    pub fn proof(&self) -> Result<Proof> {
        let proof = Proof::default();
        self.open_attempt(&self.container)?.tokens.map(|token| proof.tokens().add(token));
        Ok(proof)
    }

    /// The view for a read in this transaction, and the attempt that records it.
    pub(crate) fn reading(&self, container: &Container) -> Result<Reading> {
        let attempt = self.open_attempt(container)?;
        let attempt = (self.view == View::Latest).then_some(attempt);
        Ok(Reading { view: self.view, attempt })
    }

    /// Copies `writes` to the buffer for the commit, all or none.
    pub(crate) fn buffer(&self, container: &Container, writes: &[Write<'_>]) -> Result<()> {
        if !self.writable {
            return Err(refused("it is read-only"));
        }
        // The lock on the state is held: a commit that began meanwhile would take the writes without these.
        self.open_state(container)?.attempt.writes().add(writes)
    }

    /// The dkeys of an object under which it is about to write something; not sorted.
    pub(crate) fn buffered_dkeys(&self, oid: ObjectId) -> Result<Vec<Vec<u8>>> {
        let attempt = self.open_attempt(&self.container)?;
        let writes = attempt.writes();
        Ok(writes.updated_dkeys(oid).map(<[u8]>::to_vec).collect())
    }

    /// True if it is about to store a record of an array, false if it is about to remove it, `None` if it does not
    /// change it.
    pub(crate) fn buffered_record(
        &self,
        oid: ObjectId,
        key: AkeyRef<'_>,
        record: u64,
    ) -> Result<Option<bool>> {
        let attempt = self.open_attempt(&self.container)?;
        let writes = attempt.writes();
        Ok(writes.stores_record(oid, key, record))
    }

    /// The attempt that an operation on `container` joins: its reads and writes are recorded there.
    ///
    /// # Errors
    /// `Invalid` if the transaction belongs to another container, `NoPermission` if it has ended.
    fn open_attempt(&self, container: &Container) -> Result<Arc<Attempt>> {
        Ok(Arc::clone(&self.open_state(container)?.attempt))
    }

    /// Locks the state for an operation on `container`. The transaction stays open until the lock is released.
    ///
    /// # Errors
    /// The errors of [`Transaction::open_attempt`].
    fn open_state(&self, container: &Container) -> Result<MutexGuard<'_, TransactionState>> {
        if !self.container.is_same(container) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the transaction belongs to another container",
            ));
        }
        let state = self.state();
        match state.phase {
            TransactionPhase::Open => Ok(state),
            _ => Err(refused("it has ended")),
        }
    }

    /// Locks the state: its phase and the current attempt.
    fn state(&self) -> MutexGuard<'_, TransactionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One read: its view, and the attempt of the transaction that records it.
pub(crate) struct Reading {
    pub(crate) view: View,
    pub(crate) attempt: Option<Arc<Attempt>>,
}

impl Reading {
    /// The view and the transaction's list of read versions, in the form that the backend trait takes.
    pub(crate) fn at(&self) -> ReadAt<'_> {
        let tokens = self.attempt.as_deref().map(Attempt::tokens);
        ReadAt { view: self.view, tokens }
    }
}

/// A commit in progress: if it ends early, because of an error, a panic or a dropped future, the transaction can be
/// restarted.
struct CommitGuard<'t>(&'t Transaction);

impl Drop for CommitGuard<'_> {
    /// Marks a commit that did not end in success as failed.
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.phase == TransactionPhase::Committing {
            state.phase = TransactionPhase::Failed;
        }
    }
}

/// The error for ending a transaction twice in the same way.
#[cold]
fn already(what: &str) -> Error {
    Error::new(ErrorKind::Already, format!("the transaction was already {what}"))
}

/// The error for an operation that the state of the transaction does not allow.
#[cold]
fn refused(why: &str) -> Error {
    Error::new(ErrorKind::NoPermission, format!("transaction: {why}"))
}
