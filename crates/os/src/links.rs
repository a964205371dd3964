//! Paths through symbolic links that other users may have made.
use esker_types::{Error, ErrorKind, Result};
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Most links in a path, as in Linux.
const LINKS_MAX: usize = 40;

/// Mode bits of a directory like `/tmp`, in which everybody may create names: sticky, and writable by everybody.
const SHARED: u32 = 0o1002;

/// Resolves the symbolic links of a path, and makes it absolute. In a directory like `/tmp`, a link is followed only if
/// it belongs to this user or to the owner of the directory. This is the rule of `fs.protected_symlinks`, here for
/// every component: otherwise, another user's link `/dev/shm/tank` decides which pool a command destroys.
///
/// # Errors
/// `NoPermission` for another user's link; errors of the file system.
pub fn resolve_links(path: &Path) -> Result<PathBuf> {
    let failed =
        |error: io::Error| Error::io(format_args!("looking at {}", path.display()), &error);
    let absolute = std::path::absolute(path).map_err(failed)?;
    let (mut ahead, mut links) = (components(&absolute), 0);
    let mut resolved = PathBuf::from("/");
    while let Some(name) = ahead.pop() {
        if name == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(name);
        let info = fs::symlink_metadata(&next).map_err(failed)?;
        if !info.is_symlink() {
            resolved = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(failed(rustix::io::Errno::LOOP.into()));
        }
        refuse_foreign(&next, &info, &fs::metadata(&resolved).map_err(failed)?)?;
        let target = fs::read_link(&next).map_err(failed)?;
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        ahead.extend(components(&target));
    }
    Ok(resolved)
}

/// The names of a path in reverse order, so that `pop` returns the first; without the root and `.`.
fn components(path: &Path) -> Vec<OsString> {
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(named).map(|part| part.as_os_str().to_owned()).rev().collect()
}

/// Refuses a symbolic link in a directory that all may write to, unless it belongs to this user or the directory's
/// owner. `info` is the metadata of the link.
fn refuse_foreign(link: &Path, info: &Metadata, directory: &Metadata) -> Result<()> {
    let is_shared = directory.mode() & SHARED == SHARED;
    if !is_shared || info.uid() == geteuid().as_raw() || info.uid() == directory.uid() {
        return Ok(());
    }
    let message = format!(
        "{} is a symbolic link of another user (uid {}) in a directory that everybody may write to, so it is not \
         followed: name the directory that it leads to, if you trust it",
        link.display(),
        info.uid()
    );
    Err(Error::new(ErrorKind::NoPermission, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A new directory with the subdirectories `a/b`.
    fn scratch() -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("esker-links-{}", crate::random_uuid().unwrap()));
        fs::create_dir_all(path.join("a/b")).unwrap();
        path
    }

    #[test]
    fn paths_are_resolved_as_the_kernel_does() {
        let dir = scratch();
        symlink("a/b", dir.join("relative")).unwrap();
        symlink(dir.join("a"), dir.join("absolute")).unwrap();
        symlink("../../absolute/b", dir.join("a/b/through")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        for path in
            ["a/b", "./a//b/", "relative", "absolute/b/../b", "relative/through", "relative/.."]
        {
            let path = dir.join(path);
            assert_eq!(resolve_links(&path).unwrap(), path.canonicalize().unwrap());
        }
        assert_eq!(resolve_links(&dir.join("missing")).unwrap_err().kind(), ErrorKind::NotFound);
        let around = resolve_links(&dir.join("loop/x")).unwrap_err();
        assert!(around.message().contains("symbolic links"), "{around}");
        fs::remove_dir_all(dir).unwrap();
    }

    /// The cases of the documentation of `fs.protected_symlinks`.
    #[test]
    fn links_of_others_are_followed_only_in_directories_of_their_owner() {
        if !rustix::process::geteuid().is_root() {
            return esker_testing::skip("this needs to be root: it makes links of another user");
        }
        let dir = scratch();
        let link = dir.join("link");
        symlink("a/b", &link).unwrap();
        let is_followed = |directory: u32, mode: u32, owner: u32| {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            chown(&dir, Some(directory), None).unwrap();
            std::os::unix::fs::lchown(&link, Some(owner), None).unwrap();
            resolve_links(&link.join(".")).map(drop).map_err(|error| error.kind())
        };
        assert_eq!(is_followed(0, 0o1777, 65534), Err(ErrorKind::NoPermission));
        assert_eq!(is_followed(1, 0o1777, 65534), Err(ErrorKind::NoPermission));
        assert_eq!(is_followed(65534, 0o1777, 65534), Ok(()));
        assert_eq!(is_followed(65534, 0o1777, 0), Ok(()));
        assert_eq!(is_followed(0, 0o755, 65534), Ok(()));
        fs::remove_dir_all(dir).unwrap();
    }
}
