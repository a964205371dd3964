//! Names of Key-Values, Arrays (an object id or a user-defined name) and snapshots.
//!
//! A name refers to the object whose 96 user bits are the first twelve bytes of its SHA-256: the first four are in
//! `hi`, with the highest bit set so that they do not collide with numbers reserved for other objects, the other
//! eight in `lo`, both big-endian. Any program can find the object by the same rule:
//!
//! ```text
//! digest = sha256(name); hi = be32(digest[0..4]) | 0x80000000; lo = be64(digest[4..12])
//! ```
use crate::container::Container;
use esker_types::info::SnapshotInfo;
use esker_types::{Epoch, Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use sha2::{Digest, Sha256};

const NAMED: u64 = 1 << 31;

impl Container {
    /// The object that `name` refers to. An id with a type and a class is used as it is; user bits alone, and names,
    /// are completed with `otype` and `class` (one adapted to the pool if it is `None`). Nothing is read or written.
    ///
    /// # Errors
    /// As [`Container::generate_oid`].
    pub fn named_oid(
        &self,
        name: &str,
        otype: ObjectType,
        class: Option<ObjectClass>,
    ) -> Result<ObjectId> {
        let bits = ObjectId::parse(name).unwrap_or_else(|| user_bits(name));
        match bits.hi >> 32 {
            0 => self.generate_oid(bits.hi, bits.lo, otype, class, 0),
            _ => Ok(bits),
        }
    }

    /// The snapshot with this name or epoch. If several have the name, the last.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; errors of the backend.
    pub async fn find_snapshot(&self, name: &str) -> Result<Epoch> {
        let all = self.snapshots().await?;
        let epoch = name.parse().ok().map(Epoch);
        let is_it =
            |snapshot: &&SnapshotInfo| snapshot.name == name || epoch == Some(snapshot.epoch);
        all.iter().rev().find(is_it).map(|snapshot| snapshot.epoch).ok_or_else(|| {
            let message = format!(
                "container {} has no snapshot {name:?}: `esker cont snapshot list` lists its snapshots",
                self.info().label
            );
            Error::new(ErrorKind::NotFound, message)
        })
    }
}

fn user_bits(name: &str) -> ObjectId {
    let digest = Sha256::digest(name);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    ObjectId { hi: number(&digest[..4]) | NAMED, lo: number(&digest[4..12]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Wait};
    use esker_backend::NewContainer;
    use esker_types::info::OpenMode;

    fn container() -> Container {
        let pool = Pool::connect("memory:naming", OpenMode::ReadWrite).unwrap();
        let new = NewContainer::named("c");
        pool.create_container(&new).wait().unwrap();
        pool.open_container("c", OpenMode::ReadWrite).wait().unwrap()
    }

    #[test]
    fn a_name_maps_to_the_start_of_its_digest() {
        // sha256("abc") starts with ba7816bf 8f01cfea 414140de.
        assert_eq!(user_bits("abc"), ObjectId { hi: 0xba78_16bf, lo: 0x8f01_cfea_4141_40de });
        assert_eq!(user_bits("a").hi & NAMED, NAMED);
    }

    #[test]
    fn ids_are_used_as_they_are_and_completed_if_needed() {
        let container = container();
        let of = |name: &str| container.named_oid(name, ObjectType::KvHashed, None).unwrap();
        let named = of("index");
        assert_eq!(of(&named.to_string()), named);
        assert_eq!(named.object_type(), Some(ObjectType::KvHashed));
        assert_eq!(of("0.7"), container.generate_oid(0, 7, ObjectType::KvHashed, None, 0).unwrap());
        assert_ne!(of("index"), of("index2"));
    }
}
