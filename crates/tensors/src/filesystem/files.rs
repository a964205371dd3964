//! Directories and files, derived from the names of tensors.
use crate::filesystem::ids;
use crate::filesystem::places::{Place, Places};
use crate::hdf5::Image;
use crate::{Located, TensorStore};
use dfs::limits::NAME_MAX;
use dfs::{Inode, Kind, Time};
use esker::types::{ErrorKind, KeyBatch, ObjectId, Result};
use esker_os::ForkLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Suffix of the names of files.
const ENDING: &str = ".h5";

/// Permission bits.
pub(crate) const DIRECTORY_MODE: u32 = 0o555;
const FILE_MODE: u32 = 0o444;

/// Sorts after every byte of UTF-8, so a prefix with this byte sorts after all names with the prefix.
const BEHIND: u8 = 0xff;

/// A store whose tensors are shown as files.
pub(crate) struct Files {
    store: TensorStore,
    root: ObjectId,
    /// User and group of all entries: those of this process.
    owner: (u32, u32),
    /// Time of the mount, which directories show as their modification time.
    since: Time,
    places: Places,
    /// Open files of this process; a forked child opens its own.
    open: ForkLock<HashMap<ObjectId, Open>>,
}

/// A file that this process has open.
struct Open {
    times: usize,
    image: Arc<Image>,
}

impl Files {
    pub(crate) fn new(store: TensorStore, root: ObjectId) -> Self {
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let (places, open) = (Places::default(), ForkLock::default());
        Self { store, root, owner, since: Time::now(), places, open }
    }

    pub(crate) fn store(&self) -> &TensorStore {
        &self.store
    }

    /// Prefix of the names in a directory; `None` if the id is not that of a directory.
    pub(crate) fn directory(&self, oid: ObjectId) -> Result<Option<String>> {
        if oid == self.root {
            return Ok(Some(String::new()));
        }
        match ids::is_directory(oid) {
            true => self.path(oid),
            false => Ok(None),
        }
    }

    /// The file with an id; `None` if the id is not that of a file, or if its tensor is gone and no process reads it.
    pub(crate) fn image(&self, oid: ObjectId) -> Result<Option<Arc<Image>>> {
        if let Some(open) = self.open.lock().get(&oid) {
            return Ok(Some(Arc::clone(&open.image)));
        }
        let uuid = match self.places.get(oid) {
            Some(Place::File(uuid)) => Some(uuid),
            Some(Place::Directory(_) | Place::Nothing(_)) => None,
            // A file that was open when this process was forked from another may have no name any more.
            None => self.store.uuid_of(oid)?,
        };
        let opened = uuid.map(|uuid| self.store.open_uuid(uuid));
        match opened.unwrap_or(Err(ErrorKind::NotFound.into())) {
            Ok(tensor) => Image::new(&tensor).map(|image| Some(Arc::new(image))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.places.put(oid, Place::nothing());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a file until it is released as often as it was opened. If the tensor is gone, later reads report it.
    pub(crate) fn lease(&self, oid: ObjectId) -> Result<()> {
        let Some(image) = self.image(oid)? else { return Ok(()) };
        let mut all = self.open.lock();
        // Another thread may have opened the file meanwhile. Then this image is dropped after the lock, because the
        // drop may access the pool.
        all.entry(oid).or_insert_with(|| Open { times: 0, image: Arc::clone(&image) }).times += 1;
        drop(all);
        drop(image);
        Ok(())
    }

    /// Undoes one [`Self::lease`] of a tensor. After the last one, the lease on the tensor is released.
    pub(crate) fn release(&self, oid: ObjectId) {
        let mut all = self.open.lock();
        let Some(open) = all.get_mut(&oid) else { return };
        open.times -= 1;
        if open.times == 0 {
            let last = all.remove(&oid);
            // The drop of the image releases the lease, which may access the pool. So the table is unlocked first.
            drop(all);
            drop(last);
        }
    }

    /// Prefix of the names in the directory with an id; `None` if there is no such directory. If the id is not cached,
    /// or from another program, searches all names for it.
    fn path(&self, oid: ObjectId) -> Result<Option<String>> {
        match self.places.get(oid) {
            Some(Place::Directory(path)) => Ok(Some(path)),
            Some(Place::File(_) | Place::Nothing(_)) => Ok(None),
            None => {
                let path = self.search(oid)?;
                let place = path.clone().map_or_else(Place::nothing, Place::Directory);
                self.places.put(oid, place);
                Ok(path)
            }
        }
    }

    /// Path of a directory by its object id, which is a hash of the path. All names are searched.
    fn search(&self, oid: ObjectId) -> Result<Option<String>> {
        let mut name = self.store.next_name(b"")?;
        while let Some(at) = name {
            let mut above = at.match_indices('/').map(|(end, _)| &at[..=end]);
            if let Some(path) = above.find(|path| ids::directory(path) == oid) {
                return Ok(Some(path.to_owned()));
            }
            name = self.store.next_name(at.as_bytes())?;
        }
        Ok(None)
    }

    /// Finds a tensor by its name; `None` if there is none.
    fn locate(&self, name: &str) -> Result<Option<Located>> {
        match self.store.locate(name) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The inode of the entry `name` of a directory; `None` if it does not exist. The id of the entry is cached.
    /// `directory` is the prefix of the names of its tensors: entry `x.h5` shows the tensor `{directory}x`.
    pub(crate) fn inode(&self, directory: &str, name: &[u8]) -> Result<Option<Inode>> {
        let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
        if let Some(stem) = name.strip_suffix(ENDING).filter(|stem| !stem.is_empty())
            && let Some(found) = self.locate(&format!("{directory}{stem}"))?
        {
            self.places.put(found.oid, Place::File(found.uuid));
            return Ok(Some(self.new_inode(Kind::File, found.oid, time(found.committed))));
        }
        let path = format!("{directory}{name}/");
        if !is_shown(name) || !self.has_entries(&path)? {
            return Ok(None);
        }
        let oid = ids::directory(&path);
        self.places.put(oid, Place::Directory(path));
        Ok(Some(self.new_inode(Kind::Directory, oid, self.since)))
    }

    /// True if the name of a tensor begins with `path` and is longer.
    fn has_entries(&self, path: &str) -> Result<bool> {
        let first = self.store.next_name(path.as_bytes())?;
        Ok(first.is_some_and(|first| first.starts_with(path)))
    }

    /// Inode of a tensor or of a directory of names.
    fn new_inode(&self, kind: Kind, oid: ObjectId, time: Time) -> Inode {
        let mode = if kind == Kind::File { FILE_MODE } else { DIRECTORY_MODE };
        let ((uid, gid), class) = (self.owner, 0);
        Inode {
            kind,
            mode,
            oid,
            mtime: time,
            ctime: time,
            chunk_size: 0,
            class,
            uid,
            gid,
            link_len: 0,
        }
    }

    /// Lists at most `most` names in a directory that follow the position `after`, which is empty at first. Returns the
    /// names and the position for the next call, `None` at the end. `directory` is the prefix of the names of its
    /// tensors.
    pub(crate) fn list(
        &self,
        directory: &str,
        after: &[u8],
        most: usize,
    ) -> Result<(KeyBatch, Option<Vec<u8>>)> {
        let mut names = KeyBatch::default();
        let mut at = if after.is_empty() { directory.as_bytes().to_vec() } else { after.to_vec() };
        while names.len() < most {
            let next = self.store.next_name(&at)?;
            let Some(name) = next.filter(|name| name.starts_with(directory)) else {
                return Ok((names, None));
            };
            let entry = match name[directory.len()..].split_once('/') {
                Some((inner, rest)) => {
                    let path = [directory, inner, "/"].concat();
                    // A name that ends with a slash makes no directory by itself.
                    let has_entries = !rest.is_empty() || self.has_entries(&path)?;
                    at = path.into_bytes();
                    // The listing continues after all names in this directory.
                    at.push(BEHIND);
                    self.directory_entry(directory, inner)?.filter(|_| has_entries)
                }
                None => {
                    at = name.as_bytes().to_vec();
                    let stem = Some(&name[directory.len()..]).filter(|stem| !stem.is_empty());
                    stem.map(|stem| format!("{stem}{ENDING}"))
                }
            };
            entry.filter(|entry| is_shown(entry)).iter().for_each(|one| names.push(one.as_bytes()));
        }
        Ok((names, Some(at)))
    }

    /// The name of the subdirectory `name` of `above`; `None` if a file with this name hides it.
    fn directory_entry(&self, above: &str, name: &str) -> Result<Option<String>> {
        let is_taken = match name.strip_suffix(ENDING) {
            Some(stem) => self.locate(&format!("{above}{stem}"))?.is_some(),
            None => false,
        };
        Ok((!is_taken).then(|| name.to_owned()))
    }
}

/// True if a file system can show an entry of this name.
fn is_shown(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= NAME_MAX
}

fn time(at: SystemTime) -> Time {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}
