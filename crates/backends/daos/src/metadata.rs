//! Metadata, stored as attributes of DAOS. Properties of a file system that DAOS has as properties of the container are
//! stored there as well, so that DAOS tools see them.
use super::names::{shown_name, shown_value, stored_name, stored_value};
use crate::binding::{Attributes, Container, Opened};
use esker_backend::MetadataChanges;
use esker_types::{ErrorKind, Result};
use std::collections::BTreeMap;

/// Properties of a file system.
const LAYOUT: &str = "prop:layout_type";
const ROOTS: &str = "prop:roots";

/// Returns the value that is stored under `name` in the attributes of a pool or container. None if there is none.
pub(super) async fn get(attributes: &Attributes, name: &str) -> Result<Option<Vec<u8>>> {
    Ok(attributes.get(&stored_name(name)).await?.map(shown_value))
}

/// Sets all new values in one call, then removes all names to be removed in another. Of several changes to a name, the
/// last one counts.
pub(super) async fn set(attributes: &Attributes, changes: &MetadataChanges<'_>) -> Result<()> {
    let (mut values, mut removed) = (Vec::new(), Vec::new());
    for (name, value) in last_changes(changes) {
        match value {
            Some(value) => values.push((stored_name(name), stored_value(value))),
            None => removed.push(stored_name(name)),
        }
    }
    attributes.set(&values).await?;
    attributes.remove(&removed).await
}

/// The last change of each name.
fn last_changes<'c>(changes: &MetadataChanges<'c>) -> BTreeMap<&'c str, Option<&'c [u8]>> {
    changes.iter().copied().collect()
}

/// The names that begin with `prefix`, sorted.
pub(super) async fn list(attributes: &Attributes, prefix: &str) -> Result<Vec<String>> {
    let names = attributes.list().await?;
    let names = names.iter().filter_map(|name| shown_name(name));
    let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort_unstable();
    Ok(names)
}

/// The value of a name from the properties of a container that a DAOS tool created.
pub(super) fn property(opened: &Opened, name: &str) -> Option<Vec<u8>> {
    match name {
        LAYOUT if opened.layout != 0 => Some(opened.layout.to_le_bytes().to_vec()),
        ROOTS if opened.layout != 0 => opened.roots.map(Vec::from),
        _ => None,
    }
}

/// True for a name that may be a property of DAOS.
pub(super) fn may_be_property(name: &str) -> bool {
    [LAYOUT, ROOTS].contains(&name)
}

/// Type of the layout and roots of a file system, if `value` returns both for their names.
pub(super) fn layout<'v>(value: impl Fn(&str) -> Option<&'v [u8]>) -> Option<(u64, [u8; 64])> {
    let kind = value(LAYOUT).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    kind.zip(value(ROOTS).and_then(|bytes| bytes.try_into().ok()))
}

/// Marks the container as a file system in its DAOS properties, for DAOS tools. If DAOS allows that only at the
/// creation of a container, it is not marked, and only Esker recognises the file system.
pub(super) async fn tell_layout(
    container: &Container,
    changes: &MetadataChanges<'_>,
) -> Result<()> {
    let last = last_changes(changes);
    let value = |wanted: &str| last.get(wanted).copied().flatten();
    let Some((kind, roots)) = layout(value) else { return Ok(()) };
    match container.set_layout(kind, &roots).await {
        Err(error) if refuses(error.kind()) => Ok(()),
        outcome => outcome,
    }
}

/// True for the errors by which DAOS does not allow the property to be set.
fn refuses(kind: ErrorKind) -> bool {
    use ErrorKind::{Invalid, NoPermission, NotImplemented, NotSupported};
    matches!(kind, Invalid | NoPermission | NotImplemented | NotSupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_change_of_a_name_counts() {
        let changes: [(&str, Option<&[u8]>); 4] =
            [("a", Some(b"1")), ("b", None), ("a", None), ("b", Some(b"2"))];
        let last: Vec<_> = last_changes(&changes).into_iter().collect();
        assert_eq!(last, [("a", None), ("b", Some(&b"2"[..]))]);
    }
}
