//! The pool directories and their file systems.
use super::Finding;
use crate::mounts::{Media, Mount};
use crate::units::Bytes;
use esker::names;
use rustix::fs::{Access, access, statvfs};
use std::path::{Path, PathBuf};

const CHECK: &str = "directory";
/// Free space below this is too little for a useful pool.
const ROOM_BYTES: u64 = 256 << 20;

/// Checks the directories of pools.
pub(super) fn check() -> Vec<Finding> {
    let directories = names::pool_directories();
    if directories.is_empty() {
        let what = "there is no pool directory";
        return vec![Finding::wrong(CHECK, what, format!("export {}=DIR", names::POOLS_VARIABLE))];
    }
    let chosen = std::env::var_os(names::POOLS_VARIABLE).is_some_and(|value| !value.is_empty());
    directories.iter().map(|directory| check_directory(directory, chosen)).collect()
}

/// Checks a directory. A chosen one should exist; the default one is created with the first pool.
fn check_directory(directory: &Path, chosen: bool) -> Finding {
    let shown = directory.display();
    if !directory.exists() {
        return match (chosen, existing_parent(directory)) {
            (true, _) => Finding::warning(
                CHECK,
                format!("{shown} does not exist"),
                format!("mkdir -p {shown}"),
            ),
            (false, Some(parent)) if is_writable(&parent) => {
                Finding::fine(CHECK, format!("{shown} will be created with the first pool"))
            }
            (false, _) => cannot_write(directory),
        };
    }
    match Mount::for_path(directory) {
        Ok(mount) => check_mount(directory, &mount),
        Err(error) => Finding::wrong(CHECK, error.to_string(), "check its permissions"),
    }
}

fn existing_parent(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|parent| parent.exists()).map(Path::to_owned)
}

fn is_writable(directory: &Path) -> bool {
    access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Finding on a directory that the user cannot write to.
fn cannot_write(directory: &Path) -> Finding {
    let what = format!("you cannot write to {}", directory.display());
    let remedy = format!("export {}=DIR with a directory of yours", names::POOLS_VARIABLE);
    Finding::wrong(CHECK, what, remedy)
}

/// Checks an existing directory for pools: its file system must be local, this user must be able to write to it, and it
/// should have at least `ROOM_BYTES` free.
fn check_mount(directory: &Path, mount: &Mount) -> Finding {
    let shown = format!("{} on {} ({})", directory.display(), mount.fs_type, mount.media().name());
    if mount.media() == Media::Network {
        let what = format!("{shown}: pools of this machine need a local file system");
        let remedy = format!("export {}=DIR on /dev/shm or a local disk", names::POOLS_VARIABLE);
        return Finding::wrong(CHECK, what, remedy);
    }
    if !directory.is_dir() || !is_writable(directory) {
        return cannot_write(directory);
    }
    match free_bytes(directory) {
        Some(free) if free < ROOM_BYTES => {
            let what = format!("{shown}: only {} free", Bytes(free));
            Finding::warning(CHECK, what, "free some space, or use another directory")
        }
        Some(free) => Finding::fine(CHECK, format!("{shown}, {} free", Bytes(free))),
        None => Finding::fine(CHECK, shown),
    }
}

/// Bytes that this user can still write.
fn free_bytes(directory: &Path) -> Option<u64> {
    let status = statvfs(directory).ok()?;
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}

/// Size of a file system in bytes.
pub(super) fn total_bytes(directory: &Path) -> Option<u64> {
    let status = statvfs(directory).ok()?;
    Some(status.f_blocks.saturating_mul(status.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    fn mount(fs_type: &str) -> Mount {
        Mount { point: "/".into(), fs_type: fs_type.to_owned(), source: String::new(), dax: false }
    }

    #[test]
    fn a_shared_missing_or_unwritable_directory_is_reported() {
        let here = std::env::temp_dir();
        assert_eq!(check_mount(&here, &mount("nfs4")).status, Status::Wrong);
        assert_ne!(check_mount(&here, &mount("tmpfs")).status, Status::Wrong);
        assert_eq!(check_mount(Path::new("/proc/version"), &mount("ext4")).status, Status::Wrong);
        assert_eq!(check_directory(Path::new("/no/such"), true).status, Status::Warning);
        assert_eq!(check_directory(&here.join("esker-not-there"), false).status, Status::Fine);
    }

    #[test]
    fn space_is_counted() {
        assert!(total_bytes(Path::new("/")).unwrap() >= free_bytes(Path::new("/")).unwrap());
        assert_eq!(total_bytes(Path::new("/no/such")), None);
    }
}
