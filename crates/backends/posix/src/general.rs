//! Objects of general types: a directory with one file per dkey, which holds all its akeys.
//!
//! The file of a dkey is read, changed by the same code as in the in-memory reference, and replaced, under the lock of
//! the object.
use super::bundle;
use super::files;
use super::form::{Form, Object, outermost, sorted};
use super::name::{Decoded, decode, encode};
use super::plan::NewFiles;
use super::proof::{Digest, Watched};
use esker_backend::object::conflicts::Conflicts;
use esker_backend::object::history::Snapshots;
use esker_backend::object::list::page_of_keys;
use esker_backend::object::read::Reader;
use esker_backend::object::records::Stored;
use esker_backend::object::tree::{AkeyPath as Spot, Tree, encode_dkey};
use esker_types::limits::POSIX_DKEY_MAX;
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, StoredExtent, WriteOp,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result, decode_key};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// An object of a general type.
pub(super) struct General<'a>(pub(super) Object<'a>);

impl General<'_> {
    /// Path of the file of a dkey.
    fn path_of(&self, dkey: &[u8]) -> Result<PathBuf> {
        Ok(self.0.path.join(encode(self.0.oid.dkey_kind(), dkey)?.text))
    }

    /// The akeys of a dkey; none if the dkey does not exist. The file of a long key is named by a hash, and may belong
    /// to another one.
    fn load(&self, dkey: &[u8]) -> Result<Tree> {
        let path = self.path_of(dkey)?;
        let Some(bytes) = files::read(&path)? else { return Ok(Tree::default()) };
        let bundle = bundle::read(&bytes, self.0.oid, &path)?;
        match bundle.dkey == encode_dkey(self.0.oid, dkey)? {
            true => Ok(bundle.tree),
            false => Ok(Tree::default()),
        }
    }

    /// Loads the akeys of a dkey for a change, from the file at `path`. Fails if the file belongs to another long key.
    fn load_own(&self, dkey: &[u8], path: &Path) -> Result<Tree> {
        let tree = self.load(dkey)?;
        let foreign =
            tree.object(self.0.oid, Epoch::MAX).next().is_none() && files::info(path)?.is_some();
        match foreign {
            false => Ok(tree),
            true => Err(Error::new(
                ErrorKind::NotSupported,
                format!("{}: another long key has the same hash: use another key", path.display()),
            )),
        }
    }

    /// All dkeys in encoded form, ascending. Long dkeys are read from their files; one that is removed during the
    /// listing is skipped.
    fn dkeys(&self) -> Result<Vec<Vec<u8>>> {
        let kind = self.0.oid.dkey_kind();
        let (mut short, mut long) = (Vec::new(), Vec::new());
        for name in files::names_in(&self.0.path)? {
            match decode(kind, &name) {
                Some(Decoded::Key(key)) => short.push(key),
                Some(Decoded::Inside) => long.extend(self.long_dkey(&name)?),
                None => {}
            }
        }
        let short = sorted(kind, short)?.into_iter().map(|(_, dkey)| dkey);
        let mut all: Vec<_> = short.chain(long).collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Dkey in the file `name`, for keys that are too long for the name of a file.
    fn long_dkey(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.0.path.join(name);
        let Some(bytes) = files::read(&path)? else { return Ok(None) };
        Ok(Some(bundle::read(&bytes, self.0.oid, &path)?.dkey))
    }

    /// Decodes a dkey that came from a file.
    fn decoded(&self, dkey: &[u8]) -> Result<Vec<u8>> {
        let key = decode_key(self.0.oid.dkey_kind(), dkey);
        key.ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                "the name of a key's file cannot be decoded: remove the file",
            )
        })
    }

    /// Runs `work` on the akeys of a dkey. The reader is that of the in-memory backend, so both backends give the same
    /// results.
    fn reading<T>(
        &self,
        dkey: &[u8],
        work: impl FnOnce(&mut Reader<'_>) -> Result<T>,
    ) -> Result<T> {
        let tree = self.load(dkey)?;
        work(&mut Reader {
            id: self.0.container.id,
            oid: self.0.oid,
            targets: 1,
            tree: &tree,
            at: Epoch::MAX,
            tokens: None,
            conflicts: &mut Conflicts::default(),
        })
    }
}

#[cold]
fn dkey_too_large_error(path: &Path) -> Error {
    let message = format!(
        "{}: a dkey of a posix pool holds at most {POSIX_DKEY_MAX} bytes (POSIX_DKEY_MAX): use an Array, or \
         more dkeys",
        path.display()
    );
    Error::new(ErrorKind::Overflow, message)
}

/// The dkeys that a change concerns, with their akeys.
#[derive(Default)]
pub(super) struct Dkeys {
    pub(super) tree: Tree,
    /// Files of the dkeys that were loaded, even of those that do not exist.
    paths: BTreeMap<(ObjectId, Vec<u8>), PathBuf>,
}

impl Dkeys {
    /// Loads the dkeys that a write concerns: all of them for a punch of the object.
    pub(super) fn load(&mut self, general: &General<'_>, op: &WriteOp<'_>) -> Result<()> {
        match *op {
            WriteOp::Update { dkey, .. }
            | WriteOp::PunchDkey { dkey, .. }
            | WriteOp::PunchAkeys { dkey, .. } => self.load_dkey(general, dkey),
            WriteOp::PunchObject { .. } => general
                .dkeys()?
                .iter()
                .try_for_each(|dkey| self.load_dkey(general, &general.decoded(dkey)?)),
        }
    }

    /// Reads the file of a dkey, unless it was read before in this change.
    fn load_dkey(&mut self, general: &General<'_>, dkey: &[u8]) -> Result<()> {
        let key = (general.0.oid, encode_dkey(general.0.oid, dkey)?);
        if !self.paths.contains_key(&key) {
            let path = general.path_of(dkey)?;
            self.tree.append(&mut general.load_own(dkey, &path)?);
            self.paths.insert(key, path);
        }
        Ok(())
    }

    /// The latest epoch of all akeys; zero if there are none.
    pub(super) fn latest(&self) -> Epoch {
        let all = self.tree.from(Spot::default(), Epoch::MAX);
        all.map(|seen| seen.epoch).max().unwrap_or_default()
    }

    /// Adds the new content of changed dkeys to `files`.
    ///
    /// # Errors
    /// `Overflow` for a dkey that is too long.
    pub(super) fn store(
        mut self,
        changed: BTreeMap<Spot, Option<Stored>>,
        epoch: Epoch,
        files: &mut NewFiles,
    ) -> Result<()> {
        let mut dkeys = BTreeSet::new();
        for (spot, value) in changed {
            dkeys.insert((spot.oid, spot.dkey.clone()));
            self.tree.put(spot, epoch, value, &Snapshots::new());
        }
        for key in dkeys {
            let Some(path) = self.paths.remove(&key) else { continue };
            let (oid, dkey) = key;
            let first = self.tree.dkey(oid, &dkey, Epoch::MAX).next();
            let content = first.map(|_| bundle::to_bytes(&self.tree, oid, &dkey));
            if content.as_ref().is_some_and(|bytes| bytes.len() as u64 > POSIX_DKEY_MAX) {
                return Err(dkey_too_large_error(&path));
            }
            files.set(path, content);
        }
        Ok(())
    }
}

impl Form for General<'_> {
    /// For a dkey: its file. For the object: the names and contents of all files. For its dkeys: the names only.
    fn digest(&self, watched: &Watched) -> Result<Digest> {
        let mut digest = Digest::default();
        if let Watched::Dkey { dkey, .. } = watched {
            files::read(&self.path_of(dkey)?)?.iter().for_each(|bytes| digest.add(bytes));
            return Ok(digest);
        }
        let (mut names, kind) = (files::names_in(&self.0.path)?, self.0.oid.dkey_kind());
        names.retain(|name| decode(kind, name).is_some());
        names.sort_unstable();
        for name in names {
            digest.add(name.as_bytes());
            if *watched == Watched::Object {
                digest.add(&files::read(&self.0.path.join(name))?.unwrap_or_default());
            }
        }
        Ok(digest)
    }

    fn fetch(&self, dkey: &[u8], cond: Cond, fetches: &mut [Fetch<'_>]) -> Result<()> {
        self.reading(dkey, |reader| reader.fetch(dkey, cond, fetches))
    }

    fn list_keys(
        &self,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        if let KeyScope::Akeys(dkey) = scope {
            return self.reading(dkey, |reader| reader.list_keys(scope, anchor, limit));
        }
        let entries = self.dkeys()?.into_iter().map(|dkey| (0, dkey)).collect();
        page_of_keys(self.0.oid.dkey_kind(), entries, anchor, limit)
    }

    fn list_extents(
        &self,
        key: AkeyRef<'_>,
        anchor: &mut Anchor,
        entries: usize,
    ) -> Result<Vec<StoredExtent>> {
        self.reading(key.dkey, |reader| reader.list_extents(key, anchor, entries))
    }

    fn query(&self, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        let ask = |dkey: &[u8]| self.reading(dkey, |reader| reader.query(query));
        if let Some(dkey) = query.dkey {
            return ask(dkey);
        }
        let bound = query.bound(self.0.oid.dkey_kind())?;
        let answers = self.dkeys()?.into_iter().filter(|dkey| *dkey > bound);
        let answers =
            answers.map(|dkey| self.decoded(&dkey).and_then(|dkey| ask(&dkey)).transpose());
        outermost(query.edge, answers.flat_map(Option::into_iter)).transpose()
    }

    fn epoch(&self, dkey: Option<&[u8]>) -> Result<Epoch> {
        if let Some(dkey) = dkey {
            return self.reading(dkey, |reader| reader.epoch(Some(dkey)));
        }
        let mut latest = Epoch::default();
        for dkey in self.dkeys()? {
            let dkey = self.decoded(&dkey)?;
            latest = latest.max(self.reading(&dkey, |reader| reader.epoch(None))?);
        }
        Ok(latest)
    }
}

/// Returns the key by which the tree finds an akey.
pub(super) fn spot(oid: ObjectId, dkey: &[u8], akey: &[u8]) -> Spot {
    Spot { oid, dkey: dkey.to_vec(), akey: akey.to_vec() }
}
