//! The names of objects: a catalog of a container, so that objects can be listed by name.
//!
//! A name leads to its object by a hash ([`Container::named_oid`]), and nothing leads back. The catalog is a Key-Value
//! whose keys are names and whose values are empty. The hash of a name determines which objects have it, so the catalog
//! stays right when a copy gives objects other classes. Names are recorded on request: see `docs/decisions/0059`.
use crate::container::Container;
use crate::naming::{CATALOG, user_bits};
use crate::{Access, Kv};
use esker_types::ops::{Anchor, Cond, ListLimit};
use esker_types::{ObjectId, ObjectType, Result};
use std::collections::HashMap;

/// Names that are listed at a time.
const NAMES_PER_CALL: usize = 4096;

/// Types of the objects that programs create.
const TYPES: [ObjectType; 13] = [
    ObjectType::KvHashed,
    ObjectType::KvInteger,
    ObjectType::KvLexical,
    ObjectType::Array,
    ObjectType::ArrayAttr,
    ObjectType::ArrayByte,
    ObjectType::MultiHashed,
    ObjectType::DkeyInteger,
    ObjectType::AkeyInteger,
    ObjectType::MultiInteger,
    ObjectType::DkeyLexical,
    ObjectType::AkeyLexical,
    ObjectType::MultiLexical,
];

/// The recorded names of a container.
#[derive(Clone, Debug, Default)]
pub struct ObjectNames(HashMap<(u32, u64), String>);

impl ObjectNames {
    /// The name of an object, if it was recorded.
    #[must_use]
    pub fn name_of(&self, oid: ObjectId) -> Option<&str> {
        self.0.get(&bits(oid)).map(String::as_str)
    }
}

/// The bits of an object ID that belong to its user.
fn bits(oid: ObjectId) -> (u32, u64) {
    (oid.hi as u32, oid.lo)
}

/// True for the catalog of names. It is an object of the container, but not of a user.
#[must_use]
pub fn is_name_catalog(oid: ObjectId) -> bool {
    bits(oid) == bits(user_bits(CATALOG))
}

impl Container {
    /// Records that an object has this name, so that [`Container::object_names`] lists it. An object ID is not
    /// recorded. Call it after the object is created: before that, [`Container::forget_name`] may remove the name again.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] if writing is not allowed; errors of the backend.
    pub async fn record_name(&self, name: &str) -> Result<()> {
        if ObjectId::parse(name).is_some() {
            return Ok(());
        }
        let catalog = self.name_catalog(Access::Latest).await?;
        match catalog.size(name.as_bytes(), Access::Latest).await? {
            Some(_) => Ok(()),
            None => catalog.put(name.as_bytes(), &[], Cond::NONE, Access::Latest).await,
        }
    }

    /// Removes a recorded name, unless an object has it still.
    ///
    /// # Errors
    /// The errors of [`Container::record_name`].
    pub async fn forget_name(&self, name: &str) -> Result<()> {
        if ObjectId::parse(name).is_some() || self.is_object(name).await? {
            return Ok(());
        }
        let catalog = self.name_catalog(Access::Latest).await?;
        catalog.remove(name.as_bytes(), Cond::NONE, Access::Latest).await?;
        // Another process may have created such an object meanwhile, and found the name still recorded.
        if self.is_object(name).await? { self.record_name(name).await } else { Ok(()) }
    }

    /// True if any object has this name.
    async fn is_object(&self, name: &str) -> Result<bool> {
        Ok(!self.objects_of(name, Access::Latest).await?.is_empty())
    }

    /// The names that were recorded.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn object_names(&self, access: Access<'_>) -> Result<ObjectNames> {
        let catalog = self.name_catalog(access).await?;
        let (mut names, mut anchor) = (HashMap::new(), Anchor::Start);
        while !anchor.is_end() {
            let limit = ListLimit::entries(NAMES_PER_CALL);
            for name in catalog.list(&mut anchor, limit, access).await?.iter() {
                let name = String::from_utf8_lossy(name).into_owned();
                names.insert(bits(user_bits(&name)), name);
            }
        }
        Ok(ObjectNames(names))
    }

    /// All objects that an object ID or a name refers to, of any type and class.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that no object can have; errors of the backend.
    pub async fn objects_of(&self, name: &str, access: Access<'_>) -> Result<Vec<ObjectId>> {
        // Unless `name` is a complete id, only the user's bits of this one are used.
        let usual = self.named_oid(name, ObjectType::KvHashed, None)?;
        let is_whole = ObjectId::parse(name) == Some(usual);
        let all = match is_whole {
            true => vec![usual],
            false => TYPES.into_iter().flat_map(|otype| self.of_each_class(usual, otype)).collect(),
        };
        self.existing(all.into_iter(), access).await
    }

    /// The catalog of names, whose class may be another one in a copy. Its first name creates it.
    async fn name_catalog(&self, access: Access<'_>) -> Result<Kv> {
        let oid = self.find_with_any_class(CATALOG, ObjectType::KvHashed, None, access).await?;
        self.kv(oid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Wait};
    use esker_backend::NewContainer;
    use esker_types::info::OpenMode;
    use esker_types::{ErrorKind, ObjectClass};

    fn container(pool: &str) -> Container {
        let pool = Pool::connect(pool, OpenMode::ReadWrite).unwrap();
        let new = NewContainer::named("c");
        pool.create_container(&new).wait().unwrap();
        pool.open_container("c", OpenMode::ReadWrite).wait().unwrap()
    }

    /// Creates a Key-Value with this name and class.
    fn put(container: &Container, name: &str, class: Option<ObjectClass>) -> ObjectId {
        let oid = container.named_oid(name, ObjectType::KvHashed, class).unwrap();
        let kv = container.kv(oid).unwrap();
        kv.put(b"key", b"value", Kv::INSERT, Access::Latest).wait().unwrap();
        oid
    }

    #[test]
    fn recorded_names_lead_from_ids_of_any_class() {
        let container = container("memory:object-names");
        let (index, small) =
            (put(&container, "index", None), put(&container, "index", Some(ObjectClass::S1)));
        let other = put(&container, "other", None);
        container.record_name("index").wait().unwrap();
        container.record_name("index").wait().unwrap();
        container.record_name(&other.to_string()).wait().unwrap();
        let names = container.object_names(Access::Latest).wait().unwrap();
        assert_eq!((names.name_of(index), names.name_of(small)), (Some("index"), Some("index")));
        assert_eq!(names.name_of(other), None);
        let mut found = container.objects_of("index", Access::Latest).wait().unwrap();
        found.sort_by_key(|oid| (oid.hi, oid.lo));
        let mut both = vec![index, small];
        both.sort_by_key(|oid| (oid.hi, oid.lo));
        assert_eq!(found, both);
        assert_eq!(
            container.objects_of(&other.to_string(), Access::Latest).wait(),
            Ok(vec![other])
        );

        for (oid, left) in [(index, Some("index")), (small, None)] {
            container.object(oid).punch(Cond::NONE, Access::Latest).wait().unwrap();
            container.forget_name("index").wait().unwrap();
            let names = container.object_names(Access::Latest).wait().unwrap();
            assert_eq!(names.name_of(index), left);
        }
    }

    #[test]
    fn the_catalog_is_known_and_no_name_leads_to_it() {
        let container = container("memory:object-catalog");
        put(&container, "index", None);
        container.record_name("index").wait().unwrap();
        let all = container.list_objects(&mut Anchor::Start, 10, Access::Latest).wait().unwrap();
        assert_eq!(all.iter().filter(|oid| is_name_catalog(**oid)).count(), 1);
        assert_eq!(all.len(), 2);
        for name in ["", "\0names", "a\0"] {
            let refused = container.named_oid(name, ObjectType::KvHashed, None);
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid, "{name:?}");
        }
    }
}
