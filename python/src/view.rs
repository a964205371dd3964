//! The view of a handle: the latest state, a snapshot, or a transaction.
use crate::call::call;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use esker::types::Epoch;
use esker::{Access, Wait};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;

/// The state that a handle reads and changes.
#[derive(Clone)]
pub(crate) enum View {
    Latest,
    Snapshot(Epoch),
    Tx(Arc<esker::Transaction>),
}

/// The argument `at=` from users.
#[derive(FromPyObject)]
pub(crate) enum At<'py> {
    Snapshot(PyRef<'py, Snapshot>),
    Tx(PyRef<'py, Transaction>),
    Epoch(u64),
    Name(String),
}

impl View {
    pub(crate) fn access(&self) -> Access<'_> {
        match self {
            Self::Latest => Access::Latest,
            Self::Snapshot(epoch) => Access::Snapshot(*epoch),
            Self::Tx(transaction) => Access::Tx(transaction),
        }
    }

    /// The view that `at` selects; a snapshot must exist.
    pub(crate) fn open(
        py: Python<'_>,
        container: &esker::Container,
        at: Option<At<'_>>,
    ) -> PyResult<Self> {
        let name = match at {
            None => return Ok(Self::Latest),
            Some(At::Tx(transaction)) => return Ok(Self::Tx(transaction.shared())),
            Some(At::Snapshot(snapshot)) => snapshot.epoch.to_string(),
            Some(At::Epoch(epoch)) => epoch.to_string(),
            Some(At::Name(name)) => name,
        };
        call(py, || container.find_snapshot(&name).wait()).map(Self::Snapshot)
    }

    /// The epoch that identifies this view in other processes.
    pub(crate) fn pickled(&self) -> PyResult<Option<u64>> {
        match self {
            Self::Latest => Ok(None),
            Self::Snapshot(epoch) => Ok(Some(epoch.0)),
            Self::Tx(_) => Err(PyTypeError::new_err(
                "handles in a transaction cannot be pickled: a transaction belongs to its process",
            )),
        }
    }
}
