//! What can be refused about a write without looking at what is stored.
use esker_types::limits::{
    AKEYS_PER_OP_MAX, EXTENTS_PER_OP_MAX, KEY_MAX, KEY_PAIR_MAX, RECORD_SIZE_MAX, SINGLE_VALUE_MAX,
};
use esker_types::ops::{Update, Value, Write, WriteOp, check_array_len};
use esker_types::{Error, ErrorKind, Extent, KeyKind, ObjectId, Result, key_to_u64};

/// Refuses a write that no backend could do: bad keys, buffers that do not match, broken limits.
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

/// Refuses keys that `oid` cannot have.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an empty key or an integer that is not 8 bytes, [`ErrorKind::KeyTooBig`].
pub fn check_keys(oid: ObjectId, dkey: &[u8], akey: Option<&[u8]>) -> Result<()> {
    let mut encoded = check_key(oid.dkey_kind(), dkey)?;
    if let Some(akey) = akey {
        encoded += check_key(oid.akey_kind(), akey)?;
    }
    match encoded {
        0..=KEY_PAIR_MAX => Ok(()),
        _ => Err(too_long("dkey and akey", encoded, KEY_PAIR_MAX, "KEY_PAIR_MAX")),
    }
}

/// Length of the key once encoded.
fn check_key(kind: KeyKind, key: &[u8]) -> Result<usize> {
    match (kind, key.len()) {
        (KeyKind::Integer, _) => key_to_u64(key).map(|_| 8),
        (KeyKind::Bytes, 0) => {
            Err(Error::new(ErrorKind::Invalid, "a key must have at least one byte"))
        }
        (KeyKind::Bytes, len @ 1..=KEY_MAX) => {
            Ok(len + key.iter().filter(|byte| **byte == 0).count() + 2)
        }
        (KeyKind::Bytes, len) => Err(too_long("key", len, KEY_MAX, "KEY_MAX")),
    }
}

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

/// Refuses more than `most` of something.
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

#[cold]
fn too_long(what: &str, len: usize, most: usize, limit: &str) -> Error {
    let message = format!("{what} of {len} bytes: the limit is {most} ({limit})");
    Error::new(ErrorKind::KeyTooBig, message).with_needed(most as u64)
}
