//! The DAOS API on any POSIX file system, shared ones too, after section IV of "Performance Comparison of
//! DAOS and Lustre for Object Data Storage Approaches" (Manubens et al., 2022): pools and containers are
//! directories, Key-Values directories with a file per key, Arrays files named by their object id.
//!
//! Every byte is in docs/format.md under "The posix layout". Nothing is mapped, and no lock of a node
//! guards anything: what is replaced appears by a rename, what may exist once by a link.
#![forbid(unsafe_code)]

mod array;
mod bundle;
mod check;
mod chunk;
mod container;
mod files;
mod form;
mod general;
mod kv;
mod lock;
mod meta;
mod name;
mod oids;
mod open;
mod owner;
mod pool;

pub use check::PosixCheck;
pub use open::Posix;
pub use pool::{PosixPool, PosixUrl};

use esker_backend::check::{check_count, check_keys, check_write};
use esker_backend::handles::Handled;
use esker_backend::reply::Reply;
use esker_backend::{Backend, Capabilities, NewContainer, Scope};
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo,
};
use esker_types::limits::{AKEYS_PER_OP_MAX, EXTENTS_PER_OP_MAX};
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt, ReadMarks,
    StoredExtent, View, Wanted, Write,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result};
use form::{Form, form};
use open::TARGETS;

impl Posix {
    /// Lets `work` read an object of an open container.
    fn reading<'a, T>(
        &self,
        id: ContainerId,
        oid: ObjectId,
        at: ReadAt<'_>,
        work: impl FnOnce(&dyn Form) -> Result<T>,
    ) -> Reply<'a, T> {
        let answer = || {
            check_view(at)?;
            let container = self.table.get(id)?;
            work(&*form(&self.place, &container, oid))
        };
        Reply::Ready(answer())
    }

    fn write_all(&self, id: ContainerId, writes: &[Write<'_>]) -> Result<Epoch> {
        writes.iter().try_for_each(check_write)?;
        let container = self.table.get(id)?;
        let mut epoch = Epoch::now();
        for write in writes {
            epoch = form(&self.place, &container, write.oid).write(&write.op)?;
        }
        Ok(epoch)
    }
}

/// There are no snapshots to read.
fn check_view(at: ReadAt<'_>) -> Result<()> {
    match at.view {
        View::Latest => Ok(()),
        View::Snapshot(epoch) => {
            let message = format!("no snapshot at epoch {}: a posix pool has none", epoch.0);
            Err(Error::new(ErrorKind::NotFound, message))
        }
    }
}

fn check_fetches(oid: ObjectId, dkey: &[u8], fetches: &[Fetch<'_>]) -> Result<()> {
    check_count("akeys", fetches.len(), AKEYS_PER_OP_MAX)?;
    check_keys(oid, dkey, None)?;
    fetches.iter().try_for_each(|fetch| {
        if let Wanted::Array(extents) = fetch.wanted {
            check_count("extents", extents.len(), EXTENTS_PER_OP_MAX)?;
        }
        check_keys(oid, dkey, Some(fetch.akey))
    })
}

#[cold]
fn no_snapshots() -> Error {
    let message =
        "a posix pool has no snapshots: use a pool of this machine, or copy the directory";
    Error::new(ErrorKind::NotSupported, message)
}

impl Backend for Posix {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            snapshots: false,
            transactions: false,
            any_akeys: false,
            holes: false,
            atomic_arrays: false,
            shared_holds: false,
            targets: TARGETS,
            domains: 1,
        }
    }

    fn pool_info(&self) -> Reply<'_, PoolInfo> {
        Reply::Ready(self.info())
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        let made = self.place.create(new);
        Reply::Ready(made.map(|meta| self.note(&meta).info(&meta)))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, ContainerInfo> {
        Reply::Ready(self.place.find(name).and_then(|meta| {
            let container = self.note(&meta);
            container.handles().open(mode)?;
            Ok(container.info(&meta))
        }))
    }

    fn close_container(&self, container: ContainerId) -> Reply<'_, ()> {
        self.table.close(container);
        Reply::Ready(Ok(()))
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        Reply::Ready(self.place.find(name).and_then(|meta| {
            self.note(&meta).handles().retire(force)?;
            self.place.destroy(&meta)
        }))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        Reply::Ready(self.list())
    }

    fn rename_container<'a>(
        &'a self,
        container: ContainerId,
        label: Option<&'a str>,
    ) -> Reply<'a, ()> {
        let container = self.table.get(container);
        Reply::Ready(container.and_then(|container| self.place.rename(&container.dir, label)))
    }

    fn get_metadata<'a>(&'a self, scope: Scope, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        Reply::Ready(self.meta(scope).map(|mut meta| meta.entries.remove(name)))
    }

    fn set_metadata<'a>(
        &'a self,
        scope: Scope,
        changes: &'a [(&'a str, Option<&'a [u8]>)],
    ) -> Reply<'a, ()> {
        Reply::Ready(self.change_meta(scope, changes))
    }

    fn list_metadata<'a>(&'a self, scope: Scope, prefix: &'a str) -> Reply<'a, Vec<String>> {
        Reply::Ready(self.meta(scope).map(|meta| {
            let names = meta.entries.into_keys();
            names.filter(|name| name.starts_with(prefix)).collect()
        }))
    }

    fn allocate_oids(&self, container: ContainerId, count: u64) -> Reply<'_, u64> {
        let container = self.table.get(container);
        Reply::Ready(container.and_then(|found| oids::allocate(&found, &self.place.files, count)))
    }

    fn next_oid(&self, container: ContainerId) -> Reply<'_, u64> {
        Reply::Ready(self.table.get(container).and_then(|container| oids::next(&container)))
    }

    /// One after the other, each on its own: `Capabilities::transactions` says that no more is promised.
    fn write<'a>(
        &'a self,
        container: ContainerId,
        writes: &'a [Write<'a>],
        marks: Option<&'a ReadMarks>,
    ) -> Reply<'a, Epoch> {
        Reply::Ready(match marks {
            None => self.write_all(container, writes),
            Some(_) => Err(Error::new(ErrorKind::NotSupported, "a posix pool has no transactions")),
        })
    }

    fn fetch<'a, 'b>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        dkey: &'a [u8],
        cond: Cond,
        fetches: &'a mut [Fetch<'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'a,
    {
        let mut outcome = || {
            check_fetches(oid, dkey, fetches)?;
            self.reading(container, oid, at, |form| form.fetch(dkey, cond, fetches)).wait()?;
            match fetches.iter().any(|fetch| fetch.size > 0) {
                true => Ok(()),
                false => self.table.get(container)?.check_there(),
            }
        };
        Reply::Ready(outcome())
    }

    fn list_keys<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        self.reading(container, oid, at, |form| {
            if let KeyScope::Akeys(dkey) = scope {
                check_keys(oid, dkey, None)?;
            }
            form.list_keys(scope, anchor, limit)
        })
    }

    fn list_extents<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        self.reading(container, oid, at, |form| {
            check_keys(oid, key.dkey, Some(key.akey))?;
            form.list_extents(key, anchor, entries)
        })
    }

    fn list_objects<'a>(
        &'a self,
        container: ContainerId,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        Reply::Ready(check_view(at).and_then(|()| self.objects(container, anchor, entries)))
    }

    fn query_key<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.reading(container, oid, at, |form| {
            query.dkey.map_or(Ok(()), |dkey| check_keys(oid, dkey, query.akey))?;
            form.query(query)
        })
    }

    fn object_epoch<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.reading(container, oid, at, |form| form.epoch())
    }

    fn create_snapshot<'a>(&'a self, _: ContainerId, _: &'a str) -> Reply<'a, Epoch> {
        Reply::Ready(Err(no_snapshots()))
    }

    fn list_snapshots(&self, container: ContainerId) -> Reply<'_, Vec<SnapshotInfo>> {
        Reply::Ready(self.table.get(container).map(|_| Vec::new()))
    }

    fn destroy_snapshot(&self, _: ContainerId, _: Epoch) -> Reply<'_, ()> {
        Reply::Ready(Err(no_snapshots()))
    }

    fn hold(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, ()> {
        self.holds.hold(container, oid);
        Reply::Ready(Ok(()))
    }

    fn release(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, bool> {
        Reply::Ready(Ok(self.holds.release(container, oid)))
    }

    fn doom(&self, container: &ContainerInfo, oid: ObjectId) -> Reply<'_, bool> {
        Reply::Ready(Ok(self.holds.doom(container.id, oid)))
    }
}
