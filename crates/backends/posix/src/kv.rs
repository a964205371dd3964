//! Key-Values: a directory with one file per key, whose content is the value.
use super::container::destroyed;
use super::files::{self, io_error, none_if_missing, read_at, retry};
use super::form::{
    Form, Object, asks_for_the_akey, epoch_of, exists, found, missing_key_error, outermost, sorted,
    unsupported_error,
};
use super::journal::MAKE_TRIES;
use super::name::{Decoded, Name, decode, encode};
use super::plan::NewFiles;
use super::proof::{Digest, Watched};
use esker_backend::encoding::put_bytes;
use esker_backend::object::list::page_of_keys;
use esker_backend::object::read::too_big;
use esker_os::open_plain;
use esker_types::limits::KEY_MAX;
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, Sink, Source,
    StoredExtent, Update, Value, Wanted, WriteOp,
};
use esker_types::{Epoch, Error, ErrorKind, FLAT_AKEY, KeyBatch, KeyKind, Result, decode_key};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A Key-Value.
pub(super) struct KvDirectory<'a>(pub(super) Object<'a>);

/// An existing value. Files are replaced, never modified: an open file keeps its content.
struct Stored {
    /// The open file and its path; `None` if only the length is needed.
    file: Option<(File, PathBuf)>,
    /// Offset of the value.
    skip: u64,
    /// Length of the value in bytes.
    len: u64,
}

impl KvDirectory<'_> {
    fn kind(&self) -> KeyKind {
        self.0.oid.dkey_kind()
    }

    /// Path and name of the file of a key.
    fn file_of(&self, dkey: &[u8]) -> Result<(PathBuf, Name)> {
        let name = encode(self.kind(), dkey)?;
        Ok((self.0.path.join(&name.text), name))
    }

    /// The value of a key; `None` if the key does not exist. The file is opened only if `open` is set, or if it must be
    /// read to see which long key it has.
    fn stored(&self, dkey: &[u8], open: bool) -> Result<Option<Stored>> {
        let (path, name) = self.file_of(dkey)?;
        if !open && !name.hashed {
            let info = files::info(&path)?;
            return Ok(info.map(|info| Stored { file: None, skip: 0, len: info.len() }));
        }
        let opened = retry(&path, || {
            let file = open_plain(&path, false)?;
            let len = file.metadata()?.len();
            Ok((file, len))
        });
        let opened = none_if_missing(opened).map_err(|error| io_error("opening", &path, &error))?;
        let Some((file, len)) = opened else { return Ok(None) };
        let skip = match name.hashed {
            true => key_inside(&path, &file)?.filter(|key| key == dkey).map(|key| head_len(&key)),
            false => Some(0),
        };
        Ok(skip.map(|skip| Stored { file: Some((file, path)), skip, len: len - skip }))
    }

    /// Puts the value of a key, after checking the conditions.
    fn update(&self, dkey: &[u8], cond: Cond, updates: &[Update<'_>]) -> Result<()> {
        let data = self.only_value(updates)?;
        let cond = updates.iter().fold(cond, |cond, update| cond.union(update.cond));
        let (path, name) = self.file_of(dkey)?;
        let inserts = cond.intersects(Cond::DKEY_INSERT.union(Cond::AKEY_INSERT));
        let needs = cond.intersects(Cond::DKEY_UPDATE.union(Cond::AKEY_UPDATE));
        if inserts && files::info(&path)?.is_some() {
            return Err(exists("key"));
        }
        if needs && self.stored(dkey, false)?.is_none() {
            return Err(missing_key_error("key"));
        }
        let Some(data) = data else { return Ok(()) };
        if name.hashed {
            self.check_same_key(&path, dkey)?;
        }
        self.put(&path, name.hashed.then_some(dkey), data, inserts)
    }

    /// Fails if the file at `path` has a key other than `dkey`: the file names of two long keys are their hashes, which
    /// may be the same.
    fn check_same_key(&self, path: &Path, dkey: &[u8]) -> Result<()> {
        let file = none_if_missing(retry(path, || open_plain(path, false)));
        let Some(file) = file.map_err(|error| io_error("opening", path, &error))? else {
            return Ok(());
        };
        match key_inside(path, &file)? {
            Some(other) if other != dkey => Err(hash_collision_error(path)),
            _ => Ok(()),
        }
    }

    /// Writes a value to a temporary file, and renames it to `path`. A long key is the `head` of its file. With
    /// `inserts`, this fails if there is a file.
    fn put(&self, path: &Path, head: Option<&[u8]>, data: Source<'_>, inserts: bool) -> Result<()> {
        let files = &self.0.directory.files;
        let file = files.temporary(|file| write_value(file, head, data))?;
        for _ in 0..MAKE_TRIES {
            let done = match inserts {
                true => files.insert(&file, path)?,
                false => files.replace(&file, path)?,
            };
            if done {
                return Ok(());
            }
            files.make_directory(&self.0.path).map_err(destroyed)?;
        }
        Err(files::directory_removed_error(path))
    }

    /// Removes a key. The conditions may demand that it exists.
    fn remove(&self, dkey: &[u8], cond: Cond) -> Result<()> {
        let (path, name) = self.file_of(dkey)?;
        if name.hashed && self.stored(dkey, false)?.is_none() {
            return self.check_removed(cond, false);
        }
        self.check_removed(cond, self.0.directory.files.remove(&path)?)
    }

    /// Removes all keys. The conditions may demand that there is one.
    fn punch(&self, cond: Cond) -> Result<()> {
        let mut any = false;
        for name in files::names_in(&self.0.path)?.iter().filter(|name| self.is_key(name)) {
            any |= self.0.directory.files.remove(&self.0.path.join(name))?;
        }
        let _ = fs::remove_dir(&self.0.path);
        self.check_removed(cond, any)
    }

    /// True for the name of the file of a key. False for other files, such as those that an NFS client keeps for
    /// processes that have removed files open (`.nfs`).
    fn is_key(&self, name: &str) -> bool {
        decode(self.kind(), name).is_some()
    }

    /// Checks a removal that found a key, or none. None is found in a container that was destroyed, too.
    fn check_removed(&self, cond: Cond, was_there: bool) -> Result<()> {
        if !was_there {
            self.0.container.check_there()?;
        }
        demand(cond, was_there)
    }

    /// Removes akeys of a dkey, which has only one.
    fn punch_akeys(&self, dkey: &[u8], akeys: &[&[u8]], cond: Cond) -> Result<()> {
        let others = akeys.iter().any(|akey| *akey != FLAT_AKEY);
        match akeys.contains(&FLAT_AKEY) {
            _ if others && cond.has(Cond::PUNCH) => Err(missing_key_error("akey")),
            true => self.remove(dkey, cond),
            false => Ok(()),
        }
    }

    /// All keys. Long keys are read from their files; one that is removed during the listing is skipped.
    fn keys(&self) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        for name in files::names_in(&self.0.path)? {
            match decode(self.kind(), &name) {
                Some(Decoded::Key(key)) => keys.push(key),
                Some(Decoded::Inside) => keys.extend(self.long_key(&name)?),
                None => {}
            }
        }
        Ok(keys)
    }

    /// Key in the file `name`, for keys that are too long for the name of a file.
    fn long_key(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.0.path.join(name);
        let file = none_if_missing(retry(&path, || open_plain(&path, false)));
        match file.map_err(|error| io_error("opening", &path, &error))? {
            Some(file) => key_inside(&path, &file),
            None => Ok(None),
        }
    }

    fn refused(&self, what: &str) -> Error {
        unsupported_error(self.0.oid.object_type(), what)
    }
}

/// Fails if the condition requires a key and there was none.
fn demand(cond: Cond, was_there: bool) -> Result<()> {
    match cond.has(Cond::PUNCH) && !was_there {
        true => Err(missing_key_error("key to be punched")),
        false => Ok(()),
    }
}

/// Writes the file of a key: the key in front, if its name does not contain it, then the value.
fn write_value(mut file: &File, head: Option<&[u8]>, data: Source<'_>) -> io::Result<()> {
    if let Some(key) = head {
        file.write_all(&(key.len() as u32).to_le_bytes())?;
        file.write_all(key)?;
    }
    let mut outcome = Ok(());
    data.visit(0, data.len(), |piece| {
        if outcome.is_ok() {
            outcome = file.write_all(piece);
        }
    });
    outcome
}

/// Bytes in front of the value in the file of a long key.
fn head_len(key: &[u8]) -> u64 {
    4 + key.len() as u64
}

/// The key at the start of the file of a long key.
fn key_inside(path: &Path, file: &File) -> Result<Option<Vec<u8>>> {
    let read = || -> io::Result<Vec<u8>> {
        let mut len = [0; 4];
        read_at(file, path, &mut len, 0)?;
        let mut key = vec![0; (u32::from_le_bytes(len) as usize).min(KEY_MAX)];
        read_at(file, path, &mut key, 4)?;
        Ok(key)
    };
    match read() {
        Ok(key) => Ok(Some(key)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(files::damaged(path, "a file with a long key is truncated"))
        }
        Err(error) => Err(io_error("reading", path, &error)),
    }
}

/// Checks the file of a key: reads it to its end. If its name is the hash of a long key, the file must begin with that
/// key.
pub(super) fn check_file(kind: KeyKind, path: &Path) -> Result<()> {
    let opened = none_if_missing(retry(path, || open_plain(path, false)));
    let opened = opened.map_err(|error| io_error("opening", path, &error))?;
    let Some(file) = opened else { return Ok(()) };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if decode(kind, &name) == Some(Decoded::Inside) {
        let key = key_inside(path, &file)?.unwrap_or_default();
        if encode(kind, &key)?.text != name {
            return Err(files::damaged(path, "the key in the file is not that of its name"));
        }
    }
    files::read_through(&file, path)
}

#[cold]
fn hash_collision_error(path: &Path) -> Error {
    let message =
        format!("{}: another long key has the same hash: use another key", path.display());
    Error::new(ErrorKind::NotSupported, message)
}

/// Performs one fetch. Only a single value under the flat akey can be stored; anything else counts as missing.
fn fill(fetch: &mut Fetch<'_>, stored: Option<&Stored>) -> Result<()> {
    let (request, reply) = (&fetch.request, &mut fetch.reply);
    reply.reset();
    let wanted = request.akey == FLAT_AKEY && matches!(request.wanted, Wanted::Single);
    let Some(stored) = stored.filter(|_| wanted) else { return Ok(()) };
    reply.size = stored.len;
    let Some((file, path)) = stored.file.as_ref().filter(|_| !matches!(reply.sink, Sink::None))
    else {
        return Ok(());
    };
    if reply.sink.len() < stored.len {
        return Err(too_big("value", stored.len));
    }
    let mut at = stored.skip;
    reply.sink.visit(0, stored.len, |part| {
        read_at(file, path, part, at).map_err(|error| io_error("reading", path, &error))?;
        at += part.len() as u64;
        Ok(())
    })?;
    reply.filled_bytes = stored.len;
    Ok(())
}

impl KvDirectory<'_> {
    /// Applies a write at once: a put is one rename, a removal one unlink.
    pub(super) fn write(&self, op: &WriteOp<'_>) -> Result<Epoch> {
        match *op {
            WriteOp::Update { dkey, cond, updates } => self.update(dkey, cond, updates)?,
            WriteOp::PunchObject { cond } => self.punch(cond)?,
            WriteOp::PunchDkey { dkey, cond } => self.remove(dkey, cond)?,
            WriteOp::PunchAkeys { dkey, akeys, cond } => self.punch_akeys(dkey, akeys, cond)?,
        }
        Ok(Epoch::now())
    }

    /// Adds the effect of a write to `files`, the changes of a commit.
    pub(super) fn plan(&self, op: &WriteOp<'_>, files: &mut NewFiles) -> Result<()> {
        match *op {
            WriteOp::Update { dkey, cond, updates } => self.plan_update(dkey, cond, updates, files),
            WriteOp::PunchObject { cond } => {
                demand(cond, files.remove_all(&self.0.path, |name| self.is_key(name))?)
            }
            WriteOp::PunchDkey { dkey, cond } => self.plan_removal(dkey, cond, files),
            WriteOp::PunchAkeys { dkey, akeys, cond } => {
                let others = akeys.iter().any(|akey| *akey != FLAT_AKEY);
                match akeys.contains(&FLAT_AKEY) {
                    _ if others && cond.has(Cond::PUNCH) => Err(missing_key_error("akey")),
                    true => self.plan_removal(dkey, cond, files),
                    false => Ok(()),
                }
            }
        }
    }

    /// Plans to replace the file of a key, if the conditions hold.
    fn plan_update(
        &self,
        dkey: &[u8],
        cond: Cond,
        updates: &[Update<'_>],
        files: &mut NewFiles,
    ) -> Result<()> {
        let (path, name) = self.file_of(dkey)?;
        let cond = updates.iter().fold(cond, |cond, update| cond.union(update.cond));
        let there = self.will_exist(dkey, files)?;
        if there && cond.intersects(Cond::DKEY_INSERT.union(Cond::AKEY_INSERT)) {
            return Err(exists("key"));
        }
        if !there && cond.intersects(Cond::DKEY_UPDATE.union(Cond::AKEY_UPDATE)) {
            return Err(missing_key_error("key"));
        }
        let Some(data) = self.only_value(updates)? else { return Ok(()) };
        let mut content = Vec::new();
        if name.hashed {
            self.check_same_key(&path, dkey)?;
            put_bytes(&mut content, dkey);
        }
        data.visit(0, data.len(), |piece| content.extend_from_slice(piece));
        files.set(path, Some(content));
        Ok(())
    }

    /// Plans to remove the file of a key, if the condition holds.
    fn plan_removal(&self, dkey: &[u8], cond: Cond, files: &mut NewFiles) -> Result<()> {
        let there = self.will_exist(dkey, files)?;
        if there {
            files.set(self.file_of(dkey)?.0, None);
        }
        demand(cond, there)
    }

    /// True if a key will exist after the commit that makes the changes in `files`.
    fn will_exist(&self, dkey: &[u8], files: &NewFiles) -> Result<bool> {
        match files.get(&self.file_of(dkey)?.0) {
            Some(content) => Ok(content.is_some()),
            None => Ok(self.stored(dkey, false)?.is_some()),
        }
    }

    /// The new value of a key; `None` if the update only checks conditions.
    fn only_value<'b>(&self, updates: &[Update<'b>]) -> Result<Option<Source<'b>>> {
        match updates {
            [] => Ok(None),
            [Update { akey, value: Value::Single(data), .. }] if *akey == FLAT_AKEY => {
                Ok(Some(*data))
            }
            [Update { akey, .. }] if *akey == FLAT_AKEY => Err(self.refused("arrays")),
            _ => Err(self.refused("akeys other than \"0\"")),
        }
    }

    /// Adds the value of a key to a digest: a transaction compares it at its commit.
    fn add_key_to_digest(&self, dkey: &[u8], digest: &mut Digest) -> Result<()> {
        let path = self.file_of(dkey)?.0;
        // A value that was replaced by an equal one has another file.
        if let Some(info) = files::info(&path)? {
            digest.add_number(info.ino());
            digest.add_number(epoch_of(&info).0);
            digest.add(&files::read(&path)?.unwrap_or_default());
        }
        Ok(())
    }
}

impl Form for KvDirectory<'_> {
    /// For a key: its file and value. For the object: the same of all keys. For its dkeys: the keys only.
    fn digest(&self, watched: &Watched) -> Result<Digest> {
        let mut digest = Digest::default();
        match watched {
            Watched::Dkey { dkey, .. } => self.add_key_to_digest(dkey, &mut digest)?,
            Watched::Dkeys | Watched::Object => {
                for (_, key) in sorted(self.kind(), self.keys()?)? {
                    digest.add(&key);
                    let key = decode_key(self.kind(), &key).filter(|_| *watched == Watched::Object);
                    key.map_or(Ok(()), |key| self.add_key_to_digest(&key, &mut digest))?;
                }
            }
        }
        Ok(digest)
    }

    fn fetch(&self, dkey: &[u8], cond: Cond, fetches: &mut [Fetch<'_>]) -> Result<()> {
        let open = fetches.iter().any(|fetch| !matches!(fetch.reply.sink, Sink::None));
        let stored = self.stored(dkey, open)?;
        if cond.has(Cond::DKEY_FETCH) && stored.is_none() {
            return Err(missing_key_error("dkey"));
        }
        let lacks = |fetch: &Fetch<'_>| {
            fetch.request.cond.has(Cond::AKEY_FETCH)
                && (stored.is_none() || fetch.request.akey != FLAT_AKEY)
        };
        if fetches.iter().any(lacks) {
            return Err(missing_key_error("akey"));
        }
        let results = fetches.iter_mut().map(|fetch| fill(fetch, stored.as_ref()));
        results.collect::<Vec<_>>().into_iter().collect()
    }

    fn list_keys(
        &self,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        let (kind, keys) = match scope {
            KeyScope::Dkeys => (self.kind(), self.keys()?),
            KeyScope::Akeys(dkey) => {
                let akey = self.stored(dkey, false)?.map(|_| FLAT_AKEY.to_vec());
                (self.0.oid.akey_kind(), akey.into_iter().collect())
            }
        };
        page_of_keys(kind, sorted(kind, keys)?, anchor, limit)
    }

    /// Returns no extents, because a Key-Value holds single values only.
    fn list_extents(
        &self,
        _: AkeyRef<'_>,
        anchor: &mut Anchor,
        _: usize,
    ) -> Result<Vec<StoredExtent>> {
        *anchor = Anchor::End;
        Ok(Vec::new())
    }

    fn query(&self, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        if !asks_for_the_akey(&query)? || query.want_extent {
            return Ok(None);
        }
        let dkey = match query.dkey {
            Some(dkey) => self.stored(dkey, false)?.map(|_| dkey.to_vec()),
            None => {
                let bound = query.bound(self.kind())?;
                let keys = sorted(self.kind(), self.keys()?)?.into_iter();
                let last = outermost(query.edge, keys.filter(|(_, encoded)| *encoded > bound));
                last.and_then(|(_, encoded)| decode_key(self.kind(), &encoded))
            }
        };
        Ok(dkey.map(|dkey| found(&query, dkey, None)))
    }

    /// Returns the time of the last change: for a dkey, the modification time of its file. For the whole object, the
    /// modification time of its directory, which every put and removal changes. Zero if there is no such key.
    fn epoch(&self, dkey: Option<&[u8]>) -> Result<Epoch> {
        let path = match dkey {
            Some(dkey) if self.stored(dkey, false)?.is_none() => None,
            Some(dkey) => Some(self.file_of(dkey)?.0),
            None => (!self.keys()?.is_empty()).then(|| self.0.path.clone()),
        };
        let info = path.map(|path| files::info(&path)).transpose()?.flatten();
        Ok(info.as_ref().map(epoch_of).unwrap_or_default())
    }
}
