//! Removing objects, and the directories that were there for them only.
use crate::bucket::Bucket;
use crate::condition::Condition;
use crate::fault::Outcome;
use crate::place::Place;
use crate::put::remove_if;
use crate::record::{DIRECTORY, IS_WAY, RECORD};
use dfs::{Kind, Node, XattrMode};
use esker::types::{Error, ErrorKind};

/// Removes the object of a key. That there is none is no error, unless the request has a condition.
pub(crate) fn remove(bucket: &Bucket, key: &str, condition: &Condition) -> Outcome<()> {
    match remove_existing(bucket, key, condition) {
        Err(fault) if fault.is_missing() => condition.check_change(None),
        removed => removed,
    }
}

fn remove_existing(bucket: &Bucket, key: &str, condition: &Condition) -> Outcome<()> {
    let Ok(place) = Place::parse(key) else { return condition.check_change(None) };
    let above = bucket.directory(place.above()).map_err(no_way)?;
    let node = above.lookup(place.name()).map_err(no_way)?;
    match (node.kind() == Kind::Directory, place.is_directory) {
        (true, true) => {
            condition.refuse_on_directory()?;
            remove_directory(&above, &node)?;
        }
        (false, false) => remove_if(bucket, &above, place.name(), condition)?,
        // It is no object.
        _ => return condition.check_change(None),
    }
    remove_way(&above)
}

/// A part of the path is a file: there is nothing below it.
fn no_way(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotDirectory | ErrorKind::Loop | ErrorKind::NameTooLong => {
            Error::new(ErrorKind::NotFound, error.message())
        }
        _ => error,
    }
}

/// Removes a directory; one with entries stays for them, but is no object any more.
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
            // Others may put something there, or have removed it.
            return Ok(());
        }
        node = above;
    }
    Ok(())
}
