//! Transactions: writes that wait for one commit, reads that are proven unchanged at it.

use crate::access::Reading;
use crate::container::Container;
use esker_backend::OwnedWrites;
use esker_types::ops::{Change, ReadTokens, View, Write};
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A transaction over objects of one container. Give it to operations as
/// [`crate::Access::Tx`].
///
/// Writes are kept in memory, in order, and take effect together at the commit. Reads see what is
/// committed (or the snapshot of the transaction), never its own writes; the commit fails with
/// [`ErrorKind::TxRestart`] where anything read has changed since. Then [`Transaction::restart`], and
/// all operations once more. A transaction dropped without a commit does nothing.
pub struct Transaction {
    container: Container,
    view: View,
    writable: bool,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Committing,
    Committed,
    /// A commit failed, or nobody waited for its end; [`Transaction::restart`] and
    /// [`Transaction::abort`] are allowed.
    Failed,
    Aborted,
}

struct State {
    phase: Phase,
    epoch: Option<Epoch>,
    attempt: Arc<Attempt>,
}

/// What was done since the transaction was opened or restarted.
#[derive(Default)]
pub(crate) struct Attempt {
    tokens: ReadTokens,
    writes: Mutex<OwnedWrites>,
}

impl Attempt {
    pub(crate) fn tokens(&self) -> &ReadTokens {
        &self.tokens
    }

    fn writes(&self) -> MutexGuard<'_, OwnedWrites> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transaction {
    pub(crate) fn new(container: Container, view: View, writable: bool) -> Self {
        let epoch = match view {
            View::Latest => None,
            View::Snapshot(epoch) => Some(epoch),
        };
        let state = State { phase: Phase::Open, epoch, attempt: Arc::default() };
        Self { container, view, writable, state: Mutex::new(state) }
    }

    /// The container it works on.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// The epoch of its writes once it is committed, or of the snapshot it reads. `None` before the
    /// commit, and for one that wrote nothing.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.state().epoch
    }

    /// True as long as it takes operations: neither committed nor aborted, and no commit has failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state().phase == Phase::Open
    }

    /// Makes all writes take effect, after proving that all reads still hold. Without either it
    /// only ends the transaction.
    ///
    /// # Errors
    /// [`ErrorKind::TxRestart`] on a conflict; [`ErrorKind::Already`] where it is committed;
    /// [`ErrorKind::NoPermission`] where it was aborted or its last commit failed; what a write
    /// meets, its conditions included. After a failure nothing was changed.
    ///
    /// Where the future is dropped before it is done, the writes take effect as a whole or not at all,
    /// and which is not known here: look, then [`Transaction::restart`] or [`Transaction::abort`].
    pub async fn commit(&self) -> Result<()> {
        let attempt = self.begin_commit()?;
        let _unless_done = FailsUnlessDone(self);
        let epoch = self.try_commit(&attempt).await?;
        let mut state = self.state();
        state.phase = Phase::Committed;
        state.epoch = state.epoch.or(epoch);
        Ok(())
    }

    fn begin_commit(&self) -> Result<Arc<Attempt>> {
        let mut state = self.state();
        match state.phase {
            Phase::Open => {
                state.phase = Phase::Committing;
                Ok(Arc::clone(&state.attempt))
            }
            Phase::Committed | Phase::Committing => Err(already("committed")),
            Phase::Aborted => Err(refused("it was aborted")),
            Phase::Failed => Err(refused("its commit failed: restart or abort it")),
        }
    }

    /// The epoch of the writes, where there were any.
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
        let epoch = opened.write(Change { writes: &writes, tokens, id: None }).await?;
        Ok((!writes.is_empty()).then_some(epoch))
    }

    /// Ends the transaction without any effect.
    ///
    /// # Errors
    /// [`ErrorKind::Already`] where it was aborted, [`ErrorKind::NoPermission`] where it is committed.
    pub fn abort(&self) -> Result<()> {
        let mut state = self.state();
        match state.phase {
            Phase::Open | Phase::Failed => {
                state.phase = Phase::Aborted;
                state.attempt = Arc::default();
                Ok(())
            }
            Phase::Aborted => Err(already("aborted")),
            Phase::Committed | Phase::Committing => Err(refused("it is committed")),
        }
    }

    /// Begins anew after a failed commit: reads and writes are forgotten.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] in any other state.
    pub fn restart(&self) -> Result<()> {
        let mut state = self.state();
        match state.phase {
            Phase::Failed => {
                state.phase = Phase::Open;
                state.attempt = Arc::default();
                Ok(())
            }
            _ => Err(refused("only one whose commit failed can be restarted")),
        }
    }

    /// How a read in this transaction is done.
    pub(crate) fn reading(&self, container: &Container) -> Result<Reading> {
        let attempt = self.open_attempt(container)?;
        let attempt = (self.view == View::Latest).then_some(attempt);
        Ok(Reading { view: self.view, attempt })
    }

    /// Keeps copies of `writes` for the commit: all of them or none.
    pub(crate) fn buffer(&self, container: &Container, writes: &[Write<'_>]) -> Result<()> {
        if !self.writable {
            return Err(refused("it only reads"));
        }
        self.open_attempt(container)?.writes().add(writes)
    }

    fn open_attempt(&self, container: &Container) -> Result<Arc<Attempt>> {
        if !self.container.is_same(container) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the transaction belongs to another container",
            ));
        }
        let state = self.state();
        match state.phase {
            Phase::Open => Ok(Arc::clone(&state.attempt)),
            _ => Err(refused("it is over")),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A commit under way: whatever ends it before it is done, an error, a panic or nobody waiting for it
/// any more, leaves a transaction that can be restarted.
struct FailsUnlessDone<'t>(&'t Transaction);

impl Drop for FailsUnlessDone<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.phase == Phase::Committing {
            state.phase = Phase::Failed;
        }
    }
}

#[cold]
fn already(what: &str) -> Error {
    Error::new(ErrorKind::Already, format!("the transaction was {what} before"))
}

#[cold]
fn refused(why: &str) -> Error {
    Error::new(ErrorKind::NoPermission, format!("transaction: {why}"))
}
