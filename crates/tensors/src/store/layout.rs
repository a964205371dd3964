//! Layout of a container of tensors (docs/format.md, "The tensors of a container").
use crate::grid::Grid;
use esker::{Array, ArrayAttributes, Container, Kv};
use esker_types::{ObjectClass, ObjectId, ObjectType, Result, Uuid};
use sha2::{Digest, Sha256};

/// First byte of the user bits of object ids, by the use of the object.
const TENSORS: u64 = 1;
const NAMES: u64 = 2;
const PARTS: u64 = 3;
const DATA: u64 = 4;

/// Property of a container with the version of the layout, without and with the prefix of properties.
pub(super) const VERSION: &str = esker::TENSORS_LAYOUT;
pub(super) const FULL_VERSION: &str = "prop:tensors_layout";

/// Version of this layout.
pub(super) const LAYOUT_VERSION: &str = "1";

/// The Key-Value of tensors: by UUID as text, their records.
pub(super) fn tensors(container: &Container) -> Result<Kv> {
    fixed(container, TENSORS)
}

/// The Key-Value of names: by name, the UUID of a tensor as text.
pub(super) fn names(container: &Container) -> Result<Kv> {
    fixed(container, NAMES)
}

/// A Key-Value on one target, so that a commit involves one or two targets.
fn fixed(container: &Container, kind: u64) -> Result<Kv> {
    let class = Some(ObjectClass::S1);
    container.kv(container.generate_oid(kind << 24, 0, ObjectType::KvHashed, class, 0)?)
}

/// Code of the class that the data and the parts of a new tensor get: all targets of the pool.
pub(super) fn new_class(container: &Container) -> u32 {
    ObjectClass::automatic(ObjectType::ArrayByte, 0, container.capabilities().targets).code()
}

/// The Key-Value of a tensor that records which parts of it were written.
pub(super) fn parts(container: &Container, uuid: Uuid, class: u32) -> Result<Kv> {
    container.kv(hashed(PARTS, uuid, ObjectType::KvHashed, class))
}

/// The Array with the chunks of a tensor.
pub(super) fn data(container: &Container, uuid: Uuid, class: u32, grid: &Grid) -> Result<Array> {
    let attributes = ArrayAttributes { cell_size: 1, chunk_size: grid.chunk_bytes().max(1) };
    container.open_array_with_attributes(data_oid(uuid, class), attributes)
}

/// Id of the Array with the chunks of a tensor.
pub(super) fn data_oid(uuid: Uuid, class: u32) -> ObjectId {
    hashed(DATA, uuid, ObjectType::ArrayByte, class)
}

/// Object id of the Key-Value that records which parts of a tensor were written.
pub(super) fn parts_oid(uuid: Uuid, class: u32) -> ObjectId {
    hashed(PARTS, uuid, ObjectType::KvHashed, class)
}

/// The object id that belongs to a tensor's UUID: 11 bytes of the SHA-256 of the UUID, below the byte `kind`.
fn hashed(kind: u64, uuid: Uuid, otype: ObjectType, class: u32) -> ObjectId {
    let digest = Sha256::digest(uuid.0);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (hi, lo) = (kind << 24 | number(&digest[..3]), number(&digest[3..11]));
    ObjectId::generate(hi, lo, otype, ObjectClass::from_code(class))
}

/// True if an object is the data or the parts of a tensor.
pub(super) fn is_of_tensor(oid: ObjectId) -> bool {
    let kind = oid.hi >> 24 & 0xff;
    let otype = oid.object_type();
    (kind == PARTS && otype == Some(ObjectType::KvHashed))
        || (kind == DATA && otype == Some(ObjectType::ArrayByte))
}

/// True if an object is the data or the parts of the tensor with this UUID, in any class.
pub(super) fn belongs_to(oid: ObjectId, uuid: Uuid) -> bool {
    let class = oid.class().code();
    oid == data_oid(uuid, class) || oid == parts_oid(uuid, class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_format() {
        let uuid = Uuid::parse("00112233-4455-4677-8899-aabbccddeeff").unwrap();
        let digest = Sha256::digest(uuid.0);
        let oid = data_oid(uuid, ObjectClass::S1.code());
        assert_eq!(oid.hi as u32 >> 24, 4);
        assert_eq!(oid.lo.to_be_bytes(), digest[3..11]);
        assert!(is_of_tensor(oid) && is_of_tensor(parts_oid(uuid, ObjectClass::S1.code())));
        assert_ne!(oid.lo, data_oid(Uuid([0; 16]), ObjectClass::S1.code()).lo);
    }
}
