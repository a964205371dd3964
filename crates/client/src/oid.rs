//! Generating object ids.
use crate::container::Container;
use esker_types::{ObjectClass, ObjectId, ObjectType, Result};

/// Builder of an object id: [`Container::new_oid`] starts one, [`NewOid::generate`] or [`NewOid::allocate`] finishes
/// it.
#[must_use = "no id is made before `generate` or `allocate`"]
#[derive(Clone, Copy)]
pub struct NewOid<'c> {
    container: &'c Container,
    otype: ObjectType,
    class: Option<ObjectClass>,
    hints: u32,
}

impl Container {
    /// Starts an object id of this type. Unless a class is given, DAOS's rules select one that fits the pool.
    pub fn new_oid(&self, otype: ObjectType) -> NewOid<'_> {
        NewOid { container: self, otype, class: None, hints: 0 }
    }
}

impl NewOid<'_> {
    /// Sets the object class, which determines how many targets the object is distributed over.
    pub fn class(self, class: ObjectClass) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Sets hints for the selection of a class (DAOS: `DAOS_OCH_*`).
    pub fn hints(self, hints: u32) -> Self {
        Self { hints, ..self }
    }

    /// The id with the caller's number. The caller makes sure that no two objects of the container share a number.
    ///
    /// # Errors
    /// The errors of [`Container::generate_oid`].
    pub fn generate(self, number: u64) -> Result<ObjectId> {
        self.container.generate_oid(0, number, self.otype, self.class, self.hints)
    }

    /// The id with a number that no other client of the container gets.
    ///
    /// # Errors
    /// The errors of [`Container::generate_oid`] and [`Container::allocate_oids`].
    pub async fn allocate(self) -> Result<ObjectId> {
        self.generate(self.container.allocate_oids(1).await?)
    }
}
