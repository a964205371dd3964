//! The pools in the pool directories, and leftovers.
use super::Finding;
use esker::types::ErrorKind;
use esker::types::info::{OpenMode, Part};
use esker::{Pool, names};
use esker_store::Superblock;
use std::path::{Path, PathBuf};

const CHECK: &str = "pool";
const CHECK_LEFTOVERS: &str = "left behind";

/// Checks the pools in the directories of pools, and looks for files left by killed processes.
pub(super) fn check() -> Vec<Finding> {
    let places = names::pool_directories();
    let mut findings: Vec<_> = places
        .iter()
        .flat_map(|place| entries(place))
        .filter_map(|path| check_entry(&path))
        .collect();
    let scratch = places.into_iter().chain([PathBuf::from("/dev/shm"), std::env::temp_dir()]);
    let mut scratch: Vec<_> = scratch.filter_map(|place| place.canonicalize().ok()).collect();
    scratch.sort();
    scratch.dedup();
    findings.extend(
        scratch.iter().flat_map(|place| entries(place)).filter_map(|path| check_scratch(&path)),
    );
    findings
}

/// Returns the paths of all entries of a directory, sorted. Empty if it cannot be read.
fn entries(place: &Path) -> Vec<PathBuf> {
    let entries = place.read_dir().into_iter().flatten();
    let mut paths: Vec<_> =
        entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    paths
}

/// Checks a pool, or reports the leftovers of an interrupted creation or removal.
fn check_entry(path: &Path) -> Option<Finding> {
    let unfinished = esker_os::directory::is_unfinished(path);
    if path.join("pool").exists() && !unfinished {
        return Some(check_pool(path));
    }
    let is_incomplete = path.join("target-0").exists() || path.join("pool.new").exists();
    (is_incomplete || unfinished).then(|| {
        let shown = path.display();
        let what = format!(
            "{shown} is part of a pool: its creation or removal was interrupted, or is under way"
        );
        let remedy = format!(
            "unless it is under way: create or destroy any pool in {}, which cleans up, or rm -r {shown}",
            path.parent().unwrap_or(path).display()
        );
        Finding::warning(CHECK_LEFTOVERS, what, remedy)
    })
}

/// Judges the pool at `path` by opening it read-only. A node's pool is not opened: `esker pool check` checks the pool
/// over nodes that it belongs to.
fn check_pool(path: &Path) -> Finding {
    let url = format!("esker:{}", path.display());
    let superblock = Superblock::read(path);
    if let Ok(Superblock { part: part @ Part { node, nodes }, .. }) = superblock
        && part != Part::WHOLE
    {
        let what = format!(
            "{} is the pool of node {node} of {nodes}: `esker pool check POOL` checks the pool over nodes",
            path.display()
        );
        return Finding::fine(CHECK, what);
    }
    match superblock.and_then(|_| Pool::connect(&url, OpenMode::ReadOnly)) {
        Ok(_) => Finding::fine(CHECK, format!("{} opens", path.display())),
        Err(error) if error.kind() == ErrorKind::Busy => {
            Finding::fine(CHECK, format!("{} is in exclusive use", path.display()))
        }
        Err(error) => {
            let remedy = match error.kind() {
                ErrorKind::Incompatible => "use the release that created it".to_owned(),
                ErrorKind::NoPermission => "ask its owner for access".to_owned(),
                _ if esker_store::Pool::check_pages(path).is_err() => {
                    format!("esker pool salvage {url} NEW")
                }
                _ => format!("esker pool check --repair {url}"),
            };
            Finding::wrong(CHECK, format!("{} does not open: {error}", path.display()), remedy)
        }
    }
}

/// Reports the directory of a benchmark, which is named after its process, if that has ended.
fn check_scratch(path: &Path) -> Option<Finding> {
    let process = path.file_name()?.to_str()?.strip_prefix("esker-bench-")?;
    let is_number = process.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || Path::new("/proc").join(process).exists() {
        return None;
    }
    let what = format!("{} is left over from a benchmark that has ended", path.display());
    Some(Finding::warning(CHECK_LEFTOVERS, what, format!("rm -r {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn leftovers_of_interrupted_commands_are_found() {
        let place = std::env::temp_dir().join(format!("esker-doctor-{}", std::process::id()));
        let part = place.join("half");
        std::fs::create_dir_all(part.join("target-0")).unwrap();
        assert_eq!(check_entry(&part).unwrap().status, Status::Warning);
        assert_eq!(check_entry(&place), None);
        std::fs::write(part.join("pool"), "format = 0\n").unwrap();
        assert_eq!(check_entry(&part).unwrap().status, Status::Wrong);
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn directories_of_running_benchmarks_are_not_reported() {
        let of = |process: &str| check_scratch(Path::new(&format!("/tmp/esker-bench-{process}")));
        assert_eq!(of(&std::process::id().to_string()), None);
        assert_eq!(of("not-a-number"), None);
        assert_eq!(of("4194305000").unwrap().status, Status::Warning);
    }
}
