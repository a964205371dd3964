//! A backend that keeps its objects in memory. `docs/howto/backend.md` makes it step by step.
use esker_backend::check::check_latest;
use esker_backend::containers::{Containers, Entry, Names};
use esker_backend::leases::Leases;
use esker_backend::object::conflicts::{Conflicts, Written};
use esker_backend::object::{history::Snapshots, overlay::Overlay, read::Reader, tree::Tree};
use esker_backend::types::info::{
    ContainerInfo, ContainerRef, Durability, Medium, OpenMode, PoolInfo, Space,
};
use esker_backend::types::ops::{
    AkeyRef, Anchor, Change, DkeyFetch, KeyScope, ListLimit, ReadAt, StoredExtent,
};
use esker_backend::types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result, Uuid};
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A pool in memory.
#[derive(Clone, Default)]
struct MapPool(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    metadata: Names,
    containers: Containers<Content>,
}

/// The content of a container.
#[derive(Default)]
struct Content {
    clock: Epoch,
    akeys: Tree,
    conflicts: Conflicts,
    leases: Arc<Leases>,
}

impl MapPool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metadata for MapPool {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        Reply::Ready(Ok(self.lock().metadata.get(name)))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.lock().metadata.change(changes);
        Reply::Ready(Ok(()))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        Reply::Ready(Ok(self.lock().metadata.list(prefix)))
    }
}

impl Pool for MapPool {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            transactions: true,
            any_akeys: true,
            holes: true,
            atomic_arrays: true,
            ..Capabilities::minimal(1)
        }
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        Reply::Ready(Ok(PoolInfo {
            uuid: Uuid::default(),
            label: "map".to_owned(),
            url: "map:".to_owned(),
            targets: vec![Space::default()],
            medium: Medium::Other,
            durability: Durability::Process,
        }))
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        let clock = Epoch::after(Epoch::default());
        let content = Content { clock, ..Content::default() };
        self.lock().containers.create(new, clock, content).into()
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        let opened = self.lock().containers.open(name, mode).map(|container| {
            let (info, leases) = (container.info().clone(), container.content.leases.clone());
            Box::new(Opened { pool: self.clone(), info, leases }) as Box<dyn OpenContainer>
        });
        opened.into()
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.lock().containers.destroy(name, force).into()
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        Reply::Ready(Ok(self.lock().containers.list()))
    }
}

/// A container as one caller has opened it.
struct Opened {
    pool: MapPool,
    info: ContainerInfo,
    leases: Arc<Leases>,
}

impl Opened {
    /// Works on the container, unless it was destroyed.
    fn with<'a, T>(&self, work: impl FnOnce(&mut Entry<Content>) -> Result<T>) -> Reply<'a, T> {
        self.pool.lock().containers.get_mut(self.info.id).and_then(work).into()
    }

    /// Reads an object.
    fn read<'a, T>(
        &self,
        oid: ObjectId,
        at: ReadAt<'_>,
        work: impl FnOnce(&mut Reader<'_>) -> Result<T>,
    ) -> Reply<'a, T> {
        self.with(|container| {
            check_latest(at, "map")?;
            let Content { akeys: tree, conflicts, .. } = &mut container.content;
            let (id, targets, at, tokens) = (self.info.id, 1, Epoch::MAX, at.tokens);
            work(&mut Reader { id, oid, targets, tree, at, tokens, conflicts })
        })
    }
}

impl Metadata for Opened {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.with(|container| Ok(container.metadata.get(name)))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.with(|container| {
            container.metadata.change(changes);
            Ok(())
        })
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.with(|container| Ok(container.metadata.list(prefix)))
    }
}

impl OpenContainer for Opened {
    fn info(&self) -> &ContainerInfo {
        &self.info
    }

    fn close(&self) -> Reply<'_, ()> {
        self.pool.lock().containers.close(self.info.id);
        Reply::Ready(Ok(()))
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        self.pool.lock().containers.rename(self.info.id, label).into()
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        self.with(|container| container.allocate_oids(count))
    }

    fn leases(&self) -> Option<&Leases> {
        Some(&self.leases)
    }

    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        self.with(|container| {
            if change.id.is_some() {
                return Err(Error::new(ErrorKind::NotSupported, "a map pool keeps no change ids"));
            }
            let Content { clock, akeys, conflicts, .. } = &mut container.content;
            change.tokens.map_or(Ok(()), |tokens| conflicts.check(tokens))?;

            let epoch = Epoch::after(*clock);
            let mut overlay = Overlay::new(akeys, epoch);
            change.writes.iter().try_for_each(|write| overlay.write(write))?;
            let written = change.writes.iter().map(Written::by).collect::<Result<Vec<_>>>()?;

            for (path, value) in overlay.finish() {
                akeys.put(path, epoch, value, &Snapshots::new());
            }
            written.into_iter().for_each(|written| conflicts.written(self.info.id, written));
            *clock = epoch;
            Ok(epoch)
        })
    }

    fn fetch<'a, 'f, 'b>(
        &'a self,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        self.read(oid, at, |object| {
            dkeys.iter_mut().try_for_each(|of| object.fetch(of.dkey, of.cond, of.akeys))
        })
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.read(oid, at, |object| object.epoch(dkey))
    }

    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        self.read(oid, at, |object| object.list_keys(scope, anchor, limit))
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        self.read(oid, at, |object| object.list_extents(key, anchor, entries))
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        self.read(ObjectId::default(), at, |all| Ok(all.list_objects(anchor, entries)))
    }
}

#[cfg(test)]
fn pool() -> Arc<dyn Pool> {
    Arc::new(MapPool::default())
}

#[cfg(test)]
esker_conformance::suite!(conformance, pool);

#[test]
fn random_operations_agree_with_the_reference() {
    esker_conformance::model::run(1, 3000, &pool);
}

/// Uses the pool as any other.
fn main() -> Result<()> {
    use esker::prelude::*;

    let pool = esker::Pool::from_backend(Arc::new(MapPool::default()), OpenMode::ReadWrite);
    pool.create_container(&NewContainer::named("run1")).wait()?;
    let run = pool.open_container("run1", OpenMode::ReadWrite).wait()?;
    let index = run.kv(run.new_oid(ObjectType::KvHashed).generate(1)?)?;
    index.put(b"t2m", b"2.1", Cond::NONE, Access::Latest).wait()?;
    let value = index.get(b"t2m", Access::Latest).wait()?;
    println!("t2m: {}", String::from_utf8_lossy(&value.unwrap_or_default()));
    Ok(())
}
