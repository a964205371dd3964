//! Numbers for object ids: a process claims blocks by creating files, and allocates from them locally.
use super::container::{Container, PoolDirectory, destroyed};
use super::files;
use super::lock::Locks;
use esker_backend::block::{Block, end_of_claim};
use esker_types::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Directory of a container's claims.
const CLAIMS: &str = "oids";

/// The first of `count` numbers that no other client gets.
///
/// # Errors
/// `Overflow` if too few numbers are left.
pub(super) fn allocate(
    container: &Container,
    directory: &PoolDirectory,
    count: u64,
) -> Result<u64> {
    let mut block = container.oids.lock();
    if let Some(first) = block.take(count) {
        return Ok(first);
    }
    let (first, end) = claim(container, directory, count)?;
    *block = Block::claimed(first, end, count);
    Ok(first)
}

/// The number after all that clients have claimed.
pub(super) fn next(container: &Container) -> Result<u64> {
    let claims = container.dir.join(CLAIMS);
    end_of(container, &claims, last(&claims)?)
}

/// Claims the numbers from the end of the last claim on. Claim `i` can be created only once and records where claim
/// `i + 1` starts, so claims cannot overlap.
fn claim(container: &Container, directory: &PoolDirectory, count: u64) -> Result<(u64, u64)> {
    let (files, claims) = (&directory.files, container.dir.join(CLAIMS));
    // Processes that claim at the same time would try the same claims. An error is not one of the claim, which is
    // correct without the lock.
    let _lock = Locks::take_one(&directory.thread_locks, files, claims.clone());
    let mut index = last(&claims)?;
    loop {
        let first = end_of(container, &claims, index)?;
        let end = end_of_claim(first, count).ok_or_else(used_up)?;
        let claim =
            files.temporary(|file| files::write_parts(file, &[end.to_string().as_bytes()]))?;
        match files.insert(&claim, &claim_path(&claims, index + 1)) {
            Ok(true) => return Ok((first, end)),
            Ok(false) => files.make_directory(&claims).map_err(destroyed)?,
            Err(error) if error.kind() == ErrorKind::Exists => index += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Number of the last claim; 0 if there is none. Claims have consecutive numbers.
fn last(claims: &Path) -> Result<u64> {
    let exists = |index| files::info(&claim_path(claims, index)).map(|info| info.is_some());
    let (mut found, mut missing) = (0, 1);
    while exists(missing)? {
        (found, missing) = (missing, 2 * missing);
    }
    while missing - found > 1 {
        let middle = found.midpoint(missing);
        match exists(middle)? {
            true => found = middle,
            false => missing = middle,
        }
    }
    Ok(found)
}

/// The number that follows the last one of claim `index`; for 0 the first number of the container.
fn end_of(container: &Container, claims: &Path, index: u64) -> Result<u64> {
    if index == 0 {
        return Ok(container.first_oid);
    }
    let path = claim_path(claims, index);
    let bytes = files::read(&path)?.unwrap_or_default();
    let end = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
    end.ok_or_else(|| files::damaged(&path, "a claim of object ids is damaged"))
}

fn claim_path(claims: &Path, index: u64) -> PathBuf {
    claims.join(format!("{index:016x}"))
}

#[cold]
fn used_up() -> Error {
    Error::new(ErrorKind::Overflow, "no object ids are left")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn last_claim_is_found() {
        let claims = std::env::temp_dir().join(format!("esker-claims-{}", std::process::id()));
        assert_eq!(last(&claims).unwrap(), 0);
        fs::create_dir(&claims).unwrap();
        for count in 1..=40 {
            assert_eq!(last(&claims).unwrap(), count - 1);
            fs::write(claim_path(&claims, count), "1").unwrap();
        }
        // A file that is not a claim.
        fs::write(claims.join("ffff"), "").unwrap();
        assert_eq!(last(&claims).unwrap(), 40);
        fs::remove_dir_all(claims).unwrap();
    }
}
