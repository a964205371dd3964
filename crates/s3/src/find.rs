//! Finds the object of a key, with its metadata.
use crate::bucket::Bucket;
use crate::fault::{Fault, Outcome};
use crate::limits::RETRIES_MAX;
use crate::parts::Parts;
use crate::place::Place;
use crate::record::{
    About, DIRECTORY, IS_KEY, RECORD, Record, Stored, TAGS, Tags, directory_etag, read_tags,
};
use dfs::{Attr, Follow, Kind, Node, Time};
use esker::types::{Error, ErrorKind, Result};
use s3s::S3ErrorCode;

/// An existing object.
pub(crate) struct Found {
    pub(crate) node: Node,
    pub(crate) attr: Attr,
    pub(crate) record: Record,
}

/// Metadata of an object, as S3 returns it.
#[derive(Default)]
pub(crate) struct Head {
    pub(crate) etag: String,
    pub(crate) mtime: Time,
    /// Bytes of its content.
    pub(crate) size: u64,
    pub(crate) checksum: Stored,
    pub(crate) about: About,
    pub(crate) tags: Tags,
    /// The parts that it was completed with, if requested.
    pub(crate) parts: Option<Parts>,
}

impl Found {
    /// The metadata and the parts of the object.
    pub(crate) fn head_with_parts(&self) -> Outcome<Head> {
        let parts = Parts::read(self)?;
        Ok(Head { parts, ..self.head()? })
    }

    /// The metadata of the object.
    pub(crate) fn head(&self) -> Outcome<Head> {
        Ok(Head {
            etag: self.etag(),
            mtime: self.attr.mtime,
            size: self.size(),
            checksum: self.record.checksum(&self.attr),
            tags: tags(self)?,
            about: self.record.about.clone(),
            parts: None,
        })
    }

    /// The ETag of the object.
    pub(crate) fn etag(&self) -> String {
        match self.attr.kind {
            Kind::Directory => directory_etag(),
            _ => self.record.etag(&self.attr),
        }
    }

    /// The size of the object in bytes.
    pub(crate) fn size(&self) -> u64 {
        if self.attr.kind == Kind::Directory { 0 } else { self.attr.size }
    }

    /// False if the object was replaced or removed between the lookup and the read of its size: the size of removed
    /// content is 0. The size that the put stored is certainly right.
    fn is_current(&self) -> Result<bool> {
        if self.attr.kind != Kind::File || self.record.holds(self.attr.mtime, Some(self.attr.size))
        {
            return Ok(true);
        }
        match self.node.refresh() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }
}

/// Looks up the object of a key. A key does not exist if a name in its path is not a directory. Tries again if the
/// object is replaced meanwhile.
///
/// # Errors
/// `NoSuchKey`; `SlowDown` if the object is replaced all the time; errors of the store.
pub(crate) fn find(bucket: &Bucket, key: &str) -> Outcome<Found> {
    let place = Place::existing(key)?;
    for _ in 0..RETRIES_MAX {
        let found = look_up(bucket, key, &place)?;
        if found.is_current()? {
            return Ok(found);
        }
    }
    let why = "others replace the object all the time: try again";
    Err(Fault::new(S3ErrorCode::SlowDown, why))
}

/// Looks up the object of a key once.
fn look_up(bucket: &Bucket, key: &str, place: &Place) -> Outcome<Found> {
    let missing = |error: Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotDirectory | ErrorKind::Loop => no_such(key),
        _ => error.into(),
    };
    let above = bucket.directory(place.above()).map_err(missing)?;
    let (mut node, mut value) =
        above.lookup_with_xattr(place.name(), RECORD.as_bytes()).map_err(missing)?;
    if node.kind() == Kind::Symlink {
        node = bucket.fs().resolve(&above, place.name(), Follow::All).map_err(missing)?;
        value = optional_xattr(&node, RECORD)?;
    }
    if place.is_directory != (node.kind() == Kind::Directory)
        || place.is_directory && !is_object(&node)?
    {
        return Err(no_such(key));
    }
    let attr = node.attr_as_found().map_err(missing)?;
    Ok(Found { attr, record: Record::read(value.as_deref()), node })
}

/// The value of an extended attribute that a node may lack. `None` too if the node was removed meanwhile.
pub(crate) fn optional_xattr(node: &Node, name: &str) -> Result<Option<Vec<u8>>> {
    match node.get_xattr(name.as_bytes()) {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::NoAttribute | ErrorKind::NotFound) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Removes an extended attribute that a node may lack.
pub(crate) fn remove_xattr(node: &Node, name: &str) -> Result<()> {
    match node.remove_xattr(name.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(()),
        removed => removed,
    }
}

/// True for a directory that a client put, and for an empty one of another program, which no listing would show
/// otherwise.
fn is_object(directory: &Node) -> Outcome<bool> {
    match directory.get_xattr(DIRECTORY.as_bytes()) {
        Ok(mark) => Ok(mark == IS_KEY),
        Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(directory.is_empty()?),
        Err(error) => Err(error.into()),
    }
}

/// The tags of an object; empty if none were put.
pub(crate) fn tags(found: &Found) -> Outcome<Tags> {
    match found.node.get_xattr(TAGS.as_bytes()) {
        Ok(value) => Ok(read_tags(&value)),
        Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(Tags::new()),
        Err(error) => Err(error.into()),
    }
}

/// The error for a missing object.
#[cold]
pub(crate) fn no_such(key: &str) -> Fault {
    Fault::new(S3ErrorCode::NoSuchKey, format!("object {key:?} does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::opened;
    use crate::list::tests::bucket;
    use crate::put::tests::put_content;
    use std::cell::Cell;

    #[test]
    fn object_that_is_replaced_before_its_size_is_read_is_not_current() {
        let bucket = bucket("s3-find-replaced", &[]);
        put_content(&bucket, "k", b"old");
        let (node, value) = bucket.fs().root().lookup_with_xattr(b"k", RECORD.as_bytes()).unwrap();
        put_content(&bucket, "k", b"newer");
        let (attr, record) = (node.attr_as_found().unwrap(), Record::read(value.as_deref()));
        assert_eq!(attr.size, 0);
        assert!(!Found { node, attr, record }.is_current().unwrap());
        let found = find(&bucket, "k").unwrap();
        assert_eq!((found.size(), found.is_current().unwrap()), (5, true));
    }

    #[test]
    fn object_that_is_replaced_before_its_tags_are_read_is_looked_up_again() {
        let bucket = bucket("s3-find-tags", &[]);
        put_content(&bucket, "k", b"old");
        let is_first = Cell::new(true);
        let (_, head) = opened(&bucket, "k", |found| {
            if is_first.replace(false) {
                put_content(&bucket, "k", b"newer");
            }
            found.head()
        })
        .unwrap();
        assert_eq!(head.size, 5);
    }
}
