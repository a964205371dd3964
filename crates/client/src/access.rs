//! State of a container that an operation works on: the latest, a snapshot, or that of a transaction.
use crate::container::Container;
use crate::transaction::{Attempt, Transaction};
use esker_types::ops::{ReadAt, View};
use esker_types::{Epoch, Result};
use std::sync::Arc;

/// State that an operation reads, and destination of its writes (DAOS: the `th` argument).
#[derive(Clone, Copy, Default)]
pub enum Access<'a> {
    /// Reads see everything committed so far; writes take effect at once (DAOS: `DAOS_TX_NONE`).
    #[default]
    Latest,
    /// Reads see the snapshot of this epoch; writes fail with [`esker_types::ErrorKind::NoPermission`].
    Snapshot(Epoch),
    /// Reads are recorded, and the commit verifies that they still hold; writes are buffered until the commit. Reads
    /// do not see the transaction's own writes.
    Tx(&'a Transaction),
}

impl<'a> From<&'a Transaction> for Access<'a> {
    fn from(transaction: &'a Transaction) -> Self {
        Self::Tx(transaction)
    }
}

impl Access<'_> {
    /// The view of a read, for the backend.
    pub(crate) fn reading(self, container: &Container) -> Result<Reading> {
        match self {
            Self::Latest => Ok(Reading { view: View::Latest, attempt: None }),
            Self::Snapshot(epoch) => Ok(Reading { view: View::Snapshot(epoch), attempt: None }),
            Self::Tx(transaction) => transaction.reading(container),
        }
    }
}

/// One read: its view, and the attempt of the transaction that records it.
pub(crate) struct Reading {
    pub(crate) view: View,
    pub(crate) attempt: Option<Arc<Attempt>>,
}

impl Reading {
    /// The form that the backend takes.
    pub(crate) fn at(&self) -> ReadAt<'_> {
        let tokens = self.attempt.as_deref().map(Attempt::tokens);
        ReadAt { view: self.view, tokens }
    }
}
