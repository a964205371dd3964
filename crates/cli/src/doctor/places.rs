//! The directories of pools, and the file systems they lie on.
use super::Finding;
use esker::names;
use esker_bench::mounts::{Media, Mount};
use esker_bench::units::Bytes;
use rustix::fs::{Access, access, statvfs};
use std::path::{Path, PathBuf};

const CHECK: &str = "directory";
/// Less than this is room for no pool worth the name.
const ROOM_BYTES: u64 = 256 << 20;

pub(super) fn check() -> Vec<Finding> {
    let places = names::pool_directories();
    if places.is_empty() {
        let what = "there is no place for pools";
        return vec![Finding::wrong(CHECK, what, format!("export {}=DIR", names::POOLS_VARIABLE))];
    }
    let chosen = std::env::var_os(names::POOLS_VARIABLE).is_some_and(|value| !value.is_empty());
    places.iter().map(|place| check_place(place, chosen)).collect()
}

/// A directory that is chosen should be there; the default one is made with the first pool.
fn check_place(place: &Path, chosen: bool) -> Finding {
    let shown = place.display();
    if !place.exists() {
        return match (chosen, existing_parent(place)) {
            (true, _) => Finding::warning(
                CHECK,
                format!("{shown} is not there"),
                format!("mkdir -p {shown}"),
            ),
            (false, Some(parent)) if is_writable(&parent) => {
                Finding::fine(CHECK, format!("{shown} is made with the first pool"))
            }
            (false, _) => cannot_write(place),
        };
    }
    match Mount::of(place) {
        Ok(mount) => check_mount(place, &mount),
        Err(error) => Finding::wrong(CHECK, error.to_string(), "look at its permissions"),
    }
}

fn existing_parent(place: &Path) -> Option<PathBuf> {
    place.ancestors().find(|parent| parent.exists()).map(Path::to_owned)
}

fn is_writable(place: &Path) -> bool {
    access(place, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn cannot_write(place: &Path) -> Finding {
    let what = format!("{} cannot be written by you", place.display());
    let remedy = format!("export {}=DIR with a directory of yours", names::POOLS_VARIABLE);
    Finding::wrong(CHECK, what, remedy)
}

fn check_mount(place: &Path, mount: &Mount) -> Finding {
    let shown = format!("{} on {} ({})", place.display(), mount.sort, mount.media().name());
    if mount.media() == Media::Network {
        let what = format!("{shown}: other machines share it, pools need a local file system");
        let remedy = format!("export {}=DIR on /dev/shm or a local disk", names::POOLS_VARIABLE);
        return Finding::wrong(CHECK, what, remedy);
    }
    if !place.is_dir() || !is_writable(place) {
        return cannot_write(place);
    }
    match free_bytes(place) {
        Some(free) if free < ROOM_BYTES => {
            let what = format!("{shown}: only {} free", Bytes(free));
            Finding::warning(CHECK, what, "remove something, or use another directory")
        }
        Some(free) => Finding::fine(CHECK, format!("{shown}, {} free", Bytes(free))),
        None => Finding::fine(CHECK, shown),
    }
}

/// Bytes that this user may still fill.
fn free_bytes(place: &Path) -> Option<u64> {
    let status = statvfs(place).ok()?;
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}

/// Bytes of a file system, filled or not.
pub(super) fn total_bytes(place: &Path) -> Option<u64> {
    let status = statvfs(place).ok()?;
    Some(status.f_blocks.saturating_mul(status.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    fn mount(sort: &str) -> Mount {
        Mount { point: "/".into(), sort: sort.to_owned(), source: String::new(), dax: false }
    }

    #[test]
    fn a_place_that_is_shared_missing_or_closed_is_told_of() {
        let here = std::env::temp_dir();
        assert_eq!(check_mount(&here, &mount("nfs4")).status, Status::Wrong);
        assert_ne!(check_mount(&here, &mount("tmpfs")).status, Status::Wrong);
        assert_eq!(check_mount(Path::new("/proc/version"), &mount("ext4")).status, Status::Wrong);
        assert_eq!(check_place(Path::new("/no/such"), true).status, Status::Warning);
        assert_eq!(check_place(&here.join("esker-not-there"), false).status, Status::Fine);
    }

    #[test]
    fn space_is_counted() {
        assert!(total_bytes(Path::new("/")).unwrap() >= free_bytes(Path::new("/")).unwrap());
        assert_eq!(total_bytes(Path::new("/no/such")), None);
    }
}
