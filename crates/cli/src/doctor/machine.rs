//! Shared memory, limits, kernel and PID namespace.
use super::Finding;
use super::directories::total_bytes;
use crate::units::Bytes;
use std::path::Path;

/// Shared memory that is enough for useful pools; the default of container runtimes is less.
const SHARED_MEMORY_BYTES: u64 = 1 << 30;
/// Open files that a program with several pools and sockets may need.
const OPEN_FILES: u64 = 1024;
/// First kernel with locks of open file descriptions.
const KERNEL_LEAST: (u32, u32) = (3, 15);
/// First kernel that populates many pages in one call, `MADV_POPULATE_WRITE`.
const KERNEL_WANTED: (u32, u32) = (5, 14);
/// The kernel's setting of transparent huge pages; brackets mark the chosen word.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// Inode of the first PID namespace of every kernel.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Checks the limits and the kernel of this machine.
pub(super) fn check() -> Vec<Finding> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let mut findings = vec![shared_memory(total_bytes(Path::new("/dev/shm")))];
    findings.extend(check_limits(&limits));
    findings.push(kernel(release.trim()));
    let setting = std::fs::read_to_string(HUGE_PAGES).unwrap_or_default();
    findings.push(huge_pages(esker_store::has_huge_pages(Path::new("/dev/shm")).ok(), &setting));
    findings.push(pid_namespace(&namespace.to_string_lossy()));
    findings
}

/// Checks the size of `/dev/shm`.
fn shared_memory(total: Option<u64>) -> Finding {
    const CHECK: &str = "/dev/shm";
    match total {
        Some(total) if total >= SHARED_MEMORY_BYTES => {
            Finding::fine(CHECK, format!("{} in total", Bytes(total)))
        }
        Some(total) => Finding::warning(
            CHECK,
            format!("only {} in total: pools in memory will be small", Bytes(total)),
            "mount -o remount,size=4G /dev/shm as root, or start the container with --shm-size=4g",
        ),
        None => {
            let what = "not mounted: pools in memory need another tmpfs";
            Finding::warning(CHECK, what, "mount -t tmpfs tmpfs /dev/shm as root")
        }
    }
}

/// Checks that files in memory can have huge pages.
fn huge_pages(has: Option<bool>, setting: &str) -> Finding {
    const CHECK: &str = "huge pages";
    match has {
        Some(true) => Finding::fine(CHECK, "supported for files in memory"),
        Some(false) if setting.contains("[never]") => Finding::warning(
            CHECK,
            "switched off: new processes are slower at first",
            format!("echo madvise >{HUGE_PAGES} as root"),
        ),
        Some(false) => Finding::warning(
            CHECK,
            "not supported for files in memory: new processes are slower at first",
            "use Linux 6.1 or later without PR_SET_THP_DISABLE, or accept small pages",
        ),
        None => Finding::fine(CHECK, "not checked: /dev/shm accepts no files"),
    }
}

/// Limits that are too low, or one finding that none is.
fn check_limits(table: &str) -> Vec<Finding> {
    const CHECK: &str = "limits";
    let too_low = [
        limit_below(table, "Max open files", Some(OPEN_FILES))
            .map(|limit| (format!("only {limit} open files"), format!("ulimit -n {OPEN_FILES}"))),
        limit_below(table, "Max file locks", None)
            .map(|limit| (format!("only {limit} file locks"), "ulimit -x unlimited".to_owned())),
        limit_below(table, "Max address space", None).map(|limit| {
            let what = format!("only {} of address space, which mapped pools need", Bytes(limit));
            (what, "ulimit -v unlimited".to_owned())
        }),
        limit_below(table, "Max file size", None).map(|limit| {
            (format!("files are limited to {}", Bytes(limit)), "ulimit -f unlimited".to_owned())
        }),
    ];
    let findings: Vec<_> = too_low
        .into_iter()
        .flatten()
        .map(|(what, remedy)| Finding::warning(CHECK, what, remedy))
        .collect();
    if findings.is_empty() { vec![Finding::fine(CHECK, "high enough")] } else { findings }
}

/// Returns the soft limit `name` in the table of limits if it is below `wanted`. Without `wanted`, returns the limit if
/// there is one.
pub(super) fn limit_below(table: &str, name: &str, wanted: Option<u64>) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let soft = line.split_whitespace().next()?.parse().ok()?;
    (soft < wanted.unwrap_or(u64::MAX)).then_some(soft)
}

/// Checks the version of the kernel.
fn kernel(release: &str) -> Finding {
    const CHECK: &str = "kernel";
    let Some(version) = version_of(release) else {
        return Finding::warning(
            CHECK,
            format!("unknown version {release:?}"),
            "use Linux 5.14 or later",
        );
    };
    if version < KERNEL_LEAST {
        let what = format!("{release} does not support locks of open file descriptions");
        return Finding::wrong(CHECK, what, "use Linux 5.14 or later");
    }
    if version < KERNEL_WANTED {
        let what = format!("{release}: the first use of a pool's memory is slow");
        return Finding::warning(CHECK, what, "use Linux 5.14 or later");
    }
    Finding::fine(CHECK, release)
}

/// Returns the major and minor version of a kernel release: (6, 1) for `6.1.0-13-amd64`. None if it has another form.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Checks the PID namespace: processes of another one cannot share pools.
fn pid_namespace(link: &str) -> Finding {
    const CHECK: &str = "processes";
    if link == FIRST_PID_NAMESPACE {
        return Finding::fine(CHECK, "in the PID namespace of the machine");
    }
    let what = "in a separate PID namespace (a container): pools cannot be shared with processes outside it";
    let remedy = "to share pools, start the container with --pid=host; otherwise none is needed";
    Finding::warning(CHECK, what, remedy)
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn kernels_are_told_apart() {
        let status = |release: &str| kernel(release).status;
        assert_eq!(status("6.1.0-13-amd64"), Status::Fine);
        assert_eq!(status("5.14.0-362.el9"), Status::Fine);
        assert_eq!(status("4.18.0-553.el8"), Status::Warning);
        assert_eq!(status("3.10.0"), Status::Wrong);
        assert_eq!(status("unheard of"), Status::Warning);
    }

    #[test]
    fn limits_in_the_way_are_named() {
        let table = "\
Limit                     Soft Limit           Hard Limit           Units
Max file size             unlimited            unlimited            bytes
Max open files            256                  1048576              files
Max address space         unlimited            unlimited            bytes
Max file locks            unlimited            unlimited            locks
";
        let findings = check_limits(table);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].what, "only 256 open files");
        assert_eq!(check_limits("")[0].status, Status::Fine);
    }

    #[test]
    fn small_shared_memory_is_reported() {
        assert_eq!(shared_memory(Some(64 << 20)).status, Status::Warning);
        assert_eq!(shared_memory(Some(8 << 30)).status, Status::Fine);
        assert_eq!(shared_memory(None).status, Status::Warning);
    }

    #[test]
    fn huge_pages_that_are_switched_off_have_a_remedy() {
        let off = huge_pages(Some(false), "always madvise [never]\n");
        assert!(off.remedy.unwrap().contains("echo madvise"));
        assert_eq!(huge_pages(Some(false), "[always] madvise never\n").status, Status::Warning);
        assert_eq!(huge_pages(Some(true), "").status, Status::Fine);
    }

    #[test]
    fn containers_are_described() {
        assert_eq!(pid_namespace(FIRST_PID_NAMESPACE).status, Status::Fine);
        assert_eq!(pid_namespace("pid:[4026532000]").status, Status::Warning);
    }
}
