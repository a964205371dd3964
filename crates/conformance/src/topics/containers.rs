//! Containers: creating, labelling, opening, closing and destroying them.
use super::store::{Store, checks, get, put, refused, run};
use super::{Make, Outcome};
use esker::{Container, Wait, check_label};
use esker_backend::NewContainer;
use esker_types::info::{ContainerInfo, OpenMode};
use esker_types::limits::LABEL_MAX;
use esker_types::{Checksum, ErrorKind, ObjectType, Result, Uuid};

/// Checks containers.
///
/// # Panics
/// If the backend violates a requirement.
pub fn containers(make: Make<'_>) -> Outcome {
    run(
        "containers",
        &make(),
        checks![
            a_container_is_known_by_label_and_uuid,
            names_are_unique,
            one_of_concurrent_creators_succeeds,
            bad_labels_are_refused,
            missing_containers_are_not_found,
            containers_are_listed,
            labels_change,
            a_container_in_use_is_busy,
            a_forced_destroy_ends_all_use,
            exclusive_use_excludes_other_handles,
            a_read_only_container_refuses_writes,
            a_closed_container_rejects_operations,
            objects_of_containers_are_separate,
            a_new_container_is_empty,
            the_pool_shows_its_targets,
            undeclared_capabilities_are_refused,
        ],
    )
}

fn create(store: &Store, label: &str) -> Result<ContainerInfo> {
    store.pool.create_container(&NewContainer::named(label)).wait()
}

fn open(store: &Store, name: &str) -> Result<Container> {
    store.pool.open_container(name, OpenMode::ReadWrite).wait()
}

fn a_container_is_known_by_label_and_uuid(store: &Store) -> Result<()> {
    let wish = (!store.pool.capabilities().assigns_uuids).then(|| Uuid::from_random([7; 16]));
    let checksum = Checksum::Crc64;
    let new = NewContainer::named("known").with_uuid(wish).with_checksum(checksum);
    let made = store.pool.create_container(&new).wait()?;
    let uuid = wish.unwrap_or(made.uuid);
    assert_eq!((made.uuid, made.label.as_str()), (uuid, "known"));
    let by_label = open(store, "known")?;
    let by_uuid = open(store, &uuid.to_string())?;
    assert_eq!(by_label.info().id, by_uuid.info().id);
    assert_eq!(by_label.info().checksum, checksum);
    assert!(made.created.0 > 0, "a container has a creation time");
    Ok(())
}

fn names_are_unique(store: &Store) -> Result<()> {
    let first = create(store, "taken")?;
    refused(create(store, "taken"), ErrorKind::Exists);
    let again = NewContainer::nameless().with_uuid(first.uuid);
    let refusal = match store.pool.capabilities().assigns_uuids {
        true => ErrorKind::NotSupported,
        false => ErrorKind::Exists,
    };
    refused(store.pool.create_container(&again).wait(), refusal);
    store.pool.destroy_container("taken", false).wait()?;
    let second = create(store, "taken")?;
    assert_ne!(first.uuid, second.uuid);
    assert_ne!(first.id, second.id, "the number of a container is never used twice");
    store.pool.destroy_container("taken", false).wait()
}

fn one_of_concurrent_creators_succeeds(store: &Store) -> Result<()> {
    let race = || create(store, "raced").map_err(|error| error.kind());
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8).map(|_| scope.spawn(race)).collect();
        racers.into_iter().filter_map(|racer| racer.join().ok()).collect()
    });
    let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let late = outcomes.iter().filter(|outcome| **outcome == Err(ErrorKind::Exists)).count();
    assert_eq!(
        (won, late),
        (1, 7),
        "of concurrent creators one succeeds, the others fail with Exists"
    );
    Ok(())
}

fn bad_labels_are_refused(store: &Store) -> Result<()> {
    let long = "l".repeat(LABEL_MAX + 1);
    let uuid = Uuid::default().to_string();
    for label in ["", "a b", "a/b", "\u{e4}", ".", "..", ".hidden", "a:", &long, &uuid] {
        refused(create(store, label), ErrorKind::Invalid);
        refused(check_label(label), ErrorKind::Invalid);
    }
    create(store, &long[1..]).map(drop)
}

fn missing_containers_are_not_found(store: &Store) -> Result<()> {
    refused(open(store, "missing"), ErrorKind::NotFound);
    refused(open(store, &Uuid::default().to_string()), ErrorKind::NotFound);
    refused(store.pool.destroy_container("missing", true).wait(), ErrorKind::NotFound);
    Ok(())
}

fn containers_are_listed(store: &Store) -> Result<()> {
    for label in ["listed-b", "listed-a"] {
        create(store, label)?;
    }
    let all = store.pool.containers().wait()?;
    let labels: Vec<_> = all.iter().map(|info| info.label.as_str()).collect();
    assert!(labels.is_sorted(), "containers are listed by label: {labels:?}");
    let wanted = labels.iter().filter(|label| label.starts_with("listed-")).count();
    assert_eq!(wanted, 2);
    let own = all.iter().find(|info| info.id == store.container.info().id);
    assert!(own.is_some_and(|info| info.handles >= 1), "an open container has a handle");
    Ok(())
}

fn labels_change(store: &Store) -> Result<()> {
    create(store, "other")?;
    refused(store.container.rename(Some("other")).wait(), ErrorKind::Exists);
    store.container.rename(Some("renamed")).wait()?;
    store.container.rename(Some("renamed")).wait()?;
    assert_eq!(open(store, "renamed")?.info().id, store.container.info().id);
    assert_eq!(store.container.query().wait()?.label, "renamed");
    store.container.rename(Some("moved")).wait()?;
    refused(open(store, "renamed"), ErrorKind::NotFound);
    store.container.rename(None).wait()?;
    refused(open(store, "moved"), ErrorKind::NotFound);
    create(store, "moved").map(drop)
}

fn a_container_in_use_is_busy(store: &Store) -> Result<()> {
    create(store, "used")?;
    let first = open(store, "used")?;
    let clone = first.clone();
    drop(first);
    refused(store.pool.destroy_container("used", false).wait(), ErrorKind::Busy);
    drop(clone);
    store.pool.destroy_container("used", false).wait()
}

fn a_forced_destroy_ends_all_use(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"a", b"value")?;
    store.pool.destroy_container(&store.uuid(), true).wait()?;
    refused(open(store, &store.uuid()), ErrorKind::NotFound);
    let attributes = store.container.attributes();
    for (what, result) in [
        ("write", put(&object, b"d", b"a", b"value").map(drop)),
        ("attribute", attributes.set("name", b"value").wait()),
        ("value of an attribute", attributes.get("name").wait().map(drop)),
        ("list of attributes", attributes.list().wait().map(drop)),
    ] {
        let kind = result.err().map(|error| error.kind());
        let gone = [Some(ErrorKind::NoHandle), Some(ErrorKind::NotFound)];
        assert!(gone.contains(&kind), "{what} of a destroyed container: {kind:?}");
    }
    store.container.close().wait()
}

fn exclusive_use_excludes_other_handles(store: &Store) -> Result<()> {
    create(store, "alone")?;
    let exclusive = || store.pool.open_container("alone", OpenMode::Exclusive).wait();
    let only = exclusive()?;
    refused(exclusive(), ErrorKind::Busy);
    refused(open(store, "alone"), ErrorKind::Busy);
    only.close().wait()?;
    let shared = open(store, "alone")?;
    refused(exclusive(), ErrorKind::Busy);
    shared.close().wait()?;
    exclusive().map(drop)
}

fn a_read_only_container_refuses_writes(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"a", b"value")?;
    let reader = store.pool.open_container(&store.uuid(), OpenMode::ReadOnly).wait()?;
    let same = reader.object(object.oid());
    assert_eq!(get(&same, b"d", b"a")?.as_deref(), Some(b"value".as_slice()));
    refused(put(&same, b"d", b"a", b"other"), ErrorKind::NoPermission);
    refused(reader.attributes().set("name", b"value").wait(), ErrorKind::NoPermission);
    refused(reader.rename(Some("no")).wait(), ErrorKind::NoPermission);
    refused(reader.allocate_oids(1).wait(), ErrorKind::NoPermission);
    refused(reader.create_snapshot("no").wait(), ErrorKind::NoPermission);
    Ok(())
}

fn a_closed_container_rejects_operations(store: &Store) -> Result<()> {
    let object = store.object()?;
    store.container.close().wait()?;
    store.container.close().wait()?;
    refused(put(&object, b"d", b"a", b"value"), ErrorKind::NoHandle);
    refused(get(&object, b"d", b"a"), ErrorKind::NoHandle);
    refused(store.container.snapshots().wait(), ErrorKind::NoHandle);
    refused(store.container.attributes().set("name", b"value").wait(), ErrorKind::NoHandle);
    refused(store.container.properties().list().wait(), ErrorKind::NoHandle);
    store.pool.destroy_container(&store.uuid(), false).wait()
}

fn objects_of_containers_are_separate(store: &Store) -> Result<()> {
    create(store, "apart")?;
    let other = open(store, "apart")?;
    let here = store.object()?;
    let there = other.object(here.oid());
    put(&here, b"d", b"a", b"here")?;
    assert_eq!(get(&there, b"d", b"a")?, None);
    put(&there, b"d", b"a", b"there")?;
    assert_eq!(get(&here, b"d", b"a")?.as_deref(), Some(b"here".as_slice()));
    Ok(())
}

fn a_new_container_is_empty(store: &Store) -> Result<()> {
    create(store, "emptied")?;
    let oid = store.oid(ObjectType::MultiHashed)?;
    let first = open(store, "emptied")?;
    put(&first.object(oid), b"d", b"a", b"old")?;
    first.attributes().set("name", b"old").wait()?;
    drop(first);
    store.pool.destroy_container("emptied", false).wait()?;
    create(store, "emptied")?;
    let second = open(store, "emptied")?;
    assert_eq!(get(&second.object(oid), b"d", b"a")?, None);
    assert_eq!(second.attributes().get("name").wait()?, None);
    Ok(())
}

fn the_pool_shows_its_targets(store: &Store) -> Result<()> {
    let info = store.pool.info().wait()?;
    let able = store.pool.capabilities();
    assert_eq!(info.targets.len(), able.targets as usize);
    assert!(able.targets >= 1 && able.domains >= 1);
    Ok(())
}

fn undeclared_capabilities_are_refused(store: &Store) -> Result<()> {
    let able = store.pool.capabilities();
    if !able.snapshots {
        refused(store.container.create_snapshot("no").wait(), ErrorKind::NotSupported);
        assert_eq!(store.container.snapshots().wait()?, []);
    }
    if !able.transactions {
        refused(store.container.transaction().map(drop), ErrorKind::NotSupported);
    }
    Ok(())
}
