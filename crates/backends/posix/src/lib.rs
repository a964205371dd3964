//! The DAOS API on any POSIX file system, including shared ones, modelled on section IV of "Performance Comparison of
//! DAOS and Lustre for Object Data Storage Approaches" (Manubens et al., 2022): pools and containers are directories,
//! Key-Values are directories with one file per key, and Arrays are files named by object id.
//!
//! docs/format.md, "The posix layout", specifies every byte. Nothing is mapped and no lock is local to a node: files
//! are replaced by a rename, and files that must be unique are created by a link. A change of several files takes
//! effect by one rename into a journal.
#![forbid(unsafe_code)]

mod array;
mod array_plan;
mod bundle;
mod check;
mod chunk;
mod commit;
mod container;
mod files;
mod form;
mod general;
mod journal;
mod kv;
mod lock;
mod meta;
mod name;
mod oids;
mod open;
mod owner;
mod permissions;
mod plan;
mod pool;
mod proof;
mod reservations;

pub use check::PosixCheck;
pub use open::Posix;
pub use pool::{PosixPool, PosixUrl};

use commit::ReadExtent;
use esker_backend::check::{check_count, check_keys, check_latest};
use esker_backend::handles::Handled;
use esker_backend::leases::Leases;
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo};
use esker_types::limits::{AKEYS_PER_OP_MAX, EXTENTS_PER_OP_MAX};
use esker_types::ops::{
    AkeyRef, Anchor, Change, DkeyFetch, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt,
    StoredExtent, Wanted,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result};
use meta::Meta;
use open::{Opened, TARGETS};
use proof::Watched;
use std::sync::Arc;

impl Opened {
    /// Fetches akeys of one dkey, after checking the request.
    fn fetch_dkey(
        &self,
        oid: ObjectId,
        DkeyFetch { dkey, cond, akeys }: &mut DkeyFetch<'_, '_>,
        at: ReadAt<'_>,
    ) -> Result<()> {
        check_fetches(oid, dkey, akeys)?;
        check_view(at)?;
        let watched = at.tokens.map(|_| Watched::fetched(dkey, akeys));
        let extent = ReadExtent::of_dkey(oid, Some(dkey));
        self.read(oid, at, extent, watched, |form| form.fetch(dkey, *cond, akeys))?;
        self.check_found((), |()| akeys.iter().any(|fetch| fetch.reply.size > 0))
    }

    /// Returns the reply of a read. If `is_found` is false for it, the container may have been destroyed, which is
    /// checked then: its directory is missing, and a missing directory is read like an empty one.
    fn check_found<T>(&self, reply: T, is_found: impl FnOnce(&T) -> bool) -> Result<T> {
        if !is_found(&reply) {
            self.container.check_there()?;
        }
        Ok(reply)
    }
}

/// Rejects reads of snapshots, because this backend has none.
fn check_view(at: ReadAt<'_>) -> Result<()> {
    check_latest(at, "posix")
}

/// Fails if a fetch has wrong keys, or too many akeys or extents.
fn check_fetches(oid: ObjectId, dkey: &[u8], fetches: &[Fetch<'_>]) -> Result<()> {
    check_count("akeys", fetches.len(), AKEYS_PER_OP_MAX)?;
    check_keys(oid, dkey, None)?;
    fetches.iter().try_for_each(|fetch| {
        if let Wanted::Array(extents) = fetch.request.wanted {
            check_count("extents", extents.len(), EXTENTS_PER_OP_MAX)?;
        }
        check_keys(oid, dkey, Some(fetch.request.akey))
    })
}

/// The names of metadata that begin with `prefix`, sorted.
fn names(meta: Meta, prefix: &str) -> Vec<String> {
    meta.entries.into_keys().filter(|name| name.starts_with(prefix)).collect()
}

impl Metadata for Posix {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        Reply::Ready(self.0.meta().map(|mut meta| meta.entries.remove(name)))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        Reply::Ready(self.0.change_meta(changes))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        Reply::Ready(self.0.meta().map(|meta| names(meta, prefix)))
    }
}

impl Pool for Posix {
    fn capabilities(&self) -> Capabilities {
        Capabilities { transactions: true, proves_by_value: true, ..Capabilities::minimal(TARGETS) }
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        Reply::Ready(self.0.info())
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        let made = self.0.directory.create(new);
        Reply::Ready(made.map(|meta| self.0.note(&meta).info(&meta)))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        Reply::Ready(self.0.directory.find(name).and_then(|meta| {
            let container = self.0.note(&meta);
            container.handles().open(mode)?;
            let info = container.info(&meta);
            let opened = Opened { pool: Arc::clone(&self.0), container, info };
            Ok(Box::new(opened) as Box<dyn OpenContainer>)
        }))
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        Reply::Ready(self.0.directory.find(name).and_then(|meta| {
            let container = self.0.note(&meta);
            container.handles().check_unused(force)?;
            let outcome = self.0.directory.destroy(&meta);
            // The handles are retired last, because the file system may refuse the removal. A write before that is
            // harmless: the directory goes by one rename, and a write after that finds no directory.
            let is_gone = |error: Error| error.kind() == ErrorKind::NoHandle;
            if outcome.is_ok() || container.check_there().is_err_and(is_gone) {
                container.handles().retire();
            }
            outcome
        }))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        Reply::Ready(self.0.list())
    }
}

impl Metadata for Opened {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        Reply::Ready(self.meta().map(|mut meta| meta.entries.remove(name)))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        Reply::Ready(self.change_meta(changes))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        Reply::Ready(self.meta().map(|meta| names(meta, prefix)))
    }
}

impl OpenContainer for Opened {
    fn info(&self) -> &ContainerInfo {
        &self.info
    }

    fn sync(&self) -> Reply<'_, ()> {
        Reply::Ready(self.pool.sync())
    }

    fn close(&self) -> Reply<'_, ()> {
        self.container.handles().close();
        Reply::Ready(Ok(()))
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        let alive = self.container.check_alive();
        Reply::Ready(alive.and_then(|()| self.pool.directory.rename(&self.container.dir, label)))
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        let (container, directory) = (&self.container, &self.pool.directory);
        let alive = container.check_alive();
        Reply::Ready(alive.and_then(|()| oids::allocate(container, directory, count)))
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        let container = &self.container;
        let there = container.check_alive().and_then(|()| container.check_there());
        Reply::Ready(there.and_then(|()| oids::next(container)))
    }

    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        Reply::Ready(self.write_all(&change))
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
        Reply::Ready(dkeys.iter_mut().try_for_each(|dkey| self.fetch_dkey(oid, dkey, at)))
    }

    /// Lists keys. The anchor is set back before each attempt, because a read may be repeated.
    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        let (watched, extent) = match scope {
            KeyScope::Akeys(dkey) => (Watched::dkey(dkey), ReadExtent::of_dkey(oid, Some(dkey))),
            KeyScope::Dkeys => (Watched::Dkeys, ReadExtent::Several),
        };
        let begin = anchor.clone();
        Reply::Ready(check_view(at).and_then(|()| {
            if let KeyScope::Akeys(dkey) = scope {
                check_keys(oid, dkey, None)?;
            }
            let page = self.read(oid, at, extent, Some(watched), |form| {
                anchor.clone_from(&begin);
                form.list_keys(scope, anchor, limit)
            })?;
            self.check_found(page, |_| !anchor.is_end())
        }))
    }

    /// Lists extents. The anchor is set back before each attempt, because a read may be repeated.
    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        let begin = anchor.clone();
        Reply::Ready(check_view(at).and_then(|()| {
            check_keys(oid, key.dkey, Some(key.akey))?;
            let extent = ReadExtent::of_dkey(oid, Some(key.dkey));
            let watched = Some(Watched::dkey_with_epoch(key.dkey));
            let page = self.read(oid, at, extent, watched, |form| {
                anchor.clone_from(&begin);
                form.list_extents(key, anchor, entries)
            })?;
            self.check_found(page, |_| !anchor.is_end())
        }))
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        Reply::Ready(check_view(at).and_then(|()| {
            let page = self.objects(anchor, entries)?;
            self.check_found(page, |_| !anchor.is_end())
        }))
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        Reply::Ready(check_view(at).and_then(|()| {
            query.dkey.map_or(Ok(()), |dkey| check_keys(oid, dkey, query.akey))?;
            let watched = Watched::dkey_or_object(query.dkey);
            let extent = ReadExtent::of_dkey(oid, query.dkey);
            let found = self.read(oid, at, extent, Some(watched), |form| form.query(query))?;
            self.check_found(found, Option::is_some)
        }))
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        Reply::Ready(check_view(at).and_then(|()| {
            dkey.map_or(Ok(()), |dkey| check_keys(oid, dkey, None))?;
            let extent = ReadExtent::of_dkey(oid, dkey);
            let watched = dkey.map_or(Watched::Object, Watched::dkey_with_epoch);
            let epoch = self.read(oid, at, extent, Some(watched), |form| form.epoch(dkey))?;
            self.check_found(epoch, |epoch| *epoch != Epoch::default())
        }))
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        Reply::Ready(self.container.check_alive().map(|()| Vec::new()))
    }

    fn leases(&self) -> Option<&Leases> {
        Some(&self.container.leases)
    }
}
