//! Making object ids.
use crate::container::Container;
use esker_types::{ObjectClass, ObjectId, ObjectType, Result};

/// An object id to be made: [`Container::new_oid`] begins one, [`NewOid::generate`] or [`NewOid::allocate`] ends it.
#[must_use = "nothing is made before `generate` or `allocate`"]
#[derive(Clone, Copy)]
pub struct NewOid<'c> {
    container: &'c Container,
    otype: ObjectType,
    class: Option<ObjectClass>,
    hints: u32,
}

impl Container {
    /// Begins an object id of this type. Its class is fitted to the pool by DAOS's rules unless one is given.
    pub fn new_oid(&self, otype: ObjectType) -> NewOid<'_> {
        NewOid { container: self, otype, class: None, hints: 0 }
    }
}

impl NewOid<'_> {
    /// With an object class: how many targets the object is distributed over.
    pub fn class(self, class: ObjectClass) -> Self {
        Self { class: Some(class), ..self }
    }

    /// With hints for the choice of a class (DAOS: `DAOS_OCH_*`).
    pub fn hints(self, hints: u32) -> Self {
        Self { hints, ..self }
    }

    /// The id with a number of the caller's, who makes sure that no two objects of the container share one.
    ///
    /// # Errors
    /// As [`Container::generate_oid`].
    pub fn generate(self, number: u64) -> Result<ObjectId> {
        self.container.generate_oid(0, number, self.otype, self.class, self.hints)
    }

    /// The id with the next number that no other client of the container has.
    ///
    /// # Errors
    /// As [`Container::generate_oid`] and [`Container::allocate_oids`].
    pub async fn allocate(self) -> Result<ObjectId> {
        self.generate(self.container.allocate_oids(1).await?)
    }
}
