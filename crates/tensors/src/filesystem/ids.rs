//! Ids of directories, which have no objects: hashes of their paths, so that every process gives the same.
use esker::types::{ObjectClass, ObjectId, ObjectType};
use sha2::{Digest, Sha256};

/// First byte of the user bits of the ids of directories. The objects of the store have 1 to 4.
const KIND: u64 = 5;

/// The id of a directory other than the root: a hash of its path, which ends with a slash.
pub(crate) fn directory(path: &str) -> ObjectId {
    let digest = Sha256::digest(path);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (hi, lo) = (KIND << 24 | number(&digest[..3]), number(&digest[3..11]));
    ObjectId::generate(hi, lo, ObjectType::MultiHashed, ObjectClass::S1)
}

/// True for an id of a directory other than the root.
pub(crate) fn is_directory(oid: ObjectId) -> bool {
    oid.hi >> 24 & 0xff == KIND && oid.object_type() == Some(ObjectType::MultiHashed)
}

/// True for an id of a file: that of the Array of its tensor.
pub(crate) fn is_file(oid: ObjectId) -> bool {
    oid.object_type() == Some(ObjectType::ArrayByte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_what_they_are_of() {
        let (one, other) = (directory("run/"), directory("run/1/"));
        assert!(is_directory(one) && !is_file(one) && one != other);
        assert_eq!(one, directory("run/"));
        assert!(!is_directory(ObjectId { hi: 1, lo: 0 }));
    }
}
