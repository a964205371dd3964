//! Containers: directories by UUID, and labels that lead to them.
use super::files::{self, Files, discard, failed};
use super::lock::{Lock, Turns};
use super::meta::Meta;
use super::pool::{CONTAINERS, LABELS, META};
use esker_backend::NewContainer;
use esker_backend::block::Block;
use esker_backend::handles::{Handled, Handles, gone};
use esker_backend::leases::Leases;
use esker_types::info::{ContainerId, ContainerInfo, ContainerRef};
use esker_types::{Error, ErrorKind, ObjectId, Result, Uuid};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The files of a pool and the turns at changing them.
pub(super) struct Place {
    pub(super) root: PathBuf,
    pub(super) files: Files,
    pub(super) turns: Turns,
}

/// A container this process has met.
pub(super) struct Container {
    pub(super) id: ContainerId,
    pub(super) dir: PathBuf,
    pub(super) first_oid: u64,
    pub(super) oids: Mutex<Block>,
    pub(super) leases: Leases,
    handles: Handles,
}

impl Handled for Container {
    fn handles(&self) -> &Handles {
        &self.handles
    }
}

impl Container {
    pub(super) fn new(id: ContainerId, place: &Place, meta: &Meta) -> Self {
        Self {
            id,
            dir: place.container(meta.uuid),
            first_oid: meta.first_oid,
            oids: Mutex::default(),
            leases: Leases::default(),
            handles: Handles::default(),
        }
    }

    /// Refuses a container whose files are gone: somebody destroyed it.
    pub(super) fn check_there(&self) -> Result<()> {
        match files::info(&self.dir.join(META))? {
            Some(_) => Ok(()),
            None => Err(gone()),
        }
    }

    /// What it says about itself, with this process's handles.
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

    /// Where an object is: 32 hex digits of its id.
    pub(super) fn object(&self, oid: ObjectId) -> PathBuf {
        self.dir.join(format!("{:016x}{:016x}", oid.hi, oid.lo))
    }
}

/// An operation that missed a directory of the container.
#[cold]
pub(super) fn destroyed(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => gone(),
        _ => error,
    }
}

#[cold]
fn taken(name: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("container {name} exists"))
}

impl Place {
    fn container(&self, uuid: Uuid) -> PathBuf {
        self.root.join(CONTAINERS).join(uuid.to_string())
    }

    fn label(&self, label: &str) -> PathBuf {
        // A dot alone, or two, would be no file of ours; labels have no `%`.
        let name = match label.strip_prefix('.') {
            Some(rest) => format!("%2E{rest}"),
            None => label.to_owned(),
        };
        self.root.join(LABELS).join(name)
    }

    /// Makes a container: its directory at once, with its metadata; then its label.
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
            return Err(taken(label));
        }
        self.create_directory(&meta)?;
        if let Err(error) = new.label.map_or(Ok(()), |label| self.claim_label(label, uuid)) {
            self.remove_directory(uuid)?;
            return Err(error);
        }
        Ok(meta)
    }

    fn create_directory(&self, meta: &Meta) -> Result<()> {
        let bytes = meta.to_bytes();
        let file = self.files.temporary(|file| files::write_parts(file, &[&bytes]))?;
        let (staged, place) = (self.files.fresh_path(), self.container(meta.uuid));
        self.files.make_directory(&staged)?;
        self.files.replace(&file, &staged.join(META))?;
        let moved = fs::rename(&staged, &place);
        if moved.is_err() {
            discard(&staged);
        }
        match moved.map_err(|error| error.kind()) {
            Ok(()) => self.files.sync_parent(&place),
            Err(io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {
                Err(taken(&meta.uuid.to_string()))
            }
            Err(kind) => Err(failed("making", &place, &kind.into())),
        }
    }

    /// Lets `label` lead to a container.
    ///
    /// # Errors
    /// `Exists`.
    fn claim_label(&self, label: &str, uuid: Uuid) -> Result<()> {
        let text = uuid.to_string();
        let file = self.files.temporary(|file| files::write_parts(file, &[text.as_bytes()]))?;
        let place = self.label(label);
        match self.files.insert(&file, &place) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Exists => {
                match self.find_label(label)? {
                    Some(_) => Err(taken(label)),
                    // It leads nowhere: a process died while it renamed or destroyed a container.
                    None => self.files.replace(&file, &place).map(drop),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The container a label leads to, where there is one.
    fn find_label(&self, label: &str) -> Result<Option<Meta>> {
        let Some(text) = files::read(&self.label(label))? else { return Ok(None) };
        match std::str::from_utf8(&text).ok().and_then(Uuid::parse) {
            Some(uuid) => self.read_meta(uuid),
            None => Err(files::damaged(&self.label(label), "a damaged label")),
        }
    }

    pub(super) fn read_meta(&self, uuid: Uuid) -> Result<Option<Meta>> {
        Meta::read(&self.container(uuid).join(META))
    }

    pub(super) fn find(&self, name: ContainerRef<'_>) -> Result<Meta> {
        let found = match name {
            ContainerRef::Label("") => None,
            ContainerRef::Label(label) => self.find_label(label)?,
            ContainerRef::Uuid(uuid) => self.read_meta(uuid)?,
        };
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no container {name:?}")))
    }

    /// All containers. One that goes meanwhile is left out.
    pub(super) fn all(&self) -> Result<Vec<Meta>> {
        let names = files::names_in(&self.root.join(CONTAINERS))?;
        let uuids = names.iter().filter_map(|name| Uuid::parse(name));
        uuids.filter_map(|uuid| self.read_meta(uuid).transpose()).collect()
    }

    /// The label goes first, so that nobody finds half a container.
    pub(super) fn destroy(&self, meta: &Meta) -> Result<()> {
        self.drop_label(meta)?;
        self.remove_directory(meta.uuid)
    }

    /// Takes the label away from a container that still has it.
    fn drop_label(&self, meta: &Meta) -> Result<()> {
        if meta.label.is_empty() {
            return Ok(());
        }
        match self.find_label(&meta.label)? {
            Some(found) if found.uuid != meta.uuid => Ok(()),
            _ => self.files.remove(&self.label(&meta.label)).map(drop),
        }
    }

    /// Moves the directory out of sight at once, then removes it.
    fn remove_directory(&self, uuid: Uuid) -> Result<()> {
        let (place, hidden) = (self.container(uuid), self.files.fresh_path());
        self.files.make_session()?;
        fs::rename(&place, &hidden).map_err(|error| failed("removing", &place, &error))?;
        self.files.sync_parent(&place)?;
        // What a sweep removes at the same time is gone as well.
        let removed = files::none_if_missing(fs::remove_dir_all(&hidden)).map(drop);
        removed.map_err(|error| failed("removing", &hidden, &error))
    }

    /// Changes the metadata in `directory`, in turn with others. The pool's begin with `fresh`.
    pub(super) fn change_meta(
        &self,
        directory: &Path,
        fresh: Option<Meta>,
        change: impl FnOnce(&mut Meta) -> Result<()>,
    ) -> Result<()> {
        let path = directory.join(META);
        let Some(lock) = Lock::take(&self.turns, &self.files, &path)? else { return Err(gone()) };
        let mut meta = Meta::read(&path)?.or(fresh).ok_or_else(gone)?;
        change(&mut meta)?;
        let bytes = meta.to_bytes();
        let file = self.files.temporary(|file| files::write_parts(file, &[&bytes]))?;
        lock.check()?;
        match self.files.replace(&file, &path)? {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    pub(super) fn rename(&self, directory: &Path, label: Option<&str>) -> Result<()> {
        let label = label.unwrap_or_default();
        let mut old = None;
        self.change_meta(directory, None, |meta| {
            if meta.label == label {
                return Ok(());
            }
            if !label.is_empty() {
                self.claim_label(label, meta.uuid)?;
            }
            old = Some(meta.clone());
            meta.label = label.to_owned();
            Ok(())
        })?;
        old.map_or(Ok(()), |old| self.drop_label(&old))
    }
}

pub(super) fn random_uuid() -> Result<Uuid> {
    esker_os::random_uuid()
}
