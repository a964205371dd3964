//! Commands on a system that starts no more threads.
use crate::support::{Site, as_user, esker};
use std::fs;
use std::os::unix::fs::chown;
use std::process::{Output, Stdio};

/// A user without other processes, which count as threads.
const USER: u32 = 64_321;

/// Runs a command as a user who may have one thread.
fn run(site: &Site, arguments: &[&str]) -> std::io::Result<Output> {
    let mut command = as_user(USER, "--clear-groups");
    command.args(["prlimit", "--nproc=1:1"]);
    command.arg(esker()).args(arguments).stdin(Stdio::null());
    command.env("ESKER_POOLS", &site.dir).env("ESKER_CONFIG", "").output()
}

#[test]
fn commands_do_without_threads_or_say_what_is_missing() {
    let site = Site::in_memory();
    let may_run = chown(&site.dir, Some(USER), Some(USER)).is_ok()
        && run(&site, &["version"]).is_ok_and(|output| output.status.success());
    if !may_run {
        return esker_testing::skip("this needs to be root, setpriv and prlimit");
    }
    for arguments in [
        &["pool", "create", "tank", "--size", "64M", "--targets", "2"][..],
        &["cont", "create", "tank/home", "--type", "posix"],
        &["pool", "check", "tank"],
    ] {
        let output = run(&site, arguments).unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    fs::create_dir(site.dir.join("from")).unwrap();
    fs::write(site.dir.join("from/file"), b"content").unwrap();
    let from = site.dir.join("from").display().to_string();
    let output = run(&site, &["fs", "cp", "-r", &from, "tank/home:/"]).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("starting a thread") && said.contains("ulimit -u"), "{said}");
}
