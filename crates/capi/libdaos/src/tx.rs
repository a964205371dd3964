//! Transactions (`daos_api.h`).
use crate::abi::{Event, Handle, Ptr};
use crate::code::{Code, Result};
use crate::handles::{self, Entry, kind};
use crate::strict;
use crate::{boundary, object_table};
use esker::Transaction;
use esker::types::Epoch;
use std::ffi::c_int;

/// `DAOS_TF_RDONLY`.
const READ_ONLY: u64 = 0x1;
/// `DAOS_TF_ZERO_COPY`: permission to avoid copies, which the library need not use.
const ZERO_COPY: u64 = 0x2;

/// Opens a transaction. `flags` are `DAOS_TF_*`.
#[unsafe(no_mangle)]
pub extern "C" fn daos_tx_open(coh: Handle, th: Ptr<Handle>, flags: u64, ev: Ptr<Event>) -> c_int {
    boundary::complete_now(ev, || {
        let container = handles::container(coh)?;
        th.needed()?;
        if flags & !(READ_ONLY | ZERO_COPY) != 0 {
            return Err(Code::INVAL);
        }
        let container = &container.container;
        open_handle(
            th,
            match flags & READ_ONLY {
                0 => container.transaction()?,
                _ => container.transaction_read_only()?,
            },
        )
    })
}

/// Stores a new handle of a transaction in `th`.
fn open_handle(th: Ptr<Handle>, transaction: Transaction) -> Result<()> {
    th.set(handles::open(Entry::Tx(transaction))?);
    Ok(())
}

/// Opens a transaction that reads a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn daos_tx_open_snap(
    coh: Handle,
    epoch: u64,
    th: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let container = handles::container(coh)?;
        Ok(async move {
            th.needed()?;
            if epoch == 0 {
                return Err(Code::INVAL);
            }
            let (container, epoch) = (&container.container, Epoch(epoch));
            if !container.capabilities().snapshots && object_table::exists(container, epoch).await?
            {
                // The data of objects in a stored table cannot be read as of its epoch.
                return Err(Code::NOTSUPPORTED);
            }
            open_handle(th, container.transaction_at(epoch).await?)
        })
    })
}

/// Commits a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn daos_tx_commit(th: Handle, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let transaction = handles::transaction(th)?;
        Ok(async move {
            let buffered = strict::akeys::take(&transaction);
            transaction.commit().await?;
            strict::akeys::check_committed(transaction.container(), buffered).await
        })
    })
}

/// Aborts a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn daos_tx_abort(th: Handle, ev: Ptr<Event>) -> c_int {
    boundary::complete_now(ev, || {
        let transaction = handles::transaction(th)?;
        // Forgets its recorded changes.
        strict::akeys::take(&transaction);
        Ok(transaction.abort()?)
    })
}

/// Closes a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn daos_tx_close(th: Handle, ev: Ptr<Event>) -> c_int {
    boundary::complete_now(ev, || {
        if let Ok(transaction) = handles::transaction(th) {
            // Forgets its recorded changes.
            strict::akeys::take(&transaction);
        }
        handles::close(th.cookie, &[kind::TX]).map(drop)
    })
}

/// Restarts a transaction after a conflict.
#[unsafe(no_mangle)]
pub extern "C" fn daos_tx_restart(th: Handle, ev: Ptr<Event>) -> c_int {
    boundary::complete_now(ev, || {
        let transaction = handles::transaction(th)?;
        // Forgets its recorded changes.
        strict::akeys::take(&transaction);
        Ok(transaction.restart()?)
    })
}

/// Returns the epoch of a transaction. `UNINIT` before its commit, and if it wrote nothing.
#[unsafe(no_mangle)]
pub extern "C" fn daos_tx_hdl2epoch(th: Handle, epoch: Ptr<u64>) -> c_int {
    boundary::now(|| {
        let transaction = handles::transaction(th)?;
        epoch.needed()?.set(transaction.epoch().ok_or(Code::UNINIT)?.0);
        Ok(())
    })
}
