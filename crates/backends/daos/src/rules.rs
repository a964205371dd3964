//! Rules of DAOS that other backends do not have. Requests that DAOS would refuse are refused here, with an error that
//! names the rule (docs/internals/daos.md lists the rules with their places in DAOS).
use esker_types::limits::DAOS_LEXICAL_KEY_MAX;
use esker_types::ops::{Write, WriteOp};
use esker_types::{Error, ErrorKind, FLAT_AKEY, ObjectId, ObjectType, Result};

/// True for an object that DAOS stores flat: a dkey has one akey, the name of which is not stored.
pub(super) fn is_flat(oid: ObjectId) -> bool {
    oid.object_type().is_some_and(ObjectType::is_flat)
}

/// True for an akey that a flat object cannot have: it has only the akey [`FLAT_AKEY`].
pub(super) fn is_foreign(oid: ObjectId, akey: &[u8]) -> bool {
    is_flat(oid) && akey != FLAT_AKEY
}

/// Refuses an update that DAOS would not take: of a second akey in an object that has only one for each dkey, or with a
/// key that is too long to be sorted.
///
/// # Errors
/// `NotSupported` for an akey that a flat object cannot hold, `KeyTooBig` for a long key of a lexical type.
pub(super) fn check(write: &Write<'_>) -> Result<()> {
    let WriteOp::Update { dkey, updates, .. } = write.op else { return Ok(()) };
    let akeys = || updates.iter().map(|update| update.akey);
    if akeys().any(|akey| is_foreign(write.oid, akey)) {
        return Err(akey_not_supported_error(write.oid));
    }
    let sorts = |is_so: fn(ObjectType) -> bool| write.oid.object_type().is_some_and(is_so);
    let sorts_dkeys = sorts(ObjectType::has_lexical_dkeys);
    let sorts_akeys = sorts(ObjectType::has_lexical_akeys);
    let longest_akey = akeys().map(<[u8]>::len).filter(|_| sorts_akeys).max().unwrap_or(0);
    match longest_akey.max(if sorts_dkeys { dkey.len() } else { 0 }) {
        0..=DAOS_LEXICAL_KEY_MAX => Ok(()),
        len => Err(key_too_long_error(len)),
    }
}

#[cold]
fn akey_not_supported_error(oid: ObjectId) -> Error {
    let message = format!(
        "DAOS stores one akey (\"0\") under a dkey of object {oid}, since it has the type of a Key-Value or an Array: \
         use an object of another type, such as MULTI_HASHED"
    );
    Error::new(ErrorKind::NotSupported, message)
}

#[cold]
fn key_too_long_error(len: usize) -> Error {
    let message = format!(
        "a key of {len} bytes: DAOS sorts keys of at most {DAOS_LEXICAL_KEY_MAX} bytes (DAOS_LEXICAL_KEY_MAX); use an \
         object with hashed keys"
    );
    Error::new(ErrorKind::KeyTooBig, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::ObjectClass;
    use esker_types::ops::{Cond, Source, Update, Value};

    /// Result of the check of an update of a single value in an object of this type.
    fn outcome(otype: ObjectType, dkey: &[u8], akey: &[u8]) -> Result<()> {
        let oid = ObjectId::generate(0, 1, otype, ObjectClass::S1);
        let value = Value::Single(Source::One(b"v"));
        let updates = [Update { akey, value, cond: Cond::NONE }];
        check(&Write { oid, op: WriteOp::Update { dkey, cond: Cond::NONE, updates: &updates } })
    }

    #[test]
    fn flat_objects_have_one_akey() {
        use ObjectType::{Array, KvHashed, MultiHashed};
        assert_eq!(outcome(KvHashed, b"d", b"0"), Ok(()));
        assert_eq!(outcome(MultiHashed, b"d", b"a"), Ok(()));
        for otype in [KvHashed, Array] {
            let error = outcome(otype, &[0; 8], b"a").expect_err("a refusal");
            assert_eq!(error.kind(), ErrorKind::NotSupported);
        }
    }

    /// Keys of more than 100 bytes are refused if DAOS sorts them. The table says for each type if it sorts dkeys, and
    /// akeys.
    #[test]
    fn long_keys_are_not_sorted() {
        use ObjectType::{AkeyLexical, DkeyLexical, MultiHashed, MultiLexical};
        let (long, longest) = ([b'k'; 101], [b'k'; 100]);
        let refused = [(MultiLexical, true, true), (DkeyLexical, true, false)];
        let others = [(AkeyLexical, false, true), (MultiHashed, false, false)];
        for (otype, dkey, akey) in refused.into_iter().chain(others) {
            assert_eq!(outcome(otype, &long, b"a").is_err(), dkey, "{otype:?}");
            assert_eq!(outcome(otype, b"d", &long).is_err(), akey, "{otype:?}");
            assert_eq!(outcome(otype, &longest, &longest), Ok(()));
        }
    }
}
