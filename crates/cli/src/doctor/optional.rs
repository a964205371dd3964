//! Optional parts: libraries that are loaded on first use, and mounting.
use super::{Finding, Status};
use esker::types::Result;
use esker_fields::eccodes;
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// A library that Esker loads when a command first needs it.
struct Library {
    check: &'static str,
    /// Use of the library, as the subject of "need it".
    users: &'static str,
    /// Variable that names the file of the library.
    variable: &'static str,
    /// Ways to install it.
    packages: &'static str,
    load: fn() -> Result<()>,
}

const LIBRARIES: [Library; 4] = [
    Library {
        check: "ecCodes",
        users: "GRIB files",
        variable: eccodes::VARIABLE,
        packages: "apt-get install libeccodes0, dnf install eccodes or pip install eccodeslib",
        load: || eccodes::Library::shared().map(drop),
    },
    Library {
        check: "librados",
        users: "pools on Ceph (rados:)",
        variable: esker_rados::librados::VARIABLE,
        packages: "apt-get install librados2 or dnf install librados2",
        load: esker_rados::librados::check_library,
    },
    Library {
        check: "DAOS client",
        users: "pools of a DAOS system (daos:)",
        variable: esker_daos::binding::VARIABLE,
        packages: "install daos-client from DAOS's repository",
        load: esker_daos::binding::check_library,
    },
    Library {
        check: "libfabric",
        users: "pools over nodes with --transport fabric",
        variable: esker_wire::fabric::VARIABLE,
        packages: "apt-get install libfabric1 or dnf install libfabric",
        load: esker_wire::fabric::check_library,
    },
];

/// Checks the libraries that only some functions need.
pub(super) fn check() -> Vec<Finding> {
    let mut findings: Vec<_> = LIBRARIES.iter().map(check_library).collect();
    let mounting = check_mounting(Path::new("/dev/fuse"), unmounting_helper().as_deref());
    let can_mount = mounting.status == Status::Fine;
    findings.push(mounting);
    findings.extend(can_mount.then(|| judge_ring(esker_fuse::check_ring())));
    findings
}

/// Loads a library. If a variable names its file, that file must be usable.
fn check_library(library: &Library) -> Finding {
    let named = std::env::var_os(library.variable).filter(|file| !file.is_empty());
    judge_library(library, named.map(PathBuf::from).as_deref(), (library.load)())
}

/// Judges the result of loading an optional library. A file that the user named must load; one that is nowhere is only
/// absent.
fn judge_library(library: &Library, named: Option<&Path>, loaded: Result<()>) -> Finding {
    let Library { check, users, variable, packages, .. } = library;
    match (loaded, named) {
        (Ok(()), _) => Finding::fine(check, format!("loads, for {users}")),
        (Err(error), Some(file)) => {
            let remedy = format!("correct {variable}={}, or unset it", file.display());
            Finding::warning(check, error.to_string(), remedy)
        }
        (Err(_), None) => {
            let remedy = format!("{packages}, or export {variable}=FILE");
            Finding::absent(check, format!("not found; only {users} need it"), remedy)
        }
    }
}

/// The program that mounts and unmounts for users other than root; root needs none.
fn unmounting_helper() -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let helper = std::env::split_paths(&path).map(|folder| folder.join("fusermount3"));
    let mut found = helper.filter(|file| access(file, Access::EXEC_OK).is_ok());
    found.next().or_else(|| is_root.then(PathBuf::new))
}

/// Whether `esker mount` can work: it needs access to the device of FUSE, and the helper to mount without being root.
fn check_mounting(device: &Path, helper: Option<&Path>) -> Finding {
    const CHECK: &str = "FUSE";
    if access(device, Access::READ_OK | Access::WRITE_OK).is_err() {
        return Finding::absent(
            CHECK,
            format!("no access to {}; only `esker mount` needs it", device.display()),
            "modprobe fuse as root, or start the container with --device /dev/fuse --cap-add SYS_ADMIN",
        );
    }
    match helper {
        Some(_) => Finding::fine(CHECK, "`esker mount` can mount file systems"),
        None => Finding::absent(
            CHECK,
            "fusermount3 is not on PATH; only `esker mount` needs it",
            "apt-get install fuse3 or dnf install fuse3, or mount as root",
        ),
    }
}

/// Judges whether mounts can use io_uring, by the result of the check.
fn judge_ring(checked: Result<()>) -> Finding {
    const CHECK: &str = "FUSE io_uring";
    match checked {
        Ok(()) => Finding::fine(CHECK, "mounts serve the kernel over io_uring"),
        Err(error) => {
            let found =
                "mounts serve the kernel through /dev/fuse, which takes longer for each request";
            Finding::absent(CHECK, found, error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::types::{Error, ErrorKind};

    #[test]
    fn a_missing_library_is_absent_unless_a_variable_names_it() {
        let missing = || Err(ErrorKind::NotSupported.into());
        for library in &LIBRARIES {
            let absent = judge_library(library, None, missing());
            assert_eq!(absent.status, Status::Absent);
            assert!(absent.remedy.unwrap().contains(library.variable));
            let named = judge_library(library, Some(Path::new("/no/such.so")), missing());
            assert_eq!(named.status, Status::Warning);
            assert!(named.remedy.unwrap().contains("/no/such.so"));
            assert_eq!(judge_library(library, None, Ok(())).status, Status::Fine);
        }
    }

    #[test]
    fn mounting_needs_the_device_and_a_helper() {
        let helper = Some(Path::new("/usr/bin/fusermount3"));
        assert_eq!(check_mounting(Path::new("/dev/null"), helper).status, Status::Fine);
        let without_helper = check_mounting(Path::new("/dev/null"), None);
        assert_eq!(without_helper.status, Status::Absent);
        assert!(without_helper.remedy.unwrap().contains("fuse3"));
        let without_device = check_mounting(Path::new("/no/such"), helper);
        assert!(without_device.remedy.unwrap().contains("/dev/fuse"));
    }

    #[test]
    fn missing_ring_is_absent_with_its_remedy() {
        assert_eq!(judge_ring(Ok(())).status, Status::Fine);
        let missing = judge_ring(Err(Error::new(ErrorKind::NotSupported, "echo 1 > it")));
        assert_eq!(missing.status, Status::Absent);
        assert!(missing.remedy.unwrap().contains("echo 1 > it"));
    }
}
