//! Attributes of pools and containers.
use super::store::{Store, checks, refused, run};
use super::{Make, Outcome};
use esker::{Attributes, Wait};
use esker_backend::NewContainer;
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::limits::{ATTR_NAME_MAX, ATTR_VALUE_MAX};
use esker_types::{ErrorKind, Result};

/// Checks metadata.
///
/// # Panics
/// If the backend violates a requirement.
pub fn metadata(make: Make<'_>) -> Outcome {
    run(
        "metadata",
        &make(),
        checks![
            attributes_come_back,
            changes_are_made_together,
            attributes_and_properties_are_separate,
            limits_are_kept,
            a_container_begins_with_its_metadata,
            names_are_listed_by_prefix,
        ],
    )
}

/// The attributes of the pool, and those of the container.
fn both(store: &Store) -> [Attributes; 2] {
    [store.pool.attributes(), store.container.attributes()]
}

fn attributes_come_back(store: &Store) -> Result<()> {
    for attributes in both(store) {
        assert_eq!(attributes.get("name").wait()?, None);
        attributes.set("name", b"first").wait()?;
        attributes.set("name", b"second \0 value").wait()?;
        attributes.set("empty", b"").wait()?;
        let value = attributes.get("name").wait()?;
        assert_eq!(value.as_deref(), Some(b"second \0 value".as_slice()));
        assert_eq!(attributes.get("empty").wait()?, Some(Vec::new()));
        assert_eq!(attributes.list().wait()?, ["empty", "name"]);
        attributes.remove("name").wait()?;
        attributes.remove("name").wait()?;
        assert_eq!(attributes.list().wait()?, ["empty"]);
    }
    Ok(())
}

fn changes_are_made_together(store: &Store) -> Result<()> {
    let attributes = store.container.attributes();
    attributes.change(&[("a", Some(b"1")), ("b", Some(b"2"))]).wait()?;
    attributes.change(&[("a", None), ("c", Some(b"3"))]).wait()?;
    assert_eq!(attributes.list().wait()?, ["b", "c"]);
    refused(attributes.change(&[("d", Some(b"4")), ("", None)]).wait(), ErrorKind::Invalid);
    assert_eq!(attributes.list().wait()?, ["b", "c"]);
    Ok(())
}

fn attributes_and_properties_are_separate(store: &Store) -> Result<()> {
    store.container.attributes().set("same", b"attribute").wait()?;
    store.container.properties().set("same", b"property").wait()?;
    let value = store.container.attributes().get("same").wait()?;
    assert_eq!(value.as_deref(), Some(b"attribute".as_slice()));
    assert_eq!(store.container.properties().list().wait()?, ["same"]);
    Ok(())
}

/// Names and values may have the maximum length, and no more.
fn limits_are_kept(store: &Store) -> Result<()> {
    let attributes = store.container.attributes();
    let (name, value) = ("n".repeat(ATTR_NAME_MAX), vec![7; ATTR_VALUE_MAX]);
    attributes.set(&name, &value).wait()?;
    assert_eq!(attributes.get(&name).wait()?, Some(value));
    refused(attributes.set(&format!("{name}n"), b"").wait(), ErrorKind::Invalid);
    refused(attributes.set("n", &vec![7; ATTR_VALUE_MAX + 1]).wait(), ErrorKind::Overflow);
    refused(attributes.set("a\0b", b"").wait(), ErrorKind::Invalid);
    Ok(())
}

fn a_container_begins_with_its_metadata(store: &Store) -> Result<()> {
    let metadata: [(&str, &[u8]); 2] = [("attr:a", b"1"), ("prop:b", b"2")];
    let new = NewContainer::named("with").with_metadata(&metadata);
    store.pool.create_container(&new).wait()?;
    let container = store.pool.open_container("with", OpenMode::ReadOnly).wait()?;
    assert_eq!(container.attributes().get("a").wait()?.as_deref(), Some(b"1".as_slice()));
    assert_eq!(container.properties().list().wait()?, ["b"]);
    Ok(())
}

fn names_are_listed_by_prefix(store: &Store) -> Result<()> {
    let name = ContainerRef::Uuid(store.container.info().uuid);
    let container = store.pool.backend().open_container(name, OpenMode::ReadWrite).wait()?;
    let changes: Vec<_> = ["x:b", "x:a", "y:a", "x"].map(|name| (name, Some(&b"1"[..]))).into();
    container.set_metadata(&changes).wait()?;
    assert_eq!(container.list_metadata("x:").wait()?, ["x:a", "x:b"]);
    assert_eq!(container.list_metadata("").wait()?, ["x", "x:a", "x:b", "y:a"]);
    container.close().wait()
}
