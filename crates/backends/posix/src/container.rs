//! Containers: directories named by UUID, and labels that refer to them.
use super::files::{self, Files, discard, io_error};
use super::journal::Headings;
use super::lock::{Locks, ThreadLocks};
use super::meta::Meta;
use super::pool::{CONTAINERS, LABELS, META, TMP};
use esker_backend::NewContainer;
use esker_backend::block::Block;
use esker_backend::handles::{Handled, Handles, gone};
use esker_backend::leases::Leases;
use esker_os::ForkLock;
use esker_types::info::{ContainerId, ContainerInfo, ContainerRef};
use esker_types::{Error, ErrorKind, ObjectId, Result, Uuid};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directory of a pool, with the state for changing its files.
pub(super) struct PoolDirectory {
    pub(super) root: PathBuf,
    pub(super) files: Files,
    pub(super) thread_locks: ThreadLocks,
    /// Locks for completing commits, and for labels. A thread takes them after those of objects and metadata.
    pub(super) journal_locks: ThreadLocks,
}

/// A container that this process has opened or listed.
pub(super) struct Container {
    pub(super) id: ContainerId,
    pub(super) dir: PathBuf,
    pub(super) first_oid: u64,
    /// Numbers that this process has claimed. A forked child claims others.
    pub(super) oids: ForkLock<Block>,
    pub(super) headings: ForkLock<Headings>,
    pub(super) leases: Leases,
    handles: Handles,
}

impl Handled for Container {
    fn handles(&self) -> &Handles {
        &self.handles
    }
}

impl Container {
    /// The state of a container that this process meets for the first time. `id` is its number in this process.
    pub(super) fn new(id: ContainerId, directory: &PoolDirectory, meta: &Meta) -> Self {
        Self {
            id,
            dir: directory.container(meta.uuid),
            first_oid: meta.first_oid,
            oids: ForkLock::default(),
            headings: ForkLock::default(),
            leases: Leases::default(),
            handles: Handles::default(),
        }
    }

    /// Fails if the container's files are gone because another process destroyed it.
    pub(super) fn check_there(&self) -> Result<()> {
        match files::info(&self.dir.join(META))? {
            Some(_) => Ok(()),
            None => Err(gone()),
        }
    }

    /// The current description of the container, including this process's handles.
    pub(super) fn info(&self, meta: &Meta) -> ContainerInfo {
        ContainerInfo {
            id: self.id,
            uuid: meta.uuid,
            label: meta.label.clone(),
            checksum: meta.checksum,
            created: meta.created,
            handles: self.handles.count(),
        }
    }

    /// The path of an object: 32 hex digits of its id.
    pub(super) fn object(&self, oid: ObjectId) -> PathBuf {
        self.dir.join(format!("{:016x}{:016x}", oid.hi, oid.lo))
    }
}

/// Path of the file of a label in the pool at `root`.
pub(super) fn label_path(root: &Path, label: &str) -> PathBuf {
    // `.` and `..` are not usable as file names; `%` is not valid in labels.
    let name = match label.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => label.to_owned(),
    };
    root.join(LABELS).join(name)
}

/// The error of an operation for which a directory of the container was missing.
#[cold]
pub(super) fn destroyed(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => gone(),
        _ => error,
    }
}

#[cold]
fn exists_error(name: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("container {name} exists"))
}

impl PoolDirectory {
    fn container(&self, uuid: Uuid) -> PathBuf {
        self.root.join(CONTAINERS).join(uuid.to_string())
    }

    /// Path of the file of a label.
    fn label(&self, label: &str) -> PathBuf {
        label_path(&self.root, label)
    }

    /// Creates a container: first its directory with the metadata, by one rename, then its label.
    pub(super) fn create(&self, new: &NewContainer<'_>) -> Result<Meta> {
        let uuid = new.uuid.map_or_else(random_uuid, Ok)?;
        let mut meta = Meta::new(uuid);
        meta.checksum = new.checksum;
        meta.first_oid = new.first_oid;
        meta.label = new.label.unwrap_or_default().to_owned();
        let changes: Vec<_> =
            new.metadata.iter().map(|(name, value)| (*name, Some(*value))).collect();
        meta.change(&changes);
        if let Some(label) = new.label
            && self.find_label(label)?.is_some()
        {
            return Err(exists_error(label));
        }
        self.create_directory(&meta)?;
        if let Err(error) = new.label.map_or(Ok(()), |label| self.claim_label(label, uuid)) {
            discard_container(&self.hide(uuid)?)?;
            return Err(error);
        }
        Ok(meta)
    }

    /// Creates the directory of a container with its metadata in it. It is complete when it gets its name.
    fn create_directory(&self, meta: &Meta) -> Result<()> {
        let bytes = meta.to_bytes();
        let file = self.files.temporary(|file| files::write_parts(file, &[&bytes]))?;
        let (staged, path) = (self.files.fresh_path(), self.container(meta.uuid));
        self.files.make_directory(&staged)?;
        self.files.replace(&file, &staged.join(META))?;
        let moved = fs::rename(&staged, &path);
        if moved.is_err() {
            discard(&staged);
        }
        match moved.map_err(|error| error.kind()) {
            Ok(()) => self.files.sync_parent(&path),
            Err(io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {
                Err(exists_error(&meta.uuid.to_string()))
            }
            Err(kind) => Err(io_error("making", &path, &kind.into())),
        }
    }

    /// Makes `label` refer to a container, by a file that can be created only once. A label that refers to no container
    /// is left by a process that died, and is replaced. A container may have its label already, and keeps it.
    ///
    /// # Errors
    /// `Exists`.
    fn claim_label(&self, label: &str, uuid: Uuid) -> Result<()> {
        let text = uuid.to_string();
        let file = self.files.temporary(|file| files::write_parts(file, &[text.as_bytes()]))?;
        let path = self.label(label);
        let mut inserted = self.files.insert(&file, &path);
        if inserted == Ok(false) {
            self.files.make_directory(&self.root.join(LABELS))?;
            inserted = self.files.insert(&file, &path);
        }
        match inserted {
            Ok(true) => Ok(()),
            Ok(false) => Err(files::directory_removed_error(&path)),
            Err(error) if error.kind() == ErrorKind::Exists => match self.find_label(label)? {
                Some(found) if found.uuid == uuid => Ok(()),
                Some(_) => Err(exists_error(label)),
                None => self.replace_label(label, &text),
            },
            Err(error) => Err(error),
        }
    }

    /// Replaces a label that refers to no container, since a process died while it renamed or destroyed one. The lock
    /// makes the check and the replacement one step: only one of several processes succeeds.
    ///
    /// # Errors
    /// `Exists` if another process was faster.
    fn replace_label(&self, label: &str, uuid: &str) -> Result<()> {
        let path = self.label(label);
        let lock = Locks::take_one(&self.journal_locks, &self.files, path.clone())?;
        let lock = lock.ok_or_else(gone)?;
        match self.find_label(label)? {
            Some(_) => Err(exists_error(label)),
            None => lock.replace(&self.files, &path, uuid.as_bytes(), || Err(gone())),
        }
    }

    /// The container that a label refers to, if there is one.
    fn find_label(&self, label: &str) -> Result<Option<Meta>> {
        let Some(text) = files::read(&self.label(label))? else { return Ok(None) };
        match std::str::from_utf8(&text).ok().and_then(Uuid::parse) {
            Some(uuid) => self.read_meta(uuid),
            None => Err(files::damaged(&self.label(label), "a label is damaged")),
        }
    }

    pub(super) fn read_meta(&self, uuid: Uuid) -> Result<Option<Meta>> {
        Meta::read(&self.container(uuid).join(META))
    }

    /// Reads the metadata of a container by its label or UUID.
    pub(super) fn find(&self, name: ContainerRef<'_>) -> Result<Meta> {
        let found = match name {
            ContainerRef::Label("") => None,
            ContainerRef::Label(label) => self.find_label(label)?,
            ContainerRef::Uuid(uuid) => self.read_meta(uuid)?,
        };
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no container {name:?}")))
    }

    /// All containers. One that is destroyed during the listing is skipped.
    pub(super) fn all(&self) -> Result<Vec<Meta>> {
        let names = files::names_in(&self.root.join(CONTAINERS))?;
        let uuids = names.iter().filter_map(|name| Uuid::parse(name));
        uuids.filter_map(|uuid| self.read_meta(uuid).transpose()).collect()
    }

    /// Destroys a container. Its directory is hidden first: if that is refused, nothing has changed, and only one of
    /// several processes goes on to the label. If this process dies before it removes the label, the label refers to no
    /// container, and another container may have it.
    pub(super) fn destroy(&self, meta: &Meta) -> Result<()> {
        let hidden = self.hide(meta.uuid)?;
        let dropped = self.drop_label(meta);
        discard_container(&hidden)?;
        let dropped = match dropped {
            // The lock needs space, which the container took until now.
            Err(error) if error.kind() == ErrorKind::NoSpace => self.drop_label(meta),
            dropped => dropped,
        };
        self.files.end_session();
        dropped
    }

    /// Removes the label of a container, if it is still that container's. The lock keeps away processes that replace a
    /// label which refers to no container.
    fn drop_label(&self, meta: &Meta) -> Result<()> {
        if meta.label.is_empty() {
            return Ok(());
        }
        let (path, text) = (self.label(&meta.label), meta.uuid.to_string());
        let is_own = || {
            let stored = files::read(&path)?;
            Ok::<_, Error>(stored.as_deref() == Some(text.as_bytes()))
        };
        if !is_own()? {
            return Ok(());
        }
        let lock = Locks::take_one(&self.journal_locks, &self.files, path.clone())?;
        let lock = lock.ok_or_else(gone)?;
        match is_own()? {
            true => lock.remove(&self.files, &path),
            false => Ok(()),
        }
    }

    /// Hides the directory of a container by a rename. Returns its new path.
    fn hide(&self, uuid: Uuid) -> Result<PathBuf> {
        // Not into the directory of the session, which may have to be created: a full file system has no space for
        // that.
        let path = self.container(uuid);
        let hidden = self.root.join(TMP).join(random_uuid()?.to_string());
        fs::rename(&path, &hidden).map_err(|error| io_error("removing", &path, &error))?;
        self.files.sync_parent(&path)?;
        Ok(hidden)
    }

    /// Fails if a directory is missing: the container, or the pool, was destroyed.
    fn check_directory(directory: &Path) -> Result<()> {
        match files::info(directory)? {
            Some(_) => Ok(()),
            None => Err(gone()),
        }
    }

    /// Changes the metadata in `directory` under its lock. If there is none yet, it starts as `fresh`; without `fresh`,
    /// the container was destroyed.
    pub(super) fn change_meta(
        &self,
        directory: &Path,
        fresh: Option<Meta>,
        change: impl FnOnce(&mut Meta) -> Result<()>,
    ) -> Result<()> {
        let lock = self.lock_meta(directory)?;
        let mut meta = Meta::read(&directory.join(META))?.or(fresh).ok_or_else(gone)?;
        change(&mut meta)?;
        self.replace_meta(directory, &lock, &meta)
    }

    /// Locks the metadata in a directory.
    fn lock_meta(&self, directory: &Path) -> Result<Locks<'_>> {
        let lock = Locks::take_one(&self.thread_locks, &self.files, directory.join(META))?;
        lock.ok_or_else(gone)
    }

    /// Replaces the metadata in a directory, under its lock.
    fn replace_meta(&self, directory: &Path, lock: &Locks<'_>, meta: &Meta) -> Result<()> {
        let check = || Self::check_directory(directory);
        lock.replace(&self.files, &directory.join(META), &meta.to_bytes(), check)
    }

    /// Changes the label of a container; `None` removes it. The new one is claimed first, and the old one released at
    /// the end. A process that dies in between leaves one label too many, but a named container.
    pub(super) fn rename(&self, directory: &Path, label: Option<&str>) -> Result<()> {
        let label = label.unwrap_or_default();
        let lock = self.lock_meta(directory)?;
        let old = Meta::read(&directory.join(META))?.ok_or_else(gone)?;
        // Also if the metadata has the label: a process that died may not have made its file.
        if !label.is_empty() {
            self.claim_label(label, old.uuid)?;
        }
        if old.label == label {
            return Ok(());
        }
        let new = Meta { label: label.to_owned(), ..old.clone() };
        if let Err(error) = self.replace_meta(directory, &lock, &new) {
            self.release_claim(directory, &lock, &new);
            return Err(error);
        }
        // Under the lock: a later rename may take the old label back.
        self.drop_label(&old)
    }

    /// Removes the label that a failed rename has claimed, unless the metadata has it all the same. Without the lock,
    /// another process may be about to store it there: then the label stays, and a later rename finds it.
    fn release_claim(&self, directory: &Path, lock: &Locks<'_>, new: &Meta) {
        let stored = Meta::read(&directory.join(META));
        if lock.check().is_ok()
            && stored.is_ok_and(|stored| stored.is_none_or(|stored| stored.label != new.label))
        {
            let _ = self.drop_label(new);
        }
    }
}

/// Removes the hidden directory of a container. Another node may use a file in it, or a sweep may remove it at the same
/// time: a sweep removes what is left.
fn discard_container(hidden: &Path) -> Result<()> {
    use io::ErrorKind::{DirectoryNotEmpty, NotFound, ResourceBusy};
    match fs::remove_dir_all(hidden) {
        Err(error) if !matches!(error.kind(), DirectoryNotEmpty | NotFound | ResourceBusy) => {
            Err(io_error("removing", hidden, &error))
        }
        _ => Ok(()),
    }
}

pub(super) fn random_uuid() -> Result<Uuid> {
    esker_os::random_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Posix, PosixPool, PosixUrl, check};
    use esker_types::info::OpenMode;

    #[test]
    fn failed_rename_gives_its_label_back() {
        let path = std::env::temp_dir().join(format!("esker-posix-claim-{}", std::process::id()));
        PosixPool::create(&path, false).unwrap();
        let url = PosixUrl { path: path.clone(), fsync: None };
        let pool = Posix::open(&url, OpenMode::ReadWrite).unwrap();
        let directory = &pool.0.directory;
        let meta = directory.create(&NewContainer::named("old")).unwrap();
        let own = directory.container(meta.uuid);
        directory.claim_label("new", meta.uuid).unwrap();
        let lock = directory.lock_meta(&own).unwrap();
        directory.release_claim(&own, &lock, &Meta { label: "new".to_owned(), ..meta.clone() });
        assert!(directory.find_label("new").unwrap().is_none());
        // A label that the metadata has is not released.
        directory.release_claim(&own, &lock, &meta);
        assert!(directory.find_label("old").unwrap().is_some());
        drop(lock);
        fs::remove_dir_all(path).unwrap();
    }

    /// Two processes destroy a container, and a third one creates another with its label in between.
    #[test]
    fn second_destroyer_leaves_the_label_of_a_new_container() {
        let path = std::env::temp_dir().join(format!("esker-posix-second-{}", std::process::id()));
        PosixPool::create(&path, false).unwrap();
        let url = PosixUrl { path: path.clone(), fsync: None };
        let pool = Posix::open(&url, OpenMode::ReadWrite).unwrap();
        let directory = &pool.0.directory;
        let old = directory.create(&NewContainer::named("x")).unwrap();
        let hidden = directory.hide(old.uuid).unwrap();
        let new = directory.create(&NewContainer::named("x")).unwrap();
        assert_eq!(directory.destroy(&old).unwrap_err().kind(), ErrorKind::NotFound);
        directory.drop_label(&old).unwrap();
        discard_container(&hidden).unwrap();
        assert_eq!(directory.find_label("x").unwrap().unwrap().uuid, new.uuid);
        fs::remove_dir_all(path).unwrap();
    }

    /// A check may meet a container between two steps of its creation or removal.
    #[test]
    fn check_waits_for_the_label_of_a_container_that_changes() {
        let path = std::env::temp_dir().join(format!("esker-posix-check-{}", std::process::id()));
        PosixPool::create(&path, false).unwrap();
        let url = PosixUrl { path: path.clone(), fsync: None };
        let pool = Posix::open(&url, OpenMode::ReadWrite).unwrap();
        let directory = &pool.0.directory;
        let old = directory.create(&NewContainer::named("old")).unwrap();
        discard_container(&directory.hide(old.uuid).unwrap()).unwrap();
        assert!(check::has_own_label(&path, old.uuid).unwrap());
        let is_valid = || check::is_label_valid(&path, &directory.label("old"));
        assert!(!is_valid().unwrap());
        directory.drop_label(&old).unwrap();
        assert!(is_valid().unwrap());
        let new = Meta { label: "new".to_owned(), ..Meta::new(random_uuid().unwrap()) };
        directory.create_directory(&new).unwrap();
        let has_label = || match check::has_own_label(&path, new.uuid)? {
            true => Ok(true),
            false => directory.claim_label("new", new.uuid).map(|()| false),
        };
        assert!(check::becomes_true(&mut 0, has_label).unwrap());
        assert_eq!(PosixPool::check(&path).unwrap().problems, Vec::<String>::new());
        fs::remove_dir_all(path).unwrap();
    }
}
