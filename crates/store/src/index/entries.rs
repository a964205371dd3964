//! Iterates over the entries of an index under a prefix.
use super::txn::Txn;
use crate::format::keys::{Key, Table};
use esker_types::Result;

/// Visits all entries under a prefix.
pub(crate) fn each(
    txn: &Txn,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut cursor = txn.cursor()?;
    let mut entry = cursor.seek(prefix)?;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(prefix)) {
        visit(key, value)?;
        entry = cursor.next()?;
    }
    Ok(())
}

/// Visits every key of a table, with its value.
pub(crate) fn table(txn: &Txn, table: Table, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
    each(txn, &Key::table(table), |key, value| {
        visit(key, value);
        Ok(())
    })
}

/// True if an index has anything under a prefix.
pub(crate) fn exists(txn: &Txn, prefix: &[u8]) -> Result<bool> {
    let first = txn.cursor()?.seek(prefix)?;
    Ok(first.is_some_and(|(key, _)| key.starts_with(prefix)))
}
