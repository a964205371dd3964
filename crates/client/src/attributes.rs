//! Attributes and properties: named values of a pool or container.
use crate::access::Access;
use crate::container::Container;
use esker_backend::{Metadata, Pool};
use esker_types::limits::{ATTR_NAME_MAX, ATTR_VALUE_MAX};
use esker_types::ops::Anchor;
use esker_types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Prefix of metadata that users set (DAOS: attributes).
pub(crate) const USER: &str = "attr:";
/// Prefix of metadata that describes a pool or container (DAOS: properties).
pub(crate) const PROPERTY: &str = "prop:";

/// Property of a container that holds a file system (DAOS: `DAOS_PROP_CO_LAYOUT_TYPE`).
pub const FILES_LAYOUT: &str = "layout_type";
/// Property of a container that holds fields.
pub const FIELDS_LAYOUT: &str = "fields_layout";
/// Property of a container that holds tensors.
pub const TENSORS_LAYOUT: &str = "tensors_layout";
/// The properties that name a container's layout. A container without any of them has plain objects.
pub const LAYOUTS: [&str; 3] = [FILES_LAYOUT, FIELDS_LAYOUT, TENSORS_LAYOUT];

/// The attributes (or properties) of a pool or container: named values of arbitrary bytes.
///
/// Names have 1 to [`ATTR_NAME_MAX`] bytes and no zero byte, values at most [`ATTR_VALUE_MAX`] bytes.
#[derive(Clone)]
pub struct Attributes {
    owner: Owner,
    prefix: &'static str,
    writable: bool,
}

/// The pool or container that they belong to.
#[derive(Clone)]
enum Owner {
    Pool(Arc<dyn Pool>),
    Container(Container),
}

impl Attributes {
    /// The attributes of a pool whose names have this prefix, [`USER`] or [`PROPERTY`].
    pub(crate) fn of_pool(pool: &Arc<dyn Pool>, prefix: &'static str, writable: bool) -> Self {
        Self { owner: Owner::Pool(Arc::clone(pool)), prefix, writable }
    }

    /// The attributes of a container whose names have this prefix, [`USER`] or [`PROPERTY`].
    pub(crate) fn of_container(of: &Container, prefix: &'static str, writable: bool) -> Self {
        Self { owner: Owner::Container(of.clone()), prefix, writable }
    }

    /// The pool or container that has the attributes. Fails with `NoHandle` if the container is closed.
    fn metadata(&self) -> Result<&dyn Metadata> {
        match &self.owner {
            Owner::Pool(pool) => Ok(&**pool),
            Owner::Container(container) => Ok(container.opened()?),
        }
    }

    /// Value of `name`, `None` if it is not set.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a bad name, [`ErrorKind::NoHandle`] if the container is closed; errors of the backend.
    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let name = self.full_name(name)?;
        self.metadata()?.get_metadata(&name).await
    }

    /// Sets one value.
    ///
    /// # Errors
    /// The errors of [`Attributes::change`].
    pub async fn set(&self, name: &str, value: &[u8]) -> Result<()> {
        self.change(&[(name, Some(value))]).await
    }

    /// Removes one value. Removing a missing value is not an error.
    ///
    /// # Errors
    /// The errors of [`Attributes::change`].
    pub async fn remove(&self, name: &str) -> Result<()> {
        self.change(&[(name, None)]).await
    }

    /// Sets (`Some`) and removes (`None`) several values, all or none.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] if the pool or container is open read-only,
    /// [`ErrorKind::NoHandle`] if the container is closed, [`ErrorKind::Invalid`] for a bad name,
    /// [`ErrorKind::Overflow`] for a value over [`ATTR_VALUE_MAX`]; errors of the backend.
    pub async fn change(&self, changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        if !self.writable {
            return Err(Error::new(
                ErrorKind::NoPermission,
                "attributes cannot be changed: the pool or container is open read-only",
            ));
        }
        let names: Vec<String> =
            changes.iter().map(|(name, _)| self.full_name(name)).collect::<Result<_>>()?;
        changes.iter().try_for_each(|(name, value)| check_value(name, *value))?;
        let pairs = names.iter().map(String::as_str).zip(changes.iter().map(|(_, value)| *value));
        let pairs: Vec<_> = pairs.collect();
        self.metadata()?.set_metadata(&pairs).await
    }

    /// All names, sorted.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if the container is closed; errors of the backend.
    pub async fn list(&self) -> Result<Vec<String>> {
        let names = self.metadata()?.list_metadata(self.prefix).await?;
        let bare = |name: String| name.strip_prefix(self.prefix).map(str::to_owned);
        Ok(names.into_iter().filter_map(bare).collect())
    }

    /// Checks a name, and adds the prefix under which attributes are stored.
    fn full_name(&self, name: &str) -> Result<String> {
        if name.is_empty() || name.len() > ATTR_NAME_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "attribute name of {} bytes: it must have 1 to {ATTR_NAME_MAX} (ATTR_NAME_MAX)",
                    name.len()
                ),
            ));
        }
        if name.contains('\0') {
            let message = format!("attribute name {name:?} has a zero byte: choose a name without");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(format!("{}{name}", self.prefix))
    }
}

/// Attributes and properties of a container.
impl Container {
    /// The user attributes of the container.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        self.metadata(USER)
    }

    /// The properties of the container.
    #[must_use]
    pub fn properties(&self) -> Attributes {
        self.metadata(PROPERTY)
    }

    /// Sets a property even if the container is open read-only. Meant for records about the container, such as the
    /// time it was last opened.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if it is closed; errors of the backend.
    pub async fn note_property(&self, name: &str, value: &[u8]) -> Result<()> {
        Attributes::of_container(self, PROPERTY, true).set(name, value).await
    }

    /// True if it has no objects, and no property of a layout: any layout can then be created in it.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn holds_nothing(&self) -> Result<bool> {
        let properties = self.properties().list().await?;
        if properties.iter().any(|name| LAYOUTS.contains(&name.as_str())) {
            return Ok(false);
        }
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            if !self.list_objects(&mut anchor, 1, Access::Latest).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The attributes with this prefix, which can be changed if the container is open for writing.
    fn metadata(&self, prefix: &'static str) -> Attributes {
        Attributes::of_container(self, prefix, self.is_writable())
    }
}

/// Fails with `Overflow` if the value is longer than `ATTR_VALUE_MAX`. `None` removes the attribute.
fn check_value(name: &str, value: Option<&[u8]>) -> Result<()> {
    match value.map_or(0, <[u8]>::len) {
        len if len > ATTR_VALUE_MAX => Err(Error::new(
            ErrorKind::Overflow,
            format!(
                "value of attribute {name:?} has {len} bytes: the limit is {ATTR_VALUE_MAX} \
                 (ATTR_VALUE_MAX)"
            ),
        )),
        _ => Ok(()),
    }
}
