//! Removes objects, and the directories that only led to them.
use crate::bucket::Bucket;
use crate::condition::Condition;
use crate::fault::{Fault, Outcome};
use crate::find::optional_xattr;
use crate::place::{HIDDEN, Place};
use crate::put::{check, refuse, remove_if};
use crate::record::{DIRECTORY, IS_KEY, IS_WAY, RECORD, TAGS};
use dfs::limits::LIST_BATCH;
use dfs::{Check, Existing, Kind, Node, Removal, remove_many};
use esker::types::ops::Anchor;
use esker::types::{Error, ErrorKind, ObjectId, Result};
use std::cell::RefCell;
use std::collections::HashMap;

/// Removes the object of a key. A missing object is an error only if the request has a condition.
pub(crate) fn remove(bucket: &Bucket, key: &str, condition: &Condition) -> Outcome<()> {
    match remove_existing(bucket, key, condition) {
        Err(fault) if fault.is_missing() => condition.check_change(None),
        removed => removed,
    }
}

/// Removes the object of `key`. A missing object fails if `condition` requires one, or with `NotFound` of the store.
fn remove_existing(bucket: &Bucket, key: &str, condition: &Condition) -> Outcome<()> {
    let Ok(place) = Place::parse(key) else { return condition.check_change(None) };
    let above = bucket.directory(place.above()).map_err(path_error)?;
    let node = above.lookup(place.name()).map_err(path_error)?;
    match (node.kind() == Kind::Directory, place.is_directory) {
        (true, true) => {
            condition.refuse_on_directory()?;
            remove_directory(&above, &node)?;
        }
        (false, false) => remove_if(bucket, &above, place.name(), condition)?,
        // The entry is not the object of this key.
        _ => return condition.check_change(None),
    }
    remove_ways([above]);
    Ok(())
}

/// Maps an error of the path, such as a file in it, to `NotFound`: no object can be below.
fn path_error(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotDirectory | ErrorKind::Loop | ErrorKind::NameTooLong => {
            Error::new(ErrorKind::NotFound, error.message())
        }
        _ => error,
    }
}

/// Removes a directory. One with entries stays, but stops being an object. One that S3 did not make is not marked: the
/// removal of the last object in it would remove it.
fn remove_directory(above: &Node, node: &Node) -> Outcome<()> {
    match above.rmdir(node.name()) {
        Err(error) if error.kind() == ErrorKind::NotEmpty => {
            if optional_xattr(node, DIRECTORY)?.as_deref() != Some(IS_KEY) {
                return Ok(());
            }
            let way = (DIRECTORY.as_bytes(), IS_WAY);
            Ok(node.change_xattrs(&[way], &[RECORD.as_bytes(), TAGS.as_bytes()])?)
        }
        removed => Ok(removed?),
    }
}

/// Removes the objects of several keys as [`remove`] does, in few transactions. Each key has its own result, in the
/// order of `keys`.
pub(crate) fn remove_each(bucket: &Bucket, keys: &[(String, Condition)]) -> Vec<Outcome<()>> {
    let mut known = HashMap::new();
    let files = keys.iter().map(|(key, on)| ObjectFile::find(bucket, key, on, &mut known));
    let files: Vec<_> = files.collect();
    let found: Vec<_> = files.iter().flatten().collect();
    let mut removed = remove_files(bucket, &found).into_iter();
    let outcomes = std::iter::zip(keys, &files).map(|((key, condition), file)| {
        let removed = file.as_ref().and_then(|_| removed.next());
        removed.unwrap_or_else(|| remove(bucket, key, condition))
    });
    outcomes.collect()
}

/// Removes files, and then the directories that only led to them. Each file has its own result.
fn remove_files(bucket: &Bucket, files: &[&ObjectFile<'_>]) -> Vec<Outcome<()>> {
    let check =
        |file| move |existing: Option<Existing<'_>>| ObjectFile::check(file, bucket, existing);
    let checks: Vec<_> = files.iter().map(|file| check(*file)).collect();
    let removals = std::iter::zip(files, &checks).map(|(file, check)| file.removal(check));
    let removals: Vec<_> = removals.collect();
    let removed = remove_many(&removals);
    let done = std::iter::zip(&removals, &removed).filter(|(_, removed)| removed.is_ok());
    remove_ways(done.map(|(removal, _)| removal.dir.clone()));
    std::iter::zip(files, removed).map(|(file, removed)| file.outcome(removed)).collect()
}

/// Removes directories, and then those above them, as long as they are empty and were made for objects below them.
/// Errors are ignored: another client may have put an object there, or removed the directory.
pub(crate) fn remove_ways(from: impl IntoIterator<Item = Node>) {
    let mut ways = distinct_ways(from);
    while !ways.is_empty() {
        let removals: Vec<_> = ways.iter().filter_map(way_removal).collect();
        let removed = removals.iter().zip(remove_many(&removals));
        let removed = removed.filter(|(_, removed)| removed.is_ok());
        let above = distinct_ways(removed.map(|(removal, _)| removal.dir.clone()));
        ways = above;
    }
}

/// Removes a directory that only leads to directories of the same kind, and those: failed requests and killed servers
/// leave them. Returns false if it has anything else, or is a directory of another kind.
pub(crate) fn remove_empty_ways(dir: &Node, name: &[u8]) -> bool {
    let way = dir.lookup(name).ok().filter(is_way);
    let Some(Ok(Some(ways))) = way.map(|way| ways_only(way, |_, _| false)) else { return false };
    // Directories are removed after those in them.
    let removals: Vec<_> = ways.iter().rev().filter_map(way_removal).collect();
    removals
        .iter()
        .all(|removal| remove_many(std::slice::from_ref(removal)).iter().all(Result::is_ok))
}

/// The directories among `nodes` that S3 created only to hold objects below them, without duplicates.
fn distinct_ways(nodes: impl IntoIterator<Item = Node>) -> Vec<Node> {
    let nodes: HashMap<ObjectId, Node> = nodes.into_iter().map(|node| (node.oid(), node)).collect();
    nodes.into_values().filter(is_way).collect()
}

/// True if a bucket has nothing that its removal would destroy: no files, also none without a key, such as one whose
/// name is not UTF-8. Directories that S3 created only to hold objects do not count, nor does the hidden directory.
pub(crate) fn is_empty(bucket: &Bucket) -> Outcome<bool> {
    let root = bucket.fs().root();
    let is_hidden = |dir: &Node, name: &[u8]| dir.oid() == root.oid() && name == HIDDEN.as_bytes();
    Ok(ways_only(root.clone(), is_hidden)?.is_some())
}

/// The directory `from` and all below it, each before those in it, if S3 created those below only to hold objects, and
/// there is nothing else. `None` if there is something else. Entries for which `is_ignored` is true do not count.
fn ways_only(from: Node, is_ignored: impl Fn(&Node, &[u8]) -> bool) -> Outcome<Option<Vec<Node>>> {
    let (mut found, mut ways) = (Vec::new(), vec![from]);
    while let Some(dir) = ways.pop() {
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            for name in dir.read_stored_names(&mut anchor, LIST_BATCH)?.iter() {
                match dir.lookup(name) {
                    _ if is_ignored(&dir, name) => {}
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Ok(node) if node.kind() == Kind::Directory && is_way(&node) => ways.push(node),
                    found => return Ok(found.map(|_| None)?),
                }
            }
        }
        found.push(dir);
    }
    Ok(Some(found))
}

/// True for a directory that S3 created only to hold objects below it.
fn is_way(node: &Node) -> bool {
    node.get_xattr(DIRECTORY.as_bytes()).is_ok_and(|mark| mark == IS_WAY)
}

/// The removal of a directory that S3 created only to hold objects; `None` for the root. [`check_way`] verifies that
/// again in the transaction.
fn way_removal(way: &Node) -> Option<Removal<'_>> {
    let dir = way.parent()?;
    Some(Removal { dir, name: way.name(), is_directory: true, check: Some(&check_way) })
}

/// Fails unless S3 made the directory only to hold objects below it.
fn check_way(existing: Option<Existing<'_>>) -> Result<()> {
    match existing.and_then(|existing| existing.xattr(DIRECTORY.as_bytes())) {
        Some(mark) if mark == IS_WAY => Ok(()),
        _ => Err(Error::new(
            ErrorKind::Canceled,
            "the directory is an object, or was not made by S3",
        )),
    }
}

/// The file of the object of a key, which may not exist, and the condition for its removal.
struct ObjectFile<'a> {
    above: Node,
    place: Place,
    condition: &'a Condition,
    /// Why the condition does not hold.
    refused: RefCell<Option<Fault>>,
}

impl<'a> ObjectFile<'a> {
    /// The file of a key; `None` if the key is that of a directory, or has no directory. `known` has the directories
    /// found so far.
    fn find(
        bucket: &Bucket,
        key: &str,
        condition: &'a Condition,
        known: &mut HashMap<Vec<u8>, Option<Node>>,
    ) -> Option<Self> {
        let place = Place::parse(key).ok().filter(|place| !place.is_directory)?;
        let find = || bucket.directory(place.above()).ok();
        let above = match known.get(place.above()) {
            Some(above) => above.clone(),
            None => known.entry(place.above().to_vec()).or_insert_with(find).clone(),
        };
        let above = above.filter(|above| above.kind() == Kind::Directory)?;
        Some(Self { above, place, condition, refused: RefCell::default() })
    }

    /// The removal of the object's file. `check` is used only if the request has a condition.
    fn removal<'r>(&'r self, check: Check<'r>) -> Removal<'r> {
        let check = Some(check).filter(|_| !self.condition.is_none());
        Removal { dir: &self.above, name: self.place.name(), is_directory: false, check }
    }

    /// Checks the condition in the transaction that removes the file.
    fn check(&self, bucket: &Bucket, existing: Option<Existing<'_>>) -> Result<()> {
        check(bucket, self.condition, existing).map_err(|fault| refuse(&self.refused, fault))
    }

    /// The result for the client. A missing file is not an error unless the condition requires it. A directory of this
    /// name is another object, so the file counts as missing.
    fn outcome(&self, removed: Result<()>) -> Outcome<()> {
        let Err(error) = removed else { return Ok(()) };
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::IsDirectory => self.condition.check_change(None),
            ErrorKind::Canceled => Err(self.refused.take().unwrap_or_else(|| error.into())),
            _ => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::tests::bucket;
    use crate::put::tests::{new_put, put_small};
    use dfs::Create;

    #[test]
    fn bucket_with_files_without_keys_is_not_empty() {
        let bucket = bucket("s3-remove-empty", &[".esker-s3/uploads/x"]);
        put_small(&bucket, "way/f");
        assert!(!is_empty(&bucket).unwrap());
        let way = bucket.fs().root().lookup(b"way").unwrap();
        way.unlink(b"f").unwrap();
        assert!(is_empty(&bucket).unwrap());
        let new = Create::with_mode(0o644);
        for name in [&b"\xe9.grib"[..], b"a\rb"] {
            way.create(name, &new).unwrap();
            assert!(!is_empty(&bucket).unwrap(), "{name:?}");
            way.unlink(name).unwrap();
        }
        way.symlink(b"link", b"nowhere", &new).unwrap();
        assert!(!is_empty(&bucket).unwrap());
        way.unlink(b"link").unwrap();
        bucket.fs().root().mkdir(b"posix", &Create::with_mode(0o755)).unwrap();
        assert!(!is_empty(&bucket).unwrap());
    }

    #[test]
    fn directory_of_another_program_stays_after_its_last_object() {
        let bucket = bucket("s3-remove-posix", &["out/"]);
        put_small(&bucket, "out/f");
        new_put("key/").directory(&bucket).unwrap();
        put_small(&bucket, "key/f");
        for key in ["out/", "out/f", "key/", "key/f"] {
            remove(&bucket, key, &Condition::default()).unwrap();
        }
        assert!(bucket.fs().root().lookup(b"out").is_ok());
        assert!(bucket.fs().root().lookup(b"key").is_err());
    }
}
