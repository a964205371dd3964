//! Transactions, and views of snapshots.
use crate::binding::call::Calls;
use crate::binding::container::{Container, ContainerHandle};
use crate::binding::failure::{self, Request};
use crate::binding::layout::RawHandle;
use crate::binding::library::{Ev, Functions};
use crate::binding::start::check_process;
use esker_types::Result;
use std::ptr;
use std::sync::Arc;

/// A transaction, or the view of a snapshot. Dropping it without a commit discards it.
#[derive(Clone)]
pub struct Tx(pub(crate) Arc<TxHandle>);

pub(crate) struct TxHandle {
    calls: Calls,
    pub(crate) handle: RawHandle,
    _container: Arc<ContainerHandle>,
}

impl Drop for TxHandle {
    fn drop(&mut self) {
        if check_process().is_ok() {
            // SAFETY: nothing uses the handle any more. Closing is local, and discards what is not committed.
            unsafe { (self.calls.functions().daos_tx_close)(self.handle, ptr::null_mut()) };
        }
    }
}

impl Container {
    /// Opens a transaction.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub fn transaction(&self) -> Result<Tx> {
        self.open_tx("opening a transaction", |functions, handle, th| {
            // SAFETY: opening is local; it sets the handle.
            unsafe { (functions.daos_tx_open)(handle, th, 0, ptr::null_mut()) }
        })
    }

    /// Opens the view of a snapshot.
    ///
    /// # Errors
    /// Errors of DAOS, which does not always report that the snapshot does not exist.
    pub fn at(&self, epoch: u64) -> Result<Tx> {
        self.open_tx("opening a snapshot", |functions, handle, th| {
            // SAFETY: opening is local; it sets the handle.
            unsafe { (functions.daos_tx_open_snap)(handle, epoch, th, ptr::null_mut()) }
        })
    }

    /// Opens a transaction by `open`, a function of libdaos. Its arguments are the functions, the handle of the
    /// container, and the handle to set. `doing` describes it in errors.
    fn open_tx(
        &self,
        doing: &str,
        open: impl FnOnce(&Functions, RawHandle, *mut RawHandle) -> i32,
    ) -> Result<Tx> {
        check_process()?;
        let (calls, mut handle) = (self.0.calls, RawHandle::NONE);
        let code = open(calls.functions(), self.0.handle, &raw mut handle);
        failure::check(code, Request::Commit.doing(doing))?;
        Ok(Tx(Arc::new(TxHandle { calls, handle, _container: Arc::clone(&self.0) })))
    }
}

impl Tx {
    /// Commits it, and returns the epoch of its changes; 0 if DAOS does not report it.
    ///
    /// # Errors
    /// `TxRestart` on a conflict; errors of its operations, whose conditions are checked now.
    pub async fn commit(&self) -> Result<u64> {
        let (calls, handle) = (self.0.calls, self.0.handle);
        // SAFETY: the transaction is open.
        let launch = |functions: &Functions, _: &mut Arc<TxHandle>, event: Ev| unsafe {
            (functions.daos_tx_commit)(handle, event)
        };
        calls
            .run_checked(
                Request::Commit.doing("committing a transaction"),
                Arc::clone(&self.0),
                launch,
            )
            .await?;
        let mut epoch = 0;
        // SAFETY: the call is local, and sets the epoch.
        let code = unsafe { (calls.functions().daos_tx_hdl2epoch)(handle, &raw mut epoch) };
        Ok(if code == 0 { epoch } else { 0 })
    }
}

/// The handle to pass for an optional transaction.
pub(crate) fn handle_of(tx: Option<&Tx>) -> RawHandle {
    tx.map_or(RawHandle::NONE, |tx| tx.0.handle)
}
