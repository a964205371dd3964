//! Removes objects, and the directories that only led to them.
use crate::bucket::Bucket;
use crate::condition::Condition;
use crate::fault::Outcome;
use crate::place::Place;
use crate::put::remove_if;
use crate::record::{DIRECTORY, IS_WAY, RECORD};
use dfs::{Kind, Node, XattrMode};
use esker::types::{Error, ErrorKind};

/// Removes the object of a key. A missing object is an error only if the request has a condition.
pub(crate) fn remove(bucket: &Bucket, key: &str, condition: &Condition) -> Outcome<()> {
    match remove_existing(bucket, key, condition) {
        Err(fault) if fault.is_missing() => condition.check_change(None),
        removed => removed,
    }
}

/// Removes the object of `key`. One that does not exist fails only if `condition` requires it.
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
    remove_way(&above)
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

/// Removes a directory. One with entries stays, but stops being an object.
fn remove_directory(above: &Node, node: &Node) -> Outcome<()> {
    match above.rmdir(node.name()) {
        Err(error) if error.kind() == ErrorKind::NotEmpty => {
            node.set_xattr(DIRECTORY.as_bytes(), IS_WAY, XattrMode::Any)?;
            match node.remove_xattr(RECORD.as_bytes()) {
                Err(error) if error.kind() != ErrorKind::NoAttribute => Err(error.into()),
                _ => Ok(()),
            }
        }
        removed => Ok(removed?),
    }
}

/// Removes directories from here upwards, as long as they are empty and were made for objects below them.
pub(crate) fn remove_way(from: &Node) -> Outcome<()> {
    let mut node = from;
    while let Some(above) = node.parent() {
        let is_way = node.get_xattr(DIRECTORY.as_bytes()).is_ok_and(|mark| mark == IS_WAY);
        if !is_way || above.rmdir(node.name()).is_err() {
            // Another client may have put an object there, or removed the directory.
            return Ok(());
        }
        node = above;
    }
    Ok(())
}
