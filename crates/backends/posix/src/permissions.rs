//! Permissions of directories that every user of a container must be able to change: the journal, commits in it, locks.
//!
//! They are those of the container's directory, whatever the umask of the process that makes them.
use super::files::{self, Files, Moved, io_error, move_directory};
use esker_backend::handles::gone;
use esker_types::Result;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// The bits of a directory that others inherit: not the sticky bit, with which no other user could complete a commit.
const OF_DIRECTORIES: u32 = 0o2777;
/// The bits of a directory that its files inherit.
const OF_FILES: u32 = 0o666;

/// Mode and group of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permissions {
    mode: u32,
    group: u32,
}

impl Permissions {
    /// Reads the mode and group of a directory; `None` if it does not exist.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>> {
        let found = files::info(directory)?;
        Ok(found.map(|info| Self { mode: info.mode(), group: info.gid() }))
    }

    /// Creates a directory with the permissions of this pool.
    pub(super) fn make_directory(self, path: &Path) -> Result<()> {
        let mode = self.mode & OF_DIRECTORIES;
        let made = DirBuilder::new().mode(mode).create(path).and_then(|()| {
            let info = fs::metadata(path)?;
            self.give(path, &info, mode)
        });
        made.map_err(|error| io_error("making", path, &error))
    }

    /// Gives a file that this process has created these permissions.
    pub(super) fn give_to_file(self, file: &File, path: &Path) -> Result<()> {
        let given = file.metadata().and_then(|info| self.give(path, &info, self.mode & OF_FILES));
        given.map_err(|error| io_error("changing the mode of", path, &error))
    }

    /// Sets the group and the mode of a file. If this user cannot set the group, the file's group gets only the
    /// permissions that all users have.
    fn give(self, path: &Path, info: &Metadata, mut mode: u32) -> io::Result<()> {
        if info.gid() != self.group && chown(path, None, Some(self.group)).is_err() {
            mode = (mode & !0o2070) | ((mode & 0o007) << 3);
        }
        match info.mode() & 0o7777 == mode {
            true => Ok(()),
            false => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        }
    }

    /// Makes sure that a directory exists, and that no process sees it with other permissions. It may be removed again
    /// at any time while it is empty.
    ///
    /// # Errors
    /// `NoHandle` if its parent is missing.
    pub(super) fn ensure_directory(self, files: &Files, path: &Path) -> Result<()> {
        let staged = files.temporary_directory(self)?;
        let moved = move_directory(&staged, path);
        if !matches!(moved, Ok(Moved::Done)) {
            let _ = fs::remove_dir(&staged);
        }
        match moved? {
            Moved::Done => files.sync_parent(path),
            Moved::InUse => Ok(()),
            Moved::NoParent => Err(gone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_have_the_mode_of_their_model_whatever_the_umask() {
        let root = std::env::temp_dir().join(format!("esker-permissions-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let mode_of = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        for (mode, of_directory, of_file) in
            [(0o777, 0o777, 0o666), (0o2775, 0o2775, 0o664), (0o1700, 0o700, 0o600)]
        {
            fs::set_permissions(&root, fs::Permissions::from_mode(mode)).unwrap();
            let permissions = Permissions::read(&root).unwrap().unwrap();
            let (directory, file) = (root.join("directory"), root.join("file"));
            permissions.make_directory(&directory).unwrap();
            permissions.give_to_file(&File::create_new(&file).unwrap(), &file).unwrap();
            assert_eq!((mode_of(&directory), mode_of(&file)), (of_directory, of_file));
            fs::remove_dir(directory).unwrap();
            fs::remove_file(file).unwrap();
        }
        assert_eq!(Permissions::read(&root.join("none")).unwrap(), None);
        fs::remove_dir(root).unwrap();
    }
}
