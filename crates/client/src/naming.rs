//! Names of Key-Values, Arrays (an object id or a user-defined name) and snapshots. A name is not empty, and has no
//! zero byte.
//!
//! A name refers to the object whose 96 user bits are the first twelve bytes of its SHA-256: the first four are in
//! `hi`, with the highest bit set so that they do not collide with numbers reserved for other objects, the other
//! eight in `lo`, both big-endian. Any program can find the object by the same rule:
//!
//! ```text
//! digest = sha256(name); hi = be32(digest[0..4]) | 0x80000000; lo = be64(digest[4..12])
//! ```
use crate::Access;
use crate::container::Container;
use esker_os::executor::{side_by_side, task};
use esker_types::info::SnapshotInfo;
use esker_types::ops::{Anchor, ListLimit};
use esker_types::{Epoch, Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use sha2::{Digest, Sha256};

const NAMED: u64 = 1 << 31;

/// Name of the catalog of names, which users cannot use.
pub(crate) const CATALOG: &str = "\0names";

/// IDs of a name that are searched at a time.
const SEARCHES_MAX: usize = 16;

impl Container {
    /// The object that `name` refers to. An id with a type and a class is used as it is; user bits alone, and names,
    /// are completed with `otype` and `class` (one adapted to the pool if it is `None`). Nothing is read or written.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an empty name or one with a zero byte, and as [`Container::generate_oid`].
    pub fn named_oid(
        &self,
        name: &str,
        otype: ObjectType,
        class: Option<ObjectClass>,
    ) -> Result<ObjectId> {
        check_name(name)?;
        self.oid_of(name, otype, class)
    }

    /// Object id of a name: the id that the name spells, or a hash of the name.
    fn oid_of(
        &self,
        name: &str,
        otype: ObjectType,
        class: Option<ObjectClass>,
    ) -> Result<ObjectId> {
        let bits = ObjectId::parse(name).unwrap_or_else(|| user_bits(name));
        // The upper half of `hi` has type and class; zero leaves them open.
        match bits.hi >> 32 {
            0 => self.generate_oid(bits.hi, bits.lo, otype, class, 0),
            _ => Ok(bits),
        }
    }

    /// The object that `name` refers to, as [`Container::named_oid`], but with any class. If neither `name` nor
    /// `class` gives a class and there is no object of the class that suits this pool, objects with the same name and
    /// another class are searched: one may have been created with an explicit class, or copied from another kind of
    /// pool. If there is none, the result is that of [`Container::named_oid`]. In a transaction, the latest state is
    /// searched, and nothing is recorded as read.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if several objects have this name, and as [`Container::named_oid`]; errors
    /// of the backend.
    pub async fn find_named(
        &self,
        name: &str,
        otype: ObjectType,
        class: Option<ObjectClass>,
        access: Access<'_>,
    ) -> Result<ObjectId> {
        check_name(name)?;
        let access = if let Access::Tx(_) = access { Access::Latest } else { access };
        self.find_with_any_class(name, otype, class, access).await
    }

    /// Finds an object as [`Container::find_named`] does, but also by names that users cannot give, such as that of the
    /// catalog.
    pub(crate) async fn find_with_any_class(
        &self,
        name: &str,
        otype: ObjectType,
        class: Option<ObjectClass>,
        access: Access<'_>,
    ) -> Result<ObjectId> {
        let usual = self.oid_of(name, otype, class)?;
        let is_whole = ObjectId::parse(name) == Some(usual);
        if class.is_some() || is_whole || self.has_keys(usual, access).await? {
            return Ok(usual);
        }
        let others = self.of_each_class(usual, otype).filter(|oid| *oid != usual);
        let found = self.existing(others, access).await?;
        match found[..] {
            [] => Ok(usual),
            [only] => Ok(only),
            _ => Err(self.several_objects_error(name, &found)),
        }
    }

    /// The IDs with the user's bits of `oid`, this type, and each class that an object of the container may have.
    pub(crate) fn of_each_class(
        &self,
        oid: ObjectId,
        otype: ObjectType,
    ) -> impl Iterator<Item = ObjectId> {
        let capabilities = self.capabilities();
        let (targets, domains) = (capabilities.targets, capabilities.domains);
        let only_fitting = capabilities.fitting_classes;
        let can_exist =
            move |class: &ObjectClass| !only_fitting || class.opens_in_daos(targets, domains);
        let classes = ObjectClass::possible(targets, domains).filter(can_exist);
        classes.map(move |class| ObjectId::generate(oid.hi, oid.lo, otype, class))
    }

    /// The objects among `oids` that exist: they have a key.
    pub(crate) async fn existing(
        &self,
        oids: impl Iterator<Item = ObjectId>,
        access: Access<'_>,
    ) -> Result<Vec<ObjectId>> {
        let search =
            |oid| task(async move { self.has_keys(oid, access).await.map(|has| (oid, has)) });
        let searched = side_by_side(oids.map(search).collect(), SEARCHES_MAX).await;
        let searched = searched.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(searched.into_iter().filter_map(|(oid, has)| has.then_some(oid)).collect())
    }

    /// True if the object has a key.
    async fn has_keys(&self, oid: ObjectId, access: Access<'_>) -> Result<bool> {
        let (object, mut first) = (self.object(oid), Anchor::Start);
        let found = object.list_dkeys(&mut first, ListLimit::entries(1), access).await?;
        Ok(!found.is_empty())
    }

    #[cold]
    fn several_objects_error(&self, name: &str, found: &[ObjectId]) -> Error {
        let classes: Vec<_> = found.iter().map(|oid| oid.class().to_string()).collect();
        let message = format!(
            "container {} has several objects {name:?}, with the classes {}: specify the class (--class)",
            self.info().label,
            classes.join(", ")
        );
        Error::new(ErrorKind::Invalid, message)
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
        match all.iter().rev().find(is_it) {
            Some(snapshot) => Ok(snapshot.epoch),
            None => Err(self.missing_snapshot_error(format!("{name:?}")).await),
        }
    }
}

/// Refuses names that do not refer to an object.
fn check_name(name: &str) -> Result<()> {
    match name.is_empty() || name.contains('\0') {
        true => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{name:?} is not a name of an object: give a text without zero bytes, or an object ID HI.LO"
            ),
        )),
        false => Ok(()),
    }
}

/// The user's bits of an object id that a name determines: type and class are zero.
pub(crate) fn user_bits(name: &str) -> ObjectId {
    let digest = Sha256::digest(name);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    ObjectId { hi: number(&digest[..4]) | NAMED, lo: number(&digest[4..12]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kv, Pool, Wait};
    use esker_backend::NewContainer;
    use esker_types::info::OpenMode;

    /// A new container in the pool.
    fn container(pool: &str) -> Container {
        let pool = Pool::connect(pool, OpenMode::ReadWrite).unwrap();
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
        let container = container("memory:naming-ids");
        let of = |name: &str| container.named_oid(name, ObjectType::KvHashed, None).unwrap();
        let named = of("index");
        assert_eq!(of(&named.to_string()), named);
        assert_eq!(named.object_type(), Some(ObjectType::KvHashed));
        assert_eq!(of("0.7"), container.generate_oid(0, 7, ObjectType::KvHashed, None, 0).unwrap());
        assert_ne!(of("index"), of("index2"));
    }

    #[test]
    fn a_name_is_found_with_any_class() {
        let container = container("memory:naming-classes");
        let named = |class| container.named_oid("index", ObjectType::KvHashed, class).unwrap();
        let find = |class| {
            container.find_named("index", ObjectType::KvHashed, class, Access::Latest).wait()
        };
        let put = |oid| {
            let kv = container.kv(oid).unwrap();
            kv.put(b"key", b"value", Kv::INSERT, Access::Latest).wait().unwrap();
        };
        assert_eq!(find(None), Ok(named(None)));
        // A class that an object copied from another pool may have.
        let copied = ObjectClass::from_code(ObjectClass::S1.code() + 32);
        let other =
            ObjectId::generate(named(None).hi, named(None).lo, ObjectType::KvHashed, copied);
        put(other);
        assert_eq!(find(None), Ok(other));
        assert_eq!(find(Some(ObjectClass::S1)), Ok(named(Some(ObjectClass::S1))));
        put(named(Some(ObjectClass::S1)));
        let several = find(None).unwrap_err();
        assert!(several.message().contains("S1, S33"), "{several}");
        put(named(None));
        assert_eq!(find(None), Ok(named(None)));
    }
}
