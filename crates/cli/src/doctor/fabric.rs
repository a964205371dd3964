//! Fast networks: their devices, and the memory that may be locked for them.
use super::{Finding, Status, machine};
use crate::units::Bytes;
use esker_wire::fabric::{LONG_COUNT, LONG_LEN, SHORT_COUNT, SHORT_LEN};
use std::path::Path;

const CHECK: &str = "fabric";
const CHECK_LOCKED: &str = "locked memory";

/// Directories in which the kernel lists the devices of InfiniBand, RoCE, iWARP and Omni-Path, and of Slingshot.
const DEVICES: [&str; 2] = ["/sys/class/infiniband", "/sys/class/cxi"];

/// Connections over the fabric whose memory should be lockable.
const CONNECTIONS: u64 = 64;

/// Registered memory of one connection, in both directions.
const CONNECTION_BYTES: u64 =
    2 * (SHORT_COUNT as u64 * SHORT_LEN as u64 + LONG_COUNT as u64 * LONG_LEN as u64);

/// Checks the fabric; `others` are the findings so far, among them the one about libfabric.
pub(super) fn check(others: &[Finding]) -> Vec<Finding> {
    let has_library =
        others.iter().any(|finding| finding.check == "libfabric" && finding.status == Status::Fine);
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let devices = devices(&DEVICES.map(Path::new));
    vec![judge_devices(&devices, has_library), judge_locked(&devices, &limits)]
}

/// Names of the devices in these directories, sorted.
fn devices(folders: &[&Path]) -> Vec<String> {
    let entries = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// Judges the devices of a fast network with the presence of libfabric: devices without the library are reported, with
/// the remedy.
fn judge_devices(devices: &[String], has_library: bool) -> Finding {
    let named = devices.join(", ");
    match (devices.is_empty(), has_library) {
        (true, _) => Finding::fine(CHECK, "no fast network; pools over nodes use TCP"),
        (false, true) => {
            Finding::fine(CHECK, format!("{named}; `esker pool create --transport fabric` uses it"))
        }
        (false, false) => Finding::warning(
            CHECK,
            format!("{named}, which only libfabric can use; pools over nodes use TCP"),
            "install libfabric (see the check of this name)",
        ),
    }
}

/// Judges the limit of locked memory: on machines with a fast network, connections lock the memory that they register.
fn judge_locked(devices: &[String], limits: &str) -> Finding {
    let wanted = CONNECTIONS * CONNECTION_BYTES;
    match machine::limit_below(limits, "Max locked memory", Some(wanted)) {
        Some(limit) if !devices.is_empty() => Finding::warning(
            CHECK_LOCKED,
            format!(
                "only {}: a connection over the fabric registers {}",
                Bytes(limit),
                Bytes(CONNECTION_BYTES)
            ),
            "ulimit -l unlimited; root sets `* - memlock unlimited` in /etc/security/limits.d, and in Slurm \
             PropagateResourceLimitsExcept=MEMLOCK",
        ),
        Some(limit) => {
            let what = format!("{}, enough: there is no fast network", Bytes(limit));
            Finding::fine(CHECK_LOCKED, what)
        }
        None => Finding::fine(CHECK_LOCKED, "high enough"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: &str = "Max locked memory         8388608              8388608              bytes\n";
    const NONE: &str =
        "Max locked memory         unlimited            unlimited            bytes\n";

    #[test]
    fn devices_of_networks_are_listed() {
        let folder = std::env::temp_dir().join(format!("esker-fabric-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("mlx5_1")).unwrap();
        std::fs::create_dir_all(folder.join("mlx5_0")).unwrap();
        assert_eq!(devices(&[Path::new("/no/such"), &folder]), ["mlx5_0", "mlx5_1"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_network_without_libfabric_is_reported() {
        let device = ["mlx5_0".to_owned()];
        assert_eq!(judge_devices(&device, false).status, Status::Warning);
        assert_eq!(judge_devices(&device, true).status, Status::Fine);
        assert_eq!(judge_devices(&[], false).status, Status::Fine);
    }

    #[test]
    fn a_low_limit_of_locked_memory_is_reported_if_there_is_a_network() {
        let device = ["hsn0".to_owned()];
        let low = judge_locked(&device, LOW);
        assert_eq!(low.status, Status::Warning);
        assert!(low.what.contains("8 MiB") && low.what.contains("2.50 MiB"), "{}", low.what);
        assert!(low.remedy.unwrap().contains("ulimit -l"));
        assert_eq!(judge_locked(&[], LOW).status, Status::Fine);
        assert_eq!(judge_locked(&device, NONE).status, Status::Fine);
    }
}
