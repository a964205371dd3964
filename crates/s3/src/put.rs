//! Creates objects: publishes files at the paths of their keys.
use crate::body::Received;
use crate::bucket::{Bucket, Hidden, Target};
use crate::condition::Condition;
use crate::fault::{Fault, Outcome};
use crate::limits::{LEFT_OVER_SECONDS, RETRIES_MAX};
use crate::parts::{PARTS, Parts};
use crate::place::Place;
use crate::record::{
    About, DIRECTORY, IS_KEY, IS_WAY, RECORD, Record, TAGS, Tags, directory_etag, written_tags,
};
use crate::remove::{remove_empty_ways, remove_ways};
use crate::uploads::no_upload_fault;
use dfs::{Existing, Inode, Kind, Node, RenameMode, Time, Xattrs};
use esker::types::{Error, ErrorKind};
use s3s::S3ErrorCode;
use std::cell::{Cell, RefCell};

/// A new object for a key.
#[derive(Clone)]
pub(crate) struct Put {
    pub(crate) place: Place,
    pub(crate) about: About,
    pub(crate) tags: Tags,
    pub(crate) condition: Condition,
    /// The parts of a multipart upload.
    pub(crate) parts: Option<Parts>,
}

impl Put {
    /// Publishes a completely received file. Returns its ETag and the time of its last change.
    pub(crate) fn finish(
        &self,
        bucket: &Bucket,
        mut hidden: Hidden,
        received: &Received,
    ) -> Outcome<(String, Time)> {
        let etag = received.summed.etag();
        let checksum = received.summed.checksum.clone();
        let record = Record::new(self.about.clone(), etag.clone(), received.size, checksum);
        let mtime = self.publish(bucket, &mut hidden, &record)?;
        Ok((etag, mtime))
    }

    /// Publishes a file with its record at the path of the key, if the condition holds. Tries again if the directory of
    /// the key is removed meanwhile, with the last object in it. Returns the time of the file's last change.
    ///
    /// # Errors
    /// `NoSuchUpload` if the upload was completed or aborted meanwhile, which removes the file.
    pub(crate) fn publish(
        &self,
        bucket: &Bucket,
        hidden: &mut Hidden,
        record: &Record,
    ) -> Outcome<Time> {
        let mtime = Cell::new(Time::default());
        let xattrs = |inode: &Inode| {
            mtime.set(inode.mtime);
            self.xattrs(record.written(inode))
        };
        let refused = RefCell::new(None);
        let check = |existing: Option<Existing<'_>>| {
            check(bucket, &self.condition, existing).map_err(|fault| refuse(&refused, fault))
        };
        retry_while_missing(|| {
            let above = create_directories(bucket, &self.place)?;
            let target = Target {
                dir: &above,
                name: self.place.name(),
                mode: RenameMode::Replace,
                xattrs: &xattrs,
                check: &check,
            };
            let published = hidden.publish(&target).or_else(|error| {
                let is_free = error.kind() == ErrorKind::IsDirectory
                    && remove_empty_ways(&above, self.place.name());
                if is_free { hidden.publish(&target) } else { Err(error) }
            });
            published.map_err(|error| {
                remove_ways([above.clone()]);
                let is_removed = error.kind() == ErrorKind::NotFound && hidden.is_removed();
                let removed = is_removed.then(|| removed_fault(record));
                let fault = refused.take().or(removed);
                fault.unwrap_or_else(|| occupied_fault(&self.place, error))
            })
        })?;
        Ok(mtime.get())
    }

    /// The extended attributes of the new file: the record, tags and parts.
    fn xattrs(&self, record: Vec<u8>) -> Xattrs {
        let mut xattrs = vec![(RECORD.into(), record)];
        if !self.tags.is_empty() {
            xattrs.push((TAGS.into(), written_tags(&self.tags)));
        }
        xattrs.extend(self.parts.as_ref().map(|parts| (PARTS.into(), parts.written())));
        xattrs
    }

    /// Makes a directory that is an object, or makes an existing directory one. Returns its ETag. Tries again as
    /// [`Self::publish`] does.
    pub(crate) fn directory(&self, bucket: &Bucket) -> Outcome<String> {
        retry_while_missing(|| self.make_directory(bucket))
    }

    fn make_directory(&self, bucket: &Bucket) -> Outcome<String> {
        let above = create_directories(bucket, &self.place)?;
        self.make_directory_in(bucket, &above).inspect_err(|_| remove_ways([above.clone()]))
    }

    /// Makes the directory of the key in the directory `above`.
    fn make_directory_in(&self, bucket: &Bucket, above: &Node) -> Outcome<String> {
        let etag = directory_etag();
        let record = Record::new(self.about.clone(), etag.clone(), 0, Default::default());
        let xattrs = |inode: &Inode| {
            let mut xattrs = self.xattrs(record.written(inode));
            xattrs.push((DIRECTORY.into(), IS_KEY.into()));
            xattrs
        };
        let node = find_or_create(bucket, above, self.place.name(), &xattrs)
            .map_err(|fault| occupied(&self.place, fault))?;
        if node.kind() != Kind::Directory {
            let why = format!("{:?} is an object, so nothing can be below it", above.path());
            return Err(Fault::new(S3ErrorCode::InvalidRequest, why));
        }
        let set = xattrs(node.inode());
        let set: Vec<_> = set.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let old: &[&[u8]] = if self.tags.is_empty() { &[TAGS.as_bytes()] } else { &[] };
        node.change_xattrs(&set, old)?;
        Ok(etag)
    }
}

/// Runs `work`, again if a directory of the key is missing: another request has removed it, with the last object in it.
fn retry_while_missing<T>(mut work: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    for _ in 0..RETRIES_MAX {
        match work() {
            Err(fault) if fault.is_missing() => {}
            done => return done,
        }
    }
    let why = "others remove the directory all the time: try again";
    Err(Fault::new(S3ErrorCode::SlowDown, why))
}

/// Stores the fault for the reply in `refused`, and returns the error that aborts the transaction.
pub(crate) fn refuse(refused: &RefCell<Option<Fault>>, fault: Fault) -> Error {
    *refused.borrow_mut() = Some(fault);
    Error::new(ErrorKind::Canceled, "a condition of the request does not hold")
}

/// Checks the condition of a request on an existing entry, in the transaction that changes it. `existing` is `None` if
/// there is no entry. A directory is not the object of the key: its key ends with a slash.
pub(crate) fn check(
    bucket: &Bucket,
    condition: &Condition,
    existing: Option<Existing<'_>>,
) -> Outcome<()> {
    if condition.is_none() {
        return Ok(());
    }
    let existing = existing.filter(|existing| existing.inode().kind != Kind::Directory);
    let is_link = existing.is_some_and(|existing| existing.inode().kind == Kind::Symlink);
    // The client has the ETag of the target, which may change until the link is replaced.
    if is_link && condition.compares_etags() {
        let why = "conditions on the ETags of symbolic links are not offered here";
        return Err(Fault::new(S3ErrorCode::NotImplemented, why));
    }
    let etag = existing.map(|existing| {
        let attr = bucket.fs().attr_of(existing.inode())?;
        Ok::<_, Error>(Record::read(existing.xattr(RECORD.as_bytes())).etag(&attr))
    });
    condition.check_change(etag.transpose()?.as_deref())
}

/// Removes a file if the condition holds for it. Nothing can change it between the check and the removal.
pub(crate) fn remove_if(
    bucket: &Bucket,
    dir: &Node,
    name: &[u8],
    condition: &Condition,
) -> Outcome<()> {
    let refused = RefCell::new(None);
    let check = |existing: Option<Existing<'_>>| {
        check(bucket, condition, existing).map_err(|fault| refuse(&refused, fault))
    };
    dir.unlink_if(name, &check).map_err(|error| refused.take().unwrap_or_else(|| error.into()))
}

/// The error for a file that another request removed before its publication: with its upload, or as left over.
#[cold]
fn removed_fault(record: &Record) -> Fault {
    match &record.upload {
        Some(id) => no_upload_fault(id),
        None => {
            let why = format!(
                "the put had no progress for {LEFT_OVER_SECONDS} s (LEFT_OVER_SECONDS): try again"
            );
            Fault::new(S3ErrorCode::RequestTimeout, why)
        }
    }
}

/// [`occupied_fault`] of a fault of the store; other faults stay.
fn occupied(place: &Place, fault: Fault) -> Fault {
    match fault {
        Fault::Store(error) => occupied_fault(place, error),
        other => other,
    }
}

/// The error if another object occupies the key or a part of its path; other errors stay.
fn occupied_fault(place: &Place, error: Error) -> Fault {
    let why = match error.kind() {
        ErrorKind::IsDirectory | ErrorKind::NotEmpty => "there are objects below it",
        ErrorKind::NotDirectory => {
            "one of its directories is an object itself, or a symbolic link without a target"
        }
        _ => return error.into(),
    };
    let why = format!("{:?} cannot be an object, as keys are paths of files: {why}", place.key);
    Fault::new(S3ErrorCode::InvalidRequest, why)
}

/// The directory of a key. Creates missing ones with the mark `way`, so that they are removed with the last object in
/// them.
fn create_directories(bucket: &Bucket, place: &Place) -> Outcome<Node> {
    match bucket.directory(place.above()) {
        Ok(found) if found.kind() == Kind::Directory => return Ok(found),
        Ok(_) => return Err(occupied_fault(place, Error::new(ErrorKind::NotDirectory, "a file"))),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(occupied_fault(place, error)),
    }
    let way = |_: &Inode| vec![(DIRECTORY.into(), IS_WAY.into())];
    let mut node = bucket.fs().root();
    for name in place.directories() {
        node = find_or_create(bucket, &node, name, &way).map_err(|fault| {
            remove_ways([node.clone()]);
            occupied(place, fault)
        })?;
    }
    Ok(node)
}

/// Looks up a directory for the path of a key. If the name is free, publishes a new directory with these attributes.
/// Another process may do so at the same time; then returns its directory.
fn find_or_create(
    bucket: &Bucket,
    dir: &Node,
    name: &[u8],
    xattrs: &dyn Fn(&Inode) -> Xattrs,
) -> Outcome<Node> {
    let found = || bucket.fs().resolve(dir, name, dfs::Follow::All);
    match found() {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => return Ok(found?),
    }
    let mut hidden = Hidden::directory(bucket)?;
    let target = Target { dir, name, mode: RenameMode::NoReplace, xattrs, check: &|_| Ok(()) };
    match hidden.publish(&target) {
        Err(error) if error.kind() != ErrorKind::Exists => Err(error.into()),
        _ => Ok(found().map_err(|error| dangling_error(dir, name, error))?),
    }
}

/// The error for a name that exists but leads to nothing: `NotDirectory` for a symbolic link without a target, else
/// `error`, since another request has removed the entry.
fn dangling_error(dir: &Node, name: &[u8], error: Error) -> Error {
    let is_link = || dir.lookup(name).is_ok_and(|entry| entry.kind() == Kind::Symlink);
    match error.kind() {
        ErrorKind::NotFound if is_link() => Error::new(ErrorKind::NotDirectory, error.message()),
        _ => error,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bucket::tests::counted_buckets;
    use crate::find::{find, tags};
    use crate::list::tests::bucket;
    use crate::remove::remove;
    use bytes::Bytes;
    use dfs::Create;
    use s3s::dto::{ETag, ETagCondition};

    /// Puts an empty object, with no metadata of the client.
    pub(crate) fn put_small(bucket: &Bucket, key: &str) {
        publish_small(bucket, &new_put(key)).unwrap();
    }

    /// Publishes an empty object.
    fn publish_small(bucket: &Bucket, put: &Put) -> Outcome<Time> {
        let record = Record::new(About::default(), String::new(), 0, Default::default());
        put.publish(bucket, &mut Hidden::small_file(Vec::new()), &record)
    }

    /// Puts an object with this content, whose length is its ETag.
    pub(crate) fn put_content(bucket: &Bucket, key: &str, content: &'static [u8]) {
        let (etag, size) = (content.len().to_string(), content.len() as u64);
        let record = Record::new(About::default(), etag, size, Default::default());
        let mut hidden = Hidden::small_file(vec![Bytes::from_static(content)]);
        new_put(key).publish(bucket, &mut hidden, &record).unwrap();
    }

    /// A put on the condition that the object exists with this ETag, or with any.
    fn put_if_match(key: &str, etag: Option<String>) -> Put {
        let etag = etag.map_or(ETagCondition::Any, |etag| ETagCondition::ETag(ETag::Strong(etag)));
        let condition = Condition { matches: Some(etag), ..Condition::default() };
        Put { condition, ..new_put(key) }
    }

    /// True if a request failed with this code.
    fn is_refused<T>(outcome: &Outcome<T>, code: &str) -> bool {
        outcome.as_ref().is_err_and(|fault| fault.is_code(code))
    }

    #[test]
    fn refused_put_leaves_no_directories() {
        let bucket = bucket("s3-put-refused", &[]);
        let refused = publish_small(&bucket, &put_if_match("a/b/c", None));
        assert!(is_refused(&refused, "NoSuchKey"));
        assert!(bucket.fs().root().lookup(b"a").is_err());
        put_small(&bucket, "f");
        assert!(is_refused(&new_put("f/").directory(&bucket), "InvalidRequest"));
    }

    /// The last object was removed, but the server was killed before it removed the directories.
    #[test]
    fn empty_directories_of_a_killed_server_do_not_block_their_key() {
        let bucket = bucket("s3-put-killed", &["posix/"]);
        for key in ["a/b/c/f", "a/g/f"] {
            put_small(&bucket, key);
            let place = Place::parse(key).unwrap();
            bucket.directory(place.above()).unwrap().unlink(b"f").unwrap();
        }
        let matches_not = Some(ETagCondition::Any);
        let condition = Condition { matches_not, ..Condition::default() };
        publish_small(&bucket, &Put { condition, ..new_put("a") }).unwrap();
        assert_eq!(bucket.fs().root().lookup(b"a").unwrap().kind(), Kind::File);
        put_small(&bucket, "d/e/f");
        for occupied in ["d", "d/e", "posix"] {
            assert!(is_refused(&publish_small(&bucket, &new_put(occupied)), "InvalidRequest"));
        }
        assert!(find(&bucket, "d/e/f").is_ok());
    }

    #[test]
    fn link_without_a_target_is_not_a_directory_of_a_key() {
        let bucket = bucket("s3-put-dangling", &[]);
        let root = bucket.fs().root();
        root.symlink(b"l", b"none", &Create::with_mode(0o777)).unwrap();
        assert!(is_refused(&publish_small(&bucket, &new_put("l/x")), "InvalidRequest"));
        assert!(is_refused(&new_put("l/").directory(&bucket), "InvalidRequest"));
    }

    #[test]
    fn condition_on_the_etag_of_a_link_is_refused() {
        let bucket = bucket("s3-put-link", &[]);
        put_content(&bucket, "f", b"content");
        let root = bucket.fs().root();
        root.symlink(b"l", b"f", &Create::with_mode(0o777)).unwrap();
        let etag = find(&bucket, "l").unwrap().etag();
        let put = put_if_match("l", Some(etag));
        assert!(is_refused(&publish_small(&bucket, &put), "NotImplemented"));
        assert!(is_refused(&remove(&bucket, "l", &put.condition), "NotImplemented"));
        assert_eq!(root.lookup(b"l").unwrap().kind(), Kind::Symlink);
        publish_small(&bucket, &put_if_match("l", None)).unwrap();
        assert_eq!(find(&bucket, "f").unwrap().size(), 7);
    }

    #[test]
    fn tags_of_a_directory_end_with_its_object() {
        let bucket = bucket("s3-put-tags", &[]);
        let tagged = Tags::from([("k".to_owned(), "v".to_owned())]);
        let put = Put { tags: tagged.clone(), ..new_put("d/") };
        put.directory(&bucket).unwrap();
        assert_eq!(tags(&find(&bucket, "d/").unwrap()).unwrap(), tagged);
        new_put("d/").directory(&bucket).unwrap();
        assert!(tags(&find(&bucket, "d/").unwrap()).unwrap().is_empty());
        put.directory(&bucket).unwrap();
        put_small(&bucket, "d/f");
        remove(&bucket, "d/", &Condition::default()).unwrap();
        let node = bucket.fs().root().lookup(b"d").unwrap();
        assert!(node.get_xattr(TAGS.as_bytes()).is_err());
    }

    #[test]
    fn put_and_removal_of_a_directory_take_one_transaction() {
        let (buckets, calls) = counted_buckets();
        let bucket = buckets.files("b").unwrap();
        let tagged = Tags::from([("k".to_owned(), "v".to_owned())]);
        let tagged = Put { tags: tagged, ..new_put("d/") };
        tagged.directory(&bucket).unwrap();
        put_small(&bucket, "d/f");
        for put in [&tagged, &new_put("d/"), &tagged] {
            assert_eq!(calls.writes_of(|| put.directory(&bucket).unwrap()), 1);
        }
        let removal = || remove(&bucket, "d/", &Condition::default()).unwrap();
        assert_eq!(calls.writes_of(removal), 1);
        assert!(find(&bucket, "d/").is_err());
    }

    #[test]
    fn directory_is_put_while_the_last_object_above_it_is_removed() {
        let bucket = bucket("s3-put-directory", &[]);
        let (rounds, other) = (300, bucket.clone());
        let remover = std::thread::spawn(move || {
            for _ in 0..rounds {
                put_small(&other, "a/f");
                remove(&other, "a/f", &Condition::default()).unwrap();
            }
        });
        for _ in 0..rounds {
            new_put("a/b/").directory(&bucket).unwrap();
            remove(&bucket, "a/b/", &Condition::default()).unwrap();
        }
        remover.join().unwrap();
    }

    /// A put without conditions and metadata of the client.
    pub(crate) fn new_put(key: &str) -> Put {
        let (about, tags, condition, parts) = Default::default();
        Put { place: Place::parse(key).unwrap(), about, tags, condition, parts }
    }
}
