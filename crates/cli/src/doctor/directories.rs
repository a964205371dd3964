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
    let first = std::iter::once(true).chain(std::iter::repeat(false));
    let all = directories.iter().zip(first);
    all.map(|(directory, is_first)| check_directory(directory, chosen, is_first)).collect()
}

/// Checks a directory. A chosen one should exist; the default one is created with the first pool. New pools go into the
/// first.
fn check_directory(directory: &Path, chosen: bool, is_first: bool) -> Finding {
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
        Ok(mount) => check_mount(directory, &mount, is_first),
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

/// Checks an existing directory that is only searched for pools: it may be shared by machines, and of others.
fn check_searched(directory: &Path, mount: &Mount) -> Finding {
    let shown = description(directory, mount);
    if access(directory, Access::READ_OK | Access::EXEC_OK).is_err() || !directory.is_dir() {
        let remedy = format!("remove it from {}, or check its permissions", names::POOLS_VARIABLE);
        return Finding::wrong(CHECK, format!("{shown}: you cannot list its pools"), remedy);
    }
    Finding::fine(CHECK, format!("{shown}, searched for pools"))
}

/// The directory with its file system, for findings.
fn description(directory: &Path, mount: &Mount) -> String {
    format!("{} on {} ({})", directory.display(), mount.fs_type, mount.media().name())
}

/// Checks an existing directory for pools. The file system of the first, for new pools, must be local, this user must be
/// able to write to it, and it should have at least `ROOM_BYTES` free.
fn check_mount(directory: &Path, mount: &Mount, is_first: bool) -> Finding {
    if !is_first {
        return check_searched(directory, mount);
    }
    let shown = description(directory, mount);
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
        assert_eq!(check_mount(&here, &mount("nfs4"), true).status, Status::Wrong);
        assert_ne!(check_mount(&here, &mount("tmpfs"), true).status, Status::Wrong);
        let file = Path::new("/proc/version");
        assert_eq!(check_mount(file, &mount("ext4"), true).status, Status::Wrong);
        assert_eq!(check_directory(Path::new("/no/such"), true, true).status, Status::Warning);
        let missing = here.join("esker-not-there");
        assert_eq!(check_directory(&missing, false, true).status, Status::Fine);
    }

    #[test]
    fn only_the_first_directory_must_be_writable_and_local() {
        let searched = |path: &str| check_mount(Path::new(path), &mount("nfs4"), false).status;
        assert_eq!(searched("/proc/self"), Status::Fine);
        assert_eq!(searched("/proc/version"), Status::Wrong);
    }

    #[test]
    fn space_is_counted() {
        assert!(total_bytes(Path::new("/")).unwrap() >= free_bytes(Path::new("/")).unwrap());
        assert_eq!(total_bytes(Path::new("/no/such")), None);
    }
}
