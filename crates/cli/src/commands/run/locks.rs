//! The directory with the file locks of programs under `esker run`. It is in the pool and serves all users of the pool.
//! If it cannot be in the pool, each user has a directory outside.
use esker::types::{Error, ErrorKind, Result};
use esker::{LOCKS, Pool, Wait};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode bits of everyone but the owner.
const OTHERS: u32 = 0o077;
/// Mode bit: new files in a directory belong to the directory's group.
const SET_GROUP: u32 = 0o2000;

/// Returns the directory for locks on files in the pool. It is in the directory of a native pool, unless the file
/// system there is read-only. For any other pool, it is the user's own directory.
pub(super) fn folder(pool: &Pool) -> Result<PathBuf> {
    let url = pool.info().wait()?.url;
    let Some(directory) = url.strip_prefix("esker:").map(Path::new) else {
        return own(&super::shared_place());
    };
    if esker_os::is_read_only(directory)? {
        return own(&super::shared_place());
    }
    let folder = directory.join(LOCKS);
    make_in(directory, &folder).and_then(|()| folder.canonicalize()).map_err(|error| {
        Error::io(
            format_args!(
                "creating {} (the owner of the pool creates it with `esker run`)",
                folder.display()
            ),
            &error,
        )
    })
}

/// Makes the directory for locks, unless it exists. New pools have it, those of the first release do not.
fn make_in(directory: &Path, folder: &Path) -> io::Result<()> {
    if is_directory(folder)? {
        return Ok(());
    }
    DirBuilder::new().mode(0o700).create(folder).or_else(unless_there)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(mode_in(directory)?))
}

/// Mode of the directory: users who may change the content of the pool may lock.
fn mode_in(directory: &Path) -> io::Result<u32> {
    let mode = fs::metadata(directory.join("control"))?.mode() & 0o777;
    let set_group = if mode & 0o020 == 0 { 0 } else { SET_GROUP };
    // Read permission on a directory implies search permission.
    Ok(mode | (mode & 0o444) >> 2 | set_group)
}

/// Ignores the error that a directory already exists.
fn unless_there(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
}

/// True for a directory, false if there is nothing at `path`, and an error for anything else.
fn is_directory(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Ok(true),
        Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns this user's directory for locks in `place`, and creates it if necessary. Fails if it belongs to another
/// user, who may have created it first, or if other users can access it.
fn own(place: &Path) -> Result<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let folder = place.join(format!("esker-locks-{user}"));
    let failed = |error| Error::io(format_args!("creating {}", folder.display()), &error);
    DirBuilder::new().mode(0o700).create(&folder).or_else(unless_there).map_err(failed)?;
    let found = fs::symlink_metadata(&folder).map_err(failed)?;
    if found.is_dir() && found.uid() == user && found.mode() & OTHERS == 0 {
        return Ok(folder);
    }
    let message = format!(
        "{} must be a directory that only you can use, for locks: have it removed",
        folder.display()
    );
    Err(Error::new(ErrorKind::NoPermission, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_of_the_user_is_private() {
        let place = std::env::temp_dir().join(format!("esker-own-locks-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        let folder = own(&place).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(own(&place).unwrap(), folder, "another run");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(own(&place).unwrap_err().kind(), ErrorKind::NoPermission);
        fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/", &folder).unwrap();
        assert_eq!(own(&place).unwrap_err().kind(), ErrorKind::NoPermission, "a link");
        fs::remove_dir_all(&place).unwrap();
    }
}
