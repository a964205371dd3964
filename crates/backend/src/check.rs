//! Checks of writes that do not depend on the stored state.
use esker_types::limits::{
    AKEYS_PER_OP_MAX, EXTENTS_PER_OP_MAX, RECORD_SIZE_MAX, SINGLE_VALUE_MAX,
};
use esker_types::ops::{ReadAt, Update, Value, View, Write, WriteOp, check_array_len};
use esker_types::{
    Error, ErrorKind, Extent, KeyKind, ObjectId, Result, check_key_length, key_to_u64,
};

/// Rejects a write that no backend can perform: invalid keys, buffers of the wrong size, exceeded limits.
///
/// # Errors
/// [`ErrorKind::Invalid`], [`ErrorKind::KeyTooBig`], [`ErrorKind::RecordTooBig`],
/// [`ErrorKind::Overflow`].
pub fn check_write(write: &Write<'_>) -> Result<()> {
    match write.op {
        WriteOp::Update { dkey, updates, .. } => {
            check_count("akeys", updates.len(), AKEYS_PER_OP_MAX)?;
            updates.iter().try_for_each(|update| {
                check_keys(write.oid, dkey, Some(update.akey))?;
                check_value(update)
            })?;
            check_keys(write.oid, dkey, None)
        }
        WriteOp::PunchObject { .. } => Ok(()),
        WriteOp::PunchDkey { dkey, .. } => check_keys(write.oid, dkey, None),
        WriteOp::PunchAkeys { dkey, akeys, .. } => {
            check_count("akeys", akeys.len(), AKEYS_PER_OP_MAX)?;
            akeys.iter().try_for_each(|akey| check_keys(write.oid, dkey, Some(akey)))?;
            check_keys(write.oid, dkey, None)
        }
    }
}

/// Rejects keys that `oid` cannot have.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an empty key or an integer that is not 8 bytes, [`ErrorKind::KeyTooBig`].
pub fn check_keys(oid: ObjectId, dkey: &[u8], akey: Option<&[u8]>) -> Result<()> {
    check_key(oid.dkey_kind(), dkey)?;
    akey.map_or(Ok(()), |akey| check_key(oid.akey_kind(), akey))
}

/// Fails if a key does not have the length that keys of its kind have.
fn check_key(kind: KeyKind, key: &[u8]) -> Result<()> {
    match kind {
        KeyKind::Integer => key_to_u64(key).map(drop),
        KeyKind::Bytes => check_key_length(key),
    }
}

/// Fails if the value of an update is too long, or its records have no size.
fn check_value(update: &Update<'_>) -> Result<()> {
    match update.value {
        Value::Single(data) => check_record("single value", data.len(), SINGLE_VALUE_MAX),
        Value::Array { record_size: 0, .. } => {
            Err(Error::new(ErrorKind::Invalid, "array records must have at least one byte"))
        }
        Value::Array { record_size, extents, data } => {
            check_record("record", record_size, RECORD_SIZE_MAX)?;
            check_count("extents", extents.len(), EXTENTS_PER_OP_MAX)?;
            check_array_len(record_size, extents, data.len()).map(drop)
        }
        Value::PunchExtents(extents) => {
            check_count("extents", extents.len(), EXTENTS_PER_OP_MAX)?;
            extents.iter().copied().try_for_each(Extent::check)
        }
    }
}

/// Fails with `RecordTooBig` if `what` has more than `most` bytes.
fn check_record(what: &str, bytes: u64, most: u64) -> Result<()> {
    match bytes <= most {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::RecordTooBig,
            format!("{what} of {bytes} bytes: the limit is {most}"),
        )
        .with_needed(most)),
    }
}

/// Fails if `count`, the number of items in one operation, is more than `most`. `what` names the items in the error.
///
/// # Errors
/// [`ErrorKind::Overflow`].
pub fn check_count(what: &str, count: usize, most: usize) -> Result<()> {
    match count <= most {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Overflow,
            format!("{count} {what} in one operation: the limit is {most}"),
        )),
    }
}

/// Rejects a view of a snapshot, for backends without snapshots; the message names them as `kind`.
///
/// # Errors
/// [`ErrorKind::NotFound`]: the snapshot does not exist.
pub fn check_latest(at: ReadAt<'_>, kind: &str) -> Result<()> {
    match at.view {
        View::Latest => Ok(()),
        View::Snapshot(epoch) => {
            let message = format!(
                "no snapshot at epoch {}: a {kind} pool does not support snapshots",
                epoch.0
            );
            Err(Error::new(ErrorKind::NotFound, message))
        }
    }
}
