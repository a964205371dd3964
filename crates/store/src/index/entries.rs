//! Iterates over the entries of an index under a prefix.
use super::txn::Txn;
use crate::format::keys::{Key, Table};
use esker_types::Result;

/// Copies of entries: pairs of key and value.
pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns up to `entries_max` entries under a prefix, from key `from` on.
pub(crate) fn take(txn: &Txn, prefix: &[u8], from: &[u8], entries_max: usize) -> Result<Entries> {
    let mut cursor = txn.cursor()?;
    let mut entry = cursor.seek(from)?;
    let mut found = Entries::new();
    while let Some((key, value)) =
        entry.filter(|(key, _)| key.starts_with(prefix) && found.len() < entries_max)
    {
        found.push((key.to_vec(), value.to_vec()));
        entry = cursor.next()?;
    }
    Ok(found)
}

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

/// True if the index has an entry under a prefix.
pub(crate) fn exists(txn: &Txn, prefix: &[u8]) -> Result<bool> {
    let first = txn.cursor()?.seek(prefix)?;
    Ok(first.is_some_and(|(key, _)| key.starts_with(prefix)))
}
