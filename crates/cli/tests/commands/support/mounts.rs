//! Mounts that only the command under test sees.
use super::Site;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};

/// Runs a script with mounts of its own; `None` where this process may not have any.
pub(crate) fn with_own_mounts(script: &str, set: impl FnOnce(&mut Command)) -> Option<Output> {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let kind = if is_root { "-m" } else { "-rm" };
    let script = format!("mount --make-rprivate / || exit 99\n{script}");
    let mut command = Command::new("unshare");
    command.args([kind, "sh", "-c", &script]).env("ESKER", super::esker());
    set(&mut command);
    let output = command.output().ok()?;
    let mounted = !matches!(output.status.code(), Some(99 | 127))
        && !String::from_utf8_lossy(&output.stderr).contains("unshare:");
    if !mounted {
        esker_testing::skip("this needs unshare and mounts of its own");
    }
    mounted.then_some(output)
}

/// Success and output of a command while the pools are mounted read-only.
pub(crate) fn read_only_with(
    site: &Site,
    command: &str,
    set: impl FnOnce(&mut Command),
) -> Option<(bool, String)> {
    let script = format!(
        "mount --bind \"$ESKER_POOLS\" \"$ESKER_POOLS\" &&
         mount -o remount,bind,ro \"$ESKER_POOLS\" || exit 99
         exec \"$ESKER\" {command} 2>&1"
    );
    let output = with_own_mounts(&script, |command| {
        command.env("ESKER_POOLS", &site.dir);
        set(command);
    })?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}
