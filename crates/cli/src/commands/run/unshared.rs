//! The marker of a run in which no process has left an open file or a working directory of the mount point to another.
//! While it exists, a program that starts need not search for them in `/proc`, which takes a tenth of the start of a
//! small program. The interception library removes it before the first fork or exec that leaves something.
use esker_preload_interface::{SHOWN_PREFIX, UNSHARED};
use std::fs;
use std::path::Path;

/// Makes the marker, unless this process itself may have inherited something from another run. Without the marker,
/// programs search for files that they have inherited, so it is not an error if it cannot be written.
pub(super) fn mark(run_dir: &Path) {
    let is_nested = std::env::var_os("ESKER_RUN_DIR").is_some();
    if !is_nested && !inherits_files().unwrap_or(true) {
        let _ = fs::write(run_dir.join(UNSHARED), "");
    }
}

/// True if a descriptor of this process is an open file of another run, or its working directory may be one.
fn inherits_files() -> std::io::Result<bool> {
    let directory = fs::read_link("/proc/self/cwd")?;
    let mut found = directory.to_string_lossy().contains(super::RUN_DIR);
    for entry in fs::read_dir("/proc/self/fd")? {
        let target = fs::read_link(entry?.path()).unwrap_or_default();
        found |= target.to_string_lossy().starts_with(SHOWN_PREFIX);
    }
    Ok(found)
}
