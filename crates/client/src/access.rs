//! How an operation meets the state of a container: at once, in a snapshot, or in a transaction.
use crate::container::Container;
use crate::transaction::{Attempt, Transaction};
use esker_types::ops::{ReadAt, View};
use esker_types::{Epoch, Result};
use std::sync::Arc;

/// What an operation sees and where its changes go (DAOS: the `th` argument).
#[derive(Clone, Copy, Default)]
pub enum Access<'a> {
    /// Reads see everything committed so far; writes take effect at once (DAOS: `DAOS_TX_NONE`).
    #[default]
    Latest,
    /// Reads see the snapshot of this epoch; writes are refused with
    /// [`esker_types::ErrorKind::NoPermission`].
    Snapshot(Epoch),
    /// Reads are noted and proven unchanged at the commit; writes wait for the commit. Reads do not
    /// see the transaction's own writes.
    Tx(&'a Transaction),
}

impl<'a> From<&'a Transaction> for Access<'a> {
    fn from(transaction: &'a Transaction) -> Self {
        Self::Tx(transaction)
    }
}

impl Access<'_> {
    /// What the backend has to know to read.
    pub(crate) fn reading(self, container: &Container) -> Result<Reading> {
        match self {
            Self::Latest => Ok(Reading { view: View::Latest, attempt: None }),
            Self::Snapshot(epoch) => Ok(Reading { view: View::Snapshot(epoch), attempt: None }),
            Self::Tx(transaction) => transaction.reading(container),
        }
    }
}

/// One read: its view, and the attempt of the transaction that notes it.
pub(crate) struct Reading {
    pub(crate) view: View,
    pub(crate) attempt: Option<Arc<Attempt>>,
}

impl Reading {
    /// The form the backend takes.
    pub(crate) fn at(&self) -> ReadAt<'_> {
        let tokens = self.attempt.as_deref().map(Attempt::tokens);
        ReadAt { view: self.view, tokens }
    }
}
